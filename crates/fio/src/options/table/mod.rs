//! The table of supported options, by group.
//!
//! Each option is one entry: names, kind of value with its setter, default and a line of help.
//! Parsing, the help text and the documentation are generated from it.
use super::draft::Draft;
use super::given::Asked;
use super::kind::ValueKind;
use super::value::ValueError;
use zonal_blk::Nanos;

/// Declares the options of a group: name and aliases, kind of value with its setter, default as shown
/// in the help text, and help.
macro_rules! options {
    ($visibility:vis const $group:ident;
     $($name:literal $(or $alias:literal)*: $kind:expr, $default:literal, $help:expr;)*) => {
        $visibility const $group: &[OptionSpec] = &[$(OptionSpec {
            name: $name,
            aliases: &[$($alias),*],
            kind: $kind,
            default: $default,
            help: $help,
        }),*];
    };
}

mod data;
mod files;
mod io;
mod job;
mod log;
mod report;
mod trace;

/// A section of the help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Names and groups of jobs, and where they run.
    Job,
    /// Directions and offsets.
    Pattern,
    /// Region and amount of I/O.
    Amount,
    /// When, and for how long.
    Time,
    /// Queue depth and batches.
    Depth,
    /// Rate limits and think time.
    Rate,
    /// Verification, durability, errors.
    Data,
    /// Zoned devices.
    Zones,
    /// File systems and files.
    Files,
    /// Traces and patterns of other programs.
    Trace,
    /// Logs.
    Log,
    /// Reports.
    Report,
}

/// One supported option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// fio's name.
    pub name: &'static str,
    /// Aliases.
    pub aliases: &'static [&'static str],
    /// Kind of value, with its setter.
    pub kind: ValueKind,
    /// Default as shown in the help text; empty for none.
    pub default: &'static str,
    /// Its effect, in one sentence.
    pub help: &'static str,
}

impl OptionSpec {
    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Sets the option of a job to a value.
    ///
    /// # Errors
    /// The value is not one of the option.
    pub fn set(&self, draft: &mut Draft, value: Option<&str>) -> Result<(), ValueError> {
        self.kind.apply(value, draft)?;
        draft.given.add(self.name, value.map_or(Asked::Change, |value| asked(self, value)));
        Ok(())
    }
}

fn asked(spec: &OptionSpec, value: &str) -> Asked {
    // The index 0 is one like any other.
    let is_text = matches!(spec.kind, ValueKind::Text(_) | ValueKind::OptionalText(_));
    if is_text || matches!(spec.kind, ValueKind::Indices(_)) {
        return Asked::Change;
    }
    // A default of several words describes what the program chooses.
    let has_value = !spec.default.is_empty() && !spec.default.contains(' ');
    let zero_is_nothing = !has_value || is_nothing(spec.default);
    let parts = || value.split(',').map(str::trim).filter(|part| !part.is_empty());
    if value.is_empty() {
        return Asked::Change;
    }
    if zero_is_nothing && parts().all(is_nothing) {
        Asked::Nothing
    } else if has_value && parts().all(|part| part == spec.default) {
        Asked::Default
    } else {
        Asked::Change
    }
}

/// Zero, with a unit or without, or `none`.
fn is_nothing(value: &str) -> bool {
    value == "none" || value.trim_end_matches(|c: char| c.is_ascii_alphabetic()) == "0"
}

/// The groups in the order of the help text.
pub(super) const GROUPS: &[(Group, &str, &[OptionSpec])] = &[
    (Group::Job, "Jobs", job::JOB),
    (Group::Pattern, "I/O pattern", io::PATTERN),
    (Group::Amount, "Region and amount", io::AMOUNT),
    (Group::Time, "Time", job::TIME),
    (Group::Depth, "Queue depth", io::DEPTH),
    (Group::Rate, "Rate", io::RATE),
    (Group::Data, "Data", data::OPTIONS),
    (Group::Zones, "Zones", io::ZONES),
    (Group::Files, "File systems", files::OPTIONS),
    (Group::Trace, "Traces and patterns", trace::OPTIONS),
    (Group::Log, "Logs", log::OPTIONS),
    (Group::Report, "Reports", report::OPTIONS),
];

/// All supported options in the order of the help text.
pub fn supported() -> impl Iterator<Item = &'static OptionSpec> {
    GROUPS.iter().flat_map(|(_, _, specs)| specs.iter())
}

const ANY_U32: u64 = u32::MAX as u64;

const fn number(min: u64, max: u64, set: fn(&mut Draft, u64)) -> ValueKind {
    ValueKind::Number { min, max, set }
}

const fn triple(min: u64, max: u64, set: fn(&mut Draft, [Option<u64>; 3])) -> ValueKind {
    ValueKind::Triple { min, max, set }
}

// Setters are called with values in the option's range only.

fn to_u32(value: u64) -> u32 {
    u32::try_from(value).expect("the table limits this option to 32 bits")
}

fn to_u16(value: u64) -> u16 {
    u16::try_from(value).expect("the table limits this option to 16 bits")
}

fn millis(value: u64) -> Nanos {
    Nanos(value * 1_000_000)
}

fn to_u8(value: u64) -> u8 {
    u8::try_from(value).expect("the table limits this option to 8 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{FioOption, find};

    fn given(name: &str, value: &str) -> Asked {
        let Some(FioOption::Supported(spec)) = find(name) else { panic!("{name}") };
        asked(spec, value)
    }

    #[test]
    fn zero_and_none_ask_for_nothing() {
        for (name, value) in [
            ("rate", "0"),
            ("rate", "0,0"),
            ("latency_target", "0s"),
            ("sync", "0"),
            ("sync", "none"),
        ] {
            assert_eq!(given(name, value), Asked::Nothing, "{name}={value}");
        }
    }

    #[test]
    fn defaults_that_are_something_change_nothing() {
        for (name, value) in [
            ("percentage_random", "100,100"),
            ("file_service_type", "roundrobin"),
            ("nr_files", "1"),
            ("pattern_writes", "0.5"),
        ] {
            assert_eq!(given(name, value), Asked::Default, "{name}={value}");
        }
    }

    #[test]
    fn zero_is_a_change_if_the_default_is_not_zero() {
        for (name, value) in [
            ("percentage_random", "0"),
            ("pattern_writes", "0"),
            ("do_verify", "0"),
            ("rate", "0,1"),
            ("read_iolog", "none"),
        ] {
            assert_eq!(given(name, value), Asked::Change, "{name}={value}");
        }
    }
}
