//! The passes of a job through its region: how much each does, and whether another one follows.
//!
//! As in fio, a pass ends at the end of the region, with the last I/O of the job or, in an engine that has a
//! queue, with its own amount, which counts everything that is issued: trims that writes follow, and reads of
//! `verify_backlog`. What the job has written is verified then, and it begins again at the start of the region
//! for as long as `loops`, `io_size` or a runtime have it do so.
use crate::generate::Region;
use crate::job::{DataDir, Extent, Job, Rw};
use crate::mistake::mistake;

#[derive(Debug)]
pub(super) struct Passes {
    /// Bytes of I/O in all passes.
    amount: u64,
    /// The same; `u64::MAX` if only a time limits them.
    all: u64,
    /// Bytes of a pass, with what does not count as I/O of the job; `u64::MAX` if only the region ends it.
    each: u64,
    /// Bytes issued before the current pass.
    before: u64,
    /// Bytes at which the current pass ends. What does not count as I/O of the job takes off.
    end: u64,
    /// It has met the end of the region.
    is_at_end: bool,
    /// Passes that follow the current one whatever has been done.
    loops: u64,
    /// Others follow until this much is done, verification included: `io_size`, or `size`.
    limit: u64,
    /// They follow one that has met the end of the region, too: `io_size` is given, or the job verifies.
    follow_end: bool,
    /// With less than the largest block of all directions left, none follows.
    largest: u64,
    /// They follow until the runtime is over.
    time_based: bool,
    /// I/Os of all passes, verification included.
    ios: u64,
    /// Each pass doubles the I/Os of all, as fio does where writes follow trims.
    doubles: bool,
}

impl Passes {
    /// One pass of `bytes`, which is over with less than `least` left of them.
    pub(super) fn one(job: &Job, bytes: u64, least: u64) -> Self {
        let mut passes = Passes::of_amount(job, bytes);
        if passes.all != u64::MAX {
            passes.all = bytes.saturating_sub(least - 1);
        }
        passes.begin(0);
        passes
    }

    /// The passes of a job through its region.
    pub(super) fn of(job: &Job, region: Region) -> Self {
        let is_part = matches!(job.io_size, Some(Extent::Percent(_)));
        let io_size = job.io_size.filter(|_| !is_part).map(|_| region.io_size);
        // As in fio, a percentage is one of `size`.
        let size = if is_part { region.io_size } else { region.size };
        let verifies =
            job.uses(DataDir::Write) && job.verify.method.is_some() && job.verify.do_verify;
        let limit = io_size.unwrap_or(size);
        let amount = limit.saturating_mul(job.loops);
        let mut passes = Passes {
            each: bytes_of_pass(job, size, io_size.unwrap_or(0), amount),
            loops: job.loops.saturating_sub(1),
            limit,
            follow_end: io_size.is_some() || verifies,
            time_based: job.time_based,
            ..Passes::of_amount(job, amount)
        };
        passes.begin(0);
        passes
    }

    /// A pass that is still to begin, with this amount of I/O.
    fn of_amount(job: &Job, amount: u64) -> Self {
        let ios = job.number_ios.map(|ios| ios + u64::from(mistake!(OneIoMore)));
        let ios = ios.filter(|_| !job.time_based).map(|ios| ios.saturating_mul(job.loops));
        Passes {
            amount,
            all: if job.time_based { u64::MAX } else { amount },
            each: u64::MAX,
            before: 0,
            end: u64::MAX,
            is_at_end: false,
            loops: 0,
            limit: 0,
            follow_end: false,
            largest: job.bs.into_iter().max().expect("three directions"),
            time_based: false,
            ios: ios.unwrap_or(u64::MAX),
            doubles: job.rw == Rw::TrimWrite,
        }
    }

    /// The passes without the end that a time gives them.
    pub(super) fn untimed(&mut self) {
        (self.all, self.time_based) = (self.amount, false);
    }

    /// A pass begins after this many bytes of I/O.
    fn begin(&mut self, issued: u64) {
        (self.before, self.end) = (issued, issued.saturating_add(self.each));
        self.is_at_end = false;
        if self.doubles {
            self.ios = self.ios.saturating_mul(2);
        }
    }

