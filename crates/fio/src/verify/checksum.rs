//! Checksums, as fio 3.33 stores them.
//!
//! Takes bytes; gives the bytes that stand after the header. Found out by reading what fio wrote:
//! its CRCs start and end without the usual complement, `crc32` is not reflected, and `md5` is
//! MD5. What fio stores for `sha256` is not the SHA-256 of the data; here it is.
use md5::{Digest, Md5};
use sha2::Sha256;

/// A checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// MD5 (RFC 1321).
    Md5,
    /// The polynomial of IEEE 802.3.
    Crc32,
    /// Castagnoli's polynomial.
    Crc32c,
    /// SHA-256 (FIPS 180-4).
    Sha256,
}

/// The polynomial of IEEE 802.3, highest bit first, from 0.
const CRC_32_FIO: crc::Algorithm<u32> = crc::Algorithm {
    width: 32,
    poly: 0x04c1_1db7,
    init: 0,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0x89a1_897f,
    residue: 0,
};
const CRC_32: crc::Crc<u32> = crc::Crc::<u32>::new(&CRC_32_FIO);

/// CRC-32C from all ones, without the complement at the end.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    !::crc32c::crc32c(data)
}

impl Checksum {
    /// fio's name.
    pub const fn name(self) -> &'static str {
        match self {
            Checksum::Md5 => "md5",
            Checksum::Crc32 => "crc32",
            Checksum::Crc32c => "crc32c",
            Checksum::Sha256 => "sha256",
        }
    }

    /// Bytes that it takes.
    pub(super) const fn len(self) -> usize {
        match self {
            Checksum::Md5 => 16,
            Checksum::Crc32 | Checksum::Crc32c => 4,
            Checksum::Sha256 => 32,
        }
    }

    /// The checksum of `data`: the first [`Checksum::len`] bytes.
    pub(super) fn of(self, data: &[u8]) -> [u8; 32] {
        let mut sum = [0; 32];
        match self {
            Checksum::Md5 => sum[..16].copy_from_slice(&Md5::digest(data)),
            Checksum::Crc32 => sum[..4].copy_from_slice(&CRC_32.checksum(data).to_le_bytes()),
            Checksum::Crc32c => sum[..4].copy_from_slice(&crc32c(data).to_le_bytes()),
            Checksum::Sha256 => sum.copy_from_slice(&Sha256::digest(data)),
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(sum: Checksum, data: &[u8]) -> String {
        sum.of(data)[..sum.len()].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn checksums_are_those_that_fio_stores() {
        // 4052 bytes of 1 after a header of 44, as written by fio 3.33 with verify_pattern=0x01.
        let data = [1; 4096 - 44];
        assert_eq!(hex(Checksum::Crc32c, &data), "542d0e5c");
        assert_eq!(hex(Checksum::Crc32, &data), "6f5b58ab");
        assert_eq!(hex(Checksum::Md5, &[1; 4096 - 56]), "31931e07b1634d5100568b354683ed79");
    }

    #[test]
    fn sha256_is_the_standards() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(Checksum::Sha256, b"abc"), expected);
    }
}
