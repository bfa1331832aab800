//! The options of schedulers, and the attributes by which they are set and read as text.
//!
//! Names, and the units of numbers without one, are those of the kernel's `/sys/block/*/queue/iosched`.
use crate::names::did_you_mean;
use crate::units::Nanos;

/// The unit of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
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
    pub name: &'static str,
    pub unit: Unit,
    /// The smallest and the largest value, times in nanoseconds.
    pub range: (u64, u64),
    pub get: fn(&T) -> u64,
    pub set: fn(&mut T, u64),
}

/// An attribute that is not there, or a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttrError {
    /// The scheduler has no attribute of this name.
    #[error(
        "the scheduler {scheduler} has no attribute `{name}`; it has {known}{}",
        did_you_mean(name, known.split(", "))
    )]
    Unknown {
        /// The scheduler's name.
        scheduler: &'static str,
        /// The name found.
        name: String,
        /// The attributes that it has.
        known: String,
    },
    /// The value is not of the attribute's kind.
    #[error("{name}: found `{value}`, expected {expected}")]
    Value {
        /// The attribute.
        name: &'static str,
        /// The value that it was to be set to.
        value: String,
        /// The values that it takes.
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
pub(super) const LONGEST: u64 = 86_400_000_000_000;

/// The largest count that an attribute takes, the kernel's `INT_MAX`.
pub(super) const COUNT_MAX: u64 = i32::MAX as u64;

/// The type of an option: a number within the range of its attribute.
pub(super) trait Number: Copy {
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
            pub(in crate::sched) const ATTRIBUTES: &'static [$crate::sched::options::Attribute<Self>] = {
                use $crate::sched::options::{Attribute, Number, Unit};
                &[$($(Attribute {
                    name: stringify!($attribute),
                    unit: Unit::$unit,
                    range: ($min, $max),
                    get: |options| options.$field.to_number(),
                    set: |options, number| options.$field = Number::from_number(number),
                },)+)*]
            };
        }
    )*};
}
pub(super) use options;

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
