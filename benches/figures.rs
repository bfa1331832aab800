//! The figures that Zonal holds itself to, each with its goal, in one run: compared cases are
//! measured in turn, round after round, on machines that other work shares. Of times inside the
//! process the best round counts, of whole programs the median pair.
//!
//! `cargo bench --bench figures`; words after `--` choose parts, `shared` that of shared zones. The
//! comparison with fio needs fio; without it, it says so. With `-- --before PROGRAM` another build of
//! this benchmark runs first, and its figures are beside ours.
#[path = "support/median.rs"]
mod median;
#[path = "support/start.rs"]
mod start;
#[allow(dead_code)]
mod support;

use median::median;
use std::hint::black_box;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;
use support::threads::{RandomWrites, Sharing, at_once, line_round_trip};
use support::{DEVICE, Writer, Zones, handover, ns_per_read, ns_per_write, per_io, queue, timed};
use zonal_blk::lock::SpinLock;
use zonal_blk::sched::Scheduler;
use zonal_blk::{Op, Queue, QueueOptions, ZoneWrite};

const ROUNDS: usize = 7;
const WRITES: u64 = 1_000_000;
const ONE_ZONE: Zones = Zones { first: 0, width: 1 };

/// The parts of the benchmark, in the order in which they run.
const PARTS: [(&str, fn()); 15] = [
    ("thread", one_thread),
    ("threads", threads),
    ("shared", shared_zones),
    ("attach", attach),
    ("open", open_zones),
    ("channels", many_channels),
    ("start", start),
    ("virtual", virtual_clock),
    ("jobs", many_jobs),
    ("flash", overwrites),
    ("filesystem", file_system),
    ("disk", whole_disk),
    ("server", server),
    ("program", jobs),
    ("fio", whole_program),
];

/// What another build of this benchmark has printed.
static BEFORE: OnceLock<String> = OnceLock::new();

