//! A model of what more processors would do, for machines with few of them: throughput by the number
//! of cores, from what an I/O costs on one core, what a cache line takes from one core to another,
//! and how many lines an I/O has to fetch. It is checked on the cores that there are, and printed for
//! more.
//!
//! ```text
//!   time of an I/O on one core       own + lines * (1 - 1/n) * line
//!   n cores                          n I/Os in that time
//!   a zone that all share            one write at a time: sharers * (1 - 1/n) * line + held
//!   whichever is less                n cores, or all zones at work
//! ```
//!
//! `own` and `line` are measured. The lines of an I/O are counted by reading the code; see
//! docs/performance.md. `1 - 1/n` is how often another core was the last to use a line, when all
//! choose at random. What is not in the model: bandwidth between sockets, the clock that falls when
//! all cores work, memory that is far away, and a host that takes processors away.
//!
//! `cargo bench --bench scaling`.
#[path = "support/start.rs"]
mod start;
#[allow(dead_code)]
mod support;

use std::thread;
use support::threads::{RandomWrites, Sharing, line_round_trip};
use zonal_blk::Op;

const ROUNDS: usize = 5;
const ZONES: f64 = 16.0;
const CORES: [f64; 6] = [1.0, 2.0, 8.0, 16.0, 32.0, 64.0];

/// A way to write, with the lines that a write fetches if another core had them last.
struct Case {
    name: &'static str,
    op: Op,
    shared: bool,
    scheduler: &'static str,
    /// Lines that it waits for, one after the other.
    lines: f64,
    /// Of these, the lines that it waits for while no other core can write to the zone.
    exclusive: f64,
}

const OWN: Case = Case {
    name: "own zones",
    op: Op::Write,
    shared: false,
    scheduler: "none",
    lines: 0.0,
    exclusive: 0.0,
};

const CASES: [Case; 4] = [
    OWN,
    // While nothing waits, the scheduler's lines are only read.
    Case { name: "own zones, mq-deadline", scheduler: "mq-deadline", ..OWN },
    // The writers' offset, the plug, the device's zone. The offset's lock is held while the plug comes.
    Case { name: "16 shared zones, writes", shared: true, lines: 3.0, exclusive: 2.0, ..OWN },
    Case {
        name: "16 shared zones, appends",
        op: Op::ZoneAppend,
        shared: true,
        lines: 2.0,
        exclusive: 1.0,
        ..OWN
    },
];

impl Case {
    /// Nanoseconds a write at depth 1, all threads together; the best round.
    fn measured(&self, threads: u64) -> f64 {
        let op = self.op;
        let sharing = if self.shared { Sharing::Zones } else { Sharing::Nothing };
        let scheduler = self.scheduler.parse().expect("a scheduler");
        let writes = RandomWrites { op, threads, sharing, depth: 1, scheduler };
        (0..ROUNDS).map(|_| writes.ns_per_write()).fold(f64::MAX, f64::min)
    }

    /// Million I/Os a second on `cores`, and what limits them.
    fn predicted(&self, cores: f64, own: f64, line: f64) -> (f64, &'static str) {
        let elsewhere = 1.0 - 1.0 / cores;
        let cores_do = cores * 1e3 / (own + self.lines * elsewhere * line);
        // The lock is held for a small part of an I/O's own time.
        let zone = self.exclusive * elsewhere * line + own / 4.0;
        let zones_do = if self.shared { ZONES * 1e3 / zone } else { f64::MAX };
        match (cores_do <= zones_do, self.shared && elsewhere * self.lines * line > own) {
            (false, _) => (zones_do, "the zones"),
            (true, true) => (cores_do, "cache lines"),
            (true, false) => (cores_do, "instructions"),
        }
    }
}

fn main() {
    if !start::measures() {
        return;
    }
    let there = thread::available_parallelism().map_or(1, |cores| cores.get()) as u64;
    let line = (0..ROUNDS).map(|_| line_round_trip()).fold(f64::MAX, f64::min) / 4.0;
    println!("a cache line from another core: {line:.0} ns; {there} cores; writes at depth 1\n");
    println!(
        "{:<26} {:>5} {:>10} {:>10}   limit",
        "million writes a second", "cores", "measured", "model"
    );
    for case in &CASES {
        let own = case.measured(1);
        for cores in CORES {
            let (model, limit) = case.predicted(cores, own, line);
            let measured = match cores as u64 {
                1 => format!("{:.1}", 1e3 / own),
                threads if threads <= there => format!("{:.1}", 1e3 / case.measured(threads)),
                _ => "-".to_owned(),
            };
            println!("{:<26} {cores:>5} {measured:>10} {model:>10.1}   {limit}", case.name);
        }
    }
}
