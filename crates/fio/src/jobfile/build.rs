//! Sections to jobs.
//!
//! A job starts with what the `[global]` sections before it have set and then applies its own
//! options in order; the last one counts. In a section of a file `kb_base` is applied first,
//! wherever it stands, as in fio.
//!
//! Values are expanded first: `${NAME}` becomes the environment variable (nothing if it is not
//! set), and fio's `$pagesize`, `$mb_memory` and `$ncpus` become numbers. `$jobname`, `$jobnum` and
//! `$filenum` stay: fio expands them in `filename_format` only.
use super::environment::Environment;
use super::error::{JobError, Origin};
use super::sections::{RawOption, Section};
use super::{IgnoredOption, JobSet};
use crate::job::{SchemeRange, parse_scheme};
use crate::options::{
    Draft, Effect, ExprError, FioOption, UnsupportedOption, ValueError, evaluate_plain, find,
    nearest, note,
};
use std::collections::BTreeMap;
use std::path::Path;
use zonal_os::text_file;

/// Origins of options, by fio's name.
type OptionOrigins = BTreeMap<&'static str, Origin>;

pub(super) struct Builder<'a> {
    env: &'a dyn Environment,
    /// The options that `[global]` has set so far, with its origins.
    global: (Draft, OptionOrigins),
    /// Sections to build of each file; all if empty.
    only: Vec<String>,
    /// The names of `only` that have not been found yet.
    missing: Vec<String>,
    /// Options that come last in every job.
    replacing: Vec<RawOption>,
    set: JobSet,
}

impl<'a> Builder<'a> {
    pub(super) fn new(env: &'a dyn Environment) -> Self {
        Builder {
            env,
            global: (Draft::default(), OptionOrigins::new()),
            only: Vec::new(),
            missing: Vec::new(),
            replacing: Vec::new(),
            set: JobSet::default(),
        }
    }

    /// Restricts the sections of files to these and `[global]`.
    pub(super) fn only(&mut self, names: Vec<String>) {
        self.missing.clone_from(&names);
        self.only = names;
    }

    /// Options that replace those of every job.
    pub(super) fn replace(&mut self, options: Vec<RawOption>) {
        self.replacing = options;
    }

    /// Adds the sections of a job file.
    pub(super) fn add_all(&mut self, sections: Vec<Section>) -> Result<(), JobError> {
        for mut section in sections {
            let wanted = self.only.is_empty() || self.only.contains(&section.name);
            self.missing.retain(|name| *name != section.name);
            if wanted || section.is_global() {
                section.options.sort_by_key(|option| option.key != "kb_base");
                self.add(&section)?;
            }
        }
        Ok(())
    }

    /// Adds one section.
    pub(super) fn add(&mut self, section: &Section) -> Result<(), JobError> {
        let (mut draft, mut origins) = self.global.clone();
        if !section.is_global() {
            draft.begin_section(&section.name);
        }
        let replacing = if section.is_global() { Vec::new() } else { self.replacing.clone() };
        for option in section.options.iter().chain(&replacing) {
            let (name, value) = self.apply(option, &mut draft)?;
            origins.insert(name, option.origin.clone());
            if section.is_global() {
                note(&mut self.set.global_options, name, &value);
            } else {
                draft.note_own_option(name, &value);
            }
        }
        if section.is_global() {
            self.global = (draft, origins);
            return Ok(());
        }
        if draft.lacks_runtime() {
            let origin = origins.get("time_based").unwrap_or(&section.origin).clone();
            self.ignore(IgnoredOption { name: "time_based", origin, effect: Effect::None });
        }
        for (option, text) in draft.remarks() {
            let origin = origins.get(option).unwrap_or(&section.origin);
            self.set.remarks.push(format!("{origin}: {option}: {text}"));
        }
        let mut job = draft.finish(|| self.env.random_seed()).map_err(|conflict| {
            let option = conflict.option();
            let origin = origins.get(option).unwrap_or(&section.origin).clone();
            JobError::Conflict { origin, option, conflict }
        })?;
        if let Some(file) = &job.address.streams.scheme {
            let origin = origins.get("dp_scheme").unwrap_or(&section.origin);
            job.address.streams.ranges = self.read_scheme(file, origin)?;
        }
        self.set.jobs.push(job);
        Ok(())
    }

    /// The ranges of a scheme of data placement.
    fn read_scheme(&self, name: &str, origin: &Origin) -> Result<Vec<SchemeRange>, JobError> {
        let (origin, file) = (|| origin.clone(), || name.to_owned());
        let text = self.env.read(Path::new(name)).and_then(text_file::utf8);
        let text =
            text.map_err(|error| JobError::SchemeFile { origin: origin(), file: file(), error })?;
        parse_scheme(&text).map_err(|(line, found)| JobError::SchemeLine {
            origin: origin(),
            file: file(),
            line,
            found,
        })
    }

