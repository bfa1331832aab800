//! A device's zones as files, with the semantics of Linux's zonefs.
//!
//! ```text
//!  DIR/cnv/0, 1, ...   conventional zones: any I/O, of fixed size
//!  DIR/seq/0, 1, ...   sequential zones: the size is the write pointer; writes append
//!
//!  options    the options of mkzonefs(8) and mount(8), and what an I/O error does to a file
//!  tree       which zones are which file; names and numbers of files
//!  fs         the rules: attributes, what may be opened, read, written, truncated
//!  workers    threads, each with a channel, that do the I/O
//!  fuse       the files behind a mount point (feature `fuse`)
//! ```
//!
//! File sizes are not cached: write pointers are read from the device each time, so zones may also be
//! written through another export.
mod fs;
#[cfg(feature = "fuse")]
mod fuse;
mod options;
mod tree;
mod workers;

pub use fs::{Attr, OpenMode, SetAttr, StatFs, ZoneFs, ZoneFsError};
#[cfg(feature = "fuse")]
pub use fuse::{Mount, MountError};
pub use options::{Access, Health, OnError, OptionError, Options, RecoveryAction, recovery_action};
pub use tree::{Entry, FileNo, ROOT};
pub use workers::{FileOp, Reply, WorkerPool};
