//! Options of fio's command line that are not job options.
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use std::sync::Arc;
use zonal_fio::job::{Job, Rw};
use zonal_fio::options;
use zonal_fio::report::{Format, TerseVersion};

/// Options of fio's command line; hidden are those without effect here, and what `zonal` itself has.
#[derive(Args, Debug)]
pub struct FioArgs {
    /// Print the version, and run nothing
    #[arg(long, hide = true)]
    pub version: bool,
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
    /// Version of the terse format, 2 to 5
    #[arg(long, value_name = "N", default_value = "3", value_parser = terse_version)]
    pub terse_version: TerseVersion,
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

/// Parses the version of the terse format.
fn terse_version(text: &str) -> Result<TerseVersion, String> {
    let versions = [TerseVersion::V2, TerseVersion::V3, TerseVersion::V4, TerseVersion::V5];
    let version = versions.into_iter().find(|version| (*version as u8).to_string() == text);
    version.ok_or_else(|| "expected 2, 3, 4 or 5".to_owned())
}

/// Checks a time that has no effect.
fn time(text: &str) -> Result<(), String> {
    options::parse_seconds(text).map(|_| ()).map_err(|error| error.to_string())
}

impl FioArgs {
    /// The formats of `--output-format`, with those of fio's other options.
    pub fn formats(&self, mut formats: Vec<Format>) -> Vec<Format> {
        formats.retain(|format| !self.append_terse || !matches!(format, Format::Terse(_)));
        if self.append_terse {
            formats.push(Format::Terse(self.terse_version));
        }
        let with_version = |format| match format {
            Format::Terse(_) => Format::Terse(self.terse_version),
            other => other,
        };
        formats.into_iter().map(with_version).collect()
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
