//! Time and waiting: where `now` comes from, when a channel has to be polled next, and how a thread
//! that sleeps until then is woken sooner.
use crate::units::Nanos;

/// A source of time. Nothing in the block layer reads a clock: the driver of a
/// [`Channel`](crate::Channel) does, and passes the reading as `now`.
pub trait Clock {
    /// Whether time stands still while code runs (virtual time), so that work takes only the time
    /// that the driver charges for it. A step of a job then either completes or submits, once, so
    /// that one is charged before the other happens, and completes nothing before its queue is full
    /// again.
    const IS_VIRTUAL: bool = false;

    /// The time since the run began.
    fn now(&self) -> Nanos;
}

/// When a [`Channel`](crate::Channel) or a [`HwQueue`](crate::HwQueue) next has to be polled.
///
/// The order is that of urgency, so the `min` of several answers is the answer for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// Poll now.
    Now,
    /// Poll at this time, unless woken sooner. A time in the past means now.
    At(Nanos),
    /// Something is outstanding whose completion comes from outside the model of time: from the
    /// operating system, or from another channel.
    External,
    /// Nothing is outstanding.
    Idle,
}

impl Wake {
    /// The time to poll at, the beginning of time for [`Wake::Now`]. `None` if no time is known.
    #[inline]
    pub fn at(self) -> Option<Nanos> {
        match self {
            Wake::Now => Some(Nanos(0)),
            Wake::At(at) => Some(at),
            Wake::External | Wake::Idle => None,
        }
    }

    /// Whether it is time to poll.
    #[inline]
    pub fn is_due(self, now: Nanos) -> bool {
        self.at().is_some_and(|at| at <= now)
    }
}

/// Wakes a thread that sleeps, usually by writing to an eventfd.
///
/// Called from other threads, at most once each time the channel went to sleep. A call can come
/// late, when the thread is awake again: it must then do no harm.
pub trait WakeUp: Send + Sync {
    /// Wakes the thread. Must not block.
    fn wake(&self);
}

impl<F: Fn() + Send + Sync> WakeUp for F {
    fn wake(&self) {
        self();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_answer_is_the_smallest() {
        let answers = [Wake::Now, Wake::At(Nanos(3)), Wake::At(Nanos(7)), Wake::External];
        for pair in answers.windows(2) {
            assert_eq!(pair[1].min(pair[0]), pair[0]);
            assert_eq!(Wake::Idle.min(pair[1]), pair[1]);
        }
    }

    #[test]
    fn only_now_and_times_that_have_come_are_due() {
        let due = |wake: Wake| wake.is_due(Nanos(5));
        assert!(due(Wake::Now) && due(Wake::At(Nanos(5))));
        assert!(!due(Wake::At(Nanos(6))) && !due(Wake::External) && !due(Wake::Idle));
    }
}
