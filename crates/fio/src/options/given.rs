//! The options that a job was given.
use std::collections::BTreeMap;

/// The options that a job was given, in `[global]` or in its own section.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    /// The meaning of the last value, by fio's name of the option.
    options: BTreeMap<&'static str, Asked>,
}

/// The meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing: 0 or `none`.
    Nothing,
    /// The default, which is something.
    Default,
    /// Anything else.
    Change,
}

impl Given {
    /// Records an option with the meaning of its value.
    pub(super) fn add(&mut self, name: &'static str, asked: Asked) {
        self.options.insert(name, asked);
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
