//! `zonal run` on a preallocated image compared with fio, as users run them, on a file of the same file
//! system that has data already; images with checksums compared with images without; `zonal run` on an image with a
//! recording of all writes (`--record`) compared with one without; and the time to open an image of
//! 100,000 zones.
//!
//! A write to a file that has data, as to a preallocated image, changes none of its metadata, so that a
//! flush costs least there. With `reserved` both are new, and the space of fio's file is only reserved:
//! each write changes metadata, and a flush after it commits them as well. With `new` an image that is
//! new is compared with the file that has data.
//!
//! A file system may discard freed space seconds later, which would slow whatever runs then, so each
//! run waits until that is over. Load on the machine varies, so the two alternate in short runs, and
//! the result is the median of the ratios of such pairs. Images with and without checksums are open
//! together. Their readers look at each cache line of the data, as programs do: if nobody did, the
//! checksums alone would fetch the data into the processor's cache.
//!
//! `setsid -w cargo bench --bench image`; needs fio. Words after `--` select the cases whose names
//! contain one of them, `checksums`, `record`, `program` and `open` the parts; `reserved` and `new` are
//! run only if they are named. fio's jobs run in sessions of their own, to which the kernel's scheduler gives equal
//! shares of time; without `setsid` the image shares the time of its terminal's session. On a loaded
//! machine, `chrt -r 1` in front prioritizes both. `ZONAL_BENCH_DIR` sets the directory of the files
//! (default: that for temporary files).
#[path = "support/median.rs"]
mod median;
#[path = "support/settle.rs"]
mod settle;
#[path = "support/start.rs"]
mod start;

use criterion::Criterion;
use median::median;
use serde_json::Value;
use settle::settle;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use zonal_backend::image::{self, ImageName};
use zonal_blk::{Bio, Buf, Channel, Completion, Nanos, Op, Queue, QueueOptions, Sector, Status};
use zonal_device::image::Profile;
use zonal_device::rng::Rng;

/// Pairs of each case.
const ROUNDS: usize = 9;
/// Duration of a run.
const TIME: Duration = Duration::from_millis(700);
/// Pairs of short runs of two images that are open together, and how long each run is.
const SLICES: usize = 60;
const SLICE: Duration = Duration::from_millis(50);
/// Most bytes written: the zones of the image, and the file of fio.
const SIZE: u64 = 2 << 30;
const PROFILE: &str = "null:zones=16,zone_size=256M,depth=64";
/// An image of that size, for the same jobs again and again.
const FULL_PROFILE: &str = "null:zones=8,zone_size=256M,depth=64";
/// Data that random reads read.
const READ_SIZE: u64 = 512 << 20;

struct Case {
    name: &'static str,
    block: usize,
    depth: usize,
    flush: bool,
    /// Random reads instead of writes.
    read: bool,
    /// Least share of fio's rate, in percent.
    goal: u32,
}

/// A load whose rates with and without checksums are compared.
struct Load {
    name: &'static str,
    read: bool,
    case: Case,
    lba: u32,
}

/// Writes, with a flush after each if `flush`.
const fn case(name: &'static str, block: usize, depth: usize, flush: bool) -> Case {
    Case { name, block, depth, flush, read: false, goal: 90 }
}

/// The goal is the least share of the rate without checksums.
const fn load(name: &'static str, read: bool, block: usize, depth: usize, lba: u32) -> Load {
    Load { name, read, case: case(name, block, depth, false), lba }
}

const LOADS: [Load; 6] = [
    load("4k randread qd1", true, 4 << 10, 1, 4096),
    load("4k randread qd16", true, 4 << 10, 16, 4096),
    load("4k randread qd16, 512 B blocks", true, 4 << 10, 16, 512),
    load("128k write qd1", false, 128 << 10, 1, 4096),
    load("128k write qd16", false, 128 << 10, 16, 4096),
    load("128k write qd16, 512 B blocks", false, 128 << 10, 16, 512),
];

/// What both programs run.
const JOBS: [Case; 8] = [
    case("program 4k qd1", 4 << 10, 1, false),
    case("program 4k qd16", 4 << 10, 16, false),
    case("program 1m qd16", 1 << 20, 16, false),
    case("program 4k qd1 flush", 4 << 10, 1, true),
    case("program 128k qd1 flush", 128 << 10, 1, true),
    case("program 1m qd1 flush", 1 << 20, 1, true),
    Case { read: true, ..case("program 4k randread qd1", 4 << 10, 1, false) },
    Case { read: true, ..case("program 4k randread qd16", 4 << 10, 16, false) },
];

