//! How far off the model of a drive is in a load like that of the advice: the published figure whose
//! load is nearest, beside what the model makes of that load.
//!
//! The error is measured and not kept, so that it is always that of the model as it is.
use crate::progress::StepProgress;
use crate::reproduce::{
    self, Bench, Comparability, FigureUse, MeasureSettings, MeasuredTable, Table,
};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zonal_blk::ZoneWrite;
use zonal_fio::job::Job;
use zonal_fio::jobfile::{self, SystemEnvironment};

/// Loads whose sizes and depths differ by more than a factor of 2 to this power, multiplied together, are
/// not alike.
const FAR: f64 = 4.0;

/// A published figure, and what the model makes of its load.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownError {
    /// The table.
    pub table: String,
    /// The cell.
    pub cell: String,
    /// The published figure.
    pub published: f64,
    /// That of the model.
    pub model: f64,
    /// The unit of both.
    pub unit: &'static str,
    /// Whether a parameter of the model was adjusted to the published figure.
    pub is_fitted: bool,
}

impl KnownError {
    /// By how many percent the model's figure differs.
    pub fn percent(&self) -> f64 {
        (self.model / self.published - 1.0) * 100.0
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let Self { table, cell, published, model, unit, .. } = self;
        let fitted = if self.is_fitted { ", to which it was fitted" } else { "" };
        let percent = match self.percent() {
            percent if percent.abs() < 0.5 => "less than 0.5%".to_owned(),
            percent => format!("{percent:+.0}%"),
        };
        format!(
            "{percent} where a load like it was published ({table}, {cell}: {published} {unit}{fitted}; \
             here {model:.1})"
        )
    }
}

/// The error of the model of a drive in the load that is nearest to the jobs with a policy; `None` if
/// none was published that is like it, or `stop` was set.
///
/// # Errors
/// The load cannot be measured.
pub fn known_error(
    device: &str,
    jobs: &[Job],
    zone_write: Option<ZoneWrite>,
    seconds: f64,
    stop: &Arc<AtomicBool>,
) -> Result<Option<KnownError>> {
    let profile = super::answer::profile_of(device);
    let own = Shape::of(jobs);
    let mut nearest: Option<(f64, &Table, usize)> = None;
    for table in reproduce::tables() {
        if table.comparability != Comparability::Figures || !table.is_on(profile) {
            continue;
        }
        let found = nearest_cell(table, own, zone_write)?;
        if let Some((far, at)) = found
            && nearest.as_ref().is_none_or(|(least, ..)| far < *least)
        {
            nearest = Some((far, table, at));
        }
    }
    match nearest {
        Some((far, table, at)) if far <= FAR => measured(table.clone(), at, seconds, stop),
        _ => Ok(None),
    }
}

/// The cell with a known figure whose load is nearest, and how far that is.
fn nearest_cell(
    table: &Table,
    own: Shape,
    zone_write: Option<ZoneWrite>,
) -> Result<Option<(f64, usize)>> {
    let figures = table.figures();
    let known = figures.iter().filter(|figure| figure.value().is_some());
    let mut nearest: Option<(f64, usize)> = None;
    for at in known.filter_map(|figure| table.cell_of(figure)) {
        let setup = &table.cells[at].setup;
        if setup.zone_write.is_some() && setup.zone_write != zone_write {
            continue;
        }
        let jobs = jobfile::parse_args(&setup.jobs, &SystemEnvironment)?.jobs;
        let far = own.distance(Shape::of(&jobs));
        if let Some(far) = far.filter(|far| nearest.is_none_or(|(least, _)| far < &least)) {
            nearest = Some((far, at));
        }
    }
    Ok(nearest)
}

fn measured(
    table: Table,
    at: usize,
    seconds: f64,
    stop: &Arc<AtomicBool>,
) -> Result<Option<KnownError>> {
    let (name, cell, unit) = (table.name.clone(), table.name_of(at), table.cells[at].unit.name());
    let is_fitted = table.cells[at].figure_use != FigureUse::Prediction;
    let settings = MeasureSettings { rounds: 1, seconds: Some(seconds), ..table.settings };
    let quiet: &dyn StepProgress = &();
    let table = table.with_cells(|other| other == at);
    let measured: MeasuredTable = Bench::new(Arc::clone(stop), quiet).measure(table, settings)?;
    if measured.interrupted.is_some() {
        return Ok(None);
    }
    let model = measured.results.figure(0);
    let known = |published| KnownError { table: name, cell, published, model, unit, is_fitted };
    Ok(measured.value(0).map(known))
}

