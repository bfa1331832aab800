//! The host's side: what it knows of a namespace, and the commands it makes for it.
//!
//! ```text
//!  Identify data -> scan     what there is, and its limits
//!                    |
//!                  info      what a scan found, checked
//!                    |
//!                  layout    where it lies in memory: a path for each controller that has the
//!                    |       namespace, and a head that they share
//!  Request ------> setup     a submission queue entry, by what the layout says
//!  zones --------> report    how they are asked for, and what the answer says
//! ```
//!
//! Takes what Identify said, and requests of the block layer; gives commands. Keeps true: every
//! layout makes the same command of the same request.
mod info;
mod layout;
mod report;
mod scan;
mod setup;
mod validate;

pub use info::{Ids, NamespaceInfo, ScanError, ZoneInfo};
pub use layout::{
    CacheLine, FieldAccess, LayoutReport, NamespaceLayout, PathCounters, PathInfo, PathState,
    cache_line, in_head, in_path, inline, layouts,
};
pub use scan::{ControllerInfo, page, scan};
pub use setup::{Protection, SpecialPayload, setup, setup_rw};
pub use validate::NamespaceMismatch;

/// The arrangement that the product uses.
pub type Namespace = inline::Namespace;
/// The head of it.
pub type NamespaceHead = inline::NamespaceHead;
