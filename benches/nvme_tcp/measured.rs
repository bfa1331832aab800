//! What a round has measured.
use std::time::Duration;

/// The result of a round.
#[derive(Clone, Copy)]
pub struct Measured {
    /// I/Os a second.
    pub iops: f64,
    /// Mean latency in seconds.
    pub mean: f64,
    /// Seconds of processor time of an I/O at both ends.
    pub cpu: f64,
    /// Calls and context switches.
    pub counts: Counts,
}

/// For an I/O.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Calls of the host that sent bytes.
    pub host_sends: f64,
    /// The same of the target.
    pub target_sends: f64,
    /// Calls that found nothing to receive, at both ends.
    pub empty: f64,
    /// Context switches.
    pub switches: f64,
}

impl Measured {
    /// Of `count` I/Os since `begin`, which took `spent`. The calls are the caller's to count.
    pub fn new(count: u64, depth: usize, spent: Duration, begin: Threads) -> Self {
        let Threads { cpu, switches } = Threads::now();
        let (ios, iops) = (count as f64, count as f64 / spent.as_secs_f64());
        // A thread that has ended meanwhile no longer counts.
        let switches = switches.saturating_sub(begin.switches) as f64 / ios;
        let cpu = cpu.saturating_sub(begin.cpu).as_secs_f64() / ios;
        // Little's law: as many commands as the depth are in flight all the time.
        let mean = depth as f64 / iops;
        Measured { iops, mean, cpu, counts: Counts { switches, ..Counts::default() } }
    }
}

/// Of the threads of this process so far.
#[derive(Clone, Copy)]
pub struct Threads {
    /// Processor time.
    pub cpu: Duration,
    /// Context switches.
    pub switches: u64,
}

impl Threads {
    /// Until now.
    pub fn now() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
        let of_task = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
            // Time on a processor, time in its queue, and how often it got one.
            let cpu: u64 = numbers.next().unwrap_or(0);
            (cpu, numbers.nth(1).unwrap_or(0))
        };
        let (nanos, switches) = tasks
            .map(|task| of_task(task.expect("a thread").path()))
            .fold((0, 0), |sum, task| (sum.0 + task.0, sum.1 + task.1));
        Threads { cpu: Duration::from_nanos(nanos), switches }
    }
}
