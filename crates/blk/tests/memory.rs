//! What the layer costs in memory: little per zone, nothing per I/O.
//!
//! Takes a device of the test's own, which keeps one number a zone or nothing at all. One test, for
//! the allocator counts what all threads do.
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use zonal_blk::{
    Bio, Channel, Device, HwQueue, Limits, Nanos, Op, Queue, QueueOptions, Request, Sector, Status,
    Wake, Zone, ZoneCondition, ZoneKind, ZoneNo, ZoneWrite,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1 << 20;
const ZONE: u64 = 1 << 16;

/// A device that does all it is asked when next polled.
struct Tiny {
    limits: Limits,
}

impl Tiny {
    fn new(nr_zones: u32) -> Arc<Self> {
        let limits = Limits {
            lba_size: 512,
            capacity: Sector(u64::from(nr_zones) * ZONE),
            zone_size: Sector(ZONE),
            nr_zones,
            max_open_zones: 0,
            max_active_zones: 0,
            max_sectors: 2048,
            append_max_sectors: 0,
            max_write_zeroes_sectors: 0,
            nr_queues: 4,
            queue_depth: 64,
            rotational: false,
        };
        Arc::new(Tiny { limits })
    }
}

impl Device for Tiny {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        zones.extend((first.0..self.limits.nr_zones).take(max).map(|zone| {
            let start = self.limits.zone_start(ZoneNo(zone));
            Zone {
                start,
                len: Sector(ZONE),
                capacity: Sector(ZONE),
                wp: start,
                kind: ZoneKind::SequentialRequired,
                cond: ZoneCondition::Empty,
            }
        }));
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(TinyQueue(Vec::with_capacity(64)))
    }
}

struct TinyQueue(Vec<Box<Request>>);

impl HwQueue for TinyQueue {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.0.push(request);
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        for mut request in self.0.drain(..) {
            request.set_status(Status::Ok);
            done.push(request);
        }
    }

    fn next_event(&self) -> Wake {
        if self.0.is_empty() { Wake::Idle } else { Wake::Now }
    }
}

/// What `make` makes, and the bytes in use after it beyond those before.
fn bytes_of<T>(make: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(ALLOCATOR);
    let made = make();
    let change = region.change();
    (made, change.bytes_allocated - change.bytes_deallocated)
}

fn attach(nr_zones: u32, zone_write: ZoneWrite) -> Arc<Queue> {
    let options = QueueOptions { zone_write: Some(zone_write), ..QueueOptions::default() };
    Queue::attach(Tiny::new(nr_zones), options).expect("a good device")
}

/// Two channels fill a few zones from empty to full, each parking behind the other, and reset them.
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
fn memory_is_64_bytes_a_zone_and_none_per_io() {
    let (queue, bytes) = bytes_of(|| attach(1_000_000, ZoneWrite::Plug));
    assert!(bytes <= 64 * MIB, "a million zones take {bytes} bytes");
    assert!(bytes < 64 * 1_000_000 + 64 * 1024, "64 bytes a zone and little else: {bytes}");
    drop(queue);

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
