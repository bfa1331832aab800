//! Any bytes as the metadata of an image: read or refused, never a panic. The checksums are corrected
//! first, so that what they protect is reached as well.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io;
use zonal_device::image::{ReadAt, check, check_data};

/// Most sectors of data that are compared with their checksums.
const MAX_DATA: u64 = 1 << 13;

struct Bytes<'a>(&'a [u8]);

impl ReadAt for Bytes<'_> {
    fn read(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        to.fill(0);
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(there) = self.0.get(at..) {
            let len = there.len().min(to.len());
            to[..len].copy_from_slice(&there[..len]);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        // Long enough for the data of any zone.
        Ok(u64::MAX)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(4096) {
        let at = if block.starts_with(b"ZONALIMG") { 12 } else { 4 };
        block[at..at + 4].fill(0);
        let crc = crc_fast::crc32_iscsi(block);
        block[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    // Checking an image of a million zones takes a gigabyte: only small ones are tried.
    if bytes.len() >= 76 && bytes[33..36] == [0; 3] && bytes[73..76] == [0; 3] {
        if let Ok((superblock, recovered, _)) = check(&Bytes(&bytes)) {
            assert_eq!(recovered.zones.len(), superblock.geometry.zones as usize);
            let data: u64 = recovered.zones.iter().map(|zone| zone.written.0).sum();
            let conventional = u64::from(superblock.geometry.conventional);
            if data + conventional * superblock.geometry.zone_size.0 < MAX_DATA {
                let _findings = check_data(&Bytes(&bytes), &superblock, &recovered, &mut |_| ());
            }
        }
    }
});
