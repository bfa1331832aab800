//! Interrupts: after the first, what was measured by then is printed; the second ends the program.
use crate::signals::{cpu_time, end_by_another, send, sleeps, wait_until};
use crate::support::TestDir;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The CPU time after which a program is interrupted: its jobs have done I/O by then.
const WORK: Duration = Duration::from_secs(2);

const ENDLESS: [&str; 7] = [
    "--device=null:zones=8,zone_size=1M,latency=10us",
    "--name=a",
    "--rw=randwrite",
    "--bs=4k",
    "--zonemode=zbd",
    "--runtime=1000000",
    "--time_based",
];

/// Interrupts the program after it has worked for a while.
fn interrupt_later(child: &Child) {
    wait_until("some work", || cpu_time(child) >= WORK);
    send(child, Signal::INT);
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
    // The first cell is measured in a quarter of a second, all rounds of all cells in ten minutes.
    let args = ["reproduce", "zwp-null_blk", "--time=25.25", "--rounds=101", "--format=json"];
    let report = json(&interrupted(&args));
    assert_eq!(report["interrupted"], true);
    let cells = report["tables"][0]["cells"].as_array().expect("cells").len();
    assert!((1..=24).contains(&cells), "{cells}");
}

#[test]
fn advise_prints_the_configurations_that_it_measured() {
    let args = ["advise", "--time=86400", "--schedulers=none", "--seeds=1"];
    let job = &ENDLESS[..5];
    assert_eq!(
        interrupted(&[&args[..], job].concat()).lines().next(),
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
    wait_until("some work", || cpu_time(&child) >= WORK);
    theirs.set_nonblocking(true).expect("a socket");
    while theirs.write(&[0; 4096]).is_ok() {}
    theirs.set_nonblocking(false).expect("a socket");
    drop(theirs);
    send(&child, Signal::INT);
    wait_until("it waits for a reader", || sleeps(&child));
    assert_eq!(end_by_another(&mut child, Signal::INT), Some(130));
    let mut unread = Vec::new();
    ours.read_to_end(&mut unread).expect("a socket");
    assert!(unread.ends_with(&[0]), "the report was not written");
}
