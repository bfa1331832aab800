//! The configuration of a rotating disk, its validation and the limits that follow from it.
use super::seek::SeekCurve;
use crate::device_spec::Written;
use crate::null::{ConfigError, NullConfig, rule};
use crate::quantity::{format_rate, format_size, format_time};
use zonal_blk::{Bytes, Limits, Nanos};

/// How tracks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Conventional: any sector can be written.
    Cmr,
    /// Shingled: tracks overlap in bands, which are sequential zones.
    Smr,
}

/// The host interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostInterface {
    /// One command at a time.
    Ata,
    /// Native command queuing: up to 32 commands.
    Ahci,
}

/// The order in which the drive serves reads and writes its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    Fifo,
    /// Shortest access time first.
    Satf,
}

/// Largest disk: times within a ring are counted in 64 bits.
const MAX_CAPACITY: Bytes = Bytes(256 << 40);

/// The configuration of a rotating disk. `Default` is a small conventional disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HddConfig {
    /// The recording method.
    pub recording: Recording,
    /// Number of zones (SMR).
    pub zones: u32,
    /// Zone size (SMR).
    pub zone_size: Bytes,
    /// Leading conventional zones (SMR).
    pub conventional: u32,
    /// Maximum open zones, 0 for no limit (SMR).
    pub max_open: u32,
    /// Size of a conventional disk (CMR).
    pub size: Bytes,
    /// Logical block size in bytes: 512 or 4096.
    pub lba: u32,
    /// The host interface.
    pub host: HostInterface,
    /// Queue depth with [`HostInterface::Ahci`].
    pub depth: u16,
    /// Longest command that the host adapter sends.
    pub max_io: Bytes,
    /// Bytes per second on the link.
    pub link_rate: u64,
    /// Controller time of each command.
    pub command: Nanos,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Recording surfaces, each with a head.
    pub heads: u32,
    /// Rings of tracks of one size (the recording zones of a data sheet).
    pub rings: u32,
    /// Bytes of the outermost tracks.
    pub track_outer: Bytes,
    /// Bytes of the innermost tracks.
    pub track_inner: Bytes,
    /// Time from the end of a track to the start of the next in sequence.
    pub skew: Nanos,
    /// The sustained rate at the outer edge in bytes per second, from a data sheet; only checked
    /// against tracks and rotation. 0 for none.
    pub rate: u64,
    /// Time of the shortest seek and of a head switch.
    pub settle: Nanos,
    /// Average seek time between random locations.
    pub seek_average: Nanos,
    /// Seek time from edge to edge.
    pub seek_full: Nanos,
    /// How much longer a seek takes if the head is to write at its end.
    pub write_settle: Nanos,
    /// Size of the write buffer.
    pub cache: Bytes,
    /// Write commands that the buffer holds.
    pub cache_commands: u32,
    /// Whether a write completes when it is in the buffer.
    pub write_cache: bool,
    /// Bytes that move between link and buffer, or buffer and medium, at a time.
    pub piece: Bytes,
    /// How long the head keeps writing one run before it leaves for another, in percent of the seek
    /// time to that.
    pub stay: u32,
    /// What the head writes of one run at least before it leaves for another, if the run has as much.
    pub min_run: Bytes,
    /// Buffer reserved for each command that waits behind the first.
    pub reserve: Bytes,
    /// The order of reads and of writes from the buffer.
    pub order: Order,
    /// Requests older than this go first.
    pub max_age: Nanos,
    /// Read-ahead; 0 for none.
    pub read_ahead: Bytes,
    /// Segments of the read cache.
    pub segments: u32,
    /// Time of a zone reset.
    pub reset: Nanos,
    /// Time of opening, closing or finishing a zone.
    pub finish: Nanos,
    /// Accesses in a million that need a retry.
    pub error_rate: u32,
    /// Retries after which the drive gives up.
    pub retries: u32,
    /// Seed of the errors.
    pub seed: u64,
    /// Whether data are kept.
    pub memory: bool,
    /// The zones that a new device has written to their end.
    pub written: Written,
}

