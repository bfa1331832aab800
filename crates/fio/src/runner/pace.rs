//! When a job may submit its next I/O, and when it is over: amount, runtime, rates, think time.
use super::passes::Passes;
use super::think::Think;
use crate::generate::Region;
use crate::job::{DataDir, Job, RateProcess, Rw};
use crate::mistake::mistake;
use crate::rng::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zonal_blk::Nanos;

/// The pace of a job: amount of I/O, runtime, ramp, rates and think time.
#[derive(Debug)]
pub struct Pace {
    /// Bytes submitted, but of trims that writes follow.
    issued: u64,
    /// The pass is over with as many. As in fio the last block may be more than what was left.
    until: u64,
    ios_left: u64,
    passes: Passes,
    /// At the end of its region the job begins again without an end of the pass: it runs for a time.
    wraps: bool,
    /// What it has written is verified after each pass.
    verifies: bool,
    /// Bytes that were submitted when it last did so.
    wrapped_at: u64,
    /// Trims come besides the amount of I/O, which is that of the writes that follow them.
    trims_besides: bool,
    /// Submitted I/Os have more to them than their number and bytes.
    is_special: bool,
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
    /// Some direction has a rate limit.
    is_rated: bool,
    /// The job reads and writes.
    is_mixed: bool,
    /// The directions of the job's own I/O.
    own_dirs: [bool; 3],
    /// Smallest block sizes by direction.
    smallest: [u64; 3],
    /// With `rate_process=poisson`.
    poisson: Option<Box<Rng>>,
    /// By direction, when the rate limit allows the next I/O.
    rate_next: [Nanos; 3],
    think: Option<Box<Think>>,
    ramp_size: Option<Box<RampSize>>,
    /// When the next request of a trace is due.
    held_until: Nanos,
}

/// The amount of I/O after which the ramp ends (`ramp_size`).
#[derive(Debug)]
struct RampSize {
    bytes: u64,
    /// Bytes that the clone has done.
    own: u64,
    /// Bytes that it and those that it is counted with have done.
    all: Arc<AtomicU64>,
}

impl RampSize {
    /// The clone has done this much: whether that is enough.
    fn is_done(&mut self, own: u64) -> bool {
        let more = own - std::mem::replace(&mut self.own, own);
        self.all.fetch_add(more, Ordering::Relaxed) + more >= self.bytes
    }
}

/// A time of a Poisson process until its next event, if the mean time is `mean`.
fn exponential(rng: &mut Rng, mean: u64) -> u64 {
    (-libm::log(1.0 - rng.unit()) * mean as f64) as u64
}

impl Pace {
    /// The pace of a job with `total` bytes of I/O. `rng` is for `rate_process=poisson`.
    pub fn new(job: &Job, total: u64, rng: Rng) -> Self {
        let byte_cost = |dir: usize| {
            let iops = if mistake!(RateDoubled) { 2 } else { 1 } * job.rate_iops[dir];
            let by_iops = iops.saturating_mul(job.min_bs(DataDir::ALL[dir]));
            let rate = match (job.rate[dir], by_iops) {
                (0, iops) => iops,
                (bytes, 0) => bytes,
                (bytes, iops) => bytes.min(iops),
            };
            if rate == 0 { 0 } else { (1_000_000_000_u128 << 32) / u128::from(rate) }
        };
        let trims_besides = job.rw == Rw::TrimWrite;
        let used = DataDir::ALL.into_iter().filter(|&dir| job.uses(dir));
        let amount_dirs = used.filter(|&dir| !trims_besides || dir == DataDir::Write);
        let smallest = amount_dirs.map(|dir| job.min_bs(dir)).min().expect("a direction");
        // Files of file systems are as long as they are.
        let least = if job.fs.kind.is_some() { smallest } else { 1 };
        let passes = Passes::one(job, total, least);
        let is_poisson = job.rate_process == RateProcess::Poisson;
        let byte_cost: [u128; 3] = std::array::from_fn(byte_cost);
        let is_rated = byte_cost != [0; 3];
        Pace {
            issued: 0,
            until: passes.until(),
            ios_left: passes.ios(),
            passes,
            wraps: job.time_based && !job.verifies_each_pass(),
            verifies: job.uses(DataDir::Write)
                && job.verify.method.is_some()
                && job.verify.do_verify,
            wrapped_at: 0,
            trims_besides,
            is_special: trims_besides || is_rated,
            is_mixed: job.rw == Rw::Mixed && (1..100).contains(&job.rwmixread),
            own_dirs: DataDir::ALL.map(|dir| job.uses(dir)),
            rate_bytes: DataDir::ALL.map(|dir| if is_poisson { job.min_bs(dir) } else { 0 }),
            startdelay: job.startdelay,
            ramp_time: job.ramp_time,
            runtime: job.runtime,
            started: None,
            deadline: Nanos(u64::MAX),
            gate: Nanos(0),
            ramping: job.ramp_time > Nanos(0) || job.limits.ramp_size > 0,
            stopped: false,
            byte_cost,
            is_rated,
            smallest: DataDir::ALL.map(|dir| job.min_bs(dir)),
            poisson: is_poisson.then(|| Box::new(rng)),
            rate_next: [Nanos(0); 3],
            think: Think::new(job),
            ramp_size: (job.limits.ramp_size > 0).then(|| {
                Box::new(RampSize { bytes: job.limits.ramp_size, own: 0, all: Arc::default() })
            }),
            held_until: Nanos(0),
        }
    }

