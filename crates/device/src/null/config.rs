//! The configuration of a null device, its validation and the limits that follow from it.
use super::NullDevice;
use crate::config::{ConfigError, Rules, check_ranges, device_options, rule};
use crate::quantity::format_size;
use crate::storage::Storage;
use crate::zns_options::{ZrwaOptions, validate_extension, validate_zrwa};
use crate::zones::ZoneLayout;
use zonal_blk::{Bytes, Limits, Nanos, Sector, ZrwaLimits};

/// Most zones of a device: 1 GiB of zone states.
const MAX_ZONES: u64 = 1 << 24;
/// Longest command; far beyond what hardware takes.
const MAX_IO: Bytes = Bytes(1 << 30);
/// Default of `max_open`: what Linux assumes of a device without limits.
const DEFAULT_MAX_OPEN: u32 = 128;

device_options! {
    "null": NullDevice, profiles [], scopes ["zoned=true", "zoned=false"];

    /// The configuration of a null device. Without `zoned`, the options of zones are ignored. Without
    /// `memory`, writes are discarded and reads leave buffers as they are.
    pub struct NullConfig {
        Any zoned: bool = Flag("true"), "whether the device has zones";
        Zoned zones: u32 = Count("4096") in 1..=MAX_ZONES, "number of zones";
        Zoned zone_size: Bytes = Size("256M"),
            "distance between zone starts; need not be a power of two";
        Zoned zone_capacity: Option<Bytes> = Size("zone_size"),
            "writable part of a sequential zone";
        Zoned conventional: u32 = Count("0"), "leading zones that are conventional";
        Zoned max_open: Option<u32> = Count("128, or max_active if less"),
            "zones that may be open at once; 0 for no limit";
        Zoned max_active: u32 = Count("0"),
            "zones that may be open or closed at once; 0 for no limit";
        /// The default of Linux's null_blk is its longest command.
        Zoned append_max: Bytes = Size("0"), "longest native zone append; 0 to have it emulated";
        Regular size: Bytes = Size("1T"), "size of the device";
        Any lba: u32 = Size("512"), "logical block size, 512 or 4096";
        Any queues: u16 = Count("65535") in 1..=u64::MAX,
            "hardware queues on offer, opened as they are needed";
        /// The default is about what NVMe drives have; that of null_blk is 64.
        Any depth: u16 = Count("1024") in 1..=u64::MAX, "commands in flight on one hardware queue";
        Any latency: Nanos = Time("0"), "how long a command takes";
        Any jitter: Nanos = Time("0"),
            "what a command takes longer, at random, less than this much";
        Any seed: u64 = Count("0"), "seed of the jitter";
        Any max_io: Bytes = Size("1M"), "longest command";
        /// The area begins at the write pointer.
        Zoned zrwa: Bytes = Size("0"),
            "random write area that a zone can be opened with; 0 for none";
        Zoned zrwa_granularity: Bytes = Size("16K"),
            "what the write pointer moves by where there is such an area";
        Zoned max_zrwa: u32 = Count("0"),
            "zones that may have such an area; 0 for as many as may be active";
        Zoned descriptor_extension: u32 = Count("0"),
            "bytes that a host can keep with a zone, a multiple of 64";
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
        Rules::capacity(self.zones, self.zone_size)
    }

    /// Validates the configuration.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let rules = Rules { lba: self.lba };
        check_ranges(self, self.zoned)?;
        rules.commands(self.max_io, MAX_IO)?;
        if self.zoned {
            self.validate_zones(rules)?;
        } else {
            let size = format_size(self.size.0);
            rule("size", rules.is_lbas(self.size), size, || rules.lbas())?;
        }
        let nr_zones = if self.zoned { self.zones } else { 0 };
        self.written.check(nr_zones)?;
        Rules::memory(self.memory, self.capacity()?)
    }

    fn validate_zones(&self, rules: Rules) -> Result<(), ConfigError> {
        let capacity = self.effective_zone_capacity();
        rules.zones(self.zone_size, capacity)?;
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
        rules.append(self.append_max, self.max_io)
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
            write_granularity: 0,
            zrwa: layout.map_or(ZrwaLimits::NONE, |layout| layout.zrwa),
        })
    }

    /// The storage of a device with these limits.
    pub(crate) fn storage(&self, limits: &Limits) -> Storage {
        let layout = self.zoned.then(|| self.layout());
        Storage::new(limits, layout.as_ref(), self.memory)
    }
}