fn open(path: &Path) -> Channel {
    let name: ImageName = ImageName::of_path(&path.to_string_lossy()).parse().expect("a name");
    let opened = image::open(&name).expect("the image opens");
    let queue = Queue::attach(opened.device, QueueOptions::default()).expect("a queue");
    queue.channel().expect("a channel")
}

/// A buffer with memory of its own, which a zeroed one may lack.
fn filled(len: usize) -> Buf {
    let mut buf = Buf::zeroed(len);
    (0_u64..).zip(buf.chunks_mut(8)).for_each(|(number, word)| {
        word.copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    });
    buf
}

/// A new image, with blocks of `lba` bytes.
fn create(place: &Path, lba: u32, checksums: bool) -> PathBuf {
    let path = place.join(if checksums { "bench.img" } else { "plain.img" });
    let profile = Profile::Spec(format!("{PROFILE},lba={lba}"));
    image::create(&path, profile, checksums).expect("an image");
    path
}

/// Bytes per second of a program that runs the job of a case and prints fio's terse format.
fn job_rate(mut command: Command, case: &Case) -> f64 {
    let (size, rw) = if case.read { (READ_SIZE, "randread") } else { (SIZE, "write") };
    command.arg(format!("--rw={rw}"));
    command.arg(format!("--size={size}")).arg(format!("--runtime={}ms", TIME.as_millis()));
    command.arg(format!("--bs={}", case.block)).arg(format!("--iodepth={}", case.depth));
    if case.flush {
        command.arg("--fdatasync=1");
    }
    let output = command.output().expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    // Fields of the terse format 3, from 1: 6 is the KiB read, 9 the milliseconds; 47 and 50 are those
    // of writes.
    let line = text.lines().find(|line| line.starts_with("3;")).expect("a line of results");
    let fields: Vec<&str> = line.split(';').collect();
    let number = |at: usize| fields[at].parse::<f64>().expect("a number");
    let first = if case.read { 5 } else { 46 };
    number(first) * 1024.0 / (number(first + 3) / 1000.0)
}

/// Runs a command alone.
fn run(io: &mut Channel, bio: Bio) {
    let mut completions = Vec::new();
    io.submit(Nanos(0), bio);
    while io.outstanding() > 0 {
        io.poll(Nanos(0), &mut completions);
    }
    assert!(completions.iter().all(|completion| completion.status == Status::Ok));
}

/// Writes a block to several zones of a new image, as in an image in use: with very few extents ext4
/// converts the inode to an extent tree and back at each write.
fn write_first_blocks(io: &mut Channel) {
    for zone in 8..16 {
        run(io, Bio::write(Sector(zone << 19), filled(4096), 0));
    }
}

/// Writes the data that are read.
fn write_data(io: &mut Channel) {
    for at in (0..READ_SIZE).step_by(1 << 20) {
        run(io, Bio::write(Sector(at / 512), filled(1 << 20), 0));
    }
}

/// `zonal run` on a new image.
fn zonal_job(place: &Path, case: &Case) -> f64 {
    let path = create(place, 4096, true);
    let mut io = open(&path);
    write_first_blocks(&mut io);
    drop(io);
    let rate = job_rate(zonal_run(&path), case);
    std::fs::remove_file(&path).expect("it is ours");
    rate
}

fn zonal_run(image: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
    command.arg("run").arg("--device").arg(image);
    command.args(["--name=bench", "--zonemode=zbd", "--ioengine=io_uring", "--minimal"]);
    command
}

/// `zonal run` on a preallocated image, which stays for the next run. Its zones are empty, or have the
/// data that are read.
fn zonal_full(place: &Path, case: &Case) -> f64 {
    let path = place.join("full.img");
    if !path.exists() {
        let profile = Profile::Spec(format!("{FULL_PROFILE},lba=4096"));
        image::create_preallocated(&path, profile, true, &mut |_, _| Ok(())).expect("an image");
    }
    let mut io = open(&path);
    run(&mut io, Bio::new(Op::ZoneResetAll, Sector(0), 0, 0));
    if case.read {
        write_data(&mut io);
    }
    drop(io);
    settle(place);
    job_rate(zonal_run(&path), case)
}

/// fio on a new file with reserved space.
fn fio_reserved(place: &Path, case: &Case) -> f64 {
    let mut command = Command::new("fio");
    command.current_dir(place).args([
        "--name=bench",
        "--filename=new.dat",
        "--ioengine=io_uring",
        "--direct=1",
        "--fallocate=native",
        "--unlink=1",
        "--output-format=terse",
    ]);
    job_rate(command, case)
}

