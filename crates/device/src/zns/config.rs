//! The configuration of a ZNS drive, its validation and the limits that follow from it. Parameters
//! that contradict each other are refused.
use super::ZnsDevice;
use crate::config::{ConfigError, Rules, check_ranges, rule};
use crate::flash::{MAX_IO, MAX_TIME, MIN_RATE, flash_options, validate_rate};
use crate::quantity::{format_rate, format_size, format_time};
use crate::zns_options::{ZrwaOptions, validate_extension, validate_zrwa};
use crate::zones::ZoneLayout;
use zonal_blk::{Bytes, Limits, Nanos};

/// Most zones of a drive.
const MAX_ZONES: u64 = 1 << 20;

flash_options! {
    "zns": ZnsDevice, profiles ["zns-1t", "zn540"], scopes ["", ""];

    /// The configuration of a ZNS drive. The defaults are those of the profile `zns-1t`;
    /// `docs/models.md` says where each comes from.
    pub struct ZnsConfig {
        Any zones: u32 = Count("904") in 1..=MAX_ZONES, "number of zones";
        Any zone_size: Bytes = Size("2G"),
            "distance between zone starts; need not be a power of two";
        Any zone_capacity: Bytes = Size("1077M"), "writable part of a zone";
        Any max_open: u32 = Count("14"), "zones that may be open at once; 0 for no limit";
        Any max_active: u32 = Count("14"),
            "zones that may be open or closed at once; 0 for no limit";
        Any append_max: Bytes = Size("1M"), "longest zone append; 0 to have it emulated";
        Any write_time: Nanos = Time("17us") in 0..=MAX_TIME,
            "controller, for a write before its data are moved";
        Any unit_time: Nanos = Time("0") in 0..=MAX_TIME,
            "the same for a write of whole write_units";
        Any append_time: Nanos = Time("17us") in 0..=MAX_TIME,
            "controller, for a zone append before its data are moved";
        Any manage_time: Nanos = Time("17us") in 0..=MAX_TIME, "controller, for any other command";
        Any zone_switch: Nanos = Time("4700ns") in 0..=MAX_TIME,
            "what a write takes longer if the one before had another zone";
        /// Which ones is random. The fourth takes three times as much more, so that the mean is `latency`.
        Any write_spread: u32 = Percent("12.5%") in 0..=100_000,
            "part of the latency that three writes in four take less";
        /// Writes that find no space, and appends to a zone whose time does not hold the controller.
        Any drawn_from: Bytes = Size("256K"),
            "writes that wait, of the first of which a random one is next; 0: in order";
        Any partial_time: Nanos = Time("0") in 0..=MAX_TIME,
            "with lba=512: a write, for each page and each 4K that it writes in part";
        Any zone_rate: Bytes = Rate("1117MB/s"),
            "what one zone takes into the write buffer; 0 for no limit of its own";
        Any buffer: Bytes = Size("32M"), "write buffer";
        /// With 0, the space of each unit is free once it is programmed.
        Any buffer_groups: u32 = Count("0"),
            "groups of dies that each free buffer space in order; 0 for any order";
        Any power_safe: bool = Flag("true"),
            "whether the buffer outlives a loss of power: flushes cost nothing";
        Any zone_dies: u32 = Count("32"),
            "dies that a zone is striped over, a unit on each, in changing order";
        Any write_unit: Bytes = Size("0"),
            "what the controller maps as a whole; 0 for no such unit, and a page with lba=512";
        /// Without `send_time`, for reads shorter than a page of all planes, and beside other streams of
        /// a page at least; 0 for `read_link_rate`.
        Any stream_rate: Bytes = Rate("0"),
            "to the host, of short reads that continue a stream and were not read ahead";
        /// The pages go over the channel one after another; the space of each in the buffer is free then.
        Any page_programs: bool = Flag("false"),
            "whether a die takes and programs the pages of a cell one after another";
        /// Of its map and its journal. Padding does not count.
        Any log_interval: Bytes = Size("0"),
            "data after which the drive programs a unit on each die for itself; 0: never";
        Any reset_time: Nanos = Time("0") in 0..=MAX_TIME,
            "a reset, besides the data; 0 to erase the zone's blocks immediately";
        Any reset_rate: Bytes = Rate("0"), "data that a reset releases, with reset_time";
        Any reset_program: u32 = Percent("125%") in 0..=1_000_000,
            "part of a program that a reset of a partly written zone takes, with reset_time";
        /// Resets are executed one after another then, once what other zones have queued is programmed.
        Any reset_hold: u32 = Count("0") in 0..=100,
            "part of a reset in which no program begins, in percent, with reset_time";
        /// The area begins at the write pointer.
        Any zrwa: Bytes = Size("0"), "random write area that a zone can be opened with; 0 for none";
        Any zrwa_granularity: Bytes = Size("16K"),
            "what the write pointer moves by where there is such an area";
        Any max_zrwa: u32 = Count("0"),
            "zones that may have such an area; 0 for as many as may be active";
        Any descriptor_extension: u32 = Count("0"),
            "bytes that a host can keep with a zone, a multiple of 64";
        Any finish_recommended: Nanos = Time("0"),
            "the drive recommends to finish zones active for longer; 0: never";
        Any finish_after: Nanos = Time("0"),
            "the drive finishes zones that are active for longer; 0: never";
        Any reset_recommended: Nanos = Time("0"),
            "the drive recommends to reset zones full for longer; 0: never";
    }
}

