//! What a null device is to be like, and the rules that it must obey.
//!
//! Takes a configuration; gives the limits of the device, or the first rule that is broken.
use crate::quantity::format_size;
use crate::zones::ZoneLayout;
use zonal_blk::{Bytes, Limits, Nanos, Sector};

/// A configuration that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An option has a value that it cannot have.
    #[error("option `{option}`: found {found}, expected {expected}")]
    Value {
        /// The option's name.
        option: &'static str,
        /// Its value.
        found: String,
        /// The values it may have.
        expected: String,
    },
    /// The device would have more bytes than 64 bits can count.
    #[error(
        "option `zones`: {zones} zones of {zone_size} each are more than 2^64 bytes, \
         expected fewer or smaller ones"
    )]
    CapacityOverflow {
        /// Number of zones.
        zones: u32,
        /// Their size, written as in an option.
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

/// The most zones a device may have: 1 GiB of zone states.
const MAX_ZONES: u32 = 1 << 24;
/// The largest device that keeps data: 512 MiB of locks, before anything is written.
const MAX_MEMORY: Bytes = Bytes(256 << 40);
/// The longest command; far beyond what hardware takes.
const MAX_IO: Bytes = Bytes(1 << 30);
/// Open zones unless said otherwise, as Linux assumes of a device without limits (A42).
const DEFAULT_MAX_OPEN: u32 = 128;

/// What a null device is to be like. `Default` gives the defaults of the device specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NullConfig {
    /// Whether the device has zones.
    pub zoned: bool,
    /// Number of zones; not looked at, as all that concerns zones, if `zoned` is false.
    pub zones: u32,
    /// Distance between zone starts. Need not be a power of two.
    pub zone_size: Bytes,
    /// Writable part of a sequential zone; `None` for all of it.
    pub zone_capacity: Option<Bytes>,
    /// Leading zones that are conventional.
    pub conventional: u32,
    /// Zones that may be open at once, 0 for no limit; `None` for 128, or `max_active` if that is
    /// less.
    pub max_open: Option<u32>,
    /// Zones that may be active at once; 0 for no limit.
    pub max_active: u32,
    /// Longest native zone append; 0 for a device without, so that the layer emulates it. Linux's
    /// null_blk has native appends as long as its longest command unless told otherwise.
    pub append_max: Bytes,
    /// Size of a device without zones.
    pub size: Bytes,
    /// Logical block size in bytes: 512 or 4096.
    pub lba: u32,
    /// Hardware queues on offer.
    pub queues: u16,
    /// Commands in flight on one hardware queue. 1024 unless said otherwise, about what NVMe
    /// drives have; null_blk has 64.
    pub depth: u16,
    /// How long a command takes.
    pub latency: Nanos,
    /// What a command takes longer than that, at random, up to this much.
    pub jitter: Nanos,
    /// Seed of the jitter.
    pub seed: u64,
    /// Longest command. 1 MiB unless said otherwise; null_blk takes its kernel's default, which
    /// is of that order, unless its `max_sectors` is set.
    pub max_io: Bytes,
    /// Whether data are kept. Otherwise writes are forgotten and reads leave buffers as they are.
    pub memory: bool,
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
            memory: false,
        }
    }
}

impl NullConfig {
    /// Writable part of a sequential zone.
    pub fn effective_zone_capacity(&self) -> Bytes {
        self.zone_capacity.unwrap_or(self.zone_size)
    }

    /// Zones that may be open at once, as configured; 0 for no limit.
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
    /// [`ConfigError::CapacityOverflow`] if it has more than 2^64 bytes.
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

    /// Checks the configuration.
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
        let append_ok = self.append_max.0.is_multiple_of(self.lba.into());
        let append_ok = append_ok && self.append_max <= self.max_io;
        rule("append_max", append_ok, size(self.append_max), || {
            format!("a multiple of lba={} up to max_io={}", self.lba, size(self.max_io))
        })
    }

    /// Whether a length is a whole number of LBAs, and not zero.
    fn is_lbas(&self, length: Bytes) -> bool {
        length.0 > 0 && length.0.is_multiple_of(self.lba.into())
    }

    fn lbas(&self) -> String {
        format!("a non-zero multiple of lba={}", self.lba)
    }

    /// How the zones lie; for a valid configuration with zones.
    pub(crate) fn layout(&self) -> ZoneLayout {
        ZoneLayout {
            nr_zones: self.zones,
            zone_size: self.zone_size.to_sectors(),
            zone_capacity: self.effective_zone_capacity().to_sectors(),
            conventional: self.conventional,
            max_open: self.open_limit(),
            max_active: self.max_active,
        }
    }

    /// The limits of a device without zones; the zoned device adds to them.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub(super) fn regular_limits(&self) -> Result<Limits, ConfigError> {
        self.validate()?;
        let sectors = |bytes: Bytes| {
            u32::try_from(bytes.to_sectors().0).expect("a command is at most 1 GiB long")
        };
        Ok(Limits {
            lba_size: self.lba,
            capacity: self.capacity()?.to_sectors(),
            zone_size: Sector(0),
            nr_zones: 0,
            max_open_zones: 0,
            max_active_zones: 0,
            max_sectors: sectors(self.max_io),
            append_max_sectors: if self.zoned { sectors(self.append_max) } else { 0 },
            max_write_zeroes_sectors: u32::MAX,
            nr_queues: self.queues,
            queue_depth: self.depth,
            rotational: false,
        })
    }
}

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
