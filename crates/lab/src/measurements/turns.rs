//! Writes below the size of a memory page through a scheduler, over the time of a measurement.
//!
//! The segments of an NVMe command meet at the ends of memory pages (`virt_boundary_mask`), so Linux
//! merges shorter blocks only if their buffers lie in memory in the order of the blocks
//! (`bio_will_gap`). The order of fio's buffers is that of its list of free I/O units, a stack: the
//! first zone is written with descending buffers, none of which can be merged. At the end of a zone
//! fio waits for all that is in flight before it resets the next one (`io_u_quiesce`), which turns
//! the stack over: the second zone is written with ascending buffers, and so on in turns.
//!
//! ```text
//!   zone 0      zone 1 zone 2      zone 3
//!   |- apart ---|merged|- apart ---|merged|...
//!         |<------- measured ------->|
//! ```
//!
//! A turn takes up to minutes, so its two rates are predicted one by one.
use super::figures::{Figures, percentiles};
use zonal_fio::stats::Histogram;

/// Seconds before the measurement of the loads by name.
const RAMP: f64 = 10.0;
/// Seconds that were measured.
const MEASURED: f64 = 180.0;

/// What the I/Os of all phases together count as, each with the share of its phase.
const WEIGHTS: f64 = 1e5;

/// The work of a time in which nothing changes, such as that in zones with one order of buffers.
pub(super) struct Phase {
    pub(super) figures: Figures,
    /// The latencies.
    pub(super) clat: Histogram,
}

/// The figures of a measurement in which zones are written in turns, each turn with `ios` I/Os of all
/// jobs: first apart, then merged.
pub(super) fn in_turns(phases: [Phase; 2], ios: f64) -> Figures {
    if phases.iter().any(|phase| phase.figures.iops == 0.0) {
        return Figures::default();
    }
    let turns = [0, 1].map(|at| ios / phases[at].figures.iops);
    let apart = first_until(turns, RAMP + MEASURED) - first_until(turns, RAMP);
    by_time(&phases, apart / MEASURED)
}

/// The figures of a time of which the first of two phases has this share. Both ran for the same time.
pub(super) fn by_time(phases: &[Phase; 2], first: f64) -> Figures {
    let mut sum = Figures::default();
    let mut clat = Histogram::new();
    for (phase, share) in phases.iter().zip([first, 1.0 - first]) {
        sum.iops += phase.figures.iops * share;
        sum.bytes += phase.figures.bytes * share;
        sum.mean += phase.figures.mean * phase.figures.iops * share;
        let weight = (share * WEIGHTS).round() as u64;
        phase.clat.bins().for_each(|(value, count)| clat.record(value, count * weight));
    }
    let mean = if sum.iops > 0.0 { sum.mean / sum.iops } else { 0.0 };
    Figures { mean, percentiles: percentiles(&clat), ..sum }
}

/// Seconds of the first of two alternating turns until a time.
fn first_until(turns: [f64; 2], until: f64) -> f64 {
    let both = turns[0] + turns[1];
    let whole = (until / both).floor();
    whole * turns[0] + (until - whole * both).min(turns[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::PERCENTILES;

    fn phase(iops: f64, micros: u64) -> Phase {
        let figures =
            Figures { iops, bytes: iops * 512.0, mean: micros as f64, ..Figures::default() };
        let mut clat = Histogram::new();
        clat.record(micros * 1000, iops as u64);
        Phase { figures, clat }
    }

    #[test]
    fn turns_add_up_to_the_time_until() {
        let turns = [3.0, 1.0];
        let times = [0.0, 2.0, 3.0, 3.5, 4.0, 6.0, 11.0];
        let expected = [0.0, 2.0, 3.0, 3.0, 3.0, 5.0, 9.0];
        assert_eq!(times.map(|until| first_until(turns, until)), expected);
    }

    /// 100 s apart, 25 s merged, then apart: 10 s to 190 s are 155 s apart and 25 s merged.
    #[test]
    fn rates_count_by_time_and_latencies_by_io() {
        let figures = in_turns([phase(1000.0, 40), phase(4000.0, 10)], 100_000.0);
        let (apart, merged) = (1000.0 * 155.0, 4000.0 * 25.0);
        assert!((figures.iops - (apart + merged) / 180.0).abs() < 1e-6, "{figures:?}");
        assert!((figures.bytes - figures.iops * 512.0).abs() < 1e-3, "{figures:?}");
        let mean = (apart * 40.0 + merged * 10.0) / (apart + merged);
        assert!((figures.mean - mean).abs() < 1e-6, "{figures:?}");
        let below = PERCENTILES.iter().zip(figures.percentiles).filter(|&(_, clat)| clat < 20.0);
        let last = below.map(|(&percent, _)| percent).fold(0.0, f64::max);
        assert!((30.0..40.0).contains(&last), "merged I/Os are 39 % of all: {last}");
    }

    #[test]
    fn first_zone_that_outlasts_the_measurement_is_all_there_is() {
        let figures = in_turns([phase(1000.0, 40), phase(4000.0, 10)], 190_000.0);
        assert_eq!((figures.iops, figures.mean), (1000.0, 40.0));
    }
}
