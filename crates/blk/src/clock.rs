//! Time: where a driver of the block layer reads it, and when it has to call again.
use crate::units::Nanos;

/// Where the time comes from. Nothing in the block layer reads a clock; whoever drives a
/// [`Channel`](crate::Channel) does, and passes the reading as `now`.
pub trait Clock {
    /// Whether time stands still while code runs (virtual time), so that work takes only the time
    /// that the driver charges for it. A step of a job then either completes or submits, once, so
    /// that one is charged before the other happens, and completes nothing before its queue is full
    /// again.
    const IS_VIRTUAL: bool = false;

    /// The time since the run began.
    fn now(&self) -> Nanos;
}
