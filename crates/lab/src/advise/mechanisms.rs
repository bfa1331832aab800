//! Why one configuration is faster than another: what the drive spent its time on, and what the zone
//! write plugs did. Every number was counted or is the quotient of two that were.
use super::Trial;
use zonal_device::control::DeviceStats;

/// The smallest difference worth reporting, in percentage points of the drive's time.
const NOTABLE_DIFFERENCE: f64 = 2.0;

/// The work of the drive and the zone write plugs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mechanisms {
    /// The shares of the drive's time, in percent.
    pub shares: Vec<(&'static str, f64)>,
    /// Events per second of the drive's time.
    pub rates: Vec<(&'static str, f64)>,
    /// The mean time that a write waited in its plug, in milliseconds.
    pub parked_ms: f64,
    /// Percentage of writes that were merged into another.
    pub merged: f64,
    /// Zones that were open at the end.
    pub open_zones: usize,
}

impl Mechanisms {
    /// The mechanisms of a trial, summed over its devices.
    pub fn of(trial: &Trial) -> Self {
        let devices: Vec<_> = trial.outcomes.iter().flat_map(|outcome| &outcome.devices).collect();
        let mut sum = DeviceStats::default();
        let (mut plugged, mut parked, mut merged, mut open_zones) = (0, 0, 0, 0);
        for device in &devices {
            for &(name, count) in &device.activity.counts {
                add(&mut sum.counts, name, |own| own + count);
            }
            for &(name, time) in &device.activity.times {
                add(&mut sum.times, name, |own| own + time);
            }
            plugged += device.plugged;
            parked += device.parked.0;
            merged += device.merged;
            open_zones += device.open_zones;
        }
        let total: u64 = sum.times.iter().map(|(_, time)| time.0).sum();
        let total = total.max(1) as f64;
        let share = |&(name, time): &(&'static str, zonal_blk::Nanos)| {
            (name, time.0 as f64 / total * 100.0)
        };
        // The devices of an outcome work at the same time, the outcomes of a trial one after another.
        let at_once = devices.len() as f64 / trial.outcomes.len().max(1) as f64;
        let seconds = total / 1e9 / at_once.max(1.0);
        let rate = |&(name, count): &(&'static str, u64)| (name, count as f64 / seconds);
        let writes = plugged.max(1) as f64;
        Mechanisms {
            shares: sum.times.iter().map(share).collect(),
            rates: if sum.times.is_empty() {
                Vec::new()
            } else {
                sum.counts.iter().map(rate).collect()
            },
            parked_ms: parked as f64 / writes / 1e6,
            merged: merged as f64 / writes * 100.0,
            open_zones: open_zones.div_ceil(trial.outcomes.len().max(1)),
        }
    }

    /// One line for people: `seeks 3%, ..., 12.1 seeks/s, 4.2 ms in the plug`.
    pub fn line(&self) -> String {
        let shares = self.shares.iter().map(|(name, share)| format!("{name} {share:.0}%"));
        let rates = self.rates.iter().filter(|(_, rate)| *rate >= 0.05);
        let rates = rates.map(|(name, rate)| format!("{rate:.1} {name}/s"));
        let mut parts: Vec<String> = shares.chain(rates).collect();
        if self.parked_ms > 0.0 {
            parts.push(format!("{:.1} ms in the plug", self.parked_ms));
        }
        if self.merged > 0.0 {
            parts.push(format!("{:.0}% of writes merged", self.merged));
        }
        if self.open_zones > 0 {
            parts.push(format!("{} zones open at the end", self.open_zones));
        }
        parts.join(", ")
    }
}

fn add<T: Copy + Default>(
    sums: &mut Vec<(&'static str, T)>,
    name: &'static str,
    with: impl FnOnce(T) -> T,
) {
    match sums.iter_mut().find(|(known, _)| *known == name) {
        Some((_, sum)) => *sum = with(*sum),
        None => sums.push((name, with(T::default()))),
    }
}

/// How two configurations differ, the largest difference first.
pub fn differences(better: &Mechanisms, worse: &Mechanisms) -> Vec<String> {
    let mut differences: Vec<(f64, String)> = Vec::new();
    for ((name, a), (_, b)) in better.shares.iter().zip(&worse.shares) {
        if (a - b).abs() >= NOTABLE_DIFFERENCE {
            let text = format!("{a:.0}% of the drive's time goes to {name} instead of {b:.0}%");
            differences.push(((a - b).abs(), text));
        }
    }
    for ((name, a), (_, b)) in better.rates.iter().zip(&worse.rates) {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        if *high >= 0.5 && low * 1.2 < *high {
            differences.push((0.0, format!("{a:.1} {name} a second instead of {b:.1}")));
        }
    }
    if (better.merged - worse.merged).abs() >= NOTABLE_DIFFERENCE {
        let (a, b) = (better.merged, worse.merged);
        differences
            .push((0.0, format!("{a:.0}% of writes are merged in plugs instead of {b:.0}%")));
    }
    let (low, high) = if better.parked_ms < worse.parked_ms {
        (better.parked_ms, worse.parked_ms)
    } else {
        (worse.parked_ms, better.parked_ms)
    };
    if high >= 0.01 && low * 1.2 < high {
        let (a, b) = (better.parked_ms, worse.parked_ms);
        differences
            .push((0.0, format!("a write waits {a:.2} ms in its plug instead of {b:.2} ms")));
    }
    differences.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    differences.into_iter().map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Configuration, Depth, tests};
    use crate::experiment::{DeviceOutcome, Outcome};
    use zonal_blk::Nanos;

    fn mechanisms(seeks: f64, transfer: f64, rate: f64) -> Mechanisms {
        Mechanisms {
            shares: vec![("seeks", seeks), ("transfer", transfer)],
            rates: vec![("seeks", rate)],
            parked_ms: 1.25,
            ..Mechanisms::default()
        }
    }

    #[test]
    fn differences_are_sorted_and_small_ones_omitted() {
        let (better, worse) = (mechanisms(3.0, 90.0, 2.0), mechanisms(40.0, 50.0, 31.0));
        assert_eq!(
            differences(&better, &worse),
            [
                "90% of the drive's time goes to transfer instead of 50%",
                "3% of the drive's time goes to seeks instead of 40%",
                "2.0 seeks a second instead of 31.0",
            ]
        );
        assert_eq!(differences(&better, &mechanisms(4.0, 89.0, 2.1)), [""; 0]);
    }

    #[test]
    fn rates_and_shares_do_not_depend_on_the_number_of_seeds_and_add_up_over_devices() {
        let outcome = |devices: usize| {
            let activity = DeviceStats {
                counts: vec![("seeks", 30)],
                times: vec![("seeks", Nanos(4_000_000_000)), ("idle", Nanos(6_000_000_000))],
            };
            let device = || DeviceOutcome {
                activity: activity.clone(),
                translation: None,
                plugged: 1,
                parked: Nanos(0),
                merged: 0,
                open_zones: 0,
            };
            let devices = (0..devices).map(|_| device()).collect();
            Outcome { devices, ..tests::outcome([]) }
        };
        let of = |seeds: usize, devices: usize| {
            let (scheduler, zone_write) = ("none".to_owned(), None);
            let configuration = Configuration { scheduler, zone_write, depth: Depth::Own };
            let outcomes = (0..seeds).map(|_| outcome(devices)).collect();
            Mechanisms::of(&Trial { configuration, outcomes, verdict: String::new() })
        };
        assert_eq!(of(1, 1).rates, [("seeks", 3.0)]);
        assert_eq!(of(3, 1), of(1, 1));
        assert_eq!(of(3, 2).rates, [("seeks", 6.0)]);
        assert_eq!(of(3, 2).shares, [("seeks", 40.0), ("idle", 60.0)]);
    }

    #[test]
    fn line_omits_what_did_not_happen() {
        let line = mechanisms(3.0, 90.0, 2.0).line();
        assert_eq!(line, "seeks 3%, transfer 90%, 2.0 seeks/s, 1.2 ms in the plug");
    }
}
