//! Torture: random runs of the block layer over a device that fails, each checked against a model.
//!
//! ```text
//!  seed --draw--> History: Config + Steps --run--> Outcome: what was done, and what was wrong
//!                    ^                                |
//!                    +---------- shrink: fewer steps <+
//! ```
//!
//! Takes a seed; gives what was found. Keeps true: a history determines its outcome, so a seed or a
//! file is all it takes to see a fault again. `docs/reliability.md` lists what is checked.
#![forbid(unsafe_code)]

pub mod config;
pub mod drive;
pub mod fault;
mod model;
mod random;
mod run;
mod shrink;
pub mod step;
mod world;

pub use config::{Config, Profile};
pub use fault::{FaultConfig, FaultDevice};
pub use run::{Failure, Outcome, run, silence_panics};
pub use shrink::shrink;
pub use step::History;
