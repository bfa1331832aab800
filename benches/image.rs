//! Images against fio's plain io_uring writes to a preallocated file, on the same file system; and
//! how long opening an image of 100,000 zones takes.
//!
//! Other work on the machine comes and goes, so the two run in turn for a short time each, and what
//! counts is the median of the ratios of such pairs.
//!
//! `setsid -w cargo bench --bench image`; needs fio. fio's jobs are sessions of their own, which the
//! kernel's scheduler gives the same time each; without `setsid` the image has to share what its
//! terminal's other programs leave. `ZONAL_BENCH_DIR` says where the files go (the directory
//! for temporary files unless told otherwise).
use criterion::Criterion;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use zonal_blk::{Bio, Buf, Channel, Nanos, Op, Queue, QueueOptions, Sector, Status};
use zonal_device::image::Profile;
use zonal_host::image::{self, ImageName};

/// Pairs of each way.
const ROUNDS: usize = 9;
/// How long each of a pair runs.
const TIME: Duration = Duration::from_millis(700);
/// Bytes that are written at the most: the zones of the image, and the file of fio.
const SIZE: u64 = 2 << 30;
const PROFILE: &str = "null:zones=16,zone_size=256M,lba=4096,depth=64";

struct Way {
    block: usize,
    depth: usize,
    flush: bool,
    /// Least share of fio's rate, in percent.
    goal: u32,
}

const WAYS: [Way; 6] = [
    Way { block: 4 << 10, depth: 1, flush: false, goal: 90 },
    Way { block: 4 << 10, depth: 16, flush: false, goal: 90 },
    Way { block: 1 << 20, depth: 1, flush: false, goal: 90 },
    Way { block: 1 << 20, depth: 16, flush: false, goal: 90 },
    Way { block: 4 << 10, depth: 1, flush: true, goal: 80 },
    Way { block: 1 << 20, depth: 1, flush: true, goal: 80 },
];

fn open(path: &Path) -> Channel {
    let name: ImageName = ImageName::of_path(&path.to_string_lossy()).parse().expect("a name");
    let opened = image::open(&name).expect("the image opens");
    let queue = Queue::attach(opened.device, QueueOptions::default()).expect("a queue");
    queue.channel().expect("a channel")
}

/// A buffer that has memory of its own, which one of zeroes need not have.
fn filled(len: usize) -> Buf {
    let mut buf = Buf::zeroed(len);
    (0_u64..).zip(buf.chunks_mut(8)).for_each(|(number, word)| {
        word.copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    });
    buf
}

/// Bytes a second into the first eight zones of a new image, one after the other.
fn ours(place: &Path, way: &Way) -> f64 {
    let path = place.join("bench.img");
    image::create(&path, Profile::Spec(PROFILE.to_owned())).expect("an image");
    let mut io = open(&path);
    let mut completions = Vec::new();
    // An image in use has data in several zones: a new one may have just so few extents that ext4
    // makes a tree of them and gives it up again at each write.
    for zone in 8..16 {
        io.submit(Nanos(0), Bio::write(Sector(zone << 19), filled(4096), 0));
    }
    while io.outstanding() > 0 {
        io.poll(Nanos(0), &mut completions);
    }
    completions.clear();
    let mut free: Vec<Buf> = (0..way.depth).map(|_| filled(way.block)).collect();
    let (mut at, mut done) = (0, 0_u64);
    let begun = Instant::now();
    let now = || Nanos(u64::try_from(begun.elapsed().as_nanos()).expect("a short run"));
    loop {
        let more = begun.elapsed() < TIME && at < SIZE;
        while more
            && at < SIZE
            && let Some(buf) = free.pop()
        {
            io.submit(now(), Bio::write(Sector(at / 512), buf, 0));
            at += way.block as u64;
        }
        if io.outstanding() == 0 {
            break;
        }
        io.poll(now(), &mut completions);
        for completion in completions.drain(..) {
            assert_eq!(completion.status, Status::Ok);
            if let Some(buf) = completion.buf {
                done += buf.len() as u64;
                free.push(buf);
                if way.flush {
                    io.submit(now(), Bio::new(Op::Flush, Sector(0), 0, 0));
                    let mut flushed = Vec::new();
                    while flushed.is_empty() {
                        io.poll(now(), &mut flushed);
                    }
                }
            }
        }
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    drop(io);
    std::fs::remove_file(&path).expect("it is ours");
    rate
}

/// Bytes a second of fio's.
fn fios(place: &Path, way: &Way) -> f64 {
    let mut command = Command::new("fio");
    command.current_dir(place).args([
        "--name=bench",
        "--filename=bench.dat",
        "--rw=write",
        "--ioengine=io_uring",
        "--direct=1",
        "--fallocate=native",
        "--unlink=1",
        "--output-format=terse",
    ]);
    command.arg(format!("--size={SIZE}")).arg(format!("--runtime={}ms", TIME.as_millis()));
    command.arg(format!("--bs={}", way.block)).arg(format!("--iodepth={}", way.depth));
    if way.flush {
        command.arg("--fdatasync=1");
    }
    let output = command.output().expect("fio runs");
    let text = String::from_utf8(output.stdout).expect("fio writes UTF-8");
    // Fields of fio's terse format 3: 47 is the KiB written, 49 the milliseconds, from 1.
    let line = text.lines().find(|line| line.starts_with("3;")).expect("a line of results");
    let fields: Vec<&str> = line.split(';').collect();
    let number = |at: usize| fields[at].parse::<f64>().expect("a number");
    number(46) * 1024.0 / (number(49) / 1000.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs both in turn; gives the medians of the rates and of their ratio.
fn compare(place: &Path, way: &Way) -> (f64, f64, f64) {
    let (mut own, mut fio, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Each comes first every other time.
        let first = (round % 2 == 1).then(|| fios(place, way));
        let ours = ours(place, way);
        let fios = first.unwrap_or_else(|| fios(place, way));
        own.push(ours);
        fio.push(fios);
        ratios.push(ours / fios);
    }
    (median(own), median(fio), median(ratios))
}

fn main() {
    let base = std::env::var_os("ZONAL_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let place = tempfile::tempdir_in(base).expect("a directory");
    println!("block  depth  flush  image MB/s  fio MB/s  ratio   goal");
    for way in &WAYS {
        let (own, fio, ratio) = compare(place.path(), way);
        println!(
            "{:>4}K  {:>5}  {:>5}  {:>10.1}  {:>8.1}  {:>4.0} %  {:>3} %",
            way.block >> 10,
            way.depth,
            if way.flush { "each" } else { "-" },
            own / 1e6,
            fio / 1e6,
            100.0 * ratio,
            way.goal
        );
    }
    let path = place.path().join("large.img");
    let profile = "null:zones=100000,zone_size=256M,lba=4096";
    image::create(&path, Profile::Spec(profile.to_owned())).expect("an image");
    let name: ImageName = ImageName::of_path(&path.to_string_lossy()).parse().expect("a name");
    let mut criterion = Criterion::default().sample_size(20);
    criterion.bench_function("open an image of 100,000 zones (goal: 100 ms)", |bench| {
        bench.iter(|| image::open(&name).expect("the image opens"));
    });
}
