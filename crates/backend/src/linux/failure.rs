//! How a command failed.
use zonal_blk::Status;

/// How a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub status: Status,
    /// The command's zone does not allow it: see [`Request::refuse`](zonal_blk::Request::refuse).
    pub zone_error: bool,
}

impl From<Status> for Failure {
    /// A failure whose cause is not the zone.
    fn from(status: Status) -> Self {
        Failure { status, zone_error: false }
    }
}
