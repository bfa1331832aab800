//! Jobs whose writes failed because nothing places them at the write pointers of zones.
use crate::devices::Devices;
use crate::executor::FinishedTask;
use std::collections::BTreeSet;
use zonal_blk::{Failure, Limits, Status, ZoneRefusal};
use zonal_fio::job::ZoneMode;

/// A hint for each job without `zonemode=zbd` that failed on a device whose zones refused a write.
pub fn jobs_without_zones(finished: &[FinishedTask], devices: &Devices) -> Vec<String> {
    let mut told = BTreeSet::new();
    let failed = finished.iter().filter(|clone| {
        let job = &clone.task.job;
        let is_placed = job.zonemode == ZoneMode::Zbd || job.fs.kind.is_some();
        let queue = &devices.of(&clone.task).queue;
        let refused = |failure: &Failure| is_refused(failure, queue.limits());
        clone.outcome.error.is_some() && !is_placed && queue.first_failure().is_some_and(refused)
    });
    failed
        .filter(|clone| told.insert(clone.task.index))
        .map(|clone| {
            let name = &clone.task.job.name;
            format!(
                "job {name}: a zone refused a write; zonemode=zbd places writes at the write pointers \
                 of zones"
            )
        })
        .collect()
}

/// Whether a command is a write that broke a rule of its zone.
fn is_refused(failure: &Failure, limits: &Limits) -> bool {
    let &Failure { op, sector, nr_sectors, status, found, .. } = failure;
    let breaks =
        |zone| ZoneRefusal::of_write(limits.zrwa, (op, sector, nr_sectors), &zone).is_some();
    let too_many = matches!(status, Status::ZoneOpenResource | Status::ZoneActiveResource);
    op.is_write() && (too_many || found.is_some_and(breaks))
}
