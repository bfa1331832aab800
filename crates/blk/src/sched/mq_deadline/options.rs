//! The attributes of mq-deadline.
use crate::sched::options::{COUNT_MAX, LONGEST, options};
use crate::units::Nanos;

options! {
    /// mq-deadline's attributes (Linux 6.12 Documentation/block/deadline-iosched.rst).
    pub struct MqDeadlineOptions {
        /// How long a read may wait before it is dispatched out of sector order.
        read_expire: Nanos = Nanos(500_000_000), [read_expire: Millis 0 to LONGEST];
        /// The same for a write.
        write_expire: Nanos = Nanos(5_000_000_000), [write_expire: Millis 0 to LONGEST];
        /// How often reads are preferred while writes wait.
        writes_starved: u32 = 2, [writes_starved: Count 0 to COUNT_MAX];
        /// Requests in a batch: dispatched in one direction, in sector order.
        fifo_batch: u32 = 16, [fifo_batch: Count 1 to COUNT_MAX];
        /// Whether the request to dispatch is also merged after the one that ends where it begins.
        front_merges: bool = true, [front_merges: Switch 0 to 1];
        /// Commands other than reads that may be in flight; 0 for no limit.
        async_depth: u32 = 0, [async_depth: Count 0 to COUNT_MAX];
        /// How long a request waits for those of a higher priority class.
        prio_aging_expire: Nanos = Nanos(10_000_000_000), [prio_aging_expire: Millis 0 to LONGEST];
    }
}
