//! Blocks with a header, recognised without the job that wrote them.
use super::header::{HEADER_LEN, Header, MAGIC, kind_of};
use crate::job::{Checksum, VerifyMethod};

/// The fields of a block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Length of the block in bytes, with its header.
    pub len: u32,
    /// The offset in bytes for which it was written; of a zone append, that of the zone.
    pub offset: u64,
    /// The lower half of the number of the write.
    pub number: u16,
    /// How the data are checked, by fio's number.
    kind: u16,
}

const SUMS: [Checksum; 14] = [
    Checksum::Md5,
    Checksum::Crc64,
    Checksum::Crc32,
    Checksum::Crc32c,
    Checksum::Crc16,
    Checksum::Crc7,
    Checksum::Sha1,
    Checksum::Sha256,
    Checksum::Sha512,
    Checksum::Sha3_224,
    Checksum::Sha3_256,
    Checksum::Sha3_384,
    Checksum::Sha3_512,
    Checksum::Xxhash,
];

/// The checksum of a number of fio.
fn sum_of(kind: u16) -> Option<Checksum> {
    SUMS.into_iter().find(|&sum| kind_of(VerifyMethod::Checksum(sum)) == kind)
}

impl BlockHeader {
    /// The header with which `data` begin, as `verify=` writes it (without `verify_offset`); `None` if
    /// there is none, a damaged one, or one of a kind that is not known here.
    pub fn find(data: &[u8]) -> Option<Self> {
        let (header, [stored, computed]) = Header::read(data.get(..HEADER_LEN)?);
        let is_one =
            header.magic == MAGIC && stored == computed && header.len as usize > HEADER_LEN;
        is_one.then_some(BlockHeader {
            len: header.len,
            offset: header.offset,
            number: header.number,
            kind: header.kind,
        })
    }

    /// Whether a block has all of its data, as far as its header can tell.
    pub fn matches(&self, block: &[u8]) -> bool {
        if block.len() != self.len as usize {
            return false;
        }
        // Without one there is no checksum: verify=meta.
        sum_of(self.kind).is_none_or(|sum| {
            let from = HEADER_LEN + sum.len();
            block.len() >= from && block[HEADER_LEN..from] == sum.of(&block[from..])[..sum.len()]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::FIO;
    use super::*;

    #[test]
    fn each_checksum_is_known_by_its_number() {
        for sum in SUMS {
            assert_eq!(sum_of(kind_of(VerifyMethod::Checksum(sum))), Some(sum));
        }
        let known: Vec<u16> = (0..100).filter(|&kind| sum_of(kind).is_some()).collect();
        assert_eq!(known, [2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(sum_of(kind_of(VerifyMethod::Meta)), None);
    }

    #[test]
    fn block_of_fio_is_recognised_and_damage_is_found() {
        let mut block: Vec<u8> = [0xde, 0xad, 0xbe, 0xef].repeat(1024);
        block[..44].copy_from_slice(&FIO);
        let header = BlockHeader::find(&block).expect("a header");
        assert_eq!((header.len, header.offset), (4096, 4096));
        assert!(header.matches(&block));
        assert!(!header.matches(&block[..2048]), "torn");
        block[4000] ^= 1;
        assert!(!header.matches(&block));
        block[20] ^= 1;
        assert_eq!(BlockHeader::find(&block), None);
        assert_eq!(BlockHeader::find(&[0; 512]), None);
        assert_eq!(BlockHeader::find(&[]), None);
    }
}
