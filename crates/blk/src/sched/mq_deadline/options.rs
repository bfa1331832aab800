//! The attributes of mq-deadline.
use crate::sched::attr::{Attribute, COUNT_MAX, LONGEST, Unit, count};
use crate::units::Nanos;

/// mq-deadline's attributes (Linux 6.12 Documentation/block/deadline-iosched.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MqDeadlineOptions {
    /// How long a read may wait before it is served out of the order of sectors.
    pub read_expire: Nanos,
    /// The same for a write.
    pub write_expire: Nanos,
    /// How often reads are preferred while writes wait.
    pub writes_starved: u32,
    /// Requests that are sent in one direction in the order of sectors before the choice is made
    /// again.
    pub fifo_batch: u32,
    /// Whether a request that is chosen is also merged behind the one that ends where it begins.
    pub front_merges: bool,
    /// Commands other than reads that may be with the device; 0 for no limit.
    pub async_depth: u32,
    /// How long a request waits for those of a higher priority class.
    pub prio_aging_expire: Nanos,
}

impl Default for MqDeadlineOptions {
    fn default() -> Self {
        MqDeadlineOptions {
            read_expire: Nanos(500_000_000),
            write_expire: Nanos(5_000_000_000),
            writes_starved: 2,
            fifo_batch: 16,
            front_merges: true,
            async_depth: 0,
            prio_aging_expire: Nanos(10_000_000_000),
        }
    }
}

impl MqDeadlineOptions {
    /// The attributes by name.
    pub const ATTRIBUTES: &'static [Attribute<Self>] = &[
        Attribute {
            name: "read_expire",
            unit: Unit::Millis,
            range: (0, LONGEST),
            doc: "how long a read may wait before it is served out of order",
            get: |o| o.read_expire.0,
            set: |o, v| o.read_expire = Nanos(v),
        },
        Attribute {
            name: "write_expire",
            unit: Unit::Millis,
            range: (0, LONGEST),
            doc: "how long a write may wait before it is served out of order",
            get: |o| o.write_expire.0,
            set: |o, v| o.write_expire = Nanos(v),
        },
        Attribute {
            name: "writes_starved",
            unit: Unit::Count,
            range: (0, COUNT_MAX),
            doc: "how often reads are preferred while writes wait",
            get: |o| u64::from(o.writes_starved),
            set: |o, v| o.writes_starved = count(v),
        },
        Attribute {
            name: "fifo_batch",
            unit: Unit::Count,
            range: (1, COUNT_MAX),
            doc: "requests sent in one direction before the choice is made again",
            get: |o| u64::from(o.fifo_batch),
            set: |o, v| o.fifo_batch = count(v),
        },
        Attribute {
            name: "front_merges",
            unit: Unit::Switch,
            range: (0, 1),
            doc: "merge with the request that ends where the chosen one begins",
            get: |o| u64::from(o.front_merges),
            set: |o, v| o.front_merges = v == 1,
        },
        Attribute {
            name: "async_depth",
            unit: Unit::Count,
            range: (0, COUNT_MAX),
            doc: "commands other than reads that may be with the device, 0 for no limit",
            get: |o| u64::from(o.async_depth),
            set: |o, v| o.async_depth = count(v),
        },
        Attribute {
            name: "prio_aging_expire",
            unit: Unit::Millis,
            range: (0, LONGEST),
            doc: "how long a request waits for those of a higher priority class",
            get: |o| o.prio_aging_expire.0,
            set: |o, v| o.prio_aging_expire = Nanos(v),
        },
    ];
}
