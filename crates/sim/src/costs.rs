//! CPU time of I/O in virtual time.
use crate::turns::Turns;
use std::fmt;
use std::str::FromStr;
use zonal_blk::Nanos;
use zonal_blk::sched::Scheduler;

/// CPU time of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCost {
    /// Twice the time of a submission: half of an odd number of nanoseconds must not be lost.
    pub twice_submit: Nanos,
    /// Twice the time of a completion.
    pub twice_complete: Nanos,
    /// Per MiB, half of it at submission and half at completion.
    pub mib: Nanos,
    /// From the device's completion until a thread that waits for it runs: an interrupt, or the
    /// poll of another thread.
    pub wake: Nanos,
    /// The part of `wake` in which a ring's thread takes a completion: others wait for it. 0 without such a thread.
    pub ring: Nanos,
    /// The additional time of the first I/O after a second without one, for which the thread that polls has
    /// to be woken.
    pub rouse: Nanos,
    /// The latency of each page of an I/O, beside its part of `mib`.
    pub page: Nanos,
}

/// The time without I/O after which a thread that polls for submissions sleeps: the default of io_uring.
pub(crate) const SLEEPS_AFTER: Nanos = Nanos(1_000_000_000);

/// A page of the host's memory, in bytes.
const PAGE: u64 = 4096;

/// The cost of I/O for a host, whatever the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// CPU time of a submission.
    pub submit: Nanos,
    /// CPU time of a completion.
    pub complete: Nanos,
    /// From the device's completion until a thread that waits for it runs.
    pub wake: Nanos,
    /// The time that a scheduler adds to `wake`: each request passes through it.
    pub scheduler: Nanos,
    /// What the first I/O after a second without one takes longer: the thread that polls for submissions
    /// sleeps by then.
    pub rouse: Nanos,
    /// For each 4 KiB of data, CPU time, and what the I/O takes longer: pages of buffers that are not
    /// registered with a ring are pinned before each I/O and released after it.
    pub page: Nanos,
    /// Processors for threads that poll; 0 for as many as there are threads.
    pub processors: u32,
    /// Threads of a job that poll: that of the job itself, and that of its ring.
    pub threads: u32,
}

/// The named hosts. `docs/models.md` says what they were calibrated to. The CPU time with io_uring, and with
/// passthrough but for its pages, is that with SPDK: most of it is the program's own, and another thread polls
/// for the ring. That host has ten cores with two hardware threads each; a thread that polls a drive needs a core.
const HOSTS: [(&str, HostCost); 4] = [
    ("spdk", HostCost { processors: 10, threads: 1, ..HostCost::new(250, 350, 0, 0) }),
    ("io_uring", HostCost { processors: 20, threads: 2, ..HostCost::new(250, 350, 1_800, 3_700) }),
    (
        "io_uring_cmd",
        HostCost { rouse: Nanos(108_000), page: Nanos(450), ..HostCost::new(250, 350, 4_000, 0) },
    ),
    ("libaio", HostCost::new(1_100, 1_000, 2_000, 2_700)),
];

/// CPU time of I/Os, by the scheduler of their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostModel {
    /// A constant per I/O.
    Flat(Nanos),
    /// The cost on the machine of the published zone write plugging table, see [`CostModel::of`].
    Published,
    /// The cost on a host.
    Host(HostCost),
}

/// The text is not a [`CostModel`].
#[derive(Debug, PartialEq, Eq)]
pub struct ParseCostError(String);

impl fmt::Display for ParseCostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = HostCost::names();
        write!(f, "found `{}`, expected a number of nanoseconds, published, {names}", self.0)
    }
}

impl std::error::Error for ParseCostError {}

impl FromStr for CostModel {
    type Err = ParseCostError;

    /// A number of nanoseconds, `published`, or the name of a host.
    fn from_str(text: &str) -> Result<Self, ParseCostError> {
        match text {
            "published" => Ok(CostModel::Published),
            _ => {
                let flat = || text.parse().ok().map(|io| CostModel::Flat(Nanos(io)));
                let known = HostCost::named(text).map(CostModel::Host).or_else(flat);
                known.ok_or_else(|| ParseCostError(text.to_owned()))
            }
        }
    }
}

