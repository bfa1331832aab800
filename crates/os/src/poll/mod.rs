//! Waiting: the only code of this crate that sleeps.
//!
//! ```text
//!  serve     the loop of every thread: poll, wait, drain
//!  Poller    how that thread waits: it spins, yields, or sleeps until
//!              a file descriptor is ready      of the frontend or a backend; an io_uring has one too
//!              its waker is called             mail from another channel, a job from another thread
//!              the deadline is near            Channel::next_event
//!  Readiness a descriptor for programs that wait themselves
//!  socket    a non-blocking socket
//!  uring     io_uring
//! ```
pub mod fixed_buffers;
mod readiness;
mod serve;
pub mod socket;
pub mod uring;

pub use readiness::Readiness;
pub use serve::{Frontend, Progress, channels_next_event, serve};

use crate::RealClock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::set_current_timer_slack;
use std::hint::spin_loop;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::{Clock, Nanos, Wake, WakeUp};

/// A sleep ends this long before its deadline; the rest is spun, since waking up takes time.
const SLEEP_SLACK: Nanos = Nanos(20_000);
/// How long [`WaitPolicy::default`] yields before it sleeps: longer than a busy peer takes to
/// answer.
pub const SPIN_TIME: Duration = Duration::from_micros(50);
/// A yield that takes longer than this gave the processor to a thread with other work.
const SLOW_YIELD: Duration = Duration::from_micros(200);
/// How long nothing is yielded after that.
const NO_SPIN_TIME: Duration = Duration::from_millis(50);

/// How a thread with nothing to do waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPolicy {
    /// It polls again immediately. The lowest latency; costs a whole processor.
    Spin,
    /// It polls again after it has offered the processor to other threads (`sched_yield`). Costs
    /// what nobody else wants of a processor.
    Yield,
    /// It yields for this long, then sleeps.
    Sleep(Duration),
}

impl Default for WaitPolicy {
    fn default() -> Self {
        WaitPolicy::Sleep(SPIN_TIME)
    }
}

