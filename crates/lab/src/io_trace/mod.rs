//! The way of each I/O of a run from its submission to its completion: for trace viewers ([`Format`]),
//! and explained by percentile ([`IoTrace::sections`]).
mod blktrace;
mod chrome;
mod collect;
mod explain;
mod explain_page;
mod inside;
mod lives;
mod perfetto;
mod timeline;

use crate::check_writable;
use anyhow::{Context, Result};
use collect::{Budget, Collector, Log};
use lives::Life;
use serde_json::{Value, json};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use zonal_backend::Stack;
use zonal_blk::{Bytes, Nanos};
use zonal_device::flash::FlashEntry;
pub use zonal_fio::trace::blktrace::Version;

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Perfetto's protocol buffers, as ui.perfetto.dev and `trace_processor` read them.
    Perfetto,
    /// Chrome's JSON (the "Trace Event Format").
    Json,
    /// blktrace's binary files, one for each channel: `FILE.blktrace.N`.
    Blktrace(Version),
}

impl Format {
    /// The format that a file's name suggests: JSON for `.json`, blktrace for `.blktrace`
    /// and `.blktrace2`, else the format of Perfetto.
    pub fn of(file: &Path) -> Self {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Format::Json,
            Some("blktrace") => Format::Blktrace(Version::One),
            Some("blktrace2") => Format::Blktrace(Version::Two),
            _ => Format::Perfetto,
        }
    }
}

/// The events to trace.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file and its format; `None` to trace for [`IoTrace::sections`] alone.
    pub file: Option<(PathBuf, Format)>,
    /// Trace one in this many bios of each channel.
    pub one_in: u64,
    /// The most memory that events may take; what comes later is not traced.
    pub limit: Bytes,
}

/// The traces of all devices of a run.
pub struct IoTrace {
    settings: Settings,
    budget: Arc<Budget>,
    devices: Vec<DeviceTrace>,
    /// The trace, put together once the jobs have ended.
    traced: OnceLock<Vec<Traced>>,
}

struct DeviceTrace {
    name: String,
    collector: Arc<Collector>,
    heads: Option<Arc<Log<HeadEntry>>>,
    flash: Option<Arc<Log<FlashEntry>>>,
}

/// The trace of one device.
struct Traced {
    name: String,
    /// By the time of their submission.
    lives: Vec<Life>,
    /// The activities of a rotating disk's head, in order.
    heads: Vec<HeadEntry>,
    /// The activities of the dies of a flash drive, each die's in order.
    flash: Vec<FlashEntry>,
}

/// An activity of a head.
type HeadEntry = zonal_device::hdd::TraceEntry;

/// The events that a trace lacks, and how many it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// I/Os that are in the trace from beginning to end.
    pub ios: u64,
    /// When the memory for events was used up: the trace ends there.
    pub full_at: Option<Nanos>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} I/Os", self.ios)?;
        match self.full_at {
            None => Ok(()),
            Some(at) => write!(
                f,
                "; the memory for events was full at {:.6} s, and what followed is missing: trace \
                 fewer I/Os (--trace-sample) or allow more memory (--trace-size)",
                at.0 as f64 / 1e9
            ),
        }
    }
}

