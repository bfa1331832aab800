//! The two halves of the measured time, which are alike once a load is steady.
use zonal_blk::Nanos;

/// What was done in a half of the measured time; of merged jobs, by all of them. I/Os belong to the half in
/// which they completed, so that neither half lacks those that take longest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Half {
    /// Successful I/Os.
    pub ios: u64,
    /// The sum of their latencies, in nanoseconds.
    pub latency: u128,
    /// How long the half was; of merged jobs the longest.
    pub time: Nanos,
}

impl Half {
    /// What was done after `first`, in `self`, which includes it.
    fn after(self, first: Half) -> Half {
        Half {
            ios: self.ios - first.ios,
            latency: self.latency - first.latency,
            time: self.time - first.time,
        }
    }

    fn merge(&mut self, other: Half) {
        self.ios += other.ios;
        self.latency += other.latency;
        self.time = self.time.max(other.time);
    }

    /// Whether rate and mean latency differ from those of `other` by at most this share of the larger.
    fn is_near(self, other: Half, share: f64) -> bool {
        let rate = |half: Half| half.ios as f64 / half.time.0.max(1) as f64;
        let mean = |half: Half| half.latency as f64 / half.ios.max(1) as f64;
        let near = |a: f64, b: f64| (a - b).abs() <= share * a.max(b);
        near(rate(self), rate(other)) && near(mean(self), mean(other))
    }
}

/// The halves of a measurement as it goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Halves {
    /// Half of the time that is measured.
    length: Nanos,
    begin: Nanos,
    first: Option<Half>,
    second: Half,
}

impl Halves {
    /// Of a measurement that takes `time`.
    pub(super) fn of(time: Nanos) -> Self {
        Halves { length: Nanos(time.0 / 2), ..Halves::default() }
    }

    /// The measurement begins, perhaps anew.
    pub(super) fn start(&mut self, now: Nanos) {
        *self = Halves { length: self.length, begin: now, ..Halves::default() };
    }

    /// When the first half ends, unless it has.
    pub(super) fn halfway(&self) -> Option<Nanos> {
        self.first.is_none().then_some(self.begin + self.length)
    }

    /// The first half ends now, with this.
    pub(super) fn end_first(&mut self, now: Nanos, so_far: Half) {
        self.first = Some(Half { time: now - self.begin, ..so_far });
    }

    /// The measurement ends now, with this in all. One that ends early has no second half.
    pub(super) fn finish(&mut self, now: Nanos, all: Half) {
        let all = Half { time: now - self.begin, ..all };
        self.second = all.after(*self.first.get_or_insert(all));
    }

    pub(super) fn merge(&mut self, other: &Halves) {
        if let Some(theirs) = other.first {
            self.first.get_or_insert_default().merge(theirs);
        }
        self.second.merge(other.second);
    }

    /// Whether both halves are alike, within this share.
    pub(super) fn are_alike(&self, share: f64) -> bool {
        self.first.is_some_and(|first| first.is_near(self.second, share))
    }
}
