//! The processors that this process may use.
use rustix::thread::{CpuSet, sched_getaffinity};

/// The CPUs in the affinity mask of this process.
pub fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// The CPUs of NUMA nodes of this machine, in ascending order; none of nodes that it does not have.
pub fn cpus_of_nodes(nodes: &[usize]) -> Vec<usize> {
    let list = |node: &usize| {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let mut cpus: Vec<usize> = nodes.iter().flat_map(|node| cpus_of_list(&list(node))).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The numbers of a list of the kernel, such as `0-3,8`.
fn cpus_of_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_have_numbers_and_ranges() {
        assert_eq!(cpus_of_list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(cpus_of_list("\n"), [0; 0]);
        assert_eq!(cpus_of_nodes(&[usize::MAX]), [0; 0], "no machine has that node");
    }
}
