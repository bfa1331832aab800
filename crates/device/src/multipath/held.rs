//! What waits in a hardware queue: for a path, for its turn in the zone, or for a verdict.
use super::policy::PathSet;
use super::recovery_queue::QueuePosition;
use super::zones::ZoneSnapshot;
use zonal_blk::{Nanos, Request, Status};

/// What is kept of a command beside the request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandState {
    /// As it was when it was first sent.
    pub seen: ZoneSnapshot,
    /// When it was first held.
    pub since: Option<Nanos>,
    /// Paths on which it has failed.
    pub avoid: PathSet,
    pub path: usize,
    /// It was sent more than once.
    pub again: bool,
}

/// Why a command is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldReason {
    /// No path has taken it.
    Unsent,
    /// It was sent, and its response was lost.
    Lost,
    /// It was sent again and refused: the first may have been done in the meantime.
    Refused(Status),
}

/// A command that is held.
pub(super) struct Held {
    pub request: Box<Request>,
    pub sent: CommandState,
    pub doubt: HoldReason,
    /// In its zone's line, if it is one of a sequential zone.
    pub place: Option<QueuePosition>,
    /// Not before then.
    pub at: Nanos,
}
