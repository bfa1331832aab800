//! Sections to jobs.
//!
//! Takes sections in order; gives a [`JobSet`]. Keeps true: a job begins with what the `[global]`
//! sections before it have set and then takes its own options in order, the last one counts. Of a
//! file's section `kb_base` comes first, wherever it stands, as in fio.
use super::environment::Environment;
use super::error::{JobError, Origin};
use super::expand;
use super::sections::{RawOption, Section};
use super::{IgnoredOption, JobSet};
use crate::options::{Draft, FioOption, UnsupportedOption, ValueError, find, nearest, note};
use std::collections::BTreeMap;

/// Where options were given, by fio's name.
type OptionOrigins = BTreeMap<&'static str, Origin>;

pub(super) struct Builder<'a> {
    source: &'a dyn Environment,
    /// What `[global]` has set so far, and where.
    global: (Draft, OptionOrigins),
    /// Sections to build of each file; all if empty.
    only: Vec<String>,
    /// Those of `only` that were not found yet.
    missing: Vec<String>,
    set: JobSet,
}

impl<'a> Builder<'a> {
    pub(super) fn new(source: &'a dyn Environment) -> Self {
        Builder {
            source,
            global: (Draft::default(), OptionOrigins::new()),
            only: Vec::new(),
            missing: Vec::new(),
            set: JobSet::default(),
        }
    }

    /// Leaves out the sections of files that are not among these, but for `[global]`.
    pub(super) fn only(&mut self, names: Vec<String>) {
        self.missing.clone_from(&names);
        self.only = names;
    }

    /// Adds the sections of a job file.
    pub(super) fn add_all(&mut self, sections: Vec<Section>) -> Result<(), JobError> {
        for mut section in sections {
            let wanted = self.only.is_empty() || self.only.contains(&section.name);
            self.missing.retain(|name| *name != section.name);
            if wanted || section.is_global() {
                section.given.sort_by_key(|given| given.key != "kb_base");
                self.add(&section)?;
            }
        }
        Ok(())
    }

    /// Adds one section, its options in their order.
    pub(super) fn add(&mut self, section: &Section) -> Result<(), JobError> {
        let (mut draft, mut places) = self.global.clone();
        if !section.is_global() {
            draft.begin_section(&section.name);
        }
        for given in &section.given {
            let Some((name, value)) = self.apply(given, &mut draft)? else {
                continue;
            };
            places.insert(name, given.origin.clone());
            if section.is_global() {
                note(&mut self.set.global_options, name, &value);
            } else {
                draft.note_given(name, &value);
            }
        }
        if section.is_global() {
            self.global = (draft, places);
            return Ok(());
        }
        let job = draft.finish(|| self.source.random_seed()).map_err(|(conflict, job)| {
            let option = conflict.option(&job);
            let origin = places.get(option).unwrap_or(&section.origin).clone();
            JobError::Conflict { origin, option, conflict }
        })?;
        self.set.jobs.push(job);
        Ok(())
    }

    /// Gives the option's name and value to the draft and returns them, or reports an option that
    /// is not used.
    fn apply(
        &mut self,
        given: &RawOption,
        draft: &mut Draft,
    ) -> Result<Option<(&'static str, String)>, JobError> {
        let origin = || given.origin.clone();
        let known = find(&given.key).ok_or_else(|| unknown(&given.key, origin()))?;
        let wrong = |error| JobError::Value { origin: origin(), option: given.key.clone(), error };
        let value = match &given.value {
            Some(text) => Some(self.expand(text, &given.origin).map_err(wrong)?),
            None => None,
        };
        match known {
            FioOption::Supported(spec) => {
                spec.kind.apply(value.as_deref(), draft).map_err(wrong)?;
                Ok(Some((spec.name, value.unwrap_or_else(|| "1".to_owned()))))
            }
            FioOption::Unsupported(unused) => {
                self.report(unused, value.as_deref(), origin());
                Ok(None)
            }
        }
    }

    fn expand(&self, text: &str, origin: &Origin) -> Result<String, ValueError> {
        // On the command line `${NAME}` is the shell's.
        let text = match origin {
            Origin::File { .. } => expand::variables(text, self.source),
            Origin::CommandLine => text.to_owned(),
        };
        expand::keywords(&text, self.source)
            .map_err(|fault| ValueError::Arithmetic { fault, found: text })
    }

    fn report(&mut self, unused: UnsupportedOption, value: Option<&str>, origin: Origin) {
        let reported = self.set.ignored.iter().any(|ignored| ignored.name == unused.name);
        if !reported && !unused.is_neutral(value) {
            let UnsupportedOption { name, effect, .. } = unused;
            self.set.ignored.push(IgnoredOption { name, origin, effect });
        }
    }

    pub(super) fn finish(self) -> Result<JobSet, JobError> {
        if let Some(name) = self.missing.into_iter().next() {
            return Err(JobError::NoSuchSection { name });
        }
        if self.set.jobs.is_empty() {
            return Err(JobError::NoJobs);
        }
        Ok(self.set)
    }
}

/// The error for a name that is in no table.
pub(super) fn unknown(name: &str, origin: Origin) -> JobError {
    JobError::UnknownOption { origin, name: name.to_owned(), nearest: nearest(name) }
}
