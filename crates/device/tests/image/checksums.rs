//! Checksums of data: every damaged bit is found, and nothing else is reported.
use crate::medium::Medium;
use crate::model::{channel, open};
use zonal_blk::{Bio, Buf, Channel, Nanos, Op, Sector, Status};
use zonal_device::control::DeviceControl;
use zonal_device::image::{
    Finding, ImageDevice, ImageGeometry, Profile, Superblock, check, check_data,
};
use zonal_device::rng::Rng;

const ZONE: u64 = 256;
const ZONES: u64 = 6;

/// Zone 0 is conventional.
fn superblock(lba: u32) -> Superblock {
    let zones = u32::try_from(ZONES).unwrap();
    let simple = ImageGeometry::simple(zones, 1, Sector(ZONE));
    let geometry = ImageGeometry { lba, nr_queues: 2, queue_depth: 16, ..simple };
    let mut new = Superblock::new([3; 16], geometry, Profile::Spec("null".to_owned())).unwrap();
    new.log_blocks = 40;
    new
}

fn run(io: &mut Channel, bio: Bio) -> (Status, Option<Buf>) {
    io.submit(Nanos(0), bio);
    let mut completions = Vec::new();
    while io.outstanding() > 0 {
        io.poll(Nanos(0), &mut completions);
    }
    let completion = completions.pop().unwrap();
    (completion.status, completion.buf)
}

fn read(io: &mut Channel, sector: u64, nr_sectors: u32) -> (Status, Vec<u8>) {
    let (status, buf) = run(io, Bio::read(Sector(sector), nr_sectors, 0));
    (status, buf.unwrap().to_vec())
}

fn random(rng: &mut Rng, len: usize) -> Buf {
    let mut buf = Buf::zeroed(len);
    buf.iter_mut().for_each(|byte| *byte = u8::try_from(rng.below(256)).unwrap());
    buf
}

/// A closed image with data in zones 0 to 3, and those data by sector.
fn closed(superblock: &Superblock, seed: u64) -> (Medium, Vec<u8>) {
    let medium = Medium::new(seed);
    ImageDevice::create(&medium, superblock).unwrap();
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    let mut rng = Rng::new(seed);
    let mut all = vec![0; usize::try_from(ZONES * ZONE * 512).unwrap()];
    for zone in 0..4 {
        for part in 0..4 {
            let at = zone * ZONE + part * 32;
            let data = random(&mut rng, 32 * 512);
            all[usize::try_from(at * 512).unwrap()..][..data.len()].copy_from_slice(&data);
            assert_eq!(run(&mut io, Bio::write(Sector(at), data, 0)).0, Status::Ok);
        }
    }
    drop(io);
    drop(device);
    (medium, all)
}

/// Where a sector of data is in the file, found by its contents.
fn place(bytes: &[u8], data: &[u8], sector: u64) -> usize {
    let wanted = &data[usize::try_from(sector * 512).unwrap()..][..512];
    bytes.chunks(512).position(|found| found == wanted).expect("the data are in the file") * 512
}

fn damage(medium: &Medium) -> Vec<String> {
    let (superblock, recovered, mut findings) = check(medium).unwrap();
    findings.extend(check_data(medium, &superblock, &recovered, &mut |_| ()).unwrap());
    let damage = findings.into_iter().filter_map(|found| match found {
        Finding::Damage(what) => Some(what),
        Finding::Note(_) => None,
    });
    damage.collect()
}

#[test]
fn every_flipped_bit_of_data_is_found() {
    for lba in [512, 4096] {
        let (medium, data) = closed(&superblock(lba), 5);
        let bytes = medium.bytes();
        let mut rng = Rng::new(u64::from(lba));
        for flip in 0..180 {
            let sector = rng.below(4) * ZONE + rng.below(128);
            let mut bytes = bytes.clone();
            let at = place(&bytes, &data, sector);
            bytes[at + usize::try_from(rng.below(512)).unwrap()] ^= 1 << rng.below(8);
            let medium = Medium::of(bytes, 1);
            let what = format!("flip {flip} in sector {sector}, blocks of {lba}");
            assert_eq!(damage(&medium).len(), 1, "{what}");
            let device = open(&medium).unwrap();
            let mut io = channel(&device);
            let per_block = u64::from(lba) / 512;
            let block = sector / per_block * per_block;
            let (status, found) = read(&mut io, block, lba / 512);
            assert_eq!(status, Status::Medium, "{what}");
            assert!(found.iter().all(|&byte| byte == 0), "wrong data were handed out: {what}");
            // The other blocks of the zone are there.
            let start = sector / ZONE * ZONE;
            for other in (start..start + 128).step_by(usize::try_from(per_block).unwrap()) {
                let (status, found) = read(&mut io, other, lba / 512);
                let expected = &data[usize::try_from(other * 512).unwrap()..][..found.len()];
                assert!(other == block || (status == Status::Ok && found == expected), "{what}");
            }
        }
    }
}

