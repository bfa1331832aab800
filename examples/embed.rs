//! A device of one's own below the block layer, and two threads that append to one zone of it:
//! `cargo run --example embed`. See docs/embedding.md.
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::*;

const ZONE: Sector = Sector(2048);
const LATENCY: Nanos = Nanos(100_000);

/// Four zones that keep no data, only their write pointers.
struct MyDevice(Limits, Mutex<[Sector; 4]>);

impl MyDevice {
    fn execute(&self, request: &Request) -> Status {
        let zone = request.zone();
        let wp = &mut self.1.lock().unwrap()[zone.index()];
        if request.op() != Op::Write || request.sector() != self.0.zone_start(zone) + *wp {
            return Status::IoError;
        }
        *wp += Sector(request.nr_sectors().into());
        Status::Ok
    }
}

impl Device for MyDevice {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        zones.extend(self.0.empty_zones(first, max));
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(TimedQueue::new(move |now, request: &mut Request| {
            (self.execute(request), now + LATENCY)
        }))
    }
}

/// Appends four times to zone 0, then polls until nothing depends on the channel.
fn append(name: &str, mut channel: Channel, start: Instant) {
    let now = || Nanos(start.elapsed().as_nanos() as u64);
    let thread = thread::current();
    channel.set_waker(Arc::new(move || thread.unpark()));
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
        channel.wait_with(|wake| match wake {
            Wake::At(at) => {
                thread::park_timeout(Duration::from_nanos(at.0.saturating_sub(now().0)))
            }
            Wake::External => thread::park(),
            Wake::Now | Wake::Idle => {}
        });
    }
}

fn main() {
    let limits = Limits { nr_queues: 2, ..Limits::zoned(4, ZONE) };
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
