//! Criterion benchmarks of the block layer alone: submit and complete through every stage, 4 KiB
//! writes on the zoned null device.
//!
//! `--loop write|write-nomerges|read|handover DEPTH COUNT` runs one loop and measures nothing: `benches/profile
//! --layer` counts its instructions. `handover` is a read without the layer ([`support::handover`]).
#[path = "support/start.rs"]
mod start;
#[allow(dead_code)]
mod support;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use support::{DEVICE, Writer, Zones, handover, queue, read, timed};
use zonal_blk::{QueueOptions, ZoneWrite};

const ONE_ZONE: Zones = Zones { first: 0, width: 1 };

fn writes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("write");
    group.throughput(Throughput::Elements(1));
    for (name, policy, merge) in [
        ("plug", ZoneWrite::Plug, true),
        ("plug-nomerges", ZoneWrite::Plug, false),
        ("qd1-nomerges", ZoneWrite::Qd1, false),
        ("off", ZoneWrite::Off, false),
    ] {
        for depth in [1, 16, 32] {
            if policy == ZoneWrite::Off && depth > 1 {
                continue;
            }
            let options =
                QueueOptions { zone_write: Some(policy), merge, ..QueueOptions::default() };
            let mut writer = Writer::new(&queue(DEVICE, options), depth, ONE_ZONE);
            group.bench_function(BenchmarkId::new(name, depth), |bencher| {
                bencher.iter_custom(|count| timed(|| writer.write(count)));
            });
        }
    }
    group.finish();
}

fn attach(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("attach");
    group.sample_size(10);
    group.bench_function("100000 zones", |bencher| {
        let device = "null:zones=100000,zone_size=256M,max_open=128";
        bencher.iter_with_large_drop(|| queue(device, QueueOptions::default()));
    });
    group.finish();
}

/// Runs the loop that the command line names, if it does.
fn run_loop(args: &[String]) -> Option<()> {
    let [option, op, depth, count] = args else { return None };
    let (depth, count) = (depth.parse().ok()?, count.parse().ok()?);
    if (option.as_str(), op.as_str()) == ("--loop", "handover") {
        handover::read(4096 << 16, depth, count);
        return Some(());
    }
    let merge = op != "write-nomerges";
    let queue = queue(DEVICE, QueueOptions { merge, ..QueueOptions::default() });
    match (option.as_str(), op.as_str()) {
        ("--loop", "write" | "write-nomerges") => {
            Writer::new(&queue, depth.into(), ONE_ZONE).write(count)
        }
        ("--loop", "read") => read(&queue, depth.into(), count),
        _ => return None,
    }
    Some(())
}

criterion_group!(benches, writes, attach);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if run_loop(&args).is_none() && start::measures() {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
