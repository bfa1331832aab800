//! The rate of the device: how much it does in the longest slot of a process.
use crate::sched::elevator::CompletedRequest;
use crate::units::Nanos;

/// The assumption before anything was measured, in sectors (Linux 6.12 `bfq_default_max_budget`).
const DEFAULT_MAX_BUDGET: u64 = 16 << 10;

/// Sectors done while the device was busy, in windows.
#[derive(Debug)]
pub(super) struct Rate {
    sectors: u64,
    /// The window that is being measured.
    since: Option<Nanos>,
    done: u64,
}

impl Rate {
    pub(super) fn new() -> Self {
        Rate { sectors: DEFAULT_MAX_BUDGET, since: None, done: 0 }
    }

    /// The sectors of a window.
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Counts a completed command. A window begins when a command completes and others are in
    /// flight; it is discarded if the device becomes idle before it is over.
    pub(super) fn ended(&mut self, end: &CompletedRequest, busy: bool, window: Nanos) {
        let Some(since) = self.since else {
            self.since = busy.then_some(end.at);
            self.done = 0;
            return;
        };
        self.done += u64::from(end.nr_sectors);
        if end.at >= since + window {
            let time = u128::from((end.at - since).0.max(1));
            let rate = u128::from(self.done) * u128::from(window.0) / time;
            let rate = u64::try_from(rate).unwrap_or(u64::MAX >> 8);
            // The past counts for seven eighths, so that budgets do not follow every fluctuation.
            self.sectors = ((7 * self.sectors + rate) / 8).max(32);
            self.since = busy.then_some(end.at);
            self.done = 0;
        } else if !busy {
            self.since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::testing::{Spec, ids};

    #[test]
    fn rate_settles_at_what_a_busy_device_does() {
        let request = Spec { len: 8, ..Spec::default() }.build();
        let mut end = CompletedRequest::new(Nanos(0), &request);
        ids(request);
        let mut rate = Rate::new();
        for i in 0..100_000 {
            end.at = Nanos(i * 1_000_000);
            rate.ended(&end, true, Nanos(125_000_000));
        }
        // 8 sectors a millisecond for 125 ms.
        assert!((990..=1010).contains(&rate.sectors()), "{}", rate.sectors());
        end.at = Nanos(1 << 60);
        rate.ended(&end, false, Nanos(125_000_000));
        assert!(rate.since.is_none());
    }
    #[test]
    fn a_window_is_over_to_the_nanosecond() {
        let request = Spec { len: 8, ..Spec::default() }.build();
        let begin = CompletedRequest::new(Nanos(100), &request);
        ids(request);
        for (at, counts) in [(1099, false), (1100, true)] {
            let mut rate = Rate::new();
            rate.ended(&begin, true, Nanos(1000));
            rate.ended(&CompletedRequest { at: Nanos(at), ..begin }, true, Nanos(1000));
            assert_eq!(rate.sectors() < DEFAULT_MAX_BUDGET, counts);
        }
    }
}
