//! What the heads did, for plots: a bounded record.
use zonal_blk::Nanos;

/// What the drive's mechanics do for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadActivity {
    /// The arm moves.
    Seek,
    /// The head waits for its sector.
    Rotate,
    /// Data pass under the head, to or from it.
    Transfer,
    /// Nothing.
    Idle,
}

/// One entry of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceEntry {
    /// When the activity began.
    pub at: Nanos,
    /// What it is.
    pub activity: HeadActivity,
    /// The byte that the head is over or on its way to.
    pub byte: u64,
    /// Its radial position, from 0 at the outer edge to 1.
    pub radius: f64,
    /// Bytes in the write buffer.
    pub buffered: u64,
}

/// What the drive has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Movements of the arm.
    pub seeks: u64,
    /// Time of all seeks.
    pub seek_time: Nanos,
    /// Time that the head waited for sectors.
    pub rotate_time: Nanos,
    /// Time that data passed under the head.
    pub transfer_time: Nanos,
    /// Time that the mechanics had nothing to do.
    pub idle_time: Nanos,
    /// Reads that needed no access.
    pub cache_hits: u64,
    /// Writes that found the buffer full.
    pub full_waits: u64,
    /// Turns that were spent to try again.
    pub retries: u64,
}

/// A record of at most so many entries; what comes later is dropped.
#[derive(Debug)]
pub(super) struct Trace {
    entries: Vec<TraceEntry>,
    max: usize,
}

impl Trace {
    pub(super) fn new(max: usize) -> Self {
        Trace { entries: Vec::with_capacity(max), max }
    }

    pub(super) fn push(&mut self, entry: TraceEntry) {
        if self.entries.len() < self.max {
            self.entries.push(entry);
        }
    }

    pub(super) fn entries(&self) -> &[TraceEntry] {
        &self.entries
    }
}
