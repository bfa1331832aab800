//! The pauses of a job between its I/Os (`thinktime`, `thinkcycles`, ...).
//!
//! As in fio, nothing is submitted once a pause is due, and it begins when nothing is in flight. The job looks for
//! completions only when its queue is full, for as many as it has to wait for, and when it pauses; it decides on
//! a pause after each I/O. What completes while it waits to pause counts after the pause: with a queue, a pause
//! may follow a single I/O. Reads for verification count as well, and trims as in fio's engine `io_uring` where the
//! kernel discards asynchronously.
use crate::job::{Job, ThinkOptions};
use zonal_blk::Nanos;

#[derive(Debug)]
pub(super) struct Think {
    options: ThinkOptions,
    /// I/Os between pauses, if their number decides.
    every: Option<u32>,
    /// The time of `thinkcycles`.
    spin: Nanos,
    /// I/Os that are reaped before the job decides on a pause, where its queue is full.
    reaps: u32,
    /// Those of them that are still to be reaped.
    to_reap: u32,
    /// I/Os since a pause was last due.
    ios: u32,
    /// When the last pause ended.
    since: Nanos,
    /// A pause is to begin.
    is_due: bool,
    /// `thinkcycles` pass after the next completion: the queue was full.
    spins_next: bool,
    /// Nothing is submitted before.
    until: Nanos,
}

impl Think {
    /// The pauses of a job; `None` if it has none.
    pub fn new(job: &Job) -> Option<Box<Self>> {
        let options = job.think;
        let spin = options.spin();
        let zero = Nanos(0);
        (options.time > zero || spin > zero).then(|| {
            Box::new(Think {
                options,
                every: options.every().filter(|_| options.time > zero),
                spin,
                reaps: job.iodepth_batch_complete_min.clamp(1, job.iodepth.max(1)),
                to_reap: 0,
                ios: 0,
                since: zero,
                is_due: false,
                spins_next: false,
                until: zero,
            })
        })
    }

    /// The job starts, or its ramp has ended: as in fio, counting begins anew.
    pub fn start(&mut self, now: Nanos) {
        (self.ios, self.since) = (0, now);
    }

    /// An I/O has been submitted; `is_full` says that the queue is full with it.
    #[cold]
    pub fn submitted(&mut self, now: Nanos, is_full: bool) {
        self.ios += u32::from(self.options.on_issue);
        if is_full {
            (self.to_reap, self.spins_next) = (self.reaps, true);
        } else {
            self.decide();
            self.until = self.until.max(now + self.spin);
        }
    }

    /// An I/O has completed.
    #[cold]
    pub fn completed(&mut self, now: Nanos) {
        self.ios += u32::from(!self.options.on_issue);
        self.reaped();
        let ThinkOptions { time, io_time, .. } = self.options;
        self.is_due |= time > Nanos(0) && io_time > Nanos(0) && now >= self.since + io_time;
        if std::mem::take(&mut self.spins_next) {
            self.until = self.until.max(now + self.spin);
        }
    }

    /// Something has completed, which may be a flush: it is no I/O that counts, but makes room in the queue.
    pub fn reaped(&mut self) {
        if self.to_reap > 0 {
            self.to_reap -= 1;
            if self.to_reap == 0 {
                self.decide();
            }
        }
    }

    /// Has a pause be due if that was the last I/O before it.
    fn decide(&mut self) {
        if self.every.is_some_and(|every| self.ios >= every) {
            self.ios = 0;
            self.is_due = true;
        }
    }

    /// Nothing is in flight: begins the pause that is due, and returns its length.
    pub fn drained(&mut self, now: Nanos) -> Option<Nanos> {
        if !std::mem::take(&mut self.is_due) {
            return None;
        }
        let time = self.options.time;
        self.until = self.until.max(now + time);
        self.since = self.until;
        Some(time)
    }

    /// Until when nothing is submitted, as far as it is known: `Nanos(u64::MAX)` if a pause is due.
    pub fn until(&self) -> Nanos {
        if self.is_due { Nanos(u64::MAX) } else { self.until }
    }

