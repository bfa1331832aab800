//! Where the head of a rotating disk is while a sequential job goes on from one zone to the next.
//!
//! Takes cells of rotating disks, whose jobs it runs for as long as it takes; gives a chart. Keeps
//! true: the device is the cell's, but that it keeps a record.
use crate::chart::{Axis, Chart, Marks, Scale, Series};
use crate::cli::ClockKind;
use crate::cmd::reproduce::how::MeasureSettings;
use crate::cmd::reproduce::measure::executor;
use crate::cmd::reproduce::measured::Measured;
use crate::cmd::reproduce::table::Cell;
use crate::devices::{self, Devices, OpenDevice};
use crate::experiment::{self, RunLength};
use anyhow::{Context, Result, bail};
use std::sync::Arc;
use zonal_blk::{Nanos, QueueOptions};
use zonal_device::device_spec::DeviceSpec;
use zonal_device::hdd::{HddDevice, HeadActivity, TraceEntry};
use zonal_fio::jobfile::{self, SystemEnvironment};

/// How long a job may take to cross a border, in virtual seconds.
const SECONDS: f64 = 8.0;
/// Activities of the head that are kept.
const ENTRIES: usize = 1 << 16;
/// What is shown, in milliseconds before and after the first access beyond the border.
const BEFORE: f64 = 100.0;
const AFTER: f64 = 400.0;

/// The head's position over time, a line for each cell.
///
/// # Errors
/// A cell is none of a rotating disk, or its job crosses no border.
pub fn chart(measured: &Measured) -> Result<Chart> {
    let table = &measured.table;
    let mut series = Vec::new();
    for (colour, &at) in table.crossings.iter().enumerate() {
        let cell = &table.cells[at];
        let (trace, border) = record(cell, &measured.settings)?;
        let points = around(&trace, border)
            .with_context(|| format!("{}: no zone border is crossed", table.name_of(at)))?;
        let name = table.name_of(at);
        let marks = Marks::Line { dashed: false, points: false };
        series.push(Series { name, colour, slot: (0, 1), marks, points });
    }
    Ok(Chart {
        title: format!("{}: the head at a zone border", table.name),
        x: Axis { label: "ms from the first access beyond the border".to_owned(), steps: None },
        y_label: "MiB from the border".to_owned(),
        scale: Scale::Linear,
        series,
    })
}

/// Runs a cell's jobs on a disk that keeps a record of its head; gives the record and the first
/// byte of the second zone.
fn record(cell: &Cell, settings: &MeasureSettings) -> Result<(Vec<TraceEntry>, u64)> {
    let setup = &cell.setup;
    let jobs = jobfile::parse_args(&setup.jobs, &SystemEnvironment)?.jobs;
    let phases = experiment::phases(jobs, Some(RunLength { ramp: 0.0, measured: SECONDS }));
    let name = phases.iter().flatten().find_map(|task| task.job.filename.as_deref());
    let name = name.context("a cell's job names its device")?.to_owned();
    let spec = devices::load(&name)?.with_seed(settings.seed);
    let DeviceSpec::Hdd(config) = &spec else { bail!("{name} is no rotating disk") };
    let disk = Arc::new(HddDevice::with_trace(config, Some(ENTRIES))?);
    let options = QueueOptions {
        zone_write: setup.zone_write,
        scheduler: setup.scheduler.parse()?,
        ..QueueOptions::default()
    };
    let channels = phases.iter().map(Vec::len).max().unwrap_or(1);
    let device = Arc::clone(&disk);
    let attached = OpenDevice::from_spec(&name, &spec, device).attach(options, channels)?;
    let border = attached.queue.limits().zone_size.to_bytes().0;
    let devices = Devices::one(attached);
    let mut executor = executor(&MeasureSettings { clock: ClockKind::Virtual, ..*settings })?;
    for phase in phases {
        executor.run(phase, &devices, settings.seed)?;
    }
    Ok((disk.trace(), border))
}

/// Time and position of the head around its first access beyond a border, relative to both; `None`
/// if there is no such access.
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
    use crate::cmd::reproduce::smr;
    use crate::cmd::reproduce::table::ANY_MACHINE;
    use zonal_blk::ZoneWrite;

    /// How far the head of a cell's disk goes back at most from one activity to the next, in MiB.
    fn way_back(zone_write: ZoneWrite) -> f64 {
        let table = smr::sequential();
        let mut cells = table.crossings.iter().map(|&at| &table.cells[at]);
        let cell = cells.find(|cell| cell.setup.zone_write == Some(zone_write));
        let cell = cell.expect("both policies are shown");
        let settings = MeasureSettings {
            clock: ClockKind::Virtual,
            rounds: 1,
            seconds: Some(1.0),
            seed: 0,
            costs: ANY_MACHINE,
        };
        let (trace, border) = record(cell, &settings).expect("the cell can be measured");
        let points = around(&trace, border).expect("the border is crossed");
        assert_eq!(around(&trace, 1 << 60), None);
        assert!(points[0].1 < 0.0, "it begins before the border");
        points.windows(2).map(|pair| pair[0].1 - pair[1].1).fold(0.0, f64::max)
    }

    #[test]
    fn head_goes_back_and_forth_over_a_border_unless_one_write_is_in_flight() {
        assert!(way_back(ZoneWrite::Plug) > 10.0, "two zones are written in turns");
        assert_eq!(way_back(ZoneWrite::Qd1), 0.0);
    }
}
