//! Jobs in a fixed proportion (`flow=`): of the I/Os that the jobs of a phase with the same
//! `flow_id` issue, each clone issues its share, its weight over the sum of the weights.
//!
//! The rule is that of fio 3.32 (HOWTO, `flow`): a clone that has issued more than its share waits,
//! with `zonemode=zbd` first for all of its own I/O in flight.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// State that the clones of one `flow_id` share.
#[derive(Debug, Default)]
pub struct FlowTotals {
    weights: AtomicU64,
    issued: AtomicU64,
}

/// A clone's part in a flow.
#[derive(Debug)]
pub struct Flow {
    totals: Arc<FlowTotals>,
    weight: u64,
    issued: u64,
    has_left: bool,
}

impl Flow {
    /// A clone of this weight joins a flow. All join before the first I/O.
    pub fn join(totals: &Arc<FlowTotals>, weight: u32) -> Self {
        let weight = u64::from(weight);
        totals.weights.fetch_add(weight, Ordering::Relaxed);
        Flow { totals: Arc::clone(totals), weight, issued: 0, has_left: false }
    }

    /// The clone has ended: the others divide its share.
    pub(super) fn leave(&mut self) {
        self.totals.weights.fetch_sub(std::mem::take(&mut self.weight), Ordering::Relaxed);
        if !std::mem::replace(&mut self.has_left, true) {
            self.totals.issued.fetch_sub(self.issued, Ordering::Relaxed);
        }
    }

    /// I/Os that the clone has issued.
    pub(super) fn issued(&self) -> u64 {
        self.issued
    }

    /// Whether the clone may issue its next I/O; if so, that is counted.
    pub(super) fn issue(&mut self) -> bool {
        let [weights, issued] =
            [&self.totals.weights, &self.totals.issued].map(|sum| sum.load(Ordering::Relaxed));
        // Any job may make the first I/O of all.
        let may = self.issued * weights <= (issued + 1) * self.weight;
        if may {
            self.issued += 1;
            self.totals.issued.fetch_add(1, Ordering::Relaxed);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_the_weights_at_any_time() {
        let totals = Arc::default();
        let mut flows = [10, 90].map(|weight| Flow::join(&totals, weight));
        let mut issued = [0_u64; 2];
        for _ in 0..1000 {
            for (flow, issued) in flows.iter_mut().zip(&mut issued) {
                while flow.issue() {
                    *issued += 1;
                }
            }
            let error = issued[1].abs_diff(9 * issued[0]);
            assert!(error <= 18, "{issued:?}");
        }
    }

    #[test]
    fn clone_ahead_of_its_share_waits_for_the_other() {
        let totals = Arc::default();
        let mut flows = [1, 1].map(|weight| Flow::join(&totals, weight));
        assert!(flows[0].issue() && flows[0].issue());
        assert!(!flows[0].issue());
        assert!(flows[1].issue());
        assert!(flows[0].issue(), "3 of 4 at most: the next may be anybody's");
        assert!(!flows[0].issue());
    }

    #[test]
    fn when_a_clone_ends_the_others_go_on_without_it() {
        let totals = Arc::default();
        let mut flows = [1, 1, 2].map(|weight| Flow::join(&totals, weight));
        while flows.iter_mut().any(Flow::issue) && totals.issued.load(Ordering::Relaxed) < 40 {}
        flows[2].leave();
        let mut issued = [0_u64; 2];
        for _ in 0..1000 {
            for (flow, issued) in flows.iter_mut().zip(&mut issued) {
                *issued += u64::from(flow.issue());
            }
        }
        assert!(issued[0] > 900 && issued[1] > 900, "{issued:?}");
        flows[1].leave();
        assert!((0..100).all(|_| flows[0].issue()), "nobody is left to wait for");
    }
}
