//! QD=1 writes: the disk's list of plugs with waiting writes (A33 to A37).
//!
//! With QD=1 for the whole disk, one plug at a time may write; the others follow in the order in
//! which they got their first waiting write.
use crate::lock::SpinLock;
use crate::probe::mutant;
use crate::units::ZoneNo;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Qd1(SpinLock<Qd1State>);

#[derive(Debug, Default)]
struct Qd1State {
    /// A plug has the disk.
    taken: bool,
    waiting: VecDeque<ZoneNo>,
}

impl Qd1 {
    pub(crate) fn new() -> Self {
        Qd1(SpinLock::new(Qd1State::default()))
    }

    /// A plug wants the disk. Returns whether it gets it immediately; otherwise it is queued.
    pub(crate) fn acquire_or_wait(&self, zone: ZoneNo) -> bool {
        let mut state = self.0.lock();
        if state.taken {
            if state.waiting.is_empty() || !mutant!(Qd1NotQueued) {
                state.waiting.push_back(zone);
            }
            return false;
        }
        state.taken = true;
        true
    }

    /// The plug that had the disk is drained. Returns the zone of the next.
    pub(crate) fn next(&self) -> Option<ZoneNo> {
        let mut state = self.0.lock();
        let next = state.waiting.pop_front();
        state.taken = next.is_some();
        next
    }

    /// A queued plug no longer wants the disk. Returns whether it was still queued.
    pub(crate) fn leave(&self, zone: ZoneNo) -> bool {
        let mut state = self.0.lock();
        let place = state.waiting.iter().position(|&waiting| waiting == zone);
        place.and_then(|place| state.waiting.remove(place)).is_some()
    }
}
