//! The header of a verified block, as fio 3.33 writes it: 40 bytes, little-endian.
//!
//! ```text
//!   0 magic 0xacca       2 verify type        4 length          8 rand_seed
//!  16 offset            24 seconds           28 nanoseconds    32 thread
//!  34 number of the write, its lower half    36 CRC-32C of the bytes before
//! ```
//!
//! It is followed by the checksum of the data after that. The layout was determined from files
//! written by fio, as were its checksums: CRCs start from all ones or zeros and lack the usual complement
//! at the end, `crc32` is not reflected, the words of `sha1` are little-endian, and `xxhash` has the
//! seed 1. What fio stores for `sha256` and `sha512` are not the hashes of the data; here they are.
use crate::job::{Checksum, VerifyMethod};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};
use twox_hash::XxHash32;
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
    let VerifyMethod::Checksum(sum) = method else { return 1 };
    match sum {
        Checksum::Md5 => 2,
        Checksum::Crc64 => 3,
        Checksum::Crc32 => 4,
        Checksum::Crc32c => 5,
        Checksum::Crc16 => 7,
        Checksum::Crc7 => 8,
        Checksum::Sha256 => 9,
        Checksum::Sha512 => 10,
        Checksum::Sha3_224 => 11,
        Checksum::Sha3_256 => 12,
        Checksum::Sha3_384 => 13,
        Checksum::Sha3_512 => 14,
        Checksum::Xxhash => 15,
        Checksum::Sha1 => 16,
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
const CRC_64: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);
const CRC_16: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_ARC);
const CRC_7: crc::Crc<u8> = crc::Crc::<u8>::new(&crc::CRC_7_MMC);
const XXHASH_SEED: u32 = 1;
/// Length of the longest checksum in bytes.
const MAX_LEN: usize = 64;

/// CRC-32C from all ones, without the complement at the end.
fn crc32c(data: &[u8]) -> u32 {
    !crc_fast::crc32_iscsi(data)
}

/// SHA-1 with its words in the byte order of fio.
fn sha1(data: &[u8]) -> Vec<u8> {
    let mut sum = Sha1::digest(data).to_vec();
    sum.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    sum
}

impl Checksum {
    /// Length in bytes.
    pub(super) const fn len(self) -> usize {
        match self {
            Checksum::Crc7 => 1,
            Checksum::Crc16 => 2,
            Checksum::Crc32 | Checksum::Crc32c | Checksum::Xxhash => 4,
            Checksum::Crc64 => 8,
            Checksum::Md5 => 16,
            Checksum::Sha1 => 20,
            Checksum::Sha3_224 => 28,
            Checksum::Sha256 | Checksum::Sha3_256 => 32,
            Checksum::Sha3_384 => 48,
            Checksum::Sha512 | Checksum::Sha3_512 => MAX_LEN,
        }
    }

    /// The checksum of `data`, in the first [`Checksum::len`] bytes.
    pub(super) fn of(self, data: &[u8]) -> [u8; MAX_LEN] {
        let mut sum = [0; MAX_LEN];
        let mut set = |bytes: &[u8]| sum[..bytes.len()].copy_from_slice(bytes);
        match self {
            Checksum::Md5 => set(&Md5::digest(data)),
            Checksum::Crc64 => set(&CRC_64.checksum(data).to_le_bytes()),
            Checksum::Crc32 => set(&CRC_32.checksum(data).to_le_bytes()),
            Checksum::Crc32c => set(&crc32c(data).to_le_bytes()),
            Checksum::Crc16 => set(&CRC_16.checksum(data).to_le_bytes()),
            Checksum::Crc7 => set(&[CRC_7.checksum(data)]),
            Checksum::Sha1 => set(&sha1(data)),
            Checksum::Sha256 => set(&Sha256::digest(data)),
            Checksum::Sha512 => set(&Sha512::digest(data)),
            Checksum::Sha3_224 => set(&Sha3_224::digest(data)),
            Checksum::Sha3_256 => set(&Sha3_256::digest(data)),
            Checksum::Sha3_384 => set(&Sha3_384::digest(data)),
            Checksum::Sha3_512 => set(&Sha3_512::digest(data)),
            Checksum::Xxhash => set(&XxHash32::oneshot(XXHASH_SEED, data).to_le_bytes()),
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
        // The bytes of 1 after the header of a block of 4096, as written by fio 3.33 with
        // verify_pattern=0x01.
        for (sum, expected) in [
            (Checksum::Crc32c, "542d0e5c"),
            (Checksum::Crc32, "6f5b58ab"),
            (Checksum::Crc64, "f63ca4d9ac5a12a3"),
            (Checksum::Crc16, "cf7e"),
            (Checksum::Crc7, "36"),
            (Checksum::Md5, "31931e07b1634d5100568b354683ed79"),
            (Checksum::Xxhash, "1ede39a1"),
            (Checksum::Sha1, "ae4a70566fcdbe5b4f1b18d0e84750d55065ff2b"),
            (Checksum::Sha3_224, "5ac31a171d482e9de98c1f7d5a966b5fb7ed84edb77061ed4ffe48cc"),
            (
                Checksum::Sha3_256,
                "c4d9d7a5f06beba273f9c543f8942d0cf1c57fd9892d252a881dc123370a5107",
            ),
            (
                Checksum::Sha3_384,
                "9e254dcd8264c5a13763abfacf28f877d2bb302c526f2ce53f07a21678e553f0\
                 dffb53669a379c6b031b7fff30335956",
            ),
            (
                Checksum::Sha3_512,
                "85b8d714cf4ed7eb185a9a290cf75aa4c0cd6b88718938d6fbaee15d0c1e4e6a\
                 d39df348461c24b40084759557285cb412f862bba891d9b2126e4648f9bc2f98",
            ),
        ] {
            assert_eq!(hex(sum, &vec![1; 4096 - HEADER_LEN - sum.len()]), expected, "{sum:?}");
        }
    }

    #[test]
    fn sha256_and_sha512_are_those_of_the_standard() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(Checksum::Sha256, b"abc"), expected);
        let expected = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                        2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";
        assert_eq!(hex(Checksum::Sha512, b"abc"), expected);
    }
}
