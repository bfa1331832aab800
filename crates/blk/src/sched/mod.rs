//! I/O schedulers: the order in which requests go to the hardware queues.
//!
//! A scheduler orders requests that have passed the plug of their zone. A thread that submits never
//! waits for one that dispatches; with [`Scheduler::None`] the stage is a branch.
//!
//! ```text
//!   SchedHandle   one a channel: sends requests straight to the device if nothing waits,
//!                 else leaves them in the channel's insertion list
//!   Dispatcher    one a queue: try-locked; collects the insertion lists and sends as many
//!                 requests as there is room for
//!   Elevator      the order: MqDeadline, Bfq or Kyber, plain types without locks or clocks
//! ```
//!
//! A scheduler is a folder here, with an `Elevator` and its options, and a line in
//! the table of `scheduler.rs`, from which everything else has its name.
mod batch;
mod bfq;
mod dispatcher;
mod elevator;
#[cfg(all(loom, test))]
mod exploration;
mod handle;
mod kyber;
mod mq_deadline;
mod options;
mod registered;
mod scheduler;
mod sort;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod waiting;
mod zone_locks;

pub use bfq::BfqOptions;
pub use dispatcher::ClassCounters;
pub(crate) use elevator::MergeLimit;
pub(crate) use handle::SchedHandle;
pub use kyber::KyberOptions;
pub use mq_deadline::MqDeadlineOptions;
pub use options::{AttrError, AttrValue};
pub(crate) use scheduler::SchedInstance;
pub use scheduler::{Scheduler, UnknownScheduler};
pub(crate) use zone_locks::ZoneLocks;
