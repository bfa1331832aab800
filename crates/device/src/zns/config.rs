//! The configuration of a ZNS drive, its validation and the limits that follow from it. Parameters
//! that contradict each other are refused.
use crate::device_spec::Written;
use crate::null::{ConfigError, rule};
use crate::quantity::{format_rate, format_size, format_time};
use crate::zns_options::{ZrwaOptions, validate_extension, validate_zrwa};
use crate::zones::ZoneLayout;
use zonal_blk::{Bytes, Limits, Nanos};

/// Most zones of a drive.
const MAX_ZONES: u32 = 1 << 20;
/// Longest command.
const MAX_IO: Bytes = Bytes(64 << 20);
/// Most dies.
const MAX_DIES: u32 = 1 << 16;
/// Largest drive that keeps data.
const MAX_MEMORY: Bytes = Bytes(256 << 40);
/// Longest time of a command or a flash operation.
const MAX_TIME: Nanos = Nanos(10_000_000_000);

/// The configuration of a ZNS drive. `Default` has the defaults of the device spec, which are those
/// of the profile `zns-1t`; `docs/models.md` says where each comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZnsConfig {
    /// Number of zones.
    pub zones: u32,
    /// Zone size.
    pub zone_size: Bytes,
    /// Zone capacity.
    pub zone_capacity: Bytes,
    /// Maximum open zones; 0 for no limit.
    pub max_open: u32,
    /// Maximum active zones; 0 for no limit.
    pub max_active: u32,
    /// Longest zone append; 0 to have the block layer emulate it.
    pub append_max: Bytes,
    /// Logical block size in bytes: 512 or 4096.
    pub lba: u32,
    /// Hardware queues on offer.
    pub queues: u16,
    /// Queue depth of a hardware queue.
    pub depth: u16,
    /// Longest command.
    pub max_io: Bytes,

    /// Controller time of a write, before its data are transferred.
    pub write_time: Nanos,
    /// Controller time of a zone append.
    pub append_time: Nanos,
    /// Controller time of a read.
    pub read_time: Nanos,
    /// Controller time of any other command.
    pub manage_time: Nanos,
    /// Extra time of a write to another zone than that of the write before.
    pub zone_switch: Nanos,
    /// Time from the fetch of a command until the controller works on it, and from the end of that
    /// until the host sees the completion, together. Commands overlap in it.
    pub latency: Nanos,
    /// Extra controller time of a write for each page that it writes in part, and once more if it
    /// writes a part of 4 KiB; in the format with LBAs of 512 bytes only.
    pub partial_time: Nanos,
    /// Bytes per second from the host to the drive.
    pub link_rate: Bytes,
    /// Bytes per second from the drive to the host; 0 for `link_rate`.
    pub read_link_rate: Bytes,
    /// Time of the link to the host for a read, besides its data.
    pub send_time: Nanos,
    /// Reads that the drive works on at once, others wait in order; 0 for no limit.
    pub reads: u32,
    /// Bytes per second that one zone takes into the write buffer; 0 if only the link limits them.
    pub zone_rate: Bytes,
    /// Size of the write buffer.
    pub buffer: Bytes,
    /// Groups of dies for each of which the write buffer is freed in the order in which it was
    /// filled; 0 if each unit's space is free once it is programmed.
    pub buffer_groups: u32,
    /// Whether the write buffer survives a loss of power, so that a flush is a no-op.
    pub power_safe: bool,

    /// Buses between controller and dies.
    pub channels: u32,
    /// Dies, spread evenly over the channels.
    pub dies: u32,
    /// Dies that a zone is striped over.
    pub zone_dies: u32,
    /// Planes of a die that work together.
    pub planes: u32,
    /// Size of a page, of one plane.
    pub page: Bytes,
    /// Pages of a plane that one program writes: the bits of a cell.
    pub cell_pages: u32,
    /// Size of an erase block, of one plane.
    pub block: Bytes,
    /// Bytes per second on a channel.
    pub channel_rate: Bytes,
    /// Time to sense a page, in all planes at once.
    pub page_read: Nanos,
    /// What the slowest page of a cell takes longer to sense, in percent.
    pub page_spread: u32,
    /// What each transfer from a die takes on its channel, besides its data.
    pub transfer_time: Nanos,
    /// Whether the next page of a read is sensed while one is transferred.
    pub cache_read: bool,
    /// Whether the drive reads ahead of a sequential stream.
    pub read_ahead: bool,
    /// Bytes per second from the drive to the host, without `send_time`, of a read that continues the
    /// last one of its zone, was not read ahead and is shorter than a page of all planes; 0 for
    /// `read_link_rate`.
    pub stream_rate: Bytes,
    /// Time to program a unit.
    pub program: Nanos,
    /// By up to how many percent a program takes more or less.
    pub program_spread: u32,
    /// Time to erase a block, in all planes at once.
    pub erase: Nanos,
    /// Whether reads suspend a program or an erase.
    pub suspend: bool,
    /// Time that a suspension takes.
    pub suspend_time: Nanos,
    /// A program or an erase can be suspended each time that this much of it is done; 0 for any
    /// time.
    pub suspend_step: Nanos,
    /// Time of a reset, without that for the data in the zone; 0 if a reset takes what erasing the
    /// zone's blocks takes.
    pub reset_time: Nanos,
    /// Bytes of a zone that a reset releases per second, with `reset_time`.
    pub reset_rate: Bytes,

    /// Size of the random write area that a zone can be opened with, from the write pointer on; 0 for
    /// none.
    pub zrwa: Bytes,
    /// Flush granularity of the random write area.
    pub zrwa_granularity: Bytes,
    /// Zones that may have a random write area at once; 0 for as many as may be active.
    pub max_zrwa: u32,
    /// Bytes of the descriptor extension of a zone, a multiple of 64; 0 for none.
    pub descriptor_extension: u32,

    /// The drive recommends to finish a zone that has been active for this long; 0 for never.
    pub finish_recommended: Nanos,
    /// The drive finishes a zone that has been active for this long; 0 for never.
    pub finish_after: Nanos,
    /// The drive recommends to reset a zone that has been full for this long; 0 for never.
    pub reset_recommended: Nanos,

    /// Whether data are kept.
    pub memory: bool,
    /// The zones that a new device has written to their end.
    pub written: Written,
}

