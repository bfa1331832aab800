//! Chrome's JSON ("Trace Event Format"): one event a line. Times are microseconds.
use super::timeline::{Arg, Flow, Process, Slice};
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use zonal_blk::Nanos;

/// Writes a trace.
pub(super) fn write(path: &Path, processes: &[Process]) -> Result<()> {
    let mut out =
        Writer { file: BufWriter::new(zonal_os::output_file::create(path)?), is_first: true };
    write!(out.file, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for (pid, process) in (1_u32..).zip(processes) {
        out.name("process_name", pid, 0, &process.name)?;
        let lanes = process
            .tracks
            .iter()
            .flat_map(|track| track.lanes.iter().map(move |lane| (track.name.as_str(), lane)));
        for (tid, (name, lane)) in (1_u32..).zip(lanes) {
            out.name("thread_name", pid, tid, name)?;
            lane.iter().try_for_each(|slice| out.slice(pid, tid, slice))?;
        }
        for counter in &process.counters {
            for &(at, value) in &counter.values {
                let args = json!({ counter.unit: value });
                let name = &counter.name;
                let event =
                    json!({"ph": "C", "pid": pid, "name": name, "ts": micros(at), "args": args});
                out.event(&event)?;
            }
        }
    }
    writeln!(out.file, "\n]}}")?;
    Ok(out.file.flush()?)
}

struct Writer {
    file: BufWriter<File>,
    is_first: bool,
}

impl Writer {
    fn event(&mut self, event: &Value) -> Result<()> {
        let before = if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        Ok(write!(self.file, "{before}{event}")?)
    }

    /// Names a process or a thread.
    fn name(&mut self, what: &str, pid: u32, tid: u32, name: &str) -> Result<()> {
        self.event(&json!({
            "ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name},
        }))
    }

    fn slice(&mut self, pid: u32, tid: u32, slice: &Slice) -> Result<()> {
        let arg = |(name, value): &(&str, Arg)| {
            let value = match value {
                Arg::Number(number) => (*number).into(),
                Arg::Text(text) => text.as_str().into(),
            };
            ((*name).to_owned(), value)
        };
        let args: Map<String, Value> = slice.args.iter().map(arg).collect();
        let lasts = |name: &str, from: Nanos, to: Nanos, args: Value| {
            json!({
                "ph": "X", "pid": pid, "tid": tid, "name": name, "ts": micros(from),
                "dur": micros(to - from), "args": args,
            })
        };
        self.event(&lasts(slice.name, slice.from, slice.to, args.into()))?;
        for &(name, from, to) in &slice.parts {
            self.event(&lasts(name, from, to, json!({})))?;
        }
        let (phase, id) = match slice.flow {
            Some(Flow::From(id)) => ("s", id),
            Some(Flow::To(id)) => ("f", id),
            None => return Ok(()),
        };
        let mut link = json!({
            "ph": phase, "pid": pid, "tid": tid, "name": "I/O", "cat": "io", "id": id,
            "ts": micros(slice.from),
        });
        if phase == "f" {
            // It ends in the slice that encloses it.
            link["bp"] = "e".into();
        }
        self.event(&link)
    }
}

fn micros(at: Nanos) -> f64 {
    at.0 as f64 / 1000.0
}
