//! The digest of headers and data, CRC-32C (TCP section 3.3), by the carry-less multiplication of
//! the processor where it has one: twice as fast as its CRC instruction alone.
use crc_fast::{CrcAlgorithm, Digest};

/// The digest of `bytes`.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The digest of the bytes that `digest` is of, 0 for none, with `bytes` after them.
pub(super) fn append(digest: u32, bytes: &[u8]) -> u32 {
    let mut state = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!digest));
    state.update(bytes);
    u32::try_from(state.finalize()).expect("a CRC of 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn digest_of_the_example_of_the_specification_of_iscsi() {
        // RFC 3720, section B.4: 32 bytes of zeroes, and of ones.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    proptest! {
        /// Whatever the lengths, and wherever the bytes are divided.
        #[test]
        fn digest_in_pieces_is_that_of_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
            cuts in prop::collection::vec(0_usize..3000, 0..4),
        ) {
            let expected = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(&bytes);
            prop_assert_eq!(crc32c(&bytes), expected);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
            prop_assert_eq!(pieces.fold(0, append), expected);
        }
    }
}
