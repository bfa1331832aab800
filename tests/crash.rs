//! Images after `kill -9`: a child process writes, flushes and resets until it is killed; everything
//! that was reported durable must be there. `ZONAL_KILLS=200 cargo test --release --test crash` kills
//! it more often.
//!
//! The child is this test program: [`writer`] and [`overwriter`] do nothing unless their variables are
//! set.
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use zonal_backend::image::{self, ImageName};
use zonal_blk::{
    Bio, BioFlags, Buf, Channel, Nanos, Op, Queue, QueueOptions, Sector, Status, Zone, ZoneNo,
};
use zonal_device::control::{DeviceControl, TranslationStats};
use zonal_device::image::{Finding, Profile};
use zonal_device::rng::Rng;

/// The path of the child's image, with zones or of a flash drive without, and its seed.
const IMAGE: &str = "ZONAL_CRASH_IMAGE";
const FLASH_IMAGE: &str = "ZONAL_CRASH_FLASH_IMAGE";
const SEED: &str = "ZONAL_CRASH_SEED";
/// Kills, unless `ZONAL_KILLS` is set.
const KILLS: u64 = 20;
const FLASH: &str = "ssd:size=8M,overprovision=90%,dies=2,channels=1,block=96K,buffer=16M,fdp_handles=2,prefill=random:1";
const PROFILE: &str = "null:zones=8,zone_size=1M,zone_capacity=768K,conventional=1,max_open=4";

/// The data of a sector: its number and how often its zone was reset.
fn stamp(sector: u64, generation: u64) -> [u8; 512] {
    let word = (sector << 32 | generation).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::array::from_fn(|at| word.to_le_bytes()[at % 8])
}

fn open(path: &Path) -> Channel {
    let name: ImageName = format!("image:{}", path.display()).parse().expect("a name");
    let opened = image::open(&name).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let queue = Queue::attach(opened.device, QueueOptions::default()).expect("a queue");
    queue.channel().expect("a channel")
}

fn run(io: &mut Channel, bio: Bio) -> (Status, Option<Buf>) {
    io.submit(Nanos(0), bio);
    let mut completions = Vec::new();
    while io.outstanding() > 0 {
        io.poll(Nanos(0), &mut completions);
        std::thread::yield_now();
    }
    let completion = completions.pop().expect("one bio, one completion");
    (completion.status, completion.buf)
}

fn report(io: &Channel) -> Vec<Zone> {
    let mut zones = Vec::new();
    io.queue().report_zones(ZoneNo(0), usize::MAX, &mut zones).expect("a report");
    zones
}

/// Overwrites parts of the conventional zone and writes the others until it is killed, and prints what is durable: `durable ZONE GENERATION SECTORS`. Before a
/// reset it prints `reset` with the next generation.
#[test]
fn writer() {
    let (Ok(path), Ok(seed)) = (std::env::var(IMAGE), std::env::var(SEED)) else {
        return;
    };
    let mut rng = Rng::new(seed.parse().expect("a seed"));
    let mut io = open(Path::new(&path));
    let zones = report(&io);
    let mut input = std::io::stdin().lock().lines();
    let mut generations: Vec<u64> = (0..zones.len())
        .map(|_| input.next().expect("a line").expect("UTF-8").parse().expect("a number"))
        .collect();
    // The write pointer of a full zone is the zone's end.
    let end = |zone: &Zone| (zone.wp - zone.start).min(zone.capacity).0;
    let mut ends: Vec<u64> = zones.iter().map(end).collect();
    let mut out = std::io::stdout();
    let mut print = move |text: String| {
        // One system call, so that a kill leaves a whole line or none.
        out.write_all(text.as_bytes()).expect("a pipe");
        out.flush().expect("a pipe");
    };
    loop {
        if rng.below(4) == 0 {
            let nr_sectors = 1 + rng.below(64);
            let from = rng.below(zones[0].len.0 - nr_sectors);
            let id = rng.below(1 << 20);
            let data: Vec<u8> = (0..nr_sectors).flat_map(|sector| stamp(sector, id)).collect();
            let overwrite = Bio::write(Sector(from), Buf::from(&data[..]), 0);
            assert_eq!(run(&mut io, overwrite).0, Status::Ok);
        }
        let zone = 1 + usize::try_from(rng.below(zones.len() as u64 - 1)).expect("a zone");
        let descriptor = &zones[zone];
        let (start, capacity) = (descriptor.start.0, descriptor.capacity.0);
        if ends[zone] >= capacity || rng.below(40) == 0 {
            generations[zone] += 1;
            print(format!("reset {zone} {} 0\n", generations[zone]));
            let reset = Bio::new(Op::ZoneReset, descriptor.start, 0, 0);
            assert_eq!(run(&mut io, reset).0, Status::Ok);
            print(format!("durable {zone} {} 0\n", generations[zone]));
            ends[zone] = 0;
            continue;
        }
        let nr_sectors = (1 + rng.below(256)).min(capacity - ends[zone]);
        let from = start + ends[zone];
        let data: Vec<u8> =
            (from..from + nr_sectors).flat_map(|s| stamp(s, generations[zone])).collect();
        let mut bio = Bio::write(Sector(from), Buf::from(&data[..]), 0);
        let fua = rng.below(8) == 0;
        if fua {
            bio.flags = BioFlags::FUA;
        }
        assert_eq!(run(&mut io, bio).0, Status::Ok);
        ends[zone] += nr_sectors;
        if fua {
            print(format!("durable {zone} {} {}\n", generations[zone], ends[zone]));
        } else if rng.below(6) == 0 {
            assert_eq!(run(&mut io, Bio::new(Op::Flush, Sector(0), 0, 0)).0, Status::Ok);
            let lines = (1..zones.len())
                .map(|zone| format!("durable {zone} {} {}\n", generations[zone], ends[zone]));
            print(lines.collect());
        }
    }
}