    /// Has the job go through its region.
    pub(crate) fn set_passes(&mut self, job: &Job, region: Region) {
        self.passes = Passes::of(job, region);
        self.begin_pass(0);
    }

    /// Bytes left to submit; `None` if only the time limits them.
    pub fn total(&self) -> Option<u64> {
        self.passes.total().map(|all| all.saturating_sub(self.issued))
    }

    /// Draws the start delay if `most` is longer.
    pub fn start_after_up_to(&mut self, most: Nanos, rng: &mut Rng) {
        if most > self.startdelay {
            self.startdelay += Nanos(rng.below((most - self.startdelay).0 + 1));
        }
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
            // Without a time the ramp ends some time: then the runtime begins.
            let ramp_is_timed = self.ramp_time > Nanos(0) || self.ramp_size.is_none();
            if let Some(runtime) = self.runtime.filter(|_| ramp_is_timed) {
                self.deadline = now + self.ramp_time + runtime;
            }
            if let Some(think) = &mut self.think {
                think.start(now);
            }
        }
        first
    }

    /// Counts the ramp's I/O together with that of other clones (`ramp_size` with `group_reporting`).
    pub(crate) fn join_ramp(&mut self, all: Arc<AtomicU64>) {
        if let Some(ramp) = &mut self.ramp_size {
            ramp.all = all;
        }
    }

    /// Whether the ramp has ended; true once. `bytes` are those that the clone has done.
    #[inline]
    pub fn ramp_ends(&mut self, now: Nanos, bytes: u64) -> bool {
        self.ramping && self.ramp_ends_now(now, bytes)
    }

    #[cold]
    fn ramp_ends_now(&mut self, now: Nanos, bytes: u64) -> bool {
        let Some(start) = self.started else { return false };
        let in_time = self.ramp_time > Nanos(0) && now >= start + self.ramp_time;
        let in_size = self.ramp_size.as_mut().is_some_and(|ramp| ramp.is_done(bytes));
        self.ramping = !in_time && !in_size;
        if self.ramping {
            return false;
        }
        if let Some(runtime) = self.runtime.filter(|_| !in_time) {
            self.deadline = now + runtime;
        }
        if let Some(think) = &mut self.think {
            think.start(now);
        }
        true
    }

    /// Whether what is done is not measured yet.
    #[inline]
    pub fn is_ramping(&self) -> bool {
        self.ramping
    }

    /// End of the runtime, including the ramp, if it is limited.
    pub fn deadline(&self) -> Option<Nanos> {
        (self.deadline != Nanos(u64::MAX)).then_some(self.deadline)
    }

    /// A pass begins after this many I/Os; returns whether it may do any.
    fn begin_pass(&mut self, ios: u64) -> bool {
        (self.until, self.ios_left) = (self.passes.until(), self.passes.ios().saturating_sub(ios));
        self.issued < self.until && self.ios_left > 0
    }

    /// Begins the next pass, after this many I/Os and bytes of them; returns whether there is one.
    #[cold]
    pub(super) fn next_pass(&mut self, now: Nanos, done: (u64, u64)) -> bool {
        let is_over = self.stopped || now >= self.deadline;
        !is_over && self.passes.next(self.issued, done) && self.begin_pass(done.0)
    }

    /// Has passes end as without a runtime.
    pub(super) fn set_untimed(&mut self) {
        self.passes.untimed();
        self.wraps = false;
        self.begin_pass(0);
    }

    /// A read for verification is submitted among the job's I/O. As in fio, it counts as part of the pass.
    pub(super) fn verified(&mut self, bytes: u64) {
        self.ios_left = self.ios_left.saturating_sub(1);
        self.besides(bytes);
        self.rated(DataDir::Read, bytes);
    }

    /// A flush of `fsync` is submitted among I/Os in flight. As in fio, it counts as one of them until it has
    /// completed, and so may end the pass before `number_ios` are done.
    pub(super) fn flushes(&mut self) {
        self.ios_left = self.ios_left.saturating_sub(1);
    }

    /// It has completed; `in_flight` are those that have not, and `was_full` says that the queue was full until now.
    pub(super) fn flushed(&mut self, now: Nanos, in_flight: u32, was_full: bool) {
        // A pass that is over stays so. As in fio, whether it is comes up once a full queue has room, and a pause that
        // is due has begun.
        let pauses = self.think.as_ref().is_some_and(|think| think.is_due());
        if self.ios_left > 0 || was_full || pauses {
            self.ios_left = self.ios_left.saturating_add(1);
        }
        if let Some(think) = &mut self.think {
            think.reaped();
            self.after_completion(now, in_flight);
        }
    }

    /// Counts what is part of the pass, but not of the amount of I/O.
    fn besides(&mut self, bytes: u64) {
        self.passes.besides(bytes);
        self.until = self.until.min(self.passes.until());
    }

    /// The generator is at the end of the region; `visited_all` says that there is no random block left, otherwise
    /// the next block does not fit. Returns whether the job goes on there at once; otherwise the pass is over, as in
    /// fio before what did not fit if the job verifies.
    #[cold]
    pub fn end_of_region(&mut self, visited_all: bool) -> bool {
        let did_any = self.issued > std::mem::replace(&mut self.wrapped_at, self.issued);
        if self.wraps && did_any && (visited_all || !self.verifies) {
            return true;
        }
        self.until = 0;
        self.passes.meet_end();
        false
    }

    /// Ends the job as at the end of its runtime.
    pub fn stop(&mut self) {
        (self.stopped, self.until) = (true, 0);
        self.startdelay = Nanos(0);
    }

    /// Whether the job has more to do, and only its runtime has ended.
    pub(super) fn is_cut(&self, now: Nanos) -> bool {
        now >= self.deadline && !self.stopped && self.issued < self.until && self.ios_left > 0
    }

    /// Whether the job is still to start.
    pub(super) fn is_pending(&self) -> bool {
        self.started.is_none() && !self.stopped
    }

    /// Whether nothing more will be submitted.
    #[inline]
    pub fn is_over(&self, now: Nanos) -> bool {
        self.issued >= self.until || self.ios_left == 0 || now >= self.deadline
    }

    /// Whether an I/O may be submitted now.
    #[inline]
    pub fn may_submit(&self, now: Nanos) -> bool {
        !self.is_over(now) && now >= self.gate
    }

    /// The end of the pause that the job makes, if it may go on then.
    pub(super) fn pauses_until(&self, now: Nanos) -> Option<Nanos> {
        let until = self.think.as_ref()?.until().min(self.deadline);
        (!self.stopped && until > now).then_some(until)
    }

    /// Whether the job has more to do, and only its rate says that it is too early.
    pub(super) fn is_held_by_rate(&self, now: Nanos) -> bool {
        let others = self.think.as_ref().map_or(Nanos(0), |think| think.until());
        self.is_rated && !self.is_over(now) && now >= others.max(self.held_until)
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

    /// When the gate opens, if it is closed and that is known.
    #[inline]
    pub fn opens(&self, now: Nanos) -> Option<Nanos> {
        (self.gate > now && self.gate != Nanos(u64::MAX)).then_some(self.gate)
    }

    /// With nothing in flight, when an I/O can be submitted or the job ends.
    pub fn next_submit(&self) -> Nanos {
        self.deadline.min(self.gate)
    }

    /// A job that reads and writes goes on with the direction that is due, as in fio; what is trimmed
    /// and then written waits for both. What is read for verification defers no writes.
    fn set_gate(&mut self) {
        let [read, write, _] = self.rate_next;
        let own = self.rate_next.into_iter().zip(self.own_dirs).filter(|(_, is_own)| *is_own);
        let latest = own.map(|(next, _)| next).fold(Nanos(0), Nanos::max);
        let rates = if self.is_mixed { read.min(write) } else { latest };
        let think = self.think.as_ref().map_or(Nanos(0), |think| think.until());
        self.gate = rates.max(think).max(self.held_until);
    }

    /// With rates, in a job that reads and writes: which of the directions are due.
    #[inline]
    pub fn due(&self, now: Nanos) -> Option<[bool; 2]> {
        let [read, write, _] = self.rate_next;
        (self.is_rated && self.is_mixed).then_some([read <= now, write <= now])
    }

    /// Accounts for a submitted I/O.
    #[inline]
    pub fn submitted(&mut self, dir: DataDir, bytes: u64) {
        self.ios_left = self.ios_left.saturating_sub(1);
        if self.is_special {
            return self.submitted_specially(dir, bytes);
        }
        self.issued += bytes;
    }

    fn submitted_specially(&mut self, dir: DataDir, bytes: u64) {
        match self.trims_besides && dir == DataDir::Trim {
            true => self.besides(bytes),
            false => self.issued += bytes,
        }
        self.rated(dir, bytes);
    }

    /// An I/O of a direction counts at its rate. As in fio, reads for verification do.
    pub(super) fn rated(&mut self, dir: DataDir, bytes: u64) {
        if self.is_rated && self.byte_cost[dir as usize] > 0 {
            self.defer_next(dir, bytes);
        }
    }

    /// Defers the next I/O of a direction by the time that one of `bytes` has at the rate limit.
    fn defer_next(&mut self, dir: DataDir, bytes: u64) {
        let bytes = match self.rate_bytes[dir as usize] {
            0 => bytes,
            block => block,
        };
        let mut wait = self.rate_time(dir as usize, bytes);
        if let Some(rng) = &mut self.poisson {
            wait = exponential(rng, wait);
        }
        let next = &mut self.rate_next[dir as usize];
        next.0 = next.0.saturating_add(wait);
        self.set_gate();
    }

    /// An I/O has been submitted at this time; `is_full` says that the queue is full with it.
    #[inline]
    pub fn issued(&mut self, now: Nanos, is_full: bool) {
        if let Some(think) = &mut self.think {
            think.submitted(now, is_full);
            self.set_gate();
        }
    }

    /// An I/O has completed; `in_flight` are those that have not.
    #[inline]
    pub fn completed(&mut self, now: Nanos, in_flight: u32) {
        if let Some(think) = &mut self.think {
            think.completed(now);
            self.after_completion(now, in_flight);
        }
    }

    /// A job that pauses has seen a completion.
    fn after_completion(&mut self, now: Nanos, in_flight: u32) {
        match in_flight {
            0 => self.drained(now),
            _ => self.set_gate(),
        }
    }

    /// Nothing is in flight: a pause that is due begins.
    #[inline]
    pub fn drained(&mut self, now: Nanos) {
        if self.think.is_some() {
            self.pause(now);
        }
    }

    fn pause(&mut self, now: Nanos) {
        if let Some(time) = self.think.as_mut().and_then(|think| think.drained(now)) {
            self.leave_out(time);
        }
        self.set_gate();
    }

    /// Does not count a pause as time of the rate if the job wants it so. As in fio, the next I/O may
    /// follow the pause immediately, if that is longer than the time of a block.
    fn leave_out(&mut self, pause: Nanos) {
        if !self.think.as_ref().is_some_and(|think| think.is_outside_rate()) {
            return;
        }
        for dir in (0..3).filter(|&dir| self.byte_cost[dir] > 0) {
            let block = match self.poisson {
                Some(_) => Nanos(0),
                None => Nanos(self.rate_time(dir, self.smallest[dir])),
            };
            let shift = if block <= pause { pause - block } else { pause };
            self.rate_next[dir] = self.rate_next[dir].saturating_add(shift);
        }
    }

    /// The time of this many bytes at the rate limit.
    fn rate_time(&self, dir: usize, bytes: u64) -> u64 {
        u64::try_from((u128::from(bytes) * self.byte_cost[dir]) >> 32).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{LimitOptions, ThinkOptions};

    #[test]
    fn what_is_read_for_verification_defers_no_writes() {
        let job = Job { rw: Rw::Write, rate_iops: [1000; 3], ..Job::default() };
        let mut pace = Pace::new(&job, u64::MAX, Rng::new(1, [0; 4]));
        pace.begin(Nanos(0));
        pace.submitted(DataDir::Write, 4096);
        pace.rated(DataDir::Read, 1 << 20);
        assert_eq!(pace.opens(Nanos(0)), Some(Nanos(1_000_000)), "that of one write");
    }

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

    /// When each of `n` I/Os, one at a time and of no duration, is submitted.
    fn submissions(options: Job, n: usize) -> Vec<u64> {
        let mut pace = Pace::new(&options, u64::MAX, Rng::new(1, [0; 4]));
        pace.begin(Nanos(0));
        (0..n)
            .map(|_| {
                let at = pace.next_submit();
                assert!(pace.may_submit(at));
                pace.submitted(DataDir::Read, 4096);
                pace.issued(at, true);
                pace.completed(at, 0);
                at.0 / 1000
            })
            .collect()
    }

    #[test]
    fn a_rate_of_ios_is_one_of_their_smallest_blocks() {
        // fio 3.41 with `--bsrange=4k-8k --rate_iops=1000`: a block of 8 KiB takes the time of two.
        let sizes = [0; 3].map(|_| crate::job::BlockSizes::Range { min: 4096 });
        let address = crate::job::AddressOptions { sizes, ..Default::default() };
        let job = Job { rate_iops: [1000; 3], bs: [8192; 3], address, ..Job::default() };
        let mut pace = Pace::new(&job, u64::MAX, Rng::new(1, [0; 4]));
        pace.begin(Nanos(0));
        let mut times = Vec::new();
        for bytes in [4096, 8192, 8192, 4096] {
            times.push(pace.next_submit().0 / 1000);
            pace.submitted(DataDir::Read, bytes);
        }
        assert_eq!(times, [0, 1000, 3000, 5000]);
    }

    #[test]
    fn a_rate_makes_up_for_pauses_unless_they_are_ignored() {
        let think = ThinkOptions { time: Nanos(5_000_000), blocks: Some(3), ..Default::default() };
        let job = |outside_rate| Job {
            rate_iops: [1000; 3],
            think: ThinkOptions { outside_rate, ..think },
            ..Job::default()
        };
        assert_eq!(submissions(job(false), 7), [0, 1000, 2000, 7000, 7000, 7000, 12000]);
        assert_eq!(submissions(job(true), 7), [0, 1000, 2000, 7000, 8000, 9000, 14000]);
    }

    #[test]
    fn a_flush_in_flight_counts_as_an_io_when_a_pass_ends() {
        // fio 3.41 with --rw=write --iodepth=8 --fsync=11 --size=46 blocks --number_ios=45: after 44 writes and a
        // flush another pass begins.
        let flushing = |ios| {
            let job = Job { rw: Rw::Write, iodepth: 8, number_ios: Some(ios), ..Job::default() };
            let mut pace = Pace::new(&job, 1 << 20, Rng::new(1, [0; 4]));
            pace.submitted(DataDir::Write, 4096);
            pace.flushes();
            pace
        };
        let (mut ended, mut full, mut goes_on) = (flushing(2), flushing(2), flushing(3));
        assert!(ended.is_over(Nanos(0)));
        ended.flushed(Nanos(0), 0, false);
        assert!(ended.is_over(Nanos(0)), "the pass has ended");
        full.flushed(Nanos(0), 1, true);
        assert!(!full.is_over(Nanos(0)), "a full queue waits for a completion first");
        goes_on.flushed(Nanos(0), 0, false);
        goes_on.submitted(DataDir::Write, 4096);
        assert!(!goes_on.is_over(Nanos(0)), "one is left");
    }

    #[test]
    fn a_ramp_ends_with_its_time_or_its_size_and_then_the_runtime_begins() {
        let runtime = Some(Nanos(1000));
        let limits = LimitOptions { ramp_size: 8192, ..LimitOptions::default() };
        let job = |ramp_time| Job { limits: limits.clone(), ramp_time, runtime, ..Job::default() };
        let pace = |ramp_time| Pace::new(&job(Nanos(ramp_time)), u64::MAX, Rng::new(1, [0; 4]));
        let mut by_size = pace(0);
        assert!(!by_size.ramp_ends(Nanos(5), 0), "it has not started");
        by_size.begin(Nanos(10));
        assert!(!by_size.ramp_ends(Nanos(5000), 4096) && by_size.deadline().is_none());
        assert!(by_size.ramp_ends(Nanos(6000), 8192) && !by_size.is_ramping());
        assert_eq!(by_size.deadline(), Some(Nanos(7000)));
        assert!(!by_size.ramp_ends(Nanos(6001), 9000), "once");
        let mut by_time = pace(100);
        by_time.begin(Nanos(10));
        assert!(by_time.ramp_ends(Nanos(110), 4096));
        assert_eq!(by_time.deadline(), Some(Nanos(1110)));
        let (all, mut one, mut other) = (Arc::default(), pace(0), pace(0));
        for pace in [&mut one, &mut other] {
            pace.join_ramp(Arc::clone(&all));
            pace.begin(Nanos(0));
        }
        assert!(!one.ramp_ends(Nanos(1), 4096) && other.ramp_ends(Nanos(2), 4096));
        assert!(one.ramp_ends(Nanos(3), 4096), "together they have done it");
    }
}
