//! The cost of schedulers, against no scheduler and against an elevator behind one lock: 512 B
//! random reads on a device that takes no time, one hardware queue of 128 tags a thread.
//!
//! `cargo bench --bench sched`; words after `--` choose the rows whose names contain one. Ways are
//! measured in turn, round after round, on machines that other work shares; the best round counts.
//!
//! `--loop SCHEDULER single|batch DEPTH COUNT` runs one loop on one thread and measures nothing, so
//! that callgrind can count its instructions.
#[path = "support/start.rs"]
mod start;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::sched::Scheduler;
use zonal_blk::{
    Bio, Channel, Device, HwQueue, Limits, Nanos, Op, Queue, QueueOptions, Request, Sector, Status,
    Wake,
};

const CAPACITY: u64 = 1 << 31;
const ROUNDS: usize = 25;

fn limits(queue_depth: u16) -> Limits {
    let regular = Limits::regular(Sector(CAPACITY));
    Limits { max_sectors: 2560, nr_queues: 64, queue_depth, ..regular }
}

/// Ends everything at the next poll.
struct Null(Limits);

/// The same with an elevator in front, behind a mutex: what schedulers are like without the layer's
/// dispatcher.
struct OneLock(Limits, Mutex<Elevator>);

/// Requests in the order of sectors, and of arrival at one sector.
#[derive(Default)]
struct Elevator {
    waiting: BTreeMap<(Sector, u64), Box<Request>>,
    arrived: u64,
    /// Where the request that was dispatched last begins.
    position: Sector,
    in_flight: u64,
}

impl Elevator {
    fn insert(&mut self, request: Box<Request>) {
        self.arrived += 1;
        self.waiting.insert((request.sector(), self.arrived), request);
    }

    /// The next request upwards, else the lowest.
    fn dispatch(&mut self) -> Option<Box<Request>> {
        let ahead = self.waiting.range((self.position, 0)..).next();
        let key = *ahead.or_else(|| self.waiting.first_key_value())?.0;
        self.position = key.0;
        self.in_flight += 1;
        self.waiting.remove(&key)
    }
}

struct NullQueue(Vec<Box<Request>>);

struct OneLockQueue(Arc<OneLock>, NullQueue);

impl Device for Null {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(NullQueue(Vec::new()))
    }
}

impl HwQueue for NullQueue {
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

impl Device for OneLock {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(OneLockQueue(self, NullQueue(Vec::new())))
    }
}

impl HwQueue for OneLockQueue {
    /// Inserts and dispatches, each under the lock, as the kernel's schedulers did up to 6.8.
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let lock = || self.0.1.lock().expect("the one lock");
        lock().insert(request);
        let next = lock().dispatch();
        if let Some(request) = next {
            self.1.start(now, request)?;
        }
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let before = done.len();
        self.1.poll(now, done);
        for _ in &done[before..] {
            self.0.1.lock().expect("the one lock").in_flight -= 1;
        }
    }

    fn next_event(&self) -> Wake {
        self.1.next_event()
    }
}

/// How a thread submits.
#[derive(Clone, Copy, PartialEq)]
enum Submit {
    /// One by one.
    Single,
    /// As many as its depth allows.
    Batch,
}

#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    threads: usize,
    depth: usize,
    submit: Submit,
    tags: u16,
    variants: &'static [&'static str],
    goal: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        name: "1 thread, batches of 32",
        threads: 1,
        depth: 32,
        submit: Submit::Batch,
        tags: 128,
        variants: &["none", "mq-deadline", "kyber", "bfq"],
        goal: "mq-deadline and kyber 90 %, bfq 50 % of none",
    },
    Row {
        name: "1 thread, 32 outstanding",
        threads: 1,
        depth: 32,
        submit: Submit::Single,
        tags: 128,
        variants: &["none", "mq-deadline", "kyber", "bfq"],
        goal: "mq-deadline 80 % of none",
    },
    Row {
        name: "1 thread, single requests",
        threads: 1,
        depth: 1,
        submit: Submit::Single,
        tags: 128,
        variants: &["none", "mq-deadline", "kyber", "bfq"],
        goal: "bfq 30 % of none",
    },
    Row {
        name: "4 threads, batches of 32",
        threads: 4,
        depth: 32,
        submit: Submit::Batch,
        tags: 128,
        variants: &["none", "mq-deadline"],
        goal: "mq-deadline 80 % of none",
    },
    Row {
        name: "4 threads, single requests",
        threads: 4,
        depth: 1,
        submit: Submit::Single,
        tags: 128,
        variants: &["none", "mq-deadline"],
        goal: "mq-deadline 60 % of none",
    },
    Row {
        name: "32 threads, depth 4",
        threads: 32,
        depth: 4,
        submit: Submit::Single,
        tags: 128,
        variants: &["one lock", "mq-deadline"],
        goal: "mq-deadline 2.5 times one lock",
    },
    Row {
        name: "32 threads, depth 4, batches",
        threads: 32,
        depth: 4,
        submit: Submit::Batch,
        tags: 128,
        variants: &["one lock", "mq-deadline"],
        goal: "mq-deadline 2.5 times one lock",
    },
    // Here requests wait, and the dispatcher is at work all the time.
    Row {
        name: "32 threads, depth 4, 2 tags",
        threads: 32,
        depth: 4,
        submit: Submit::Single,
        tags: 2,
        variants: &["one lock", "mq-deadline"],
        goal: "",
    },
    Row {
        name: "1 thread, 4096 waiting, 8 tags",
        threads: 1,
        depth: 4096,
        submit: Submit::Single,
        tags: 8,
        variants: &["none", "mq-deadline"],
        goal: "",
    },
];

