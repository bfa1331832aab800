//! The header of a verified block, as fio 3.33 writes it: 40 bytes, little-endian.
//!
//! ```text
//!   0 magic 0xacca       2 verify type        4 length          8 rand_seed
//!  16 offset            24 seconds           28 nanoseconds    32 thread
//!  34 number of the write, its lower half    36 CRC-32C of the bytes before
//! ```
//!
//! It is followed by the checksum of the data after that. The layout was determined from files
//! written by fio. Its CRCs start from all ones or zeros and lack the usual complement at the end,
//! and `crc32` is not reflected. What fio stores for `sha256` is not the SHA-256 of the data; here it
//! is.
use crate::job::{Checksum, VerifyMethod};
use md5::{Digest, Md5};
use sha2::Sha256;
use zonal_blk::Nanos;

/// Length of a header without checksum, in bytes.
pub const HEADER_LEN: usize = 40;
pub(super) const MAGIC: u16 = 0xacca;
const CRC_AT: usize = 36;

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub magic: u16,
    pub kind: u16,
    pub len: u32,
    pub seed: u64,
    pub offset: u64,
    pub time: Nanos,
    pub thread: u16,
    pub number: u16,
}

/// fio's number of a verify type that has a header.
pub(super) fn kind_of(method: VerifyMethod) -> u16 {
    match method {
        VerifyMethod::Checksum(Checksum::Md5) => 2,
        VerifyMethod::Checksum(Checksum::Crc32) => 4,
        VerifyMethod::Checksum(Checksum::Crc32c) => 5,
        VerifyMethod::Checksum(Checksum::Sha256) => 9,
        _ => 1,
    }
}

const SECOND: u64 = 1_000_000_000;

impl Header {
    pub fn write(&self, to: &mut [u8]) {
        let low = |value: u64| u32::try_from(value & u64::from(u32::MAX)).expect("32 bits");
        to[0..2].copy_from_slice(&self.magic.to_le_bytes());
        to[2..4].copy_from_slice(&self.kind.to_le_bytes());
        to[4..8].copy_from_slice(&self.len.to_le_bytes());
        to[8..16].copy_from_slice(&self.seed.to_le_bytes());
        to[16..24].copy_from_slice(&self.offset.to_le_bytes());
        to[24..28].copy_from_slice(&low(self.time.0 / SECOND).to_le_bytes());
        to[28..32].copy_from_slice(&low(self.time.0 % SECOND).to_le_bytes());
        to[32..34].copy_from_slice(&self.thread.to_le_bytes());
        to[34..36].copy_from_slice(&self.number.to_le_bytes());
        let crc = crc32c(&to[..CRC_AT]);
        to[CRC_AT..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header; also returns the stored CRC and the calculated one.
    pub fn read(from: &[u8]) -> (Self, [u32; 2]) {
        let u16_at = |at: usize| u16::from_le_bytes([from[at], from[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes(from[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(from[at..at + 8].try_into().expect("8 bytes"));
        let header = Header {
            magic: u16_at(0),
            kind: u16_at(2),
            len: u32_at(4),
            seed: u64_at(8),
            offset: u64_at(16),
            time: Nanos(u64::from(u32_at(24)) * SECOND + u64::from(u32_at(28))),
            thread: u16_at(32),
            number: u16_at(34),
        };
        (header, [u32_at(CRC_AT), crc32c(&from[..CRC_AT])])
    }
}

/// The first 44 bytes of block 1 of a file by fio 3.33: verify=crc32c, verify_pattern=0xdeadbeef.
#[cfg(test)]
pub(super) const FIO: [u8; 44] = [
    0xca, 0xac, 5, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0x9d, 0x6c, 0x25, 0x07, 1, 0, 1, 0, 0xd5, 0xde, 0x3b, 0x97, 0xc1, 0x0d, 0xd6, 0x1a,
];

/// CRC-32 with the polynomial of IEEE 802.3, not reflected, from 0.
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
fn crc32c(data: &[u8]) -> u32 {
    !::crc32c::crc32c(data)
}

impl Checksum {
    /// Length in bytes.
    pub(super) const fn len(self) -> usize {
        match self {
            Checksum::Md5 => 16,
            Checksum::Crc32 | Checksum::Crc32c => 4,
            Checksum::Sha256 => 32,
        }
    }

    /// The checksum of `data`, in the first [`Checksum::len`] bytes.
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

    #[test]
    fn header_of_fio_is_read_and_written() {
        let (header, [is, should]) = Header::read(&FIO);
        let expected = Header {
            magic: MAGIC,
            kind: kind_of(VerifyMethod::Checksum(Checksum::Crc32c)),
            len: 4096,
            seed: 0,
            offset: 4096,
            time: Nanos(0x0725_6c9d),
            thread: 1,
            number: 1,
        };
        assert_eq!((header, is), (expected, should));
        let mut bytes = [0; HEADER_LEN];
        header.write(&mut bytes);
        assert_eq!(bytes, FIO[..HEADER_LEN]);
    }

    #[test]
    fn checksum_after_the_header_is_of_the_data() {
        let mut data: Vec<u8> = [0xde, 0xad, 0xbe, 0xef].repeat(1024);
        data[..44].copy_from_slice(&FIO);
        assert_eq!(Checksum::Crc32c.of(&data[44..])[..4], FIO[40..]);
    }

    fn hex(sum: Checksum, data: &[u8]) -> String {
        sum.of(data)[..sum.len()].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn checksums_are_those_of_fio() {
        // 4052 bytes of 1 after a header of 44, as written by fio 3.33 with verify_pattern=0x01.
        let data = [1; 4096 - 44];
        assert_eq!(hex(Checksum::Crc32c, &data), "542d0e5c");
        assert_eq!(hex(Checksum::Crc32, &data), "6f5b58ab");
        assert_eq!(hex(Checksum::Md5, &[1; 4096 - 56]), "31931e07b1634d5100568b354683ed79");
    }

    #[test]
    fn sha256_is_that_of_the_standard() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(Checksum::Sha256, b"abc"), expected);
    }
}
