//! The attributes of Kyber.
use crate::sched::options::{LONGEST, options};
use crate::units::Nanos;

options! {
    /// Kyber's attributes (Linux 6.12 Documentation/block/kyber-iosched.rst).
    pub struct KyberOptions {
        /// The target latency of reads.
        read_lat: Nanos = Nanos(2_000_000), [read_lat_nsec: Nanos 1 to LONGEST];
        /// The target latency of writes.
        write_lat: Nanos = Nanos(10_000_000), [write_lat_nsec: Nanos 1 to LONGEST];
    }
}