impl IoTrace {
    /// Traces all devices from now on. None of them may have a channel.
    ///
    /// # Errors
    /// The file cannot be created: better now than after a long run.
    pub fn start<'a>(devices: impl Iterator<Item = &'a Stack>, settings: Settings) -> Result<Self> {
        if let Some((path, format)) = &settings.file {
            let first = match format {
                Format::Blktrace(_) => blktrace::name(path, 0),
                Format::Perfetto | Format::Json => path.clone(),
            };
            check_writable(&first).with_context(|| format!("--trace {}", path.display()))?;
        }
        let budget = Arc::new(Budget::new(settings.limit));
        let start = |device: &Stack| {
            let collector = Arc::new(Collector::new(&budget));
            device.queue.trace(Arc::clone(&collector) as _, settings.one_in);
            let heads = Arc::new(Log::new(&budget));
            let log = Arc::clone(&heads);
            let turns = device.model.trace_head(Box::new(move |entry| log.add(entry.at, *entry)));
            let flash = Arc::new(Log::new(&budget));
            let log = Arc::clone(&flash);
            let has_dies =
                device.model.trace_flash(Box::new(move |entry| log.add(entry.from, *entry)));
            let (heads, flash) = (turns.then_some(heads), has_dies.then_some(flash));
            DeviceTrace { name: device.name.clone(), collector, heads, flash }
        };
        let devices = devices.map(start).collect();
        Ok(IoTrace { settings, budget, devices, traced: OnceLock::new() })
    }

    /// Writes the trace, if it has a file. To be called once the jobs have ended.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(&self) -> Result<Summary> {
        let traced = self.traced();
        if let Some((path, format)) = &self.settings.file {
            let full_at = self.budget.full_at();
            let write = || match *format {
                Format::Perfetto => perfetto::write(path, &timeline::of(traced, full_at)),
                Format::Json => chrome::write(path, &timeline::of(traced, full_at)),
                Format::Blktrace(version) => {
                    let events = self.devices.iter().map(|device| device.collector.events());
                    blktrace::write(path, version, &events.collect::<Vec<_>>(), full_at)
                }
            };
            write().with_context(|| format!("--trace {}", path.display()))?;
        }
        Ok(self.summary())
    }

    /// The trace. To be called once the jobs have ended.
    pub fn summary(&self) -> Summary {
        let ios: usize = self.traced().iter().map(|device| device.lives.len()).sum();
        Summary { ios: ios as u64, full_at: self.budget.full_at() }
    }

    /// The parts that the trace lacks; `None` if it is whole.
    fn incomplete(&self) -> Option<(String, Value)> {
        let Summary { ios, full_at } = self.summary();
        let lacks = json!({
            "ios": ios,
            "full_at_ns": full_at?.0,
            "limit_bytes": self.settings.limit.0,
        });
        Some(("trace_incomplete".to_owned(), Value::Array(vec![lacks])))
    }

    /// Sections of a report: where the time of the I/Os went, device by device, if that is to be
    /// `explained`; and what the trace lacks, if it is not whole. To be called once the jobs have ended.
    pub fn sections(&self, explained: bool) -> Vec<(String, Value)> {
        explained.then(|| self.explanation()).into_iter().chain(self.incomplete()).collect()
    }

    fn explanation(&self) -> (String, Value) {
        let devices = self.traced();
        let sections = devices.iter().map(|device| explain::of(device).section());
        ("explain".to_owned(), sections.collect())
    }

    /// The same as text: a table for each device. To be called once the jobs have ended.
    pub fn explained(&self) -> String {
        let devices = self.traced().iter().map(explain::of);
        let table = |device: explain::Explained| {
            let lines = match device.rows() {
                [] => vec!["too few I/Os to explain".to_owned()],
                rows => explain_page::table(rows).text(&[0, 1]),
            };
            let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
            format!("\nWhere the time of the I/Os went, {}:\n{lines}", device.device())
        };
        devices.map(table).collect()
    }

    /// The same as a page. To be called once the jobs have ended.
    pub fn page(&self) -> String {
        let devices: Vec<_> = self.traced().iter().map(explain::of).collect();
        let summary = self.summary();
        explain_page::page(&devices, summary.full_at.map(|_| summary.to_string()).as_deref())
    }

    fn traced(&self) -> &[Traced] {
        let traced = |device: &DeviceTrace| Traced {
            name: device.name.clone(),
            lives: lives::of(device.collector.events()),
            heads: device.heads.as_ref().map(|heads| heads.entries()).unwrap_or_default(),
            flash: device.flash.as_ref().map(|flash| flash.entries()).unwrap_or_default(),
        };
        self.traced.get_or_init(|| self.devices.iter().map(traced).collect())
    }
}
