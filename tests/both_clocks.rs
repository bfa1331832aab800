//! The same scenarios in virtual time and on real threads: one body, two machines.
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zonal_blk::{Nanos, Queue, QueueOptions, Status, ZoneWrite};
use zonal_fio::generate::ZbdTable;
use zonal_fio::job::{DataDir, Job, ZoneMode};
use zonal_fio::jobfile::{MemoryEnvironment, parse_str};
use zonal_fio::plan;
use zonal_fio::runner::Outcome;
use zonal_lab::jobs::{self, JobThread};
use zonal_os::RealClock;
use zonal_sim::{BoxedRunner, CostModel};

#[derive(Clone, Copy, Debug, PartialEq)]
enum ClockKind {
    Virtual,
    Real,
}

const BOTH: [ClockKind; 2] = [ClockKind::Virtual, ClockKind::Real];

struct Run {
    outcomes: Vec<Outcome>,
    queue: Arc<Queue>,
    end: Nanos,
}

/// Runs the jobs of `text`, all at the same time, on a device.
fn run(clock_kind: ClockKind, device: &str, policy: ZoneWrite, text: &str) -> Run {
    let spec = zonal_device::device_spec::parse(device).expect("a device spec");
    let device = zonal_device::device_spec::build(&spec).expect("a device");
    let set = parse_str("scenario.fio", text, &MemoryEnvironment::default()).expect("a job file");
    let jobs: Vec<Arc<Job>> = set.jobs.into_iter().map(Arc::new).collect();
    let mut phases = plan::phases(&jobs).expect("a few jobs");
    assert_eq!(phases.len(), 1, "a scenario is one phase");
    let tasks = phases.remove(0);
    let share_queues = tasks.len() > usize::from(device.limits().nr_queues);
    let options =
        QueueOptions { zone_write: Some(policy), share_queues, ..QueueOptions::default() };
    let queue = Queue::attach(device, options).expect("a device that keeps the rules");
    let limit = plan::max_open_zones(jobs.iter().map(|job| &**job));
    let zoned = jobs.iter().any(|job| job.zonemode == ZoneMode::Zbd);
    let table = || Arc::new(ZbdTable::new(&**queue.device(), limit).expect("a report"));
    let table = zoned.then(table);
    let runner = |(id, task): (u32, &plan::Task)| {
        let region = task.region(queue.limits()).expect("the job fits");
        let channel = queue.channel().expect("a channel");
        task.runner(region, channel, table.clone(), id, 0, spec.keeps_data())
    };
    let runners = (0..).zip(&tasks).map(runner);
    let (outcomes, end) = match clock_kind {
        ClockKind::Virtual => {
            let runners = runners.map(|runner| Box::new(runner) as BoxedRunner).collect();
            zonal_sim::run(runners, Nanos(0), CostModel::Flat(Nanos(1000))).expect("no stall")
        }
        ClockKind::Real => {
            let thread =
                |runner| JobThread { runner: Box::new(runner), cpus: Vec::new(), name: None };
            let threads = runners.map(thread).collect();
            let clock = RealClock::start();
            let outcomes =
                jobs::run(threads, &clock, &AtomicBool::new(false), || {}).expect("threads");
            (outcomes, zonal_blk::Clock::now(&clock))
        }
    };
    Run { outcomes, queue, end }
}

impl Run {
    fn total_ios(&self, dir: DataDir) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.stats.ios(dir)).sum()
    }

    fn errors(&self) -> Vec<Status> {
        self.outcomes.iter().filter_map(|outcome| outcome.error).collect()
    }
}

#[test]
fn every_write_of_a_job_reaches_the_device_once_and_in_order() {
    for clock_kind in BOTH {
        let text = "[fill]\nrw=write\nbs=4k\niodepth=16\nzonemode=zbd\n";
        let run = run(clock_kind, "null:zones=8,zone_size=1M,max_open=0", ZoneWrite::Plug, text);
        assert_eq!(run.errors(), []);
        assert_eq!(run.total_ios(DataDir::Write), 8 * 256, "{clock_kind:?}");
        assert_eq!(run.queue.live_plugs(), 0, "full zones let their plugs go");
    }
}

