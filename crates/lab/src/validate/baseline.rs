//! The naive baseline: what the neighbouring cells say of a cell.
//!
//! Two cells are neighbours if they differ in one number of their loads alone, such as the depth. With
//! neighbours on both sides, the guess is on the straight line between them on logarithmic axes;
//! otherwise it is the figure of the nearest.
use crate::measurements::{Cells, Load, NamedLoad};
use zonal_fio::job::DataDir;
use zonal_fio::options::parse_size;

/// Job options whose numbers may differ between neighbours.
const NUMBERS: [&str; 6] =
    ["bs", "iodepth", "numjobs", "max_open_zones", "job_max_open_zones", "rwmixread"];

/// Where a cell is among the others.
pub(super) struct Place {
    /// The facts that have to be the same.
    group: String,
    /// The numbers that may differ, in a fixed order.
    numbers: Vec<f64>,
}

impl Place {
    /// The places of all cells.
    pub fn of_all(cells: &Cells) -> Vec<Self> {
        let place = |cell: &crate::measurements::Cell| {
            let dir = cell.dir.map_or(3, |dir: DataDir| dir as usize);
            let (group, numbers) = match &cells.loads[cell.load] {
                Load::Named(NamedLoad { driver, lba, block, zones, depth, .. }) => {
                    let numbers = [*block as f64, f64::from(*zones), f64::from(*depth)];
                    (format!("{driver} {lba} {}", cell.op), numbers.to_vec())
                }
                Load::SideBySide(load) => load.place(cell.job.unwrap_or(0)),
                Load::Jobs(load) => {
                    let (mut group, mut numbers) = (String::new(), Vec::new());
                    for option in load.options.iter().filter(|o| !o.starts_with("--name=")) {
                        let (key, value) = option.split_once('=').unwrap_or((option, ""));
                        let numeric = NUMBERS.contains(&key.trim_start_matches('-'));
                        match parse_size(value) {
                            Ok(number) if numeric => numbers.push(number as f64),
                            _ => group.push_str(value),
                        }
                        group.push_str(key);
                    }
                    let (driver, scheduler) = (&load.driver, &load.scheduler);
                    (format!("{driver} {scheduler:?} {:?} {group}", load.zone_write), numbers)
                }
            };
            Place { group: format!("{group} {dir} {}", cell.metric.name()), numbers }
        };
        cells.cells.iter().map(place).collect()
    }

    /// The one number in which a neighbour differs: its index, and the logarithm of the quotient.
    fn distance(&self, other: &Self) -> Option<(usize, f64)> {
        if self.group != other.group || self.numbers.len() != other.numbers.len() {
            return None;
        }
        let both = self.numbers.iter().zip(&other.numbers);
        let mut differing = both.enumerate().filter(|(_, (own, others))| own != others);
        let (at, (own, others)) = differing.next()?;
        // One byte or zone more than there are: the bytes before a reset may be none.
        (differing.next().is_none()).then(|| (at, ((others + 1.0) / (own + 1.0)).ln()))
    }
}

/// The guess for a cell from its neighbours that are `known`.
pub(super) fn guess(
    places: &[Place],
    cells: &Cells,
    cell: usize,
    known: impl Fn(usize) -> bool,
) -> Option<f64> {
    let own = &places[cell];
    let mut nearest: Option<(f64, usize)> = None;
    // By number: the nearest below and above.
    let mut sides = vec![[None::<(f64, usize)>; 2]; own.numbers.len()];
    for (other, place) in places.iter().enumerate() {
        let Some((at, distance)) = own.distance(place).filter(|_| known(other)) else { continue };
        let nearer =
            |best: Option<(f64, usize)>| best.is_none_or(|(d, _)| distance.abs() < d.abs());
        let side = &mut sides[at][usize::from(distance > 0.0)];
        if nearer(*side) {
            *side = Some((distance, other));
        }
        if nearer(nearest) {
            nearest = Some((distance, other));
        }
    }
    let value = |at: usize| cells.cells[at].value;
    let between = sides.iter().filter_map(|[low, high]| Some(((*low)?, (*high)?)));
    let narrowest = between.min_by(|a, b| (a.1.0 - a.0.0).total_cmp(&(b.1.0 - b.0.0)));
    match narrowest {
        Some(((low, below), (high, above))) => {
            let share = -low / (high - low);
            let (below, above) = (value(below).ln(), value(above).ln());
            Some((below + (above - below) * share).exp())
        }
        None => nearest.map(|(_, at)| value(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::{self, Assume};

    fn guesses(text: &str) -> Vec<Option<f64>> {
        let cells = measurements::parse("x", text, &Assume::default()).unwrap();
        let places = Place::of_all(&cells);
        (0..cells.cells.len()).map(|cell| guess(&places, &cells, cell, |_| true)).collect()
    }

    fn about(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found / expected - 1.0).abs() < 1e-3)
    }

    #[test]
    fn cells_are_guessed_from_those_that_differ_in_one_number() {
        let found = guesses(
            "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
             io,spdk,4096,append:write,4096,1,3,iops,1000,1/s\n\
             io,spdk,4096,append:write,4096,1,7,iops,3000,1/s\n\
             io,spdk,4096,append:write,4096,1,15,iops,4000,1/s\n\
             io,spdk,4096,append:write,8192,2,15,iops,9,1/s\n\
             io,spdk,512,append:write,4096,1,7,iops,7,1/s\n",
        );
        assert!(about(found[1], 2000.0), "half way on both axes: {found:?}");
        assert!(about(found[0], 3000.0) && about(found[2], 3000.0), "the neighbour: {found:?}");
        assert_eq!(found[3..], [None, None], "two numbers differ, or the format does");
    }

    #[test]
    fn jobs_have_numbers_among_their_options() {
        let found = guesses(
            "job,value,unit\n\
             rw=write bs=4k iodepth=1,10,MB/s\n\
             rw=write bs=16k iodepth=1,20,MB/s\n\
             rw=write bs=64k iodepth=1,40,MB/s\n\
             rw=read bs=64k iodepth=1,99,MB/s\n",
        );
        assert!(about(found[1], 20.0), "{found:?}");
        assert!(about(found[2], 20.0), "{found:?}");
        assert_eq!(found[3], None);
    }
}