fn main() {
    if !start::measures() {
        return;
    }
    let (mut parts, mut before) = (Vec::new(), None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // Cargo's own.
            "--bench" => {}
            "--before" => before = Some(args.next().expect("--before: expected a program")),
            name => {
                parts.push(*PARTS.iter().find(|(part, _)| *part == name).unwrap_or_else(|| {
                    let names = PARTS.map(|(part, _)| part).join(", ");
                    panic!("`{name}`: expected --before or one of {names}")
                }))
            }
        }
    }
    if parts.is_empty() {
        parts.extend(PARTS);
    }
    if let Some(program) = before {
        let names = parts.iter().map(|(name, _)| name);
        let output = Command::new(&program).arg("--bench").args(names).output();
        let output = output.unwrap_or_else(|err| panic!("{program}: {err}"));
        assert!(output.status.success(), "{program}: {}", output.status);
        BEFORE.get_or_init(|| String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let before = if BEFORE.get().is_some() { "before" } else { "" };
    println!("{:<64} {:>7} {before:>7}         goal", "figure", "measured");
    parts.iter().for_each(|(_, measure)| measure());
}

fn row(figure: &str, measured: f64, unit: &str, goal: &str) {
    let line_of = |line: &str| line.strip_prefix(figure)?.split_whitespace().next()?.parse().ok();
    let before: Option<f64> = BEFORE.get().and_then(|text| text.lines().find_map(line_of));
    let before = before.map_or_else(String::new, |before| format!("{before:.1}"));
    println!("{figure:<64} {measured:>7.1} {before:>7} {unit:<5} {goal}");
}

fn options(zone_write: ZoneWrite, merge: bool) -> QueueOptions {
    QueueOptions { zone_write: Some(zone_write), merge, ..QueueOptions::default() }
}

/// The best round of each case.
fn best<const N: usize>(mut measure: impl FnMut(usize) -> f64) -> [f64; N] {
    let mut best = [f64::MAX; N];
    for _ in 0..ROUNDS {
        for (case, best) in best.iter_mut().enumerate() {
            *best = best.min(measure(case));
        }
    }
    best
}

fn one_thread() {
    let cases = [
        ("block layer, depth 1", ZoneWrite::Plug, true, 1, "at most 45 ns"),
        ("block layer, depth 16", ZoneWrite::Plug, true, 16, "at most 60 ns"),
        ("block layer, depth 32", ZoneWrite::Plug, true, 32, "at most 60 ns"),
        ("block layer, depth 16, nothing merged", ZoneWrite::Plug, false, 16, "at most 60 ns"),
        ("block layer, depth 32, nothing merged", ZoneWrite::Plug, false, 32, "at most 60 ns"),
        ("qd1, depth 1", ZoneWrite::Qd1, false, 1, "at most 20 ns above plug"),
        ("qd1, depth 16, nothing merged", ZoneWrite::Qd1, false, 16, "at most 20 ns above plug"),
    ];
    let times = best::<7>(|case| {
        let (_, policy, merge, depth, _) = cases[case];
        ns_per_write(&queue(DEVICE, options(policy, merge)), depth, ONE_ZONE, WRITES)
    });
    for ((name, _, _, _, goal), ns) in cases.iter().zip(times) {
        row(&format!("{name}, 4 KiB writes, one thread"), ns, "ns", goal);
    }
    let depths = [1, 16];
    let reads = best::<2>(|case| {
        ns_per_read(&queue(DEVICE, QueueOptions::default()), depths[case], WRITES)
    });
    for (depth, ns) in depths.iter().zip(reads) {
        row(&format!("block layer, depth {depth}, random 4 KiB reads, one thread"), ns, "ns", "");
    }
    let carried = best::<2>(|case| {
        let (depth, blocks) = ([1, 16][case], 4096 << 16);
        per_io(timed(|| handover::read(blocks, depth, WRITES)), WRITES)
    });
    for (depth, ns) in depths.iter().zip(carried) {
        let figure =
            format!("a read at depth {depth} without the layer, from pool to device and back");
        row(&figure, ns, "ns", "");
    }
    let [plug, qd1] = best::<2>(|case| {
        let policy = [ZoneWrite::Plug, ZoneWrite::Qd1][case];
        let zones = Zones { first: 0, width: 16 };
        ns_per_write(&queue(DEVICE, options(policy, false)), 16, zones, WRITES)
    });
    row("plug, depth 16 over 16 zones, one thread", plug, "ns", "");
    row("qd1, depth 16 over 16 zones, one thread", qd1, "ns", "at most 20 ns above plug");
    let lock = SpinLock::new(0);
    let [locked] = best::<1>(|_| {
        let time = timed(|| (0..WRITES).for_each(|_| *black_box(&lock).lock() += 1));
        per_io(time, WRITES)
    });
    row("a lock that no other thread takes; such a write takes three", locked, "ns", "");
}

fn threads() {
    let [one, two] = best::<2>(|case| {
        let queue = queue(DEVICE, options(ZoneWrite::Plug, false));
        let threads = case as u64 + 1;
        let time = at_once(threads, |id| {
            Writer::new(&queue, 16, Zones { first: id * 16, width: 1 }).write(WRITES);
        });
        per_io(time, WRITES * threads)
    });
    let free = thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let goal = if free < 2 { "needs two CPUs" } else { "at least 1.8" };
    row("two threads on different zones against one", one / two, "times", goal);
}

/// What sharing costs is what cache lines take between two CPUs, which depends on where the machine
/// has them: the same two virtual ones may be near one time and far apart another. So the most that
/// any layer could reach is measured beside it, the most with a plug that is locked when a write is
/// submitted and when it has completed, and what is left if threads also complete each other's writes.
fn shared_zones() {
    row("cache line to another CPU and back", best::<1>(|_| line_round_trip())[0], "ns", "");
    for (op, name) in [(Op::Write, "writes"), (Op::ZoneAppend, "appends")] {
        for (threads, goal) in [(2, "at least 80 %"), (4, "at least 60 %")] {
            for depth in [1, 4, 16] {
                let [own, order, plug, handover, shared, one] = best::<6>(|case| {
                    let (threads, sharing) = match case {
                        0 => (threads, Sharing::Nothing),
                        1 => (threads, Sharing::Order),
                        2 => (threads, Sharing::Plug),
                        3 => (threads, Sharing::Handover),
                        4 => (threads, Sharing::Zones),
                        _ => (1, Sharing::Nothing),
                    };
                    let scheduler = Scheduler::None;
                    RandomWrites { op, threads, sharing, depth, scheduler }.ns_per_write()
                });
                let figure = format!("random {name}, {threads} threads at depth {depth}");
                let against_own = format!("{figure}, 16 shared against own zones");
                row(&against_own, own / shared * 100.0, "%", goal);
                let most = format!("{figure}, the most that is possible");
                row(&most, own / order * 100.0, "%", "");
                let most = format!("{figure}, the most with a plug");
                row(&most, own / plug * 100.0, "%", "");
                // At depth 1 hardly any write waits.
                if depth > 1 {
                    let lines = format!("{figure}, the cache lines of the layer alone");
                    row(&lines, own / handover * 100.0, "%", "");
                }
                row(&format!("{figure}, against one"), one / shared * 100.0, "%", "at least 100 %");
            }
        }
    }
}

fn attach() {
    let cases =
        [(100_000, "100,000", "at most 50 ms"), (10_000_000, "10,000,000", "at most 100 ms")];
    let memory = || {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
        let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
        resident.expect("pages in memory") * 4096.0
    };
    // Of the first round: later ones find memory that is already there.
    let mut bytes = [0.0_f64; 2];
    let times = best::<2>(|case| {
        let zones = cases[case].0;
        let device = format!("null:zones={zones},zone_size=16M,max_open=0");
        let device = zonal_device::device_spec::parse(&device).expect("a spec");
        let before = memory();
        let device = zonal_device::device_spec::build(&device).expect("a device");
        let start = Instant::now();
        let queue = Queue::attach(device, QueueOptions::default()).expect("a device");
        let time = start.elapsed();
        bytes[case] = bytes[case].max((memory() - before) / f64::from(zones));
        drop(queue);
        time.as_secs_f64() * 1e3
    });
    for (((_, zones, goal), ms), bytes) in cases.iter().zip(times).zip(bytes) {
        row(&format!("{zones} zones attached"), ms, "ms", goal);
        let figure = format!("{zones} zones, memory of each with nothing written");
        row(&figure, bytes, "B", "below 64");
    }
}

/// The cost of a write by the number of zones that are open, on a device that does not limit it. The
/// zones' states are twice 64 bytes each, so what differs is where the processor finds them.
fn open_zones() {
    const OPEN: [u64; 5] = [16, 1000, 10_000, 100_000, 1_000_000];
    let device = "null:zones=1000000,zone_size=16M,max_open=0,lba=4096";
    let times = best::<5>(|case| {
        let queue = queue(device, options(ZoneWrite::Plug, true));
        let zones = Zones { first: 0, width: OPEN[case] };
        let mut writer = Writer::new(&queue, 16, zones);
        writer.write(OPEN[case].max(10_000));
        per_io(timed(|| writer.write(WRITES)), WRITES)
    });
    for (open, ns) in OPEN.iter().zip(times) {
        row(&format!("block layer, depth 16 over {open} open zones"), ns, "ns", "flat");
    }
}

/// Channels that share one hardware queue, driven in turn by one thread, each with a write in flight.
fn many_channels() {
    const CHANNELS: [u64; 3] = [1, 16, 1024];
    let times = best::<3>(|case| {
        let device = "null:zones=4096,zone_size=256M,max_open=0,queues=1,lba=4096";
        let options = QueueOptions { share_queues: true, ..options(ZoneWrite::Plug, true) };
        let queue = queue(device, options);
        let channels = 0..CHANNELS[case];
        let mut writers: Vec<Writer> =
            channels.map(|first| Writer::new(&queue, 1, Zones { first, width: 1 })).collect();
        let rounds = WRITES / 8 / CHANNELS[case];
        let time = timed(|| {
            for _ in 0..rounds {
                writers.iter_mut().for_each(|writer| writer.write(1));
            }
        });
        per_io(time, rounds * CHANNELS[case])
    });
    for (channels, ns) in CHANNELS.iter().zip(times) {
        row(&format!("{channels} channels on one hardware queue, depth 1"), ns, "ns", "flat");
    }
}

fn zonal(args: &[&str]) -> f64 {
    iops(Command::new(env!("CARGO_BIN_EXE_zonal")).arg("run").args(args))
}

/// Runs one job, of reads or of writes, and takes its IOPS from the terse output.
fn iops(command: &mut Command) -> f64 {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("3;")).unwrap_or_else(|| {
        panic!("terse output: {text}{}", String::from_utf8_lossy(&output.stderr))
    });
    // fio's terse format, version 3: field 8 is the read IOPS, field 49 the write IOPS.
    let iops = |field: usize| line.split(';').nth(field - 1)?.parse::<f64>().ok();
    iops(8).zip(iops(49)).map(|(reads, writes)| reads + writes).expect("IOPS")
}

