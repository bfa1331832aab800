//! An estimate from several measurements of one thing, each with its own seed.
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::fmt;

/// A mean with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean of the samples.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean: Student's t times the standard
    /// error. `None` for one sample, which says nothing about it, and for two, whose interval
    /// is six times as wide as the distance between them.
    pub margin: Option<f64>,
}

impl Estimate {
    /// The estimate from samples; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let count = samples.len();
        if count == 0 {
            return None;
        }
        let (mean, margin) = mean_and_margin(samples.iter().copied(), 0.05);
        // The rounding of the mean of equal samples is no difference.
        let margin = if margin <= mean.abs() * 1e-9 { 0.0 } else { margin };
        Some(Estimate {
            mean,
            margin: (count > 2 || count == 2 && margin == 0.0).then_some(margin),
        })
    }

    /// The confidence interval; a single sample's is the sample.
    pub fn interval(&self) -> (f64, f64) {
        let margin = self.margin.unwrap_or(0.0);
        (self.mean - margin, self.mean + margin)
    }

    /// The same in another unit.
    pub fn times(self, factor: f64) -> Self {
        Estimate { mean: self.mean * factor, margin: self.margin.map(|margin| margin * factor) }
    }
}

impl fmt::Display for Estimate {
    /// `246.1 ±0.3`, with the precision that the caller gives, else one decimal; `246.1` if the
    /// margin is 0 at that precision: the seeds make no difference.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(1);
        write!(f, "{:.decimals$}", self.mean)?;
        let margin = self.margin.map(|margin| format!("{margin:.decimals$}"));
        match margin.filter(|margin| margin.contains(|digit| ('1'..='9').contains(&digit))) {
            Some(margin) => write!(f, " ±{margin}"),
            None => Ok(()),
        }
    }
}

/// A difference of two things that were measured with the same seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The mean of the differences seed by seed.
    pub mean: f64,
    /// Half the width of its confidence interval.
    pub margin: f64,
}

impl Comparison {
    /// Of the seeds that both have, in this order, with this probability of error. One seed has no
    /// interval: its difference is taken for that of all.
    pub fn of(one: &[f64], other: &[f64], error: f64) -> Self {
        let (mean, margin) = mean_and_margin(one.iter().zip(other).map(|(a, b)| a - b), error);
        Comparison { mean, margin: if margin <= 1e-9 { 0.0 } else { margin } }
    }

    /// The confidence interval.
    pub fn interval(&self) -> (f64, f64) {
        (self.mean - self.margin, self.mean + self.margin)
    }
}

/// The mean of samples, and half the width of its confidence interval with this probability of error by
/// Student's t; 0 for one sample.
fn mean_and_margin(samples: impl ExactSizeIterator<Item = f64> + Clone, error: f64) -> (f64, f64) {
    let count = samples.len();
    let mean = samples.clone().sum::<f64>() / count as f64;
    let squares: f64 = samples.map(|sample| (sample - mean).powi(2)).sum();
    if count < 2 || squares == 0.0 {
        return (mean, 0.0);
    }
    let distribution =
        StudentsT::new(0.0, 1.0, (count - 1) as f64).expect("a scale and degrees above 0");
    let quantile = distribution.inverse_cdf(1.0 - error / 2.0);
    (mean, quantile * (squares / ((count - 1) * count) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_three_samples_is_that_of_students_t() {
        let estimate = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        // 4.303 times 1 / sqrt(3).
        assert!((estimate.margin.unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!(estimate.to_string(), "2.0 ±2.5");
        assert_eq!(format!("{:.2}", estimate.times(10.0)), "20.00 ±24.84");
    }

    #[test]
    fn a_margin_of_nothing_is_not_shown() {
        let same = Estimate::of(&[0.1, 0.1, 0.1]).unwrap();
        assert_eq!((same.margin, same.to_string().as_str()), (Some(0.0), "0.1"));
        let near = Estimate::of(&[5.0, 5.001, 5.002]).unwrap();
        assert_eq!(near.to_string(), "5.0");
        assert_eq!(format!("{near:.3}"), "5.001 ±0.002");
    }

    #[test]
    fn one_sample_and_two_have_no_interval() {
        assert_eq!(Estimate::of(&[]), None);
        for samples in [&[5.0][..], &[4.0, 6.0]] {
            let estimate = Estimate::of(samples).unwrap();
            assert_eq!((estimate.margin, estimate.interval()), (None, (5.0, 5.0)));
            assert_eq!(estimate.to_string(), "5.0");
        }
    }

    #[test]
    fn what_a_seed_does_to_both_cancels_out() {
        let it = Comparison::of(&[1.0, 5.0, 9.0], &[0.5, 4.5, 8.5, 100.0], 0.05);
        assert_eq!(it, Comparison { mean: 0.5, margin: 0.0 });
        let it = Comparison::of(&[1.0, 2.0, 3.0], &[0.0; 3], 0.05);
        assert!((it.margin - 2.4843).abs() < 1e-3, "{it:?}");
        assert_eq!(Comparison::of(&[1.0], &[0.0], 0.05).interval(), (1.0, 1.0));
    }
}
