//! The configuration of a run: a device, a queue and the channels above it, drawn from a seed.
use crate::drive::DriveConfig;
use crate::fault::{FaultConfig, FaultDevice};
use crate::random::Random;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Bytes, Nanos, Queue, QueueOptions, Sector, WpRecovery, ZoneWrite};

/// The largest device: the model tracks every sector.
const MAX_BLOCKS: u64 = 1 << 20;

/// Which configurations and faults are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// All.
    Any,
    /// Devices with zones.
    Zoned,
    /// Devices without zones.
    Regular,
    /// All configurations, no faults.
    Calm,
    /// Devices with data and a volatile cache, and power losses.
    Crash,
}

impl Profile {
    /// All profiles, by name.
    pub const ALL: [(&'static str, Profile); 5] = [
        ("any", Profile::Any),
        ("zoned", Profile::Zoned),
        ("regular", Profile::Regular),
        ("calm", Profile::Calm),
        ("crash", Profile::Crash),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let known = Profile::ALL.iter().find(|(_, profile)| *profile == self);
        known.expect("ALL has all").0
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(found: &str) -> Result<Self, String> {
        let known = Profile::ALL.iter().find(|(name, _)| *name == found);
        known.map(|&(_, profile)| profile).ok_or_else(|| {
            let names = Profile::ALL.map(|(name, _)| name);
            let hint = zonal_blk::did_you_mean(found, names);
            format!("expected one of {}{hint}", names.join(", "))
        })
    }
}

/// A [`ZoneWrite`] that can be serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Policy {
    Plug,
    Qd1,
    Lock,
    Off,
}

impl From<Policy> for ZoneWrite {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Plug => ZoneWrite::Plug,
            Policy::Qd1 => ZoneWrite::Qd1,
            Policy::Lock => ZoneWrite::Lock,
            Policy::Off => ZoneWrite::Off,
        }
    }
}

/// Names and values of a scheduler's attributes.
pub type Attributes = Vec<(String, String)>;

/// A device, a queue and its channels. Lengths are in LBAs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The device inside the failing one.
    pub drive: DriveConfig,
    /// Number of zones; 0 for a device without zones, whose length is `zone_lbas`.
    pub zones: u32,
    /// Distance between zone starts.
    pub zone_lbas: u32,
    /// Writable part of a sequential zone.
    pub capacity_lbas: u32,
    /// Length of the last zone.
    pub last_lbas: u32,
    /// Leading conventional zones.
    pub conventional: u32,
    /// LBA size in bytes.
    pub lba: u32,
    /// Unit of writes to sequential zones if it is more than an LBA, else 0.
    #[serde(default)]
    pub granularity_lbas: u32,
    /// Limit on open zones, 0 for none.
    pub max_open: u32,
    /// Limit on active zones, 0 for none.
    pub max_active: u32,
    /// Longest native append, 0 for none.
    pub append_lbas: u32,
    /// Longest command.
    pub max_io_lbas: u32,
    /// Longest write zeroes, 0 for none; absent for the limit of the device inside.
    pub zeroes_lbas: Option<u32>,
    /// Hardware queues.
    pub queues: u16,
    /// Tags per hardware queue.
    pub depth: u16,
    /// Latency of a command in nanoseconds.
    pub latency: u64,
    /// Maximum additional latency in nanoseconds.
    pub jitter: u64,
    /// Whether the device is rotational.
    pub rotational: bool,
    /// Whether writes are volatile until flushed.
    pub cache: bool,
    /// Whether bios carry data, which the device stores.
    pub data: bool,
    /// How writes to zones are kept in order.
    pub policy: Policy,
    /// The I/O scheduler's name.
    pub scheduler: String,
    /// Its attributes.
    pub attributes: Attributes,
    /// Whether waiting bios are merged.
    pub merge: bool,
    /// Whether native appends are not used.
    pub emulate_append: bool,
    /// Whether unknown write pointers are recovered only by zone reports that users request, as in
    /// the kernel.
    pub lazy_recovery: bool,
    /// Whether channels share hardware queues.
    pub share_queues: bool,
    /// Number of channels.
    pub channels: u8,
    /// Percentage of lock attempts that find the lock taken (only with `--cfg torture`).
    pub contention: u8,
    /// Whether channels poll between steps, whenever they have something to do.
    #[serde(rename = "attentive")]
    pub polls_eagerly: bool,
    /// Whether draining polls a channel only when it is due, as a thread that sleeps does, instead of
    /// polling all channels in a loop.
    #[serde(rename = "punctual")]
    pub polls_when_due: bool,
    /// Percentage of writes with FUA; a tenth of that have PREFLUSH.
    pub fua: u8,
    /// Nanoseconds after which a command is aborted.
    pub io_timeout: u64,
}

