//! How latencies lie against their target.
use crate::units::Nanos;

/// Parts of the target that latencies are sorted into, and parts in all: what is in the upper half
/// missed the target.
pub(super) const GOOD: u32 = 4;
const BUCKETS: usize = 8;

/// Fewer samples than this say something only after [`MAX_WAIT`].
const ENOUGH_SAMPLES: u64 = 500;
const MAX_WAIT: Nanos = Nanos(1_000_000_000);

/// Latencies since they were last looked at.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    buckets: [u64; BUCKETS],
    /// When few samples will do.
    settle_by: Option<Nanos>,
}

impl Latencies {
    pub(super) fn add(&mut self, latency: Nanos, target: Nanos) {
        let part = (target.0 / u64::from(GOOD)).max(1);
        let bucket = latency.0.saturating_sub(1) / part;
        let bucket = usize::try_from(bucket).map_or(BUCKETS - 1, |b| b.min(BUCKETS - 1));
        self.buckets[bucket] += 1;
    }

    /// The bucket that `percent` of the latencies do not exceed, if there are enough to say; they
    /// are forgotten then.
    pub(super) fn percentile(&mut self, now: Nanos, percent: u64) -> Option<u32> {
        let samples: u64 = self.buckets.iter().sum();
        if samples == 0 {
            return None;
        }
        let settle_by = *self.settle_by.get_or_insert(now + MAX_WAIT);
        if samples < ENOUGH_SAMPLES && now < settle_by {
            return None;
        }
        let mut needed = (samples * percent).div_ceil(100);
        let bucket = (0..).zip(self.buckets).find(|(_, n)| {
            needed = needed.saturating_sub(*n);
            needed == 0
        });
        *self = Latencies::default();
        bucket.map(|(bucket, _)| bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_bucket_that_so_many_do_not_exceed() {
        let mut latencies = Latencies::default();
        let target = Nanos(4000);
        for i in 0..1000 {
            let latency = if i < 900 { 1000 } else { 4001 };
            latencies.add(Nanos(latency), target);
        }
        assert_eq!(latencies.percentile(Nanos(0), 90), Some(0));
        assert_eq!(latencies.percentile(Nanos(0), 90), None);
        for _ in 0..500 {
            latencies.add(Nanos(4001), target);
        }
        assert_eq!(latencies.percentile(Nanos(0), 99), Some(GOOD));
    }

    #[test]
    fn few_samples_say_something_after_a_second() {
        let mut latencies = Latencies::default();
        latencies.add(Nanos(99_000), Nanos(4000));
        assert_eq!(latencies.percentile(Nanos(5), 90), None);
        assert_eq!(latencies.percentile(Nanos(1_000_000_004), 90), None);
        assert_eq!(latencies.percentile(Nanos(1_000_000_005), 90), Some(7));
    }
}
