//! Errors of a validation, by kind of work and metric.
use super::Validation;
use super::baseline::{self, Place};
use crate::experiment::sorted;
use crate::measurements::{Cell, Cells, Distribution, Metric};
use std::collections::BTreeMap;
use std::fmt;

/// From this share of the highest measured bandwidth on, a load runs at the rate of the medium.
const MEDIA_RATE: f64 = 0.95;

/// Absolute errors of a group of cells, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Number of cells.
    pub cells: usize,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The largest.
    pub largest: f64,
}

impl Errors {
    /// Of these errors, whatever their sign; `None` if there are none.
    pub fn of(errors: impl Iterator<Item = f64>) -> Option<Self> {
        let errors = sorted(errors.map(f64::abs));
        let cells = errors.len();
        let at = |percent: usize| errors[(cells * percent).div_ceil(100).max(1) - 1];
        (cells > 0).then(|| Errors { cells, median: at(50), p90: at(90), largest: at(100) })
    }

    /// All of them for a table.
    pub fn fields(self) -> [String; 4] {
        let [median, p90, largest] =
            [self.median, self.p90, self.largest].map(|percent| format!("{percent:.1}"));
        [self.cells.to_string(), median, p90, largest]
    }
}

/// The demerit of a model's latency distribution: the root mean square of the horizontal distance
/// between the cumulative distributions, in percent of the measured mean (Ruemmler and Wilkes, "An
/// introduction to disk drive modeling", 1994; Kotz, Toh and Radhakrishnan, "A detailed simulation
/// model of the HP 97560 disk drive", 1994). The distance is taken at the percentiles that are
/// given, each of which stands for the share of the I/Os that is nearest to it.
pub struct Demerit;

impl Demerit {
    /// Of percentiles, each with its percent, the measured latency and the model's.
    pub fn of(points: &[(f64, f64, f64)]) -> Option<f64> {
        let end = |at: usize, next: usize| (points[at].0 + points[next].0) / 2.0;
        let (mut square, mut mean) = (0.0, 0.0);
        for (at, &(_, measured, predicted)) in points.iter().enumerate() {
            let from = if at == 0 { 0.0 } else { end(at - 1, at) };
            let to = if at + 1 == points.len() { 100.0 } else { end(at, at + 1) };
            let share = (to - from) / 100.0;
            square += share * (predicted - measured).powi(2);
            mean += share * measured;
        }
        (mean > 0.0).then(|| square.sqrt() / mean * 100.0)
    }

    fn of_distribution(validation: &Validation, distribution: &Distribution) -> Option<f64> {
        let figures = validation.loads[distribution.load].of(distribution.dir, distribution.job);
        let point = |&(percent, measured): &(f64, f64)| {
            Some((percent, measured, figures.percentile(percent)?))
        };
        Self::of(&distribution.points.iter().filter_map(point).collect::<Vec<_>>())
    }
}

