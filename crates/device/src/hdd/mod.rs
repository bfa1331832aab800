//! The rotating disk: conventional or host-managed shingled, with the times of its mechanics.
//!
//! ```text
//!   config     parameters and the rules between them
//!   geometry   address -> radius, track, angle       seek    distance -> time
//!   buffer     write buffer and read cache           state   what link and head share
//!   link       commands and data in, responses out   head    reads and writes, in which order
//!   drive      link and head in the order of time
//! ```
//!
//! All commands pass through one hardware queue, as with AHCI.
mod buffer;
mod config;
mod drive;
mod geometry;
mod head;
mod kind;
mod link;
mod seek;
mod state;
mod trace;

use crate::config::ConfigError;
use crate::control::{
    CommandObserver, DeviceControl, DeviceStats, Estimate, EstimatedLoad, Lateness, Level,
    MediumAccess,
};
use crate::quantity::{format_rate, format_size, format_time};
use crate::storage::{ModelStorage, Storage, Stored};
pub(crate) use config::KIND;
pub use config::{HddConfig, HostInterface, Order, Recording};
use drive::{Drive, Upcoming};
pub use geometry::{DiskLocation, Geometry};
pub use seek::SeekCurve;
pub use state::Counters;
use state::Medium;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
pub use trace::{HeadActivity, HeadState, HeadTraceSink, TraceEntry};
use zonal_blk::lock::SpinLock;
use zonal_blk::{
    Bytes, Device, HwQueue, Limits, Nanos, ReadBufs, Request, Status, Wake, Zone, ZoneCondition,
    ZoneNo,
};

/// A rotating disk.
pub struct HddDevice {
    config: HddConfig,
    limits: Limits,
    medium: Medium,
    drive: SpinLock<Drive>,
    /// The heads and zones that are left: formatting the disk without a head takes both.
    heads: AtomicU32,
    zones: AtomicU32,
    /// To be read without the lock: when the drive has something to do and when a command may complete,
    /// `u64::MAX` for never.
    next_step: AtomicU64,
    next_event: AtomicU64,
    /// The time before which no command completes, likewise.
    next_completion: AtomicU64,
    /// The last poll that found nothing to do and took no lock.
    polled: AtomicU64,
}

impl HddDevice {
    /// Creates a disk, its heads at the outer edge, all of its sequential zones empty.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn new(config: &HddConfig) -> Result<Self, ConfigError> {
        Self::with_trace(config, None)
    }

    /// The same, with a trace of up to `entries` activities of the head.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn with_trace(config: &HddConfig, entries: Option<usize>) -> Result<Self, ConfigError> {
        let limits = config.limits()?;
        let storage = config.null_config().storage(&limits);
        Ok(Self::with_storage(config, limits, ModelStorage::own(storage), entries))
    }

    /// A disk that only models time, for commands whose zones and data are elsewhere.
    ///
    /// # Errors
    /// The first rule that the configuration breaks.
    pub fn timing(config: &HddConfig) -> Result<Self, ConfigError> {
        let limits = config.limits()?;
        Ok(Self::with_storage(config, limits, ModelStorage::timing_only(), None))
    }

    fn with_storage(
        config: &HddConfig,
        limits: Limits,
        storage: ModelStorage,
        entries: Option<usize>,
    ) -> Self {
        HddDevice {
            config: config.clone(),
            medium: Medium::new(storage, &limits),
            heads: config.heads.into(),
            zones: limits.nr_zones.into(),
            limits,
            drive: SpinLock::new(Drive::new(config, entries)),
            next_step: AtomicU64::new(u64::MAX),
            next_event: AtomicU64::new(u64::MAX),
            next_completion: AtomicU64::new(u64::MAX),
            polled: AtomicU64::new(0),
        }
    }

    /// The drive's counts so far.
    pub fn counters(&self) -> Counters {
        self.with_drive(|drive| drive.counters())
    }

    /// Bytes and commands in the write buffer.
    pub fn buffered(&self) -> (Bytes, u32) {
        let (bytes, commands) = self.with_drive(|drive| drive.buffered());
        (Bytes(bytes), commands)
    }

    /// The recorded activities of the head; empty without a trace.
    pub fn trace(&self) -> Vec<TraceEntry> {
        self.with_drive(|drive| drive.trace().to_vec())
    }

    /// The configuration of the disk as it was last formatted.
    fn config(&self) -> HddConfig {
        let mut config = self.config.clone();
        config.heads = self.heads.load(Ordering::Relaxed);
        if config.recording == Recording::Smr {
            config.zones = self.nr_zones();
        }
        config
    }

    /// Whether a command is for a zone that the disk no longer has.
    #[inline]
    fn is_beyond_end(&self, request: &Request) -> bool {
        self.limits.nr_zones > 0 && request.zone().0 >= self.zones.load(Ordering::Acquire)
    }

    /// Has the drive do something, and publishes when it is next due.
    #[inline]
    fn with_drive<R>(&self, f: impl FnOnce(&mut Drive) -> R) -> R {
        let mut drive = self.drive.lock();
        drive.was_idle_until(Nanos(self.polled.load(Ordering::Relaxed)));
        let result = f(&mut drive);
        let Upcoming { step, event, completion } = drive.upcoming(&self.medium);
        self.next_step.store(step, Ordering::Release);
        self.next_event.store(event, Ordering::Release);
        self.next_completion.store(completion, Ordering::Release);
        result
    }
}

