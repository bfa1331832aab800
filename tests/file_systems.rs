//! File systems on both clocks: the same processes, in virtual time and on a real thread. Devices
//! keep data, so each read also shows that it found what was written.
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zonal_blk::{Nanos, Queue, QueueOptions, ZoneWrite};
use zonal_fio::jobfile::{MemoryEnvironment, parse_str};
use zonal_fio::runner::Outcome;
use zonal_fsmodel::{self as fs, Disk};
use zonal_lab::jobs::{self, JobThread};
use zonal_os::RealClock;
use zonal_sim::CostModel;

const ZONED: &str = "null:zones=64,zone_size=1M,max_open=0,memory=true,latency=20us";
const REGULAR: &str = "null:zoned=false,size=256M,memory=true,latency=20us,depth=32";

/// Runs the one job of `text`; on real threads or in virtual time.
fn run(real: bool, device: &str, policy: Option<ZoneWrite>, text: &str) -> Vec<Outcome> {
    let spec = zonal_device::device_spec::parse(device).expect("a device spec");
    let set = parse_str("scenario.fio", text, &MemoryEnvironment::default()).expect("a job file");
    let job = Arc::new(set.jobs.into_iter().next().expect("a job"));
    let disk = |_| {
        let device = zonal_device::device_spec::build(&spec).expect("a device");
        let options = QueueOptions { zone_write: policy, ..QueueOptions::default() };
        Disk { queue: Queue::attach(device, options).expect("a queue"), keeps_data: true }
    };
    let disks: Vec<Disk> = (0..job.fs.disks).map(disk).collect();
    let runner = fs::mount(&job, 0, &disks, 7).expect("a file system that fits");
    let runner = Box::new(runner);
    if real {
        let threads = vec![JobThread { runner, cpus: Vec::new(), name: None }];
        jobs::run(threads, &RealClock::start(), &AtomicBool::new(false), || {}).expect("threads")
    } else {
        let costs = CostModel::Flat(Nanos(1000));
        zonal_sim::run(vec![runner], Nanos(0), costs).expect("no stall").0
    }
}

/// Bytes read and written by all processes.
fn bytes(outcomes: &[Outcome]) -> [u64; 2] {
    for outcome in outcomes {
        assert_eq!(outcome.error, None);
    }
    outcomes[0].file_system.as_ref().expect("with the first of the clones").file_bytes
}

#[test]
fn files_on_zones_are_written_and_made_anew_until_zones_are_reset() {
    for fs in ["xfs", "btrfs"] {
        for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
            for direct in [0, 1] {
                let text = format!(
                    "[w]\nfilesystem={fs}\nrw=write\nbs=64k\nnumjobs=2\ndirect={direct}\niodepth=4\n\
                     filesize=512k-2m\nnrfiles=8\nopenfiles=2\nio_size=48m\n\
                     fs_memory=16m\nfs_chunk=1m\nfs_open_zones=8\nfs_commit=1ms\n"
                );
                for real in [false, true] {
                    let outcomes = run(real, ZONED, Some(policy), &text);
                    assert_eq!(outcomes.len(), 2);
                    assert_eq!(bytes(&outcomes), [0, 96 << 20]);
                    let resets = outcomes[0].file_system.as_ref().expect("counters").zone_resets;
                    assert!(direct == 0 || resets > 0, "more was written than the device holds");
                }
            }
        }
    }
}

#[test]
fn native_appends_land_where_the_device_puts_them() {
    let text =
        "[w]\nfilesystem=btrfs\nrw=write\nbs=64k\ndirect=1\niodepth=8\nfilesize=4m\nnrfiles=4\n";
    for real in [false, true] {
        let outcomes = run(real, &format!("{ZONED},append_max=64K,jitter=50us"), None, text);
        assert_eq!(bytes(&outcomes), [0, 16 << 20]);
        let counters = outcomes[0].file_system.as_ref().expect("counters");
        assert_eq!((counters.appends, counters.native_appends), (256, true));
    }
}

