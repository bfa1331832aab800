//! Thousands of runs with losses of power at random moments.
use crate::medium::Medium;
use crate::model::{User, channel, open};
use zonal_blk::{Channel, Op, Sector};
use zonal_device::image::{
    Finding, ImageDevice, ImageGeometry, Profile, Superblock, check, check_data,
};
use zonal_device::rng::Rng;

/// Runs, unless `ZONAL_CASES` says another number.
const CASES: u64 = 400;

pub fn geometry(rng: &mut Rng) -> ImageGeometry {
    let lba = if rng.below(3) == 0 { 4096 } else { 512 };
    let zones = 4 + u32::try_from(rng.below(4)).unwrap();
    let conventional = u32::try_from(rng.below(3)).unwrap();
    if rng.below(5) == 0 {
        let whole = ImageGeometry::simple(1, 1, Sector(1024));
        return ImageGeometry { regular: true, lba, nr_queues: 4, queue_depth: 16, ..whole };
    }
    ImageGeometry {
        zone_capacity: [Sector(128), Sector(104)][usize::from(rng.below(2) == 1)],
        max_open: u32::try_from(rng.below(4)).unwrap(),
        lba,
        append_max_sectors: [0, 32][usize::from(rng.below(2) == 1)],
        nr_queues: 4,
        queue_depth: 16,
        ..ImageGeometry::simple(zones, conventional, Sector(128))
    }
}

/// No checksum is wrong, whatever data the loss of power has left.
pub fn assert_no_damage(medium: &Medium, what: &str) {
    let (superblock, recovered, _) = check(medium).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(recovered.damaged_data, [], "{what}");
    let findings = check_data(medium, &superblock, &recovered, &mut |_| ()).unwrap();
    let damaged = findings.iter().any(|found| matches!(found, Finding::Damage(_)));
    assert!(!damaged, "{what}: {findings:?}");
}

/// Writes to one zone that are flushed one by one, so that the image writes its log ahead; the last
/// may fail, or other commands come instead of its flush.
fn write_and_flush(user: &mut User, io: &mut Channel, medium: &Medium, rng: &mut Rng, lba: u64) {
    let settle = |user: &mut User, io: &mut Channel| {
        while io.outstanding() > 0 && !medium.is_off() {
            user.poll(io, medium);
        }
    };
    settle(user, io);
    let zone = usize::try_from(rng.below(user.nr_zones())).unwrap();
    for _ in 0..2 + rng.below(5) {
        user.submit_op(io, Op::Write, zone, lba);
        // With or without waiting for the data: the flush is of what has completed.
        if rng.below(4) > 0 {
            settle(user, io);
        }
        user.submit_op(io, Op::Flush, zone, lba);
        settle(user, io);
    }
    user.submit_op(io, Op::Write, zone, lba);
    user.poll(io, medium);
}

/// Uses an image until its medium is off, and takes the completions that are left.
pub fn use_until_off(user: &mut User, io: &mut Channel, medium: &Medium, rng: &mut Rng, lba: u64) {
    medium.set_fuse(2 + rng.below(120));
    while !medium.is_off() {
        if rng.below(8) == 0 {
            write_and_flush(user, io, medium, rng, lba);
            continue;
        }
        for _ in 0..rng.below(6) {
            user.submit(io, lba);
        }
        for _ in 0..rng.below(4) {
            user.poll(io, medium);
        }
    }
    while io.outstanding() > 0 {
        user.poll(io, medium);
    }
}

/// One run; gives how many commands ended, and how many failed.
fn run(seed: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let geometry = geometry(&mut rng);
    let lba = u64::from(geometry.lba) / 512;
    let profile = Profile::Spec("null".to_owned());
    let mut superblock = Superblock::new([7; 16], geometry, profile).unwrap();
    superblock.log_blocks = 1 + u32::try_from(rng.below(5)).unwrap();
    superblock.checksums = rng.below(4) > 0;
    superblock.version = 2 + u32::try_from(rng.below(3)).unwrap();
    superblock.preallocated = rng.below(3) == 0;
    let medium = Medium::new(seed);
    ImageDevice::create(&medium, &superblock).unwrap();
    let is_short = rng.below(4) == 0;
    if is_short {
        medium.set_full(12);
    }
    let mut device = open(&medium).unwrap();
    let mut io = channel(&device);
    let mut user = User::new(seed, &device);
    user.is_short = is_short;
    for loss in 0..4 {
        use_until_off(&mut user, &mut io, &medium, &mut rng, lba);
        drop(io);
        drop(device);
        let (sector, keep) = ([512, 4096][usize::from(rng.below(2) == 1)], rng.below(5));
        medium.lose_power(sector, keep);
        let what = format!("seed {seed}, loss {loss}");
        // The power may go again while the image is being opened.
        for _ in 0..rng.below(3) {
            medium.set_fuse(1 + rng.below(30));
            let opened = open(&medium);
            medium.set_fuse(0);
            drop(opened);
            medium.lose_power(sector, rng.below(5));
        }
        assert_no_damage(&medium, &what);
        device = open(&medium).unwrap_or_else(|error| panic!("{what}: {error}"));
        io = channel(&device);
        user.check(&device, &mut io, &what);
    }
    (user.ended, user.failed)
}

#[test]
fn what_was_flushed_survives_every_loss_of_power() {
    let cases = std::env::var("ZONAL_CASES").map_or(CASES, |text| text.parse().unwrap());
    let first = std::env::var("ZONAL_FIRST").map_or(0, |text| text.parse().unwrap());
    let every_second = |from: u64| {
        let runs = (from..first + cases).step_by(2).map(run);
        runs.fold((0, 0), |(ended, failed), (more, bad)| (ended + more, failed + bad))
    };
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| every_second(first + 1));
        (every_second(first), odd.join().expect("no run fails"))
    });
    let (ended, failed) = (even.0 + odd.0, even.1 + odd.1);
    assert!(ended > 20 * cases, "{ended} commands ended in {cases} runs");
    assert!(failed < ended / 2, "{failed} of {ended} commands failed");
}

#[test]
fn what_was_closed_is_all_there() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let geometry = geometry(&mut rng);
        let lba = u64::from(geometry.lba) / 512;
        let profile = Profile::Spec("null".to_owned());
        let mut superblock = Superblock::new([7; 16], geometry, profile).unwrap();
        superblock.log_blocks = 4;
        let medium = Medium::new(seed);
        ImageDevice::create(&medium, &superblock).unwrap();
        let device = open(&medium).unwrap();
        let mut io = channel(&device);
        let mut user = User::new(seed, &device);
        for _ in 0..50 {
            user.submit(&mut io, lba);
            user.poll(&mut io, &medium);
        }
        while io.outstanding() > 0 {
            user.poll(&mut io, &medium);
        }
        user.all_is_safe();
        drop(io);
        drop(device);
        medium.lose_power(512, 0);
        let device = open(&medium).unwrap();
        user.check(&device, &mut channel(&device), &format!("seed {seed}"));
    }
}
