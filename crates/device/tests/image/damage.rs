//! Damaged metadata: any flipped bit is recovered from the twin of its block, or reported.
use crate::medium::Medium;
use crate::model::{User, channel, open};
use proptest::prelude::*;
use std::sync::OnceLock;
use zonal_blk::Sector;
use zonal_device::image::{
    ImageDevice, ImageError, ImageGeometry, Profile, Superblock, ZoneEntry, check, check_data,
    read_superblock, recover,
};

fn superblock() -> Superblock {
    let geometry = ImageGeometry { max_sectors: 16, ..ImageGeometry::simple(130, 1, Sector(16)) };
    let mut superblock =
        Superblock::new([9; 16], geometry, Profile::Spec("null".to_owned())).unwrap();
    superblock.log_blocks = 4;
    superblock
}

/// Metadata blocks: superblocks, roots, two halves of two table blocks and four log blocks twice, two
/// lists of regions twice.
const METADATA: usize = (4 + 2 * 2 * (2 + 4) + 4) * 4096;

/// An image that was in use when its power went, with some batches in its log.
fn used() -> &'static (Vec<u8>, Vec<ZoneEntry>) {
    static USED: OnceLock<(Vec<u8>, Vec<ZoneEntry>)> = OnceLock::new();
    USED.get_or_init(|| {
        for seed in 0.. {
            let medium = Medium::new(seed);
            ImageDevice::create(&medium, &superblock()).unwrap();
            let device = open(&medium).unwrap();
            let mut io = channel(&device);
            let mut user = User::new(seed, &device);
            medium.set_fuse(60);
            while !medium.is_off() {
                user.submit(&mut io, 1);
                user.poll(&mut io, &medium);
            }
            while io.outstanding() > 0 {
                user.poll(&mut io, &medium);
            }
            drop(io);
            drop(device);
            medium.lose_power(512, 4);
            let bytes = medium.bytes();
            let recovered = recover(&Medium::of(bytes.clone(), 0), &superblock()).unwrap();
            let has_data = recovered.zones.iter().any(|zone| zone.written > Sector(0));
            let rooted = recovered.root == recovered.generation;
            if recovered.batches >= 2 && recovered.generation >= 2 && rooted && has_data {
                return (bytes, recovered.zones);
            }
        }
        unreachable!("a run leaves batches in the log")
    })
}