#[test]
fn damage_is_named_and_scrubbed_in_the_order_of_sectors() {
    let (medium, data) = closed(&superblock(4096), 6);
    let mut bytes = medium.bytes();
    for sector in [8, 16, ZONE * 2 + 100] {
        let at = place(&bytes, &data, sector);
        bytes[at] ^= 1;
    }
    let medium = Medium::of(bytes, 1);
    let found = damage(&medium);
    assert!(found[0].starts_with("zone 0: the data of sectors 8 to 23 do not match"), "{found:?}");
    assert!(found[1].starts_with("zone 2: the data of sectors 608 to 615 do not"), "{found:?}");
    let device = open(&medium).unwrap();
    let (mut at, mut bytes, mut damaged) = (Some(Sector(0)), 0, Vec::new());
    while let Some(from) = at {
        let step = device.scrub(from).unwrap();
        (at, bytes) = (step.next, bytes + step.bytes);
        damaged.extend(step.damaged);
    }
    assert_eq!(damaged, [Sector(8), Sector(16), Sector(608)]);
    assert_eq!(bytes, (ZONE + 3 * 128) * 512, "a conventional zone and the data of three others");
}

#[test]
fn an_overwrite_or_a_reset_ends_damage() {
    let (medium, data) = closed(&superblock(512), 7);
    let mut bytes = medium.bytes();
    for sector in [9, ZONE + 9] {
        let at = place(&bytes, &data, sector);
        bytes[at] ^= 1;
    }
    let medium = Medium::of(bytes, 1);
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!(read(&mut io, 8, 4).0, Status::Medium);
    assert_eq!(run(&mut io, Bio::write(Sector(9), Buf::zeroed(512), 0)).0, Status::Ok);
    assert_eq!(read(&mut io, 8, 4).0, Status::Ok);
    assert_eq!(read(&mut io, ZONE + 9, 1).0, Status::Medium);
    assert_eq!(run(&mut io, Bio::new(Op::ZoneReset, Sector(ZONE), 0, 0)).0, Status::Ok);
    assert_eq!(read(&mut io, ZONE + 9, 1), (Status::Ok, vec![0; 512]));
    let new = Buf::from(&data[..16 * 512]);
    assert_eq!(run(&mut io, Bio::write(Sector(ZONE), new, 0)).0, Status::Ok);
    assert_eq!(read(&mut io, ZONE + 9, 1), (Status::Ok, data[9 * 512..10 * 512].to_vec()));
    drop(io);
    drop(device);
    assert_eq!(damage(&medium), [""; 0]);
}

#[test]
fn discarded_blocks_read_as_zeroes_that_match() {
    let (medium, data) = closed(&superblock(512), 8);
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!(run(&mut io, Bio::new(Op::Discard, Sector(3), 5, 0)).0, Status::Ok);
    let (status, found) = read(&mut io, 0, 16);
    assert_eq!(status, Status::Ok);
    let expected = [&data[..3 * 512], &[0; 5 * 512], &data[8 * 512..16 * 512]].concat();
    assert!(found == expected, "three sectors, a hole of five, the rest");
    drop(io);
    drop(device);
    assert_eq!(damage(&medium), [""; 0]);
}

#[test]
fn damaged_checksums_are_not_believed() {
    let (medium, data) = closed(&superblock(512), 9);
    let mut bytes = medium.bytes();
    // The checksums of a slot are before its data, four bytes for a block.
    let start = place(&bytes, &data, 2 * ZONE);
    bytes[start - 4096 + 4 * 5] ^= 1;
    let medium = Medium::of(bytes, 1);
    let found = damage(&medium);
    assert!(found[0].starts_with("zone 2: the data of sectors 517 to 517"), "{found:?}");
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!(read(&mut io, 2 * ZONE + 5, 1).0, Status::Medium);
    assert_eq!(read(&mut io, 2 * ZONE + 6, 1).0, Status::Ok);
}