impl Default for HostCost {
    /// No costs.
    fn default() -> Self {
        HostCost::new(0, 0, 0, 0)
    }
}

impl fmt::Display for HostCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostCost { submit, complete, wake, .. } = self;
        write!(
            f,
            "{submit} ns to submit an I/O, {complete} to complete it, {wake} to wake a thread"
        )
    }
}

impl fmt::Display for CostModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostModel::Flat(io) => write!(f, "{io} ns of a thread an I/O"),
            CostModel::Published => f.write_str("the published machine's time of a thread an I/O"),
            CostModel::Host(host) => write!(f, "{host}"),
        }
    }
}

impl CostModel {
    /// The text that is parsed as this; `None` for a host without a name.
    pub fn argument(self) -> Option<String> {
        match self {
            CostModel::Flat(io) => Some(io.to_string()),
            CostModel::Published => Some("published".to_owned()),
            CostModel::Host(host) => {
                let known = HOSTS.iter().find(|(_, known)| *known == host);
                known.map(|&(name, _)| name.to_owned())
            }
        }
    }

    /// The CPU time of an I/O with a scheduler.
    ///
    /// The published costs are derived from the null_blk table of the zone write plugging patches,
    /// where one job at depth 1 is limited by its own thread only: the bandwidths with 4 KiB and with
    /// 1 MiB give two equations for `io` and `mib`. For mq-deadline the
    /// rows with zone write locking and with plugging are averaged. Schedulers
    /// without a row, such as kyber, have the costs of mq-deadline.
    pub fn of(self, scheduler: Scheduler) -> IoCost {
        match self {
            CostModel::Flat(io) => IoCost::halves(io, Nanos(0)),
            CostModel::Published => Self::published(scheduler),
            CostModel::Host(host) => host.of(scheduler),
        }
    }

    /// The turns of this many jobs on the host's processors; `None` if they need none.
    pub(crate) fn turns(self, jobs: usize) -> Option<Turns> {
        let CostModel::Host(HostCost { processors, threads, .. }) = self else { return None };
        Turns::of(jobs, threads, processors)
    }

    /// Whether jobs of this number have to share processors, even if they share nothing else.
    pub fn are_too_many(self, jobs: usize) -> bool {
        self.turns(jobs).is_some()
    }

    fn published(scheduler: Scheduler) -> IoCost {
        let (io, mib) = match scheduler {
            // 2639 and 28190 MB/s.
            Scheduler::None => (1_412, 35_784),
            // 756 and 16020 MB/s.
            Scheduler::Bfq(_) => (5_183, 60_271),
            // 940 and 18550 MB/s with locking, 943 and 18660 MB/s with plugging.
            _ => (4_147, 52_213),
        };
        IoCost::halves(Nanos(io), Nanos(mib))
    }
}

impl HostCost {
    /// The host of this name.
    pub fn named(name: &str) -> Option<Self> {
        HOSTS.iter().find(|(known, _)| *known == name).map(|(_, host)| *host)
    }

    /// The names of the hosts, for messages.
    pub fn names() -> String {
        HOSTS.map(|(name, _)| name).join(", ")
    }

    /// The name of these costs, if they have one.
    pub fn name(&self) -> Option<&'static str> {
        HOSTS.iter().find(|(_, known)| known == self).map(|(name, _)| *name)
    }

    const fn new(submit: u64, complete: u64, wake: u64, scheduler: u64) -> Self {
        HostCost {
            submit: Nanos(submit),
            complete: Nanos(complete),
            wake: Nanos(wake),
            scheduler: Nanos(scheduler),
            rouse: Nanos(0),
            page: Nanos(0),
            processors: 0,
            threads: 1,
        }
    }

    fn of(self, scheduler: Scheduler) -> IoCost {
        let HostCost { submit, complete, wake, scheduler: extra, rouse, page, .. } = self;
        IoCost {
            twice_submit: submit + submit,
            twice_complete: complete + complete,
            mib: Nanos(page.0 * ((1 << 20) / PAGE)),
            wake: if scheduler == Scheduler::None { wake } else { wake + extra },
            rouse,
            page,
            ring: if rouse > Nanos(0) { Nanos(wake.0 / 2) } else { Nanos(0) },
        }
    }
}

