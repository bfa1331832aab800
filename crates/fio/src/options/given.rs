//! The options that a job was given.
use super::kind::ValueKind;
use super::table::OptionSpec;
use std::collections::BTreeMap;

/// The options that a job was given, in `[global]` or in its own section.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// The meaning of the last value, by fio's name of the option.
    options: BTreeMap<&'static str, Asked>,
}

/// The meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Nothing: 0 or `none`.
    Nothing,
    /// The default, which is something.
    Default,
    /// Anything else.
    Change,
}

impl Given {
    /// Records an option with its value, which is valid.
    pub(super) fn add(&mut self, spec: &OptionSpec, value: Option<&str>) {
        self.options.insert(spec.name, value.map_or(Asked::Change, |value| asked(spec, value)));
    }

    /// Whether the option was given, with any value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// Whether the option was given with a value that asks for something: neither 0 nor `none` where
    /// these stand for nothing.
    pub(super) fn asks_for(&self, name: &str) -> bool {
        self.options.get(name).is_some_and(|asked| *asked != Asked::Nothing)
    }

    /// Whether the option was given with a value that is not the default either.
    pub(super) fn changes(&self, name: &str) -> bool {
        self.options.get(name) == Some(&Asked::Change)
    }
}

fn asked(spec: &OptionSpec, value: &str) -> Asked {
    if matches!(spec.kind, ValueKind::Text(_) | ValueKind::OptionalText(_)) {
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
        assert!(!Given::default().has("rate"));
    }
}
