//! The memory that the layer takes: little per zone, nothing per I/O.
//!
//! The device is the test's own and keeps nothing. One test, for the allocator counts what all
//! threads do.
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zonal_blk::sched::Scheduler;
use zonal_blk::{
    Bio, Buf, Channel, Device, HwQueue, Limits, Nanos, Op, Queue, QueueOptions, Request, Sector,
    Status, TimedQueue, Zone, ZoneNo, ZoneWrite,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1 << 20;
const ZONE: u64 = 1 << 16;

/// A device that does all it is asked when next polled.
struct Tiny {
    limits: Limits,
    /// Hardware queues opened.
    opened: AtomicU32,
}

impl Tiny {
    /// Without zones it has the size of one.
    fn new(nr_zones: u32) -> Arc<Self> {
        let limits = match nr_zones {
            0 => Limits::regular(Sector(ZONE)),
            _ => Limits::zoned(nr_zones, Sector(ZONE)),
        };
        let limits = Limits { nr_queues: 4, ..limits };
        Arc::new(Tiny { limits, opened: AtomicU32::new(0) })
    }
}

impl Device for Tiny {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        zones.extend(self.limits.empty_zones(first, max));
        Ok(())
    }

    fn zones_as_new(&self, _first: ZoneNo, max: u32) -> u32 {
        max
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Box::new(TimedQueue::new(|now, _: &mut Request| (Status::Ok, now)))
    }
}

/// The result of `make`, and the bytes in use after it beyond those before.
fn bytes_of<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(ALLOCATOR);
    let made = make();
    let change = region.change();
    (made, change.bytes_allocated - change.bytes_deallocated)
}

fn attach(nr_zones: u32, zone_write: ZoneWrite) -> Arc<Queue> {
    let zone_write = (nr_zones > 0).then_some(zone_write);
    let options = QueueOptions { zone_write, ..QueueOptions::default() };
    Queue::attach(Tiny::new(nr_zones), options).expect("a good device")
}

/// Two channels fill a few zones from empty to full, each parking writes that wait for the other's, and
/// reset them.
fn fill_and_reset(channels: &mut [Channel; 2], completions: &mut Vec<zonal_blk::Completion>) {
    let mut submitted = 0;
    let mut completed = 0;
    let mut poll = |channels: &mut [Channel; 2], all: bool, submitted: usize| {
        loop {
            for channel in channels.iter_mut() {
                completions.clear();
                completed += channel.poll(Nanos(0), completions);
                assert!(completions.iter().all(|c| c.status == Status::Ok));
            }
            if !all || completed == submitted {
                break;
            }
        }
    };
    for at in (0..ZONE).step_by(1024) {
        for zone in 0..4 {
            let op = if at % 4096 == 0 { Op::ZoneAppend } else { Op::Write };
            let sector = zone * ZONE + if op == Op::ZoneAppend { 0 } else { at };
            let bio = Bio::new(op, Sector(sector), 1024, 0);
            channels[(at / 1024 % 2) as usize].submit(Nanos(0), bio);
            submitted += 1;
        }
        // Some waits each time.
        if at % 8192 == 0 {
            poll(channels, false, submitted);
        }
    }
    poll(channels, true, submitted);
    for zone in 0..4 {
        channels[0].submit(Nanos(0), Bio::new(Op::ZoneReset, Sector(zone * ZONE), 0, 0));
        submitted += 1;
    }
    poll(channels, true, submitted);
}

#[test]
fn memory_is_64_bytes_a_zone_and_none_per_io_or_closed_channel() {
    zones_and_bios();
    split_bios();
    closed_channels();
    dropped_queues();
}

/// The parts of a bio have the pages of its buffer where they end at pages. Others take the buffers of
/// those before, and a read shows nothing of what those held.
fn split_bios() {
    const SECTORS: u32 = 4096;
    let queue = attach(4, ZoneWrite::Plug);
    assert!(queue.limits().max_sectors < SECTORS, "the bio is split");
    let mut channel = queue.channel().unwrap();
    let (mut completions, mut buf) = (Vec::with_capacity(4), Some(Buf::zeroed(MIB * 2)));
    let mut submit = |op, sector, value, expected| {
        let mut buf_of_bio = buf.take().expect("the buffer comes back");
        buf_of_bio.fill(value);
        let bio = Bio::new(op, Sector(sector), SECTORS, 0);
        channel.submit(Nanos(0), Bio { buf: Some(buf_of_bio), ..bio });
        while completions.is_empty() {
            channel.poll(Nanos(0), &mut completions);
        }
        let completion = completions.pop().expect("just seen");
        assert_eq!(completion.status, Status::Ok);
        let back = completion.buf.as_ref().expect("the buffer comes back");
        assert!(back.iter().all(|&byte| byte == expected), "{op:?} at {sector}");
        buf = completion.buf;
    };
    // The device sets no byte. Across the border of zones the parts begin a sector after a page.
    let mut write_and_read = |at: u64| {
        submit(Op::Write, at * u64::from(SECTORS), 7, 7);
        submit(Op::Read, at * u64::from(SECTORS), 1, 1);
        submit(Op::Read, ZONE - 1, 1, 0);
    };
    write_and_read(0);
    let region = Region::new(ALLOCATOR);
    (1..8).for_each(write_and_read);
    let bytes = region.change().bytes_allocated;
    assert!(bytes < 64 * 1024, "no buffers, only lists of parts: {bytes}");
}