/// fio on a file with data, which stays for the next run.
fn fio_job(place: &Path, case: &Case) -> f64 {
    let path = place.join("data.dat");
    if !path.exists() {
        let mut file = File::create(&path).expect("a file");
        let data = filled(1 << 20);
        (0..SIZE >> 20).for_each(|_| file.write_all(&data).expect("space"));
        file.sync_all().expect("the file is written");
    }
    let mut command = Command::new("fio");
    command.current_dir(place).args([
        "--name=bench",
        "--filename=data.dat",
        "--ioengine=io_uring",
        "--direct=1",
        "--output-format=terse",
    ]);
    job_rate(command, case)
}

/// An image under a load.
struct Loaded<'a> {
    load: &'a Load,
    io: Channel,
    completions: Vec<Completion>,
    rng: Rng,
    /// Where the next write goes.
    end: u64,
    free: Vec<Buf>,
    path: PathBuf,
}

impl<'a> Loaded<'a> {
    /// A new image, with [`READ_SIZE`] bytes of data if it is to be read.
    fn new(place: &Path, load: &'a Load, checksums: bool) -> Self {
        let path = create(place, load.lba, checksums);
        let free = (0..load.case.depth).map(|_| filled(load.case.block)).collect();
        let (mut io, completions, rng) = (open(&path), Vec::new(), Rng::new(1));
        if load.read {
            write_data(&mut io);
        }
        write_first_blocks(&mut io);
        run(&mut io, Bio::new(Op::Flush, Sector(0), 0, 0));
        Loaded { load, io, completions, rng, end: 0, free, path }
    }

    fn next(&mut self, buf: Buf) -> Bio {
        let block = self.load.case.block as u64;
        if self.load.read {
            let sector = Sector(self.rng.below(READ_SIZE / block) * block / 512);
            let nr_sectors = u32::try_from(block / 512).expect("a short read");
            return Bio { buf: Some(buf), ..Bio::new(Op::Read, sector, nr_sectors, 0) };
        }
        self.end += block;
        Bio::write(Sector((self.end - block) / 512), buf, 0)
    }

    /// Bytes per second of a short run.
    fn rate(&mut self) -> f64 {
        let begun = Instant::now();
        let mut done = 0;
        while begun.elapsed() < SLICE || self.io.outstanding() > 0 {
            while begun.elapsed() < SLICE
                && let Some(buf) = self.free.pop()
            {
                let bio = self.next(buf);
                self.io.submit(Nanos(0), bio);
            }
            self.io.poll(Nanos(0), &mut self.completions);
            for completion in self.completions.drain(..) {
                assert_eq!(completion.status, Status::Ok);
                let buf = completion.buf.expect("a buffer");
                if self.load.read {
                    black_box(buf.iter().step_by(64).fold(0, |all, byte| all ^ byte));
                }
                done += buf.len();
                self.free.push(buf);
            }
        }
        done as f64 / begun.elapsed().as_secs_f64()
    }
}

/// The rates with checksums and without, of all pairs.
fn compare_checksums(place: &Path, load: &Load) -> Vec<(f64, f64)> {
    settle(place);
    let mut with = Loaded::new(place, load, true);
    let mut without = Loaded::new(place, load, false);
    settle(place);
    let mut pairs = Vec::new();
    while pairs.len() < SLICES && with.end.max(without.end) < SIZE - (512 << 20) {
        let first = (pairs.len() % 2 == 1).then(|| without.rate());
        let rate = with.rate();
        pairs.push((rate, first.unwrap_or_else(|| without.rate())));
    }
    for Loaded { io, path, .. } in [with, without] {
        drop(io);
        std::fs::remove_file(&path).expect("it is ours");
    }
    pairs
}

/// What `zonal run` writes to an image, with a recording and without one: zeroes, or blocks with random
/// data, which the job has to make (`verify`).
const RECORDED: [Case; 4] = [
    recorded("record 4k qd1 zeroes", 4 << 10, 1),
    recorded("record 4k qd1 random", 4 << 10, 1),
    recorded("record 4k qd16 random", 4 << 10, 16),
    recorded("record 64k qd4 random", 64 << 10, 4),
];

/// The goal is the least share of the rate without a recording.
const fn recorded(name: &'static str, block: usize, depth: usize) -> Case {
    Case { goal: 85, ..case(name, block, depth, false) }
}

