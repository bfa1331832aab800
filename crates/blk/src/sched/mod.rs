//! I/O schedulers: the order in which requests go to the hardware queues.
//!
//! Orders requests that have passed the plug of their zone. A thread that submits never waits for
//! one that dispatches; with [`Scheduler::None`] the stage is a branch.
//!
//! ```text
//!   SchedHandle        one a channel: the way past the waiting line, and into it
//!   InsertList      one a channel: its insertion list
//!   Dispatcher  one a queue: try-locked, collects the insert_lists, sends what there is room for
//!   Elevator    the order: MqDeadline, Bfq, Kyber, plain types without locks or clocks
//! ```
mod attr;
mod batch;
mod bfq;
mod counters;
mod dispatcher;
mod elevator;
#[cfg(all(loom, test))]
mod exploration;
mod handle;
mod insert_list;
mod kyber;
mod merge;
mod mq_deadline;
mod prio;
mod scheduler;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod waiting;
mod zone_lock;

pub use attr::{AttrError, AttrValue, Attribute, Unit};
pub use bfq::{Bfq, BfqOptions};
pub use counters::ClassCounters;
pub use elevator::{CompletedRequest, Elevator, InFlight};
pub(crate) use handle::SchedHandle;
pub use kyber::{Kyber, KyberOptions};
pub use merge::MergeLimit;
pub use mq_deadline::{MqDeadline, MqDeadlineOptions};
pub use prio::{Prio, PrioClass};
pub(crate) use scheduler::SchedInstance;
pub use scheduler::{Scheduler, UnknownScheduler};
pub use zone_lock::ZoneLocks;
