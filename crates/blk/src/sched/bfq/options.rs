//! The attributes of bfq.
use crate::sched::options::{COUNT_MAX, LONGEST, options};
use crate::units::Nanos;

options! {
    /// bfq's attributes (Linux 6.12 Documentation/block/bfq-iosched.rst).
    pub struct BfqOptions {
        /// How long the device idles for a process that has nothing waiting; 0 for not at all.
        slice_idle: Nanos = Nanos(8_000_000),
            [slice_idle: Millis 0 to LONGEST, slice_idle_us: Micros 0 to LONGEST];
        /// The longest time slice of a process.
        timeout_sync: Nanos = Nanos(125_000_000), [timeout_sync: Millis 1 to LONGEST];
        /// The largest budget in sectors; 0 for what the device does in `timeout_sync`.
        max_budget: u32 = 0, [max_budget: Sectors 0 to COUNT_MAX];
        /// How long a synchronous request may wait in its process's queue.
        fifo_expire_sync: Nanos = Nanos(125_000_000), [fifo_expire_sync: Millis 0 to LONGEST];
        /// The same for an asynchronous one.
        fifo_expire_async: Nanos = Nanos(250_000_000), [fifo_expire_async: Millis 0 to LONGEST];
        /// How far back a process's next request may lie, in KiB.
        back_seek_max: u32 = 16 << 10, [back_seek_max: Kibibytes 0 to COUNT_MAX];
        /// How much farther a distance backwards counts than one forwards.
        back_seek_penalty: u32 = 2, [back_seek_penalty: Count 1 to COUNT_MAX];
        /// Whether the weight of a process that begins to do I/O is raised for some seconds.
        low_latency: bool = true, [low_latency: Switch 0 to 1];
        /// Whether nothing is left to the device: one command at a time, and the device always idles
        /// for a process that has nothing waiting.
        strict_guarantees: bool = false, [strict_guarantees: Switch 0 to 1];
    }
}
