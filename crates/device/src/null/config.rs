//! The configuration of a null device, its validation and the limits that follow from it.
use crate::device_spec::Written;
use crate::quantity::format_size;
use crate::storage::Storage;
use crate::zns_options::{ZrwaOptions, validate_extension, validate_zrwa};
use crate::zones::ZoneLayout;
use zonal_blk::{Bytes, Limits, Nanos, Sector, ZrwaLimits};

/// A configuration that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An option has an invalid value.
    #[error("option `{option}`: found {found}, expected {expected}")]
    Value {
        /// The option's name.
        option: &'static str,
        /// Its value.
        found: String,
        /// The values that are allowed.
        expected: String,
    },
    /// The capacity does not fit in 64 bits.
    #[error(
        "option `zones`: {zones} zones of {zone_size} each are more than 2^64 bytes, \
         expected fewer or smaller ones"
    )]
    CapacityOverflow {
        /// Number of zones.
        zones: u32,
        /// Their size, as text.
        zone_size: String,
    },
}

impl ConfigError {
    /// The option that the error is about.
    pub fn option(&self) -> &'static str {
        match self {
            ConfigError::Value { option, .. } => option,
            ConfigError::CapacityOverflow { .. } => "zones",
        }
    }
}

/// Most zones of a device: 1 GiB of zone states.
const MAX_ZONES: u32 = 1 << 24;
/// Largest device that keeps data: 512 MiB of locks before anything is written.
const MAX_MEMORY: Bytes = Bytes(256 << 40);
/// Longest command; far beyond what hardware takes.
const MAX_IO: Bytes = Bytes(1 << 30);
/// Default of `max_open`: what Linux assumes of a device without limits.
const DEFAULT_MAX_OPEN: u32 = 128;

/// The configuration of a null device. `Default` has the defaults of the device spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NullConfig {
    /// Whether the device has zones.
    pub zoned: bool,
    /// Number of zones; ignored, as are all zone options, if `zoned` is false.
    pub zones: u32,
    /// Zone size; need not be a power of two.
    pub zone_size: Bytes,
    /// Zone capacity; `None` for the zone size.
    pub zone_capacity: Option<Bytes>,
    /// Leading zones that are conventional.
    pub conventional: u32,
    /// Maximum open zones, 0 for no limit; `None` for 128 or `max_active`, whichever is less.
    pub max_open: Option<u32>,
    /// Maximum active zones; 0 for no limit.
    pub max_active: u32,
    /// Longest native zone append; 0 to have the block layer emulate it. The default of Linux's
    /// null_blk is its longest command.
    pub append_max: Bytes,
    /// Size of a regular device.
    pub size: Bytes,
    /// Logical block size in bytes: 512 or 4096.
    pub lba: u32,
    /// Hardware queues on offer.
    pub queues: u16,
    /// Queue depth of a hardware queue. The default is 1024, about what NVMe drives have; that of
    /// null_blk is 64.
    pub depth: u16,
    /// Latency of a command.
    pub latency: Nanos,
    /// Upper bound of the random latency that is added.
    pub jitter: Nanos,
    /// Seed of the jitter.
    pub seed: u64,
    /// Longest command. The default is 1 MiB; that of null_blk is its kernel's, of the same order.
    pub max_io: Bytes,
    /// Size of the random write area that a zone can be opened with, from the write pointer on; 0 for
    /// none.
    pub zrwa: Bytes,
    /// Flush granularity of the random write area.
    pub zrwa_granularity: Bytes,
    /// Zones that may have a random write area at once; 0 for as many as may be active.
    pub max_zrwa: u32,
    /// Bytes of the descriptor extension of a zone, a multiple of 64; 0 for none.
    pub descriptor_extension: u32,
    /// Whether data are kept. If not, writes are discarded and reads leave buffers as they are.
    pub memory: bool,
    /// The zones that a new device has written to their end.
    pub written: Written,
}

impl Default for NullConfig {
    fn default() -> Self {
        NullConfig {
            zoned: true,
            zones: 4096,
            zone_size: Bytes(256 << 20),
            zone_capacity: None,
            conventional: 0,
            max_open: None,
            max_active: 0,
            append_max: Bytes(0),
            size: Bytes(1 << 40),
            lba: 512,
            queues: u16::MAX,
            depth: 1024,
            latency: Nanos(0),
            jitter: Nanos(0),
            seed: 0,
            max_io: Bytes(1 << 20),
            zrwa: Bytes(0),
            zrwa_granularity: Bytes(16 << 10),
            max_zrwa: 0,
            descriptor_extension: 0,
            memory: false,
            written: Written::default(),
        }
    }
}

impl NullConfig {
    /// Zone capacity of a sequential zone.
    pub fn effective_zone_capacity(&self) -> Bytes {
        self.zone_capacity.unwrap_or(self.zone_size)
    }

    /// Maximum open zones as configured; 0 for no limit.
    pub fn open_limit(&self) -> u32 {
        match (self.max_open, self.max_active) {
            (Some(max_open), _) => max_open,
            (None, 0) => DEFAULT_MAX_OPEN,
            (None, max_active) => max_active.min(DEFAULT_MAX_OPEN),
        }
    }

    /// Size of the device.
    ///
    /// # Errors
    /// [`ConfigError::CapacityOverflow`] if it exceeds 2^64 bytes.
    pub fn capacity(&self) -> Result<Bytes, ConfigError> {
        if !self.zoned {
            return Ok(self.size);
        }
        let capacity = u64::from(self.zones).checked_mul(self.zone_size.0);
        let error = || ConfigError::CapacityOverflow {
            zones: self.zones,
            zone_size: format_size(self.zone_size.0),
        };
        capacity.map(Bytes).ok_or_else(error)
    }