fn spawn(child: &str, image: &str, path: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", child, "--nocapture", "--test-threads=1"])
        .env(image, path)
        .env(SEED, seed.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts")
}

fn start(path: &Path, seed: u64, generations: &[u64]) -> Child {
    let mut child = spawn("writer", IMAGE, path, seed);
    let mut input = child.stdin.take().expect("a pipe");
    for generation in generations {
        writeln!(input, "{generation}").expect("a pipe");
    }
    child
}

/// Overwrites pages of a flash drive until it is killed, and prints what it has flushed: `flushed PAGES`.
#[test]
fn overwriter() {
    let (Ok(path), Ok(seed)) = (std::env::var(FLASH_IMAGE), std::env::var(SEED)) else {
        return;
    };
    let mut rng = Rng::new(seed.parse().expect("a seed"));
    let mut io = open(Path::new(&path));
    let mut out = std::io::stdout();
    for pages in 1.. {
        let page = rng.below(2048);
        let data: Vec<u8> = (page * 8..page * 8 + 8).flat_map(|sector| stamp(sector, 1)).collect();
        let stream = u8::from(page.is_multiple_of(2)) + 1;
        let bio = Bio { stream, ..Bio::write(Sector(page * 8), Buf::from(&data[..]), 0) };
        assert_eq!(run(&mut io, bio).0, Status::Ok);
        if rng.below(50) == 0 {
            assert_eq!(run(&mut io, Bio::new(Op::Flush, Sector(0), 0, 0)).0, Status::Ok);
            out.write_all(format!("flushed {pages}\n").as_bytes()).expect("a pipe");
            out.flush().expect("a pipe");
        }
    }
}

/// The state that a zone must have: its generation and durable sectors, and the next generation if a reset
/// was in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    generation: u64,
    durable: u64,
    resetting: Option<u64>,
}

fn verify(io: &mut Channel, known: &mut [Known], what: &str) {
    for (number, zone) in report(io).iter().enumerate() {
        let nr_sectors = u32::try_from(zone.len.0).expect("a short zone");
        let (status, buf) = run(io, Bio::read(zone.start, nr_sectors, 0));
        assert_eq!(status, Status::Ok, "{what}: zone {number} has no wrong checksum");
        if number == 0 {
            // Overwrites that were not flushed may be there or not.
            continue;
        }
        let data = buf.expect("a read has a buffer");
        let sectors: Vec<&[u8]> = data.chunks(512).collect();
        let is_zero = |sector: &&&[u8]| sector.iter().all(|&byte| byte == 0);
        let end = sectors.iter().take_while(|sector| !is_zero(sector)).count();
        let known = &mut known[number];
        let what = format!("{what}: zone {number}: {zone:?}, {end} sectors of data, {known:?}");
        assert!(sectors[end..].iter().all(|sector| is_zero(&sector)), "a hole: {what}");
        if end as u64 != zone.capacity.0 {
            assert_eq!(
                end as u64,
                (zone.wp - zone.start).0,
                "write pointer and data differ: {what}"
            );
        }
        if let Some(next) = known.resetting.take()
            && (end == 0 || sectors[0] == stamp(zone.start.0, next))
        {
            *known = Known { generation: next, ..Known::default() };
        }
        assert!(end as u64 >= known.durable, "durable data are lost: {what}");
        for (sector, data) in (zone.start.0..).zip(&sectors[..end]) {
            assert!(**data == stamp(sector, known.generation), "sector {sector}: {what}");
        }
        known.durable = end as u64;
    }
}

