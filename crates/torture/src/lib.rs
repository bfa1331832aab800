//! Torture: random runs of the block layer over a failing device, each checked against a model.
//!
//! ```text
//!  seed --draw--> History: Config + Steps --run--> Outcome: counts, and a Failure if there is one
//!                    ^                                |
//!                    +---------- shrink: fewer steps <+
//! ```
//!
//! A history determines its outcome, so a seed or a file suffices to reproduce a failure.
//! `docs/reliability.md` lists what is checked.
//!
//! The types to know first: [`History`] (a run as data), [`Config`] (its device, queue and
//! channels), [`step::Action`] (what a step does), [`Outcome`], [`Report`] (what many runs came to), and [`FaultDevice`], the failing
//! device, which tests of other crates use too.
//!
//! With `RUSTFLAGS="--cfg torture"` the layer has mutants, lock contention and coverage marks
//! (`zonal_blk::probe`); without, runs do the same work without them.
#![forbid(unsafe_code)]

pub mod config;
pub mod drive;
pub mod fault;
mod medium;
mod model;
mod random;
pub mod report;
mod run;
pub mod step;
mod world;

pub use config::{Config, Profile};
pub use fault::{FaultConfig, FaultDevice};
pub use report::Report;
pub use run::{Failure, Outcome, run, shrink, silence_panics};
pub use step::History;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