const JOB: [&str; 5] = ["--name=peer", "--bs=4k", "--iodepth=16", "--zonemode=zbd", "--time_based"];

/// How long a job of 4 KiB takes, with the start of the program.
fn seconds(options: &[&str]) -> f64 {
    let common = ["run", "--name=v", "--bs=4k", "--output-format=terse"];
    let mut program = Command::new(env!("CARGO_BIN_EXE_zonal"));
    let start = Instant::now();
    let output = program.args(common).args(options).output().expect("the program starts");
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    start.elapsed().as_secs_f64()
}

/// The zone mode of jobs on a device: disks without zones have none.
fn zone_mode(device: &str) -> &'static str {
    if ["hdd", "sata-2009"].contains(&device) { "--zonemode=none" } else { "--zonemode=zbd" }
}

/// A job of one I/O: what the program and the tables of a device take.
fn start() {
    const DEVICES: [&str; 9] = [
        "null",
        "hdd",
        "zns",
        "sata-2009",
        "smr-20t",
        "smr-30t",
        "smr-30t-mpi3mr",
        "zns-1t",
        "zn540",
    ];
    let times = best::<9>(|case| {
        let device = format!("--device={}", DEVICES[case]);
        let mode = zone_mode(DEVICES[case]);
        seconds(&["--clock=virtual", "--rw=write", "--number_ios=1", mode, &device]) * 1e3
    });
    for (device, ms) in DEVICES.iter().zip(times) {
        row(&format!("one I/O on {device}, from start to end"), ms, "ms", "at most 20");
    }
}