    /// Begins the next pass if there is one, after this many bytes of I/O were issued, and this many I/Os and
    /// bytes done, with those of verification. As in fio there is none after one without I/O.
    pub(super) fn next(&mut self, issued: u64, (ios, bytes): (u64, u64)) -> bool {
        let did_any = issued > self.before || self.end < self.before.saturating_add(self.each);
        let left = self.limit.saturating_sub(bytes);
        let may_follow = self.follow_end || !self.is_at_end;
        let goes_on = if self.time_based || self.loops > 0 {
            self.loops = self.loops.saturating_sub(1);
            did_any
        } else {
            did_any && ios < self.ios && may_follow && left > 0 && left >= self.largest
        };
        if goes_on {
            self.begin(issued);
        }
        goes_on
    }

    /// Bytes of I/O of the job at which the pass ends.
    pub(super) fn until(&self) -> u64 {
        self.all.min(self.end)
    }

    /// I/Os of this pass and those before it.
    pub(super) fn ios(&self) -> u64 {
        self.ios
    }

    /// Bytes of all passes, if they are limited.
    pub(super) fn total(&self) -> Option<u64> {
        (self.all != u64::MAX).then_some(self.all)
    }

    /// Counts what is no I/O of the job, but part of the pass.
    pub(super) fn besides(&mut self, bytes: u64) {
        self.end = self.end.saturating_sub(bytes);
    }

    /// The pass has met the end of the region.
    pub(super) fn meet_end(&mut self) {
        self.is_at_end = true;
    }
}

