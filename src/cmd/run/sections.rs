//! What a report tells of the block layer: the scheduler's and the zone write plugs' counters.
use crate::devices::{Attached, Devices};
use crate::machine::Finished;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use zonal_blk::sched::PrioClass;
use zonal_workload::job::DataDir;
use zonal_workload::stats::IoStats;

/// The sections that the devices have something for.
pub fn of(finished: &[Finished], devices: &Devices) -> Vec<(String, Value)> {
    let all = [("scheduler", scheduler as fn(&Attached) -> _), ("zone_write_plugs", plugs)];
    let section = |(name, of): (&str, fn(&Attached) -> Option<Value>)| {
        let values: Vec<Value> = devices.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| (name.to_owned(), Value::Array(values)))
    };
    tps(finished).into_iter().chain(all.into_iter().filter_map(section)).collect()
}

/// Transactions per second, as raidtest and randomio report them: of all clones of a job together,
/// over the time of the one that took longest.
fn tps(finished: &[Finished]) -> Option<(String, Value)> {
    let mut jobs: BTreeMap<u32, Vec<&Finished>> = BTreeMap::new();
    for done in finished {
        let pattern = &done.task.job.pattern;
        if pattern.made.is_some() || pattern.file.is_some() {
            jobs.entry(done.task.index).or_default().push(done);
        }
    }
    let job = |clones: Vec<&Finished>| {
        let ios = |stats: &IoStats| -> u64 {
            [DataDir::Read, DataDir::Write].map(|dir| stats.ios(dir)).iter().sum()
        };
        let requests: u64 = clones.iter().map(|done| ios(&done.outcome.stats)).sum();
        let nanos = clones.iter().map(|done| done.outcome.stats.elapsed()).max();
        let nanos = nanos.unwrap_or_default().0.max(1);
        let tps = u128::from(requests) * 10_000_000_000 / u128::from(nanos);
        json!({
            "job": clones[0].task.job.name,
            "processes": clones.len(),
            "requests": requests,
            "msec": nanos.div_ceil(1_000_000),
            "tps": tps as f64 / 10.0,
        })
    };
    let values: Vec<Value> = jobs.into_values().map(job).collect();
    (!values.is_empty()).then(|| ("tps".to_owned(), Value::Array(values)))
}

/// A device's scheduler, its attributes and what went through it by priority class.
fn scheduler(device: &Attached) -> Option<Value> {
    let counters = device.queue.sched_counters()?;
    let scheduler = device.queue.scheduler();
    let attributes: Map<String, Value> =
        scheduler.attributes().into_iter().map(|a| (a.name.to_owned(), a.value.into())).collect();
    let class = |class: PrioClass| {
        let of = counters[class.index()];
        let counts = json!({
            "inserted": of.inserted,
            "merged": of.merged,
            "dispatched": of.dispatched,
            "completed": of.completed,
        });
        (class.name().to_owned(), counts)
    };
    let classes: Map<String, Value> = PrioClass::ALL.into_iter().map(class).collect();
    Some(json!({
        "device": device.name,
        "name": scheduler.name(),
        "attributes": attributes,
        "classes": classes,
    }))
}

/// What went through a device's zone write plugs.
fn plugs(device: &Attached) -> Option<Value> {
    let used = device.queue.dump_plugs(true);
    if used.is_empty() {
        return None;
    }
    let sum = |count: fn(&zonal_blk::ZoneCounters) -> u64| -> u64 {
        used.iter().map(|plug| count(&plug.counters)).sum()
    };
    Some(json!({
        "device": device.name,
        "zones": used.len(),
        "live": device.queue.live_plugs(),
        "writes": sum(|zone| zone.writes.into()),
        "appends": sum(|zone| zone.appends.into()),
        "merges": sum(|zone| zone.merges.into()),
        "parked_ns": sum(|zone| zone.parked_ns),
    }))
}