impl Device for HddDevice {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn nr_zones(&self) -> u32 {
        self.zones.load(Ordering::Acquire)
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        let all = self.storage()?.zones()?;
        let left = self.nr_zones().checked_sub(first.0).filter(|left| *left > 0);
        all.report(first, max.min(left.ok_or(Status::Invalid)? as usize), zones)
    }

    fn zones_as_new(&self, first: ZoneNo, max: u32) -> u32 {
        self.storage().and_then(Storage::zones).map_or(0, |zones| zones.as_new(first, max))
    }

    fn read_bufs(&self) -> ReadBufs {
        self.storage().map_or(ReadBufs::Untouched, Storage::read_bufs)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(DriveQueue(self))
    }
}

/// The hardware queue. The drive may still have data to write when it is dropped.
struct DriveQueue(Arc<HddDevice>);

impl HwQueue for DriveQueue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.0.with_drive(|drive| match self.0.is_beyond_end(&request) {
            true => drive.refuse(request, Status::IoError),
            false => drive.start(now, request, &self.0.medium),
        });
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let device = &*self.0;
        if now.0 >= device.next_step.load(Ordering::Acquire) {
            device.with_drive(|drive| drive.poll(now, done, &device.medium));
        } else if now.0 > device.polled.load(Ordering::Relaxed) {
            device.polled.store(now.0, Ordering::Relaxed);
        }
    }

    fn next_event(&self) -> Wake {
        wake_at(&self.0.next_event)
    }

    fn next_completion(&self) -> Wake {
        wake_at(&self.0.next_completion)
    }
}

fn wake_at(next: &AtomicU64) -> Wake {
    match next.load(Ordering::Acquire) {
        u64::MAX => Wake::Idle,
        at => Wake::At(Nanos(at)),
    }
}

impl DeviceControl for HddDevice {
    fn heads(&self) -> u32 {
        match self.config.recording {
            Recording::Smr => self.heads.load(Ordering::Relaxed),
            Recording::Cmr => 0,
        }
    }

    fn zones_of_head(&self, head: u32) -> Vec<ZoneNo> {
        if head >= self.heads() {
            return Vec::new();
        }
        let geometry = Geometry::new(&self.config());
        let starts = |zone: &ZoneNo| u64::from(zone.0) * self.config.zone_size.0;
        let is_under = |zone: &ZoneNo| geometry.head(starts(zone)) == u64::from(head);
        (0..self.nr_zones()).map(ZoneNo).filter(is_under).collect()
    }

    fn format_without_head(&self, head: u32) -> Result<u32, Status> {
        let storage = self.storage()?;
        if self.heads() == 0 {
            return Err(Status::NotSupported);
        }
        self.with_drive(|drive| {
            let lost =
                u32::try_from(self.zones_of_head(head).len()).expect("zones have 32-bit numbers");
            let left = self.nr_zones() - lost;
            if lost == 0 || left <= self.config.conventional {
                return Err(Status::Invalid);
            }
            drive.drain(&self.medium);
            storage.format()?;
            self.heads.fetch_sub(1, Ordering::Relaxed);
            self.zones.store(left, Ordering::Release);
            drive.lay_out(&self.config());
            Ok(left)
        })
    }

    fn set_condition(&self, zone: ZoneNo, to: ZoneCondition) -> Result<(), Status> {
        self.storage()?.set_condition(zone, to)
    }

