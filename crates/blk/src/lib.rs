//! The zoned block layer: the way of an I/O from a submitting thread to a zoned device and back.
//!
//! ```text
//!  Bio         op, first sector, length, priority, buffer, user_data
//!   | bio        check against the device's limits, split
//!   | plug       zone write plugging: one write in flight per sequential zone, the rest in order
//!   | sched      none, mq-deadline, bfq or kyber
//!   | hctx       hardware queue: tags, dispatch, requeue
//!   v
//!  Device      owns the Request until it hands it back with a status
//!   | completion releases the tag, lets the plug send its next write
//!   v
//!  Completion  user_data, status and buffer, back on the submitter's thread
//! ```
//!
//! Nothing here reads a clock, starts a thread or opens a file: every call takes `now`, and
//! [`Channel::next_event`] says when the next call is due. A [`Queue`] is what threads share; each
//! thread drives its own [`Channel`].
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

pub mod bio;
pub mod buf;
pub mod channel;
mod completion;
pub mod device;
pub mod external;
mod gate;
mod hctx;
#[cfg(all(test, shuttle))]
mod interleavings;
mod iostat;
pub mod layout;
pub mod limits;
pub mod lock;
mod plug;
#[cfg(not(torture))]
mod probe;
#[cfg(torture)]
pub mod probe;
pub mod queue;
pub mod request;
pub mod sched;
mod split;
pub mod status;
mod sync;
#[cfg(test)]
#[cfg_attr(any(loom, shuttle), allow(dead_code, unused_imports))]
mod testing;
pub mod units;
mod wake;
pub mod zone;

pub use bio::{Bio, BioFlags, Completion, Op};
pub use buf::Buf;
pub use channel::Channel;
pub use device::{Abort, Device, HwQueue};
pub use external::{ExternalBuf, ExternalMemory};
pub use iostat::IoStat;
pub use limits::Limits;
pub use plug::{PlugFlags, PlugInfo, WpRecovery, ZoneCounters, ZonePhase, ZoneWrite};
pub use queue::{AttachError, Queue, QueueOptions, SwitchError};
pub use request::{Request, RequestList};
pub use status::Status;
pub use units::{Bytes, Lba, Nanos, Sector, Tag, ZoneNo};
pub use wake::{Clock, Wake, WakeUp};
pub use zone::{Zone, ZoneCondition, ZoneKind};
