//! The processors that this process may use.
use rustix::thread::{CpuSet, sched_getaffinity};

/// The CPUs in the affinity mask of this process.
pub fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}
