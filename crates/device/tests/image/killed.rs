//! A process that is killed and replaced: what was answered is there, as long as there was power.
use crate::medium::Medium;
use crate::model::{User, channel, new_image, open, run};
use crate::power_loss::{assert_no_damage, geometry, use_until_off};
use std::sync::Arc;
use zonal_blk::{Bio, Buf, Channel, Device, Op, Sector, Status, Zone, ZoneCondition, ZoneNo};
use zonal_device::control::DeviceControl;
use zonal_device::image::{Finding, ImageDevice, ImageGeometry, Profile, Superblock, check};
use zonal_device::rng::Rng;

/// Runs, unless `ZONAL_CASES` says another number.
const CASES: u64 = 80;

/// Kills and losses of power at random moments. Returns how many sectors were answered and not flushed when
/// the process was killed.
fn run_once(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let geometry = geometry(&mut rng);
    let lba = u64::from(geometry.lba) / 512;
    let mut superblock =
        Superblock::new([7; 16], geometry, Profile::Spec("null".to_owned())).unwrap();
    superblock.log_blocks = 1 + u32::try_from(rng.below(5)).unwrap();
    superblock.checksums = rng.below(4) > 0;
    superblock.preallocated = rng.below(3) == 0;
    let medium = Medium::new(seed);
    ImageDevice::create(&medium, &superblock).unwrap();
    let mut device = open(&medium).unwrap();
    let mut io = channel(&device);
    let mut user = User::new(seed, &device);
    let mut answered = 0;
    for end in 0..6 {
        use_until_off(&mut user, &mut io, &medium, &mut rng, lba);
        drop(io);
        drop(device);
        let killed = rng.below(4) > 0;
        let what =
            format!("seed {seed}, end {end}, {}", if killed { "killed" } else { "no power" });
        if killed {
            medium.kill();
            user.all_is_safe();
        } else {
            medium.lose_power(512, rng.below(5));
        }
        for _ in 0..rng.below(3) {
            medium.set_fuse(1 + rng.below(30));
            drop(open(&medium));
            medium.kill();
        }
        assert_no_damage(&medium, &what);
        let recovered = check(&medium).unwrap().1;
        answered +=
            recovered.answered.iter().map(|(_, data)| (data.end - data.start).0).sum::<u64>();
        device = open(&medium).unwrap_or_else(|error| panic!("{what}: {error}"));
        io = channel(&device);
        user.check(&device, &mut io, &what);
    }
    answered
}

#[test]
fn what_was_answered_survives_every_kill_and_what_was_flushed_every_loss_of_power() {
    let cases = std::env::var("ZONAL_CASES").map_or(CASES, |text| text.parse().unwrap());
    let first = std::env::var("ZONAL_FIRST").map_or(0, |text| text.parse().unwrap());
    let answered: u64 = (first..first + cases).map(run_once).sum();
    assert!(answered > 10 * cases, "{answered} sectors had been answered and not flushed");
}

/// Writes 8 sectors to the end of a zone.
fn write(io: &mut Channel, at: u64, byte: u8) {
    let buf = Buf::from(&[byte; 4096][..]);
    assert_eq!(run(io, Bio::write(Sector(at), buf, 0)), Status::Ok);
}

fn on_zone(io: &mut Channel, op: Op, zone: u64) {
    assert_eq!(run(io, Bio::new(op, Sector(zone * 64), 0, 0)), Status::Ok);
}

fn zones(device: &Arc<ImageDevice>) -> Vec<(ZoneCondition, u64)> {
    let mut zones: Vec<Zone> = Vec::new();
    device.report_zones(ZoneNo(0), 4, &mut zones).unwrap();
    zones.iter().map(|zone| (zone.cond, (zone.wp - zone.start).0)).collect()
}

/// Kills the process that has an image.
fn kill(medium: &Medium, device: Arc<ImageDevice>, io: Channel) {
    medium.set_fuse(0);
    drop((io, device));
    medium.kill();
}

#[test]
fn conditions_that_were_answered_survive_a_kill_and_not_a_loss_of_power() {
    use ZoneCondition::{Closed, Empty, ExplicitOpen, Full};
    let medium = new_image(64);
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    on_zone(&mut io, Op::ZoneOpen, 0);
    on_zone(&mut io, Op::ZoneOpen, 1);
    write(&mut io, 64, 1);
    (128..192).step_by(8).for_each(|at| write(&mut io, at, 2));
    on_zone(&mut io, Op::ZoneOpen, 3);
    write(&mut io, 192, 3);
    on_zone(&mut io, Op::ZoneClose, 3);
    kill(&medium, device, io);
    let device = open(&medium).unwrap();
    let expected = [(ExplicitOpen, 0), (ExplicitOpen, 8), (Full, 64), (Closed, 8)];
    assert_eq!(zones(&device), expected);
    let mut io = channel(&device);
    on_zone(&mut io, Op::ZoneReset, 1);
    on_zone(&mut io, Op::ZoneFinish, 3);
    kill(&medium, device, io);
    let device = open(&medium).unwrap();
    assert_eq!(zones(&device), [(ExplicitOpen, 0), (Empty, 0), (Full, 64), (Full, 64)]);
    let io = channel(&device);
    medium.set_fuse(0);
    drop((io, device));
    medium.lose_power(512, 4);
    assert_eq!(zones(&open(&medium).unwrap())[0], (Empty, 0));
}

