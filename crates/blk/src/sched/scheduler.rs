//! The schedulers that there are, by name and with their attributes.
use super::bfq::BfqOptions;
use super::dispatcher::{ClassCounters, Dispatcher};
use super::elevator::MergeLimit;
use super::handle::{self, BatchSorting, SchedHandle};
use super::kyber::KyberOptions;
use super::mq_deadline::MqDeadlineOptions;
use super::options::{self, AttrError, AttrValue};
use super::registered::{Registered, Setup, Started};
use super::zone_locks::ZoneLocks;
use crate::limits::Limits;
use crate::names::did_you_mean;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Names as a choice: `a, b or c`.
#[doc(hidden)]
#[macro_export]
macro_rules! one_of {
    ($only:literal) => { $only };
    ($first:literal, $last:literal) => { concat!($first, " or ", $last) };
    ($first:literal, $($rest:literal),+) => { concat!($first, ", ", $crate::one_of!($($rest),+)) };
}

/// Declares the schedulers besides none: each with its variant, its name as in
/// `/sys/block/*/queue/scheduler`, and its options.
macro_rules! schedulers {
    ($($(#[$doc:meta])* $scheduler:ident $name:literal $options:ident;)*) => {
        /// Which scheduler a queue has, with its attributes.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Scheduler {
            /// First come, first served, each hardware queue on its own.
            #[default]
            None,
            $($(#[$doc])* $scheduler($options),)*
        }

        /// The names of all schedulers as text: `a, b or c`.
        #[macro_export]
        macro_rules! scheduler_names {
            () => { $crate::one_of!("none" $(, $name)*) };
        }

        /// The names of all schedulers, separated by commas.
        #[macro_export]
        macro_rules! scheduler_list {
            () => { concat!("none" $(, ",", $name)*) };
        }

        impl Scheduler {
            /// The names of all schedulers.
            pub const NAMES: &'static [&'static str] = &["none" $(, $name)*];

            /// The scheduler's name, as in `/sys/block/*/queue/scheduler`.
            pub const fn name(&self) -> &'static str {
                match self {
                    Scheduler::None => "none",
                    $(Scheduler::$scheduler(_) => $name,)*
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
                    $(Scheduler::$scheduler(own) => {
                        options::set(name, $options::ATTRIBUTES, own, attribute, value)
                    })*
                }
            }

            /// All attributes with their values.
            pub fn attributes(&self) -> Vec<AttrValue> {
                match self {
                    Scheduler::None => Vec::new(),
                    $(Scheduler::$scheduler(own) => options::list($options::ATTRIBUTES, own),)*
                }
            }

            /// Whether it can hold back the writes of a zone that has one in flight.
            pub const fn locks_zones(&self) -> bool {
                match self {
                    Scheduler::None => false,
                    $(Scheduler::$scheduler(_) => $options::LOCKS_ZONES,)*
                }
            }

            fn start(self, setup: Setup<'_>) -> Option<Started> {
                match self {
                    Scheduler::None => None,
                    $(Scheduler::$scheduler(own) => Some(own.start(setup)),)*
                }
            }
        }

        impl FromStr for Scheduler {
            type Err = UnknownScheduler;

            /// The scheduler of this name with its default attributes.
            fn from_str(name: &str) -> Result<Self, UnknownScheduler> {
                match name {
                    "none" => Ok(Scheduler::None),
                    $($name => Ok(Scheduler::$scheduler($options::default())),)*
                    _ => Err(UnknownScheduler { name: name.to_owned() }),
                }
            }
        }
    };
}

schedulers! {
    /// The order of sectors, in batches, with an expiry for each request.
    MqDeadline "mq-deadline" MqDeadlineOptions;
    /// Shares of the sectors by process.
    Bfq "bfq" BfqOptions;
    /// Latency targets for reads and writes.
    Kyber "kyber" KyberOptions;
}

/// No scheduler has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no scheduler is called `{name}`, expected {}{}",
    scheduler_names!(),
    did_you_mean(name, Scheduler::NAMES.iter().copied())
)]
pub struct UnknownScheduler {
    name: String,
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The scheduler of a queue at work.
#[derive(Clone)]
pub(crate) struct SchedInstance {
    dispatcher: Arc<Dispatcher>,
    sorting: BatchSorting,
}

impl SchedInstance {
    /// Sets up a queue's scheduler; `None` for [`Scheduler::None`]. With `zones`, which only one that
    /// [locks zones](Scheduler::locks_zones) has a use for, it keeps to one write per sequential zone.
    pub(crate) fn new(
        scheduler: Scheduler,
        limits: &Limits,
        limit: MergeLimit,
        zones: Option<ZoneLocks>,
    ) -> Option<Self> {
        let started = scheduler.start(Setup { limits, limit, zones })?;
        let Started { elevator, sorts, front_merges, bypass } = started;
        let longest = if sorts { handle::longest_sorted(limits.capacity.0) } else { 0 };
        let dispatcher = Arc::new(Dispatcher::new(elevator, bypass));
        Some(SchedInstance { dispatcher, sorting: BatchSorting { limit, front_merges, longest } })
    }

    /// Connects a channel, of which nothing is inside.
    pub(crate) fn handle(&self, channel: u32) -> SchedHandle {
        SchedHandle::new(Arc::clone(&self.dispatcher), self.sorting, channel)
    }

    pub(crate) fn counters(&self) -> [ClassCounters; 3] {
        self.dispatcher.counters()
    }
}
