//! How many commands may be with the device while it idles for a process: above that, those of
//! others would delay the one that it idles for.
//!
//! A first request comes to an empty queue in service. How long it takes when nothing else was with
//! the device is the base; if it takes less than half as long again with others injected, the limit
//! rises by one, else it falls by one (Linux 6.12 `bfq_update_inject_limit`). The limit begins at 0,
//! is 1 as soon as the base is known, and begins anew after a second in which it did not fall: the
//! load may have changed.
//!
//! ```text
//!   a first request comes --> awaited --> sent --> completed: base, limit
//!          the slot ends: nothing is measured
//! ```
use crate::units::Nanos;

/// From a reset or a fall of the limit to the next sample.
const SAMPLE_AFTER: Nanos = Nanos(10_000_000);
const RESET_AFTER: Nanos = Nanos(1_000_000_000);

/// The limit of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InjectLimit {
    /// Commands with the device, those of the process itself included.
    pub(super) commands: u32,
    /// How long a first request takes if nothing is injected; 0 while that is not known.
    base: u64,
    /// When the limit was last reset or lowered.
    since: Option<Nanos>,
}

impl InjectLimit {
    /// Begins anew if it is time to. A process that thinks for long is not delayed by one command.
    fn reset_if_old(&mut self, now: Nanos, thinks_long: bool) -> bool {
        let old = self.since.is_none_or(|since| since + RESET_AFTER <= now);
        if old {
            let commands = u32::from(thinks_long);
            *self = InjectLimit { commands, base: 0, since: Some(now) };
        }
        old
    }

    /// A first request took `time`. `alone`: nothing else was with the device when it completed.
    fn learn(&mut self, now: Nanos, time: u64, injected: bool, alone: bool, most: u32) {
        let before = self.base;
        if before > 0 && injected {
            let slow = time >= before + before / 2;
            if slow && self.commands > 0 {
                self.commands -= 1;
                self.since = Some(now);
            } else if !slow && self.commands <= most {
                self.commands += 1;
            }
        }
        if before == 0 && alone {
            self.commands = self.commands.max(1);
        }
        if alone && (before == 0 || !injected) || time < before {
            self.base = time;
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum First {
    #[default]
    None,
    /// It has come.
    Awaited,
    /// It was sent, or one that came with it, at this time.
    Sent(Nanos),
}

/// The measurement of a first request of the queue in service.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sampling {
    first: First,
    came: Nanos,
    /// Commands of others were injected that may delay it.
    pub(super) injected: bool,
    /// The most commands that were ever with the device.
    most_in_flight: u32,
}

impl Sampling {
    /// A synchronous request comes to an empty queue.
    pub(super) fn first_comes(
        &mut self,
        limit: &mut InjectLimit,
        now: Nanos,
        thinks_long: bool,
        in_service: bool,
        in_flight: u32,
    ) {
        if limit.reset_if_old(now, thinks_long)
            && let First::Sent(_) = self.first
        {
            self.first = First::None;
        }
        let undisturbed = in_flight == 0;
        let due = limit.since.is_some_and(|since| since + SAMPLE_AFTER <= now);
        if in_service && due && (undisturbed || limit.base > 0 && self.injected) {
            (self.first, self.came) = (First::Awaited, now);
            self.injected &= !undisturbed;
        }
    }

    /// The queue in service sends a command.
    #[inline]
    pub(super) fn sent(&mut self, now: Nanos) {
        if self.first == First::Awaited {
            self.first = First::Sent(now);
        }
    }

    /// A command of the queue in service, which was sent at `sent_at`, completes at `now`;
    /// `in_flight` commands were with the device, itself included.
    #[inline]
    pub(super) fn completed(
        &mut self,
        limit: &mut InjectLimit,
        now: Nanos,
        sent_at: Nanos,
        in_flight: u32,
    ) {
        if self.first == First::Sent(sent_at) {
            let time = now.0.saturating_sub(self.came.0);
            limit.learn(now, time, self.injected, in_flight == 1, self.most_in_flight);
            self.stop();
        }
    }

    /// Notes how many commands are with the device.
    #[inline]
    pub(super) fn note_in_flight(&mut self, in_flight: u32) {
        self.most_in_flight = self.most_in_flight.max(in_flight);
    }

    /// Nothing is being measured any more.
    pub(super) fn stop(&mut self) {
        (self.first, self.injected) = (First::None, false);
    }
}
