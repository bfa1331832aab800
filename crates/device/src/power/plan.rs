//! When the power fails, and what of the cache is kept.
use zonal_blk::{Sector, ZoneNo};

/// A loss of power that is to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPlan {
    /// When.
    pub when: When,
    /// The part kept of what is not durable.
    pub keep: Keep,
    /// Selects at random.
    pub seed: u64,
    /// The power stays off until it is restored.
    pub stay_off: bool,
    /// The write that is to be torn, once it is known: its number in the cache and its place.
    pub(super) torn: Option<(u64, ZoneNo, Sector, u32)>,
}

impl CutPlan {
    /// A loss of power, after which the power is back immediately.
    pub fn new(when: When, keep: Keep, seed: u64) -> Self {
        CutPlan { when, keep, seed, stay_off: false, torn: None }
    }
}

/// The moment of a loss of power.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// When this many more writes have completed.
    After(u64),
    /// When this mark comes.
    AtMark(String),
    /// In the middle of the next write of several blocks, which is torn.
    InWrite,
}

/// The part that a drive keeps of what is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    None,
    /// A random part of each zone's tail, and of each other write all, a part or nothing.
    Random,
    /// All but a part of one tail, or one other write.
    AllButOne,
}

/// The effect of a loss of power.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutReport {
    /// Commands that were in flight.
    pub in_flight: usize,
    /// Data that were not durable, each with its fate, one a line.
    pub fates: Vec<String>,
}
