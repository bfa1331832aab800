//! Measurements of the last `steadystate_duration`, and whether they are steady.
use crate::job::{SteadyCriterion, SteadyOptions};
use std::collections::VecDeque;

/// The measurements of the last `steadystate_duration`, and what they say.
#[derive(Clone, Debug)]
pub struct SteadyState {
    /// The criterion.
    pub criterion: SteadyCriterion,
    /// Measurements in the duration.
    pub window: usize,
    /// IOPS and bandwidth in bytes per second, the oldest first.
    pub measured: VecDeque<(u64, u64)>,
    /// The largest deviation from the mean; 0 if the slope is judged.
    pub max_deviation: f64,
    /// The slope of the regression line per measurement; 0 if the deviation is judged.
    pub slope: f64,
    /// The value that is compared with the limit.
    pub value: f64,
    /// Whether the steady state has been reached.
    pub is_attained: bool,
}

impl SteadyState {
    pub(crate) fn new(criterion: SteadyCriterion, options: &SteadyOptions) -> Self {
        let window = options.duration.0 / options.interval.0.max(1);
        SteadyState {
            criterion,
            window: usize::try_from(window).unwrap_or(usize::MAX).max(1),
            measured: VecDeque::new(),
            max_deviation: 0.0,
            slope: 0.0,
            value: 0.0,
            is_attained: false,
        }
    }

    /// Means of IOPS and of bandwidth.
    pub fn means(&self) -> (u64, u64) {
        let sum = |(ios, bytes): (u64, u64), &(io, byte): &(u64, u64)| {
            (ios.saturating_add(io), bytes.saturating_add(byte))
        };
        let (ios, bytes) = self.measured.iter().fold((0, 0), sum);
        let count = self.measured.len().max(1) as u64;
        (ios / count, bytes / count)
    }

    pub(crate) fn add(&mut self, measurement: (u64, u64)) {
        if self.is_attained {
            return;
        }
        if self.measured.len() == self.window {
            self.measured.pop_front();
        }
        self.measured.push_back(measurement);
        if self.measured.len() < self.window {
            return;
        }
        let value = |&(iops, bandwidth): &(u64, u64)| {
            if self.criterion.iops { iops as f64 } else { bandwidth as f64 }
        };
        let values: Vec<f64> = self.measured.iter().map(value).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let found = if self.criterion.slope {
            self.slope = slope(&values);
            self.slope
        } else {
            let deviation = |value: &f64| (value - mean).abs();
            self.max_deviation = values.iter().map(deviation).fold(0.0, f64::max);
            self.max_deviation
        };
        self.value = match self.criterion.percent {
            // Nothing was done: no percentage of it is small.
            true if mean == 0.0 => f64::INFINITY,
            true => found * 100.0 / mean,
            false => found,
        };
        self.is_attained = self.value.abs() < self.criterion.limit;
    }
}

/// The slope of the least squares regression line of values at 0, 1, 2, ...
fn slope(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let off = at as f64 - middle;
        covariance += off * value;
        variance += off * off;
    }
    if variance == 0.0 { 0.0 } else { covariance / variance }
}
