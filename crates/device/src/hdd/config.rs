//! The configuration of a rotating disk, its validation and the limits that follow from it.
use super::HddDevice;
use super::seek::SeekCurve;
use crate::config::{ConfigError, check_ranges, device_options, option_words, rule};
use crate::null::NullConfig;
use crate::quantity::{format_rate, format_rate_rounded, format_size, format_time};
use zonal_blk::{Bytes, Limits, Nanos};

option_words! {
    /// How tracks are recorded.
    pub enum Recording {
        /// Conventional: any sector can be written.
        Cmr = "cmr",
        /// Shingled: tracks overlap in bands, which are sequential zones.
        Smr = "smr",
    }
}

option_words! {
    /// The host interface.
    pub enum HostInterface {
        /// One command at a time.
        Ata = "ata",
        /// Native command queuing: up to 32 commands.
        Ahci = "ahci",
    }
}

option_words! {
    /// The host adapter, by its driver in Linux.
    pub enum HostAdapter {
        /// None that is known.
        None = "none",
        /// Broadcom (LSI) SAS2 and SAS3.
        Mpt3sas = "mpt3sas",
        /// Broadcom SAS4.
        Mpi3mr = "mpi3mr",
        /// Broadcom MegaRAID, for disks that it passes through (JBOD).
        Megaraid = "megaraid",
    }
}

impl HostAdapter {
    /// What Linux sends to a SATA disk at most, as options of the disk: how many commands at a time,
    /// and how long they are. Sources are in docs/devices.md.
    pub(super) fn limits(self) -> Option<[(&'static str, &'static str); 2]> {
        let max_io = match self {
            HostAdapter::None => return None,
            // The driver would take 16 MiB; this is the block layer's limit for file systems.
            HostAdapter::Mpt3sas => "1280K",
            HostAdapter::Mpi3mr | HostAdapter::Megaraid => "1M",
        };
        Some([("depth", "32"), ("max_io", max_io)])
    }
}

option_words! {
    /// The order in which the drive serves reads and writes its buffer.
    pub enum Order {
        /// Oldest first.
        Fifo = "fifo",
        /// Shortest access time first.
        Satf = "satf",
    }
}

/// Largest disk: times within a ring are counted in 64 bits.
const MAX_CAPACITY: Bytes = Bytes(256 << 40);
/// Longest time of a command or a seek, in nanoseconds.
const MAX_TIME: u64 = 1_000_000_000;

