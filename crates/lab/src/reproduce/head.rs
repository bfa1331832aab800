//! The position of a rotating disk's head while a sequential job crosses a zone border.
//!
//! Each cell is run again, on the same disk with tracing of its head switched on.
use super::measured::MeasuredTable;
use super::settings::MeasureSettings;
use super::table::Cell;
use crate::chart::{Axis, Chart, Marks, Scale, Series};
use crate::devices::Devices;
use crate::executor::Executor;
use crate::experiment::{self, RunLength};
use anyhow::{Context, Result, bail};
use std::sync::Arc;
use zonal_backend::Stack;
use zonal_blk::{Nanos, QueueOptions, ZoneWrite};
use zonal_device::hdd::{HddDevice, HeadActivity, TraceEntry};
use zonal_fio::jobfile::{self, SystemEnvironment};

/// Virtual seconds in which a job has to cross a border.
const SECONDS: f64 = 8.0;
/// Activities of the head that the trace holds.
const ENTRIES: usize = 1 << 16;
/// Milliseconds that are shown before and after the first access beyond the border.
const BEFORE: f64 = 100.0;
const AFTER: f64 = 400.0;

/// The head's position over time, one line per cell.
///
/// # Errors
/// A cell is not on a rotating disk, or its job crosses no border.
pub fn chart(measured: &MeasuredTable) -> Result<Chart> {
    let table = &measured.table;
    let mut series = Vec::new();
    for (colour, &at) in table.crossings.cells.iter().enumerate() {
        let cell = &table.cells[at];
        let (trace, border) = trace(cell, &measured.settings)?;
        let points = around(&trace, border)
            .with_context(|| format!("{}: no zone border is crossed", table.name_of(at)))?;
        let name = caption(cell.setup.zone_write);
        let marks = Marks::Line { dashed: false, points: false };
        series.push(Series { name, colour, slot: (0, 1), marks, points });
    }
    Ok(Chart {
        title: table.crossings.title.clone(),
        x: Axis {
            label: "milliseconds from the first access beyond the border".to_owned(),
            steps: None,
            scale: Scale::Linear,
        },
        y_label: "MiB from the zone border".to_owned(),
        scale: Scale::Linear,
        series,
    })
}

/// A policy's treatment of the writes in flight, in words.
fn caption(zone_write: Option<ZoneWrite>) -> String {
    match zone_write {
        Some(ZoneWrite::Qd1) => "the disk has one write at a time".to_owned(),
        Some(ZoneWrite::Plug) => "the disk has one write of each zone".to_owned(),
        policy => policy.map_or("no zones", ZoneWrite::name).to_owned(),
    }
}

/// Runs a cell's jobs on a disk that traces its head. Returns the trace and the first byte of the
/// second zone.
fn trace(cell: &Cell, settings: &MeasureSettings) -> Result<(Vec<TraceEntry>, u64)> {
    let setup = &cell.setup;
    let jobs = jobfile::parse_args(&setup.jobs, &SystemEnvironment)?.jobs;
    let phases = experiment::phases(jobs, Some(RunLength { ramp: 0.0, measured: SECONDS }))?;
    let name = phases.iter().flatten().find_map(|task| task.job.filename.as_deref());
    let name = name.context("a cell's job names its device")?.to_owned();
    let spec = zonal_backend::load(&name)?.with_seed(settings.seed);
    let Some(config) = spec.config_of() else { bail!("{name}: expected a rotating disk") };
    let disk = Arc::new(HddDevice::with_trace(config, Some(ENTRIES))?);
    let options = QueueOptions {
        zone_write: setup.zone_write,
        scheduler: setup.scheduler.parse()?,
        ..QueueOptions::default()
    };
    let channels = phases.iter().map(Vec::len).max().unwrap_or(1);
    let device = Arc::clone(&disk);
    let attached = Stack::from_spec(&name, &spec, device, channels).attach(options)?;
    let border = attached.queue.limits().zone_size.to_bytes().0;
    let devices = Devices::one(attached);
    let mut executor = Executor::virtual_time(settings.costs);
    for phase in phases {
        executor.run(phase, &devices, settings.seed, true)?;
    }
    Ok((disk.trace(), border))
}

/// Time and position of the head around its first access beyond a border, relative to that access
/// and to the border; `None` if there is no such access.
fn around(trace: &[TraceEntry], border: u64) -> Option<Vec<(f64, f64)>> {
    let beyond =
        |entry: &&TraceEntry| entry.activity == HeadActivity::Transfer && entry.byte >= border;
    let Nanos(crossed) = trace.iter().find(beyond)?.at;
    let place = |entry: &TraceEntry| {
        let time = (entry.at.0 as f64 - crossed as f64) / 1e6;
        (time, (entry.byte as f64 - border as f64) / f64::from(1 << 20))
    };
    let shown = |&(time, _): &(f64, f64)| (-BEFORE..=AFTER).contains(&time);
    Some(trace.iter().map(place).filter(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::tables;

    /// The longest distance in MiB that the head moves back from one activity to the next.
    fn longest_move_back(zone_write: ZoneWrite) -> f64 {
        let table = tables().iter().find(|table| table.name == "smr-seq-qd").expect("it is one");
        let mut cells = table.crossings.cells.iter().map(|&at| &table.cells[at]);
        let cell = cells.find(|cell| cell.setup.zone_write == Some(zone_write));
        let cell = cell.expect("both policies are shown");
        let settings = MeasureSettings::virtual_time(1, Some(1.0));
        let (trace, border) = trace(cell, &settings).expect("the cell can be measured");
        let points = around(&trace, border).expect("the border is crossed");
        assert_eq!(around(&trace, 1 << 60), None);
        assert!(points[0].1 < 0.0, "the trace begins before the border");
        points.windows(2).map(|pair| pair[0].1 - pair[1].1).fold(0.0, f64::max)
    }

    #[test]
    fn head_moves_back_and_forth_over_a_border_unless_a_single_write_is_in_flight() {
        assert!(longest_move_back(ZoneWrite::Plug) > 10.0, "writes to the two zones alternate");
        assert_eq!(longest_move_back(ZoneWrite::Qd1), 0.0);
    }
}
