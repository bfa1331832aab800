//! Reports in fio 3.41's output formats, so that tools for fio's output can read them.
//!
//! The text depends on the [`Report`] alone: a run in virtual time gives the same bytes for the same
//! seed.
//!
//! ```text
//!  Report (clones) --summary--> entries and groups --+--> normal   for people
//!                                                    +--> json     json, json+
//!                                                    +--> terse    one line per entry
//! ```
mod closing;
mod json;
mod normal;
mod summary;
mod terse;
mod units;

use crate::job::Job;
use crate::stats::IoStats;
use serde_json::Value;
use std::str::FromStr;
use zonal_blk::Status;

pub use normal::announce;

/// The contents of a report.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Name and version of the program, in place of fio's: `zonal-0.2.0`.
    pub version: String,
    /// End of the run in milliseconds since 1970-01-01 UTC. `None` in virtual time, where the report
    /// must not depend on the date.
    pub timestamp_ms: Option<u64>,
    /// Start of the run in milliseconds since 1970-01-01 UTC; `None` in virtual time.
    pub started_ms: Option<u64>,
    /// Options of the `[global]` sections
    /// ([`JobSet::global_options`](crate::jobfile::JobSet::global_options)).
    pub global_options: Vec<(String, String)>,
    /// All clones, in the order of the job file.
    pub jobs: Vec<JobReport<'a>>,
    /// The device spec.
    pub device: String,
    /// The clock of the run: `real` or `virtual`.
    pub clock: &'a str,
    /// The seed that reproduces the run.
    pub seed: u64,
    /// The zone write policy.
    pub policy: String,
    /// The I/O of each device (`disk_util` of the JSON formats, `Disk stats` of the normal one).
    pub disk_util: Vec<DiskUtil>,
    /// Additional sections of the `zonal` object of the JSON formats, by name and in this order, such
    /// as counters of the plug or the scheduler.
    pub extra: Vec<(String, Value)>,
}

/// The I/O of a device: an entry of fio's `disk_util`, with its names.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DiskUtil {
    /// The device.
    pub name: String,
    /// Reads that it completed.
    pub read_ios: u64,
    /// Writes.
    pub write_ios: u64,
    /// Sectors of 512 bytes read.
    pub read_sectors: u64,
    /// Sectors written.
    pub write_sectors: u64,
    /// Reads that were merged into others.
    pub read_merges: u64,
    /// Writes that were merged into others.
    pub write_merges: u64,
    /// Milliseconds that reads took in total.
    pub read_ticks: u64,
    /// Milliseconds that writes took in total.
    pub write_ticks: u64,
    /// Milliseconds that all commands took in total.
    pub in_queue: u64,
    /// Percentage of the time in which the device had commands.
    pub util: f64,
}

/// One clone of a job.
#[derive(Clone, Debug)]
pub struct JobReport<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its reporting group, from 0.
    pub groupid: u32,
    /// Process or thread ID; 0 in virtual time.
    pub pid: u32,
    /// Whether its device transfers data, or models the time that takes. Otherwise the bandwidth says
    /// no more than the IOPS.
    pub transfers: bool,
    /// Its statistics.
    pub stats: IoStats,
    /// The error that ended it.
    pub error: Option<Status>,
    /// Estimated seconds left; 0 once it has ended.
    pub eta: u64,
    /// Seconds since the run began.
    pub elapsed: u64,
}

/// An output format (`--output-format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Human-readable text.
    Normal,
    /// JSON.
    Json,
    /// JSON with the histograms of completion latencies (`bins`).
    JsonPlus,
    /// fio's terse format: one line of fields separated by semicolons.
    Terse(TerseVersion),
}

/// A version of fio's terse format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TerseVersion {
    /// Without the name of the program.
    V2 = 2,
    /// Without trims.
    V3 = 3,
    /// With reads, writes and trims.
    V4 = 4,
    /// Also with the samples of IOPS.
    V5 = 5,
}

/// Not the name of an output format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown output format '{0}': expected normal, terse, json or json+{hint}",
    hint = zonal_blk::did_you_mean(.0, ["normal", "terse", "json", "json+"])
)]
pub struct ParseFormatError(String);

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(name: &str) -> Result<Self, ParseFormatError> {
        match name {
            "normal" => Ok(Format::Normal),
            "json" => Ok(Format::Json),
            "json+" => Ok(Format::JsonPlus),
            "terse" | "minimal" => Ok(Format::Terse(TerseVersion::V3)),
            _ => Err(ParseFormatError(name.to_owned())),
        }
    }
}

impl Format {
    /// Parses a list as in `--output-format=normal,json`.
    ///
    /// # Errors
    /// The first name that is not that of a format.
    pub fn parse_list(names: &str) -> Result<Vec<Self>, ParseFormatError> {
        names.split(',').map(|name| name.trim().parse()).collect()
    }
}

/// Renders the report in all of `formats`. As in fio, the order is always terse, JSON, normal, and
/// `json+` replaces `json` if both are requested.
pub fn render(report: &Report<'_>, formats: &[Format]) -> String {
    let summary = summary::Summary::of(report);
    let wants = |format| formats.contains(&format);
    let mut out = String::new();
    for format in formats {
        if let Format::Terse(version) = *format {
            out += &terse::render(report, &summary, version);
        }
    }
    if wants(Format::Json) || wants(Format::JsonPlus) {
        out += &json::render(report, &summary, wants(Format::JsonPlus));
    }
    if wants(Format::Normal) {
        out += &normal::render(report, &summary);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_lists_are_parsed() {
        assert_eq!(Format::parse_list("normal, json+"), Ok(vec![Format::Normal, Format::JsonPlus]));
        assert_eq!(
            Format::parse_list("json,xml").map_err(|e| e.to_string()),
            Err("unknown output format 'xml': expected normal, terse, json or json+".to_owned())
        );
    }
}
