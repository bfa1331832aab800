//! When a job may submit its next I/O, and when it is over: amount, runtime, rates, think time.
use crate::job::{DataDir, Job, RateProcess, Rw};
use crate::rng::Rng;
use zonal_blk::Nanos;

/// The pace of a job: amount of I/O, runtime, ramp, rates and think time.
#[derive(Debug)]
pub struct Pace {
    /// Bytes left to submit; `u64::MAX` if only the time limits them.
    bytes_left: u64,
    ios_left: u64,
    /// I/Os of one loop.
    ios: u64,
    /// I/Os for each block of the amount.
    passes: u64,
    /// Smallest block size: with fewer bytes left the job is over.
    min_block: u64,
    /// By direction, the bytes that each I/O counts as at the rate limit, with a limit in I/Os per
    /// second or with a Poisson process; 0 for its own.
    rate_bytes: [u64; 3],
    startdelay: Nanos,
    ramp_time: Nanos,
    runtime: Option<Nanos>,
    started: Option<Nanos>,
    /// End of the runtime, including the ramp; `Nanos(u64::MAX)` for never.
    deadline: Nanos,
    /// Nothing is submitted before this time because of rates, think time or a trace.
    gate: Nanos,
    ramping: bool,
    stopped: bool,
    /// By direction, nanoseconds per byte at the rate limit, times 2^32; 0 for no limit.
    byte_cost: [u128; 3],
    /// With `rate_process=poisson`.
    poisson: Option<Box<Rng>>,
    /// By direction, when the rate limit allows the next I/O.
    rate_next: [Nanos; 3],
    thinktime: Nanos,
    thinktime_blocks: u32,
    until_think: u32,
    thinking_until: Nanos,
    /// When the next request of a trace is due.
    held_until: Nanos,
}

/// A time of a Poisson process until its next event, if the mean time is `mean`.
fn exponential(rng: &mut Rng, mean: u64) -> u64 {
    (-libm::log(1.0 - rng.unit()) * mean as f64) as u64
}

impl Pace {
    /// The pace of a job with `total` bytes of I/O. `rng` is for `rate_process=poisson`.
    pub fn new(job: &Job, total: u64, rng: Rng) -> Self {
        let byte_cost = |dir: usize| {
            let by_iops = job.rate_iops[dir].saturating_mul(job.bs[dir]);
            let rate = match (job.rate[dir], by_iops) {
                (0, iops) => iops,
                (bytes, 0) => bytes,
                (bytes, iops) => bytes.min(iops),
            };
            if rate == 0 { 0 } else { (1_000_000_000_u128 << 32) / u128::from(rate) }
        };
        // Trimmed blocks are written: twice the amount, and both count.
        let passes = if job.rw == Rw::TrimWrite { 2 } else { 1 };
        let ios = job.number_ios.unwrap_or(u64::MAX).saturating_mul(passes);
        // With verification each loop is restarted.
        let loops = if job.verify.method.is_some() { 1 } else { job.loops };
        let smallest = DataDir::ALL.map(|dir| job.min_bs(dir)).into_iter().min();
        let largest = job.bs.into_iter().max();
        let is_poisson = job.rate_process == RateProcess::Poisson;
        let min_block = if passes == 2 { largest } else { smallest }.expect("three directions");
        Pace {
            bytes_left: if job.time_based { u64::MAX } else { total.saturating_mul(passes) },
            ios_left: if job.time_based { u64::MAX } else { ios.saturating_mul(loops) },
            ios,
            passes,
            min_block,
            rate_bytes: DataDir::ALL.map(|dir| match job.rate_iops[dir as usize] {
                0 if is_poisson => job.min_bs(dir),
                0 => 0,
                _ => job.bs[dir as usize],
            }),
            startdelay: job.startdelay,
            ramp_time: job.ramp_time,
            runtime: job.runtime,
            started: None,
            deadline: Nanos(u64::MAX),
            gate: Nanos(0),
            ramping: job.ramp_time > Nanos(0),
            stopped: false,
            byte_cost: std::array::from_fn(byte_cost),
            poisson: is_poisson.then(|| Box::new(rng)),
            rate_next: [Nanos(0); 3],
            thinktime: job.thinktime,
            thinktime_blocks: job.thinktime_blocks.max(1),
            until_think: job.thinktime_blocks.max(1),
            thinking_until: Nanos(0),
            held_until: Nanos(0),
        }
    }

    /// Bytes left to submit; `None` if only the time limits them.
    pub fn total(&self) -> Option<u64> {
        (self.bytes_left != u64::MAX).then_some(self.bytes_left)
    }

    /// The start delay.
    pub fn start_after(&self) -> Nanos {
        self.startdelay
    }