/// What thousands of jobs take to start, and an I/O of one of many in virtual time.
fn many_jobs() {
    const JOB: [&str; 3] = ["--rw=randread", "--iodepth=64", "--group_reporting"];
    for (clock, device) in [("virtual", "null:latency=10us"), ("real", "null")] {
        let (clock_option, device) = (format!("--clock={clock}"), format!("--device={device}"));
        let options = [clock_option.as_str(), &device, "--numjobs=4096", "--number_ios=1"];
        let [time] = best::<1>(|_| seconds(&[&JOB[..], &options[..]].concat()));
        let figure = format!("{clock} clock, 4096 jobs of one I/O at depth 64, start to end");
        row(&figure, time, "s", "at most 1");
    }
    // The best run of `IOS` and that of twice as many: the difference of two runs would be best where
    // the first of them was slow.
    const IOS: u32 = 1 << 20;
    let jobs = [16, 256, 4096];
    let times = best::<6>(|case| {
        let (jobs, ios) = (jobs[case / 2], IOS * (case as u32 % 2 + 1));
        let count = format!("--numjobs={jobs}");
        let each = format!("--number_ios={}", ios / jobs);
        let options = ["--clock=virtual", "--device=null:latency=10us", &count, &each];
        seconds(&[&JOB[..], &options[..]].concat())
    });
    let times =
        times.as_chunks().0.iter().map(|[once, twice]| (twice - once) * 1e9 / f64::from(IOS));
    for (jobs, ns) in jobs.iter().zip(times) {
        row(&format!("virtual clock, an I/O of one of {jobs} jobs at depth 64"), ns, "ns", "flat");
    }
}

fn virtual_clock() {
    let cases = [
        ("null", "null:latency=10us", "--rw=write", 16, "at least 25"),
        ("zns-1t, sequential writes", "zns-1t", "--rw=write", 1, "at least 6"),
        ("zn540, sequential writes", "zn540", "--rw=write", 1, "at least 6"),
        ("zn540, sequential writes", "zn540", "--rw=write", 16, "at least 6"),
        ("zn540, sequential reads", "zn540:written=100%", "--rw=read", 1, "at least 6"),
        ("zn540, random reads", "zn540:written=100%", "--rw=randread", 16, ""),
        ("hdd, sequential writes", "hdd", "--rw=write", 1, "at least 6"),
    ];
    let ios = 1_000_000;
    let seconds = best::<7>(|case| {
        let (_, device, rw, depth, _) = cases[case];
        let options = [
            "--clock=virtual",
            rw,
            zone_mode(device),
            &format!("--device={device}"),
            &format!("--iodepth={depth}"),
            &format!("--number_ios={ios}"),
        ];
        seconds(&options)
    });
    for ((name, _, _, depth, goal), seconds) in cases.iter().zip(seconds) {
        let figure = format!("virtual clock, {name}, depth {depth}, I/Os a second");
        row(&figure, f64::from(ios) / seconds / 1e6, "M", goal);
    }
}

/// Random overwrites of an ordinary flash drive in its steady state: more of them less fewer, so that what
/// was written before is not counted.
fn overwrites() {
    let ios = [500_000, 1_500_000];
    let [fewer, more] = best::<2>(|case| {
        seconds(&[
            "--clock=virtual",
            "--device=ssd:size=4G,block=384K,overprovision=12.5%,prefill=random:2",
            "--rw=randwrite",
            "--norandommap",
            "--io_size=8G",
            "--iodepth=16",
            &format!("--number_ios={}", ios[case]),
        ])
    });
    let rate = f64::from(ios[1] - ios[0]) / (more - fewer);
    let figure = "virtual clock, ssd, random overwrites, depth 16, I/Os a second";
    row(figure, rate / 1e6, "M", "at least 2");
}

