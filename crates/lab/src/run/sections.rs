//! Sections of a report about the layers below the jobs: counters of file systems, schedulers and
//! zone write plugs.
use crate::devices::Devices;
use crate::executor::{ClockKind, FinishedTask};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use zonal_backend::Stack;
use zonal_blk::{IoTimes, PrioClass, Queue};
use zonal_device::control::Lateness;
use zonal_fio::job::DataDir;
use zonal_fio::report::DiskUtil;
use zonal_fio::stats::IoStats;

/// The sections that are not empty. How late models were is a question of real time only.
pub fn sections(
    finished: &[FinishedTask],
    devices: &Devices,
    clock: ClockKind,
) -> Vec<(String, Value)> {
    let file_systems: Vec<Value> = finished.iter().filter_map(file_system).collect();
    let file_systems =
        (!file_systems.is_empty()).then(|| ("file_systems".to_owned(), Value::Array(file_systems)));
    let mut all = vec![
        ("scheduler", scheduler as fn(&Stack) -> _),
        ("zone_write_plugs", plugs),
        ("flash_translation", translation),
        ("first_failure", first_failure),
    ];
    if clock == ClockKind::Real {
        all.push(("late_completions", lateness));
    }
    let section = |(name, of): (&str, fn(&Stack) -> Option<Value>)| {
        let values: Vec<Value> = devices.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| (name.to_owned(), Value::Array(values)))
    };
    let counted = all.into_iter().filter_map(section);
    tps(finished).into_iter().chain(file_systems).chain(counted).collect()
}

/// The I/O of each device, unless no job wants to know (`disk_util=0`).
pub fn disk_util(finished: &[FinishedTask], devices: &Devices) -> Vec<DiskUtil> {
    let is_wanted = finished.iter().any(|finished| finished.task.job.logs.disk_util);
    let counted = devices.iter().filter(|_| is_wanted);
    counted.filter_map(|device| of_disk(&device.name, &device.queue)).collect()
}

/// The I/O of a device so far, if it is counted.
pub fn of_disk(name: &str, queue: &Queue) -> Option<DiskUtil> {
    let (stat, times) = (queue.iostat()?, queue.iotimes()?);
    let msec = |nanos: u64| nanos / 1_000_000;
    Some(DiskUtil {
        name: name.to_owned(),
        read_ios: stat.reads,
        write_ios: stat.writes,
        read_sectors: stat.sectors_read,
        write_sectors: stat.sectors_written,
        read_merges: stat.read_merges,
        write_merges: stat.write_merges,
        read_ticks: msec(times.reads.0),
        write_ticks: msec(times.writes.0),
        in_queue: msec(times.reads.0 + times.writes.0 + times.others.0),
        util: times.busy.0 as f64 * 100.0 / times.span.0.max(1) as f64,
    })
}

