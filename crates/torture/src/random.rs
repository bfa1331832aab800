//! Random draws.
use zonal_device::rng::Rng;

/// Random numbers in the distributions that configurations and operations need.
pub(super) struct Random(Rng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(Rng::new(seed))
    }

    /// Uniform in `0..bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Uniform in `low..=high`.
    pub(super) fn range(&mut self, low: u32, high: u32) -> u32 {
        let span = u64::from(high - low) + 1;
        low + u32::try_from(self.below(span)).expect("less than a span of 32 bits")
    }

    /// Log-uniform in `low..=high`, by powers of two.
    pub(super) fn skewed(&mut self, low: u32, high: u32) -> u32 {
        let bits = high.max(1).ilog2() - low.max(1).ilog2();
        let top = high.min(low.max(1) << self.range(0, bits + 1).min(31));
        self.range(low, top.max(low))
    }

    /// True with a probability of `percent`.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("less than a length")
    }

    /// One of the kinds, by weight.
    pub(super) fn weighted<T: Copy>(&mut self, weights: &[(u32, T)]) -> T {
        let total: u64 = weights.iter().map(|&(weight, _)| u64::from(weight)).sum();
        let mut at = self.below(total);
        for &(weight, kind) in weights {
            if at < u64::from(weight) {
                return kind;
            }
            at -= u64::from(weight);
        }
        unreachable!("the weights add up to more than {at}")
    }
}