#[test]
fn appends_of_a_job_are_verified_where_they_landed() {
    let text = "[append]\nrw=write\nzone_append=1\nbs=4k\niodepth=16\nzonemode=zbd\nnumjobs=2\n\
                size=2z\nio_size=1M\noffset_increment=2z\nverify=crc32c\n";
    for clock_kind in BOTH {
        // The device's own, and emulated by the block layer.
        for append_max in ["64K", "0"] {
            let null = "null:zones=4,zone_size=1M,max_open=0,latency=10us,jitter=20us";
            for device in [null, &SMALL_ZNS.replace("append_max=256K,", "")] {
                let device = format!("{device},memory=true,append_max={append_max}");
                let run = run(clock_kind, &device, ZoneWrite::Plug, text);
                assert_eq!(run.errors(), [], "{clock_kind:?} {device}");
                let found: usize = run.outcomes.iter().map(|job| job.findings.kept().len()).sum();
                assert_eq!(found, 0, "{clock_kind:?} {device}");
                let [read, written] = [DataDir::Read, DataDir::Write].map(|dir| run.total_ios(dir));
                assert!(read == written && written > 0, "{clock_kind:?} {device}: {read}");
                let plugs = run.queue.dump_plugs(true);
                let appends: u64 = plugs.iter().map(|plug| u64::from(plug.counters.appends)).sum();
                let native = run.queue.limits().append_max_sectors > 0;
                assert_eq!((appends, native), (written, append_max != "0"), "{device}");
            }
        }
    }
}

#[test]
fn concurrent_writers_pass_with_plugs_and_fail_without() {
    let text = "[rnd]\nrw=randwrite\nbs=4k\niodepth=16\nnumjobs=4\nzonemode=zbd\nnumber_ios=2000\n";
    for clock_kind in BOTH {
        for latency in ["0", "10us,jitter=20us"] {
            let device = format!("null:zones=8,zone_size=1M,max_open=0,latency={latency}");
            for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
                let ordered = run(clock_kind, &device, policy, text);
                assert_eq!(ordered.errors(), [], "{clock_kind:?} {policy:?} {latency}");
                assert_eq!(ordered.total_ios(DataDir::Write), 8000);
            }
            let free = run(clock_kind, &device, ZoneWrite::Off, text);
            assert!(free.errors().contains(&Status::IoError), "{clock_kind:?} off {latency}");
        }
    }
}

/// A ZNS drive with small zones, so that they fill, are reset and erased.
const SMALL_ZNS: &str = "zns:zones=16,zone_size=1M,zone_capacity=768K,max_open=6,max_active=0,\
     block=96K,max_io=256K,append_max=256K,buffer=2M,erase=200us";

#[test]
fn writers_and_readers_share_a_zns_drive_and_all_finish() {
    let text = "[global]\nbs=16k\niodepth=8\nnumber_ios=1000\n\
                [write]\nrw=randwrite\nnumjobs=3\nzonemode=zbd\n[read]\nrw=randread\nnorandommap\n";
    for clock_kind in BOTH {
        for options in ["suspend=false", "memory=true,suspend=true", "power_safe=false,queues=2"] {
            let device = format!("{SMALL_ZNS},program=100us,{options}");
            let run = run(clock_kind, &device, ZoneWrite::Plug, text);
            assert_eq!(run.errors(), [], "{clock_kind:?} {options}");
            let ios = [DataDir::Write, DataDir::Read].map(|dir| run.total_ios(dir));
            assert_eq!(ios, [3000, 1000], "{clock_kind:?} {options}");
        }
    }
}

#[test]
fn latencies_of_a_zns_drive_are_distributed_alike_on_both_clocks() {
    // Slow, so that the machine's own noise is small beside it.
    let device = format!("{SMALL_ZNS},write_time=2ms,zone_switch=1ms,zone_rate=10MB/s,program=8ms");
    let text = "[rnd]\nrw=randwrite\nbs=4k\niodepth=4\nzonemode=zbd\nnumber_ios=150\n";
    let quantiles = |clock_kind| {
        let run = run(clock_kind, &device, ZoneWrite::Plug, text);
        let stats = &run.outcomes[0].stats;
        stats.clat_histogram(DataDir::Write).percentiles(&[10.0, 50.0, 90.0])
    };
    let expected = quantiles(ClockKind::Virtual);
    // A busy machine makes latencies longer for a while, but not in every attempt.
    let mut attempts = Vec::new();
    for _ in 0..10 {
        let real = quantiles(ClockKind::Real);
        let ratios = [0, 1, 2].map(|i| real[i] as f64 / expected[i] as f64);
        if ratios.iter().all(|ratio| (0.6..1.6).contains(ratio)) {
            return;
        }
        attempts.push(ratios);
    }
    panic!("quantiles in real time by those in virtual time: {attempts:?}");
}

#[test]
fn more_jobs_than_hardware_queues_share_them() {
    let text = "[rnd]\nrw=randwrite\nbs=4k\niodepth=8\nnumjobs=5\nzonemode=zbd\nnumber_ios=1000\n";
    for clock_kind in BOTH {
        let device = "null:zones=16,zone_size=1M,max_open=0,queues=2,depth=4,latency=2us";
        let run = run(clock_kind, device, ZoneWrite::Plug, text);
        assert_eq!(run.errors(), []);
        assert_eq!(run.total_ios(DataDir::Write), 5000, "{clock_kind:?}");
    }
}