/// Transactions per second, as raidtest and randomio report them: of all clones of a job together,
/// over the time of the one that took longest.
fn tps(finished: &[FinishedTask]) -> Option<(String, Value)> {
    let mut jobs: BTreeMap<u32, Vec<&FinishedTask>> = BTreeMap::new();
    for done in finished {
        let pattern = &done.task.job.pattern;
        if pattern.program.is_some() || pattern.file.is_some() {
            jobs.entry(done.task.index).or_default().push(done);
        }
    }
    let job = |clones: Vec<&FinishedTask>| {
        let ios = |stats: &IoStats| -> u64 {
            [DataDir::Read, DataDir::Write].map(|dir| stats.ios(dir)).iter().sum()
        };
        let requests: u64 = clones.iter().map(|done| ios(&done.outcome.stats)).sum();
        let nanos = clones.iter().map(|finished| finished.outcome.stats.elapsed()).max();
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

/// The counters of a job's file system, which are with the first of its clones.
fn file_system(finished: &FinishedTask) -> Option<Value> {
    let counters = finished.outcome.file_system.as_ref()?;
    let [read, written] = counters.file_bytes;
    let below = counters.data_bytes[1] + counters.metadata_bytes[1];
    let amplification =
        if written == 0 { 0.0 } else { (below as f64 / written as f64 * 1000.0).round() / 1000.0 };
    let (native, emulated) =
        if counters.native_appends { (counters.appends, 0) } else { (0, counters.appends) };
    Some(json!({
        "job": finished.task.job.name,
        "name": counters.name,
        "file_read_bytes": read,
        "file_cached_bytes": counters.cached_bytes,
        "file_written_bytes": written,
        "data_reads": counters.data_ios[0],
        "data_read_bytes": counters.data_bytes[0],
        "data_writes": counters.data_ios[1],
        "data_written_bytes": counters.data_bytes[1],
        "metadata_reads": counters.metadata_ios[0],
        "metadata_read_bytes": counters.metadata_bytes[0],
        "metadata_writes": counters.metadata_ios[1],
        "metadata_written_bytes": counters.metadata_bytes[1],
        "native_appends": native,
        "emulated_appends": emulated,
        "zone_resets": counters.zone_resets,
        "flushes": counters.flushes,
        "write_amplification": amplification,
    }))
}

/// A device's scheduler: its attributes and its counters by priority class.
fn scheduler(device: &Stack) -> Option<Value> {
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

/// How late a device's model was, and how much of its rate that cost.
fn lateness(device: &Stack) -> Option<Value> {
    let lateness = device.model.lateness()?;
    let Lateness { completions, late, total, largest } = lateness;
    let rounded = |percent: f64| (percent * 100.0).round() / 100.0;
    let mut value = json!({
        "device": device.name,
        "completions": completions,
        "late": late,
        "percent": rounded(lateness.percent()),
        "sum_us": total.0 / 1000,
        "largest_us": largest.0 / 1000,
    });
    if let Some(IoTimes { reads, writes, others, .. }) = device.queue.iotimes() {
        let lost = lateness.lost_percent(reads + writes + others);
        value["rate_lost_percent"] = rounded(lost).into();
        value["result"] = match Lateness::is_of_model(lost) {
            true => "of the model",
            false => "of this machine, not of the model: use --clock virtual",
        }
        .into();
    }
    Some(value)
}

/// Statistics of a flash translation layer since the device was opened.
fn translation(device: &Stack) -> Option<Value> {
    let stats = device.model.translation()?;
    let mut value = json!({
        "device": device.name,
        "write_amplification": (stats.write_amplification() * 1000.0).round() / 1000.0,
        "host_bytes": stats.host.0,
        "media_bytes": stats.media.0,
        "discarded_bytes": stats.discarded.0,
        "erased_superblocks": stats.erased_superblocks,
        "waited_bytes": stats.waited.0,
        "free_superblocks": stats.free_superblocks,
        "superblocks": stats.superblocks,
    });
    if let Some(map) = stats.map {
        value["map_bytes"] = map.written.0.into();
        value["map_lookups"] = map.lookups.into();
        value["map_misses"] = map.misses.into();
    }
    Some(value)
}

/// The first write, or command to a zone, that failed, and the rule that it broke.
fn first_failure(device: &Stack) -> Option<Value> {
    let failure = device.queue.first_failure()?;
    let found = failure.found.as_ref();
    Some(json!({
        "device": device.name,
        "op": format!("{:?}", failure.op),
        "sector": failure.sector.0,
        "sectors": failure.nr_sectors,
        "status": failure.status.to_string(),
        "rule": failure.rule,
        "zone": failure.zone.0,
        "zone_start": found.map(|zone| zone.start.0),
        "zone_condition": found.map(|zone| zone.cond.long()),
        "write_pointer": found.map(|zone| zone.wp.0),
    }))
}

/// The counters of a device's zone write plugs.
fn plugs(device: &Stack) -> Option<Value> {
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
