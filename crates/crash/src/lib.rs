//! The crash lab: which states may a loss of power leave on a zoned device, and does your software
//! survive them?
//!
//! ```text
//!  device  --record-->  log      all commands that change it, with their data and order
//!  log     --states-->  State    what a drive may hold after a loss of power at each event
//!  State   --image--->  image    to run a check on
//! ```
//!
//! The types to know first: [`Recorder`] and [`RecordDevice`], which write a [`log`]; [`States`],
//! which enumerates; [`State`], whose text is enough to make it again. The rules are those of
//! [`zonal_device::power_loss`], which the fault simulator uses too. `docs/crash-lab.md` is a tutorial.
#![forbid(unsafe_code)]

pub mod check;
mod choices;
pub mod content;
pub mod dm_log_writes;
mod drive;
mod error;
mod file;
pub mod files;
pub mod image;
mod journal;
pub mod judge;
pub mod log;
mod outcome;
mod process;
mod record;
pub mod report;
mod script;
mod state;
mod states;
mod synced;
mod verdict;

pub use choices::Choice;
pub use drive::{Drive, Effect};
pub use journal::JournalError;
pub use outcome::{Outcome, ReplayStep, Steps};
pub use process::{CheckProcess, ProcessError};
pub use record::{RecordDevice, Recorder};
pub use script::{MarksOracle, ScriptError};
pub use state::{Append, State, StateError, WriteFate, ZoneFate};
pub use states::{Options, Progress, REMEMBERED, Sample, States};
pub use synced::{SyncMark, Synced};
