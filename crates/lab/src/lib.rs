//! Experiments with zoned block devices, as functions that return data.
//!
//! ```text
//!  reproduce   published tables, measured again and compared with the published figures
//!  sweep       any job over any axes
//!  advise      which scheduler, zone-write policy and queue depth suit jobs on a device
//!  drives      which kind of drive suits jobs, of the same flash
//!  fit         device profiles adjusted to what was measured on a drive
//!  validate    measured cells of a drive, predicted by a model
//!  measurements  what was measured on a drive, for these two
//!  device_check  what a device model can do, checked against arithmetic on its parameters
//!  fio_job     a job that verifies what it had flushed before a loss of power, for the crash lab
//!  fio_verify  what a loss of power may not do to fio's verified blocks, for the crash lab
//!  crash_page  the page of a run of the crash lab
//!  zone_copy   what zones hold, from one image to another
//!  run         jobs made ready to run: traces, devices, checks, reports
//!       \          |
//!        \     experiment      one load on devices of its own; many of them side by side
//!         \        |
//!          +--> executor       runs phases of tasks in real or in virtual time
//!                  |           (independent: those that share nothing, on several processors)
//!               devices        the devices of a run
//! ```
//!
//! The types to know first: [`devices::Devices`] (the devices of a run), [`executor::Executor`] (a
//! clock and what runs jobs by it), [`experiment::Outcome`] (what a load came to),
//! [`reproduce::MeasuredTable`] (a table that was measured), [`sweep::Sweep`] and [`advise::Advice`].
//!
//! Nothing here prints: progress goes to a [`progress::StepProgress`], notices to a
//! `zonal_backend::Notices`, results are returned, as data or as text in one of several formats.
#![forbid(unsafe_code)]

pub mod advise;
pub mod chart;
pub mod crash_page;
mod curves;
pub mod device_check;
pub mod devices;
pub mod drives;
pub mod estimate;
pub mod executor;
pub mod experiment;
pub mod fio_job;
pub mod fio_verify;
pub mod fit;
pub mod host_cost;
mod independent;
pub mod io_trace;
pub mod jobs;
pub mod measurements;
pub mod page;
pub mod progress;
pub mod reproduce;
pub mod run;
pub mod sweep;
pub mod table;
pub mod validate;
pub mod zone;
pub mod zone_copy;

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// An error for people, with its causes. Some errors of libraries contain their cause, which is not
/// repeated.
pub fn describe(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = format!(": {cause}");
        if !words.ends_with(&cause) {
            words += &cause;
        }
    }
    words
}

/// Checks that a file can be written at the end of a run, and creates it if need be. An older one keeps
/// its contents until then.
///
/// # Errors
/// It cannot be written.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    zonal_os::output_file::open(&options, path).map(drop)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
