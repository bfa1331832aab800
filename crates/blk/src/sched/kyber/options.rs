//! The attributes of kyber.
use crate::sched::attr::{Attribute, LONGEST, Unit};
use crate::units::Nanos;

/// Kyber's attributes (Linux 6.12 Documentation/block/kyber-iosched.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KyberOptions {
    /// The latency that reads are to have.
    pub read_lat: Nanos,
    /// The latency that writes are to have.
    pub write_lat: Nanos,
}

impl Default for KyberOptions {
    fn default() -> Self {
        KyberOptions { read_lat: Nanos(2_000_000), write_lat: Nanos(10_000_000) }
    }
}

impl KyberOptions {
    /// The attributes by name.
    pub const ATTRIBUTES: &'static [Attribute<Self>] = &[
        Attribute {
            name: "read_lat_nsec",
            unit: Unit::Nanos,
            range: (1, LONGEST),
            doc: "the latency that reads are to have",
            get: |o| o.read_lat.0,
            set: |o, v| o.read_lat = Nanos(v),
        },
        Attribute {
            name: "write_lat_nsec",
            unit: Unit::Nanos,
            range: (1, LONGEST),
            doc: "the latency that writes are to have",
            get: |o| o.write_lat.0,
            set: |o, v| o.write_lat = Nanos(v),
        },
    ];
}
