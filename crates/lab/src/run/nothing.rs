//! Jobs that did no I/O, and why: a report of zeros must not pass for an answer.
use crate::devices::Devices;
use crate::executor::FinishedTask;
use std::collections::BTreeMap;
use zonal_backend::Stack;
use zonal_blk::{Status, Zone, ZoneCondition};
use zonal_fio::job::{DataDir, Rw, ZoneMode};
use zonal_fio::plan::Task;
use zonal_fio::runner::CloneOrder;

/// An error for each job whose clones all did nothing, although none failed.
pub fn jobs_without_io(finished: &[FinishedTask], devices: &Devices) -> Vec<String> {
    let mut jobs: BTreeMap<u32, Vec<&FinishedTask>> = BTreeMap::new();
    for one in finished {
        jobs.entry(one.task.index).or_default().push(one);
    }
    let idle = jobs.into_values().filter(|clones| clones.iter().all(|clone| is_idle(clone)));
    idle.map(|clones| {
        let job = &clones[0].task.job;
        format!("job {}: no I/O was done: {}", job.name, reason(clones[0], devices))
    })
    .collect()
}

/// Whether a clone did nothing that it was to do.
fn is_idle(clone: &FinishedTask) -> bool {
    let (job, stats) = (&clone.task.job, &clone.outcome.stats);
    let ios: u64 =
        [DataDir::Read, DataDir::Write, DataDir::Trim].map(|d| stats.ios(d)).iter().sum();
    let other = stats.zone_reset_count() > 0 || stats.syncs().is_some();
    let ends = clone.outcome.error.is_some() || job.verify.only || job.number_ios == Some(0);
    let is_ended = clone.task.order.as_ref().is_some_and(CloneOrder::is_ended);
    ios == 0 && !other && !ends && !is_ended
}

fn reason(clone: &FinishedTask, devices: &Devices) -> String {
    let job = &clone.task.job;
    let zoned = job.zonemode == ZoneMode::Zbd && job.fs.kind.is_none();
    if zoned && matches!(job.rw, Rw::Read | Rw::Trim) && is_empty(devices.of(&clone.task)) {
        let device = &devices.of(&clone.task).name;
        return format!(
            "the zones of the device {device} are empty, so there is nothing to read; write to it \
             first, or create it with written=100%"
        );
    }
    if zoned && job.rw == Rw::Read {
        return "the zones of its region hold less than a block each; zonemode=zbd reads below the \
                write pointers"
            .to_owned();
    }
    match job.runtime {
        Some(runtime) => format!(
            "no I/O completed within its run time of {} s; give it more, or less ramp_time",
            runtime.0 as f64 / 1e9
        ),
        None => "its options leave nothing to do".to_owned(),
    }
}

/// A remark for each job that reads only, on a drive in whose zones there is nothing and that no job before it
/// or beside it writes to: a drive answers such reads without its medium, so that their figures say nothing of
/// it. With `zonemode=zbd` such a job does no I/O, which is an error.
pub fn reads_of_nothing(phases: &[Vec<Task>], devices: &Devices) -> Vec<String> {
    let mut written: Vec<String> = Vec::new();
    let mut remarks = Vec::new();
    for phase in phases {
        let reads = |task: &&Task| task.job.rw == Rw::Read && task.trace_slice.is_none();
        let writers = phase.iter().filter(|task| !reads(task));
        written.extend(writers.map(|task| devices.of(task).name.clone()));
        for task in phase.iter().filter(reads).filter(|task| task.clone == 0) {
            let (job, device) = (&task.job, devices.of(task));
            let is_plain = job.zonemode != ZoneMode::Zbd && job.fs.kind.is_none();
            // The null device has no medium.
            let has_medium = device.kind != "null" && device.queue.limits().nr_zones > 0;
            if is_plain && has_medium && !written.contains(&device.name) && is_empty(device) {
                remarks.push(format!(
                    "job {}: the zones of the device {} are empty, and a drive answers reads of what was \
                     never written without its medium; write to it first, or create it with written=100%",
                    job.name, device.name
                ));
            }
        }
    }
    remarks
}

/// Whether nothing was written to any zone.
fn is_empty(device: &Stack) -> bool {
    let empty =
        |zone: Result<Zone, Status>| zone.is_ok_and(|zone| zone.cond == ZoneCondition::Empty);
    device.queue.all_zones().all(empty)
}