/// Bytes per second of `zonal run` on a new image, with its writes recorded if `record`.
fn run_rate(place: &Path, case: &Case, record: bool) -> f64 {
    settle(place);
    let (path, log) = (create(place, 4096, true), place.join("bench.zlog"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
    command.current_dir(place).args(["run", "--eta=never", "--output-format=json"]);
    if record {
        command.arg("--record").arg(&log);
    }
    command.arg("--device").arg(&path);
    command.args(["--name=w", "--rw=write", "--zonemode=zbd"]);
    if case.name.ends_with("random") {
        command.args(["--verify=crc32c", "--do_verify=0"]);
    }
    command.arg(format!("--size={SIZE}")).arg(format!("--runtime={}ms", TIME.as_millis()));
    command.arg(format!("--bs={}", case.block)).arg(format!("--iodepth={}", case.depth));
    let output = command.output().expect("zonal runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rate = report["jobs"][0]["write"]["bw_bytes"].as_f64().expect("a rate");
    for path in [path, log].iter().filter(|path| path.exists()) {
        std::fs::remove_file(path).expect("it is ours");
    }
    rate
}

/// Runs with a recording and without one, in turn.
fn compare_recording(place: &Path, case: &Case) -> Vec<(f64, f64)> {
    let pair = |round| {
        let first = (round % 2 == 1).then(|| run_rate(place, case, false));
        let with = run_rate(place, case, true);
        (with, first.unwrap_or_else(|| run_rate(place, case, false)))
    };
    (0..ROUNDS).map(pair).collect()
}

type Rate = fn(&Path, &Case) -> f64;

/// Runs both in turn; gives the rates of all pairs.
fn compare(place: &Path, case: &Case, zonal: Rate, fio: Rate) -> Vec<(f64, f64)> {
    let run = |rate: Rate| {
        settle(place);
        rate(place, case)
    };
    let pair = |round| {
        // Each comes first every other time.
        let first = (round % 2 == 1).then(|| run(fio));
        let ours = run(zonal);
        (ours, first.unwrap_or_else(|| run(fio)))
    };
    (0..ROUNDS).map(pair).collect()
}

fn print_case(case: &Case, pairs: &[(f64, f64)]) {
    let mut ratios: Vec<f64> = pairs.iter().map(|(own, fio)| 100.0 * own / fio).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{:30} {:10.1}  {:8.1}  {:4.0} %  {:4.0} to {:3.0} %  {:3} %",
        case.name,
        median(pairs.iter().map(|(own, _)| own / 1e6)),
        median(pairs.iter().map(|(_, fio)| fio / 1e6)),
        ratios[ratios.len() / 2],
        ratios[ratios.len() / 4],
        ratios[ratios.len() - 1 - ratios.len() / 4],
        case.goal
    );
}

fn main() {
    if !start::measures() {
        return;
    }
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    let chosen = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let base = std::env::var_os("ZONAL_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let place = tempfile::tempdir_in(base).expect("a directory");
    compare_programs(place.path(), chosen);
    for (word, fio) in [("reserved", fio_reserved as Rate), ("new", fio_job)] {
        if words.iter().any(|other| other == word) {
            println!("{word:30} image MB/s  fio MB/s  ratio  middle half   goal");
            for case in JOBS.iter().filter(|case| !case.read) {
                print_case(case, &compare(place.path(), case, zonal_job, fio));
            }
        }
    }
    let loads: Vec<&Load> =
        LOADS.iter().filter(|load| chosen("checksums") || chosen(load.name)).collect();
    if !loads.is_empty() {
        println!("{:30}  with MB/s  w/o MB/s  ratio  middle half   goal", "");
    }
    for load in loads {
        print_case(&load.case, &compare_checksums(place.path(), load));
    }
    let recorded: Vec<&Case> =
        RECORDED.iter().filter(|case| chosen("record") || chosen(case.name)).collect();
    if !recorded.is_empty() {
        println!("{:30}  with MB/s  w/o MB/s  ratio  middle half   goal", "");
    }
    for case in recorded {
        print_case(case, &compare_recording(place.path(), case));
    }
    if chosen("open") {
        measure_open(place.path());
    }
}

/// The first table: the programs, as users run them.
fn compare_programs(place: &Path, chosen: impl Fn(&str) -> bool) {
    let jobs: Vec<&Case> = JOBS.iter().filter(|case| chosen(case.name)).collect();
    if !jobs.is_empty() {
        println!("{:30} image MB/s  fio MB/s  ratio  middle half   goal", "");
    }
    for case in jobs {
        print_case(case, &compare(place, case, zonal_full, fio_job));
    }
}

fn measure_open(place: &Path) {
    let path = place.join("large.img");
    let profile = "null:zones=100000,zone_size=256M,lba=4096";
    image::create(&path, Profile::Spec(profile.to_owned()), true).expect("an image");
    let name: ImageName = ImageName::of_path(&path.to_string_lossy()).parse().expect("a name");
    let mut criterion = Criterion::default().sample_size(20);
    criterion.bench_function("open an image of 100,000 zones (goal: 100 ms)", |bench| {
        bench.iter(|| image::open(&name).expect("the image opens"));
    });
}
