//! Commands that fail, for want of space or because of their zone: the image stays intact.
use crate::medium::Medium;
use crate::model::{channel, complete, new_image, open, run};
use std::sync::Arc;
use zonal_blk::{
    Bio, Buf, Channel, Completion, Op, Queue, QueueOptions, Sector, Status, ZoneCondition, ZoneNo,
    ZoneWrite,
};

fn medium() -> Medium {
    new_image(64)
}

fn write(io: &mut Channel, sector: u64, nr_sectors: usize) -> Status {
    run(io, Bio::write(Sector(sector), Buf::from(&vec![7; nr_sectors * 512][..]), 0))
}

#[test]
fn a_write_without_space_fails_and_moves_no_write_pointer() {
    let medium = medium();
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!(write(&mut io, 0, 8), Status::Ok);
    medium.set_full(1);
    assert_eq!(write(&mut io, 8, 8), Status::NoSpace);
    assert_eq!(device.zones().write_pointer(ZoneNo(0)), Sector(8));
    assert_eq!(write(&mut io, 64, 8), Status::NoSpace);
    assert_eq!(device.zones().condition(ZoneNo(1)), ZoneCondition::Empty);
    assert_eq!(run(&mut io, Bio::new(Op::Flush, Sector(0), 0, 0)), Status::Ok);
    medium.set_full(0);
    assert_eq!(write(&mut io, 8, 8), Status::Ok, "there is space again");
    assert_eq!(write(&mut io, 64, 64), Status::Ok);
    assert_eq!(run(&mut io, Bio::new(Op::ZoneReset, Sector(64), 0, 0)), Status::Ok);
    drop(io);
    drop(device);
    medium.lose_power(512, 0);
    let device = open(&medium).unwrap();
    assert_eq!(device.zones().write_pointer(ZoneNo(0)), Sector(16));
    assert_eq!(device.zones().condition(ZoneNo(1)), ZoneCondition::Empty);
}

#[test]
fn a_write_that_would_have_filled_its_zone_leaves_it_full() {
    let medium = medium();
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!(write(&mut io, 0, 32), Status::Ok);
    medium.set_full(1);
    assert_eq!(write(&mut io, 32, 32), Status::NoSpace);
    assert_eq!(device.zones().condition(ZoneNo(0)), ZoneCondition::Full);
    medium.set_full(0);
    assert_eq!(run(&mut io, Bio::new(Op::ZoneReset, Sector(0), 0, 0)), Status::Ok);
    assert_eq!(write(&mut io, 0, 64), Status::Ok);
}

#[test]
fn when_the_metadata_cannot_be_written_everything_that_promises_fails() {
    let medium = medium();
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!(write(&mut io, 0, 8), Status::Ok);
    medium.set_fuse(0);
    for _ in 0..2 {
        assert_eq!(run(&mut io, Bio::new(Op::Flush, Sector(0), 0, 0)), Status::IoError);
    }
    medium.set_fuse(u64::MAX);
    assert_eq!(write(&mut io, 8, 8), Status::IoError);
    assert_eq!(run(&mut io, Bio::new(Op::ZoneReset, Sector(0), 0, 0)), Status::IoError);
    drop(io);
    drop(device);
    assert!(open(&medium).is_ok(), "opened again, it is as after a loss of power");
}

#[test]
fn a_command_that_its_zone_does_not_allow_is_refused_and_one_that_the_file_fails_is_not() {
    let medium = medium();
    let device = open(&medium).unwrap();
    let options = QueueOptions { zone_write: Some(ZoneWrite::Off), ..QueueOptions::default() };
    let mut io = Queue::attach(Arc::clone(&device) as _, options).unwrap().channel().unwrap();
    let write = |sector| Bio::write(Sector(sector), Buf::zeroed(4096), 0);
    let mut refused = |bio| {
        let Completion { status, refused, .. } = complete(&mut io, bio);
        (status, refused)
    };
    assert_eq!(refused(write(0)), (Status::Ok, false));
    assert_eq!(refused(write(16)), (Status::IoError, true), "not at the write pointer");
    medium.set_full(1);
    assert_eq!(refused(write(8)), (Status::NoSpace, false));
    medium.set_full(0);
    assert_eq!(refused(Bio::new(Op::ZoneFinish, Sector(64), 0, 0)), (Status::Ok, false));
    assert_eq!(refused(Bio::new(Op::ZoneOpen, Sector(64), 0, 0)), (Status::IoError, true));
    device.zones().set_condition(ZoneNo(2), ZoneCondition::Offline, || ()).unwrap();
    assert_eq!(refused(Bio::read(Sector(128), 8, 0)), (Status::Offline, true));
    medium.set_fuse(0);
    assert_eq!(refused(Bio::new(Op::ZoneReset, Sector(0), 0, 0)), (Status::IoError, false));
}
