//! Percentiles and moments against a sorted list of all latencies.
use proptest::prelude::*;
use zonal_fio::stats::{Histogram, LatStat, PERCENTILES};

/// Latencies over all magnitudes, of which some are equal.
fn latencies() -> impl Strategy<Value = Vec<u64>> {
    let latency = (0..34_u32, any::<u64>()).prop_map(|(bits, random)| random % (2 << bits));
    prop::collection::vec((latency, 1..4_usize), 1..300)
        .prop_map(|runs| runs.iter().flat_map(|&(ns, n)| std::iter::repeat_n(ns, n)).collect())
}

/// The smallest latency that `percent` of `sorted` do not exceed.
fn exact_percentile(sorted: &[u64], percent: f64) -> u64 {
    // Lists are too short for the product to be so near a whole number without being one.
    let rank = (percent * sorted.len() as f64 / 100.0 - 1e-9).ceil() as usize;
    sorted[rank.max(1) - 1]
}

proptest! {
    #[test]
    fn a_percentile_is_within_its_bucket_of_the_exact_one(mut latencies in latencies()) {
        let mut histogram = Histogram::new();
        latencies.iter().for_each(|&ns| histogram.record(ns, 1));
        latencies.sort_unstable();
        let values = histogram.percentiles(&PERCENTILES);
        for (&percent, &value) in PERCENTILES.iter().zip(&values) {
            let exact = exact_percentile(&latencies, percent);
            // Half a bucket, which is at most 1/64 of the smallest value in it.
            prop_assert!(value.abs_diff(exact) <= exact / 128 + 1, "{percent}: {value} {exact}");
        }
    }

    #[test]
    fn halves_merge_to_the_whole(latencies in latencies(), cut in any::<prop::sample::Index>()) {
        let of = |latencies: &[u64]| {
            let mut both = (Histogram::new(), LatStat::default());
            latencies.iter().for_each(|&ns| {
                both.0.record(ns, 1);
                both.1.record(ns, 1);
            });
            both
        };
        let (left, right) = latencies.split_at(cut.index(latencies.len()));
        let (mut merged, right) = (of(left), of(right));
        merged.0.merge(&right.0);
        merged.1.merge(&right.1);
        prop_assert_eq!(merged, of(&latencies));
    }

    #[test]
    fn moments_are_those_of_the_definition(latencies in latencies()) {
        let mut stat = LatStat::default();
        latencies.iter().for_each(|&ns| stat.record(ns, 1));
        let n = latencies.len() as f64;
        let mean = latencies.iter().sum::<u64>() as f64 / n;
        let squares: f64 = latencies.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum();
        let stddev = if n < 2.0 { 0.0 } else { (squares / (n - 1.0)).sqrt() };
        prop_assert!((stat.mean() - mean).abs() <= 1e-9 * (1.0 + mean));
        prop_assert!((stat.stddev() - stddev).abs() <= 1e-6 * (1.0 + stddev));
    }
}
