//! Signals to a program, sent when it handles them.
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything that a test waits for, also on a busy machine: the limit is for a program that hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `is_so`.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A field of `/proc/PID/status`; empty if the program has ended.
fn status(child: &Child, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().trim().to_owned()
}

fn has(child: &Child, field: &str, signal: Signal) -> bool {
    let mask = status(child, field);
    let mask = if mask.is_empty() { 0 } else { u64::from_str_radix(&mask, 16).expect("a mask") };
    mask & (1 << (signal.as_raw() - 1)) != 0
}

/// The CPU time that a program has used: how far it is, on a busy machine as on an idle one.
pub fn cpu_time(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The name, in parentheses, may have blanks.
    let numbers = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let ticks: u64 = numbers.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Whether its main thread sleeps.
pub fn sleeps(child: &Child) -> bool {
    status(child, "State:").starts_with('S')
}

/// Sends a signal once the program has a handler for it, and waits until the handler has been called.
#[track_caller]
pub fn send(child: &Child, signal: Signal) {
    wait_until("a handler", || has(child, "SigCgt:", signal));
    kill_process(Pid::from_child(child), signal).expect("it runs");
    wait_until("the signal is taken", || !has(child, "ShdPnd:", signal));
}

/// Sends a program that a first signal has not ended others until it ends. Returns its exit code. Others,
/// since one that arrives while the handler of the first still runs is taken for the first.
#[track_caller]
pub fn end_by_another(child: &mut Child, signal: Signal) -> Option<i32> {
    assert!(child.try_wait().expect("a child").is_none(), "it ended by one signal");
    wait_until("the end", || {
        let ended = child.try_wait().expect("a child").is_some();
        if !ended {
            kill_process(Pid::from_child(child), signal).expect("it is not waited for");
        }
        ended
    });
    child.wait().expect("it ended").code()
}