impl IoCost {
    /// Half of `io` at submission and half at completion.
    fn halves(io: Nanos, mib: Nanos) -> Self {
        IoCost { twice_submit: io, twice_complete: io, mib, ..IoCost::default() }
    }

    /// The CPU time of a step that submitted and completed this many I/Os, with `bytes` in total.
    pub(crate) fn of_step(self, submitted: u32, completed: u32, bytes: u64) -> Nanos {
        let by_length = if self.mib == Nanos(0) { 0 } else { self.of_bytes(bytes) };
        let ios = u64::from(submitted)
            .saturating_mul(self.twice_submit.0)
            .saturating_add(u64::from(completed).saturating_mul(self.twice_complete.0));
        Nanos(ios.saturating_add(by_length) / 2)
    }

    /// Whether a thread that waits for an I/O goes on later than the drive completes it.
    #[inline]
    pub(crate) fn takes_time_to_wake(self) -> bool {
        self.wake.0 | self.rouse.0 | self.page.0 != 0
    }

    /// The call that wakes a thread that polls for submissions. In fio it is part of the latency of the first I/O,
    /// and not of its completion latency.
    pub(crate) fn rousing_call(self) -> Nanos {
        Nanos(self.rouse.0 / 8)
    }

    /// What an I/O takes longer for its pages, of a step that submitted and completed `ios`, with `bytes` in
    /// total.
    pub(crate) fn pinning(self, ios: u32, bytes: u64) -> Nanos {
        let each = bytes / u64::from(ios.max(1));
        Nanos(each.div_ceil(PAGE).saturating_mul(self.page.0))
    }

    fn of_bytes(self, bytes: u64) -> u64 {
        let by_length = u128::from(bytes) * u128::from(self.mib.0) / (1 << 20);
        u64::try_from(by_length).unwrap_or(u64::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_costs_give_the_published_bandwidths_of_one_job_at_depth_1() {
        for (scheduler, bs, published) in [
            ("none", 4096, 2639.0),
            ("none", 1 << 20, 28190.0),
            ("mq-deadline", 4096, 941.5),
            ("mq-deadline", 1 << 20, 18605.0),
            ("bfq", 4096, 756.0),
            ("bfq", 1 << 20, 16020.0),
        ] {
            let cost = CostModel::Published.of(scheduler.parse().expect("a scheduler"));
            let time = 2 * cost.of_step(1, 0, bs).0;
            let bandwidth = bs as f64 * 1e3 / time as f64;
            assert!((bandwidth / published - 1.0).abs() < 0.002, "{scheduler} {bs}: {bandwidth}");
        }
    }

    #[test]
    fn costs_are_read_from_text() {
        assert_eq!("1000".parse(), Ok(CostModel::Flat(Nanos(1000))));
        assert_eq!("published".parse(), Ok(CostModel::Published));
        let error = "-1".parse::<CostModel>().unwrap_err().to_string();
        assert_eq!(
            error,
            "found `-1`, expected a number of nanoseconds, published, spdk, io_uring, io_uring_cmd, libaio"
        );
    }

    #[test]
    fn flat_costs_do_not_depend_on_scheduler_or_length() {
        let cost = CostModel::Flat(Nanos(1000)).of(Scheduler::default());
        assert_eq!(cost.of_step(3, 0, 1 << 30), Nanos(1500));
        assert_eq!(cost.of_step(1, 2, 1 << 30), Nanos(1500));
        assert_eq!(cost.of_step(0, 0, 0), Nanos(0));
    }
}
