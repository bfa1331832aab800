//! Any bytes as the file of a log of the crash lab: read or refused, never a panic, and blocks only as
//! far as the file has them. The checksums are corrected first, so that what they protect is reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_crash::log::{Event, Log};

/// The length of a frame's header.
const FRAME: usize = 40;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    correct(&mut bytes);
    let path = std::env::temp_dir().join(format!("zonal-crash-file-{}", std::process::id()));
    std::fs::write(&path, &bytes).expect("a file for temporary use");
    let Ok(log) = Log::open(&path) else { return };
    if log.header().geometry().zones < 1 << 10 {
        let (limits, zones) = log.header().zoned();
        assert_eq!(limits.nr_zones as usize, zones.len());
    }
    let (mut blocks, mut block) = (log.blocks(), vec![0; log.header().geometry().lba as usize]);
    for event in log.events() {
        if let Event::Started { command, .. } = event {
            for number in command.block_numbers().take(16) {
                let _missing = blocks.read(number, &mut block);
            }
        }
    }
});

/// Makes the checksums of the header and of all frames those of what is there.
fn correct(bytes: &mut [u8]) -> Option<()> {
    let len = u32_at(bytes, 12)? as usize;
    let sum = crc_fast::crc32_iscsi(bytes.get(20..)?.get(..len)?);
    put(bytes, 16, sum);
    let mut at = 20 + len;
    while at + FRAME <= bytes.len() {
        let stored = u32_at(bytes, at + 24)? as usize;
        let end = (at + FRAME).saturating_add(stored).min(bytes.len());
        let sum = crc_fast::crc32_iscsi(&bytes[at + FRAME..end]);
        put(bytes, at + 28, sum);
        let sum = crc_fast::crc32_iscsi(&bytes[at..at + 36]);
        put(bytes, at + 36, sum);
        at = end;
    }
    Some(())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().expect("four bytes")))
}

fn put(bytes: &mut [u8], at: usize, sum: u32) {
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}
