//! The options of schedulers, and the attributes by which they are set and read as text.
//!
//! Names, and the units of numbers without one, are those of the kernel's `/sys/block/*/queue/iosched`.
use crate::names::meant;
use crate::units::Nanos;

/// What an attribute counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A number.
    Count,
    /// 0 or 1.
    Switch,
    /// Milliseconds, if the value names no unit.
    Millis,
    /// Microseconds, if the value names no unit.
    Micros,
    /// Nanoseconds, if the value names no unit.
    Nanos,
    /// Kibibytes.
    Kibibytes,
    /// 512-byte sectors.
    Sectors,
}

/// One attribute of the options `T`.
pub(super) struct Attribute<T> {
    name: &'static str,
    unit: Unit,
    /// The smallest and the largest value, times in nanoseconds.
    range: (u64, u64),
    get: fn(&T) -> u64,
    set: fn(&mut T, u64),
}

/// An attribute that is not there, or a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttrError {
    /// The scheduler has no attribute of this name.
    #[error(
        "the scheduler {scheduler} has no attribute `{name}`; it has {known}{}",
        meant(name, known.split(", "))
    )]
    Unknown {
        /// The scheduler's name.
        scheduler: &'static str,
        /// What was asked for.
        name: String,
        /// The attributes that it has.
        known: String,
    },
    /// The value is not of the attribute's kind.
    #[error("{name}: `{value}` is not {expected}")]
    Value {
        /// The attribute.
        name: &'static str,
        /// What it was to be set to.
        value: String,
        /// What it takes.
        expected: String,
    },
}

/// An attribute's name and value, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttrValue {
    /// The attribute's name.
    pub name: &'static str,
    /// Its value with its unit, as [`Scheduler::set`](super::Scheduler::set) parses it.
    pub value: String,
}

