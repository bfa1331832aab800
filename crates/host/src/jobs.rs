//! Runs each runner on a thread of its own, on the CPUs that its job asks for.
use crate::RealClock;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use zonal_blk::{Clock, Nanos};
use zonal_fio::runner::{Outcome, Step, SteppedBy};
use zonal_fio::stats::Usage;

/// A wait that is longer than this is slept, up to this long before its end.
const SLEEP_SLACK: Nanos = Nanos(100_000);

/// How often the stop flag is looked at, in steps.
const STEPS_PER_STOP_CHECK: u32 = 64;

/// A runner and where it runs.
pub struct Thread {
    /// A clone of a job, or a file system with all clones of its job.
    pub runner: Box<dyn SteppedBy<RealClock>>,
    /// CPUs that the thread may use; empty for all.
    pub cpus: Vec<usize>,
}

/// The CPUs that this process may use.
pub fn online_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Runs all threads until the last job is done; calls `watch` ten times a second meanwhile. When
/// `stop` is set, the jobs end as at the end of their run time. Gives the outcomes of all clones,
/// in order.
pub fn run(
    threads: Vec<Thread>,
    clock: &RealClock,
    stop: &AtomicBool,
    mut watch: impl FnMut(),
) -> Vec<Outcome> {
    let left = AtomicUsize::new(threads.len());
    thread::scope(|scope| {
        let watcher = thread::current();
        let handles: Vec<_> = threads
            .into_iter()
            .map(|Thread { runner, cpus }| {
                let (left, watcher) = (&left, watcher.clone());
                scope.spawn(move || {
                    pin(&cpus);
                    let mut outcomes = drive_runner(runner, clock, stop);
                    outcomes.iter_mut().for_each(|outcome| outcome.thread_id = thread_id());
                    if let Some(first) = outcomes.first_mut() {
                        // What a file system's clones used together cannot be told apart.
                        first.stats.set_usage(usage());
                    }
                    if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                        watcher.unpark();
                    }
                    outcomes
                })
            })
            .collect();
        while left.load(Ordering::Acquire) > 0 && !handles.iter().all(|h| h.is_finished()) {
            thread::park_timeout(Duration::from_millis(100));
            watch();
        }
        let join = |handle: thread::ScopedJoinHandle<'_, Vec<Outcome>>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().flat_map(join).collect()
    })
}

/// Best effort, as fio's: a CPU that went away does not stop the job.
fn pin(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    if let Err(error) = sched_setaffinity(None, &set) {
        eprintln!("zonal: cannot run on CPUs {cpus:?}: {error}");
    }
}

fn thread_id() -> u32 {
    u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0)
}

/// What the calling thread has used so far.
fn usage() -> Usage {
    let Ok(used) = getrusage(UsageWho::RUSAGE_THREAD) else {
        return Usage::default();
    };
    let nanos = |time: TimeVal| Nanos(u64::try_from(time.num_microseconds()).unwrap_or(0) * 1000);
    let count = |count: i64| u64::try_from(count).unwrap_or(0);
    Usage {
        user: nanos(used.user_time()),
        system: nanos(used.system_time()),
        context_switches: count(
            used.voluntary_context_switches() + used.involuntary_context_switches(),
        ),
        major_faults: count(used.major_page_faults()),
        minor_faults: count(used.minor_page_faults()),
    }
}

fn drive_runner(
    mut runner: Box<dyn SteppedBy<RealClock>>,
    clock: &RealClock,
    stop: &AtomicBool,
) -> Vec<Outcome> {
    let mut steps = 0_u32;
    loop {
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(STEPS_PER_STOP_CHECK) && stop.load(Ordering::Relaxed) {
            runner.stop();
        }
        match runner.step(clock) {
            Step::Busy { .. } => {}
            // Another job may let go of the zone at any moment.
            Step::Wait(_) if runner.is_contended() => thread::yield_now(),
            Step::Wait(until) => wait(until, clock),
            Step::Done => return runner.into_outcomes(),
        }
    }
}

/// Lets other threads go first: what is waited for may be theirs to do.
fn wait(until: Option<Nanos>, clock: &RealClock) {
    let now = clock.now();
    match until {
        Some(at) if at > now + SLEEP_SLACK => {
            // Not to the end at once: another thread may have something for this one.
            let nanos = (at - now - SLEEP_SLACK).0.min(1_000_000);
            thread::sleep(Duration::from_nanos(nanos));
        }
        _ => thread::yield_now(),
    }
}
