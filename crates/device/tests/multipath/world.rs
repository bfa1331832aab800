//! A device with two paths, channels on top of it, and virtual time.
use crate::path::{Habits, TestPath};
use std::sync::Arc;
use zonal_blk::{
    Bio, Buf, Bytes, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector, Status,
    ZoneWrite,
};
use zonal_device::control::DeviceControl;
use zonal_device::multipath::{IoPolicy, MultipathConfig, MultipathDevice};
use zonal_device::{NullConfig, NullDevice};

/// Sectors of a zone.
pub const ZONE: u64 = 128;

pub const CONFIG: MultipathConfig =
    MultipathConfig { policy: IoPolicy::RoundRobin, hold_timeout: None, quiesce: Nanos(0) };

pub fn null_device(zones: u32) -> Arc<NullDevice> {
    let config = NullConfig {
        zones,
        zone_size: Bytes(ZONE * 512),
        conventional: 1,
        memory: true,
        append_max: Bytes(64 << 10),
        lba: 4096,
        ..NullConfig::default()
    };
    Arc::new(NullDevice::new(&config).unwrap())
}

pub struct World {
    pub now: Nanos,
    pub medium: Arc<NullDevice>,
    pub paths: Vec<Arc<TestPath>>,
    pub device: Arc<MultipathDevice>,
    pub channels: Vec<Channel>,
    pub done: Vec<Completion>,
    /// Past the paths.
    aside: Channel,
    /// The completions of ghosts.
    pub ghosts: Vec<Completion>,
}

impl World {
    pub fn new(config: MultipathConfig, habits: Habits, policy: ZoneWrite) -> Self {
        let medium = null_device(5);
        let second = Habits { seed: habits.seed + 1, ..habits.clone() };
        let paths = vec![TestPath::new("a", &medium, habits), TestPath::new("b", &medium, second)];
        World::of(medium, paths, config, policy)
    }

    pub fn of(
        medium: Arc<NullDevice>,
        paths: Vec<Arc<TestPath>>,
        config: MultipathConfig,
        policy: ZoneWrite,
    ) -> Self {
        let device =
            MultipathDevice::new(paths.iter().map(|path| Arc::clone(path) as _).collect(), config);
        let device = device.unwrap();
        let attach = |device: Arc<dyn Device>, policy| {
            let options = QueueOptions { zone_write: Some(policy), ..QueueOptions::default() };
            Queue::attach(device, options).unwrap()
        };
        let queue = attach(Arc::clone(&device) as _, policy);
        let aside = attach(Arc::clone(&medium) as _, ZoneWrite::Off).channel().unwrap();
        let channels = (0..2).map(|_| queue.channel().unwrap()).collect();
        let (done, ghosts) = (Vec::new(), Vec::new());
        World { now: Nanos(0), medium, paths, device, channels, done, aside, ghosts }
    }

    pub fn submit(&mut self, channel: usize, bio: Bio) {
        self.channels[channel].submit(self.now, bio);
    }

    /// A write of blocks that all say `id`.
    pub fn write(&mut self, channel: usize, sector: u64, blocks: u32, id: u64) {
        self.submit(channel, bio(Op::Write, sector, blocks, id));
    }

    pub fn outstanding(&self) -> usize {
        self.channels.iter().map(Channel::outstanding).sum()
    }

    /// Lets time pass, up to `until`.
    pub fn run_until(&mut self, until: Nanos) {
        loop {
            self.settle();
            let channels = self.channels.iter_mut().filter_map(|channel| channel.next_event().at());
            let ghosts = self.paths.iter().filter_map(|path| path.next_ghost());
            let Some(next) = channels.chain(ghosts).min().filter(|&next| next <= until) else {
                break;
            };
            self.now = self.now.max(next);
        }
        self.now = self.now.max(until);
    }

    /// All that is due now.
    fn settle(&mut self) {
        for path in &self.paths {
            while let Some(bio) = path.ghost(self.now) {
                self.aside.submit(self.now, bio);
                self.aside.poll(self.now, &mut self.ghosts);
            }
        }
        // A completion of one channel may be the other's turn.
        for _ in 0..4 {
            for channel in &mut self.channels {
                channel.poll(self.now, &mut self.done);
            }
        }
    }

    /// Lets all I/O end, in bounded time.
    #[track_caller]
    pub fn finish(&mut self) -> Vec<Completion> {
        let end = self.now + Nanos(60_000_000_000);
        while self.outstanding() > 0 {
            assert!(self.now < end, "I/O is stuck");
            let next = self.now + Nanos(10_000_000);
            self.run_until(next);
        }
        let mut done = std::mem::take(&mut self.done);
        done.sort_by_key(|completion| completion.user_data);
        done
    }

    /// How each I/O ended, by its number.
    #[track_caller]
    pub fn statuses(&mut self) -> Vec<Status> {
        self.finish().iter().map(|completion| completion.status).collect()
    }

    /// The numbers that the blocks of a zone say.
    pub fn blocks(&self, zone: u32) -> Vec<u64> {
        let start = Sector(u64::from(zone) * ZONE);
        let mut data = vec![0; usize::try_from(ZONE * 512).unwrap()];
        zonal_device::control::FaultHooks::read_raw(&*self.medium, start, &mut data);
        let id = |block: &[u8]| u64::from_le_bytes(block[..8].try_into().unwrap());
        data.chunks(4096).map(id).collect()
    }

    /// How often something happened.
    pub fn count(&self, what: &str) -> u64 {
        let counts = self.device.stats().counts;
        counts.iter().find(|(name, _)| *name == what).expect("a counter").1
    }
}

/// A command with data that say `id`.
pub fn bio(op: Op, sector: u64, blocks: u32, id: u64) -> Bio {
    let data: Vec<u8> = id.to_le_bytes().repeat(blocks as usize * 512);
    Bio { op, ..Bio::write(Sector(sector), Buf::from(&data[..]), id) }
}
