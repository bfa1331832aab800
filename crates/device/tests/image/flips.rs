//! Each structure of each kind of image with a bit turned: `check` finds it, or what the image means is the same.
use crate::kept;
use crate::medium::Medium;
use crate::model::{channel, open, run};
use std::collections::BTreeSet;
use std::sync::Arc;
use zonal_blk::{Bio, Buf, Channel, Op, Sector, Status};
use zonal_device::image::{
    Finding, ImageDevice, ImageGeometry, Profile, Superblock, check, check_data,
};
use zonal_device::rng::Rng;

/// Bits that are turned in each block, and blocks in a row of a kind in which they are.
const BITS: u64 = 12;
const BLOCKS: usize = 3;

fn flush(io: &mut Channel) {
    assert_eq!(run(io, Bio::new(Op::Flush, Sector(0), 0, 0)), Status::Ok);
}

/// An image with data that were flushed; closed, or its process killed.
fn used(superblock: &Superblock, closed: bool) -> Medium {
    let medium = Medium::new(1);
    ImageDevice::create(&medium, superblock).unwrap();
    let device = open(&medium).unwrap();
    let mut io = channel(&device);
    for zone in 0..u64::from(superblock.geometry.zones) {
        for at in 0..3 {
            let sector = Sector(zone * 64 + 8 * at);
            let buf = Buf::from(&[u8::try_from(8 * zone + at + 1).unwrap(); 4096][..]);
            assert_eq!(run(&mut io, Bio::write(sector, buf, 0)), Status::Ok);
        }
        flush(&mut io);
    }
    end(&medium, device, io, closed);
    medium
}

fn end(medium: &Medium, device: Arc<ImageDevice>, io: Channel, closed: bool) {
    if !closed {
        medium.set_fuse(0);
    }
    drop((io, device));
    medium.kill();
}

/// What an image means, and whether a check finds damage.
fn meaning(medium: &Medium) -> Result<(String, bool), String> {
    let (superblock, recovered, mut findings) = check(medium).map_err(|error| error.to_string())?;
    findings.extend(check_data(medium, &superblock, &recovered, &mut |_| ()).unwrap());
    let damaged = findings.iter().any(|finding| matches!(finding, Finding::Damage(_)));
    let notes: Vec<&Finding> =
        findings.iter().filter(|finding| matches!(finding, Finding::Note(_))).collect();
    let lists = (recovered.overwritten(), &recovered.answered, &recovered.missing);
    Ok((format!("{superblock:?} {:?} {lists:?} {notes:?}", recovered.zones), damaged))
}

/// Turns bits in each block of an image up to byte `end` that has contents. `state`: what else it means.
fn turn_bits(what: &str, medium: &Medium, end: usize, state: impl Fn(Medium) -> String) {
    let bytes = medium.bytes();
    let (expected, damaged) = meaning(medium).unwrap();
    assert!(!damaged, "{what}");
    let expected_state = state(Medium::of(&bytes, 0));
    let mut rng = Rng::new(7);
    let mut found = BTreeSet::new();
    let mut in_row = (String::new(), 0);
    for at in (0..bytes.len().min(end)).step_by(4096) {
        let block = &bytes[at..(at + 4096).min(bytes.len())];
        if block.iter().all(|&byte| byte == 0) {
            continue;
        }
        let kind = String::from_utf8_lossy(&block[..4]).into_owned();
        in_row = if in_row.0 == kind { (kind.clone(), in_row.1 + 1) } else { (kind.clone(), 1) };
        if in_row.1 > BLOCKS && end < usize::MAX {
            continue;
        }
        // The state of a drive takes long to open.
        let bits = if bytes.len() > 8 << 20 { 2 } else { BITS };
        for number in 0..bits {
            // Half of them in the header.
            let offset = rng.below([64, 4096][usize::from(number % 2 == 1)]);
            let (place, bit) = (at + usize::try_from(offset).unwrap(), 1 << rng.below(8));
            medium.turn(place, bit);
            match meaning(medium) {
                Ok((_, true)) | Err(_) => drop(found.insert(kind.clone())),
                Ok((same, false)) => {
                    assert_eq!(same, expected, "{what}: {kind} at byte {place}");
                    let state = state(Medium::of(medium.bytes(), 0));
                    assert_eq!(state, expected_state, "{what}: {kind} at byte {place}");
                }
            }
            medium.turn(place, bit);
        }
    }
    for kind in ["ZONA", "ZNLR", "ZNLT", "ZNLS"] {
        assert!(found.contains(kind), "{what}: damage was found in {found:?} only");
    }
}

#[test]
fn a_turned_bit_is_found_or_changes_nothing() {
    let simple = ImageGeometry::simple(4, 1, Sector(64));
    let kinds = [
        ("zones", simple.clone(), true),
        (
            "without zones",
            ImageGeometry { regular: true, ..ImageGeometry::simple(1, 1, Sector(256)) },
            true,
        ),
        ("no checksums", simple, false),
    ];
    for (name, geometry, checksums) in kinds {
        let superblock =
            Superblock::new([9; 16], geometry, Profile::Spec("null".to_owned())).unwrap();
        let superblock = Superblock { checksums, log_blocks: 8, ..superblock };
        for closed in [true, false] {
            let medium = used(&superblock, closed);
            // Nothing protects data without checksums; those of the last flush count as not flushed.
            let all = closed && checksums;
            let end = if all { usize::MAX } else { data_begin(&medium) };
            turn_bits(&format!("{name}, closed: {closed}"), &medium, end, |_| String::new());
        }
    }
}

/// Where the data of an image begin.
fn data_begin(medium: &Medium) -> usize {
    usize::try_from(u64::from_le_bytes(medium.bytes()[104..112].try_into().unwrap())).unwrap()
}

#[test]
fn a_turned_bit_in_the_state_of_a_drive_is_found_or_changes_nothing() {
    for closed in [true, false] {
        let medium = kept::new_image(5);
        let device = kept::open(&medium);
        let mut io = channel(&device);
        for page in 0..60 {
            assert_eq!(run(&mut io, kept::write(page * 7, page + 1)), Status::Ok);
            flush(&mut io);
        }
        end(&medium, device, io, closed);
        let state = |medium: Medium| format!("{:?}", kept::stats(&kept::open(&medium)));
        let end = data_begin(&medium);
        turn_bits(&format!("drive, closed: {closed}"), &medium, end, state);
    }
}

#[test]
fn damage_to_both_copies_of_a_flushed_block_of_the_drives_log_is_told_when_it_is_opened() {
    let medium = kept::new_image(5);
    let device = kept::open(&medium);
    let mut io = channel(&device);
    for page in 0..60 {
        assert_eq!(run(&mut io, kept::write(page, page + 1)), Status::Ok);
        flush(&mut io);
    }
    end(&medium, device, io, false);
    let bytes = medium.bytes();
    let blocks = (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(b"ZNLO"));
    let first: Vec<usize> = blocks.take(2).collect();
    first.iter().for_each(|at| medium.turn(at + 70, 1));
    let findings = check(&medium).unwrap().2;
    let told = "the state of the drive is damaged: block 0 of its log is damaged, at byte";
    let is_told =
        |finding: &Finding| matches!(finding, Finding::Damage(text) if text.starts_with(told));
    assert!(findings.iter().any(is_told), "{findings:?}");
    let device = kept::open(&medium);
    let why = device.state_damage().expect("it is damaged");
    assert!(why.starts_with("block 0 of its log is damaged"), "{why}");
}
