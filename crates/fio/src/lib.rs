//! fio jobs: job files and options, I/O generators, the job runner, statistics and reports.
//!
//! Nothing here reads a clock or starts a thread: the runner is stepped with the time, by `sim` in
//! virtual time and by `host` on real threads.
#![forbid(unsafe_code)]

pub mod file_system;
pub mod generate;
pub mod job;
pub mod jobfile;
pub mod options;
pub mod plan;
pub mod report;
pub mod runner;
pub mod stats;
pub mod trace;
pub mod verify;
