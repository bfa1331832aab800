//! Seek times.
//!
//! The time is `settle + a * sqrt(d) + b * d`, with the distance `d` as a fraction of the full
//! stroke: the arm accelerates and brakes on short seeks (square root), coasts at top speed on long
//! ones (linear), then settles on the track (Ruemmler and Wilkes, "An introduction to disk drive
//! modeling", IEEE Computer, March 1994). `a` and `b` follow from two figures of a data sheet: the
//! average over random pairs of locations, and the full stroke. IEEE square roots are exact to the
//! last bit, so the times are the same on every platform.
use zonal_blk::Nanos;

/// A seek curve, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct SeekCurve {
    settle: f64,
    root: f64,
    linear: f64,
}

impl SeekCurve {
    /// The curve with this settle time, average seek time and full-stroke seek time.
    ///
    /// For two random locations, evenly distributed over the stroke, the mean distance is 1/3 of the
    /// stroke, and the mean square root of the distance is 8/15.
    pub fn new(settle: Nanos, average: Nanos, full: Nanos) -> Self {
        let settle = settle.0 as f64;
        let average = average.0 as f64 - settle;
        let full = full.0 as f64 - settle;
        // average = 8/15 root + 1/3 linear; full = root + linear.
        let root = (average - full / 3.0) * 5.0;
        SeekCurve { settle, root, linear: full - root }
    }

    /// Whether longer seeks never take less time.
    pub fn is_monotonic(&self) -> bool {
        self.root >= 0.0 && self.root / 2.0 + self.linear >= 0.0
    }

    /// The seek time in nanoseconds over `distance`, from 0 to 1.
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn time(&self, distance: f64) -> u64 {
        (self.settle + self.root * distance.sqrt() + self.linear * distance) as u64
    }
}
