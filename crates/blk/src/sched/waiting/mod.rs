//! Where requests wait, in the order of their sectors and in the order of their arrival at once.
//!
//! Finds the first waiting request at or after a sector, and the oldest. Requests live in
//! [`Store`]; the orders hold [`Key`]s. Nothing is allocated once the tables have grown to the
//! deepest queue.
//!
//! ```text
//!   insert --> Store[slot]                      the request itself
//!          --> Sorted.fresh  --sort when asked--> runs, each sorted, sizes falling by half
//!          --> Fifo                             (slot, seq), the dead skipped when they are met
//! ```
//!
//! Inserting is three appends. Sorting waits for the first dispatch after it, so a batch is sorted
//! as a batch. Runs are merged as a binary counter counts, so that each key moves O(log n) times
//! and a search looks at O(log n) runs.
mod fifo;
mod run;
mod sorted;
mod store;
mod wait_queue;

pub(super) use fifo::Fifo;
pub(super) use sorted::Sorted;
pub(super) use store::Store;
pub(super) use wait_queue::WaitQueue;

/// A waiting request's place in the order of sectors: its sector, then its arrival, then where it
/// is kept. One integer, so that sorting does not branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u128);

impl Key {
    fn new(sector: u64, seq: u32, slot: u32) -> Self {
        Key(u128::from(sector) << 64 | u128::from(seq) << 32 | u128::from(slot))
    }

    /// Comes before all requests that begin at `sector` or later.
    fn floor(sector: u64) -> Self {
        Key(u128::from(sector) << 64)
    }

    #[allow(clippy::cast_possible_truncation)] // the sector is the upper half
    pub(super) fn sector(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[allow(clippy::cast_possible_truncation)] // the parts of the lower half
    fn seq(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[allow(clippy::cast_possible_truncation)] // the parts of the lower half
    fn slot(self) -> u32 {
        self.0 as u32
    }
}