/// The content is found as it is, or there is an error.
fn same_or_error(bytes: Vec<u8>) -> Result<(), ImageError> {
    let medium = Medium::of(bytes, 0);
    let (superblock, recovered, _) = check(&medium)?;
    assert_eq!(superblock, self::superblock());
    assert_eq!(recovered.zones, used().1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_turned_bit_is_made_good_by_the_twin(at in 0..METADATA, bit in 0..8_u32) {
        let mut bytes = used().0.clone();
        bytes[at] ^= 1 << bit;
        prop_assert!(same_or_error(bytes).is_ok(), "byte {at}");
    }

    #[test]
    fn bytes_that_change_are_made_good_or_told(
        changes in prop::collection::vec((0..METADATA, any::<u8>()), 1..40)
    ) {
        let mut bytes = used().0.clone();
        changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
        // Never a panic; never other zones, unless the end of the log went in both copies.
        let medium = Medium::of(bytes, 0);
        if let Ok((superblock, _, _)) = check(&medium) {
            prop_assert_eq!(superblock, self::superblock());
        }
    }

    #[test]
    fn changes_with_right_checksums_are_read_or_refused(
        changes in prop::collection::vec((0..METADATA, any::<u8>()), 1..40)
    ) {
        let mut bytes = used().0.clone();
        changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
        for block in bytes[..METADATA].chunks_exact_mut(4096) {
            let at = if block.starts_with(b"ZONALIMG") { 12 } else { 4 };
            block[at..at + 4].fill(0);
            let crc = crc_fast::crc32_iscsi(block);
            block[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
        let medium = Medium::of(bytes, 0);
        if let Ok((superblock, recovered, _)) = check(&medium)
            && superblock.geometry.zone_size < Sector(1 << 16)
        {
            let _findings = check_data(&medium, &superblock, &recovered, &mut |_| ());
            let _either = open(&medium).map_err(|error| error.to_string());
        }
    }

    #[test]
    fn any_superblock_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..8192)) {
        let _either = read_superblock(&Medium::of(&bytes, 0)).map_err(|e| e.to_string());
        let mut block = superblock().encode();
        let len = bytes.len().min(4096);
        block[..len].iter_mut().zip(&bytes).for_each(|(to, from)| *to ^= from & 1);
        let _either = Superblock::decode(&block);
    }
}

/// Turns a bit in both copies of a block.
fn both(bytes: &mut [u8], first: usize) {
    bytes[first + 100] ^= 1;
    bytes[first + 4096 + 100] ^= 1;
}

#[test]
fn what_is_lost_in_both_copies_is_told_exactly() {
    let told = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = used().0.clone();
        change(&mut bytes);
        same_or_error(bytes).expect_err("it is damaged").to_string()
    };
    assert!(told(&|bytes| both(bytes, 0)).starts_with("both copies of the superblock are damaged"));
    assert!(told(&|bytes| bytes.fill(0)).starts_with("not an image"));
    let roots = told(&|bytes| both(bytes, 2 * 4096));
    assert!(roots.starts_with("both copies of the root are damaged, at bytes 8192 and 12288"));
    let cut = told(&|bytes| bytes.truncate(100_000));
    assert_eq!(
        cut,
        "the file is truncated: found 100000 bytes, expected at least 1048576 (the metadata)"
    );
    let generation = recover(&Medium::of(&used().0, 0), &superblock()).unwrap().generation as usize;
    let half = (4 + generation % 2 * 12) * 4096;
    let table = told(&|bytes| both(bytes, half));
    let expected = format!("both copies of zone table block 0 of generation {generation}");
    assert!(table.starts_with(&expected), "{table}");
    let log = told(&|bytes| both(bytes, half + 4 * 4096));
    let expected = format!("both copies of log block 0 of generation {generation}");
    assert!(log.starts_with(&expected), "{log}");
    let data = told(&|bytes| bytes.truncate(1 << 20));
    assert!(data.contains("the data of zone"), "{data}");
}

#[test]
fn a_log_too_long_to_be_read_at_once_is_refused() {
    let mut long = superblock();
    long.log_blocks = 4096;
    assert_eq!(Superblock::decode(&long.encode()).unwrap(), long);
    long.log_blocks = 4097;
    let error = Superblock::decode(&long.encode()).unwrap_err().to_string();
    assert_eq!(error, "found a log length that makes no sense");
}

/// Corrects the checksum of a superblock.
fn seal(block: &mut [u8]) {
    block[12..16].fill(0);
    let crc = crc_fast::crc32_iscsi(block);
    block[12..16].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let newer = |block: &mut [u8]| {
        block[8] = 5;
        seal(block);
    };
    let mut bytes = used().0.clone();
    newer(&mut bytes[..4096]);
    newer(&mut bytes[4096..8192]);
    let error = same_or_error(bytes).unwrap_err().to_string();
    assert_eq!(error, "found format version 5, expected 1 to 4");
    let mut block = superblock().encode();
    block[85] = 1;
    seal(&mut block);
    let error = Superblock::decode(&block).unwrap_err().to_string();
    assert_eq!(error, "found features 0x100 that this version of zonal does not know");
}

#[test]
fn a_file_whose_creation_was_interrupted_is_recognised() {
    let full = Superblock { preallocated: true, ..superblock() };
    let mut created = false;
    for fuse in 1.. {
        let medium = Medium::new(fuse);
        ImageDevice::begin_creation(&medium).unwrap();
        medium.set_fuse(fuse);
        created = ImageDevice::create(&medium, &full).is_ok();
        let medium = Medium::of(medium.bytes(), 0);
        if created {
            assert_eq!(read_superblock(&medium).unwrap(), (full, Vec::new()));
            break;
        }
        match read_superblock(&medium) {
            Err(ImageError::Unfinished) => {}
            // The call that failed was the second copy's, or the last sync.
            found => assert_eq!(found.unwrap().0, full, "after {fuse} calls"),
        }
    }
    assert!(created);
}
