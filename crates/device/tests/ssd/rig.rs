//! A small drive below a queue, in virtual time.
use std::sync::Arc;
use zonal_blk::{Bio, Bytes, Channel, Completion, Device, Nanos, Op, Queue, Sector, Status};
use zonal_device::control::{DeviceControl, TranslationStats};
use zonal_device::rng::Rng;
use zonal_device::{SsdConfig, SsdDevice};

/// Sectors of a page.
pub const PAGE: u64 = 8;
/// Pages of the drive, and of a superblock.
pub const PAGES: u64 = 4096;
pub const SUPERBLOCK: u64 = 128;

/// A drive whose times are easy to add up: 1 byte a nanosecond everywhere, units of 64 KiB on four
/// dies of two channels, superblocks of 512 KiB.
pub fn small() -> SsdConfig {
    SsdConfig {
        size: Bytes(PAGES * 4096),
        overprovision: 28_000,
        gc_low: 3,
        gc_high: 3,
        gc_buffer: Bytes(256 << 10),
        buffer: Bytes(1 << 20),
        max_io: Bytes(256 << 10),
        write_time: Nanos(10_000),
        read_time: Nanos(5_000),
        manage_time: Nanos(2_000),
        link_rate: Bytes(1_000_000_000),
        channels: 2,
        dies: 4,
        planes: 2,
        page: Bytes(16 << 10),
        cell_pages: 2,
        block: Bytes(64 << 10),
        channel_rate: Bytes(1_000_000_000),
        page_read: Nanos(40_000),
        program: Nanos(200_000),
        erase: Nanos(1_000_000),
        ..SsdConfig::default()
    }
}

pub struct Rig {
    pub device: Arc<SsdDevice>,
    pub channel: Channel,
    pub now: Nanos,
    pub ends: Vec<(Nanos, Completion)>,
}

impl Rig {
    pub fn new(config: &SsdConfig) -> Self {
        let device = Arc::new(SsdDevice::new(config).unwrap());
        let queue = Queue::attach(Arc::clone(&device) as Arc<dyn Device>, Default::default());
        let channel = queue.unwrap().channel().unwrap();
        Rig { device, channel, now: Nanos(0), ends: Vec::new() }
    }

    pub fn submit(&mut self, bio: Bio) {
        self.channel.submit(self.now, bio);
    }

    /// Lets time pass to the next event.
    pub fn step(&mut self) {
        self.now = self.channel.next_event().at().map_or(self.now, |at| at.max(self.now));
        let mut completions = Vec::new();
        self.channel.poll(self.now, &mut completions);
        self.ends.extend(completions.drain(..).map(|completion| (self.now, completion)));
    }

    pub fn run(&mut self) {
        while self.channel.outstanding() > 0 {
            self.step();
        }
    }

    /// Runs a bio to its end; how long it took.
    pub fn time(&mut self, bio: Bio) -> u64 {
        let start = self.now;
        assert_eq!(self.status(bio), Status::Ok);
        (self.now - start).0
    }

    /// Runs a bio to its end; how it completed.
    pub fn status(&mut self, bio: Bio) -> Status {
        self.submit(bio);
        self.run();
        self.ends.pop().unwrap().1.status
    }

    /// Random overwrites of a page each, `depth` at a time. Returns their latencies, in order of completion.
    pub fn overwrite(&mut self, writes: u64, depth: usize, rng: &mut Rng) -> Vec<u64> {
        let mut begun = vec![Nanos(0); usize::try_from(writes).unwrap()];
        let mut latencies = Vec::new();
        let pages = self.device.limits().capacity.0 / PAGE;
        let mut next = 0;
        while latencies.len() < begun.len() {
            while self.channel.outstanding() < depth && next < writes {
                begun[usize::try_from(next).unwrap()] = self.now;
                let sector = Sector(rng.below(pages) * PAGE);
                self.submit(Bio::new(Op::Write, sector, 8, next));
                next += 1;
            }
            self.step();
            for (end, completion) in self.ends.drain(..) {
                assert_eq!(completion.status, Status::Ok);
                let start = begun[usize::try_from(completion.user_data).unwrap()];
                latencies.push((end - start).0);
            }
        }
        latencies
    }

    pub fn stats(&self) -> TranslationStats {
        self.device.translation().unwrap()
    }

    /// The write amplification of what is written from now on.
    pub fn amplification_of(&mut self, write: impl FnOnce(&mut Rig)) -> f64 {
        let before = self.stats();
        write(self);
        self.stats().since(&before).write_amplification()
    }
}

pub fn write(page: u64, pages: u64) -> Bio {
    Bio::new(Op::Write, Sector(page * PAGE), u32::try_from(pages * PAGE).unwrap(), 0)
}

pub fn read(page: u64, pages: u64) -> Bio {
    Bio::new(Op::Read, Sector(page * PAGE), u32::try_from(pages * PAGE).unwrap(), 0)
}