/// Wakes a [`Poller`] that sleeps: an eventfd.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    fn new() -> io::Result<Self> {
        Ok(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    fn reset(&self) {
        // Empty if it was reset before.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl WakeUp for Waker {
    fn wake(&self) {
        // Full if nobody has slept for 2^64 calls.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// The file descriptors that a thread waits for.
#[derive(Debug, Default)]
pub struct WaitSet {
    fds: Vec<libc::pollfd>,
    /// The file descriptors of channels, which are to be read; kept for its capacity.
    readable: Vec<RawFd>,
}

impl WaitSet {
    /// Waits until `fd` can be read.
    pub fn read(&mut self, fd: RawFd) {
        self.fds.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    }

    /// Waits until `fd` can be written.
    pub fn write(&mut self, fd: RawFd) {
        self.fds.push(libc::pollfd { fd, events: libc::POLLOUT, revents: 0 });
    }

    fn add_readable(&mut self) {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        self.fds.extend(self.readable.drain(..).map(entry));
    }

    /// Sleeps until one of them is ready, a signal is caught or `timeout` is over.
    fn sleep(&mut self, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = self.fds.len().try_into().expect("a thread waits for few descriptors");
        // SAFETY: `fds` has `count` entries that the call may write to, and `timeout` is null or a
        // timespec that outlives it. A descriptor that is closed meanwhile is reported, not used.
        unsafe { libc::ppoll(self.fds.as_mut_ptr(), count, timeout, std::ptr::null()) };
    }
}

/// How one thread waits.
#[derive(Debug)]
pub struct Poller {
    policy: WaitPolicy,
    slack: Nanos,
    waker: Arc<Waker>,
    set: WaitSet,
    spin: SpinWait,
}

impl Poller {
    /// A poller for one thread.
    ///
    /// # Errors
    /// The process has no file descriptors left.
    pub fn new(policy: WaitPolicy) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        Ok(Poller {
            policy,
            slack: SLEEP_SLACK,
            waker,
            set: WaitSet::default(),
            spin: SpinWait::default(),
        })
    }

    /// The same with sleeps that end `slack` before their deadline, for a thread whose wake-ups must not
    /// show in what it measures.
    pub fn with_slack(self, slack: Nanos) -> Self {
        Poller { slack, ..self }
    }

    /// Wakes the thread that uses this poller.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// There was something to do: the next wait begins by yielding again.
    #[inline]
    fn reset(&mut self) {
        self.spin.reset();
    }

    /// Waits until the frontend, or with `draining` only its channels, have to be polled again. May
    /// return sooner.
    fn wait<F: Frontend>(&mut self, frontend: &mut F, clock: &RealClock, draining: bool) {
        let now = clock.now();
        let wake = next_event(frontend, now, draining);
        if wake.is_due(now + self.slack) {
            return self.relax();
        }
        match frontend.wait_policy(self.policy) {
            WaitPolicy::Spin => spin_loop(),
            WaitPolicy::Yield => thread::yield_now(),
            WaitPolicy::Sleep(time) if self.spin.spin(time) => {}
            WaitPolicy::Sleep(_) => self.sleep(frontend, clock, draining),
        }
    }

    /// Passes a moment without sleeping.
    fn relax(&mut self) {
        if self.policy == WaitPolicy::Spin || self.spin.is_crowded(Instant::now()) {
            spin_loop();
        } else {
            self.spin.yield_once();
        }
    }

    fn sleep<F: Frontend>(&mut self, frontend: &mut F, clock: &RealClock, draining: bool) {
        self.set.fds.clear();
        self.set.read(self.waker.0.as_raw_fd());
        let mut idle = true;
        let (waker, readable) = (&self.waker, &mut self.set.readable);
        frontend.for_each_channel(&mut |channel| {
            channel.set_waker(Arc::clone(waker) as _);
            channel.wait_fds(readable);
            idle &= channel.prepare_to_sleep();
        });
        self.set.add_readable();
        if !draining {
            frontend.wait_fds(&mut self.set);
            idle &= frontend.prepare_to_sleep();
        }
        // What others did until then is in this answer; what they do from now on wakes.
        let now = clock.now();
        let wake = next_event(frontend, now, draining);
        if idle && !wake.is_due(now + self.slack) {
            let timeout = wake.at().map(|at| Duration::from_nanos((at - now - self.slack).0));
            self.set.sleep(timeout);
        }
        frontend.for_each_channel(&mut |channel| channel.awake());
        if !draining {
            frontend.awake();
        }
        if self.set.fds[0].revents != 0 {
            self.waker.reset();
        }
    }
}

fn next_event<F: Frontend>(frontend: &mut F, now: Nanos, draining: bool) -> Wake {
    if draining { channels_next_event(frontend) } else { frontend.next_event(now) }
}

/// Yields between polls, for the peer may need this processor to answer. Not on a crowded machine:
/// there a yield can take milliseconds, whereas a thread that sleeps is woken immediately.
#[derive(Debug, Default)]
pub struct SpinWait {
    since: Option<Instant>,
    /// When the last yield ended, if it was a slow one.
    crowded: Option<Instant>,
}

impl SpinWait {
    /// Yields once. Returns false, without a yield, on a crowded machine and after `time` of it.
    pub fn spin(&mut self, time: Duration) -> bool {
        if time.is_zero() {
            return false;
        }
        let now = Instant::now();
        if self.is_crowded(now) || now - *self.since.get_or_insert(now) > time {
            return false;
        }
        self.yield_once();
        true
    }

    fn yield_once(&mut self) {
        let begin = Instant::now();
        thread::yield_now();
        let end = Instant::now();
        self.crowded = (end - begin > SLOW_YIELD).then_some(end);
    }

    fn is_crowded(&self, now: Instant) -> bool {
        self.crowded.is_some_and(|since| now.saturating_duration_since(since) < NO_SPIN_TIME)
    }

    /// Something came: the time begins anew.
    #[inline]
    pub fn reset(&mut self) {
        self.since = None;
    }
}

/// Passes `time` without a system call.
pub fn pause(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        spin_loop();
    }
}

/// Calls `check` every `interval` until it returns something; `None` after `timeout`. For what the
/// operating system gives no event for.
pub fn retry<T>(
    interval: Duration,
    timeout: Duration,
    mut check: impl FnMut() -> Option<T>,
) -> Option<T> {
    let begin = Instant::now();
    loop {
        match check() {
            None if begin.elapsed() < timeout => thread::sleep(interval),
            result => return result,
        }
    }
}

/// Lets the calling thread's sleeps end within a microsecond of their time; by default Linux may
/// add 50 (prctl(2), `PR_SET_TIMERSLACK`).
pub fn set_timer_slack() {
    // Where it is refused, sleeps are longer.
    let _ = set_current_timer_slack(NonZeroU64::new(1000));
}
