//! What file data look like on devices that keep data: each sector says which one it is.
//!
//! So that a read through a file system shows whether it found what was written there.
use super::FileId;

const SECTOR: usize = 512;

/// Fills a buffer with the sectors of a file from `offset` on.
pub(super) fn fill(buf: &mut [u8], file: FileId, offset: u64) {
    for (number, sector) in (0..).zip(buf.chunks_exact_mut(SECTOR)) {
        sector[..16].copy_from_slice(&tag(file, offset + number * SECTOR as u64));
    }
}

/// Whether a buffer holds the sectors of a file from `offset` on. Sectors of zeroes were never
/// written: they are part of a file that was laid out and not written.
pub(super) fn matches(buf: &[u8], file: FileId, offset: u64) -> bool {
    (0..).zip(buf.chunks_exact(SECTOR)).all(|(number, sector)| {
        let expected = tag(file, offset + number * SECTOR as u64);
        sector[..16] == expected || sector[..16] == [0; 16]
    })
}

/// Not zero, since the offset is stored plus one.
fn tag(file: FileId, offset: u64) -> [u8; 16] {
    let mut tag = [0; 16];
    tag[..4].copy_from_slice(&file.owner.to_le_bytes());
    tag[4..8].copy_from_slice(&file.number.to_le_bytes());
    tag[8..].copy_from_slice(&(offset + 1).to_le_bytes());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::Buf;

    #[test]
    fn a_sector_of_another_place_is_noticed() {
        let file = FileId { owner: 1, number: 2 };
        let mut buf = Buf::zeroed(2048);
        assert!(matches(&buf, file, 512), "never written");
        fill(&mut buf, file, 512);
        assert!(matches(&buf, file, 512));
        assert!(!matches(&buf, file, 1024));
        assert!(!matches(&buf, FileId { owner: 1, number: 3 }, 512));
    }
}