/// State that the threads of a run share.
struct Run {
    queue: Arc<Queue>,
    row: Row,
    /// How many reads a job does at least, unless it is told to stop before.
    reads: u64,
    since: Instant,
    stop: AtomicBool,
    begin: Barrier,
}

impl Run {
    fn new(variant: &str, row: Row) -> Self {
        let scheduler = variant.parse().unwrap_or(Scheduler::None);
        let device: Arc<dyn Device> = if variant == "one lock" {
            Arc::new(OneLock(limits(row.tags), Mutex::default()))
        } else {
            Arc::new(Null(limits(row.tags)))
        };
        let options = QueueOptions { scheduler, ..QueueOptions::default() };
        let queue = Queue::attach(device, options).expect("the limits are in order");
        let begin = Barrier::new(row.threads + 1);
        let reads = u64::MAX;
        Run { queue, row, reads, since: Instant::now(), stop: AtomicBool::new(false), begin }
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.since.elapsed().as_nanos()).expect("a short run"))
    }

    /// Nanoseconds per read, all threads together.
    fn measure(&self) -> f64 {
        let time = Duration::from_millis(if self.row.threads == 1 { 10 } else { 60 });
        thread::scope(|scope| {
            let seeds = 1..=self.row.threads as u64;
            let threads: Vec<_> = seeds.map(|seed| scope.spawn(move || self.job(seed))).collect();
            self.begin.wait();
            thread::sleep(time);
            self.stop.store(true, Ordering::Relaxed);
            let jobs: Vec<_> = threads.into_iter().map(|t| t.join().expect("a job")).collect();
            let reads: u64 = jobs.iter().map(|(reads, _)| reads).sum();
            // From the first to begin, which may be long before this thread wakes up.
            let start = jobs.iter().map(|(_, start)| *start).min().expect("a job");
            start.elapsed().as_nanos() as f64 / reads as f64
        })
    }

    /// Reads until it is told to stop, or has done enough. Returns the number of reads and when it began.
    fn job(&self, seed: u64) -> (u64, Instant) {
        let mut channel = self.queue.channel().expect("a hardware queue for each thread");
        let (mut out, mut bios) = (Vec::new(), Vec::new());
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut reads = 0;
        self.begin.wait();
        let start = Instant::now();
        while !self.stop.load(Ordering::Relaxed) && reads < self.reads {
            let now = self.now();
            // The clock is read once in a while: that costs as much as a read.
            for _ in 0..16 {
                for _ in channel.outstanding()..self.row.depth {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let bio = Bio::new(Op::Read, Sector(random % CAPACITY), 1, random);
                    match self.row.submit {
                        Submit::Single => channel.submit(now, bio),
                        Submit::Batch => bios.push(bio),
                    }
                }
                if self.row.submit == Submit::Batch {
                    channel.submit_batch(now, &mut bios);
                }
                let ended = channel.poll(now, &mut out);
                out.clear();
                reads += ended as u64;
                if ended == 0 {
                    thread::yield_now();
                }
            }
        }
        (reads + self.leave(channel), start)
    }

    fn leave(&self, mut channel: Channel) -> u64 {
        let (mut out, mut reads) = (Vec::new(), 0);
        while channel.outstanding() > 0 {
            reads += channel.poll(self.now(), &mut out) as u64;
            thread::yield_now();
        }
        channel.drain();
        while !channel.is_idle() {
            channel.poll(self.now(), &mut out);
            thread::yield_now();
        }
        reads
    }
}

/// Runs the loop that the command line names, if it does.
fn run_loop(args: &[String]) -> Option<()> {
    let [option, variant, submit, depth, count] = args else { return None };
    let submit = match (option.as_str(), submit.as_str()) {
        ("--loop", "single") => Submit::Single,
        ("--loop", "batch") => Submit::Batch,
        _ => return None,
    };
    let depth = depth.parse().ok()?;
    let row = Row { name: "", threads: 0, depth, submit, tags: 128, variants: &[], goal: "" };
    let run = Run { reads: count.parse().ok()?, ..Run::new(variant, row) };
    run.job(1);
    Some(())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if run_loop(&args).is_some() || !start::measures() {
        return;
    }
    let chosen: Vec<_> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    for row in ROWS {
        if !chosen.is_empty() && !chosen.iter().any(|word| row.name.contains(word.as_str())) {
            continue;
        }
        let mut best = vec![f64::INFINITY; row.variants.len()];
        for _ in 0..if row.threads == 1 { 2 * ROUNDS } else { ROUNDS } {
            for (best, variant) in best.iter_mut().zip(row.variants) {
                *best = best.min(Run::new(variant, *row).measure());
            }
        }
        print!("{:32}", row.name);
        for (variant, ns) in row.variants.iter().zip(&best) {
            print!("{variant} {ns:.1} ns ({:.0} %)  ", 100.0 * best[0] / ns);
        }
        println!("{}", if row.goal.is_empty() { String::new() } else { format!("[{}]", row.goal) });
    }
}
