//! The pauses of a job between its I/Os (`thinktime`, `thinkcycles`, ...).
//!
//! As in fio, nothing is submitted once a pause is due, and it begins when nothing is in flight.
use crate::job::ThinkOptions;
use zonal_blk::Nanos;

#[derive(Debug)]
pub(super) struct Think {
    options: ThinkOptions,
    /// I/Os between pauses, if their number decides.
    every: Option<u32>,
    /// The time of `thinkcycles`.
    spin: Nanos,
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
    pub fn new(options: ThinkOptions) -> Option<Box<Self>> {
        let spin = options.spin();
        let zero = Nanos(0);
        (options.time > zero || spin > zero).then(|| {
            Box::new(Think {
                options,
                every: options.every().filter(|_| options.time > zero),
                spin,
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
        if self.options.on_issue {
            self.count();
        }
        if is_full {
            self.spins_next = true;
        } else {
            self.until = self.until.max(now + self.spin);
        }
    }

    /// An I/O has completed.
    #[cold]
    pub fn completed(&mut self, now: Nanos) {
        if !self.options.on_issue {
            self.count();
        }
        let ThinkOptions { time, io_time, .. } = self.options;
        self.is_due |= time > Nanos(0) && io_time > Nanos(0) && now >= self.since + io_time;
        if std::mem::take(&mut self.spins_next) {
            self.until = self.until.max(now + self.spin);
        }
    }

    fn count(&mut self) {
        self.ios += 1;
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
        *Think::new(ThinkOptions { time: Nanos(100), ..options }).expect("it pauses")
    }

    #[test]
    fn a_pause_begins_when_nothing_is_in_flight() {
        let mut think = think(ThinkOptions { blocks: Some(2), ..ThinkOptions::default() });
        think.completed(Nanos(10));
        assert_eq!((think.until(), think.drained(Nanos(10))), (Nanos(0), None));
        think.completed(Nanos(20));
        assert_eq!(think.until(), NEVER, "two have completed");
        assert_eq!(think.drained(Nanos(30)), Some(Nanos(100)));
        assert_eq!(think.until(), Nanos(130));
    }

    #[test]
    fn submitted_ios_count_instead_of_completed_ones() {
        let mut think =
            think(ThinkOptions { blocks: Some(2), on_issue: true, ..ThinkOptions::default() });
        think.completed(Nanos(1));
        think.submitted(Nanos(2), false);
        assert_ne!(think.until(), NEVER);
        think.submitted(Nanos(2), false);
        assert_eq!(think.until(), NEVER);
    }

    #[test]
    fn the_time_of_io_decides_alone_unless_ios_are_counted_too() {
        let io_time = Nanos(50);
        let mut alone = think(ThinkOptions { io_time, ..ThinkOptions::default() });
        alone.start(Nanos(1000));
        alone.completed(Nanos(1049));
        assert_ne!(alone.until(), NEVER);
        alone.completed(Nanos(1050));
        assert_eq!(alone.drained(Nanos(1050)), Some(Nanos(100)));
        alone.completed(Nanos(1199));
        assert_eq!(alone.until(), Nanos(1150), "the time is that since the pause");
        alone.completed(Nanos(1200));
        assert_eq!(alone.until(), NEVER);
        let mut both = think(ThinkOptions { io_time, blocks: Some(1), ..ThinkOptions::default() });
        both.completed(Nanos(1));
        assert_eq!(both.until(), NEVER);
    }

    #[test]
    fn cycles_pass_after_each_io() {
        let options = ThinkOptions { cycles: 300, cycles_per_usec: 3000, ..Default::default() };
        let mut think = *Think::new(options).expect("it spins");
        think.submitted(Nanos(1000), false);
        assert_eq!(think.until(), Nanos(1100), "the queue has room: the next one is 100 ns later");
        think.submitted(Nanos(1100), true);
        assert_eq!(think.until(), Nanos(1100));
        think.completed(Nanos(5000));
        assert_eq!((think.until(), think.drained(Nanos(5000))), (Nanos(5100), None));
        assert!(Think::new(ThinkOptions::default()).is_none());
    }
}
