//! The options of a job: one table of names, kinds of value and help.
//!
//! Takes an option's name and the text of its value; gives a change to a [`Draft`], which
//! [`Draft::finish`] turns into a validated [`Job`](crate::job::Job). Keeps true: a name is either
//! supported, known to fio and not used here, or unknown; no value is half understood. Where fio
//! would read the first digits of `4x` and forget the rest, this is an error.
//!
//! ```text
//! table/*      name, aliases, kind, setter, help          one line to add an option
//! unsupported  what fio knows and Zonal does without
//! value/*      text -> number, time, list ...             pure functions
//! kind         kind of value -> which of them, which setter
//! draft        values so far -> Job, with the checks that need several options
//! ```
mod draft;
mod help;
mod kind;
mod table;
mod unsupported;
mod value;

pub(crate) use draft::note;
pub use draft::{Conflict, Draft};
pub use help::{help_text, markdown};
pub use kind::{Choice, ValueError, ValueKind};
pub use table::{Group, OptionSpec, supported};
pub use unsupported::Effect;
pub use value::expr::ExprError;
pub(crate) use value::expr::evaluate_plain;
pub use value::pattern::RwPattern;
pub use value::size::format_size;

/// What is known about an option's name.
#[derive(Clone, Copy, Debug)]
pub enum FioOption {
    /// The option has its effect.
    Supported(&'static OptionSpec),
    /// fio has this option, Zonal does without it.
    Unsupported(UnsupportedOption),
}

/// An option that fio has and Zonal does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedOption {
    /// fio's name for it.
    pub name: &'static str,
    /// What that means for the job.
    pub effect: Effect,
    /// Values at which fio, too, runs the job as Zonal does.
    neutral: &'static [&'static str],
    /// Whether it may stand without a value.
    flag: bool,
}

impl UnsupportedOption {
    /// Whether the job runs as it would without the option, in fio as well.
    pub fn is_neutral(&self, value: Option<&str>) -> bool {
        value.is_some_and(|value| self.neutral.contains(&value))
    }
}

impl FioOption {
    /// fio's name of the option, of which others are aliases.
    pub fn name(&self) -> &'static str {
        match self {
            FioOption::Supported(spec) => spec.name,
            FioOption::Unsupported(unused) => unused.name,
        }
    }

    /// Whether the option may stand without a value.
    pub fn is_flag(&self) -> bool {
        match self {
            FioOption::Supported(spec) => matches!(spec.kind, ValueKind::Flag(_)),
            FioOption::Unsupported(unused) => unused.flag,
        }
    }
}

/// Reads a size such as `4k`, as job files have them.
///
/// # Errors
/// What is wrong with it.
pub fn read_size(text: &str) -> Result<u64, ValueError> {
    let malformed = || ValueError::Malformed {
        expected: ValueKind::Size(|_, _| ()).expected(),
        found: text.to_owned(),
    };
    value::size::read(text, 1024).map_err(|_| malformed())
}

/// Looks an option up by its name or alias.
pub fn find(name: &str) -> Option<FioOption> {
    supported()
        .find(|spec| spec.names().any(|known| known == name))
        .map(FioOption::Supported)
        .or_else(|| unsupported::find(name).map(FioOption::Unsupported))
}

/// The known name most like `name`, if one is like it.
pub fn nearest(name: &str) -> Option<&'static str> {
    let names = supported().flat_map(OptionSpec::names).chain(unsupported::names());
    // A third of the letters wrong is still a typing error, more is another word.
    let letters = name.chars().count();
    let limit = (letters / 3).max(1);
    names
        // Comparing takes as long as both names together: not worth it for a whole line of text.
        .filter(|known| known.len().abs_diff(letters) <= limit)
        .map(|known| (value::distance::edits(name, known), known))
        .filter(|&(edits, _)| edits <= limit)
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_name_stands_twice_in_the_tables() {
        let mut seen = BTreeSet::new();
        for name in supported().flat_map(OptionSpec::names).chain(unsupported::names()) {
            assert!(seen.insert(name), "{name} stands twice");
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
    fn misspelt_names_suggest_the_nearest_and_other_words_suggest_nothing() {
        assert_eq!(nearest("bloksize"), Some("blocksize"));
        assert_eq!(nearest("iodeph"), Some("iodepth"));
        assert_eq!(nearest("runtme"), Some("runtime"));
        assert_eq!(nearest("verfy"), Some("verify"));
        assert_eq!(nearest("colour_of_the_disk"), None);
    }

    #[test]
    fn neutral_values_are_not_worth_a_report() {
        let Some(FioOption::Unsupported(align)) = find("offset_align") else {
            panic!("it is not supported")
        };
        assert!(align.is_neutral(Some("0")));
        assert!(!align.is_neutral(Some("4k")));
        assert!(!align.is_neutral(None));
    }
}