/// Zones and limits of a device, in LBAs.
struct Geometry {
    zones: u32,
    zone_lbas: u32,
    capacity_lbas: u32,
    conventional: u32,
    max_io_lbas: u32,
    append_lbas: u32,
    /// The last zone is shorter than the others.
    short_last: bool,
    max_open: u32,
    max_active: u32,
}

impl Geometry {
    fn draw(random: &mut Random, zoned: bool) -> Self {
        let zone_lbas = if zoned { random.skewed(4, 96) } else { random.skewed(16, 512) };
        let capacity_lbas =
            if random.percent(60) { zone_lbas } else { random.range(zone_lbas / 2, zone_lbas) };
        let zones = if zoned { random.skewed(1, 12) } else { 0 };
        let conventional = if random.percent(60) { 0 } else { random.range(0, zones) };
        let max_io_lbas = random.skewed(1, 24);
        let native = zoned && random.percent(35);
        let append_lbas = if native { random.range(1, max_io_lbas) } else { 0 };
        let short_last = zones > 1 && !native && random.percent(20);
        // The drive inside does not know that its last zone is shorter, and so not when it is full.
        let limited = !short_last && random.percent(35);
        let max_active = if limited { random.range(0, zones.max(1)) } else { 0 };
        let most_open = if max_active > 0 { max_active } else { zones.max(1) };
        let lowest = u32::from(max_active > 0);
        let max_open = if limited { random.range(lowest, most_open) } else { 0 };
        Geometry {
            zones,
            zone_lbas,
            capacity_lbas,
            conventional,
            max_io_lbas,
            append_lbas,
            short_last,
            max_open,
            max_active,
        }
    }
}

impl Config {
    pub(super) fn draw(random: &mut Random, profile: Profile) -> Self {
        let zoned = match profile {
            Profile::Regular => false,
            Profile::Any | Profile::Calm => random.percent(90),
            Profile::Crash => random.percent(75),
            Profile::Zoned => true,
        };
        let geometry = Geometry::draw(random, zoned);
        let channels = random.skewed(1, 5) as u8;
        let share_queues = random.percent(30);
        let (scheduler, attributes) = draw_scheduler(random);
        let locks = scheduler == "mq-deadline";
        let policy = match zoned {
            true => random.weighted(&[
                (10, Policy::Plug),
                (7, Policy::Qd1),
                (if locks { 6 } else { 0 }, Policy::Lock),
                (1, Policy::Off),
            ]),
            false => Policy::Plug,
        };
        let timed = random.percent(70);
        let data = profile == Profile::Crash || random.percent(30);
        let cache = profile == Profile::Crash || random.percent(20);
        let drive = DriveConfig::draw(random, zoned);
        let mut config = Config {
            drive: drive.clone(),
            zones: geometry.zones,
            zone_lbas: geometry.zone_lbas,
            capacity_lbas: geometry.capacity_lbas,
            last_lbas: match geometry.short_last {
                true => random.range(1, geometry.zone_lbas),
                false => geometry.zone_lbas,
            },
            conventional: geometry.conventional,
            lba: random.weighted(&[(4, 512), (1, 4096)]),
            granularity_lbas: 0,
            max_open: geometry.max_open,
            max_active: geometry.max_active,
            append_lbas: geometry.append_lbas,
            max_io_lbas: geometry.max_io_lbas,
            zeroes_lbas: random.weighted(&[(3, None), (1, Some(0)), (1, Some(3))]),
            queues: if share_queues { random.range(1, 3) as u16 } else { u16::from(channels) },
            depth: random.skewed(1, 64) as u16,
            latency: if timed { u64::from(random.skewed(1, 100_000)) } else { 0 },
            jitter: if timed { u64::from(random.skewed(0, 200_000)) } else { 0 },
            rotational: random.percent(20),
            cache,
            data,
            policy,
            scheduler,
            attributes,
            merge: random.percent(75),
            emulate_append: geometry.append_lbas > 0 && random.percent(30),
            lazy_recovery: random.percent(25),
            share_queues,
            channels,
            contention: if random.percent(50) { random.range(1, 50) as u8 } else { 0 },
            polls_eagerly: random.percent(25),
            polls_when_due: random.percent(60),
            fua: if cache || random.percent(20) { random.range(1, 30) as u8 } else { 0 },
            io_timeout: match random.percent(60) {
                true => 30_000_000_000,
                false => random.skewed(50_000, 50_000_000).into(),
            },
        };
        drive.adapt(&mut config);
        config.draw_granularity(random);
        config
    }

