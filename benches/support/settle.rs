//! Waits for the discards of files that were removed: a file system may discard freed space seconds later,
//! which would slow whatever runs then.
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Discards count as done when none came for this long.
const IDLE_TIME: Duration = Duration::from_millis(100);
/// Longest wait for that: other programs may remove files all the time.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Waits until the space of removed files has been discarded.
pub fn settle(place: &Path) {
    let handle = File::open(place).expect("the directory");
    rustix::fs::syncfs(&handle).expect("the file system is written");
    let device = handle.metadata().expect("the directory").dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // Field 12 counts the discards that have ended. A file system without a drive has no such file.
    let discards = || {
        let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        text.split_whitespace().nth(11).map(str::to_owned)
    };
    let until = Instant::now() + MAX_WAIT;
    let mut before = None;
    while before != Some(discards()) && Instant::now() < until {
        before = Some(discards());
        std::thread::sleep(IDLE_TIME);
    }
}
