//! A file that somebody truncates while the image is open.
use crate::medium::Medium;
use crate::model::{channel, new_image, open, run};
use zonal_blk::{Bio, Buf, Channel, Op, Sector, Status};
use zonal_device::image::{
    ImageDevice, ImageGeometry, ImageStore, Profile, ReadAt, Superblock, check,
};

fn write(io: &mut Channel, at: u64) -> Status {
    run(io, Bio::write(Sector(at), Buf::from(&[1; 4096][..]), 0))
}

fn read(io: &mut Channel) -> Status {
    run(io, Bio::read(Sector(0), 8, 0))
}

fn flush(io: &mut Channel) -> Status {
    run(io, Bio::new(Op::Flush, Sector(0), 0, 0))
}

#[test]
fn all_commands_fail_from_the_next_flush_on() {
    let medium = new_image(64);
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!(
        (write(&mut io, 0), write(&mut io, 64), flush(&mut io)),
        (Status::Ok, Status::Ok, Status::Ok)
    );
    medium.truncate(medium.len().unwrap() - 1).unwrap();
    assert_eq!(flush(&mut io), Status::Medium);
    assert_eq!((read(&mut io), write(&mut io, 8)), (Status::Medium, Status::Medium));
    // Even if it has its length again.
    medium.write(medium.len().unwrap(), &[0; 4096]).unwrap();
    assert_eq!(flush(&mut io), Status::Medium);
}

#[test]
fn reads_alone_fail_after_some_time() {
    let medium = new_image(64);
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!((write(&mut io, 0), flush(&mut io)), (Status::Ok, Status::Ok));
    medium.truncate(1 << 20).unwrap();
    assert!((0..2000).any(|_| read(&mut io) == Status::Medium));
    assert_eq!(read(&mut io), Status::Medium);
}

#[test]
fn image_that_was_truncated_says_what_is_whole() {
    let medium = new_image(64);
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!((write(&mut io, 0), write(&mut io, 64)), (Status::Ok, Status::Ok));
    drop((io, device));
    let all = medium.len().unwrap();
    medium.truncate(all - 512).unwrap();
    let error = check(&medium).unwrap_err().to_string();
    let (found, what) = (
        all - 512,
        "the data of zone 1; whole zones with data: 1; data that are there: 7680 bytes",
    );
    assert_eq!(
        error,
        format!("the file is truncated: found {found} bytes, expected at least {all} ({what})")
    );
}

#[test]
fn image_without_zones_that_was_truncated_is_told() {
    let geometry = ImageGeometry { regular: true, ..ImageGeometry::simple(1, 1, Sector(1024)) };
    let superblock = Superblock::new([7; 16], geometry, Profile::Spec("null".to_owned())).unwrap();
    let medium = Medium::new(1);
    ImageDevice::create(&medium, &superblock).unwrap();
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    assert_eq!((write(&mut io, 0), write(&mut io, 800)), (Status::Ok, Status::Ok));
    drop((io, device));
    assert!(check(&medium).is_ok());
    medium.truncate(medium.len().unwrap() - 4096).unwrap();
    let error = check(&medium).unwrap_err().to_string();
    assert!(error.contains("the data of zone 0; whole zones with data: 0;"), "{error}");
    assert!(open(&medium).is_err());
}
