//! Real threads over a failing device: every bio completes once and nothing is left behind. Statuses
//! depend on the order of threads, so they are not checked. Also for thread sanitizers
//! (docs/reliability.md).
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::yield_now;
use zonal_blk::sched::Scheduler;
use zonal_blk::{
    Bio, Bytes, Channel, Nanos, Op, Queue, QueueOptions, Sector, Status, ZoneNo, ZoneWrite,
};
use zonal_device::control::FaultHooks;
use zonal_device::rng::Rng;
use zonal_device::{NullConfig, NullDevice};
use zonal_torture::fault::{AbortResponse, Effect, FaultSpec};
use zonal_torture::{FaultConfig, FaultDevice};

const THREADS: usize = 4;
const ZONES: u32 = 6;
const ZONE: u64 = 64;
const BIOS: u64 = if cfg!(miri) { 60 } else { 4000 };
/// Bios of a thread in flight.
const DEPTH: usize = 16;

fn device() -> Arc<FaultDevice> {
    let null = NullConfig {
        zones: ZONES,
        zone_size: Bytes(ZONE * 512),
        conventional: 1,
        depth: 8,
        ..NullConfig::default()
    };
    let inner: Arc<dyn FaultHooks> = Arc::new(NullDevice::new(&null).unwrap());
    FaultDevice::new(inner, FaultConfig::default())
}

fn bio(rng: &mut Rng, id: u64) -> Bio {
    let ops = [Op::ZoneAppend, Op::Write, Op::Read, Op::WriteZeroes, Op::ZoneReset, Op::ZoneFinish];
    // Appends fill the zones; sometimes one is reset.
    let op = match rng.below(32) {
        0..20 => Op::ZoneAppend,
        other => ops[(other % 6) as usize],
    };
    let start = rng.below(ZONES.into()) * ZONE;
    match op {
        Op::ZoneAppend => Bio::new(op, Sector(start), 4, id),
        Op::ZoneReset | Op::ZoneFinish => Bio::new(op, Sector(start), 0, id),
        _ => Bio::new(op, Sector(start + rng.below(ZONE - 8)), 4, id),
    }
}

/// One thread: submits, and polls until everything has completed. Returns how often each bio
/// completed.
fn work(mut channel: Channel, seed: u64, working: &AtomicUsize, clock: &AtomicU64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    // Time passes as the threads work, so that no scheduler waits forever.
    let now = || Nanos(clock.fetch_add(10_000, Ordering::Relaxed));
    let mut completed = vec![0; BIOS as usize];
    let (mut next, mut done) = (0, Vec::new());
    loop {
        while next < BIOS && channel.outstanding() < DEPTH {
            channel.submit(now(), bio(&mut rng, next));
            next += 1;
        }
        if channel.poll(now(), &mut done) == 0 {
            yield_now();
        }
        done.drain(..).for_each(|completion| completed[completion.user_data as usize] += 1);
        if next == BIOS && channel.outstanding() == 0 {
            break;
        }
    }
    working.fetch_sub(1, Ordering::AcqRel);
    channel.drain();
    while !channel.is_idle() {
        channel.poll(now(), &mut done);
        yield_now();
    }
    assert!(done.is_empty(), "completions on an idle channel");
    completed
}

/// Injects faults, freezes and changes the queue until all threads are done.
fn disturb(device: &FaultDevice, queue: &Queue, policies: &[ZoneWrite], working: &AtomicUsize) {
    let mut rng = Rng::new(1);
    // Schedulers that wait are too slow for miri.
    let schedulers = if cfg!(miri) { 1 } else { Scheduler::NAMES.len() as u64 };
    while working.load(Ordering::Acquire) > 0 {
        device.clear_faults();
        let statuses = [Status::IoError, Status::Timeout];
        let status = Some(statuses[rng.below(2) as usize]);
        let effect = [Effect::All, Effect::Nothing, Effect::Part(1)][rng.below(3) as usize];
        let delay = Nanos(if rng.below(4) == 0 { u64::MAX } else { rng.below(3) });
        let responses = [
            AbortResponse::NotExecuted,
            AbortResponse::Executed,
            AbortResponse::Delayed(Nanos(5)),
            AbortResponse::ResetTimer(1),
        ];
        let on_abort = responses[rng.below(4) as usize];
        device.inject(rng.below(2) == 0, FaultSpec { delay, effect, status, on_abort });
        device.refuse_starts(rng.below(3) as u32);
        if rng.below(4) == 0 {
            queue.freeze();
            while !queue.is_quiescent() {
                yield_now();
            }
            let policy = policies[rng.below(policies.len() as u64) as usize];
            match rng.below(3) {
                0 => queue.set_zone_write(policy),
                1 => queue.set_nr_requests(1 + rng.below(8) as u16),
                _ => {
                    let name = Scheduler::NAMES[rng.below(schedulers) as usize];
                    queue.set_scheduler(name.parse().unwrap())
                }
            }
            .expect("a frozen, quiescent queue");
            queue.unfreeze();
        }
        yield_now();
    }
}

fn check_threads(scheduler: Scheduler, share_queues: bool) {
    let device = device();
    let options = QueueOptions {
        zone_write: Some(ZoneWrite::Plug),
        scheduler,
        share_queues,
        io_timeout: Nanos(1_000_000),
        ..QueueOptions::default()
    };
    let as_device: Arc<FaultDevice> = Arc::clone(&device);
    let queue = Queue::attach(as_device, options).unwrap();
    let working = AtomicUsize::new(THREADS);
    let failed = AtomicBool::new(false);
    let clock = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..THREADS as u64 {
            let channel = queue.channel().unwrap();
            let (working, failed, clock) = (&working, &failed, &clock);
            scope.spawn(move || {
                let completed = work(channel, seed, working, clock);
                failed.fetch_or(completed.iter().any(|&times| times != 1), Ordering::Relaxed);
            });
        }
        scope.spawn(|| disturb(&device, &queue, &[ZoneWrite::Plug, ZoneWrite::Qd1], &working));
    });
    assert!(!failed.into_inner(), "every bio completes once");
    assert!(queue.is_quiescent());
    let references: u32 = queue.dump_plugs(true).iter().map(|plug| plug.references).sum();
    assert_eq!(references, queue.live_plugs(), "only the table holds plugs");
    queue.report_zones(ZoneNo(0), ZONES as usize, &mut Vec::new()).unwrap();
}

#[test]
fn threads_with_their_own_queues_lose_nothing() {
    check_threads(Scheduler::None, false);
}

#[test]
fn threads_with_shared_queues_lose_nothing() {
    check_threads(Scheduler::None, true);
}

#[test]
#[cfg_attr(miri, ignore = "schedulers that wait are too slow for miri")]
fn threads_with_a_scheduler_lose_nothing() {
    for &name in Scheduler::NAMES.iter().filter(|&&name| name != "none") {
        check_threads(name.parse().unwrap(), true);
    }
}
