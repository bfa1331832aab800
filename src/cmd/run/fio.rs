//! Options of fio's command line that are not job options.
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use std::sync::Arc;
use zonal_fio::job::{Job, Rw};
use zonal_fio::options;
use zonal_fio::report::Format;

/// Options of fio's command line; hidden are those without effect here.
#[derive(Args, Debug)]
pub struct FioArgs {
    /// Refuse jobs that write or trim
    #[arg(long)]
    pub readonly: bool,
    /// Refuse more clones of all jobs than this
    #[arg(long, value_name = "N")]
    pub max_jobs: Option<u64>,
    /// Refuse jobs about which there is a notice
    #[arg(long)]
    pub warnings_fatal: bool,
    /// Add the terse format to the output formats
    #[arg(long)]
    pub append_terse: bool,
    /// Version of the terse format: 3 is the only one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=3))]
    pub terse_version: Option<u8>,
    /// The line of progress is one line
    #[arg(long, hide = true, value_name = "TIME", value_parser = time)]
    pub eta_newline: Option<()>,
    /// The line of progress is renewed several times a second
    #[arg(long, hide = true, value_name = "TIME", value_parser = time)]
    pub eta_interval: Option<()>,
    /// CPUs that idle are not measured
    #[arg(long, hide = true, value_name = "MODE")]
    pub idle_prof: Option<IdleProf>,
    /// Memory is allocated as it is needed
    #[arg(long, hide = true, value_name = "KIB")]
    pub alloc_size: Option<u64>,
}

/// `--idle-prof`
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum IdleProf {
    /// Of all CPUs together.
    System,
    /// Of each CPU.
    Percpu,
    /// Only calibrate.
    Calibrate,
}

/// Checks a time that has no effect.
fn time(text: &str) -> Result<(), String> {
    options::parse_seconds(text).map(|_| ()).map_err(|error| error.to_string())
}

impl FioArgs {
    /// Adds the formats that are wanted besides.
    pub fn add_formats(&self, formats: &mut Vec<Format>) {
        if self.append_terse && !formats.contains(&Format::Terse) {
            formats.push(Format::Terse);
        }
    }

    /// Checks that the jobs are allowed.
    pub fn check(&self, jobs: &[Arc<Job>], notices: &[String]) -> Result<()> {
        if let Some(notice) = notices.first() {
            ensure!(!self.warnings_fatal, "--warnings-fatal: {notice}");
        }
        let changes = |job: &&Arc<Job>| job.rw != Rw::Read || job.verify.trim.percentage > 0;
        if let Some(job) = jobs.iter().find(changes) {
            ensure!(!self.readonly, "--readonly: job {} writes or trims", job.name);
        }
        let clones: u64 = jobs.iter().map(|job| u64::from(job.numjobs)).sum();
        let most = self.max_jobs.unwrap_or(u64::MAX);
        ensure!(
            clones <= most,
            "--max-jobs: found {clones} clones of all jobs, expected at most {most}"
        );
        Ok(())
    }
}