    /// Starts the job at the first call; returns whether this is it.
    pub fn begin(&mut self, now: Nanos) -> bool {
        let first = self.started.is_none();
        if first {
            self.started = Some(now);
            self.rate_next = [now; 3];
            if let Some(runtime) = self.runtime {
                self.deadline = now + self.ramp_time + runtime;
            }
        }
        first
    }

    /// Whether the ramp has ended; true once.
    pub fn ramp_ends(&mut self, now: Nanos) -> bool {
        let ends = self.ramping && self.started.is_some_and(|start| now >= start + self.ramp_time);
        self.ramping &= !ends;
        ends
    }

    /// Whether what is done is not measured yet.
    pub fn is_ramping(&self) -> bool {
        self.ramping
    }

    /// End of the runtime, including the ramp, if it is limited.
    pub fn deadline(&self) -> Option<Nanos> {
        (self.deadline != Nanos(u64::MAX)).then_some(self.deadline)
    }

    /// Restarts with this amount of I/O; returns whether any can be submitted.
    pub fn restart(&mut self, bytes: u64) -> bool {
        self.bytes_left = bytes.saturating_mul(self.passes);
        self.ios_left = self.ios;
        !self.stopped
    }

    /// Ends the job as at the end of its runtime.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.startdelay = Nanos(0);
    }

    /// Whether the job is still to start.
    pub(super) fn is_pending(&self) -> bool {
        self.started.is_none() && !self.stopped
    }

    /// Whether nothing more will be submitted.
    #[inline]
    pub fn is_over(&self, now: Nanos) -> bool {
        self.stopped
            || self.bytes_left < self.min_block
            || self.ios_left == 0
            || now >= self.deadline
    }

    /// Whether an I/O may be submitted now.
    #[inline]
    pub fn may_submit(&self, now: Nanos) -> bool {
        !self.is_over(now) && now >= self.gate
    }

    /// Submits nothing before this time since the start.
    pub fn hold(&mut self, at: Nanos) {
        let begin = self.started.unwrap_or_default();
        self.held_until = begin.saturating_add(at);
        self.set_gate();
    }

    /// The time since the start.
    pub fn since_start(&self, now: Nanos) -> Nanos {
        now - self.started.unwrap_or(now)
    }

    /// When the gate opens, if it is closed.
    pub fn opens(&self, now: Nanos) -> Option<Nanos> {
        (self.gate > now).then_some(self.gate)
    }

    /// With nothing in flight, when an I/O can be submitted or the job ends.
    pub fn next_submit(&self) -> Nanos {
        self.deadline.min(self.gate)
    }

    /// In a mixed job all directions have to be due, as the generator determines their order.
    fn set_gate(&mut self) {
        let rates = self.rate_next.into_iter().max().expect("three directions");
        self.gate = rates.max(self.thinking_until).max(self.held_until);
    }

    /// Accounts for a submitted I/O.
    #[inline]
    pub fn submitted(&mut self, dir: DataDir, bytes: u64) {
        if self.bytes_left != u64::MAX {
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
        }
        self.ios_left = self.ios_left.saturating_sub(1);
        let cost = self.byte_cost[dir as usize];
        if cost > 0 {
            let bytes = match self.rate_bytes[dir as usize] {
                0 => bytes,
                block => block,
            };
            let mut wait = u64::try_from((u128::from(bytes) * cost) >> 32).unwrap_or(u64::MAX);
            if let Some(rng) = &mut self.poisson {
                wait = exponential(rng, wait);
            }
            let next = &mut self.rate_next[dir as usize];
            next.0 = next.0.saturating_add(wait);
            self.set_gate();
        }
    }

    /// Accounts for a completed I/O.
    #[inline]
    pub fn completed(&mut self, now: Nanos) {
        if self.thinktime == Nanos(0) {
            return;
        }
        self.until_think -= 1;
        if self.until_think == 0 {
            self.until_think = self.thinktime_blocks;
            self.thinking_until = now + self.thinktime;
            self.set_gate();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_poisson_process_are_exponentially_distributed() {
        let (draws, mean) = (200_000, 1_000_000_u64);
        let mut rng = Rng::new(1, [0; 4]);
        let mut below = [0_u32; 40];
        for _ in 0..draws {
            // Forty cells of the same probability.
            let part = 1.0 - libm::exp(-(exponential(&mut rng, mean) as f64) / mean as f64);
            below[((part * 40.0) as usize).min(39)] += 1;
        }
        let expected = f64::from(draws) / 40.0;
        let statistic: f64 =
            below.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!((15.0..75.0).contains(&statistic), "chi-squared of 39 degrees: {statistic}");
    }
}
