//! How long the heads take from one place to another.
//!
//! `settle + a * sqrt(d) + b * d` with `d` the distance as a part of the full stroke: the arm
//! accelerates and brakes on short ways (square root) and coasts at its top speed on long ones
//! (linear), then settles on the track (Ruemmler and Wilkes, "An introduction to disk drive
//! modeling", IEEE Computer, March 1994). `a` and `b` follow from the two figures of a data sheet,
//! the average over random pairs of places and the full stroke. Square roots are exact to the last
//! bit in IEEE arithmetic, so the times are the same everywhere.
use super::config::HddConfig;

/// A seek curve, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct SeekCurve {
    settle: f64,
    root: f64,
    linear: f64,
}

impl SeekCurve {
    /// The curve through the settle time, the average and the full stroke of a configuration.
    ///
    /// Between two places that are spread evenly over the stroke lies on average 1/3 of it, and
    /// the square root of the distance is 8/15 on average.
    pub fn new(config: &HddConfig) -> Self {
        let settle = config.settle.0 as f64;
        let average = config.seek_average.0 as f64 - settle;
        let full = config.seek_full.0 as f64 - settle;
        // average = 8/15 root + 1/3 linear; full = root + linear.
        let root = (average - full / 3.0) * 5.0;
        SeekCurve { settle, root, linear: full - root }
    }

    /// Whether longer ways never take less time.
    pub fn is_monotonic(&self) -> bool {
        self.root >= 0.0 && self.root / 2.0 + self.linear >= 0.0
    }

    /// Nanoseconds over `distance`, from 0 to 1.
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn time(&self, distance: f64) -> u64 {
        (self.settle + self.root * distance.sqrt() + self.linear * distance) as u64
    }
}