impl Default for HddConfig {
    fn default() -> Self {
        HddConfig {
            recording: Recording::Cmr,
            zones: 4096,
            zone_size: Bytes(256 << 20),
            conventional: 0,
            max_open: 128,
            size: Bytes(1 << 40),
            lba: 512,
            host: HostInterface::Ahci,
            depth: 32,
            max_io: Bytes(1 << 20),
            link_rate: 550_000_000,
            command: Nanos(20_000),
            rpm: 7200,
            heads: 8,
            rings: 24,
            track_outer: Bytes(1536 << 10),
            track_inner: Bytes(768 << 10),
            skew: Nanos(800_000),
            rate: 0,
            settle: Nanos(1_200_000),
            seek_average: Nanos(8_500_000),
            seek_full: Nanos(16_000_000),
            write_settle: Nanos(0),
            cache: Bytes(16 << 20),
            cache_commands: 1024,
            write_cache: true,
            piece: Bytes(512 << 10),
            stay: 200,
            min_run: Bytes(0),
            reserve: Bytes(0),
            order: Order::Satf,
            max_age: Nanos(10_000_000_000),
            read_ahead: Bytes(256 << 10),
            segments: 16,
            reset: Nanos(100_000),
            finish: Nanos(100_000),
            error_rate: 0,
            retries: 8,
            seed: 0,
            memory: false,
            written: Written::default(),
        }
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
        let depth_ok = (1..=32).contains(&self.depth);
        rule("depth", depth_ok, self.depth, || "from 1 to 32".to_owned())?;
        self.null_config().validate()?;
        self.validate_geometry()?;
        self.validate_times()?;
        self.validate_cache()
    }

    fn validate_geometry(&self) -> Result<(), ConfigError> {
        let size = |bytes: Bytes| format_size(bytes.0);
        let smr = self.recording == Recording::Smr;
        let max_open_ok = !smr || self.max_open <= self.zones;
        rule("max_open", max_open_ok, self.max_open, || format!("at most zones={}", self.zones))?;
        let rpm_ok = (1000..=30_000).contains(&self.rpm);
        rule("rpm", rpm_ok, self.rpm, || "from 1000 to 30000".to_owned())?;
        let heads_ok = (1..=64).contains(&self.heads);
        rule("heads", heads_ok, self.heads, || "from 1 to 64".to_owned())?;
        let rings_ok = (1..=1024).contains(&self.rings);
        rule("rings", rings_ok, self.rings, || "from 1 to 1024".to_owned())?;
        let inner_ok = (4096..=self.track_outer.0).contains(&self.track_inner.0);
        rule("track_inner", inner_ok, size(self.track_inner), || {
            format!("from 4KiB to track_outer={}", size(self.track_outer))
        })?;
        let outer_ok = self.track_outer.0 <= 1 << 30;
        rule("track_outer", outer_ok, size(self.track_outer), || "at most 1GiB".to_owned())?;
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
                format_rate(outer),
                size(self.track_outer),
                format_time(self.revolution().0),
                self.rpm,
                format_time(self.skew.0),
            )
        })
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        let time = |nanos: Nanos| format_time(nanos.0);
        let second = Nanos(1_000_000_000);
        for (option, value) in [
            ("command", self.command),
            ("settle", self.settle),
            ("write_settle", self.write_settle),
            ("seek_average", self.seek_average),
            ("seek_full", self.seek_full),
            ("reset", self.reset),
            ("finish", self.finish),
        ] {
            rule(option, value <= second, time(value), || "at most 1s".to_owned())?;
        }
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
        let at_least_1 = || "at least 1".to_owned();
        rule("link_rate", self.link_rate >= 1_000_000, format_rate(self.link_rate), || {
            "at least 1MB/s".to_owned()
        })?;
        let piece_ok = self.piece.0 >= 4096 && self.piece.0.is_multiple_of(4096);
        rule("piece", piece_ok && self.piece.0 <= 1 << 30, size(self.piece), || {
            "a multiple of 4KiB up to 1GiB".to_owned()
        })?;
        let cache_ok = self.cache >= self.piece && self.cache.0 <= 1 << 40;
        rule("cache", cache_ok, size(self.cache), || {
            format!("from piece={} to 1TiB", size(self.piece))
        })?;
        let commands_ok = (1..=1 << 20).contains(&self.cache_commands);
        rule("cache_commands", commands_ok, self.cache_commands, || {
            format!("from 1 to {}", 1 << 20)
        })?;
        let read_ahead_ok = self.read_ahead.0.is_multiple_of(self.lba.into());
        rule("read_ahead", read_ahead_ok, size(self.read_ahead), || {
            format!("a multiple of lba={}", self.lba)
        })?;
        rule("segments", (1..=1024).contains(&self.segments), self.segments, || {
            "from 1 to 1024".to_owned()
        })?;
        rule("error_rate", self.error_rate <= 1_000_000, self.error_rate, || {
            "at most 1000000".to_owned()
        })?;
        rule("retries", self.retries > 0, self.retries, at_least_1)
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
        Ok(Limits { rotational: true, max_write_zeroes_sectors: 0, ..limits })
    }
}
