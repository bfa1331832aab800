//! Which scheduler a queue has, by name and with its attributes.
use super::bfq::Bfq;
use super::dispatcher::{BypassPolicy, ClassCounters, Dispatcher};
use super::elevator::{Elevator, MergeLimit};
use super::handle::{self, BatchSorting, SchedHandle};
use super::kyber::Kyber;
use super::mq_deadline::{MqDeadline, ZoneLocks};
use super::options::{self, AttrError, AttrValue, BfqOptions, KyberOptions, MqDeadlineOptions};
use crate::limits::Limits;
use crate::names::meant;
use crate::units::Nanos;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Which scheduler a queue has, with its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// First come, first served, each hardware queue on its own.
    #[default]
    None,
    /// The order of sectors, in batches, with an expiry for each request.
    MqDeadline(MqDeadlineOptions),
    /// Shares of the sectors by process.
    Bfq(BfqOptions),
    /// Latency targets for reads and writes.
    Kyber(KyberOptions),
}

/// No scheduler has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no scheduler is called `{name}`, expected none, mq-deadline, bfq or kyber{}",
    meant(name, Scheduler::NAMES)
)]
pub struct UnknownScheduler {
    name: String,
}

impl FromStr for Scheduler {
    type Err = UnknownScheduler;

    /// The scheduler of this name with its default attributes.
    fn from_str(name: &str) -> Result<Self, UnknownScheduler> {
        match name {
            "none" => Ok(Scheduler::None),
            "mq-deadline" => Ok(Scheduler::MqDeadline(MqDeadlineOptions::default())),
            "bfq" => Ok(Scheduler::Bfq(BfqOptions::default())),
            "kyber" => Ok(Scheduler::Kyber(KyberOptions::default())),
            _ => Err(UnknownScheduler { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Scheduler {
    /// The names of all schedulers.
    pub const NAMES: [&'static str; 4] = ["none", "mq-deadline", "bfq", "kyber"];

    /// The scheduler's name, as in `/sys/block/*/queue/scheduler`.
    pub const fn name(&self) -> &'static str {
        match self {
            Scheduler::None => "none",
            Scheduler::MqDeadline(_) => "mq-deadline",
            Scheduler::Bfq(_) => "bfq",
            Scheduler::Kyber(_) => "kyber",
        }
    }

    /// Sets an attribute from text; a time without a unit is in the unit that the kernel's
    /// attribute has.
    ///
    /// # Errors
    /// [`AttrError`] names the attributes that there are, or what the attribute takes.
    pub fn set(&mut self, attribute: &str, value: &str) -> Result<(), AttrError> {
        let name = self.name();
        match self {
            Scheduler::None => options::set::<()>(name, &[], &mut (), attribute, value),
            Scheduler::MqDeadline(o) => {
                options::set(name, MqDeadlineOptions::ATTRIBUTES, o, attribute, value)
            }
            Scheduler::Bfq(o) => options::set(name, BfqOptions::ATTRIBUTES, o, attribute, value),
            Scheduler::Kyber(o) => {
                options::set(name, KyberOptions::ATTRIBUTES, o, attribute, value)
            }
        }
    }

    /// All attributes with their values.
    pub fn attributes(&self) -> Vec<AttrValue> {
        match self {
            Scheduler::None => Vec::new(),
            Scheduler::MqDeadline(o) => options::list(MqDeadlineOptions::ATTRIBUTES, o),
            Scheduler::Bfq(o) => options::list(BfqOptions::ATTRIBUTES, o),
            Scheduler::Kyber(o) => options::list(KyberOptions::ATTRIBUTES, o),
        }
    }

    /// Whether it can hold back the writes of a zone that has one in flight.
    pub const fn locks_zones(&self) -> bool {
        matches!(self, Scheduler::MqDeadline(_))
    }
}

/// The scheduler of a queue at work.
#[derive(Clone)]
pub(crate) struct SchedInstance {
    dispatcher: Arc<Dispatcher>,
    sorting: BatchSorting,
}

impl SchedInstance {
    /// Sets up a queue's scheduler; `None` for [`Scheduler::None`]. With `zones`, which only
    /// mq-deadline has a use for, it keeps to one write per sequential zone.
    pub(crate) fn new(
        scheduler: Scheduler,
        limits: &Limits,
        limit: MergeLimit,
        zones: Option<ZoneLocks>,
    ) -> Option<Self> {
        let mut sorting = BatchSorting { limit, front_merges: true, longest: 0 };
        let mut bypass = BypassPolicy::default();
        let elevator: Box<dyn Elevator> = match scheduler {
            Scheduler::None => return None,
            Scheduler::MqDeadline(options) => {
                sorting.front_merges = options.front_merges;
                // With nothing to wait for, even the newest request of a batch has expired, and
                // the order is that of arrival.
                if options.read_expire > Nanos(0) && options.write_expire > Nanos(0) {
                    sorting.longest = handle::longest_sorted(limits.capacity.0);
                }
                bypass =
                    BypassPolicy { bypass_allowed: true, limits_writes: options.async_depth > 0 };
                Box::new(MqDeadline::new(options, limit, zones))
            }
            Scheduler::Bfq(options) => {
                sorting.longest = handle::longest_sorted(limits.capacity.0);
                Box::new(Bfq::new(options, limit, limits.rotational))
            }
            Scheduler::Kyber(options) => {
                sorting.longest = handle::longest_sorted(limits.capacity.0);
                Box::new(Kyber::new(options, limit))
            }
        };
        let dispatcher = Arc::new(Dispatcher::new(elevator, bypass));
        Some(SchedInstance { dispatcher, sorting })
    }

    /// Connects a channel, of which nothing is inside.
    pub(crate) fn handle(&self, channel: u32) -> SchedHandle {
        SchedHandle::new(Arc::clone(&self.dispatcher), self.sorting, channel)
    }

    pub(crate) fn counters(&self) -> [ClassCounters; 3] {
        self.dispatcher.counters()
    }
}
