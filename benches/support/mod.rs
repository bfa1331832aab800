//! Loops that drive the block layer over a zoned null device, for the benchmarks.
pub mod handover;
pub mod threads;

use std::sync::Arc;
use std::time::{Duration, Instant};
use zonal_blk::{Bio, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector, Status};
use zonal_device::device_spec;

/// Sectors of a 4 KiB write.
const BLOCK: u64 = 8;

/// The published benchmark's device: 4096 zones of 256 MiB, 128 open.
pub const DEVICE: &str = "null:zones=4096,zone_size=256M,max_open=128,lba=4096";

/// A block layer over a new device.
pub fn queue(device: &str, options: QueueOptions) -> Arc<Queue> {
    let device: Arc<dyn Device> =
        device_spec::build(&device_spec::parse(device).expect("a spec")).expect("a device");
    Queue::attach(device, options).expect("a device that keeps the rules")
}

/// Where the writes of a thread go.
#[derive(Clone, Copy)]
pub struct Zones {
    /// First zone.
    pub first: u64,
    /// The zones written in turn, one block after another.
    pub width: u64,
}

/// A thread that keeps its queue depth full of sequential 4 KiB writes; a full zone is left for
/// another and reset when it comes round.
pub struct Writer {
    channel: Channel,
    depth: usize,
    zones: Zones,
    zone_sectors: u64,
    /// Next offset, the same in all zones.
    offset: u64,
    turn: u64,
    in_flight: usize,
    now: u64,
    done: Vec<Completion>,
}

impl Writer {
    /// A writer with a channel of its own.
    pub fn new(queue: &Arc<Queue>, depth: usize, zones: Zones) -> Self {
        Writer {
            channel: queue.channel().expect("a hardware queue"),
            depth,
            zones,
            zone_sectors: queue.limits().zone_size.0,
            offset: 0,
            turn: 0,
            in_flight: 0,
            now: 0,
            done: Vec::with_capacity(depth + 1),
        }
    }

    /// Writes `count` blocks and waits for the last.
    pub fn write(&mut self, count: u64) {
        let mut left = count;
        while left > 0 || self.in_flight > 0 {
            if self.offset == self.zone_sectors {
                self.drain();
                self.reset();
            }
            while left > 0 && self.in_flight < self.depth && self.offset < self.zone_sectors {
                let zone = self.zones.first + self.turn;
                let sector = Sector(zone * self.zone_sectors + self.offset);
                self.submit(Bio::new(Op::Write, sector, BLOCK as u32, 0));
                self.turn += 1;
                if self.turn == self.zones.width {
                    self.turn = 0;
                    self.offset += BLOCK;
                }
                left -= 1;
            }
            self.reap();
        }
    }

    fn submit(&mut self, bio: Bio) {
        self.now += 1;
        self.channel.submit(Nanos(self.now), bio);
        self.in_flight += 1;
    }

    fn reap(&mut self) {
        self.channel.poll(Nanos(self.now), &mut self.done);
        self.in_flight -= self.done.len();
        for completion in self.done.drain(..) {
            assert_eq!(completion.status, Status::Ok);
        }
    }

    fn drain(&mut self) {
        while self.in_flight > 0 {
            self.reap();
        }
    }

    fn reset(&mut self) {
        for zone in self.zones.first..self.zones.first + self.zones.width {
            self.submit(Bio::new(Op::ZoneReset, Sector(zone * self.zone_sectors), 0, 0));
        }
        self.drain();
        self.offset = 0;
    }
}

/// Nanoseconds an I/O of one writer.
pub fn ns_per_write(queue: &Arc<Queue>, depth: usize, zones: Zones, count: u64) -> f64 {
    let mut writer = Writer::new(queue, depth, zones);
    writer.write(10_000);
    per_io(timed(|| writer.write(count)), count)
}

/// Random 4 KiB reads on one channel that keeps its queue depth full.
pub fn read(queue: &Arc<Queue>, depth: usize, count: u64) {
    let mut channel = queue.channel().expect("a hardware queue");
    let blocks = queue.limits().capacity.0 / BLOCK;
    let mut done = Vec::with_capacity(depth + 1);
    let (mut left, mut in_flight, mut now, mut random) = (count, 0, 0, 1_u64);
    while left > 0 || in_flight > 0 {
        while left > 0 && in_flight < depth {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let sector = Sector((random >> 33) % blocks * BLOCK);
            now += 1;
            channel.submit(Nanos(now), Bio::new(Op::Read, sector, BLOCK as u32, 0));
            left -= 1;
            in_flight += 1;
        }
        channel.poll(Nanos(now), &mut done);
        in_flight -= done.len();
        for completion in done.drain(..) {
            assert_eq!(completion.status, Status::Ok);
        }
    }
}

/// Nanoseconds a read of [`read`].
pub fn ns_per_read(queue: &Arc<Queue>, depth: usize, count: u64) -> f64 {
    read(queue, depth, 10_000);
    per_io(timed(|| read(queue, depth, count)), count)
}

/// The time that `work` takes.
pub fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Nanoseconds for each of `count`.
pub fn per_io(time: Duration, count: u64) -> f64 {
    time.as_nanos() as f64 / count as f64
}