impl Default for ZnsConfig {
    fn default() -> Self {
        ZnsConfig {
            zones: 904,
            zone_size: Bytes(2 << 30),
            zone_capacity: Bytes(1077 << 20),
            max_open: 14,
            max_active: 14,
            append_max: Bytes(1 << 20),
            lba: 4096,
            queues: 32,
            depth: 1023,
            max_io: Bytes(1 << 20),
            write_time: Nanos(17_000),
            append_time: Nanos(17_000),
            read_time: Nanos(2_000),
            manage_time: Nanos(17_000),
            zone_switch: Nanos(4_700),
            latency: Nanos(0),
            partial_time: Nanos(0),
            link_rate: Bytes(2_517_000_000),
            read_link_rate: Bytes(0),
            send_time: Nanos(0),
            reads: 0,
            zone_rate: Bytes(1_117_000_000),
            buffer: Bytes(32 << 20),
            buffer_groups: 0,
            power_safe: true,
            channels: 8,
            dies: 32,
            zone_dies: 32,
            planes: 2,
            page: Bytes(16 << 10),
            cell_pages: 3,
            block: Bytes(18 << 20),
            channel_rate: Bytes(1_258_000_000),
            page_read: Nanos(65_000),
            page_spread: 0,
            transfer_time: Nanos(0),
            cache_read: false,
            read_ahead: false,
            stream_rate: Bytes(0),
            program: Nanos(1_200_000),
            program_spread: 0,
            erase: Nanos(3_500_000),
            suspend: false,
            suspend_time: Nanos(20_000),
            suspend_step: Nanos(0),
            reset_time: Nanos(0),
            reset_rate: Bytes(0),
            zrwa: Bytes(0),
            zrwa_granularity: Bytes(16 << 10),
            max_zrwa: 0,
            descriptor_extension: 0,
            finish_recommended: Nanos(0),
            finish_after: Nanos(0),
            reset_recommended: Nanos(0),
            memory: false,
            written: Written::default(),
        }
    }
}