/// Sets the attribute `name` of `options` from text.
pub(super) fn set<T>(
    scheduler: &'static str,
    table: &[Attribute<T>],
    options: &mut T,
    name: &str,
    value: &str,
) -> Result<(), AttrError> {
    let Some(attribute) = table.iter().find(|a| a.name == name) else {
        let known: Vec<_> = table.iter().map(|a| a.name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let name = name.to_owned();
        return Err(AttrError::Unknown { scheduler, name, known });
    };
    let (min, max) = attribute.range;
    match parse(attribute.unit, value) {
        Some(parsed) if (min..=max).contains(&parsed) => {
            (attribute.set)(options, parsed);
            Ok(())
        }
        _ => Err(AttrError::Value {
            name: attribute.name,
            value: value.to_owned(),
            expected: expected(attribute.unit, min, max),
        }),
    }
}

/// The values of all attributes.
pub(super) fn list<T>(table: &[Attribute<T>], options: &T) -> Vec<AttrValue> {
    let value =
        |a: &Attribute<T>| AttrValue { name: a.name, value: show(a.unit, (a.get)(options)) };
    table.iter().map(value).collect()
}

fn nanos_per_unit(unit: Unit) -> Option<u64> {
    match unit {
        Unit::Millis => Some(1_000_000),
        Unit::Micros => Some(1_000),
        Unit::Nanos => Some(1),
        Unit::Count | Unit::Switch | Unit::Kibibytes | Unit::Sectors => None,
    }
}

fn parse(unit: Unit, value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &value[digits.len()..];
    let number: u64 = digits.trim_end().parse().ok()?;
    let factor = match (nanos_per_unit(unit), suffix) {
        (Some(own), "") => own,
        (Some(_), "ns") => 1,
        (Some(_), "us") => 1_000,
        (Some(_), "ms") => 1_000_000,
        (Some(_), "s") => 1_000_000_000,
        (None, "") => 1,
        (None, "KiB" | "k" | "K") if unit == Unit::Kibibytes => 1,
        (None, "MiB" | "m" | "M") if unit == Unit::Kibibytes => 1024,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn show(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Count | Unit::Switch | Unit::Sectors => value.to_string(),
        Unit::Kibibytes => format!("{value}KiB"),
        Unit::Millis | Unit::Micros | Unit::Nanos => format_time(Nanos(value)),
    }
}

/// A duration in the largest unit that holds it without a fraction.
fn format_time(Nanos(ns): Nanos) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match units.iter().find(|(n, _)| ns >= *n && ns % n == 0) {
        Some((n, unit)) => format!("{}{unit}", ns / n),
        None => format!("{ns}ns"),
    }
}

fn expected(unit: Unit, min: u64, max: u64) -> String {
    let (min, max) = (show(unit, min), show(unit, max));
    match unit {
        Unit::Switch => "0 or 1".to_owned(),
        Unit::Count => format!("a number from {min} to {max}"),
        Unit::Sectors => format!("a number of 512-byte sectors from {min} to {max}"),
        Unit::Kibibytes => format!("a size from {min} to {max}"),
        Unit::Millis => format!("a time from {min} to {max} (ms unless it has a unit)"),
        Unit::Micros => format!("a time from {min} to {max} (us unless it has a unit)"),
        Unit::Nanos => format!("a time from {min} to {max} (ns unless it has a unit)"),
    }
}

/// The longest time that an attribute takes: a day.
const LONGEST: u64 = 86_400_000_000_000;

/// The largest count that an attribute takes, the kernel's `INT_MAX`.
const COUNT_MAX: u64 = i32::MAX as u64;

/// The type of an option: a number within the range of its attribute.
trait Number: Copy {
    fn to_number(self) -> u64;
    fn from_number(number: u64) -> Self;
}

impl Number for Nanos {
    fn to_number(self) -> u64 {
        self.0
    }

    fn from_number(number: u64) -> Self {
        Nanos(number)
    }
}

impl Number for u32 {
    fn to_number(self) -> u64 {
        self.into()
    }

    fn from_number(number: u64) -> Self {
        u32::try_from(number).expect("the attribute's range ends below 2^32")
    }
}

impl Number for bool {
    fn to_number(self) -> u64 {
        self.into()
    }

    fn from_number(number: u64) -> Self {
        number == 1
    }
}

/// Declares the options of a scheduler: each with its default, and the attributes that set it, each with
/// its unit and its range.
macro_rules! options {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr,
            [$($attribute:ident: $unit:ident $min:literal to $max:expr),+];)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            pub(super) const ATTRIBUTES: &'static [Attribute<Self>] = &[$($(Attribute {
                name: stringify!($attribute),
                unit: Unit::$unit,
                range: ($min, $max),
                get: |options| options.$field.to_number(),
                set: |options, number| options.$field = Number::from_number(number),
            },)+)*];
        }
    )*};
}

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
        /// Whether the request to dispatch is also merged behind the one that ends where it begins.
        front_merges: bool = true, [front_merges: Switch 0 to 1];
        /// Commands other than reads that may be in flight; 0 for no limit.
        async_depth: u32 = 0, [async_depth: Count 0 to COUNT_MAX];
        /// How long a request waits for those of a higher priority class.
        prio_aging_expire: Nanos = Nanos(10_000_000_000), [prio_aging_expire: Millis 0 to LONGEST];
    }

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

    /// Kyber's attributes (Linux 6.12 Documentation/block/kyber-iosched.rst).
    pub struct KyberOptions {
        /// The target latency of reads.
        read_lat: Nanos = Nanos(2_000_000), [read_lat_nsec: Nanos 1 to LONGEST];
        /// The target latency of writes.
        write_lat: Nanos = Nanos(10_000_000), [write_lat_nsec: Nanos 1 to LONGEST];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_the_attributes_own() {
        assert_eq!(parse(Unit::Millis, "500"), Some(500_000_000));
        assert_eq!(parse(Unit::Millis, "500us"), Some(500_000));
        assert_eq!(parse(Unit::Nanos, "2000000"), Some(2_000_000));
        assert_eq!(parse(Unit::Nanos, "2 ms"), Some(2_000_000));
        assert_eq!(parse(Unit::Count, "16"), Some(16));
        for (unit, bad) in [
            (Unit::Count, "16ms"),
            (Unit::Millis, "ms"),
            (Unit::Millis, "5 min"),
            (Unit::Millis, "-5"),
            (Unit::Millis, "99999999999999999999"),
        ] {
            assert_eq!(parse(unit, bad), None, "{bad}");
        }
    }

    #[test]
    fn a_shown_value_parses_to_itself() {
        for (unit, value) in [
            (Unit::Millis, 0),
            (Unit::Millis, 500_000_000),
            (Unit::Micros, 1_500),
            (Unit::Nanos, 10_000_000_000),
            (Unit::Kibibytes, 16384),
            (Unit::Count, 2),
        ] {
            assert_eq!(parse(unit, &show(unit, value)), Some(value));
        }
    }
}
