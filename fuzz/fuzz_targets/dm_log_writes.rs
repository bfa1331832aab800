//! Any bytes as a log of dm-log-writes: entries are read or refused, never a panic, and what is read
//! is no longer than what is there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_crash::dm_log_writes::DmLog;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut log) = DmLog::open(bytes) else { return };
    let mut read = 0;
    while let Ok(Some(entry)) = log.next_entry() {
        read += entry.data.len();
        assert!(read <= bytes.len());
        assert!(entry.mark.is_none_or(|mark| !mark.contains('\n')));
    }
});