impl ZnsConfig {
    /// The unit that a die programs at once: a page of each bit of a cell, in all planes.
    pub fn unit(&self) -> Bytes {
        Bytes(u64::from(self.planes) * u64::from(self.cell_pages) * self.page.0)
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

    /// Bytes up to which a drive reads ahead of a stream: a page of all planes of each die of a zone.
    pub(super) fn read_ahead_window(&self) -> Bytes {
        Bytes(self.page.0 * u64::from(self.planes) * u64::from(self.zone_dies))
    }

    /// Bytes per second at which a drive reads ahead: as many units as the window has are read at
    /// once, each page by page on its die.
    pub(super) fn read_ahead_rate(&self) -> Bytes {
        let row = self.page.0 * u64::from(self.planes);
        let transfer = self.transfer_time + super::time_of(row, self.channel_rate);
        let shared = u64::from(self.dies.div_ceil(self.channels));
        let unit = u64::from(self.cell_pages) * (self.page_read.0 + shared * transfer.0);
        let bytes = u128::from(self.read_ahead_window().0) * 1_000_000_000;
        Bytes(u64::try_from(bytes / u128::from(unit.max(1))).unwrap_or(u64::MAX).max(1))
    }

    /// Bytes per second that one zone takes in long writes, and what limits it.
    pub(super) fn sequential_rate(&self) -> (Bytes, &'static str) {
        let cycle = self.program + super::time_of(self.unit().0, self.channel_rate);
        let bytes = u128::from(self.unit().0) * u128::from(self.zone_dies) * 1_000_000_000;
        let dies = u64::try_from(bytes / u128::from(cycle.0)).unwrap_or(u64::MAX);
        let limits = [
            (self.link_rate, "link_rate"),
            (self.zone_rate, "zone_rate"),
            (Bytes(dies), "transfers and programs of a zone's dies"),
        ];
        let limits = limits.into_iter().filter(|(rate, _)| rate.0 > 0);
        limits.min_by_key(|(rate, _)| rate.0).expect("a cycle of the dies takes time")
    }

    /// Validates the configuration.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let at_least_1 = || "at least 1".to_owned();
        rule("lba", matches!(self.lba, 512 | 4096), self.lba, || "512 or 4096".to_owned())?;
        rule("queues", self.queues > 0, self.queues, at_least_1)?;
        rule("depth", self.depth > 0, self.depth, at_least_1)?;
        let max_io_ok = self.is_lbas(self.max_io) && self.max_io <= MAX_IO;
        rule("max_io", max_io_ok, size(self.max_io), || {
            format!("{} up to {}", self.lbas(), size(MAX_IO))
        })?;
        self.validate_zones()?;
        self.validate_times()?;
        self.validate_flash()?;
        self.validate_buffer()?;
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
        rule("zone_size", self.is_lbas(self.zone_size), size(self.zone_size), || self.lbas())?;
        let capacity_ok = self.is_lbas(self.zone_capacity) && self.zone_capacity <= self.zone_size;
        rule("zone_capacity", capacity_ok, size(self.zone_capacity), || {
            format!("{} up to zone_size={}", self.lbas(), size(self.zone_size))
        })?;
        self.capacity()?;
        let zones = || format!("at most zones={}", self.zones);
        rule("max_active", self.max_active <= self.zones, self.max_active, zones)?;
        rule("max_open", self.max_open <= self.zones, self.max_open, zones)?;
        let max_open_ok = self.max_active == 0 || (1..=self.max_active).contains(&self.max_open);
        rule("max_open", max_open_ok, self.max_open, || {
            format!("from 1 to max_active={}", self.max_active)
        })?;
        let append_ok = self.append_max.0.is_multiple_of(self.lba.into());
        let append_ok = append_ok && self.append_max <= self.max_io;
        rule("append_max", append_ok, size(self.append_max), || {
            format!("a multiple of lba={} up to max_io={}", self.lba, size(self.max_io))
        })
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        for (option, time) in [
            ("write_time", self.write_time),
            ("append_time", self.append_time),
            ("read_time", self.read_time),
            ("manage_time", self.manage_time),
            ("zone_switch", self.zone_switch),
            ("latency", self.latency),
            ("partial_time", self.partial_time),
            ("send_time", self.send_time),
            ("transfer_time", self.transfer_time),
            ("suspend_step", self.suspend_step),
            ("reset_time", self.reset_time),
            ("page_read", self.page_read),
            ("program", self.program),
            ("erase", self.erase),
            ("suspend_time", self.suspend_time),
        ] {
            let found = format_time(time.0);
            rule(option, time <= MAX_TIME, found, || "at most 10s".to_owned())?;
        }
        let or_none = |rate: Bytes| if rate.0 == 0 { Bytes(u64::MAX) } else { rate };
        let reset_rate = if self.reset_time.0 > 0 { self.reset_rate } else { Bytes(u64::MAX) };
        for (option, rate) in [
            ("link_rate", self.link_rate),
            ("read_link_rate", or_none(self.read_link_rate)),
            ("stream_rate", or_none(self.stream_rate)),
            ("zone_rate", or_none(self.zone_rate)),
            ("channel_rate", self.channel_rate),
            ("reset_rate", reset_rate),
        ] {
            // At 1 MB/s the longest command takes a minute.
            rule(option, rate.0 >= 1_000_000, format_rate(rate.0), || "at least 1MB/s".to_owned())?;
        }
        Ok(())
    }