#[test]
fn durable_data_survive_every_kill() {
    let kills = std::env::var("ZONAL_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("killed.img");
    image::create(&path, Profile::Spec(PROFILE.to_owned()), true).expect("an image");
    let mut rng = Rng::new(kills);
    let mut known = vec![Known::default(); 8];
    let mut reports = 0;
    for kill in 0..kills {
        let generations: Vec<u64> = known.iter().map(|zone| zone.generation).collect();
        let mut child = start(&path, kill, &generations);
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut first = String::new();
        while !first.contains("durable") {
            first.clear();
            assert!(out.read_line(&mut first).expect("UTF-8") > 0, "the child ended by itself");
        }
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        for line in std::iter::once(first).chain(out.lines().map(|line| line.expect("UTF-8"))) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [kind @ ("durable" | "reset"), numbers @ ..] = &words[..] else { continue };
            let numbers: Vec<u64> = numbers.iter().map(|n| n.parse().expect("a number")).collect();
            let [zone, generation, sectors] = numbers[..] else { panic!("half a line: {line}") };
            let zone = &mut known[usize::try_from(zone).expect("a zone")];
            match *kind {
                "reset" => zone.resetting = Some(generation),
                _ => *zone = Known { generation, durable: sectors, resetting: None },
            }
            reports += 1;
        }
        let (_, _, findings) = image::inspect(&path, Some(&mut |_| ())).expect("an image");
        let is_damage = |found: &Finding| matches!(found, Finding::Damage(_));
        assert!(!findings.iter().any(is_damage), "kill {kill}: {findings:?}");
        verify(&mut open(&path), &mut known, &format!("kill {kill}"));
    }
    assert!(reports > kills, "{reports} lines of {kills} children");
}

#[test]
fn map_and_counts_of_a_flash_drive_survive_every_kill() {
    let kills = std::env::var("ZONAL_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("flash.img");
    image::create(&path, Profile::Spec(FLASH.to_owned()), true).expect("an image");
    let name: ImageName = format!("image:{}", path.display()).parse().expect("a name");
    let mut rng = Rng::new(kills);
    let mut before = TranslationStats::default();
    for kill in 0..kills {
        let mut child = spawn("overwriter", FLASH_IMAGE, &path, kill);
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let flushed = |line: std::io::Result<String>| {
            line.expect("UTF-8")
                .strip_prefix("flushed ")
                .map(|pages| pages.parse().expect("a number"))
        };
        let mut last: u64 = lines.by_ref().find_map(flushed).expect("the child goes on");
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        last = lines.filter_map(flushed).last().unwrap_or(last);
        let (_, _, findings) = image::inspect(&path, Some(&mut |_| ())).expect("an image");
        let is_damage = |found: &Finding| matches!(found, Finding::Damage(_));
        assert!(!findings.iter().any(is_damage), "kill {kill}: {findings:?}");
        let opened = image::open(&name).expect("it opens");
        assert_eq!(opened.device.state_damage(), None, "kill {kill}");
        let after = opened.device.translation().expect("a translation layer");
        let what = format!("kill {kill}, {last} pages flushed: {before:?}, {after:?}");
        assert!(after.host.0 >= before.host.0 + last * 4096, "{what}");
        assert!(after.media >= before.media && after.media >= after.host, "{what}");
        assert!(after.erased_superblocks >= before.erased_superblocks, "{what}");
        before = after;
    }
    assert!(before.erased_superblocks > 0, "{before:?}");
}
