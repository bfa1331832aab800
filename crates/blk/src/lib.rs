//! The zoned block layer: what an I/O passes through between a thread that submits it and a zoned
//! device.
//!
//! ```text
//!  Bio         op, first sector, length, priority, buffer, user_data
//!   | bio        check against the device's limits, split
//!   | plug       zone write plugging: one write in flight per sequential zone, the rest in order
//!   | sched      none, or the order of a scheduler
//!   | hctx       hardware queue: tags, dispatch, requeue, timeout
//!   v
//!  Device      owns the Request until it hands it back with a status
//!   | completion releases the tag, lets the plug send its next write
//!   v
//!  Completion  user_data, status and buffer, back on the submitter's thread
//! ```
//!
//! The five types to know first:
//! - [`Queue`]: a device with its block layer, shared by all threads.
//! - [`Channel`]: a thread's own way into a queue: submit bios, poll completions.
//! - [`Bio`]: an I/O, and [`Completion`], how it went.
//! - [`Device`] with [`HwQueue`]: what a driver or an emulated device implements.
//! - [`Wake`]: when to poll next.
//!
//! Nothing here reads a clock, starts a thread, sleeps or opens a file: every call takes `now`, and
//! [`Channel::next_event`] says when the next one is due.
//!
//! ```
//! use std::sync::Arc;
//! use zonal_blk::*;
//!
//! /// A device without zones that does every command in 10 us.
//! struct Null(Limits);
//!
//! impl Device for Null {
//!     fn limits(&self) -> &Limits {
//!         &self.0
//!     }
//!     fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
//!         Box::new(TimedQueue::new(|now, _: &mut Request| (Status::Ok, now + Nanos(10_000))))
//!     }
//! }
//!
//! let device = Arc::new(Null(Limits::regular(Sector(2048))));
//! let queue = Queue::attach(device, QueueOptions::default())?;
//! let mut channel = queue.channel()?;
//! channel.submit(Nanos(0), Bio::write(Sector(8), Buf::zeroed(4096), 7));
//! assert_eq!(channel.next_event(), Wake::At(Nanos(10_000)));
//! let mut completions = Vec::new();
//! channel.poll(Nanos(10_000), &mut completions);
//! assert_eq!((completions[0].user_data, completions[0].status), (7, Status::Ok));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

pub mod bio;
pub mod buf;
mod buf_pool;
pub mod channel;
mod completion;
pub mod device;
pub mod external;
mod failure;
mod gate;
mod hctx;
#[cfg(all(test, shuttle))]
mod interleavings;
mod iostat;
#[doc(hidden)]
pub mod lazy;
pub mod limits;
#[doc(hidden)]
pub mod lock;
mod mailbox;
mod names;
pub mod op;
mod outgoing;
pub mod placement;
mod plug;
#[cfg(not(torture))]
mod probe;
#[cfg(torture)]
pub mod probe;
pub mod queue;
pub mod request;
pub mod sched;
mod slab;
mod split;
pub mod status;
mod sync;
#[cfg(test)]
#[cfg_attr(any(loom, shuttle), allow(dead_code, unused_imports))]
mod testing;
mod trace;
pub mod units;
mod wake;
pub mod zone;
mod zone_refusal;
mod zone_report;

pub use bio::{Bio, BioFlags, Completion, Prio, PrioClass};
pub use buf::Buf;
pub use buf_pool::BufPool;
pub use channel::Channel;
pub use device::{
    Abort, AgingLimits, Device, HwQueue, ReadBufs, TimedQueue, ZoneAging, ZoneExtensions,
};
pub use external::{ExternalBuf, ExternalMemory};
pub use failure::Failure;
pub use iostat::{IoHistograms, IoStat, IoTimes, TIME_RANGES};
pub use limits::{Limits, ZrwaLimits};
pub use mailbox::{Mailbox, Sleeper};
pub use names::{did_you_mean, did_you_mean_of, nearest};
pub use op::{Direction, Op, OpClass, OpInfo};
pub use outgoing::Outgoing;
pub use placement::{
    DataPlacement, Isolation, PlacementEvent, PlacementEventType, PlacementId, PlacementLayout,
    PlacementStats,
};
pub use plug::{
    PlugFlags, PlugInfo, UnknownZoneWrite, WpRecovery, ZoneCounters, ZonePhase, ZoneWrite,
};
pub use queue::{AttachError, NoQueueLeft, Queue, QueueOptions, SwitchError, Watch};
pub use request::{Request, RequestList};
pub use slab::Slab;
pub use status::Status;
pub use trace::{TraceAction, TraceEvent, TraceSink, TraceSource, Tracer};
pub use units::{Bytes, Lba, Nanos, Sector, Tag, ZoneNo};
pub use wake::{Clock, Wake, WakeUp};
pub use zone::{REPORT_BATCH, Zone, ZoneAttributes, ZoneCondition, ZoneKind};
pub use zone_refusal::ZoneRefusal;
pub use zone_report::ZoneReport;