    fn validate_flash(&self) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let dies_ok = (1..=MAX_DIES).contains(&self.dies);
        rule("dies", dies_ok, self.dies, || format!("from 1 to {MAX_DIES}"))?;
        let channels_ok = self.channels > 0 && self.dies.is_multiple_of(self.channels);
        rule("channels", channels_ok, self.channels, || {
            format!("a divisor of dies={}, so that each channel has as many", self.dies)
        })?;
        let zone_dies_ok = self.zone_dies > 0 && self.dies.is_multiple_of(self.zone_dies);
        rule("zone_dies", zone_dies_ok, self.zone_dies, || {
            format!("a divisor of dies={}, so that stripes do not overlap in part", self.dies)
        })?;
        let few = |n: u32| (1..=16).contains(&n);
        rule("planes", few(self.planes), self.planes, || "from 1 to 16".to_owned())?;
        rule("cell_pages", few(self.cell_pages), self.cell_pages, || "from 1 to 16".to_owned())?;
        let page_ok = self.is_lbas(self.page) && self.page <= Bytes(1 << 20);
        rule("page", page_ok, size(self.page), || format!("{} up to 1MiB", self.lbas()))?;
        let cells = Bytes(u64::from(self.cell_pages) * self.page.0);
        let block_ok = self.block.0 > 0 && self.block.0.is_multiple_of(cells.0);
        rule("block", block_ok, size(self.block), || {
            format!("a non-zero multiple of cell_pages * page = {}", size(cells))
        })?;
        rule("program", self.program.0 > 0, "0ns", || "a time above 0".to_owned())?;
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
        let spread_ok = self.page_spread <= 1000;
        rule("page_spread", spread_ok, self.page_spread, || "at most 1000 percent".to_owned())?;
        let spread_ok = self.program_spread <= 100;
        rule("program_spread", spread_ok, self.program_spread, || {
            "at most 100 percent".to_owned()
        })?;
        let groups_ok = self.buffer_groups <= self.dies;
        rule("buffer_groups", groups_ok, self.buffer_groups, || {
            format!("at most dies={}", self.dies)
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

    /// Size of the drive.
    fn capacity(&self) -> Result<Bytes, ConfigError> {
        let capacity = u64::from(self.zones).checked_mul(self.zone_size.0);
        capacity.map(Bytes).ok_or_else(|| ConfigError::CapacityOverflow {
            zones: self.zones,
            zone_size: format_size(self.zone_size.0),
        })
    }

    /// Whether a length is a whole number of LBAs, and not zero.
    fn is_lbas(&self, length: Bytes) -> bool {
        length.0 > 0 && length.0.is_multiple_of(self.lba.into())
    }

    fn lbas(&self) -> String {
        format!("a non-zero multiple of lba={}", self.lba)
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
            capacity: self.capacity()?.to_sectors(),
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
            zrwa: layout.zrwa,
        })
    }
}
