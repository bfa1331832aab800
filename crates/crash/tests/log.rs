//! Events that are written to a log are read from it again.
use std::path::Path;
use zonal_blk::{BioFlags, Limits, Op, Sector, Status, ZoneNo};
use zonal_crash::log::{Command, Event, Header, Log, LogError, Totals, VERSION, Writer};
use zonal_device::image::{ImageGeometry, Profile, Superblock};
use zonal_device::rng::Rng;

const LBA: usize = 4096;
/// Blocks of a write.
const BLOCKS: usize = 16;

fn header() -> Header {
    let limits = Limits { lba_size: 4096, ..Limits::zoned(2, Sector(1 << 15)) };
    let zones: Vec<_> = limits.empty_zones(ZoneNo(0), 2).collect();
    let geometry = ImageGeometry::of(&limits, &zones).expect("a geometry");
    let superblock = Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned()));
    let superblock = superblock.expect("one");
    Header { device: "test".to_owned(), superblock, zones: Vec::new() }
}

/// A log of writes with such blocks.
fn write_log(path: &Path, blocks: &[[u8; LBA]]) -> Totals {
    let mut writer = Writer::create(path, &header()).expect("a log");
    for (id, blocks) in (0..).zip(blocks.chunks(BLOCKS)) {
        let nr_sectors = u32::try_from(blocks.len() * 8).expect("few");
        let (flags, sector) = (BioFlags::NONE, Sector(id * BLOCKS as u64 * 8));
        let mut command = Command { op: Op::Write, flags, sector, nr_sectors, blocks: Vec::new() };
        writer.add_blocks(&mut command, blocks.as_flattened());
        writer.add(Event::Started { id, command });
        writer.add(Event::Ended { id, status: Status::Ok, landed: sector });
    }
    writer.finish().expect("it is written")
}

/// All blocks that the writes of a log have.
fn read_log(path: &Path) -> Vec<[u8; LBA]> {
    let log = Log::open(path).expect("a log");
    let mut blocks = log.blocks();
    let commands = log.events().filter_map(|event| match event {
        Event::Started { command, .. } => Some(command),
        _ => None,
    });
    let numbers = commands.flat_map(|command| command.block_numbers().collect::<Vec<_>>());
    let read = |number| {
        let mut block = [0; LBA];
        blocks.read(number, &mut block).expect("the log has it");
        block
    };
    numbers.map(read).collect()
}

fn random_block(rng: &mut Rng) -> [u8; LBA] {
    let mut block = [0; LBA];
    block.chunks_mut(8).for_each(|word| word.copy_from_slice(&rng.below(u64::MAX).to_le_bytes()));
    block
}

/// Blocks of one byte, which differs.
fn plain_block(number: usize) -> [u8; LBA] {
    let mut block = [(number % 251) as u8; LBA];
    block[..8].copy_from_slice(&(number as u64).to_le_bytes());
    block
}

#[test]
fn blocks_come_back_however_they_are_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log");
    let rng = &mut Rng::new(1);
    let random: Vec<_> = (0..1000).map(|_| random_block(rng)).collect();
    let plain: Vec<_> = (0..1000).map(plain_block).collect();
    let size = || std::fs::metadata(&path).expect("the log").len() as usize;

    assert_eq!(write_log(&path, &random), Totals { events: 126, blocks: 1000, written: 1000 });
    assert_eq!(read_log(&path), random);
    assert!((1000 * LBA..1010 * LBA).contains(&size()), "{} bytes of random data", size());

    write_log(&path, &plain);
    assert_eq!(read_log(&path), plain);
    assert!(size() < 50 * LBA, "{} bytes of what can be compressed", size());

    // Blocks of both kinds, zeroes, and blocks that were written before.
    let mixed: Vec<_> = (0..4000)
        .map(|_| match (rng.below(4), rng.below(1000) as usize) {
            (0, _) => [0; LBA],
            (1, number) => plain[number],
            (_, number) => random[number],
        })
        .collect();
    let totals = write_log(&path, &mixed);
    assert_eq!(read_log(&path), mixed);
    assert!(totals.blocks <= 2000 && totals.written == 4000, "{totals:?}");
}

#[test]
fn older_versions_are_read_and_newer_ones_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log");
    let plain: Vec<_> = (0..BLOCKS).map(plain_block).collect();
    write_log(&path, &plain);
    let mut bytes = std::fs::read(&path).expect("the log");
    let mut with_version = |version: u32| {
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        std::fs::write(&path, &bytes).expect("the log");
    };
    // In version 1 all blocks are compressed, as these are.
    with_version(1);
    assert_eq!(read_log(&path), plain);
    with_version(VERSION + 1);
    assert!(matches!(Log::open(&path), Err(LogError::Version(_))));
}

#[test]
fn recording_that_never_ends_has_its_events() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log");
    let mut writer = Writer::create(&path, &header()).expect("a log");
    let count = || Log::open(&path).expect("a log").events().count();
    let wait_for = |events: usize| {
        let begin = std::time::Instant::now();
        while count() < events {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{} events", count());
            std::thread::yield_now();
        }
    };
    writer.add(Event::Mark("before a flush".to_owned()));
    writer.flush();
    wait_for(1);
    // Without a flush.
    writer.add(Event::Mark("later".to_owned()));
    wait_for(2);
    assert_eq!(writer.finish().expect("it is written").events, 2);
    assert_eq!(count(), 2);
}
