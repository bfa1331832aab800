//! The options of a job: one table of names, kinds of value and help.
//!
//! An option's value is parsed and set in a [`Draft`], which [`Draft::finish`] turns into a validated
//! [`Job`](crate::job::Job). A name is supported, known to fio but not supported, or unknown; and a
//! value is parsed completely or not at all: where fio would read the first digit of `4x` and ignore
//! the rest, this is an error.
//!
//! ```text
//! table/*      name, aliases, kind, setter, help          one entry per option
//! unsupported  options of fio without effect here
//! program      options of fio's command line that are about its program
//! kind         kinds of values, with their setters
//! value        values by direction, errors of values
//! number, list, limit, distribution    text -> number, size, time, list ...    pure functions
//! draft        values so far -> Job, with the checks that need several values
//! depths       queue depth and batches, as fio bounds them
//! given        which options were given
//! rules        which options exclude or need others                               one table
//! ```
mod conflict;
mod depths;
mod distribution;
mod draft;
mod engine;
mod given;
mod help;
mod kind;
mod limit;
mod list;
mod number;
mod program;
mod rules;
mod service;
mod table;
mod unsupported;
mod value;

pub use conflict::Conflict;
pub use draft::Draft;
pub(crate) use draft::note;
pub use engine::EngineError;
pub use help::{OptionHelp, all, describe, help_text, list, markdown};
pub use kind::{Choice, ValueKind};
pub use list::RwPattern;
pub(crate) use number::evaluate_plain;
pub use number::{ExprError, format_size};
pub use table::{Group, OptionSpec, supported};
pub use unsupported::Effect;
pub use value::{ByDirection, Split, ValueError};

use zonal_blk::Nanos;

/// What to use instead of an option of fio's command line that is about its program, and not about jobs.
/// `None` for all others.
pub fn instead_of(name: &str) -> Option<&'static str> {
    program::PROGRAM.iter().find(|(known, _)| *known == name).map(|&(_, instead)| instead)
}

/// An option of fio, by its name.
#[derive(Clone, Copy, Debug)]
pub enum FioOption {
    /// Zonal supports it.
    Supported(&'static OptionSpec),
    /// Zonal accepts it, without effect.
    Unsupported(UnsupportedOption),
}

/// An option of fio that Zonal accepts but does not implement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedOption {
    /// fio's name.
    pub name: &'static str,
    /// The effect of its absence for the job.
    pub effect: Effect,
    /// Values with which fio runs the job as Zonal does.
    neutral: &'static [&'static str],
    /// Whether it may be given without a value.
    flag: bool,
}

impl UnsupportedOption {
    /// Whether fio, too, would run the job as if the option were not given.
    pub fn is_neutral(&self, value: Option<&str>) -> bool {
        value.is_some_and(|value| self.neutral.contains(&value))
    }
}

impl FioOption {
    /// fio's name of the option, not an alias.
    pub fn name(&self) -> &'static str {
        match self {
            FioOption::Supported(spec) => spec.name,
            FioOption::Unsupported(unused) => unused.name,
        }
    }

    /// Whether the option may be given without a value, but takes the next argument of a command line
    /// if that is one.
    pub fn is_value_optional(&self) -> bool {
        matches!(self, FioOption::Supported(spec) if matches!(spec.kind, ValueKind::OptionalText(_)))
    }

    /// Whether the option may be given without a value.
    pub fn is_flag(&self) -> bool {
        match self {
            FioOption::Supported(spec) => matches!(spec.kind, ValueKind::Flag(_)),
            FioOption::Unsupported(unused) => unused.flag,
        }
    }
}

/// Parses a size such as `4k`, as in job files.
///
/// # Errors
/// [`ValueError::Malformed`] if the text is not a size.
pub fn parse_size(text: &str) -> Result<u64, ValueError> {
    let malformed = || ValueError::Malformed {
        expected: ValueKind::Size(|_, _| ()).expected(),
        found: text.to_owned(),
    };
    number::parse_size(text, 1024).map_err(|_| malformed())
}

/// Parses a time such as `30s` or `500ms`; without a unit it is in seconds.
///
/// # Errors
/// [`ValueError::Malformed`] if the text is not a time.
pub fn parse_seconds(text: &str) -> Result<Nanos, ValueError> {
    let malformed = || ValueError::Malformed {
        expected: ValueKind::Seconds(|_, _| ()).expected(),
        found: text.to_owned(),
    };
    number::parse_duration(text, number::SECOND).map_err(|_| malformed())
}

/// Looks an option up by its name or alias.
pub fn find(name: &str) -> Option<FioOption> {
    supported()
        .find(|spec| spec.names().any(|known| known == name))
        .map(FioOption::Supported)
        .or_else(|| unsupported::find(name).map(FioOption::Unsupported))
}

/// fio's names of the options that have a name with this beginning, each once.
pub fn beginning_with(short: &str) -> impl Iterator<Item = &'static str> {
    let has = move |name: &str| name.starts_with(short);
    let own = supported().filter(move |spec| spec.names().any(has)).map(|spec| spec.name);
    own.chain(unsupported::names().filter(move |name| has(name)))
}

/// The known name closest to `name`, if there is one close to it.
pub fn nearest(name: &str) -> Option<&'static str> {
    zonal_blk::nearest(name, supported().flat_map(OptionSpec::names).chain(unsupported::names()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_in_the_tables_once() {
        let mut seen = BTreeSet::new();
        for name in supported().flat_map(OptionSpec::names).chain(unsupported::names()) {
            assert!(seen.insert(name), "{name} is in the tables twice");
        }
    }

    #[test]
    fn aliases_find_the_option_they_stand_for() {
        for (alias, name) in [
            ("blocksize", "bs"),
            ("readwrite", "rw"),
            ("io_limit", "io_size"),
            ("timeout", "runtime"),
            ("start_delay", "startdelay"),
            ("wait_for_previous", "stonewall"),
            ("fill_fs", "fill_device"),
        ] {
            assert_eq!(find(alias).expect("known").name(), name);
        }
    }

    #[test]
    fn misspelt_names_suggest_the_nearest_known_name() {
        assert_eq!(nearest("bloksize"), Some("blocksize"));
        assert_eq!(nearest("iodeph"), Some("iodepth"));
        assert_eq!(nearest("runtme"), Some("runtime"));
        assert_eq!(nearest("verfy"), Some("verify"));
        assert_eq!(nearest("colour_of_the_disk"), None);
    }

    #[test]
    fn neutral_values_are_not_reported() {
        let Some(FioOption::Unsupported(atomic)) = find("atomic") else {
            panic!("it is not supported")
        };
        assert!(atomic.is_neutral(Some("0")));
        assert!(!atomic.is_neutral(Some("1")));
        assert!(!atomic.is_neutral(None));
    }
}
