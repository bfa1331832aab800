//! What a report tells of the block layer: the scheduler's and the zone write plugs' counters.
use crate::devices::{Attached, Devices};
use serde_json::{Map, Value, json};
use zonal_blk::sched::PrioClass;

/// The sections that the devices have something for.
pub fn of(devices: &Devices) -> Vec<(String, Value)> {
    let all = [("scheduler", scheduler as fn(&Attached) -> _), ("zone_write_plugs", plugs)];
    let section = |(name, of): (&str, fn(&Attached) -> Option<Value>)| {
        let values: Vec<Value> = devices.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| (name.to_owned(), Value::Array(values)))
    };
    all.into_iter().filter_map(section).collect()
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