#[test]
fn reads_during_writes_and_resets_never_fail() {
    const READ: u64 = 1;
    for seed in 0..40 {
        let medium = Medium::new(seed);
        ImageDevice::create(&medium, &superblock(512)).unwrap();
        let device = open(&medium).unwrap();
        let mut io = channel(&device);
        let mut rng = Rng::new(seed);
        let mut completions = Vec::new();
        for _ in 0..300 {
            let zone = rng.below(3);
            let nr_sectors = 1 + u32::try_from(rng.below(24)).unwrap();
            let inside = rng.below(ZONE - 24);
            let (_, wp) = io.queue().cached_zone(zonal_blk::ZoneNo(zone as u32)).unwrap();
            let at = Sector(zone * ZONE + if zone == 0 { inside } else { wp.0 });
            let data = random(&mut rng, nr_sectors as usize * 512);
            let fits = zone == 0 || wp.0 + u64::from(nr_sectors) <= ZONE;
            let bio = match rng.below(8) {
                0..=2 if fits => Bio::write(at, data, 0),
                3 if zone > 0 => Bio::new(Op::ZoneReset, Sector(zone * ZONE), 0, 0),
                4 if zone == 0 => Bio::new(Op::Discard, at, nr_sectors, 0),
                5 => Bio::new(Op::Flush, Sector(0), 0, 0),
                _ => Bio::read(Sector(zone * ZONE + inside), nr_sectors, READ),
            };
            io.submit(Nanos(0), bio);
            if rng.below(3) == 0 {
                io.poll(Nanos(0), &mut completions);
            }
        }
        while io.outstanding() > 0 {
            io.poll(Nanos(0), &mut completions);
        }
        // A write that crosses a reset may be at the wrong place.
        let failed = completions.iter().filter(|completion| completion.status != Status::Ok);
        let failed: Vec<Sector> =
            failed.filter(|read| read.user_data == READ).map(|read| read.sector).collect();
        assert!(failed.is_empty(), "seed {seed}: {failed:?}");
        drop(io);
        drop(device);
        assert_eq!(damage(&medium), [""; 0], "seed {seed}");
    }
}

#[test]
fn images_without_checksums_open_and_say_so() {
    let mut old = superblock(512);
    old.checksums = false;
    for version in [1, 2] {
        old.version = version;
        let (medium, data) = closed(&old, 4);
        let (superblock, recovered, _) = check(&medium).unwrap();
        assert_eq!((superblock.version, superblock.checksums), (version, false));
        let findings = check_data(&medium, &superblock, &recovered, &mut |_| ()).unwrap();
        let expected = "data were not checked: the image has no checksums of them";
        assert_eq!(findings, [Finding::Note(expected.to_owned())]);
        let device = open(&medium).unwrap();
        assert_eq!(device.scrub(Sector(0)), Err(Status::NotSupported));
        assert_eq!(read(&mut channel(&device), ZONE, 1), {
            let at = usize::try_from(ZONE * 512).unwrap();
            (Status::Ok, data[at..at + 512].to_vec())
        });
    }
}

#[test]
fn a_new_image_survives_the_loss_of_either_root() {
    let medium = Medium::new(1);
    ImageDevice::create(&medium, &superblock(512)).unwrap();
    for root in [2, 3] {
        let mut bytes = medium.bytes();
        bytes[root * 4096..][..4096].fill(0xa5);
        let medium = Medium::of(bytes, 1);
        assert_eq!(damage(&medium).len(), 1, "root {root}");
        assert!(open(&medium).is_ok(), "root {root}");
        assert_eq!(damage(&medium), [""; 0], "opening has written root {root} again");
    }
}

#[test]
fn a_damaged_list_of_regions_is_made_good_by_its_twin() {
    let (medium, _) = closed(&superblock(512), 3);
    // Superblocks, roots, and two halves of a block of the table and forty of the log, twice.
    let lists = (4 + 2 * 82) * 4096;
    let mut all = medium.bytes();
    all[lists..lists + 4 * 4096].fill(0xa5);
    let error = check(&Medium::of(all, 1)).unwrap_err().to_string();
    assert!(error.starts_with("both copies of the lists of regions"), "{error}");
    let mut found = 0;
    for copy in 0..4 {
        let mut bytes = medium.bytes();
        bytes[lists + copy * 4096 + 100] ^= 1;
        let medium = Medium::of(bytes, 1);
        found += damage(&medium).len();
        assert!(open(&medium).is_ok());
        assert_eq!(damage(&medium), [""; 0], "opening has written copy {copy} again");
    }
    assert_eq!(found, 2, "the copies of the older list do not matter");
}

#[test]
fn a_log_that_cannot_be_read_is_not_whole() {
    let superblock = superblock(512);
    let (medium, _) = closed(&superblock, 2);
    let generation = usize::try_from(check(&medium).unwrap().1.generation).unwrap();
    // Each half: a block of the table and forty of the log, twice.
    let log = (4 + generation % 2 * 82 + 2) * 4096;
    let with_garbage = |blocks: usize| {
        let mut bytes = medium.bytes();
        bytes[log..log + blocks * 2 * 4096].fill(0xa5);
        check(&Medium::of(bytes, 1)).unwrap().2
    };
    assert_eq!(with_garbage(0), []);
    let skipped = "of 40 blocks cannot be read and were skipped";
    let few = with_garbage(2);
    let note = format!("log: 2 {skipped}");
    assert!(matches!(&few[..], [Finding::Note(what)] if what.starts_with(&note)), "{few:?}");
    let all = with_garbage(40);
    let lost = format!("log: 40 {skipped}");
    assert!(matches!(&all[..], [Finding::Damage(what)] if what.starts_with(&lost)), "{all:?}");
}