    /// On some devices, writes to sequential zones take units of several LBAs, of which zones and the
    /// longest command have whole numbers.
    fn draw_granularity(&mut self, random: &mut Random) {
        if self.zones == 0 || random.percent(80) {
            return;
        }
        let unit = random.pick(&[2, 4, 8]);
        self.granularity_lbas = unit;
        self.zone_lbas = self.zone_lbas.next_multiple_of(unit);
        for lbas in [&mut self.capacity_lbas, &mut self.last_lbas] {
            *lbas = lbas.next_multiple_of(unit).min(self.zone_lbas);
        }
        self.max_io_lbas = self.max_io_lbas.max(unit);
    }

    /// Unit of writes to sequential zones in LBAs.
    pub fn unit_lbas(&self) -> u32 {
        self.granularity_lbas.max(1)
    }

    /// Sectors per LBA.
    pub fn lba_sectors(&self) -> u32 {
        self.lba / 512
    }

    pub(super) fn bytes(&self, lbas: u32) -> Bytes {
        Bytes(u64::from(lbas) * u64::from(self.lba))
    }

    /// Creates the device.
    ///
    /// # Errors
    /// The configuration is invalid, which it can be if it comes from a file.
    pub fn device(&self) -> Result<Arc<FaultDevice>, String> {
        let blocks = u64::from(self.zones.max(1)) * u64::from(self.zone_lbas);
        if blocks > MAX_BLOCKS {
            return Err(format!("a device of {blocks} blocks, expected at most {MAX_BLOCKS}"));
        }
        if self.channels == 0 || self.queues < u16::from(self.channels) && !self.share_queues {
            let (channels, queues) = (self.channels, self.queues);
            return Err(format!("{channels} channels on {queues} hardware queues of their own"));
        }
        let medium = self.drive.medium(self)?;
        let last = self.zones > 0 && self.last_lbas < self.zone_lbas;
        let config = FaultConfig {
            latency: Nanos(self.latency),
            jitter: Nanos(self.jitter),
            seed: 0,
            volatile_cache: self.cache,
            last_zone: last.then(|| self.bytes(self.last_lbas).to_sectors()),
            max_write_zeroes: self.zeroes_lbas.map(|lbas| lbas.saturating_mul(self.lba_sectors())),
            rotational: self.rotational,
            write_granularity: self.granularity_lbas.saturating_mul(self.lba),
        };
        Ok(FaultDevice::new(medium, config))
    }

    /// Attaches the block layer to the device.
    ///
    /// # Errors
    /// The configuration is invalid.
    pub fn queue(&self, device: &Arc<FaultDevice>) -> Result<Arc<Queue>, String> {
        let options = QueueOptions {
            zone_write: Some(self.policy.into()),
            scheduler: scheduler(&self.scheduler, &self.attributes)?,
            merge: self.merge,
            emulate_append: self.emulate_append,
            wp_recovery: match self.lazy_recovery {
                true => WpRecovery::OnRequest,
                false => WpRecovery::Report,
            },
            power_of_two_zones: false,
            share_queues: self.share_queues,
            io_timeout: Nanos(self.io_timeout),
            iostats: false,
            watchable: false,
        };
        let device: Arc<FaultDevice> = Arc::clone(device);
        Queue::attach(device, options).map_err(|error| error.to_string())
    }

