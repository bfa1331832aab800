//! A disk of a file system, and why a file system does not fit it.
use std::sync::Arc;
use zonal_blk::Queue;
use zonal_fio::job::Job;

/// A disk of a file system.
pub struct Disk {
    /// Its block layer.
    pub queue: Arc<Queue>,
    /// Whether the device stores data, so that bios carry it.
    pub keeps_data: bool,
}

/// Why the file system of a job cannot be created.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("job {job}: {option}: {problem}")]
pub struct MountError {
    /// The job's name.
    pub job: String,
    /// The option that does not fit.
    pub option: &'static str,
    /// The text found, and what was expected.
    pub problem: String,
}

impl MountError {
    pub(super) fn new(job: &Job, option: &'static str, problem: impl Into<String>) -> Self {
        MountError { job: job.name.clone(), option, problem: problem.into() }
    }
}