#[test]
fn data_written_are_read_back_by_mixed_jobs() {
    let text = "[mix]\nrw=randrw\nbs=4k\niodepth=8\nnumjobs=2\nzonemode=zbd\nnumber_ios=2000\n";
    for clock_kind in BOTH {
        let device = "null:zones=8,zone_size=1M,max_open=0,memory=true";
        let run = run(clock_kind, device, ZoneWrite::Plug, text);
        assert_eq!(run.errors(), []);
        let both = run.total_ios(DataDir::Read) + run.total_ios(DataDir::Write);
        assert!(both > 0, "{clock_kind:?}");
    }
}

#[test]
fn latency_is_never_less_than_the_devices() {
    let text = "[lat]\nrw=randread\nbs=4k\niodepth=4\nnumber_ios=500\nnorandommap\n";
    for clock_kind in BOTH {
        let run = run(clock_kind, "null:zoned=false,size=1G,latency=50us", ZoneWrite::Off, text);
        let stats = &run.outcomes[0].stats;
        assert!(stats.lat(DataDir::Read).min() >= 50_000, "{clock_kind:?}");
        assert_eq!(stats.ios(DataDir::Read), 500);
    }
}

#[test]
fn in_virtual_time_a_device_of_constant_latency_gives_depth_over_latency() {
    let text = "[rate]\nrw=randread\nbs=4k\niodepth=8\nruntime=1\ntime_based\nnorandommap\n";
    let device = "null:zoned=false,size=1G,latency=100us";
    let run = run(ClockKind::Virtual, device, ZoneWrite::Off, text);
    let rate = run.outcomes[0].stats.ios_per_second(DataDir::Read);
    // 8 in flight, each 100 us, and the 8 us of thread time that a batch of eight costs.
    assert!((rate / 80_000.0 - 1.0).abs() < 0.1, "{rate} IOPS");
    assert!(run.end >= Nanos(1_000_000_000) && run.end < Nanos(1_001_000_000), "{}", run.end);
}

#[test]
fn in_virtual_time_rates_and_think_times_hold_exactly() {
    for (limits, expected) in [
        ("rate=4m", 1024),
        ("rate_iops=500", 500),
        ("thinktime=1000", 998),
        ("thinktime=10000\nthinktime_blocks=10", 998),
    ] {
        let text = format!("[slow]\nrw=read\nbs=4k\niodepth=1\nruntime=1\ntime_based\n{limits}\n",);
        let device = "null:zoned=false,size=1G,latency=1us";
        let run = run(ClockKind::Virtual, device, ZoneWrite::Off, &text);
        let ios = run.total_ios(DataDir::Read);
        let error = (ios as f64 / f64::from(expected) - 1.0).abs();
        assert!(error < 0.01, "{limits}: {ios} I/Os, {expected} expected");
    }
}

#[test]
fn what_happens_in_ramp_time_is_not_measured() {
    let text = "[ramp]\nrw=read\nbs=4k\nramp_time=1\nruntime=1\ntime_based\n";
    let device = "null:zoned=false,size=1G,latency=100us";
    let run = run(ClockKind::Virtual, device, ZoneWrite::Off, text);
    let ios = run.total_ios(DataDir::Read);
    assert!((9_700..=10_100).contains(&ios), "one second's worth of 100 us reads, not two: {ios}");
    assert!(run.end >= Nanos(2_000_000_000));
}

#[test]
fn jobs_that_want_the_same_zones_take_turns_and_all_finish() {
    let text = "[seq]\nrw=write\nbs=4k\niodepth=4\nnumjobs=3\nzonemode=zbd\nio_size=2000k\n";
    for clock_kind in BOTH {
        let device = "null:zones=2,zone_size=1M,max_open=1,latency=1us";
        let run = run(clock_kind, device, ZoneWrite::Plug, text);
        assert_eq!(run.errors(), []);
        assert_eq!(run.total_ios(DataDir::Write), 1500, "{clock_kind:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_virtual_run() {
    let text = "[rnd]\nrw=randrw\nbs=4k\niodepth=16\nnumjobs=3\nzonemode=zbd\nnumber_ios=2000\n";
    let device = "null:zones=32,zone_size=1M,max_open=4,latency=10us,jitter=10us";
    let once = || {
        let run = run(ClockKind::Virtual, device, ZoneWrite::Plug, text);
        (run.end, format!("{:?}", run.outcomes.iter().map(|o| &o.stats).collect::<Vec<_>>()))
    };
    assert_eq!(once(), once());
}
