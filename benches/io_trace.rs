//! The cost of `zonal run --trace`: jobs of 4 KiB writes on the zoned null device in virtual time,
//! where nothing but the program takes time, with and without a trace.
//!
//! `cargo bench --bench io_trace`. Runs are taken in turn, and each row has the median of the ratios
//! of the pairs.
#[path = "support/start.rs"]
mod start;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const PAIRS: usize = 7;

fn main() {
    if !start::measures() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    println!("{:<46} time against no trace", "");
    for depth in ["1", "16"] {
        for (name, count, args) in [
            ("the same again", 1_000_000, &[][..]),
            ("one I/O in 100", 1_000_000, &["--trace=t", "--trace-sample=100"]),
            ("all I/Os, explained", 300_000, &["--explain"]),
            ("all I/Os, to a file for Perfetto", 300_000, &["--trace=t"]),
            ("all I/Os, to a file for blktrace", 300_000, &["--trace=t.blktrace"]),
        ] {
            let mut ratios: Vec<f64> = (0..PAIRS)
                .map(|_| {
                    let without = seconds(dir.path(), depth, count, &[]);
                    seconds(dir.path(), depth, count, args) / without
                })
                .collect();
            ratios.sort_by(f64::total_cmp);
            let (low, median, high) = (ratios[0], ratios[PAIRS / 2], ratios[PAIRS - 1]);
            println!(
                "{:<46} {median:.2} ({low:.2} to {high:.2})",
                format!("depth {depth}, {name}")
            );
        }
    }
}

/// How long a job takes, from start to end.
fn seconds(dir: &Path, depth: &str, count: u32, args: &[&str]) -> f64 {
    let device = "null:zones=4096,zone_size=256M,max_open=128,lba=4096";
    let start = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_zonal"))
        .args(["run", "--clock=virtual", "--device", device, "--name=a", "--rw=write"])
        .args(["--zonemode=zbd", "--bs=4k", "--trace-size=4G", "--eta=never"])
        .args([format!("--iodepth={depth}"), format!("--number_ios={count}")])
        .args(args)
        .current_dir(dir)
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("the program starts").success());
    start.elapsed().as_secs_f64()
}