device_options! {
    "hdd": HddDevice,
        profiles ["smr-30t", "smr-30t-mpi3mr", "smr-20t", "smr-20t-512e", "sata-2009"],
        scopes ["recording=smr", "recording=cmr"];

    /// The configuration of a rotating disk: by default a small conventional one.
    pub struct HddConfig {
        Any recording: Recording = Words("cmr"),
            "tracks apart, or shingled in zones that are written in order";
        Zoned zones: u32 = Count("4096"), "number of zones";
        Zoned zone_size: Bytes = Size("256M"), "size of a zone";
        Zoned conventional: u32 = Count("0"), "leading zones that are conventional";
        Zoned max_open: u32 = Count("128"), "zones that may be open at once; 0 for no limit";
        Regular size: Bytes = Size("1T"), "size of the disk";
        Any lba: u32 = Size("512"), "logical block size, 512 or 4096";
        Zoned write_granularity: u32 = Size("0"),
            "what sequential zones are written in, for 512-byte blocks that are emulated; 0 for lba";
        Any host: HostInterface = Words("ahci"),
            "one command at a time, or native command queueing";
        Any depth: u16 = Count("32") in 1..=32, "commands in flight with host=ahci";
        Any max_io: Bytes = Size("1M"), "longest command that the host adapter sends";
        /// Only when a configuration is made: what follows from it is in `depth` and `max_io`.
        Any hba: HostAdapter = Words("none"),
            "driver of the host adapter, for depth and max_io unless they are given";
        Any link_rate: u64 = Rate("550MB/s") in 1_000_000..=u64::MAX, "speed of the link";
        Any command: Nanos = Time("20us") in 0..=MAX_TIME,
            "what the controller spends on a command";
        Any rpm: u32 = Count("7200") in 1000..=30_000, "revolutions a minute";
        Any heads: u32 = Count("8") in 1..=64, "recording surfaces";
        Any rings: u32 = Count("24") in 1..=1024, "recording zones: rings of tracks of one size";
        Any track_outer: Bytes = Size("1536K") in 0..=1 << 30, "size of the outermost tracks";
        Any track_inner: Bytes = Size("768K"), "size of the innermost tracks";
        Any skew: Nanos = Time("800us"), "from the end of a track to the start of the next";
        /// From a data sheet; nothing else depends on it.
        Any rate: u64 = Rate("0B/s"),
            "sustained rate at the outer edge, checked against tracks and rpm; 0B/s for none";
        Any settle: Nanos = Time("1200us") in 0..=MAX_TIME, "shortest seek, and a change of heads";
        Any write_settle: Nanos = Time("0") in 0..=MAX_TIME,
            "what a seek before a write takes longer";
        Any seek_average: Nanos = Time("8500us") in 0..=MAX_TIME,
            "seek between random places, on average";
        Any seek_full: Nanos = Time("16ms") in 0..=MAX_TIME, "seek from edge to edge";
        Any cache: Bytes = Size("16M"), "buffer that writes pass through";
        Any cache_commands: u32 = Count("1024") in 1..=1 << 20,
            "write commands that the buffer holds";
        Any write_cache: bool = Flag("true"), "whether a write is done when it is in the buffer";
        Any piece: Bytes = Size("512K"), "what moves into or out of the buffer at a time";
        Any stay: u32 = Count("200"),
            "how long the head writes in a place before it leaves, in percent of the seek";
        Any min_run: Bytes = Size("0"),
            "what the head writes in a place at least before it leaves, if it is there";
        Any reserve: Bytes = Size("0"),
            "buffer kept free for each command that waits behind the first";
        Any order: Order = Words("satf"),
            "the drive takes the oldest first, or the shortest access time";
        /// As in firmware: no read waits for seconds.
        Any max_age: Nanos = Time("1s"), "a read that has waited so long goes first";
        Any write_age: Nanos = Time("10s"), "buffered data that have waited so long go first";
        Any read_ahead: Bytes = Size("1M"),
            "data after a read that are read when there is nothing else to do";
        Any min_ahead: Bytes = Size("512K"),
            "data that are read ahead of a sequential stream before the head leaves it";
        Any segments: u32 = Count("16") in 1..=1024, "ranges that the drive remembers having read";
        Any reset: Nanos = Time("100us") in 0..=MAX_TIME, "what a zone reset takes";
        Any finish: Nanos = Time("100us") in 0..=MAX_TIME,
            "what opening, closing or finishing a zone takes";
        Any error_rate: u32 = Count("0") in 0..=1_000_000,
            "accesses in a million that need another turn";
        Any retries: u32 = Count("8") in 1..=u64::MAX, "turns after which the drive gives up";
        Any seed: u64 = Count("0"), "seed of the errors";
    }
}

impl HddConfig {
    /// Duration of a revolution.
    pub fn revolution(&self) -> Nanos {
        Nanos(60_000_000_000 / u64::from(self.rpm))
    }

    /// Size of the disk.
    pub fn capacity(&self) -> Bytes {
        match self.recording {
            Recording::Cmr => self.size,
            Recording::Smr => Bytes(u64::from(self.zones).saturating_mul(self.zone_size.0)),
        }
    }

    /// Queue depth.
    pub fn queue_depth(&self) -> u16 {
        match self.host {
            HostInterface::Ata => 1,
            HostInterface::Ahci => self.depth,
        }
    }

