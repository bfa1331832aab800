//! Runs each runner on a thread of its own, on the CPUs that its job asks for.
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use zonal_blk::{Channel, Nanos, Wake};
use zonal_fio::runner::{ClockedRunner, Outcome, RunnerStep};
use zonal_fio::stats::Usage;
use zonal_os::RealClock;
use zonal_os::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, channels_next_event, serve};

/// How many steps a busy runner takes between two looks at the stop flag.
const STEPS_PER_STOP_CHECK: u32 = 64;
/// The longest sleep of a runner, which is not woken when the stop flag is set.
const STOP_CHECK_INTERVAL: Nanos = Nanos(100_000_000);
/// A runner's sleeps end this long before their deadline: it measures latencies, to which a late
/// wake-up and cold caches would add.
const SLACK: Nanos = Nanos(100_000);
/// How often the progress of the runners is shown.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// A runner and where it runs.
pub struct JobThread {
    /// A clone of a job, or a file system with all clones of its job.
    pub runner: Box<dyn ClockedRunner<RealClock>>,
    /// CPUs that the thread may use; empty for all.
    pub cpus: Vec<usize>,
    /// Its name, if it has one (`comm`).
    pub name: Option<String>,
}

/// Runs all threads until the last job is done, and calls `watch` ten times a second meanwhile. When
/// `stop` is set, the jobs end as at the end of their run time. Returns the outcomes of all clones, in
/// order.
///
/// # Errors
/// The process has too few file descriptors for as many threads.
pub fn run(
    threads: Vec<JobThread>,
    clock: &RealClock,
    stop: &AtomicBool,
    mut watch: impl FnMut(),
) -> io::Result<Vec<Outcome>> {
    allow_fds(threads.len());
    let pollers: io::Result<Vec<Poller>> =
        threads.iter().map(|_| Ok(Poller::new(WaitPolicy::default())?.with_slack(SLACK))).collect();
    let left = AtomicUsize::new(threads.len());
    thread::scope(|scope| {
        let watcher = thread::current();
        let handles: Vec<_> = threads
            .into_iter()
            .zip(pollers?)
            .map(|(JobThread { runner, cpus, name }, mut poller)| {
                let (left, watcher) = (&left, watcher.clone());
                let builder =
                    thread::Builder::new().name(name.unwrap_or_default().replace('\0', ""));
                let body = move || {
                    pin(&cpus);
                    let outcomes = run_job(runner, clock, stop, &mut poller);
                    if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                        watcher.unpark();
                    }
                    outcomes
                };
                builder.spawn_scoped(scope, body).expect("the system has a thread")
            })
            .collect();
        while left.load(Ordering::Acquire) > 0 && !handles.iter().all(|h| h.is_finished()) {
            thread::park_timeout(WATCH_INTERVAL);
            watch();
        }
        let join = |handle: thread::ScopedJoinHandle<'_, Vec<Outcome>>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        Ok(handles.into_iter().flat_map(join).collect())
    })
}

/// Raises the soft limit on file descriptors, often 1024, so that each of many threads can have
/// one. Best effort: what is missing is an error when a thread asks for it.
fn allow_fds(threads: usize) {
    const OTHERS: u64 = 512;
    let wanted = u64::try_from(threads).unwrap_or(u64::MAX).saturating_add(OTHERS);
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < wanted.min(hard)
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    }
}

fn run_job(
    runner: Box<dyn ClockedRunner<RealClock>>,
    clock: &RealClock,
    stop: &AtomicBool,
    poller: &mut Poller,
) -> Vec<Outcome> {
    let mut job = RunningJob { runner, stop, steps: 0, next: Wake::Now };
    let Ok(()) = serve(&mut job, clock, poller);
    let mut outcomes = job.runner.into_outcomes();
    outcomes.iter_mut().for_each(|outcome| outcome.thread_id = thread_id());
    if let Some(first) = outcomes.first_mut() {
        // The usage of a file system's clones cannot be told apart.
        first.stats.set_usage(usage());
    }
    outcomes
}

/// Best effort, as fio's: a CPU that went away does not stop the job.
fn pin(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::warn!("cannot run on CPUs {cpus:?}: {error}");
    }
}

fn thread_id() -> u32 {
    u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0)
}

/// The resources that the calling thread has used so far.
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

/// A runner as a frontend: its requests are those that it generates.
struct RunningJob<'a> {
    runner: Box<dyn ClockedRunner<RealClock>>,
    stop: &'a AtomicBool,
    steps: u32,
    /// When there is something to do, as of the last step.
    next: Wake,
}

impl Frontend for RunningJob<'_> {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_PER_STOP_CHECK) || self.next != Wake::Now {
            self.next = Wake::Now;
            if self.stop.load(Ordering::Relaxed) || self.runner.is_ended() {
                self.runner.stop();
            }
        }
        Ok(match self.runner.step(clock) {
            RunnerStep::Busy { .. } => Progress::Worked,
            // Another job may release the zone at any moment.
            RunnerStep::Wait(_) if self.runner.is_contended() => Progress::Contended,
            RunnerStep::Wait(until) => {
                self.next = until.map_or(Wake::External, Wake::At);
                Progress::Idle
            }
            RunnerStep::Done => Progress::Done,
        })
    }

    /// A runner is done when its channels are idle.
    fn drain(&mut self, _: Nanos) -> bool {
        true
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        self.runner.for_each_channel(visit);
    }

    fn wait_fds(&mut self, _: &mut WaitSet) {}

    fn next_event(&mut self, now: Nanos) -> Wake {
        let stop_check = Wake::At(now + STOP_CHECK_INTERVAL);
        channels_next_event(self).min(self.next).min(stop_check)
    }
}
