//! What follows for a clone from what its limits found.
use zonal_blk::Status;

/// What follows for the clone.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Nothing.
    Continue,
    /// The depth changes; with `drains` nothing is submitted until nothing is in flight.
    Depth { depth: u32, drains: bool },
    /// What was measured so far does not count.
    Remeasure,
    /// The job ends as at the end of its runtime.
    End,
    /// The job fails.
    Fail(Status, String),
}