/// What makes loads alike.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    /// Direction, random or not, through a file system or not: has to be the same.
    kind: (zonal_fio::job::Rw, bool, bool),
    /// Bytes of an I/O.
    block: u64,
    /// I/Os in flight in all.
    depth: u64,
    /// Jobs at the same time.
    clones: u64,
}

impl Shape {
    fn of(jobs: &[Job]) -> Self {
        let main = &jobs[jobs.len() - 1];
        let clones = |job: &Job| u64::from(job.numjobs);
        Shape {
            kind: (main.rw, main.random, main.fs.kind.is_some()),
            block: main.bs.into_iter().max().unwrap_or(1),
            depth: jobs.iter().map(|job| clones(job) * u64::from(job.iodepth)).sum(),
            clones: jobs.iter().map(clones).sum(),
        }
    }

    /// How far it is from another: the logarithms to base 2 of the ratios, together; `None` if they are of
    /// different kinds.
    fn distance(self, other: Shape) -> Option<f64> {
        let log = |a: u64, b: u64| (a.max(1) as f64 / b.max(1) as f64).log2().abs();
        (self.kind == other.kind).then(|| {
            log(self.block, other.block)
                + log(self.depth, other.depth)
                + log(self.clones, other.clones)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(device: &str, jobs: &[&str], policy: ZoneWrite, depth: u32) -> Option<KnownError> {
        let jobs: Vec<String> = jobs.iter().map(|&option| option.to_owned()).collect();
        let mut jobs = jobfile::parse_args(&jobs, &SystemEnvironment).unwrap().jobs;
        jobs.iter_mut().for_each(|job| job.set_iodepth(depth));
        known_error(device, &jobs, Some(policy), 2.0, &Arc::default()).unwrap()
    }

    #[test]
    fn error_of_the_model_is_that_of_the_nearest_published_load() {
        let writes = ["--name=w", "--rw=write", "--bs=1m", "--zonemode=zbd"];
        let plug = error_of("smr-30t:lba=4096", &writes, ZoneWrite::Plug, 100).unwrap();
        assert_eq!(
            (plug.table.as_str(), plug.cell.as_str()),
            ("smr-seq-qd", "6.19-rc8, queue depth 128")
        );
        assert_eq!((plug.published, plug.unit, plug.is_fitted), (112.0, "MB/s", false));
        assert!(plug.percent() > 10.0, "the model is known to be optimistic here: {plug:?}");
        let fitted = error_of("smr-30t", &writes, ZoneWrite::Plug, 1).unwrap();
        assert_eq!((fitted.cell.as_str(), fitted.is_fitted), ("6.19-rc8, queue depth 1", true));
        assert!(fitted.line().contains("244 MB/s, to which it was fitted; here "), "{fitted:?}");
        let qd1 = error_of("smr-30t", &writes, ZoneWrite::Qd1, 128).unwrap();
        assert_eq!(qd1.cell, "qd1-writes, queue depth 128");
        let random = ["--name=w", "--rw=randwrite", "--bs=1m", "--numjobs=16"];
        let random = error_of("smr-30t", &random, ZoneWrite::Qd1, 32).unwrap();
        assert_eq!(random.table, "smr-rnd-zones");
    }

    #[test]
    fn where_nothing_like_it_was_published_there_is_no_error() {
        let reads = ["--name=r", "--rw=randread", "--bs=4k"];
        assert_eq!(error_of("smr-30t", &reads, ZoneWrite::Qd1, 1), None);
        let writes = ["--name=w", "--rw=write", "--bs=4k", "--zonemode=zbd"];
        assert_eq!(error_of("smr-30t", &writes, ZoneWrite::Qd1, 1), None, "too small");
        assert_eq!(error_of("hdd:recording=smr", &writes, ZoneWrite::Plug, 1), None, "no table");
    }
}