impl ZnsConfig {
    /// Whether the pages of a cell are programmed one after another.
    fn programs_pages(&self) -> bool {
        self.page_programs
    }

    /// The unit that the controller maps as a whole.
    pub(super) fn write_unit(&self) -> Bytes {
        if self.write_unit.0 == 0 { self.page } else { self.write_unit }
    }

    /// The time that a reset waits for the programs of a zone that could take more data.
    pub(super) fn time_to_close(&self) -> Nanos {
        let time = u128::from(self.program.0) * u128::from(self.reset_program) / 100_000;
        Nanos(u64::try_from(time).expect("at most ten programs"))
    }

    /// The limit on active zones, or the number of zones without one.
    pub fn max_active_or_all(&self) -> u32 {
        match self.layout().active_limit() {
            0 => self.zones,
            limit => limit,
        }
    }

    /// The smallest write buffer in which every write finds space eventually: each active zone may
    /// have a partial unit there, and the longest command must fit beside them, with what it commits
    /// of a random write area.
    pub fn min_buffer(&self) -> Bytes {
        let waiting = u64::from(self.max_active_or_all()) * self.unit().0;
        Bytes(waiting + self.max_io.0 + self.zrwa.0)
    }

    /// Bytes per second that `dies` dies can program.
    pub fn program_rate(&self, dies: u32) -> Bytes {
        let per_second = u128::from(self.unit().0) * u128::from(dies) * 1_000_000_000;
        let rate = per_second / u128::from(self.program.0.max(1));
        Bytes(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Bytes per second that one zone takes in long writes, and what limits it.
    pub(super) fn sequential_rate(&self) -> (Bytes, &'static str) {
        let dies = self.less_own_writes(self.nand().write_rate(self.zone_dies));
        let limits = [
            (self.link_rate, "link_rate"),
            (self.zone_rate, "zone_rate"),
            (dies, "transfers and programs of a zone's dies"),
        ];
        let limits = limits.into_iter().filter(|(rate, _)| rate.0 > 0);
        limits.min_by_key(|(rate, _)| rate.0).expect("a cycle of the dies takes time")
    }

    /// Of the rate of a zone's dies, what is the host's: the drive writes a unit on each in `log_interval` bytes.
    fn less_own_writes(&self, rate: Bytes) -> Bytes {
        let host = u128::from(self.log_interval.0);
        if host == 0 {
            return rate;
        }
        let own = u128::from(self.unit().0) * u128::from(self.zone_dies);
        Bytes(u64::try_from(u128::from(rate.0) * host / (host + own)).unwrap_or(u64::MAX))
    }

    /// Validates the configuration.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let rules = Rules { lba: self.lba };
        check_ranges(self, true)?;
        rules.commands(self.max_io, MAX_IO)?;
        self.validate_zones(rules)?;
        self.validate_rates()?;
        self.validate_flash(rules)?;
        self.validate_buffer()?;
        self.written.check(self.zones)?;
        Rules::memory(self.memory, Rules::capacity(self.zones, self.zone_size)?)
    }

    fn validate_zones(&self, rules: Rules) -> Result<(), ConfigError> {
        rules.zones(self.zone_size, self.zone_capacity)?;
        Rules::capacity(self.zones, self.zone_size)?;
        let zones = || format!("at most zones={}", self.zones);
        rule("max_active", self.max_active <= self.zones, self.max_active, zones)?;
        rule("max_open", self.max_open <= self.zones, self.max_open, zones)?;
        let max_open_ok = self.max_active == 0 || (1..=self.max_active).contains(&self.max_open);
        rule("max_open", max_open_ok, self.max_open, || {
            format!("from 1 to max_active={}", self.max_active)
        })?;
        rules.append(self.append_max, self.max_io)
    }

    fn validate_rates(&self) -> Result<(), ConfigError> {
        validate_rate("read_link_rate", self.read_link_rate)?;
        validate_rate("stream_rate", self.stream_rate)?;
        validate_rate("zone_rate", self.zone_rate)?;
        let reset_ok = self.reset_time.0 == 0 || self.reset_rate.0 >= MIN_RATE;
        rule("reset_rate", reset_ok, format_rate(self.reset_rate.0), || {
            format!("at least {}", format_rate(MIN_RATE))
        })
    }

    fn validate_flash(&self, rules: Rules) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let zone_dies_ok = self.zone_dies > 0 && self.dies.is_multiple_of(self.zone_dies);
        rule("zone_dies", zone_dies_ok, self.zone_dies, || {
            format!("a divisor of dies={}, so that stripes do not overlap in part", self.dies)
        })?;
        let page_ok = rules.is_lbas(self.page) && self.page <= Bytes(1 << 20);
        rule("page", page_ok, size(self.page), || format!("{} up to 1MiB", rules.lbas()))?;
        let unit_ok = rules.is_lbas(self.write_unit()) && self.write_unit <= self.page;
        rule("write_unit", unit_ok, size(self.write_unit), || {
            format!("{}, at most page={}", rules.lbas(), size(self.page))
        })?;
        self.nand().validate(self.block)?;
        let log = Bytes(u64::from(self.dies) * self.unit().0);
        let log_ok = self.log_interval.0 == 0 || self.log_interval >= log;
        rule("log_interval", log_ok, size(self.log_interval), || {
            format!(
                "0, or at least what the drive programs then, a unit on each die: {}",
                size(log)
            )
        })?;
        let needed = self.program_rate(self.zone_dies);
        rule("zone_rate", self.zone_rate <= needed, format_rate(self.zone_rate.0), || {
            format!(
                "at most what zone_dies={} program together, a unit of planes * cell_pages * page \
                 = {} each in {}: {}",
                self.zone_dies,
                size(self.unit()),
                format_time(self.program.0),
                format_rate(needed.0)
            )
        })?;
        let channels = self.channels.min(self.zone_dies);
        let carried = Bytes(self.channel_rate.0.saturating_mul(channels.into()));
        rule("zone_rate", self.zone_rate <= carried, format_rate(self.zone_rate.0), || {
            format!(
                "at most what the {channels} channels of a zone's dies carry, channel_rate={} \
                 each: {}",
                format_rate(self.channel_rate.0),
                format_rate(carried.0)
            )
        })
    }

