//! The cost of making a command, by where a namespace's fields are: the published layouts of path
//! and head beside that of the product.
//!
//! ```text
//! cargo bench --bench ns_head                    the published job, and command set-up alone
//! cargo bench --bench ns_head -- instructions    instructions a command, with valgrind
//! ```
//!
//! The published job reads 4 KiB with four jobs at depth 64, five runs each. Here it goes through
//! the block layer to a device that makes the command and completes it. Layouts take turns, so that
//! other load on the machine affects all of them alike.
mod layouts;
#[path = "../support/start.rs"]
mod start;

use layouts::{Layout, cache_line, in_head, in_path};
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use zonal_blk::{
    Bio, Device, HwQueue, Limits, Nanos, Op, Queue, QueueOptions, Request, Sector, Status, Wake,
};
use zonal_nvme::ns::{Ids, Namespace, NamespaceInfo, Protection, setup_rw};
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::opcode::Csi;

const RUNS: usize = 5;
const JOBS: u64 = 4;
const DEPTH: u64 = 64;
/// Rounds of a run of command set-up alone.
const ROUNDS: u64 = 16;
/// How long a run of the job takes.
const RUN: Duration = Duration::from_millis(500);
/// 4 KiB in sectors.
const BLOCK: u64 = 8;
const CAPACITY: u64 = 1 << 31;
/// Enough namespaces that no cache holds them.
const MANY: u32 = 1 << 16;

/// A device that makes commands. With `repeat` above 1 it makes those in flight over and over before
/// it completes them, and measures how long one takes.
struct CommandDevice<A> {
    namespaces: Vec<Arc<A>>,
    limits: Limits,
    repeat: u64,
    /// Picoseconds for a command in the best round, if `repeat` is above 1.
    best: AtomicU64,
}

struct CommandQueue<A> {
    device: Arc<CommandDevice<A>>,
    slots: Vec<Sqe>,
    pending: Vec<Box<Request>>,
    /// Picks the namespace of the next command.
    random: u64,
}

fn info(nsid: u32) -> NamespaceInfo {
    NamespaceInfo {
        nsid,
        ids: Ids::default(),
        csi: Csi::NVM,
        lba_shift: 12,
        metadata: 0,
        pi_type: 0,
        pi_size: 0,
        guard: 0,
        extended: false,
        shared: true,
        write_granularity: 1,
        write_size: 1,
        capacity: Sector(CAPACITY),
        used: 0,
        zones: None,
    }
}

impl<A: Layout> CommandDevice<A> {
    fn new(namespaces: u32, repeat: u64) -> Arc<Self> {
        let regular = Limits::regular(Sector(CAPACITY));
        let limits = Limits { lba_size: 4096, nr_queues: 64, queue_depth: 1023, ..regular };
        let namespaces = (1..=namespaces).map(|nsid| A::new(&info(nsid))).collect();
        Arc::new(CommandDevice { namespaces, limits, repeat, best: AtomicU64::new(u64::MAX) })
    }
}

impl<A: Layout> Device for CommandDevice<A> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let slots = vec![Sqe::zeroed(); DEPTH as usize];
        Box::new(CommandQueue { device: self, slots, pending: Vec::new(), random: 1 })
    }
}

impl<A: Layout> CommandQueue<A> {
    /// Makes the commands of all pending requests `repeat` times.
    #[inline(never)]
    fn make(&mut self, repeat: u64) {
        let namespaces = &self.device.namespaces;
        for _ in 0..repeat {
            for (request, slot) in self.pending.iter().zip(&mut self.slots) {
                let ns = if namespaces.len() == 1 {
                    &namespaces[0]
                } else {
                    self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    &namespaces[(self.random >> 33) as usize % namespaces.len()]
                };
                setup_rw(black_box(ns).format(), request, request.tag().0, slot).expect("a read");
            }
            black_box(&mut self.slots);
        }
    }
}

