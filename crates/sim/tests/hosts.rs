//! Costs of a host, in virtual time on a device with a latency of its own.
use std::sync::Arc;
use zonal_blk::{Bytes, Device, Nanos, Queue, QueueOptions};
use zonal_device::{NullConfig, NullDevice, device_spec};
use zonal_fio::job::{DataDir, Job};
use zonal_fio::jobfile::{MemoryEnvironment, parse_str};
use zonal_fio::plan;
use zonal_fio::runner::Outcome;
use zonal_sim::{BoxedRunner, CostModel, HostCost};

const LATENCY: Nanos = Nanos(80_000);

/// Runs a job file of one phase on a device that takes any number of commands at a time.
fn run(host: HostCost, text: &str) -> Vec<Outcome> {
    let device = NullConfig {
        zoned: false,
        size: Bytes(1 << 30),
        latency: LATENCY,
        ..NullConfig::default()
    };
    run_on(Arc::new(NullDevice::new(&device).expect("a device")), host, text)
}

fn run_on(device: Arc<dyn Device>, host: HostCost, text: &str) -> Vec<Outcome> {
    let queue = Queue::attach(device, QueueOptions::default()).expect("a queue");
    let jobs = parse_str("hosts.fio", text, &MemoryEnvironment::default()).expect("a job file");
    let jobs: Vec<Arc<Job>> = jobs.jobs.into_iter().map(Arc::new).collect();
    let phases = plan::phases(&jobs).expect("a few jobs");
    let [tasks] = &phases[..] else { panic!("one phase") };
    let runner = |(id, task): (u32, &plan::Task)| {
        let region = task.region(queue.limits()).expect("the job fits");
        let channel = queue.channel().expect("a channel");
        Box::new(task.runner(region, channel, None, id, 0, false)) as BoxedRunner
    };
    let runners = (0..).zip(tasks).map(runner).collect();
    zonal_sim::run(runners, Nanos(0), CostModel::Host(host)).expect("no stall").0
}

/// Reads of all jobs.
fn reads(host: HostCost, jobs: u32) -> f64 {
    let text = format!("[a]\nrw=randread\nbs=4k\nnumjobs={jobs}\nruntime=200ms\ntime_based\n");
    let outcomes = run(host, &text);
    outcomes.iter().map(|outcome| outcome.stats.ios(DataDir::Read)).sum::<u64>() as f64
}

#[test]
fn threads_that_poll_share_processors_and_fewer_jobs_have_one_each() {
    for (processors, threads, share) in [(10, 1, 10.0 / 14.0), (20, 2, (10.0_f64 / 14.0).powi(2))] {
        let few = HostCost { processors, threads, ..HostCost::default() };
        let ratio = |jobs| reads(few, jobs) / reads(HostCost::default(), jobs);
        assert!((ratio(14) - share).abs() < 0.03, "{threads} threads: {} of {share}", ratio(14));
        assert_eq!(ratio(10), 1.0);
    }
}

#[test]
fn pages_of_data_take_time_and_cpu_by_their_number_and_a_discard_has_none() {
    let host = HostCost { page: Nanos(1000), ..HostCost::default() };
    let of = |rw: &str, bs: &str| {
        let text = format!("[a]\nrw={rw}\nbs={bs}\nsize=1m\n");
        run(host, &text).remove(0).stats
    };
    let slowest = |rw, bs, dir| of(rw, bs).lat(dir).max() - LATENCY.0;
    assert_eq!(slowest("read", "4k", DataDir::Read), 1000);
    assert_eq!(slowest("write", "64k", DataDir::Write), 16_000);
    assert_eq!(slowest("trim", "64k", DataDir::Trim), 0);
    let deep = "[a]\nrw=randread\nbs=4k\niodepth=256\nruntime=100ms\ntime_based\n";
    let reads = run(host, deep)[0].stats.ios(DataDir::Read);
    assert!((99_000..=101_000).contains(&reads), "a page costs 1 us of the thread: {reads}");
}

#[test]
fn first_io_after_a_second_takes_longer_and_the_next_does_not() {
    let rouse = Nanos(500_000);
    let host = HostCost { rouse, ..HostCost::default() };
    let latest = |pause: &str| {
        let text = format!("[a]\nrw=read\nbs=4k\nsize=16k\nthinktime={pause}\n");
        run(host, &text)[0].stats.lat(DataDir::Read).max()
    };
    assert_eq!(latest("900ms"), LATENCY.0);
    assert_eq!(latest("1100ms"), (LATENCY + rouse).0);
}

#[test]
fn an_eighth_of_what_the_first_io_takes_longer_is_submission_latency() {
    let host = HostCost { rouse: Nanos(800_000), ..HostCost::default() };
    let text = "[a]\nrw=read\nbs=4k\nsize=16k\nthinktime=2s\n";
    let stats = &run(host, text)[0].stats;
    assert_eq!(stats.slat(DataDir::Read).max(), 100_000);
    assert_eq!(stats.clat(DataDir::Read).max(), LATENCY.0 + 700_000);
}

#[test]
fn a_ring_completes_further_ios_one_after_another() {
    let mut host = HostCost { wake: Nanos(20_000), rouse: Nanos(1), ..HostCost::default() };
    let text = "[a]\nrw=randread\nbs=4k\niodepth=64\niodepth_batch_complete_max=1\nnorandommap\n\
                runtime=100ms\ntime_based\n";
    let ios = |host| run(host, text)[0].stats.ios(DataDir::Read);
    let reads = ios(host);
    assert!((9_900..=10_100).contains(&reads), "half of the time to wake is the ring's: {reads}");
    host.rouse = Nanos(0);
    let reads = ios(host);
    assert!((62_000..=66_000).contains(&reads), "no ring, 64 reads in 100 us: {reads}");
}

#[test]
fn io_of_other_threads_does_not_wake_a_thread_earlier() {
    let host = HostCost { wake: Nanos(50_000), ..HostCost::default() };
    let job = |name: &str, options: &str| {
        format!("[{name}]\nbs=4k\nnorandommap\nruntime=50ms\ntime_based\n{options}\n")
    };
    let reader = job("r", "rw=randread\nsize=32m");
    let writers = job("w", "rw=randwrite\noffset=32m\nsize=32m\nnumjobs=4");
    let fastest = |text: &str| {
        let spec = "ssd:size=64M,overprovision=28%,dies=4,channels=2,block=96K,prefill=random:1";
        let spec = device_spec::parse(spec).expect("a device");
        let device = device_spec::build(&spec).expect("a device");
        run_on(device, host, text)[0].stats.lat(DataDir::Read).min()
    };
    let (alone, beside) = (fastest(&reader), fastest(&format!("{reader}{writers}")));
    assert!(beside >= alone, "{beside} ns beside writers, {alone} ns alone");
}
