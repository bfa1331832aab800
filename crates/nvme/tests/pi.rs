//! Protection information: generated tuples match, damaged blocks do not.
use proptest::prelude::*;
use zerocopy::IntoBytes;
use zonal_nvme::NvmeStatus;
use zonal_nvme::pi::{Format, PiError, PiField, PiType, Tags};
use zonal_nvme::wire::io::control;

const ALL: u16 = control::CHECK_GUARD | control::CHECK_APPLICATION | control::CHECK_REFERENCE;
const TAGS: Tags = Tags { reference: 0xffff_fffe, application: 0x1234, application_mask: 0xfff0 };

fn format(kind: PiType, metadata: usize, first: bool) -> Format {
    Format { block: 512, metadata, kind, first }
}

#[test]
fn guard_is_the_t10_dif_crc() {
    // The check value of the catalogue of CRCs: "123456789" gives D0DBh.
    let format = Format { block: 9, ..format(PiType::Type1, 8, false) };
    let mut metadata = [0; 8];
    format.generate(Tags { reference: 7, ..TAGS }, b"123456789", &mut metadata);
    assert_eq!(metadata, [0xd0, 0xdb, 0x12, 0x34, 0, 0, 0, 7]);
}

#[test]
fn reference_tag_counts_up_and_wraps_but_not_in_type_3() {
    let tags_of = |kind| {
        let mut metadata = vec![0; 3 * 8];
        format(kind, 8, false).generate(TAGS, &[0; 3 * 512], &mut metadata);
        metadata.chunks(8).map(|m| u32::from_be_bytes([m[4], m[5], m[6], m[7]])).collect::<Vec<_>>()
    };
    assert_eq!(tags_of(PiType::Type1), [0xffff_fffe, 0xffff_ffff, 0]);
    assert_eq!(tags_of(PiType::Type2), [0xffff_fffe, 0xffff_ffff, 0]);
    assert_eq!(tags_of(PiType::Type3), [0xffff_fffe; 3]);
}

#[test]
fn each_field_is_checked_if_requested() {
    let data = [3; 512];
    // Byte of the tuple that is damaged, the check that finds it, what it says.
    for (at, check, field, status) in [
        (0, control::CHECK_GUARD, PiField::Guard, NvmeStatus::GUARD_CHECK),
        (2, control::CHECK_APPLICATION, PiField::Application, NvmeStatus::APPLICATION_CHECK),
        (7, control::CHECK_REFERENCE, PiField::Reference, NvmeStatus::REFERENCE_CHECK),
    ] {
        for (kind, first) in [(PiType::Type1, false), (PiType::Type2, true), (PiType::Type3, true)]
        {
            let format = format(kind, 16, first);
            let mut metadata = [9; 16];
            format.generate(TAGS, &data, &mut metadata);
            metadata[at + if first { 0 } else { 8 }] ^= 0x40;
            let found = format.check(TAGS, check, &data, &metadata);
            if kind == PiType::Type3 && field == PiField::Reference {
                assert_eq!(found, Ok(()), "type 3 has no reference to compare with");
                continue;
            }
            let error = found.expect_err("damage is found");
            assert_eq!((error.field, error.block, error.status()), (field, 0, status));
            assert_eq!(format.check(TAGS, ALL & !check, &data, &metadata), Ok(()), "not asked for");
        }
    }
}

#[test]
fn guard_covers_metadata_before_the_tuple_only() {
    for (first, covered) in [(true, false), (false, true)] {
        let format = format(PiType::Type1, 16, first);
        let mut metadata = [0; 16];
        format.generate(TAGS, &[0; 512], &mut metadata);
        metadata[if first { 15 } else { 0 }] ^= 1;
        let holds = format.check(TAGS, ALL, &[0; 512], &metadata).is_ok();
        assert_eq!(holds, !covered);
    }
}

#[test]
fn application_tag_ffff_turns_checks_off() {
    let escape = Tags { application: u16::MAX, ..TAGS };
    let mut metadata = [0; 8];
    for (kind, reference, escapes) in [
        (PiType::Type1, 0, true),
        (PiType::Type2, 0, true),
        (PiType::Type3, 0, false),
        (PiType::Type3, u32::MAX, true),
    ] {
        let format = format(kind, 8, false);
        format.generate(Tags { reference, ..escape }, &[0; 512], &mut metadata);
        let found = format.check(TAGS, ALL, &[1; 512], &metadata);
        assert_eq!(found.is_ok(), escapes, "{kind:?} {reference:#x}");
    }
}

#[test]
fn error_names_block_and_values() {
    let format = format(PiType::Type1, 8, false);
    let mut metadata = [0; 16];
    format.generate(TAGS, &[0; 1024], &mut metadata);
    metadata[15] = 0;
    let error = format.check(TAGS, ALL, &[0; 1024], &metadata).unwrap_err();
    let expected =
        PiError { block: 1, field: PiField::Reference, found: 0xffff_ff00, expected: 0xffff_ffff };
    assert_eq!(error, expected);
    assert_eq!(error.to_string(), "block 1: Reference is 0xffffff00, expected 0xffffffff");
}

proptest! {
    #[test]
    fn generated_tuples_match_and_detect_any_flipped_bit(
        kind in prop::sample::select(vec![PiType::Type1, PiType::Type2, PiType::Type3]),
        extra in 0usize..24,
        first: bool,
        seed in prop::collection::vec(any::<u8>(), 512..=512),
        reference: u32,
        application in 0u16..0xffff,
        flip in 0usize..3 * 512 * 8,
    ) {
        let format = format(kind, 8 + extra, first);
        let tags = Tags { reference, application, application_mask: u16::MAX };
        let mut data = seed.repeat(3);
        let mut metadata = vec![0x5a; 3 * format.metadata];
        format.generate(tags, &data, &mut metadata);
        prop_assert_eq!(format.check(tags, ALL, &data, &metadata), Ok(()));

        let mut interleaved = Vec::new();
        for (data, metadata) in data.chunks(512).zip(metadata.chunks(format.metadata)) {
            interleaved.extend_from_slice(data.as_bytes());
            interleaved.extend_from_slice(metadata);
        }
        prop_assert_eq!(format.check_interleaved(tags, ALL, &interleaved), Ok(()));
        let before = interleaved.clone();
        format.generate_interleaved(tags, &mut interleaved);
        prop_assert_eq!(&before, &interleaved);

        data[flip / 8] ^= 1 << (flip % 8);
        let error = format.check(tags, ALL, &data, &metadata).unwrap_err();
        prop_assert_eq!((error.field, error.block), (PiField::Guard, flip / 8 / 512));
    }
}