    fn validate_buffer(&self) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let unit = self.unit();
        rule("buffer", self.buffer >= unit, size(self.buffer), || {
            format!("at least a unit of planes * cell_pages * page = {}", size(unit))
        })?;
        validate_zrwa(self.zrwa(), self.lba, self.zone_capacity)?;
        validate_extension(self.descriptor_extension)?;
        let finish_ok = self.finish_after.0 == 0 || self.finish_after >= self.finish_recommended;
        rule("finish_after", finish_ok, format_time(self.finish_after.0), || {
            let recommended = format_time(self.finish_recommended.0);
            format!("0, or at least finish_recommended={recommended}")
        })?;
        let groups_ok = self.buffer_groups <= self.dies;
        rule("buffer_groups", groups_ok, self.buffer_groups, || {
            format!("at most dies={}", self.dies)
        })?;
        let order_ok = !self.page_programs || self.buffer_groups == 0;
        rule("page_programs", order_ok, self.page_programs, || {
            "false where the buffer is freed in order, with buffer_groups".to_owned()
        })?;
        let least = self.min_buffer();
        rule("buffer", self.buffer >= least, size(self.buffer), || {
            format!(
                "at least {}: a unit of {} for each of {} active zones, and room for a command of \
                 max_io={} with zrwa={}",
                size(least),
                size(unit),
                self.max_active_or_all(),
                size(self.max_io),
                size(self.zrwa)
            )
        })
    }

    /// How the zones lie.
    pub(crate) fn layout(&self) -> ZoneLayout {
        ZoneLayout {
            nr_zones: self.zones,
            zone_size: self.zone_size.to_sectors(),
            zone_capacity: self.zone_capacity.to_sectors(),
            conventional: 0,
            max_open: self.max_open,
            max_active: self.max_active,
            zrwa: self.zrwa().limits(self.zones, self.max_active),
            extension: self.descriptor_extension,
        }
    }

    /// Whether zones change as they age.
    pub(super) fn ages(&self) -> bool {
        let times = [self.finish_recommended, self.finish_after, self.reset_recommended];
        times.iter().any(|time| time.0 > 0)
    }

    fn zrwa(&self) -> ZrwaOptions {
        ZrwaOptions { size: self.zrwa, granularity: self.zrwa_granularity, max: self.max_zrwa }
    }

    /// The limits of the device.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub(super) fn limits(&self) -> Result<Limits, ConfigError> {
        self.validate()?;
        let sectors = |bytes: Bytes| {
            u32::try_from(bytes.to_sectors().0).expect("a command is at most 64 MiB long")
        };
        let layout = self.layout();
        Ok(Limits {
            lba_size: self.lba,
            capacity: Rules::capacity(self.zones, self.zone_size)?.to_sectors(),
            zone_size: layout.zone_size,
            nr_zones: self.zones,
            max_open_zones: layout.open_limit(),
            max_active_zones: layout.active_limit(),
            max_sectors: sectors(self.max_io),
            append_max_sectors: sectors(self.append_max),
            // Zeroes are data to program, so they are written as such.
            max_write_zeroes_sectors: 0,
            nr_queues: self.queues,
            queue_depth: self.depth,
            rotational: false,
            write_granularity: 0,
            zrwa: layout.zrwa,
        })
    }
}
