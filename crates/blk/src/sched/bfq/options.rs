//! The attributes of bfq.
use crate::sched::attr::{Attribute, COUNT_MAX, LONGEST, Unit, count};
use crate::units::Nanos;

/// bfq's attributes (Linux 6.12 Documentation/block/bfq-iosched.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfqOptions {
    /// How long the device is kept for a process that has nothing waiting; 0 for not at all.
    pub slice_idle: Nanos,
    /// How long a process may be served at a stretch.
    pub timeout_sync: Nanos,
    /// How much, in sectors; 0 for what the device does in `timeout_sync`.
    pub max_budget: u32,
    /// How long a request that somebody waits for may wait within its process's queue.
    pub fifo_expire_sync: Nanos,
    /// The same for one that nobody waits for.
    pub fifo_expire_async: Nanos,
    /// How far back a process's next request may lie, in KiB.
    pub back_seek_max: u32,
    /// How much farther a way back counts than one ahead.
    pub back_seek_penalty: u32,
    /// Whether processes that begin to do I/O get a greater weight for some seconds.
    pub low_latency: bool,
    /// Whether nothing is left to the device: one command at a time, and always kept for a process
    /// that has nothing waiting.
    pub strict_guarantees: bool,
}

impl Default for BfqOptions {
    fn default() -> Self {
        BfqOptions {
            slice_idle: Nanos(8_000_000),
            timeout_sync: Nanos(125_000_000),
            max_budget: 0,
            fifo_expire_sync: Nanos(125_000_000),
            fifo_expire_async: Nanos(250_000_000),
            back_seek_max: 16 << 10,
            back_seek_penalty: 2,
            low_latency: true,
            strict_guarantees: false,
        }
    }
}

impl BfqOptions {
    /// The attributes by name.
    pub const ATTRIBUTES: &'static [Attribute<Self>] = &[
        Attribute {
            name: "slice_idle",
            unit: Unit::Millis,
            range: (0, LONGEST),
            doc: "how long the device is kept for a process with nothing waiting",
            get: |o| o.slice_idle.0,
            set: |o, v| o.slice_idle = Nanos(v),
        },
        Attribute {
            name: "slice_idle_us",
            unit: Unit::Micros,
            range: (0, LONGEST),
            doc: "slice_idle in microseconds",
            get: |o| o.slice_idle.0,
            set: |o, v| o.slice_idle = Nanos(v),
        },
        Attribute {
            name: "timeout_sync",
            unit: Unit::Millis,
            range: (1, LONGEST),
            doc: "how long a process may be served at a stretch",
            get: |o| o.timeout_sync.0,
            set: |o, v| o.timeout_sync = Nanos(v),
        },
        Attribute {
            name: "max_budget",
            unit: Unit::Sectors,
            range: (0, COUNT_MAX),
            doc: "how much a process is served at a stretch, 0 for automatic",
            get: |o| u64::from(o.max_budget),
            set: |o, v| o.max_budget = count(v),
        },
        Attribute {
            name: "fifo_expire_sync",
            unit: Unit::Millis,
            range: (0, LONGEST),
            doc: "how long a synchronous request may wait in its queue",
            get: |o| o.fifo_expire_sync.0,
            set: |o, v| o.fifo_expire_sync = Nanos(v),
        },
        Attribute {
            name: "fifo_expire_async",
            unit: Unit::Millis,
            range: (0, LONGEST),
            doc: "how long an asynchronous request may wait in its queue",
            get: |o| o.fifo_expire_async.0,
            set: |o, v| o.fifo_expire_async = Nanos(v),
        },
        Attribute {
            name: "back_seek_max",
            unit: Unit::Kibibytes,
            range: (0, COUNT_MAX),
            doc: "how far back a process's next request may lie",
            get: |o| u64::from(o.back_seek_max),
            set: |o, v| o.back_seek_max = count(v),
        },
        Attribute {
            name: "back_seek_penalty",
            unit: Unit::Count,
            range: (1, COUNT_MAX),
            doc: "how much farther a way back counts than one ahead",
            get: |o| u64::from(o.back_seek_penalty),
            set: |o, v| o.back_seek_penalty = count(v),
        },
        Attribute {
            name: "low_latency",
            unit: Unit::Switch,
            range: (0, 1),
            doc: "a greater weight for processes that begin to do I/O",
            get: |o| u64::from(o.low_latency),
            set: |o, v| o.low_latency = v == 1,
        },
        Attribute {
            name: "strict_guarantees",
            unit: Unit::Switch,
            range: (0, 1),
            doc: "one command at a time, and always kept for its process",
            get: |o| u64::from(o.strict_guarantees),
            set: |o, v| o.strict_guarantees = v == 1,
        },
    ];
}