/// Bytes of a pass; `u64::MAX` if only the region ends it.
fn bytes_of_pass(job: &Job, size: u64, io_size: u64, amount: u64) -> u64 {
    let verifies = job.verify.method.is_some();
    let has_files = job.fs.nrfiles.is_some_and(|files| files > 1);
    let is_generated = job.pattern.program.is_none() && job.replay.read_iolog.is_none();
    let is_timed = job.time_based && !job.verifies_each_pass();
    if !is_generated || is_timed || has_files && !verifies {
        return u64::MAX;
    }
    // Files have no end that a pass meets.
    if !job.address.restarts && !has_files {
        return u64::MAX;
    }
    let writes = job.uses(DataDir::Write);
    let is_mixed = job.rw == Rw::Mixed && !job.random && !verifies;
    let mut bytes = size;
    if is_mixed || writes && job.random && !job.has_random_map() {
        bytes = bytes.max(io_size);
    }
    if verifies && writes && job.verify.backlog > 0 {
        bytes = bytes.saturating_add(size);
    }
    if job.rw == Rw::TrimWrite {
        bytes = bytes.saturating_add(amount);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Checksum, Distribution, VerifyMethod, VerifyOptions};

    const BLOCK: u64 = 4096;

    fn region(size: u64, io_size: u64) -> Region {
        let end = size * BLOCK;
        Region { start: 0, end, size: end, io_size: io_size * BLOCK, lba: 512, limit: 4 * end }
    }

    /// Blocks of I/O in each pass of a job that never meets the end of its region. `reads` are those for
    /// verification after each pass.
    fn blocks_of_passes(job: &Job, region: Region, reads: bool) -> Vec<u64> {
        let mut passes = Passes::of(job, region);
        let (mut issued, mut done, mut seen) = (0, 0, Vec::new());
        loop {
            let from = issued;
            while issued < passes.until() && done / BLOCK < passes.ios() && seen.len() < 20 {
                issued += job.bs[0];
                done += job.bs[0];
            }
            seen.push((issued - from) / BLOCK);
            done += if reads { issued - from } else { 0 };
            if !passes.next(issued, (done / BLOCK, done)) {
                return seen;
            }
        }
    }

    fn with_queue(loops: u64, io_size: Option<u64>) -> Job {
        let io_size = io_size.map(|blocks| Extent::Bytes(blocks * BLOCK));
        let mut job = Job { loops, io_size, ..Job::default() };
        job.address.restarts = true;
        job
    }

    fn verifying(job: Job) -> Job {
        let method = Some(VerifyMethod::Checksum(Checksum::Md5));
        let verify = VerifyOptions { method, ..VerifyOptions::default() };
        Job { rw: Rw::Write, verify, ..job }
    }

    #[test]
    fn passes_follow_until_io_size_is_done_in_an_engine_with_a_queue_each_with_size() {
        // fio 3.41 with --rw=randread --random_distribution=normal:40 --bs=8k --size=200k --io_size=2912k
        // --loops=2 --iodepth=8.
        let mut job = with_queue(2, Some(728));
        job.bs = [8192; 3];
        assert_eq!(blocks_of_passes(&job, region(50, 728), false), [50; 15]);
        job.address.restarts = false;
        assert_eq!(blocks_of_passes(&job, region(50, 728), false)[0], 1456, "psync");
        // With --size=112k --io_size=128k --bs=24k: less than a block is left.
        let job = Job { bs: [24 << 10; 3], ..with_queue(1, Some(32)) };
        assert_eq!(blocks_of_passes(&job, region(28, 32), false), [30]);
    }

    #[test]
    fn the_last_pass_has_what_is_left_of_all_loops_and_verification_counts() {
        // fio 3.41 with --rw=write --bs=48k --size=3056k --loops=3 --iodepth=2 --verify=null.
        let job = Job { bs: [48 << 10; 3], ..verifying(with_queue(3, None)) };
        assert_eq!(blocks_of_passes(&job, region(764, 764), true), [768, 768, 756]);
        // With --number_ios the reads count, too.
        let numbered = Job { number_ios: Some(40), ..verifying(with_queue(2, None)) };
        assert_eq!(blocks_of_passes(&numbered, region(30, 30), true), [30, 20]);
    }

    #[test]
    fn a_pass_without_io_is_the_last_one_and_without_io_size_so_is_one_that_met_the_end() {
        for (io_size, loops, follows) in [(None, 1, false), (Some(20), 1, true), (None, 2, true)] {
            let mut passes = Passes::of(&with_queue(loops, io_size), region(10, 20));
            passes.meet_end();
            assert_eq!(passes.next(5 * BLOCK, (5, 5 * BLOCK)), follows, "{io_size:?}, {loops}");
            assert!(!passes.next(5 * BLOCK, (5, 5 * BLOCK)), "no I/O");
        }
        // fio 3.41 with --rw=rw --rwmixread=70 --verify=null: what is read ends a pass early.
        let mut passes = Passes::of(&verifying(with_queue(1, None)), region(10, 10));
        passes.meet_end();
        assert!(passes.next(2 * BLOCK, (4, 4 * BLOCK)));
    }

    #[test]
    fn what_is_trimmed_or_read_for_verification_is_part_of_a_pass() {
        let trims = Job { rw: Rw::TrimWrite, number_ios: Some(42), ..with_queue(3, None) };
        let mut passes = Passes::of(&trims, region(144, 144));
        assert_eq!(passes.until(), 3 * 144 * BLOCK);
        passes.besides(300 * BLOCK);
        assert_eq!(passes.until(), 276 * BLOCK, "of four times the size");
        // As fio 3.41, which doubles the number in each pass.
        let mut ios = vec![passes.ios()];
        for pass in 1..3 {
            assert!(passes.next(pass * BLOCK, (pass, pass * BLOCK)));
            ios.push(passes.ios());
        }
        assert_eq!(ios, [252, 504, 1008]);
        let mut backlog = verifying(with_queue(1, None));
        backlog.verify.backlog = 8;
        assert_eq!(Passes::of(&backlog, region(10, 10)).end, 20 * BLOCK);
        let mixed = Job { rw: Rw::Mixed, ..with_queue(1, Some(30)) };
        assert_eq!(Passes::of(&mixed, region(10, 30)).end, 30 * BLOCK);
        let random =
            Job { rw: Rw::Write, random: true, norandommap: true, ..with_queue(1, Some(30)) };
        assert_eq!(Passes::of(&random, region(10, 30)).end, 30 * BLOCK);
        let mut random = Job { norandommap: false, ..random };
        assert_eq!(Passes::of(&random, region(10, 30)).end, 10 * BLOCK);
        random.address.distribution[DataDir::Write as usize] =
            Distribution::Pareto { skew: 0.3, center: None };
        assert_eq!(Passes::of(&random, region(10, 30)).end, 30 * BLOCK, "it has no map");
    }

    #[test]
    fn a_job_that_runs_for_a_time_has_passes_if_it_verifies_after_each() {
        let timed = Job { time_based: true, iodepth: 2, ..with_queue(1, None) };
        assert_eq!(Passes::of(&timed, region(10, 10)).until(), u64::MAX);
        let mut passes = Passes::of(&verifying(timed), region(10, 10));
        assert_eq!(passes.until(), 10 * BLOCK);
        assert!((1..9).all(|pass| passes.next(pass * 10 * BLOCK, (pass, pass))));
        passes.untimed();
        assert!(!passes.next(90 * BLOCK, (90, 90 * BLOCK)));
    }
}