    /// The capacity of the device.
    pub fn capacity(&self) -> Sector {
        let lbas = match self.zones {
            0 => u64::from(self.zone_lbas),
            zones => u64::from(zones - 1) * u64::from(self.zone_lbas) + u64::from(self.last_lbas),
        };
        Sector(lbas * u64::from(self.lba_sectors()))
    }
}

/// The scheduler of that name with these attributes.
pub(super) fn scheduler(name: &str, attributes: &Attributes) -> Result<Scheduler, String> {
    let mut scheduler = Scheduler::from_str(name).map_err(|error| error.to_string())?;
    for (name, value) in attributes {
        scheduler.set(name, value).map_err(|error| error.to_string())?;
    }
    Ok(scheduler)
}

/// Draws a scheduler and its attributes.
pub(super) fn draw_scheduler(random: &mut Random) -> (String, Attributes) {
    // mq-deadline has the most paths: zones can be locked by it alone.
    let weight = |name| match name {
        "none" => 6,
        "mq-deadline" => 4,
        _ => 2,
    };
    let weights: Vec<_> = Scheduler::NAMES.iter().map(|&name| (weight(name), name)).collect();
    let name = random.weighted(&weights);
    (name.to_owned(), attributes(random, name))
}

/// Attributes with which a scheduler delays and releases requests within a run.
fn attributes(random: &mut Random, scheduler: &str) -> Attributes {
    let mut set = Vec::new();
    let mut add = |name: &str, value: String| set.push((name.to_owned(), value));
    match scheduler {
        "mq-deadline" if random.percent(60) => {
            add("fifo_batch", random.skewed(1, 16).to_string());
            add("writes_starved", random.range(0, 3).to_string());
            add("front_merges", random.range(0, 1).to_string());
            add("async_depth", random.range(0, 4).to_string());
            add("read_expire", random.range(0, 2).to_string());
            add("write_expire", random.range(0, 3).to_string());
            add("prio_aging_expire", random.range(0, 5).to_string());
        }
        "bfq" if random.percent(60) => {
            add("slice_idle", random.range(0, 8).to_string());
            add("low_latency", random.range(0, 1).to_string());
            add("strict_guarantees", random.range(0, 1).to_string());
        }
        "kyber" if random.percent(60) => {
            add("read_lat_nsec", (u64::from(random.skewed(1, 100)) * 10_000).to_string());
            add("write_lat_nsec", (u64::from(random.skewed(1, 100)) * 10_000).to_string());
        }
        _ => {}
    }
    set
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lba = self.lba;
        if self.zones == 0 {
            write!(f, "{:?}, regular, of {} blocks of {lba} B", self.drive, self.zone_lbas)?;
        } else {
            write!(
                f,
                "{:?}, {} zones ({} conventional) of {} blocks of {lba} B, capacity {}, last zone {}, \
                 written in {}, open {}, active {}, append {}",
                self.drive,
                self.zones,
                self.conventional,
                self.zone_lbas,
                self.capacity_lbas,
                self.last_lbas,
                self.unit_lbas(),
                self.max_open,
                self.max_active,
                self.append_lbas,
            )?;
        }
        write!(
            f,
            "; command {}, depth {}, {} ns + {} ns, data {}, cache {}; policy {:?}, {}{:?}, merge {}, \
             emulate append {}, lazy recovery {}, timeout {} ns; {} channels on {} {}queues, attentive {}, \
             punctual {}, contention {} %",
            self.max_io_lbas,
            self.depth,
            self.latency,
            self.jitter,
            self.data,
            self.cache,
            self.policy,
            self.scheduler,
            self.attributes,
            self.merge,
            self.emulate_append,
            self.lazy_recovery,
            self.io_timeout,
            self.channels,
            self.queues,
            if self.share_queues { "shared " } else { "" },
            self.polls_eagerly,
            self.polls_when_due,
            self.contention,
        )
    }
}