/// Writes a block to each of these zones.
fn write_to_each(channel: &mut Channel, zones: std::ops::Range<u64>) {
    let mut completions = Vec::with_capacity(4);
    for zone in zones {
        channel.submit(Nanos(0), Bio::new(Op::Write, Sector(zone * ZONE), 8, 0));
        channel.poll(Nanos(0), &mut completions);
        assert_eq!(completions.pop().map(|completion| completion.status), Some(Status::Ok));
    }
}

/// A queue that is dropped leaves nothing, whether or not its device has zones.
fn dropped_queues() {
    let use_queue = |zones: u32| {
        let queue = attach(zones, ZoneWrite::Plug);
        let mut channel = queue.channel().expect("a channel");
        write_to_each(&mut channel, 0..u64::from(zones.max(1)));
        channel.drain();
    };
    for zones in [0, 1000] {
        // What is kept for the thread is there afterwards.
        use_queue(zones);
        let ((), bytes) = bytes_of(|| use_queue(zones));
        assert_eq!(bytes, 0, "{zones} zones");
    }
}

fn zones_and_bios() {
    let (queue, bytes) = bytes_of(|| attach(10_000_000, ZoneWrite::Plug));
    assert!(bytes < 10_000_000 / 4, "less than two bits a zone that was not used: {bytes}");
    let mut channel = queue.channel().unwrap();
    let ((), bytes) = bytes_of(|| write_to_each(&mut channel, 0..10_000));
    assert!(bytes < 64 * 10_000 + 64 * 1024, "64 bytes a zone and little else: {bytes}");
    channel.drain();
    drop((channel, queue));

    let peak = Region::new(ALLOCATOR);
    drop(attach(1_000_000, ZoneWrite::Qd1));
    assert!(peak.change().bytes_allocated <= 64 * MIB, "also while the zones are being read");

    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let queue = attach(4, policy);
        let mut channels = [queue.channel().unwrap(), queue.channel().unwrap()];
        let mut completions = Vec::with_capacity(1024);
        fill_and_reset(&mut channels, &mut completions);
        fill_and_reset(&mut channels, &mut completions);
        let region = Region::new(ALLOCATOR);
        (0..10).for_each(|_| fill_and_reset(&mut channels, &mut completions));
        let change = region.change();
        assert_eq!(change.allocations + change.reallocations, 0, "{policy:?}: {change:?}");
        assert_eq!(queue.live_plugs(), 0);
    }
}

/// Two channels open, write to a zone in turn, reset it and close.
fn open_and_close(
    queue: &Arc<Queue>,
    now: &mut Nanos,
    completions: &mut Vec<zonal_blk::Completion>,
) {
    let mut channels = [queue.channel().unwrap(), queue.channel().unwrap()];
    channels[0].set_weight(200);
    for (channel, sector) in [(0, 0), (1, 8)] {
        channels[channel].submit(*now, Bio::new(Op::Write, Sector(sector), 8, 0));
    }
    let mut drain = |channels: &mut [Channel; 2], now: &mut Nanos| {
        while channels.iter().any(|channel| channel.outstanding() > 0) {
            // bfq keeps the device for a process for up to 8 ms.
            *now += Nanos(10_000_000);
            for channel in channels.iter_mut() {
                completions.clear();
                channel.poll(*now, completions);
                assert!(completions.iter().all(|completion| completion.status == Status::Ok));
            }
        }
    };
    drain(&mut channels, now);
    channels[0].submit(*now, Bio::new(Op::ZoneReset, Sector(0), 0, 0));
    drain(&mut channels, now);
}

/// Channels leave what they had to those that are opened after them.
fn closed_channels() {
    for scheduler in Scheduler::NAMES {
        for share_queues in [false, true] {
            let options = QueueOptions {
                zone_write: Some(ZoneWrite::Plug),
                scheduler: scheduler.parse().unwrap(),
                share_queues,
                iostats: true,
                ..QueueOptions::default()
            };
            let device = Tiny::new(4);
            let queue = Queue::attach(Arc::clone(&device) as _, options).expect("a good device");
            let mut now = Nanos(0);
            let mut completions = Vec::with_capacity(64);
            (0..10).for_each(|_| open_and_close(&queue, &mut now, &mut completions));
            let opened = device.opened.load(Ordering::Relaxed);
            assert_eq!(opened, 2, "{scheduler}: hardware queues in use at once");
            let once = Region::new(ALLOCATOR);
            open_and_close(&queue, &mut now, &mut completions);
            let once = once.change();
            let all = Region::new(ALLOCATOR);
            (0..10_000).for_each(|_| open_and_close(&queue, &mut now, &mut completions));
            let all = all.change();
            assert_eq!(all.bytes_allocated, all.bytes_deallocated, "{scheduler}: {all:?}");
            assert_eq!(all.allocations, 10_000 * once.allocations, "{scheduler}: cost of each");
            assert_eq!(device.opened.load(Ordering::Relaxed), opened);
            assert_eq!(queue.iostat().expect("counted").writes, 2 * 10_011);
        }
    }
}
