//! A device of one's own below the block layer, and two threads that append to one zone of it:
//! `cargo run --example embed`. See docs/embedding.md.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use zonal_blk::{
    Bio, Channel, Device, HwQueue, Limits, Nanos, Op, Queue, QueueOptions, Request, Sector, Status,
    Wake, WakeUp, Zone, ZoneCondition, ZoneKind, ZoneNo,
};

const ZONE: u64 = 2048;
const LATENCY: Nanos = Nanos(100_000);

/// Four zones that keep no data, only their write pointers.
struct MyDevice(Limits, Mutex<[u64; 4]>);

impl Device for MyDevice {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        zones.extend((first.0..4).take(max).map(|zone| Zone {
            start: self.0.zone_start(ZoneNo(zone)),
            len: Sector(ZONE),
            capacity: Sector(ZONE),
            wp: self.0.zone_start(ZoneNo(zone)),
            kind: ZoneKind::SequentialRequired,
            cond: ZoneCondition::Empty,
        }));
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(MyQueue(self, VecDeque::new()))
    }
}

/// Commands in flight, with the time when each is done.
struct MyQueue(Arc<MyDevice>, VecDeque<(Nanos, Box<Request>)>);

impl HwQueue for MyQueue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        self.1.push_back((now + LATENCY, request));
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        while let Some((_, mut request)) = self.1.pop_front_if(|(due, _)| *due <= now) {
            let wp = &mut self.0.1.lock().unwrap()[request.zone().index()];
            let in_order = request.op() == Op::Write && request.sector().0 % ZONE == *wp;
            *wp += if in_order { u64::from(request.nr_sectors()) } else { 0 };
            request.set_status(if in_order { Status::Ok } else { Status::IoError });
            done.push(request);
        }
    }

    fn next_event(&self) -> Wake {
        self.1.front().map_or(Wake::Idle, |&(due, _)| Wake::At(due))
    }
}

struct Unpark(Thread);

impl WakeUp for Unpark {
    fn wake(&self) {
        self.0.unpark();
    }
}

/// Appends four times to zone 0, then polls until nothing depends on the channel.
fn append(name: &str, mut channel: Channel, start: Instant) {
    let now = || Nanos(start.elapsed().as_nanos() as u64);
    channel.set_waker(Arc::new(Unpark(thread::current())));
    for number in 0..4 {
        channel.submit(now(), Bio::new(Op::ZoneAppend, Sector(0), 8, number));
    }
    channel.drain();
    let mut completions = Vec::new();
    while !channel.is_idle() {
        channel.poll(now(), &mut completions);
        for done in completions.drain(..) {
            println!("{name} {}: {} at sector {}", done.user_data, done.status, done.sector);
        }
        if channel.prepare_to_sleep() {
            match channel.next_event() {
                Wake::At(at) => {
                    thread::park_timeout(Duration::from_nanos(at.0.saturating_sub(now().0)));
                }
                Wake::External => thread::park(),
                Wake::Now | Wake::Idle => {}
            }
            channel.awake();
        }
    }
}

fn main() {
    let limits = Limits {
        lba_size: 512,
        capacity: Sector(4 * ZONE),
        zone_size: Sector(ZONE),
        nr_zones: 4,
        max_open_zones: 0,
        max_active_zones: 0,
        max_sectors: 1024,
        append_max_sectors: 0, // The layer turns appends into writes.
        max_write_zeroes_sectors: 0,
        nr_queues: 2,
        queue_depth: 64,
        rotational: false,
    };
    let device = Arc::new(MyDevice(limits, Mutex::default()));
    let queue = Queue::attach(device, QueueOptions::default()).expect("limits and zones are sound");
    let start = Instant::now();
    thread::scope(|scope| {
        for name in ["first", "second"] {
            let channel = queue.channel().expect("a hardware queue for each thread");
            scope.spawn(move || append(name, channel, start));
        }
    });
}
