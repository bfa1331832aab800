//! Flushes after each write: the log is written ahead, together with the data.
use crate::medium::Medium;
use crate::model::{channel, complete, new_image, open, run};
use std::sync::Arc;
use zonal_blk::{Bio, Buf, Channel, Op, Sector, Status, ZoneNo};
use zonal_device::image::{
    Finding, ImageDevice, ImageGeometry, Profile, Superblock, check, check_data,
};

const ZONE: u64 = 256;

fn image() -> (Medium, Arc<ImageDevice>, Channel) {
    let medium = new_image(ZONE);
    let device = open(&medium).unwrap();
    let io = channel(&device);
    (medium, device, io)
}

/// The data of a sector: one byte, repeated.
fn write(io: &mut Channel, sector: u64, nr_sectors: usize) -> Status {
    let byte = u8::try_from(1 + sector % 200).unwrap();
    run(io, Bio::write(Sector(sector), Buf::from(&vec![byte; nr_sectors * 512][..]), 0))
}

fn flush(io: &mut Channel) -> Status {
    run(io, Bio::new(Op::Flush, Sector(0), 0, 0))
}

/// Writes of eight sectors, each flushed: from here on the log is written ahead.
fn warm_up(io: &mut Channel) {
    for at in 0..3 {
        assert_eq!((write(io, at * 8, 8), flush(io)), (Status::Ok, Status::Ok));
    }
}

#[test]
fn a_flush_that_was_expected_is_one_sync_and_no_write() {
    let (medium, device, mut io) = image();
    warm_up(&mut io);
    for at in 3..20 {
        assert_eq!(write(&mut io, at * 8, 8), Status::Ok);
        let before = medium.calls();
        assert_eq!(flush(&mut io), Status::Ok);
        let after = medium.calls();
        assert_eq!(
            (after.writes - before.writes, after.syncs - before.syncs),
            (0, 1),
            "write {at}"
        );
    }
    // What is flushed is not what was expected: another zone as well.
    assert_eq!(write(&mut io, 20 * 8, 8), Status::Ok);
    assert_eq!(write(&mut io, ZONE, 8), Status::Ok);
    assert_eq!(flush(&mut io), Status::Ok);
    drop((io, device));
    medium.lose_power(512, 0);
    let device = open(&medium).unwrap();
    assert_eq!(device.zones().write_pointer(ZoneNo(0)), Sector(21 * 8));
    assert_eq!(device.zones().write_pointer(ZoneNo(1)), Sector(ZONE + 8));
}

#[test]
fn data_and_record_may_reach_the_file_in_any_order_or_not() {
    for (keep, sector) in [(0, 512), (1, 512), (2, 4096), (3, 512), (4, 4096)] {
        let (medium, device, mut io) = image();
        warm_up(&mut io);
        assert_eq!(write(&mut io, 24, 8), Status::Ok);
        // The power goes before the flush: the data, their record, both or none may be there.
        medium.set_fuse(0);
        drop((io, device));
        medium.lose_power(sector, keep);
        let device = open(&medium).unwrap();
        let mut io = channel(&device);
        let wp = device.zones().write_pointer(ZoneNo(0));
        assert!([Sector(24), Sector(32)].contains(&wp), "{wp}");
        assert!(keep < 4 || wp == Sector(32), "data and record are there");
        for sector in 0..wp.0 {
            let read = complete(&mut io, Bio::read(Sector(sector), 1, 0));
            assert_eq!(read.status, Status::Ok);
            let expected = u8::try_from(1 + sector / 8 * 8).unwrap();
            let found = read.buf.unwrap();
            assert!(found.iter().all(|&byte| byte == expected), "sector {sector}");
        }
    }
}

#[test]
fn a_record_of_data_that_could_not_be_written_is_withdrawn() {
    let (medium, device, mut io) = image();
    warm_up(&mut io);
    medium.set_full(1);
    assert_eq!(write(&mut io, 24, 8), Status::NoSpace);
    medium.set_full(0);
    assert_eq!(flush(&mut io), Status::Ok);
    medium.set_fuse(0);
    drop((io, device));
    medium.lose_power(512, 0);
    let (_, recovered, _) = check(&medium).unwrap();
    assert_eq!((recovered.batches, recovered.unverified), (3, vec![]));
}

#[test]
fn flushed_data_that_change_before_their_checksums_are_in_the_file_are_found() {
    let (medium, device, mut io) = image();
    warm_up(&mut io);
    medium.set_fuse(0);
    drop((io, device));
    medium.lose_power(512, 0);
    for damage in [0, 0x77] {
        let mut bytes = medium.bytes();
        let start = bytes.chunks(512).position(|sector| *sector == [9; 512]).unwrap() * 512;
        bytes[start..start + 512].fill(damage);
        let medium = Medium::of(bytes, 1);
        let damage = |medium: &Medium| {
            let (superblock, recovered, mut findings) = check(medium).unwrap();
            findings.extend(check_data(medium, &superblock, &recovered, &mut |_| ()).unwrap());
            findings.retain(|found| matches!(found, Finding::Damage(_)));
            findings
        };
        let found = damage(&medium);
        let expected = "zone 0: data of sectors 8 to 15 are not those that were flushed";
        assert!(found.contains(&Finding::Damage(expected.to_owned())), "{found:?}");
        let device = open(&medium).unwrap();
        let mut io = channel(&device);
        assert_eq!(run(&mut io, Bio::read(Sector(8), 1, 0)), Status::Medium);
        assert_eq!(run(&mut io, Bio::read(Sector(0), 8, 0)), Status::Ok);
        assert_eq!(run(&mut io, Bio::read(Sector(16), 8, 0)), Status::Ok);
        drop((io, device));
        assert!(!damage(&medium).is_empty(), "it stays damaged");
    }
}

#[test]
fn start_reads_no_more_data_than_a_batch_and_a_log_may_cover() {
    // In MiB: data of a flush, one to a zone; data of all flushes; at most read again, first to verify
    // them and then for their checksums.
    for (flush_of, all, most) in [(1, 140, 2 * 128), (4, 8, 2 * 8), (8, 8, 0)] {
        let geometry = ImageGeometry::simple(8, 0, Sector(160 << 11));
        let superblock =
            Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned())).unwrap();
        let medium = Medium::new(1);
        ImageDevice::create(&medium, &superblock).unwrap();
        let device = open(&medium).unwrap();
        let mut io = channel(&device);
        for round in 0..all / flush_of {
            for zone in 0..flush_of {
                assert_eq!(write(&mut io, (zone * 160 + round) << 11, 1 << 20 >> 9), Status::Ok);
            }
            assert_eq!(flush(&mut io), Status::Ok);
        }
        medium.set_fuse(0);
        drop((io, device));
        medium.lose_power(4096, 0);
        let before = medium.calls().read;
        drop(open(&medium).unwrap());
        let read = (medium.calls().read - before) >> 20;
        assert!(read <= most + 8, "{read} MiB of {all}, flushed {flush_of} at a time");
    }
}
