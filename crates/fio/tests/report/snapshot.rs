//! The normal format of a small run, complete.
use crate::support::{clone_of, job, report};
use zonal_blk::{Nanos, Status};
use zonal_fio::job::{DataDir, Rw};
use zonal_fio::report::{Format, announce, render};
use zonal_fio::stats::{IoStats, SAMPLE_PERIOD, Usage};

/// A zoned disk's writer: 256 KiB writes of 2 to 150 ms for 1.5 s.
fn writer() -> IoStats {
    let mut stats = IoStats::new();
    stats.start(Nanos(0));
    stats.record(DataDir::Write, 1 << 18, Nanos(9), Nanos(9), 1_000_000);
    stats.reset(Nanos(500_000_000));
    for i in 0..300 {
        stats.submitted(4, 8);
        let clat = Nanos(2_200_000 + 493_333 * i);
        stats.record(DataDir::Write, 1 << 18, Nanos(12_000), clat, 4);
        stats.completed(4);
        stats.sample(Nanos(500_000_000 + i * 5_000_000));
    }
    stats.zone_resets(2);
    stats.error(DataDir::Write, Status::IoError);
    stats.sample(Nanos(SAMPLE_PERIOD.0 * 4));
    stats.finish(Nanos(SAMPLE_PERIOD.0 * 4));
    stats.set_usage(Usage { user: Nanos(150_000_000), context_switches: 301, ..Usage::default() });
    stats
}

/// Reads of equal latency from a null device.
fn reader() -> IoStats {
    let mut stats = IoStats::new();
    stats.start(Nanos(0));
    for _ in 0..1_000 {
        stats.submitted(16, 16);
        stats.record(DataDir::Read, 4096, Nanos(0), Nanos(100), 16);
        stats.completed(16);
    }
    stats.finish(Nanos(1_600_000));
    stats
}

#[test]
fn normal_output_of_two_groups() {
    let mut disk = job("disk");
    disk.group_reporting = false;
    disk.description = "one zone after another".to_owned();
    (disk.rw, disk.random, disk.bs) = (Rw::Write, false, [1 << 18; 3]);
    let mut null = job("null");
    (null.rw, null.iodepth) = (Rw::Read, 16);
    let mut jobs =
        vec![clone_of(&disk, writer()), clone_of(&null, reader()), clone_of(&null, reader())];
    jobs[0].error = Some(Status::IoError);
    jobs[1].groupid = 1;
    jobs[2].groupid = 1;
    let started = announce(&disk, 0) + &announce(&null, 1);
    insta::assert_snapshot!(started + &render(&report(jobs), &[Format::Normal]));
}

#[test]
fn a_single_group_has_no_comparison() {
    let null = job("null");
    let text = render(&report(vec![clone_of(&null, reader())]), &[Format::Normal]);
    assert!(text.ends_with("\n  device=null:size=1g, policy=plug, seed=1\n"), "{text}");
}
