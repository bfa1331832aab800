//! A target that polls sleeps where it is not used. A single test, since it looks at all threads of the
//! process.
#[path = "../../../tests/hostile/mod.rs"]
mod hostile;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "nvme_tcp/support.rs"]
mod support;

use std::fs;
use std::thread;
use std::time::Duration;
use support::{Served, ZONED, patient};
use zonal_blk::Status;
use zonal_frontend::nvme_tcp::ServerConfig;
use zonal_os::poll::WaitPolicy;

/// The states of the target's threads (proc(5), `/proc/pid/stat`).
fn states() -> Vec<char> {
    let tasks = fs::read_dir("/proc/self/task").expect("procfs");
    let state = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("stat")).ok()?;
        let (name, rest) = text.split_once('(')?.1.rsplit_once(") ")?;
        (name == "nvme-tcp").then(|| rest.chars().next())?
    };
    tasks.filter_map(|task| state(task.expect("a thread").path())).collect()
}

#[test]
fn queues_that_nobody_uses_sleep_although_the_target_polls() {
    let waiting = WaitPolicy::Spin;
    let served = Served::with(ZONED, ServerConfig { waiting, ..patient() });
    let mut host = served.host("");
    assert_eq!(host.read(0, 8).status, Status::Ok);
    // The listener, the admin queue, the host's queues and the one for its zone reports.
    let sleeping = || {
        thread::sleep(Duration::from_millis(5));
        let states = states();
        states.len() >= 4 && states.iter().all(|&state| state == 'S')
    };
    assert!((0..10_000).any(|_| sleeping()), "{:?}", states());
    assert_eq!(host.read(0, 8).status, Status::Ok, "a queue that sleeps is woken");
}
