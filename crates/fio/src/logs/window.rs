//! The values that a line of a log sums up.

/// Values since `start`.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// Milliseconds since the start of the job.
    pub start: u64,
    count: u64,
    sum: u128,
    max: u64,
}

impl Window {
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// The mean, rounded to nearest, and the largest value of a window that has a value; empties the
    /// window.
    pub fn take(&mut self) -> Option<(u64, u64)> {
        let Window { start, count, sum, max } = std::mem::take(self);
        self.start = start;
        let mean = (2 * sum + u128::from(count)).checked_div(2 * u128::from(count))?;
        Some((u64::try_from(mean).unwrap_or(u64::MAX), max))
    }
}