    /// Whether a pause begins when nothing is in flight.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Whether pauses do not count as time of a rate.
    pub fn is_outside_rate(&self) -> bool {
        self.options.outside_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Nanos = Nanos(u64::MAX);

    fn think(options: ThinkOptions) -> Think {
        at_depth(1, options)
    }

    fn at_depth(iodepth: u32, options: ThinkOptions) -> Think {
        let think = ThinkOptions { time: Nanos(100), ..options };
        let job = Job { think, iodepth, iodepth_batch_complete_min: 1, ..Job::default() };
        *Think::new(&job).expect("it pauses")
    }

    /// An I/O that completes at once.
    fn io(think: &mut Think, at: u64) {
        think.submitted(Nanos(at), true);
        think.completed(Nanos(at));
    }

    #[test]
    fn a_pause_begins_when_nothing_is_in_flight() {
        let mut think = think(ThinkOptions { blocks: Some(2), ..ThinkOptions::default() });
        io(&mut think, 10);
        assert_eq!((think.until(), think.drained(Nanos(10))), (Nanos(10), None));
        io(&mut think, 20);
        assert_eq!(think.until(), NEVER, "two have completed");
        assert_eq!(think.drained(Nanos(30)), Some(Nanos(100)));
        assert_eq!(think.until(), Nanos(130));
    }

    /// How many of 24 I/Os are done before each pause, if each completes immediately.
    fn between_pauses(depth: u32, blocks: u32) -> Vec<u32> {
        let mut think =
            at_depth(depth, ThinkOptions { blocks: Some(blocks), ..Default::default() });
        let (mut counts, mut in_flight) = (vec![0], 0);
        for at in 0..24 {
            *counts.last_mut().expect("a count") += 1;
            in_flight += 1;
            think.submitted(Nanos(at), in_flight == depth);
            if in_flight == depth {
                think.completed(Nanos(at));
                in_flight -= 1;
            }
            if think.until() == NEVER {
                (0..std::mem::take(&mut in_flight)).for_each(|_| think.completed(Nanos(at)));
                assert!(think.drained(Nanos(at)).is_some());
                counts.push(0);
            }
        }
        counts.retain(|&count| count > 0);
        counts
    }

    #[test]
    fn what_completes_while_the_queue_drains_counts_after_the_pause() {
        // fio 3.41: `--rw=write --bs=4k --ioengine=io_uring --iodepth=D --thinktime=100000
        // --thinktime_blocks=N --number_ios=24 --write_bw_log=log`: I/Os with the same time.
        assert_eq!(between_pauses(1, 3), [3; 8]);
        assert_eq!(between_pauses(8, 1), [&[8][..], &[1; 16]].concat());
        assert_eq!(between_pauses(4, 3), [6, 1, 5, 1, 5, 1, 5]);
        assert_eq!(between_pauses(4, 4), [7, 4, 4, 4, 4, 1]);
        assert_eq!(between_pauses(8, 3), [10, 1, 9, 1, 3]);
        assert_eq!(between_pauses(8, 4), [11, 1, 10, 1, 1]);
    }

    #[test]
    fn a_flush_that_makes_room_in_the_queue_lets_the_job_decide_on_a_pause() {
        // fio 3.41: `--rw=write --iodepth=2 --fsync=20 --thinktime=1000`: also after the I/O that follows the flush.
        let mut think = at_depth(2, ThinkOptions { blocks: Some(1), ..Default::default() });
        think.completed(Nanos(1));
        think.submitted(Nanos(2), true);
        think.reaped();
        assert_eq!(think.until(), NEVER, "the I/O before the flush has completed");
    }

    #[test]
    fn submitted_ios_count_instead_of_completed_ones() {
        let options = ThinkOptions { blocks: Some(2), on_issue: true, ..ThinkOptions::default() };
        let mut think = at_depth(4, options);
        think.submitted(Nanos(2), false);
        think.completed(Nanos(2));
        assert_ne!(think.until(), NEVER);
        think.submitted(Nanos(2), false);
        assert_eq!(think.until(), NEVER);
    }

    #[test]
    fn the_time_of_io_decides_alone_unless_ios_are_counted_too() {
        let io_time = Nanos(50);
        let mut alone = think(ThinkOptions { io_time, ..ThinkOptions::default() });
        alone.start(Nanos(1000));
        io(&mut alone, 1049);
        assert_ne!(alone.until(), NEVER);
        io(&mut alone, 1050);
        assert_eq!(alone.drained(Nanos(1050)), Some(Nanos(100)));
        io(&mut alone, 1199);
        assert_eq!(alone.until(), Nanos(1199), "the time is that since the pause");
        io(&mut alone, 1200);
        assert_eq!(alone.until(), NEVER);
        let mut both = think(ThinkOptions { io_time, blocks: Some(1), ..ThinkOptions::default() });
        io(&mut both, 1);
        assert_eq!(both.until(), NEVER);
    }

    #[test]
    fn cycles_pass_after_each_io() {
        let options = ThinkOptions { cycles: 300, cycles_per_usec: 3000, ..Default::default() };
        let job = |think| Job { think, ..Job::default() };
        let mut think = *Think::new(&job(options)).expect("it spins");
        think.submitted(Nanos(1000), false);
        assert_eq!(think.until(), Nanos(1100), "the queue has room: the next one is 100 ns later");
        think.submitted(Nanos(1100), true);
        assert_eq!(think.until(), Nanos(1100));
        think.completed(Nanos(5000));
        assert_eq!((think.until(), think.drained(Nanos(5000))), (Nanos(5100), None));
        assert!(Think::new(&Job::default()).is_none());
    }
}
