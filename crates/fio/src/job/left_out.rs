//! The measurements that reports and logs leave out.

/// Measurements that a report leaves out (`disable_lat=` and the like, `gtod_reduce=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Submission latencies.
    pub slat: bool,
    /// Completion latencies.
    pub clat: bool,
    /// Total latencies.
    pub lat: bool,
    /// Samples of bandwidth and IOPS.
    pub samples: bool,
}

impl LeftOut {
    /// All of them, or none.
    pub const fn all(on: bool) -> Self {
        LeftOut { slat: on, clat: on, lat: on, samples: on }
    }

    /// The measurements that either leaves out.
    pub(crate) const fn or(self, other: Self) -> Self {
        LeftOut {
            slat: self.slat || other.slat,
            clat: self.clat || other.clat,
            lat: self.lat || other.lat,
            samples: self.samples || other.samples,
        }
    }
}
