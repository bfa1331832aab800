//! Options of devices: how a value is written, and one row of a table per option.
use crate::quantity::{
    QuantityError, format_rate, format_size, format_time, parse_count, parse_rate, parse_size,
    parse_time,
};

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
    /// `true` or `false`.
    Flag,
    /// Zones, as [`Written`](super::Written) reads them.
    Zones,
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
            Unit::Flag => "flag",
            Unit::Zones => "zones",
            Unit::Choice(_) => "word",
        }
    }

    /// The expected form of a value.
    pub(super) fn form(self) -> String {
        match self {
            Unit::Count => "a whole number".to_owned(),
            Unit::Size => "a size such as 4096, 64K or 256M".to_owned(),
            Unit::Time => "a time such as 500ns, 10us or 8ms".to_owned(),
            Unit::Rate => "a rate such as 245MB/s or 244.5MB/s".to_owned(),
            Unit::Flag => "true or false".to_owned(),
            Unit::Zones => super::written::FORM.to_owned(),
            Unit::Choice(words) => words.join(" or "),
        }
    }

    /// Formats a value.
    pub fn show(self, value: u64) -> String {
        match self {
            Unit::Count | Unit::Zones => value.to_string(),
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
            Unit::Zones => Err(QuantityError::Malformed),
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

/// An option of a device with the configuration `C`.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo<C: 'static> {
    /// Its name in a spec and a profile.
    pub name: &'static str,
    /// How its value is written.
    pub unit: Unit,
    /// Its default, in words if it depends on other options.
    pub default: &'static str,
    /// The devices that it applies to.
    pub scope: Scope,
    /// What it does.
    pub meaning: &'static str,
    /// The largest value of its field.
    pub(super) max: u64,
    pub(super) set: fn(&mut C, u64),
}
