#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod generate;
pub mod job;
pub mod jobfile;
pub mod logs;
#[cfg(not(torture))]
mod mistake;
#[cfg(torture)]
pub mod mistake;
pub mod options;
pub mod placement;
pub mod plan;
pub mod report;
pub mod rng;
pub mod runner;
pub mod stats;
pub mod trace;
pub mod verify;
