//! An option of a device: how its value is written, which values it may have, what it does.
use crate::quantity::{
    QuantityError, format_percent, format_rate, format_size, format_time, parse_count,
    parse_percent, parse_rate, parse_size, parse_time,
};
use std::ops::RangeInclusive;
use zonal_blk::{Bytes, Nanos};

/// How an option's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// A number of bytes, with an optional suffix.
    Size,
    /// A duration with a suffix.
    Time,
    /// Bytes per second, in powers of 1000.
    Rate,
    /// Thousandths of a percent, written in percent.
    Percent,
    /// `true` or `false`.
    Flag,
    /// Zones, as [`WrittenZones`](super::written::WrittenZones) reads them.
    Zones,
    /// Writes before the first command, as [`Prefill`](crate::ssd::Prefill) parses them.
    Fill,
    /// One of these words; its value is its index.
    Choice(&'static [&'static str]),
}

impl Unit {
    /// The unit as the help text names it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Size => "size",
            Unit::Time => "time",
            Unit::Rate => "rate",
            Unit::Percent => "percent",
            Unit::Flag => "flag",
            Unit::Zones => "zones",
            Unit::Fill => "fill",
            Unit::Choice(_) => "word",
        }
    }

    /// The expected form of a value.
    pub(crate) fn form(self) -> String {
        match self {
            Unit::Count => "a whole number".to_owned(),
            Unit::Size => "a size such as 4096, 64K or 256M".to_owned(),
            Unit::Time => "a time such as 500ns, 10us or 8ms".to_owned(),
            Unit::Rate => "a rate such as 245MB/s or 244.5MB/s".to_owned(),
            Unit::Percent => "a share such as 7% or 12.5%".to_owned(),
            Unit::Flag => "true or false".to_owned(),
            Unit::Zones => {
                "`100%`, another share of the zones, or zones such as 0-99+200".to_owned()
            }
            Unit::Fill => {
                "`empty`, `sequential`, or `random:N` for N drive writes up to 1000".to_owned()
            }
            Unit::Choice(words) => words.join(" or "),
        }
    }

    /// Formats a value.
    pub fn show(self, value: u64) -> String {
        match self {
            Unit::Count | Unit::Zones | Unit::Fill => value.to_string(),
            Unit::Percent => format_percent(value),
            Unit::Size => format_size(value),
            Unit::Time => format_time(value),
            Unit::Rate => format_rate(value),
            Unit::Flag => (value != 0).to_string(),
            Unit::Choice(words) => {
                let word = usize::try_from(value).ok().and_then(|at| words.get(at));
                word.map_or_else(|| value.to_string(), |word| (*word).to_owned())
            }
        }
    }

    /// Parses a value; a flag is 0 or 1.
    ///
    /// # Errors
    /// The text is not of this unit, or the value is too large.
    pub fn parse(self, text: &str) -> Result<u64, QuantityError> {
        match self {
            Unit::Count => parse_count(text),
            Unit::Size => parse_size(text),
            Unit::Time => parse_time(text),
            Unit::Rate => parse_rate(text),
            Unit::Percent => parse_percent(text),
            Unit::Zones | Unit::Fill => Err(QuantityError::Malformed),
            Unit::Choice(words) => {
                let known = words.iter().position(|word| *word == text);
                known.map(|at| at as u64).ok_or(QuantityError::Malformed)
            }
            Unit::Flag => match text {
                "false" => Ok(0),
                "true" => Ok(1),
                _ => Err(QuantityError::Malformed),
            },
        }
    }
}

/// The devices that an option applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    Any,
    /// Zoned devices.
    Zoned,
    /// Regular devices.
    Regular,
}

/// An option of a kind of device.
#[derive(Clone, Debug)]
pub struct OptionInfo {
    /// Its name in a spec and a profile.
    pub name: &'static str,
    /// How its value is written.
    pub unit: Unit,
    /// Its default as it is written, or in words if it depends on other options.
    pub default: &'static str,
    /// The devices that it applies to.
    pub scope: Scope,
    /// Its effect.
    pub help: &'static str,
    /// The numbers that it may have.
    pub range: RangeInclusive<u64>,
}

impl OptionInfo {
    /// The range in words.
    pub(crate) fn form_of_range(&self) -> String {
        let show = |value: &u64| self.unit.show(*value);
        match (self.range.start(), self.range.end()) {
            (least, &u64::MAX) => format!("at least {}", show(least)),
            (0, most) => format!("at most {}", show(most)),
            (least, most) => format!("from {} to {}", show(least), show(most)),
        }
    }
}

/// A text that is not the value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// The largest value, if it is larger; else it has not the form of the option's unit.
    pub max: Option<u64>,
}

/// A type that the field of an option can have.
pub trait OptionValue: Sized {
    /// The largest number that it holds.
    const MAX: u64;

    /// The value of a number of at most [`MAX`](Self::MAX).
    fn from_number(number: u64) -> Self;

    /// The number, if it is one.
    fn number(&self) -> Option<u64>;

    /// Parses a value.
    ///
    /// # Errors
    /// The text has not the form of the unit, or the value is too large.
    fn parse(unit: Unit, text: &str) -> Result<Self, ValueError> {
        match unit.parse(text) {
            Ok(number) if number <= Self::MAX => Ok(Self::from_number(number)),
            Ok(_) | Err(QuantityError::TooLarge) => Err(ValueError { max: Some(Self::MAX) }),
            Err(QuantityError::Malformed) => Err(ValueError { max: None }),
        }
    }

    /// The value of an option that is not given.
    fn by_default(unit: Unit, default: &str) -> Self {
        Self::parse(unit, default).unwrap_or_else(|_| panic!("default {default}: {}", unit.form()))
    }
}

macro_rules! number_values {
    ($($type:ty, $max:expr, $from:expr, $number:expr;)*) => {
        $(
            impl OptionValue for $type {
                const MAX: u64 = $max;

                fn from_number(number: u64) -> Self {
                    $from(number)
                }

                fn number(&self) -> Option<u64> {
                    Some($number(*self))
                }
            }
        )*
    };
}

number_values! {
    bool, 1, |number| number != 0, u64::from;
    u16, u16::MAX as u64, |number| u16::try_from(number).expect("at most MAX"), u64::from;
    u32, u32::MAX as u64, |number| u32::try_from(number).expect("at most MAX"), u64::from;
    u64, u64::MAX, |number| number, |number| number;
    Bytes, u64::MAX, Bytes, |bytes: Bytes| bytes.0;
    Nanos, u64::MAX, Nanos, |time: Nanos| time.0;
}

/// An option whose default depends on others: `None` unless it is given.
impl<V: OptionValue> OptionValue for Option<V> {
    const MAX: u64 = V::MAX;

    fn from_number(number: u64) -> Self {
        Some(V::from_number(number))
    }

    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(V::number)
    }

    fn by_default(_unit: Unit, _default: &str) -> Self {
        None
    }
}