    /// Sets the option in the draft, or records that it is unsupported, and returns its name and value
    /// for the report: as in fio, an option without a value has an empty one.
    fn apply(
        &mut self,
        option: &RawOption,
        draft: &mut Draft,
    ) -> Result<(&'static str, String), JobError> {
        let origin = || option.origin.clone();
        let known = find(&option.key).ok_or_else(|| unknown(&option.key, origin()))?;
        let wrong = |error| JobError::Value { origin: origin(), option: option.key.clone(), error };
        let value = match &option.value {
            Some(text) => Some(self.expand(text, &option.origin).map_err(wrong)?),
            None => None,
        };
        match known {
            FioOption::Supported(spec) => {
                spec.set(draft, value.as_deref()).map_err(wrong)?;
                Ok((spec.name, value.unwrap_or_default()))
            }
            FioOption::Unsupported(unused) => {
                self.report(unused, value.as_deref(), origin());
                Ok((unused.name, value.unwrap_or_default()))
            }
        }
    }

    fn expand(&self, text: &str, origin: &Origin) -> Result<String, ValueError> {
        // On the command line `${NAME}` is for the shell.
        let text = match origin {
            Origin::File { .. } => expand_variables(text, self.env),
            Origin::CommandLine => text.to_owned(),
        };
        expand_keywords(&text, self.env)
            .map_err(|error| ValueError::Arithmetic { error, found: text })
    }

    fn report(&mut self, unused: UnsupportedOption, value: Option<&str>, origin: Origin) {
        if !unused.is_neutral(value) {
            let UnsupportedOption { name, effect, .. } = unused;
            self.ignore(IgnoredOption { name, origin, effect });
        }
    }

    /// Records an option that is ignored, once.
    fn ignore(&mut self, option: IgnoredOption) {
        if self.set.ignored.iter().all(|ignored| ignored.name != option.name) {
            self.set.ignored.push(option);
        }
    }

    /// The jobs, which come from these files and the command line.
    pub(super) fn finish(self, files: &[String]) -> Result<JobSet, JobError> {
        if let Some(name) = self.missing.into_iter().next() {
            return Err(JobError::NoSuchSection { name });
        }
        if self.set.jobs.is_empty() {
            return Err(JobError::NoJobs { files: files.to_vec() });
        }
        Ok(self.set)
    }
}

/// The error for an unknown name, with a suggestion.
pub(super) fn unknown(name: &str, origin: Origin) -> JobError {
    JobError::UnknownOption { origin, name: name.to_owned(), nearest: nearest(name) }
}

/// A keyword and the number that it stands for.
type Keyword = (&'static str, fn(&dyn Environment) -> u64);

/// Replaces `${NAME}`. A `${` without `}` is left unchanged.
fn expand_variables(value: &str, env: &dyn Environment) -> String {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, tail)) = after.split_once('}') else {
            break;
        };
        expanded.push_str(before);
        expanded.push_str(&env.variable(name).unwrap_or_default());
        rest = tail;
    }
    expanded.push_str(rest);
    expanded
}

/// Replaces keywords. As in fio, arithmetic with a keyword needs no parentheses: `2*$pagesize`.
fn expand_keywords(value: &str, env: &dyn Environment) -> Result<String, ExprError> {
    if !value.contains('$') {
        return Ok(value.to_owned());
    }
    let mut expanded = value.to_owned();
    for (keyword, number) in KEYWORDS {
        if expanded.contains(keyword) {
            expanded = expanded.replace(keyword, &number(env).to_string());
        }
    }
    let plain = |c: char| c.is_ascii_digit() || c == ' ' || OPERATORS.contains(c);
    let arithmetic = expanded != value
        && expanded.starts_with(|c: char| c.is_ascii_digit())
        && expanded.contains(|c| OPERATORS.contains(c))
        && expanded.chars().all(plain);
    if arithmetic {
        evaluate_plain(&expanded).map(|number| number.to_string())
    } else {
        Ok(expanded)
    }
}

const KEYWORDS: [Keyword; 3] = [
    ("$pagesize", |env| env.page_size()),
    ("$mb_memory", |env| env.mb_memory()),
    ("$ncpus", |env| env.cpus()),
];

const OPERATORS: &str = "+-*/";

#[cfg(test)]
mod tests {
    use super::super::MemoryEnvironment;
    use super::*;

    #[test]
    fn variables_are_replaced_and_unset_ones_are_empty() {
        let env =
            MemoryEnvironment::default().with_variable("SIZE", "8k").with_variable("X", "${SIZE}");
        assert_eq!(expand_variables("${SIZE}", &env), "8k");
        assert_eq!(expand_variables("a${SIZE}b${NONE}c${SIZE}", &env), "a8kbc8k");
        assert_eq!(expand_variables("${SIZE", &env), "${SIZE");
        assert_eq!(expand_variables("$SIZE", &env), "$SIZE");
        assert_eq!(
            expand_variables("${X}", &env),
            "${SIZE}",
            "the replacement is not expanded again"
        );
    }

    #[test]
    fn keywords_become_numbers() {
        let env = MemoryEnvironment::default();
        for (value, expanded) in [
            ("$pagesize", "4096"),
            ("$mb_memorym", "1024m"),
            ("$ncpus", "4"),
            ("2*$pagesize", "8192"),
            ("$pagesize*2", "8192"),
            ("($pagesize+4)", "(4096+4)"),
            ("foo$pagesize", "foo4096"),
            ("$pagesize,8k", "4096,8k"),
            ("4*1024", "4*1024"),
            ("$jobname.$jobnum", "$jobname.$jobnum"),
        ] {
            assert_eq!(expand_keywords(value, &env).as_deref(), Ok(expanded), "{value}");
        }
        assert_eq!(expand_keywords("$ncpus/0", &env), Err(ExprError::DivisionByZero));
    }
}