    /// Validates the configuration.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let at_least_1 = || "at least 1".to_owned();
        let lba_ok = matches!(self.lba, 512 | 4096);
        rule("lba", lba_ok, self.lba, || "512 or 4096".to_owned())?;
        rule("queues", self.queues > 0, self.queues, at_least_1)?;
        rule("depth", self.depth > 0, self.depth, at_least_1)?;
        let max_io_ok = self.is_lbas(self.max_io) && self.max_io <= MAX_IO;
        rule("max_io", max_io_ok, size(self.max_io), || {
            format!("{} up to {}", self.lbas(), size(MAX_IO))
        })?;
        if self.zoned {
            self.validate_zones()?;
        } else {
            rule("size", self.is_lbas(self.size), size(self.size), || self.lbas())?;
        }
        let capacity = self.capacity()?;
        let capacity_ok = !self.memory || capacity <= MAX_MEMORY;
        rule("memory", capacity_ok, format!("true for {}", size(capacity)), || {
            format!("a device of at most {}", size(MAX_MEMORY))
        })
    }

    fn validate_zones(&self) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let zones_ok = (1..=MAX_ZONES).contains(&self.zones);
        rule("zones", zones_ok, self.zones, || format!("from 1 to {MAX_ZONES}"))?;
        let zone_size_ok = self.is_lbas(self.zone_size);
        rule("zone_size", zone_size_ok, size(self.zone_size), || self.lbas())?;
        let capacity = self.effective_zone_capacity();
        let capacity_ok = self.is_lbas(capacity) && capacity <= self.zone_size;
        rule("zone_capacity", capacity_ok, size(capacity), || {
            format!("{} up to zone_size={}", self.lbas(), size(self.zone_size))
        })?;
        let conventional_ok = self.conventional <= self.zones;
        rule("conventional", conventional_ok, self.conventional, || {
            format!("at most zones={}", self.zones)
        })?;
        let max_open = self.open_limit();
        let max_open_ok = self.max_active == 0 || max_open <= self.max_active;
        rule("max_open", max_open_ok, max_open, || {
            format!("at most max_active={}", self.max_active)
        })?;
        validate_zrwa(self.zrwa(), self.lba, capacity)?;
        validate_extension(self.descriptor_extension)?;
        let append_ok = self.append_max.0.is_multiple_of(self.lba.into());
        let append_ok = append_ok && self.append_max <= self.max_io;
        rule("append_max", append_ok, size(self.append_max), || {
            format!("a multiple of lba={} up to max_io={}", self.lba, size(self.max_io))
        })
    }

    /// Whether a length is a non-zero multiple of the logical block size.
    fn is_lbas(&self, length: Bytes) -> bool {
        length.0 > 0 && length.0.is_multiple_of(self.lba.into())
    }

    fn lbas(&self) -> String {
        format!("a non-zero multiple of lba={}", self.lba)
    }

    /// The zone layout of a valid configuration with zones.
    pub(crate) fn layout(&self) -> ZoneLayout {
        ZoneLayout {
            nr_zones: self.zones,
            zone_size: self.zone_size.to_sectors(),
            zone_capacity: self.effective_zone_capacity().to_sectors(),
            conventional: self.conventional,
            max_open: self.open_limit(),
            max_active: self.max_active,
            zrwa: self.zrwa().limits(self.zones, self.max_active),
            extension: self.descriptor_extension,
        }
    }

    fn zrwa(&self) -> ZrwaOptions {
        ZrwaOptions { size: self.zrwa, granularity: self.zrwa_granularity, max: self.max_zrwa }
    }

    /// The device's limits.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub(crate) fn limits(&self) -> Result<Limits, ConfigError> {
        self.validate()?;
        let layout = self.zoned.then(|| self.layout());
        let limit = |limit: fn(&ZoneLayout) -> u32| layout.as_ref().map_or(0, limit);
        let sectors = |bytes: Bytes| {
            u32::try_from(bytes.to_sectors().0).expect("a command is at most 1 GiB long")
        };
        Ok(Limits {
            lba_size: self.lba,
            capacity: self.capacity()?.to_sectors(),
            zone_size: layout.as_ref().map_or(Sector(0), |layout| layout.zone_size),
            nr_zones: limit(|layout| layout.nr_zones),
            max_open_zones: limit(ZoneLayout::open_limit),
            max_active_zones: limit(ZoneLayout::active_limit),
            max_sectors: sectors(self.max_io),
            append_max_sectors: if self.zoned { sectors(self.append_max) } else { 0 },
            max_write_zeroes_sectors: u32::MAX,
            nr_queues: self.queues,
            queue_depth: self.depth,
            rotational: false,
            zrwa: layout.map_or(ZrwaLimits::NONE, |layout| layout.zrwa),
        })
    }

    /// The storage of a device with these limits.
    pub(crate) fn storage(&self, limits: &Limits) -> Storage {
        let layout = self.zoned.then(|| self.layout());
        Storage::new(limits, layout.as_ref(), self.memory)
    }
}

/// An error for `option` unless the rule `holds`.
pub(crate) fn rule(
    option: &'static str,
    holds: bool,
    found: impl ToString,
    expected: impl FnOnce() -> String,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Value { option, found: found.to_string(), expected: expected() })
}
