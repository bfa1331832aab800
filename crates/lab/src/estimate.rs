//! An estimate from several measurements of one thing, each with its own seed.
use std::fmt;

/// The quantile 0.975 of Student's t distribution for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A mean with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean of the samples.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean: Student's t times the standard
    /// error. `None` for a single sample, which says nothing about it.
    pub margin: Option<f64>,
}

impl Estimate {
    /// The estimate from samples; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let count = samples.len();
        if count == 0 {
            return None;
        }
        let mean = samples.iter().sum::<f64>() / count as f64;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let margin =
            (count > 1).then(|| t(count - 1) * (squares / ((count - 1) * count) as f64).sqrt());
        // The rounding of the mean of equal samples is no difference.
        let margin = margin.map(|margin| if margin <= mean.abs() * 1e-9 { 0.0 } else { margin });
        Some(Estimate { mean, margin })
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

/// The quantile 0.975 of Student's t distribution. Above the table, its expansion in the inverse of
/// the degrees of freedom (Abramowitz and Stegun, 26.7.5), to the first term.
fn t(degrees: usize) -> f64 {
    const Z: f64 = 1.960;
    let tabled = degrees.checked_sub(1).and_then(|at| T.get(at));
    tabled.copied().unwrap_or(Z + (Z.powi(3) + Z) / (4.0 * degrees as f64))
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
        let near = Estimate::of(&[5.0, 5.002]).unwrap();
        assert_eq!(near.to_string(), "5.0");
        assert_eq!(format!("{near:.3}"), "5.001 ±0.013");
    }

    #[test]
    fn one_sample_has_no_interval() {
        assert_eq!(Estimate::of(&[]), None);
        let estimate = Estimate::of(&[5.0]).unwrap();
        assert_eq!((estimate.margin, estimate.interval()), (None, (5.0, 5.0)));
        assert_eq!(estimate.to_string(), "5.0");
    }

    #[test]
    fn expansion_continues_the_table() {
        assert!((t(30) - t(31)).abs() < 0.01 && t(31) > t(100));
        assert!((t(120) - 1.980).abs() < 0.001, "the tabled value for 120 degrees");
    }
}
