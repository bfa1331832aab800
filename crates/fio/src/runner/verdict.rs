//! The decision of a clone's limits: go on, measure again, end.
use zonal_blk::Status;

/// A decision for the clone.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Nothing.
    Continue,
    /// The depth changes; with `drains` nothing is submitted until nothing is in flight.
    Depth { depth: u32, drains: bool },
    /// The measurements so far do not count.
    Remeasure,
    /// The job ends as at the end of its runtime.
    End,
    /// The job fails.
    Fail(Status, String),
}