    fn characteristics(&self) -> Vec<(&'static str, String)> {
        let config = &self.config();
        let seek = config.seek_curve();
        let millis = |nanos: u64| format!("{:.2} ms", nanos as f64 / 1e6);
        let track = |bytes: Bytes| format_size(bytes.0);
        let rings = u64::from(config.rings);
        let average = (config.track_outer.0 + config.track_inner.0) / 2;
        vec![
            (
                "recording",
                if config.recording == Recording::Smr { "shingled" } else { "conventional" }
                    .to_owned(),
            ),
            (
                "rotation",
                format!("{} a minute, {} a turn", config.rpm, millis(config.revolution().0)),
            ),
            ("heads", config.heads.to_string()),
            (
                "tracks",
                format!(
                    "{} a surface in {rings} rings, of {} to {}",
                    config.capacity().0 / average / u64::from(config.heads),
                    track(config.track_outer),
                    track(config.track_inner)
                ),
            ),
            ("head or track switch", millis(config.skew.0)),
            (
                "seek",
                format!(
                    "settle {}, average {}, full {}",
                    millis(seek.time(0.0)),
                    millis(config.seek_average.0),
                    millis(seek.time(1.0))
                ),
            ),
            (
                "link",
                format!(
                    "{}, {} a command",
                    format_rate(config.link_rate),
                    format_time(config.command.0)
                ),
            ),
            ("commands at once", config.queue_depth().to_string()),
            (
                "write buffer",
                if config.write_cache { format_size(config.cache.0) } else { "off".to_owned() },
            ),
            (
                "read ahead",
                format!("{} in {} segments", format_size(config.read_ahead.0), config.segments),
            ),
        ]
    }

    fn estimates(&self) -> Vec<Estimate> {
        let config = &self.config;
        let rate = |load, track: Bytes, which: &str| {
            let time = (config.revolution() + config.skew).0 as f64 / 1e9;
            let from = format!("the {which} track in a turn and a head switch");
            Estimate { load, value: track.0 as f64 / time, from }
        };
        vec![
            rate(EstimatedLoad::SequentialAtStart, config.track_outer, "outermost"),
            rate(EstimatedLoad::SequentialAtEnd, config.track_inner, "innermost"),
            random_reads(config),
        ]
    }

    fn levels(&self) -> Vec<Level> {
        let (bytes, commands) = self.buffered();
        let config = &self.config;
        vec![
            Level { name: "write buffer, bytes", value: bytes.0, of: config.cache.0 },
            Level {
                name: "write buffer, commands",
                value: commands.into(),
                of: config.cache_commands.into(),
            },
        ]
    }

    fn trace_head(&self, sink: HeadTraceSink) -> bool {
        self.with_drive(|drive| drive.trace_to(sink));
        true
    }

    fn head(&self) -> Option<HeadState> {
        Some(self.with_drive(|drive| drive.head()))
    }

    fn lateness(&self) -> Option<Lateness> {
        Some(self.with_drive(|drive| drive.lateness()))
    }

    fn stats(&self) -> DeviceStats {
        let Counters {
            seeks,
            seek_time,
            rotate_time,
            transfer_time,
            idle_time,
            cache_hits,
            full_waits,
            retries,
        } = self.counters();
        DeviceStats {
            counts: vec![
                ("seeks", seeks),
                ("reads without an access", cache_hits),
                ("writes that found the buffer full", full_waits),
                ("turns to try again", retries),
            ],
            times: vec![
                ("seeks", seek_time),
                ("rotation", rotate_time),
                ("transfer", transfer_time),
                ("idle", idle_time),
            ],
        }
    }

    fn medium(&self) -> Option<&dyn MediumAccess> {
        Some(self)
    }
}

fn random_reads(config: &HddConfig) -> Estimate {
    let nanos = config.command.0 + config.seek_average.0 + config.revolution().0 / 2;
    Estimate {
        load: EstimatedLoad::RandomReads,
        value: 1e9 / nanos as f64,
        from: "command, average seek and half a turn".to_owned(),
    }
}

impl Stored for HddDevice {
    fn storage(&self) -> Result<&Storage, Status> {
        self.medium.storage.get()
    }

    fn complete_pending(&self) {
        self.with_drive(|drive| drive.drain(&self.medium));
    }

    fn observe(&self, observer: Weak<dyn CommandObserver>) -> bool {
        self.medium.storage.set_observer(observer)
    }
}
