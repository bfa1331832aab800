//! Interrupts: after the first, what was measured by then is printed; the second ends the program.
use crate::support::TestDir;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const ENDLESS: [&str; 7] = [
    "--device=null:zones=8,zone_size=1M,latency=10us",
    "--name=a",
    "--rw=randwrite",
    "--bs=4k",
    "--zonemode=zbd",
    "--runtime=1000000",
    "--time_based",
];

/// Waits until `is_so`; the limit is for a program that hangs.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A set of signals in `/proc/PID/status`.
fn signals(child: &Child, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).expect("a mask"))
}

/// Interrupts the program, and waits until its handler has been called.
fn interrupt(child: &Child) {
    let mask = 1 << (Signal::INT.as_raw() - 1);
    wait_until("a handler", || signals(child, "SigCgt:") & mask != 0);
    kill_process(Pid::from_child(child), Signal::INT).expect("it runs");
    wait_until("the signal is taken", || signals(child, "ShdPnd:") & mask == 0);
}

/// Interrupts the program after it has worked for a while.
fn interrupt_later(child: &Child) {
    thread::sleep(Duration::from_secs(2));
    interrupt(child);
}

/// Standard output of a program that is interrupted after a while.
fn interrupted(args: &[&str]) -> String {
    let mut child = TestDir::new()
        .command(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    interrupt_later(&child);
    let mut out = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{out}");
    out
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn run_reports_what_it_did_in_both_clocks() {
    for clock in ["--clock=virtual", "--clock=real"] {
        let run = ["run", clock, "--output-format=json"];
        let report = json(&interrupted(&[&run[..], &ENDLESS].concat()));
        assert_eq!(report["zonal"]["interrupted"], true);
        assert!(report["jobs"][0]["write"]["total_ios"].as_u64().expect("a number") > 0);
    }
}

#[test]
fn reproduce_prints_what_it_measured() {
    let args = ["reproduce", "smr-seq-qd", "zwp-smr", "--time=86400"];
    let text = interrupted(&args);
    assert!(text.ends_with("interrupted: 0 of 16 cells were measured, perhaps in fewer rounds.\n"));
    let json = json(&interrupted(&[&args[..], &["--format=json"]].concat()));
    assert_eq!(json["interrupted"], true);
    assert_eq!(json["tables"].as_array().map(Vec::len), Some(1), "the other was not begun");
}

#[test]
fn reproduce_in_real_time_prints_the_cells_that_it_measured() {
    let args = ["reproduce", "zwp-null_blk", "--time=0.5", "--rounds=1", "--format=json"];
    let report = json(&interrupted(&args));
    let cells = report["tables"][0]["cells"].as_array().expect("cells").len();
    assert!((1..24).contains(&cells), "{cells}");
}

#[test]
fn advise_prints_the_configurations_that_it_measured() {
    let args = ["advise", "--time=86400", "--schedulers=none", "--seeds=1"];
    let job = &ENDLESS[..5];
    assert_eq!(
        interrupted(&[&args[..], job].concat()).lines().last(),
        Some("interrupted: 0 of 8 configurations were measured")
    );
    let advice = json(&interrupted(&[&args[..], &["--format=json"], job].concat()));
    assert_eq!((&advice["interrupted"], &advice["tried"]), (&true.into(), &serde_json::json!([])));
}

/// Nobody reads the report, so that the program cannot end after the first interrupt.
#[test]
fn second_interrupt_ends_a_run_in_virtual_time_that_cannot_end() {
    let (mut ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut child = TestDir::new()
        .command(&[&["run", "--clock=virtual"][..], &ENDLESS].concat())
        .stdout(OwnedFd::from(theirs.try_clone().expect("a socket")))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    thread::sleep(Duration::from_secs(2));
    theirs.set_nonblocking(true).expect("a socket");
    while theirs.write(&[0; 4096]).is_ok() {}
    theirs.set_nonblocking(false).expect("a socket");
    drop(theirs);
    interrupt(&child);
    thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().expect("a child").is_none(), "it waits for a reader");
    interrupt(&child);
    wait_until("the end", || child.try_wait().expect("a child").is_some());
    assert_eq!(child.wait().expect("it ended").code(), Some(130));
    let mut unread = Vec::new();
    ours.read_to_end(&mut unread).expect("a socket");
    assert!(unread.ends_with(&[0]), "the report was not written");
}