impl<A: Layout> HwQueue for CommandQueue<A> {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        if self.device.repeat == 1 {
            let slot = &mut self.slots[self.pending.len()];
            setup_rw(self.device.namespaces[0].format(), &request, request.tag().0, slot)
                .expect("a read");
        }
        self.pending.push(request);
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        let repeat = self.device.repeat;
        if repeat > 1 && !self.pending.is_empty() {
            let start = Instant::now();
            self.make(repeat);
            let nanos = start.elapsed().as_nanos() as u64;
            let each = nanos * 1000 / (repeat * self.pending.len() as u64);
            self.device.best.fetch_min(each, Ordering::Relaxed);
        }
        black_box(&mut self.slots);
        for request in &mut self.pending {
            request.set_status(Status::Ok);
        }
        done.append(&mut self.pending);
    }

    fn next_event(&self) -> Wake {
        if self.pending.is_empty() { Wake::Idle } else { Wake::Now }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Sequential,
    Random,
}

/// Reads at depth 64 until `until` returns true. Returns the number of reads.
fn read(queue: &Arc<Queue>, job: u64, order: Order, until: impl Fn(u64) -> bool) -> u64 {
    let mut channel = queue.channel().expect("a hardware queue");
    let region = CAPACITY / JOBS;
    let (mut count, mut at, mut random) = (0, 0, job + 1);
    let mut done = Vec::with_capacity(DEPTH as usize);
    while !until(count) {
        for _ in 0..DEPTH {
            if order == Order::Sequential {
                at = (at + BLOCK) % region;
            } else {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                at = (random >> 20) % (region / BLOCK) * BLOCK;
            }
            channel.submit(Nanos(0), Bio::new(Op::Read, Sector(job * region + at), 8, 0));
        }
        while channel.outstanding() > 0 {
            channel.poll(Nanos(0), &mut done);
        }
        count += done.len() as u64;
        done.clear();
    }
    count
}

/// Reads per second of all jobs together.
fn job<A: Layout>(order: Order) -> f64 {
    let queue =
        Queue::attach(CommandDevice::<A>::new(1, 1), QueueOptions::default()).expect("a device");
    let barrier = Barrier::new(JOBS as usize);
    let run = |job| {
        barrier.wait();
        let start = Instant::now();
        let count = read(&queue, job, order, |count| count % 4096 == 0 && start.elapsed() > RUN);
        count as f64 / start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let run = &run;
        let jobs: Vec<_> = (0..JOBS).map(|job| scope.spawn(move || run(job))).collect();
        jobs.into_iter().map(|job| job.join().expect("a job")).sum()
    })
}

/// Nanoseconds for a command on one thread, among `namespaces`, in the best of the rounds: the
/// others were disturbed.
fn alone<A: Layout>(namespaces: u32, repeat: u64) -> f64 {
    let device = CommandDevice::<A>::new(namespaces, repeat);
    let queue = Queue::attach(Arc::clone(&device) as Arc<dyn Device>, QueueOptions::default());
    read(&queue.expect("a device"), 0, Order::Random, |count| count >= ROUNDS * DEPTH);
    device.best.load(Ordering::Relaxed) as f64 / 1000.0
}

/// A measurement of one layout.
type Measure = fn() -> f64;

/// The layouts: name, cache lines per command, measurements.
fn layouts() -> Vec<(&'static str, usize, [Measure; 4])> {
    fn of<A: Layout>() -> (&'static str, usize, [Measure; 4]) {
        let measures: [Measure; 4] = [
            || job::<A>(Order::Sequential) / 256.0,
            || job::<A>(Order::Random) / 256.0,
            || alone::<A>(1, 1 << 12),
            || alone::<A>(MANY, 1 << 9),
        ];
        let (info, made) = (info(7), A::new(&info(7)));
        let protection = Protection::new(info.metadata, info.pi_type);
        let made = made.format();
        assert_eq!((made.nsid, made.lba_shift), (info.nsid, info.lba_shift));
        assert_eq!(made.protection, protection, "all layouts make the same commands");
        (A::NAME, A::cache_lines(), measures)
    }
    vec![
        of::<in_path::Namespace>(),
        of::<in_head::Namespace>(),
        of::<cache_line::Namespace>(),
        of::<cache_line::NamespaceHead>(),
        of::<Namespace>(),
    ]
}

