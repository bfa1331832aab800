//! The table of supported options, by group.
//!
//! Each option is one entry: names, kind of value with its setter, default and a line of help.
//! Parsing, the help text and the documentation are generated from it.
use super::draft::Draft;
use super::kind::ValueKind;

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

fn to_u8(value: u64) -> u8 {
    u8::try_from(value).expect("the table limits this option to 8 bits")
}
