//! The host's side: what it knows of a namespace, and the commands it makes for it.
//!
//! ```text
//!  Identify data -> scan     the namespace's format and limits, checked (info)
//!                    |
//!                  path      a path for each controller that has the namespace, and the head that
//!                    |       they share
//!  Request ------> setup     a submission queue entry
//!  zones --------> report    Zone Management Receive, and its data
//! ```
mod info;
mod path;
mod protection;
mod report;
mod scan;
mod setup;

pub use info::{Ids, NamespaceInfo, ScanError, ZoneInfo};
pub use path::{CommandFormat, Namespace, NamespaceHead, NamespaceMismatch};
pub use protection::Protection;
pub use scan::{ControllerInfo, identify_data, scan};
pub use setup::{SpecialPayload, setup, setup_rw};