const MEASURED: [(&str, &str); 4] = [
    ("read, 4 KiB, 4 jobs, depth 64", "MiB/s"),
    ("randread, 4 KiB, 4 jobs, depth 64", "MiB/s"),
    ("setup_rw alone, one namespace", "ns"),
    ("setup_rw alone, 65536 namespaces in random order", "ns"),
];

fn mean_and_deviation(runs: &[f64]) -> (f64, f64) {
    let mean = runs.iter().sum::<f64>() / runs.len() as f64;
    let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
    (mean, (squares / (runs.len() - 1) as f64).sqrt())
}

fn measure() {
    let layouts = layouts();
    for (number, (what, unit)) in MEASURED.into_iter().enumerate() {
        println!("\n{what} [{unit}]");
        let mut runs = vec![Vec::new(); layouts.len()];
        for _ in 0..RUNS {
            for (runs, (.., measures)) in runs.iter_mut().zip(&layouts) {
                runs.push(measures[number]());
            }
        }
        let (base, base_deviation) = mean_and_deviation(&runs[0]);
        println!("{:26} {:>5} {:>54}  {:>9} {:>8}", "", "lines", "runs", "mean", "stdev");
        for (runs, (name, lines, _)) in runs.iter().zip(&layouts) {
            let (mean, deviation) = mean_and_deviation(runs);
            let each: Vec<_> = runs.iter().map(|run| format!("{run:10.2}")).collect();
            let verdict = if (mean - base).abs() <= deviation + base_deviation {
                "within the spread of the baseline".to_owned()
            } else {
                format!("{:+.1} % against the baseline", (mean / base - 1.0) * 100.0)
            };
            let each = each.join(" ");
            println!("{name:26} {lines:>5} {each}  {mean:9.2} {deviation:8.2}  {verdict}");
        }
    }
}

/// Runs this program under valgrind with two numbers of commands: the difference is their cost.
fn instructions() {
    let program = std::env::current_exe().expect("the path of this program");
    let count = |which: usize, repeat: u64| -> u64 {
        let valgrind = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args(["--bench", "make", &which.to_string(), &repeat.to_string()])
            .output()
            .expect("valgrind, which counts instructions, is installed");
        let text = String::from_utf8_lossy(&valgrind.stderr);
        let collected = text.lines().find_map(|line| line.split_once("Collected : "));
        let (_, number) = collected.unwrap_or_else(|| panic!("valgrind counted nothing: {text}"));
        number.trim().parse().expect("a count of instructions")
    };
    println!("instructions a command, the loop over requests included");
    for (which, (name, lines, _)) in layouts().iter().enumerate() {
        let (few, many) = (250, 2_750);
        let difference = count(which, many) - count(which, few);
        let each = difference as f64 / ((many - few) * ROUNDS * DEPTH) as f64;
        println!("{name:26} {lines} lines {each:6.2} instructions");
    }
}

fn main() {
    if !start::measures() {
        return;
    }
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => measure(),
        ["instructions"] => instructions(),
        ["make", which, repeat] => {
            let repeat = repeat.parse().expect("a number");
            let nanos = match which {
                "0" => alone::<in_path::Namespace>(1, repeat),
                "1" => alone::<in_head::Namespace>(1, repeat),
                "2" => alone::<cache_line::Namespace>(1, repeat),
                "3" => alone::<cache_line::NamespaceHead>(1, repeat),
                _ => alone::<Namespace>(1, repeat),
            };
            black_box(nanos);
        }
        _ => panic!("expected nothing or `instructions`, found {args:?}"),
    }
}
