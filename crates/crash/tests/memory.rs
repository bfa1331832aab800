//! The states of a log are enumerated in memory that does not grow with its length. The one test of
//! this program, since it measures the whole process.
use std::path::Path;
use zonal_blk::{BioFlags, Limits, Op, Sector, Status, ZoneNo};
use zonal_crash::log::{Command, Event, Header, Log, Writer};
use zonal_crash::{Options, Progress, States};
use zonal_device::image::{ImageGeometry, Profile, Superblock};

/// Sectors of a zone: 1 MiB.
const ZONE: u64 = 2048;
const ZONES: u64 = 16;
/// Sectors of a write, 64 KiB, and how many of them are in a zone.
const WRITE: u32 = 128;
const WRITES: u64 = ZONE / WRITE as u64;

fn header() -> Header {
    let zones = u32::try_from(ZONES).expect("few");
    let limits = Limits { lba_size: 4096, ..Limits::zoned(zones, Sector(ZONE)) };
    let all: Vec<_> = limits.empty_zones(ZoneNo(0), zones as usize).collect();
    let geometry = ImageGeometry::of(&limits, &all).expect("a geometry");
    let superblock = Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned()));
    let superblock = superblock.expect("one");
    Header { device: "test".to_owned(), superblock, zones: Vec::new() }
}

/// A log in which the device is written from its first zone to its last, `times` over, with a flush
/// for each zone. Each block has its own data.
fn write_log(path: &Path, times: u64) {
    let mut writer = Writer::create(path, &header()).expect("a log");
    let (mut id, mut block) = (0, 0_u64);
    let mut run = |writer: &mut Writer, mut command: Command| {
        let blocks = u64::from(command.nr_sectors) / 8;
        let mut data = Vec::new();
        (block..block + blocks).for_each(|block| data.extend(block.to_le_bytes().repeat(512)));
        block += blocks;
        writer.add_blocks(&mut command, &data);
        let landed = command.sector;
        writer.add(Event::Started { id, command });
        writer.add(Event::Ended { id, status: Status::Ok, landed });
        id += 1;
    };
    let command = |op, sector, nr_sectors| {
        let (flags, sector, blocks) = (BioFlags::NONE, Sector(sector), Vec::new());
        Command { op, flags, sector, nr_sectors, blocks }
    };
    for zone in (0..times).flat_map(|_| 0..ZONES) {
        run(&mut writer, command(Op::ZoneReset, zone * ZONE, 0));
        for number in 0..WRITES {
            let sector = zone * ZONE + number * u64::from(WRITE);
            run(&mut writer, command(Op::Write, sector, WRITE));
        }
        run(&mut writer, command(Op::Flush, 0, 0));
    }
    writer.finish().expect("it is written");
}

/// The most memory that the enumeration needed, in KiB, and the number of states.
fn enumerate(path: &Path) -> (u64, usize) {
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak is reset");
    let log = Log::open(path).expect("a log");
    let states = States::new(&log, Options { per_cut: 4, ..Options::default() });
    let count = states.filter(|next| matches!(next, Progress::State(..))).count();
    let status = std::fs::read_to_string("/proc/self/status").expect("the state of the process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    let peak = peak.trim().strip_suffix(" kB").expect("in KiB");
    (peak.trim().parse().expect("a number"), count)
}

#[test]
fn memory_does_not_grow_with_the_length_of_the_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let [short, long] = ["short", "long"].map(|name| dir.path().join(name));
    write_log(&long, 16);
    write_log(&short, 1);
    let (short_peak, short_states) = enumerate(&short);
    let (long_peak, long_states) = enumerate(&long);
    println!("16 MiB of writes: {short_states} states, {short_peak} KiB");
    println!("256 MiB of writes: {long_states} states, {long_peak} KiB");
    assert!(long_states > 12 * short_states, "{long_states} and {short_states} states");
    // States are recognised by 16 bytes each; the data would be 240 MiB more.
    assert!(long_peak < short_peak + (16 << 10), "{short_peak} and {long_peak} KiB");
}
