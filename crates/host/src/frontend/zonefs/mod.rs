//! A device's zones as files, with the semantics of Linux's zonefs.
//!
//! ```text
//!  DIR/cnv/0, 1, ...   conventional zones: any I/O, of fixed size
//!  DIR/seq/0, 1, ...   sequential zones: the size is the write pointer; writes append
//!
//!  options    what mkzonefs and mount let one choose
//!  tree       which zones are which file; names and numbers of files
//!  view       the rules: attributes, what may be opened, read, written, truncated
//!  recovery   what an I/O error makes of a file
//!  workers      threads, each with a channel, that do the I/O
//!  fuse       all this behind a mount point (feature `fuse`)
//! ```
//!
//! Keeps true: the device alone knows a write pointer, and it is asked each time, so that a zone
//! may also be written by others, such as hosts of another export.
#[cfg(feature = "fuse")]
mod fuse;
mod options;
mod recovery;
mod tree;
mod view;
mod workers;

#[cfg(feature = "fuse")]
pub use fuse::{Mount, MountError};
pub use options::{OnError, OptionError, Options};
pub use recovery::{Access, Health, RecoveryAction, recovery_action};
pub use tree::{Entry, FileNo, ROOT};
pub use view::{Attr, OpenMode, SetAttr, StatFs, View, ViewError};
pub use workers::{FileOp, Reply, WorkerPool};