#[test]
fn data_of_before_a_reset_do_not_come_back() {
    for preallocated in [false, true] {
        let superblock = check(&new_image(64)).unwrap().0;
        let medium = Medium::new(1);
        ImageDevice::create(&medium, &Superblock { preallocated, ..superblock }).unwrap();
        let device = open(&medium).unwrap();
        let mut io = channel(&device);
        write(&mut io, 0, 1);
        write(&mut io, 8, 1);
        on_zone(&mut io, Op::ZoneReset, 0);
        write(&mut io, 0, 2);
        kill(&medium, device, io);
        assert_eq!(zones(&open(&medium).unwrap())[0], (ZoneCondition::Closed, 8));
    }
}

#[test]
fn each_end_that_was_not_orderly_is_counted_and_losses_of_power_are_told_from_kills() {
    let medium = new_image(64);
    let history = |device: &ImageDevice| {
        let history = device.power_history().expect("it is kept");
        (history.cycles, history.unsafe_shutdowns, history.losses)
    };
    let device = open(&medium).unwrap();
    assert_eq!(history(&device), (1, 0, 0));
    drop(device);
    let device = open(&medium).unwrap();
    assert_eq!(history(&device), (2, 0, 0));
    let io = channel(&device);
    kill(&medium, device, io);
    let device = open(&medium).unwrap();
    assert_eq!(history(&device), (3, 1, 0));
    let mut io = channel(&device);
    write(&mut io, 0, 1);
    medium.set_fuse(0);
    drop((io, device));
    medium.lose_power(512, 0);
    let device = open(&medium).unwrap();
    assert_eq!((history(&device), zones(&device)[0].1), ((4, 2, 1), 0));
}

#[test]
fn data_that_are_missing_though_the_machine_had_its_power_count_as_a_loss_of_power() {
    let medium = new_image(64);
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    write(&mut io, 0, 1);
    write(&mut io, 8, 2);
    kill(&medium, device, io);
    let mut bytes = medium.bytes();
    let at = bytes.windows(4096).rposition(|data| data == [2; 4096]).expect("the second write");
    bytes[at + 100] ^= 1;
    let medium = Medium::of(bytes, 0);
    let findings = check(&medium).unwrap().2;
    let lost = |finding: &Finding| matches!(finding, Finding::Note(text) if text.starts_with("zone 0: data that were answered"));
    assert!(findings.iter().any(lost), "{findings:?}");
    let device = open(&medium).unwrap();
    assert_eq!(zones(&device)[0], (ZoneCondition::Closed, 8), "the end before is still known");
    assert_eq!(device.power_history().unwrap().losses, 1);
}

#[test]
fn blocks_that_were_flushed_are_protected_after_a_kill() {
    for (regular, conventional) in [(true, 1), (false, 2)] {
        let geometry = ImageGeometry::simple(conventional, conventional, Sector(4096));
        let superblock = Superblock::new(
            [7; 16],
            ImageGeometry { regular, ..geometry },
            Profile::Spec("null".to_owned()),
        );
        let medium = Medium::new(1);
        ImageDevice::create(&medium, &superblock.unwrap()).unwrap();
        let device = open(&medium).unwrap();
        let mut io = channel(&device);
        (1..5).for_each(|number| write(&mut io, 80 * u64::from(number), number));
        assert_eq!(run(&mut io, Bio::new(Op::Flush, Sector(0), 0, 0)), Status::Ok);
        kill(&medium, device, io);
        let mut bytes = medium.bytes();
        for number in 1..5_u8 {
            let mut places = (0..=bytes.len() - 4096).step_by(512);
            let at = places.find(|&at| bytes[at..at + 4096] == [number; 4096]).expect("flushed");
            bytes[at + 1000] ^= 4;
        }
        let device = open(&Medium::of(bytes, 0)).unwrap();
        let mut io = channel(&device);
        for number in 1..5 {
            let read = Bio::read(Sector(80 * number), 8, 0);
            assert_eq!(run(&mut io, read), Status::Medium, "block {number}, regular: {regular}");
        }
    }
}