    /// The sustained rate at the outer edge that follows from tracks and rotation, in bytes per second.
    pub fn outer_rate(&self) -> u64 {
        let time = self.revolution() + self.skew;
        let rate = u128::from(self.track_outer.0) * 1_000_000_000 / u128::from(time.0.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// The null device with the same zones, data and limits.
    pub(super) fn null_config(&self) -> NullConfig {
        let smr = self.recording == Recording::Smr;
        NullConfig {
            zoned: smr,
            zones: self.zones,
            zone_size: self.zone_size,
            conventional: self.conventional,
            max_open: Some(self.max_open),
            size: self.size,
            lba: self.lba,
            queues: 1,
            depth: self.queue_depth(),
            max_io: self.max_io,
            memory: self.memory,
            ..NullConfig::default()
        }
    }

    /// Validates the configuration.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_ranges(self, self.recording == Recording::Smr)?;
        self.null_config().validate()?;
        self.validate_geometry()?;
        self.validate_times()?;
        self.validate_cache()?;
        let smr = self.recording == Recording::Smr;
        self.written.check(if smr { self.zones } else { 0 })
    }

    fn validate_geometry(&self) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let smr = self.recording == Recording::Smr;
        let max_open_ok = !smr || self.max_open <= self.zones;
        rule("max_open", max_open_ok, self.max_open, || format!("at most zones={}", self.zones))?;
        let unit = self.write_granularity;
        let unit_ok = unit == 0
            || unit.is_power_of_two()
                && unit >= self.lba
                && [self.zone_size, self.max_io].iter().all(|b| b.0.is_multiple_of(unit.into()));
        rule("write_granularity", unit_ok, size(Bytes(unit.into())), || {
            format!(
                "a power of two from lba={} that divides zone_size={} and max_io={}",
                self.lba,
                size(self.zone_size),
                size(self.max_io)
            )
        })?;
        let inner_ok = (4096..=self.track_outer.0).contains(&self.track_inner.0);
        rule("track_inner", inner_ok, size(self.track_inner), || {
            format!("from 4KiB to track_outer={}", size(self.track_outer))
        })?;
        let option = if smr { "zones" } else { "size" };
        let capacity = self.capacity();
        rule(option, capacity <= MAX_CAPACITY, size(capacity), || {
            format!("a disk of at most {}", size(MAX_CAPACITY))
        })?;
        let outer = self.outer_rate();
        let near = self.rate == 0 || self.rate.abs_diff(outer) <= outer / 50;
        rule("rate", near, format_rate(self.rate), || {
            format!(
                "within 2% of {}, which is track_outer={} in a turn of {} (rpm={}) and skew={}",
                format_rate_rounded(outer),
                size(self.track_outer),
                format_time(self.revolution().0),
                self.rpm,
                format_time(self.skew.0),
            )
        })
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        let time = |nanos: Nanos| format_time(nanos.0);
        let revolution = self.revolution();
        rule("skew", self.skew < revolution, time(self.skew), || {
            format!("less than a turn, {} with rpm={}", time(revolution), self.rpm)
        })?;
        let average_ok = self.settle <= self.seek_average;
        rule("seek_average", average_ok, time(self.seek_average), || {
            format!("at least settle={}", time(self.settle))
        })?;
        let rising = self.seek_curve().is_monotonic();
        rule("seek_full", rising, time(self.seek_full), || {
            format!(
                "a seek curve that rises with the distance from settle={} over seek_average={}",
                time(self.settle),
                time(self.seek_average)
            )
        })
    }

    fn validate_cache(&self) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let piece_ok = self.piece.0 >= 4096 && self.piece.0.is_multiple_of(4096);
        rule("piece", piece_ok && self.piece.0 <= 1 << 30, size(self.piece), || {
            "a multiple of 4KiB up to 1GiB".to_owned()
        })?;
        let cache_ok = self.cache >= self.piece && self.cache.0 <= 1 << 40;
        rule("cache", cache_ok, size(self.cache), || {
            format!("from piece={} to 1TiB", size(self.piece))
        })?;
        let read_ahead_ok = self.read_ahead.0.is_multiple_of(self.lba.into());
        rule("read_ahead", read_ahead_ok, size(self.read_ahead), || {
            format!("a multiple of lba={}", self.lba)
        })
    }

    /// The seek curve of a valid configuration.
    pub fn seek_curve(&self) -> SeekCurve {
        SeekCurve::new(self.settle, self.seek_average, self.seek_full)
    }

    /// The limits of the device.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub(super) fn limits(&self) -> Result<Limits, ConfigError> {
        self.validate()?;
        // Disks have no faster way to write zeroes than to write them as data.
        let limits = self.null_config().limits()?;
        let write_granularity = self.write_granularity;
        Ok(Limits { rotational: true, max_write_zeroes_sectors: 0, write_granularity, ..limits })
    }
}