/// The errors of a validation, or of a part of its cells.
pub(super) struct Summary {
    /// By kind of work and metric, in the order of the kinds' names.
    pub groups: Vec<(&'static str, Metric, Errors)>,
    /// Of jobs side by side, of any kind, by their part in the disturbance and metric.
    pub roles: Vec<(&'static str, Metric, Errors)>,
    /// Of all kinds by metric, if there are several.
    pub metrics: Vec<(&'static str, Metric, Errors)>,
    /// Demerits of latency distributions by kind of work.
    pub demerits: Vec<(&'static str, Errors)>,
    /// Of all cells.
    pub all: Option<Errors>,
    /// Of the cells that do not run at the rate of the medium.
    pub nontrivial: Option<Errors>,
    /// Of the naive baseline, over the cells that have a neighbour; and the model's over the same.
    pub baseline: Option<(Errors, Errors)>,
    /// The same without cells at the rate of the medium.
    pub nontrivial_baseline: Option<(Errors, Errors)>,
}

impl Summary {
    /// Over the cells that are held out, or over the others.
    pub fn of(validation: &Validation, held_out: bool) -> Self {
        let is_in = |&cell: &usize| validation.is_held_out(cell) == held_out;
        let chosen: Vec<usize> = (0..validation.cells.cells.len()).filter(is_in).collect();
        let cells = &validation.cells;
        let trivial = trivial_loads(&validation.cells);
        let nontrivial = |&&cell: &&usize| !trivial[validation.cells.cells[cell].load];
        let errors = |cells: &mut dyn Iterator<Item = &usize>| {
            Errors::of(cells.map(|&cell| validation.error(cell)))
        };
        let places = Place::of_all(&validation.cells);
        let guess = |&cell: &usize| {
            // What was fitted to may serve to predict what is held out, and nothing else may.
            let known = |other: usize| match validation.hold_out {
                Some(_) => !validation.is_held_out(other),
                None => true,
            };
            let guess = baseline::guess(&places, &validation.cells, cell, known)?;
            Some((cell, (guess / validation.cells.cells[cell].value - 1.0) * 100.0))
        };
        let guesses: Vec<(usize, f64)> = chosen.iter().filter_map(guess).collect();
        let compared = |keep: &dyn Fn(usize) -> bool| {
            let kept = || guesses.iter().filter(|(cell, _)| keep(*cell));
            let naive = Errors::of(kept().map(|(_, error)| *error))?;
            Some((naive, Errors::of(kept().map(|(cell, _)| validation.error(*cell)))?))
        };
        let groups = by_metric(validation, &chosen, &|cell| Some(cells.class_of(cell)));
        let has_kinds = groups.iter().any(|(class, ..)| *class != groups[0].0);
        Summary {
            groups,
            metrics: by_metric(validation, &chosen, &|_| has_kinds.then_some("all")),
            roles: by_metric(validation, &chosen, &|cell| cells.role_of(cell)),
            demerits: demerits(validation, held_out),
            all: errors(&mut chosen.iter()),
            nontrivial: errors(&mut chosen.iter().filter(nontrivial)),
            baseline: compared(&|_| true),
            nontrivial_baseline: compared(&|cell| nontrivial(&&cell)),
        }
    }
}

/// The errors of cells by name and metric, in the order of the names, without cells that have none.
fn by_metric(
    validation: &Validation,
    chosen: &[usize],
    name: &dyn Fn(&Cell) -> Option<&'static str>,
) -> Vec<(&'static str, Metric, Errors)> {
    let mut groups: BTreeMap<(&'static str, Metric), Vec<f64>> = BTreeMap::new();
    for &at in chosen {
        let cell = &validation.cells.cells[at];
        if let Some(name) = name(cell) {
            groups.entry((name, cell.metric)).or_default().push(validation.error(at));
        }
    }
    let errors = |((name, metric), errors): ((_, _), Vec<f64>)| {
        Some((name, metric, Errors::of(errors.into_iter())?))
    };
    groups.into_iter().filter_map(errors).collect()
}

fn demerits(validation: &Validation, held_out: bool) -> Vec<(&'static str, Errors)> {
    let mut by_class: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for distribution in &validation.cells.distributions {
        let load = &validation.cells.loads[distribution.load];
        let is_in = validation.hold_out.is_none_or(|one_in| load.is_held_out(one_in)) == held_out;
        if let Some(demerit) = Demerit::of_distribution(validation, distribution).filter(|_| is_in)
        {
            let class = validation.cells.class_of_distribution(distribution);
            by_class.entry(class).or_default().push(demerit);
        }
    }
    let errors = |(class, all): (_, Vec<f64>)| Some((class, Errors::of(all.into_iter())?));
    by_class.into_iter().filter_map(errors).collect()
}

/// Which loads run at the rate of the medium: that of the fastest load in the same direction.
fn trivial_loads(cells: &Cells) -> Vec<bool> {
    let rate = |at: usize| {
        let cell = &cells.cells[at];
        let block = cells.loads[cell.load].block_of(cell);
        match cell.metric {
            Metric::Bandwidth => Some(cell.value),
            Metric::Iops => Some(cell.value * block as f64 / 1e6),
            _ => None,
        }
    };
    let all = || (0..cells.cells.len()).filter_map(|at| Some((&cells.cells[at], rate(at)?)));
    let mut trivial = vec![false; cells.loads.len()];
    for (cell, own) in all() {
        let same = all().filter(|(other, _)| other.dir == cell.dir);
        let fastest = same.map(|(_, rate)| rate).fold(0.0, f64::max);
        trivial[cell.load] |= own >= fastest * MEDIA_RATE;
    }
    trivial
}

/// The cells, those with the largest errors first.
pub(super) fn by_error(validation: &Validation) -> Vec<usize> {
    let mut order: Vec<usize> = (0..validation.cells.cells.len()).collect();
    let error = |&cell: &usize| validation.error(cell).abs();
    order.sort_by(|a, b| error(b).total_cmp(&error(a)));
    order
}

/// A figure with five significant digits.
pub(super) struct Short(pub f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.abs().log10().floor().max(0.0) as usize + 1;
        f.pad_integral(true, "", &format!("{:.*}", 5_usize.saturating_sub(whole), self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::rows;
    use super::*;
    use crate::measurements::{Figures, Predicted};

    #[test]
    fn errors_are_absolute_and_percentiles_are_errors_that_occur() {
        let errors =
            Errors::of((1..=10).map(|n| if n % 2 == 0 { f64::from(n) } else { -f64::from(n) }));
        let expected = Errors { cells: 10, median: 5.0, p90: 9.0, largest: 10.0 };
        assert_eq!(errors, Some(expected));
        let one = Errors { cells: 1, median: 3.0, p90: 3.0, largest: 3.0 };
        assert_eq!(Errors::of([-3.0].into_iter()), Some(one));
        assert_eq!(Errors::of(std::iter::empty()), None);
    }

    #[test]
    fn jobs_side_by_side_are_summed_up_by_their_part_in_the_disturbance() {
        let cells = super::super::tests::cells(
            "load,kind,op,block,jobs,depth,number,rate,offset,size,iops,mb_s,lat_mean,lat_p50,lat_p99,unit\n\
             a,reset-on-write,write,8k,3,1,3,,,30z,100,,10,,,us\n\
             a,reset-on-write,reset,zone,3,1,3,,,30z,30,,1000,,,us\n\
             b,write-on-read,randread,4k,1,8,1,,,30z,200,,,,,us\n\
             b,write-on-read,write,8k,1,1,1,\",8e5,\",,30z,100,,,,,us\n\
             c,write-on-read,write,8k,1,1,1,,,30z,100,,,,,us\n",
        );
        let figures = |iops, mean| Figures { iops, mean, ..Figures::default() };
        let of_jobs = |jobs| Predicted { jobs, ..Predicted::default() };
        let loads = vec![
            of_jobs(vec![figures(101.0, 10.2), figures(30.0, 1030.0)]),
            of_jobs(vec![figures(208.0, 0.0), figures(105.0, 0.0)]),
            of_jobs(vec![figures(200.0, 0.0)]),
        ];
        let (device, free) = (String::new(), Vec::new());
        let validation = Validation { device, free, cells, loads, hold_out: None, resumed: 0 };
        let roles = Summary::of(&validation, true).roles;
        let row = |(name, metric, found): &(&'static str, Metric, Errors)| {
            (*name, metric.name(), found.cells, found.largest.round())
        };
        // The rate of the resets is told the model, and the load c has no other beside it.
        let expected = [
            ("all jobs that disturb", "iops", 1, 5.0),
            ("all jobs that disturb", "lat_mean", 1, 3.0),
            ("all jobs, disturbed", "iops", 2, 4.0),
            ("all jobs, disturbed", "lat_mean", 1, 2.0),
        ];
        assert_eq!(roles.iter().map(row).collect::<Vec<_>>(), expected);
        let rows = rows(&Summary::of(&validation, true));
        let listed = rows.iter().filter(|(name, ..)| name.starts_with("all jobs")).count();
        assert_eq!(listed, expected.len(), "{rows:?}");
    }

    #[test]
    fn metrics_are_summed_up_over_several_kinds() {
        let reads = "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
                     io,spdk,4096,randread:read,4096,1,1,iops,100,1/s\n";
        let both = format!("{reads}io,spdk,4096,write:write,4096,1,1,iops,100,1/s\n");
        let metrics = |cells: &str| {
            let cells = super::super::tests::cells(cells);
            let loads = vec![Predicted::default(); cells.loads.len()];
            let (device, free) = (String::new(), Vec::new());
            let validation = Validation { device, free, cells, loads, hold_out: None, resumed: 0 };
            Summary::of(&validation, true).metrics
        };
        assert_eq!(metrics(reads), []);
        let expected = Errors::of([100.0; 2].into_iter()).expect("two errors");
        assert_eq!(metrics(&both), [("all", Metric::Iops, expected)]);
    }

    #[test]
    fn figures_have_five_digits() {
        for (figure, expected) in [(14.8339, "14.834"), (293_685.4, "293685"), (0.5, "0.5000")] {
            assert_eq!(Short(figure).to_string(), expected);
        }
    }

    #[test]
    fn demerit_is_the_distance_between_the_distributions_over_the_mean() {
        let same = [(50.0, 10.0, 10.0), (99.0, 20.0, 20.0)];
        assert_eq!(Demerit::of(&same), Some(0.0));
        let shifted = [(50.0, 10.0, 12.0), (99.0, 10.0, 12.0)];
        assert!((Demerit::of(&shifted).unwrap() - 20.0).abs() < 1e-9);
        // The 99th percentile stands for the quarter of the I/Os above 74.5 %.
        let tail = [(50.0, 10.0, 10.0), (99.0, 10.0, 14.0)];
        assert!((Demerit::of(&tail).unwrap() - 40.0 * 0.255_f64.sqrt()).abs() < 1e-9);
        assert_eq!(Demerit::of(&[]), None);
    }

    #[test]
    fn loads_at_the_rate_of_the_fastest_are_trivial() {
        let cells = super::super::tests::cells(
            "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
             io,spdk,4096,append:write,65536,1,8,iops,15000,1/s\n\
             io,spdk,4096,append:write,65536,1,4,iops,14900,1/s\n\
             io,spdk,4096,append:write,4096,1,8,iops,143000,1/s\n\
             io,spdk,4096,randread:read,4096,1,1,iops,12000,1/s\n",
        );
        assert_eq!(trivial_loads(&cells), [true, true, false, true]);
    }
}
