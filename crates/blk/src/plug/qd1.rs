//! QD=1 writes: the disk's list of plugs with something to write (A33 to A37).
//!
//! Takes plugs that got their first waiting write; gives them one after another. Keeps true: one
//! plug at a time has the disk; the others follow in the order in which they came.
use crate::lock::ShortLock;
use crate::probe::mutant;
use crate::units::ZoneNo;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Qd1(ShortLock<Turns>);

#[derive(Debug, Default)]
struct Turns {
    /// A plug has the disk.
    taken: bool,
    waiting: VecDeque<ZoneNo>,
}

impl Qd1 {
    pub(crate) fn new() -> Self {
        Qd1(ShortLock::new(Turns::default()))
    }

    /// A plug wants the disk: it has it at once (`true`), or gets it in its turn.
    pub(crate) fn join(&self, zone: ZoneNo) -> bool {
        let mut turns = self.0.lock();
        if turns.taken {
            if turns.waiting.is_empty() || !mutant!(Qd1LostFromLine) {
                turns.waiting.push_back(zone);
            }
            return false;
        }
        turns.taken = true;
        true
    }

    /// The plug that had the disk is drained: whose turn is it?
    pub(crate) fn next(&self) -> Option<ZoneNo> {
        let mut turns = self.0.lock();
        let next = turns.waiting.pop_front();
        turns.taken = next.is_some();
        next
    }

    /// A plug that waits no longer wants the disk; whether it was still waiting.
    pub(crate) fn leave(&self, zone: ZoneNo) -> bool {
        let mut turns = self.0.lock();
        let place = turns.waiting.iter().position(|&waiting| waiting == zone);
        place.and_then(|place| turns.waiting.remove(place)).is_some()
    }
}
