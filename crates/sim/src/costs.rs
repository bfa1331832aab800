//! CPU time of I/O in virtual time.
use std::fmt;
use std::str::FromStr;
use zonal_blk::Nanos;
use zonal_blk::sched::Scheduler;

/// CPU time of an I/O, half of it at submission and half at completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCost {
    /// Per I/O.
    pub io: Nanos,
    /// Per MiB.
    pub mib: Nanos,
}

/// CPU time of I/Os, by the scheduler of their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostModel {
    /// A constant per I/O.
    Flat(Nanos),
    /// That of the machine of the published zone write plugging table, see [`CostModel::of`].
    Published,
}

/// The text is not a [`CostModel`].
#[derive(Debug, PartialEq, Eq)]
pub struct ParseCostError(String);

impl fmt::Display for ParseCostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found `{}`, expected a number of nanoseconds or `published`", self.0)
    }
}

impl std::error::Error for ParseCostError {}

impl FromStr for CostModel {
    type Err = ParseCostError;

    /// A number of nanoseconds, or `published`.
    fn from_str(text: &str) -> Result<Self, ParseCostError> {
        match text {
            "published" => Ok(CostModel::Published),
            _ => text
                .parse()
                .map(|io| CostModel::Flat(Nanos(io)))
                .map_err(|_| ParseCostError(text.to_owned())),
        }
    }
}

impl fmt::Display for CostModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostModel::Flat(io) => write!(f, "{io} ns of a thread an I/O"),
            CostModel::Published => f.write_str("the published machine's time of a thread an I/O"),
        }
    }
}

impl CostModel {
    /// The CPU time of an I/O with a scheduler.
    ///
    /// The published costs are derived from the null_blk table of the zone write plugging patches,
    /// where one job at depth 1 is limited by its own thread only: the bandwidths with 4 KiB and with
    /// 1 MiB give two equations for `io` and `mib`. For mq-deadline the
    /// rows with zone write locking and with plugging are averaged. There is no row for kyber; it
    /// is given the costs of mq-deadline.
    pub fn of(self, scheduler: Scheduler) -> IoCost {
        if let CostModel::Flat(io) = self {
            return IoCost { io, mib: Nanos(0) };
        }
        let (io, mib) = match scheduler {
            // 2639 and 28190 MB/s.
            Scheduler::None => (1_412, 35_784),
            // 940 and 18550 MB/s with locking, 943 and 18660 MB/s with plugging.
            Scheduler::MqDeadline(_) | Scheduler::Kyber(_) => (4_147, 52_213),
            // 756 and 16020 MB/s.
            Scheduler::Bfq(_) => (5_183, 60_271),
        };
        IoCost { io: Nanos(io), mib: Nanos(mib) }
    }
}

impl IoCost {
    /// Half of the CPU time of `ios` I/Os with `bytes` in total.
    pub(crate) fn half(self, ios: u32, bytes: u64) -> Nanos {
        let by_length = u128::from(bytes) * u128::from(self.mib.0) / (1 << 20);
        let by_length = u64::try_from(by_length).unwrap_or(u64::MAX / 2);
        Nanos(u64::from(ios).saturating_mul(self.io.0).saturating_add(by_length) / 2)
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
            let time = 2 * cost.half(1, bs).0;
            let bandwidth = bs as f64 * 1e3 / time as f64;
            assert!((bandwidth / published - 1.0).abs() < 0.002, "{scheduler} {bs}: {bandwidth}");
        }
    }

    #[test]
    fn costs_are_read_from_text() {
        assert_eq!("1000".parse(), Ok(CostModel::Flat(Nanos(1000))));
        assert_eq!("published".parse(), Ok(CostModel::Published));
        let error = "-1".parse::<CostModel>().unwrap_err().to_string();
        assert_eq!(error, "found `-1`, expected a number of nanoseconds or `published`");
    }

    #[test]
    fn flat_costs_do_not_depend_on_scheduler_or_length() {
        let cost = CostModel::Flat(Nanos(1000)).of(Scheduler::default());
        assert_eq!(cost.half(3, 1 << 30), Nanos(1500));
        assert_eq!(cost.half(0, 0), Nanos(0));
    }
}