#[test]
fn random_reads_find_what_was_written() {
    for (fs, options) in [
        ("ufs", "direct=1"),
        ("ufs", "direct=0\nfs_memory=1m\nfs_dirty_background=256k"),
        ("zfs", "fs_memory=1m\nfs_dirty=512k\nfs_commit=5ms"),
        ("zfs", "fs_memory=1m\nfs_dirty=512k\nfs_commit=5ms\nfs_block=16k\nfs_disks=2"),
    ] {
        let text = format!(
            "[r]\nfilesystem={fs}\npattern=raidtest\npattern_requests=800\nnumjobs=8\nfs_shared=1\n\
             filesize=8m\nfs_warm_runs=1\nfs_op_cost=1000\n{options}\n"
        );
        for real in [false, true] {
            let outcomes = run(real, REGULAR, None, &text);
            let requests: u64 =
                outcomes.iter().map(|o| o.stats.counts().ios.iter().sum::<u64>()).sum();
            assert_eq!(requests, 800, "{fs} {options}: the warm run is not measured");
            let [read, written] = bytes(&outcomes);
            assert!(read > 0 && written > 0);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let text = "[r]\nfilesystem=zfs\nrw=randrw\nbs=4k\nnumjobs=4\nfs_shared=1\nfilesize=8m\n\
                io_size=4m\nfs_memory=1m\n";
    let seen = || {
        let outcomes = run(false, REGULAR, None, text);
        let lat = |o: &Outcome| format!("{:?}", o.stats);
        outcomes.iter().map(lat).collect::<Vec<_>>()
    };
    assert_eq!(seen(), seen());
}

#[test]
fn what_does_not_fit_a_file_system_is_told_by_option() {
    let told = |device: &str, options: &str| {
        let spec = zonal_device::device_spec::parse(device).expect("a device spec");
        let device = zonal_device::device_spec::build(&spec).expect("a device");
        let text = format!("[j]\n{options}\n");
        let set = parse_str("j.fio", &text, &MemoryEnvironment::default()).expect("a job file");
        let error = fs::check(&set.jobs[0], device.limits()).expect_err("it does not fit");
        error.to_string()
    };
    for (device, options, expected) in [
        (
            REGULAR,
            "filesystem=xfs",
            "job j: filesystem: xfs needs a device with zones, this one has none",
        ),
        (
            ZONED,
            "filesystem=zfs",
            "job j: filesystem: zfs needs a device with no zones, this one has some",
        ),
        (ZONED, "filesystem=btrfs", "job j: filesize: a job on a file system needs it"),
        (
            ZONED,
            "filesystem=btrfs\nfilesize=4k\nbs=8k\nrw=write",
            "4096 bytes is less than the block size 8192",
        ),
        (ZONED, "filesystem=xfs\nfilesize=1m\nrw=randwrite", "the model of xfs is for sequential"),
        (REGULAR, "filesystem=ufs\nfilesize=1m\nfs_disks=2", "job j: fs_disks: ufs uses one disk"),
        (
            REGULAR,
            "filesystem=zfs\nfilesize=1m\nfs_block=100k",
            "job j: fs_block: found 102400 bytes",
        ),
        (REGULAR, "filesystem=zfs\nfilesize=1m\noffset=1m", "job j: offset: "),
        (REGULAR, "filesystem=zfs\nfilesize=1m\nsize=50%", "job j: size: expected bytes"),
        (REGULAR, "filesystem=zfs\nfilesize=1m\npattern=randomio", "job j: pattern: "),
        (
            REGULAR,
            "filesystem=zfs\nfilesize=1m\nfs_warm_runs=1\ntime_based\nruntime=1",
            "job j: fs_warm_runs: ",
        ),
    ] {
        let told = told(device, options);
        assert!(told.contains(expected), "{options}: {told}");
    }
}
