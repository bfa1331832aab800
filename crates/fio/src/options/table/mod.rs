//! The supported options, by group.
//!
//! An option is one entry: names, kind of value with its setter, fio's default and a line of help.
//! Parsing, the help text and the documentation all come from it.
use super::kind::ValueKind;

mod amount;
mod data;
mod depth;
mod files;
mod pattern;
mod process;
mod rate;
mod time;
mod trace;
mod zones;

/// Headings of the help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Names and grouping of jobs.
    Job,
    /// What is read and written where.
    Pattern,
    /// How much.
    Amount,
    /// How long, and when.
    Time,
    /// How many at once.
    Depth,
    /// How fast.
    Rate,
    /// What becomes of the data.
    Data,
    /// Zones.
    Zones,
    /// File systems and files.
    Files,
    /// Traces and other programs' patterns.
    Trace,
}

/// One supported option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// fio's name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// Kind of value and where it goes.
    pub kind: ValueKind,
    /// Value without the option, as help shows it; empty for none.
    pub default: &'static str,
    /// What it does, in a sentence.
    pub help: &'static str,
}

impl OptionSpec {
    const fn new(
        name: &'static str,
        kind: ValueKind,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        OptionSpec { name, aliases: &[], kind, default, help }
    }

    const fn or(self, aliases: &'static [&'static str]) -> Self {
        OptionSpec { aliases, ..self }
    }

    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// The groups in the order of the help text.
pub(super) const GROUPS: &[(Group, &str, &[OptionSpec])] = &[
    (Group::Job, "Jobs", process::OPTIONS),
    (Group::Pattern, "I/O pattern", pattern::OPTIONS),
    (Group::Amount, "Region and amount", amount::OPTIONS),
    (Group::Time, "Time", time::OPTIONS),
    (Group::Depth, "Queue depth", depth::OPTIONS),
    (Group::Rate, "Rate", rate::OPTIONS),
    (Group::Data, "Data", data::OPTIONS),
    (Group::Zones, "Zones", zones::OPTIONS),
    (Group::Files, "File systems", files::OPTIONS),
    (Group::Trace, "Traces and patterns", trace::OPTIONS),
];

/// All supported options in the order of the help text.
pub fn supported() -> impl Iterator<Item = &'static OptionSpec> {
    GROUPS.iter().flat_map(|(_, _, specs)| specs.iter())
}

const ANY_U32: u64 = u32::MAX as u64;

/// A value that its kind has limited to 32 bits.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).expect("the table limits this option to 32 bits")
}

/// The same for 16 bits.
fn small(value: u64) -> u16 {
    u16::try_from(value).expect("the table limits this option to 16 bits")
}

/// The same for 8 bits.
fn tiny(value: u64) -> u8 {
    u8::try_from(value).expect("the table limits this option to 8 bits")
}
