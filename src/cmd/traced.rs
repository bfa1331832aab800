//! Options of traces of I/Os: of `zonal run` and of `zonal serve`.
use crate::args::size;
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use zonal_blk::Bytes;
use zonal_lab::io_trace::{Format, IoTrace, Settings, Version};

/// Options of a trace. The group `traced` has those that ask for one.
#[derive(Args, Debug)]
pub struct TraceArgs {
    /// Trace what happens to each I/O in the block layer and on the device to a file, for a trace
    /// viewer
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Format of the trace: perfetto (ui.perfetto.dev), json (Chrome), blktrace (blkparse, btt,
    /// iowatcher; files FILE.blktrace.N) or blktrace2 (the same of Linux 6.19, with zones)
    /// [default: by the file's extension, else perfetto]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "trace")]
    trace_format: Option<TraceFormat>,
    /// Trace one in N I/Os of each job or client
    #[arg(long, value_name = "N", default_value_t = 1, requires = "traced",
          value_parser = clap::value_parser!(u64).range(1..))]
    trace_sample: u64,
    /// Most memory for what is traced; I/Os that no longer fit are not in the trace
    #[arg(long, value_name = "SIZE", default_value = "256M", requires = "traced",
          value_parser = size)]
    trace_size: u64,
}

/// `--trace-format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TraceFormat {
    /// Perfetto's protocol buffers
    Perfetto,
    /// Chrome's JSON
    Json,
    /// blktrace's binary files
    Blktrace,
    /// blktrace's binary files of version 2
    Blktrace2,
}

impl From<TraceFormat> for Format {
    fn from(format: TraceFormat) -> Self {
        match format {
            TraceFormat::Perfetto => Format::Perfetto,
            TraceFormat::Json => Format::Json,
            TraceFormat::Blktrace => Format::Blktrace(Version::One),
            TraceFormat::Blktrace2 => Format::Blktrace(Version::Two),
        }
    }
}

impl TraceArgs {
    /// The events to trace.
    pub fn settings(&self) -> Settings {
        let file = self.trace.clone().map(|path| {
            let format = self.trace_format.map_or(Format::of(&path), Into::into);
            (path, format)
        });
        Settings { file, one_in: self.trace_sample, limit: Bytes(self.trace_size) }
    }
}

/// Writes a trace, and warns if it is not whole.
///
/// # Errors
/// A file cannot be written.
pub fn finish(trace: &IoTrace) -> Result<()> {
    let summary = trace.finish()?;
    if summary.full_at.is_some() {
        tracing::warn!("the trace is not whole: {summary}");
    }
    Ok(())
}