/// Data writes of the model of btrfs, of which each is an append of the block layer.
fn file_system() {
    let ios = 1_000_000;
    let [seconds] = best::<1>(|_| {
        seconds(&[
            "--clock=virtual",
            "--device=null:append_max=1M,latency=10us",
            "--filesystem=btrfs",
            "--rw=write",
            "--bs=128k",
            "--iodepth=16",
            "--direct=1",
            "--openfiles=1",
            "--nrfiles=100000",
            "--filesize=128m",
            &format!("--number_ios={ios}"),
        ])
    });
    let figure = "virtual clock, btrfs on null, depth 16, data writes a second";
    row(figure, f64::from(ios) / seconds / 1e6, "M", "at least 2");
}

/// Writes all of a 30 TB shingled disk: 28.6 million commands of 1 MiB.
fn whole_disk() {
    let start = Instant::now();
    zonal(&[
        "--clock=virtual",
        "--device=smr-30t",
        "--name=whole",
        "--rw=write",
        "--bs=1m",
        "--iodepth=4",
        "--zonemode=zbd",
        "--output-format=terse",
    ]);
    row(
        "virtual clock, 30 TB written to smr-30t",
        start.elapsed().as_secs_f64(),
        "s",
        "at most 30",
    );
}

/// An hour of 60 shingled disks, which share nothing.
fn server() {
    let start = Instant::now();
    let job = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/server.fio");
    zonal(&["--clock=virtual", "--output-format=terse", job]);
    let seconds = start.elapsed().as_secs_f64();
    row("virtual clock, an hour of 60 disks", seconds, "s", "at most 60 on two CPUs");
}

/// The loads for which the peers' figures are in docs/performance.md, in real time.
fn jobs() {
    let cases = [
        ("--rw=write", "--iodepth=1", "at least 8"),
        ("--rw=write", "--iodepth=16", "at least 12.7"),
        ("--rw=randread", "--iodepth=1", "more than 9.1"),
        ("--rw=randread", "--iodepth=16", "more than 14.8"),
    ];
    for (rw, depth, goal) in cases {
        let device = "--device=null:zones=64,zone_size=256M,written=100%";
        let job = [rw, depth, device, "--nomerges", "--runtime=1", "--output-format=terse"];
        let rate = median((0..ROUNDS).map(|_| zonal(&[&JOB[..], &job].concat())));
        let figure = format!("zonal run {rw} {depth} --nomerges, null, median");
        row(&figure, rate / 1e6, "MIOPS", goal);
    }
}

fn whole_program() {
    if Command::new("fio").arg("--version").output().is_err() {
        println!("fio is not installed: no comparison with fio --ioengine=null");
        return;
    }
    let file = std::env::temp_dir().join(format!("zonal-peer-{}", std::process::id()));
    let image = std::fs::File::create(&file).expect("a file in the temporary folder");
    image.set_len(16 << 30).expect("a sparse file");
    let filename = format!("--filename={}", file.display());
    let common = ["--runtime=2", "--output-format=terse"];
    for rw in ["--rw=write", "--rw=randwrite"] {
        let zonal =
            || zonal(&[&JOB[..], &common, &[rw, "--device=null:zones=64,zone_size=256M"]].concat());
        let fio = || {
            let geometry = ["--zonesize=256M", "--zonecapacity=256M", "--size=16G"];
            let engine = ["--ioengine=null", &filename, rw, "--terse-version=3"];
            iops(Command::new("fio").args(JOB).args(common).args(engine).args(geometry))
        };
        let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (zonal(), fio())).collect();
        let zonal = median(rounds.iter().map(|&(zonal, _)| zonal));
        let fio = median(rounds.iter().map(|&(_, fio)| fio));
        let ratio = median(rounds.iter().map(|&(zonal, fio)| zonal / fio));
        row(&format!("zonal run {rw}, median"), zonal / 1e6, "MIOPS", "");
        row(&format!("fio --ioengine=null {rw}, median"), fio / 1e6, "MIOPS", "");
        row(&format!("zonal against fio, {rw}, median of pairs"), ratio, "times", "at least 5");
    }
    std::fs::remove_file(file).expect("the file was just made");
}
