//! The one loop that drives any frontend over any backend.
use super::{Poller, WaitPolicy, WaitSet, set_timer_slack};
use crate::RealClock;
use std::thread;
use zonal_blk::{Channel, Clock, Nanos, Wake};

/// The result of [`Frontend::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something was done: poll again.
    Worked,
    /// There was nothing to do: wait.
    Idle,
    /// Another thread holds what this one needs and will not wake it: yield, then poll again.
    Contended,
    /// All is served.
    Done,
}

/// A form in which a device is offered: takes requests in and gives completions out. It owns the channels
/// that its requests go through; [`serve`] drives it.
pub trait Frontend {
    /// Why it cannot be served any longer.
    type Error;

    /// Takes in the requests that have arrived, submits their bios, polls the channels and gives
    /// out what has completed. Never blocks.
    ///
    /// # Errors
    /// Its clients are gone or break the protocol.
    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Self::Error>;

    /// Polls the channels until they are idle, without clients to answer; called again and again
    /// after [`Frontend::poll`] was done or has failed. Returns whether the channels can be dropped.
    fn drain(&mut self, now: Nanos) -> bool;

    /// Visits the channels: none, one, or one for each device.
    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel));

    /// Adds the file descriptors by which requests arrive, for as long as they may.
    fn wait_fds(&mut self, set: &mut WaitSet);

    /// When to poll next, unless a file descriptor is ready or the thread is woken.
    fn next_event(&mut self, _now: Nanos) -> Wake {
        channels_next_event(self)
    }

    /// How to wait now, where `policy` is the poller's: a frontend whose requests are not urgent may
    /// sleep where others spin.
    fn wait_policy(&self, policy: WaitPolicy) -> WaitPolicy {
        policy
    }

    /// The thread is about to sleep: from now on, a thread that brings a request by other means than a
    /// file descriptor calls [`Poller::waker`]. Returns false if one has arrived already.
    fn prepare_to_sleep(&mut self) -> bool {
        true
    }

    /// The thread no longer sleeps.
    fn awake(&mut self) {}
}

/// When the channels of a frontend have to be polled.
pub fn channels_next_event<F: Frontend + ?Sized>(frontend: &mut F) -> Wake {
    let mut next = Wake::Idle;
    frontend.for_each_channel(&mut |channel| next = next.min(channel.next_event()));
    next
}

/// Serves a frontend on the calling thread until it is done or fails, and in either case drains its
/// channels.
///
/// # Errors
/// Why the frontend failed.
pub fn serve<F: Frontend>(
    frontend: &mut F,
    clock: &RealClock,
    poller: &mut Poller,
) -> Result<(), F::Error> {
    set_timer_slack();
    let served = loop {
        match frontend.poll(clock) {
            Ok(Progress::Worked) => poller.reset(),
            Ok(Progress::Idle) => poller.wait(frontend, clock, false),
            Ok(Progress::Contended) => thread::yield_now(),
            Ok(Progress::Done) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    while !frontend.drain(clock.now()) {
        poller.wait(frontend, clock, true);
    }
    served
}
