//! The compiled half of the Python package `zonal`: it takes plain values, calls the libraries that the
//! program calls, and returns plain values. What people see is in `package/zonal`.
//!
//! ```text
//!  device    devices and images: zones, reading, writing, appending
//!  queue     I/O in flight on a device
//!  open      an open device and what is in flight on it
//!  jobs      jobs as arguments or as the text of a job file
//!  run       runs jobs
//!  measured  validate and fit: a model beside measurements
//!  advise    which configuration suits jobs
//!  crash     what a loss of power may leave
//!  serve     devices that are served to others
//!  sweep     the file of a sweep
//!  torture   seeds of torture, and the reports of many
//!  watch     work on a thread of its own, while Python's hears Ctrl-C and shows progress
//!  error     errors as exceptions
//! ```
// The macros of PyO3 contain unsafe code; nothing else does.
#![allow(
    clippy::doc_lazy_continuation,
    reason = "`>>>` begins an example of Python, not a quotation"
)]
mod advise;
mod crash;
mod device;
mod error;
mod jobs;
mod measured;
mod open;
mod queue;
mod run;
mod serve;
mod sweep;
mod torture;
mod watch;

use pyo3::prelude::*;

#[pymodule]
mod _zonal {
    #[pymodule_export]
    use crate::advise::advise;
    #[pymodule_export]
    use crate::crash::crash;
    #[pymodule_export]
    use crate::device::{Device, Zone, create_image, device_help, profile_text, profiles};
    #[pymodule_export]
    use crate::measured::{fit, validate};
    #[pymodule_export]
    use crate::queue::{Completion, Queue};
    #[pymodule_export]
    use crate::run::run;
    #[pymodule_export]
    use crate::serve::Server;
    #[pymodule_export]
    use crate::sweep::sweep_file;
    #[pymodule_export]
    use crate::torture::{check_torture_profile, merge_torture, torture};
    #[pymodule_export]
    use crate::{in_child, version};
}

/// Called in a child of `os.fork`: devices of its parent are not its own.
#[pyfunction]
fn in_child() {
    zonal_os::fork::in_child();
}

/// The version of the package.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
