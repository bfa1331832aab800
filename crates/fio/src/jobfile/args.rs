//! Job options on the command line.
//!
//! fio's rules: each `--name` starts a job; options before the first one (or after `--name=global`)
//! apply to all jobs after them, including those of job files; other arguments are job files, `-` is
//! standard input; `--section=NAME` selects sections of the files.
use super::JobSet;
use super::build::{Builder, unknown};
use super::environment::Environment;
use super::error::{JobError, Origin};
use super::sections::{self, GLOBAL, RawOption, Section};
use crate::options::{FioOption, ValueError, ValueKind, find, instead_of};
use std::ffi::OsString;
use std::path::Path;

/// Parses job options and job files from the arguments (without the program's name).
///
/// Jobs of the command line come before those of files, which start with the options that the
/// command line sets for all jobs. Options are written `--bs=4k` or `--bs 4k`, with one dash or two;
/// flags take a value after `=` only.
pub fn parse_args<A>(
    args: impl IntoIterator<Item = A>,
    env: &dyn Environment,
) -> Result<JobSet, JobError>
where
    A: Into<OsString>,
{
    let mut sets = parse_variants(args, &[Vec::new()], env)?;
    sets.pop().expect("one variant")
}

/// [`parse_args`] for several variants of the jobs. The options of a variant, with their values, come
/// last in every job, so they replace its own. Files are read once.
///
/// # Errors
/// An error that concerns all variants; an error in one variant is the result of that variant.
pub fn parse_variants<A>(
    args: impl IntoIterator<Item = A>,
    variants: &[Vec<(&str, &str)>],
    env: &dyn Environment,
) -> Result<Vec<Result<JobSet, JobError>>, JobError>
where
    A: Into<OsString>,
{
    let Arguments { sections, files, only } = classify(args.into_iter().map(Into::into))?;
    let read = |file: &String| sections::read_file(Path::new(file), env);
    let sections_of_files: Vec<Vec<Section>> = files.iter().map(read).collect::<Result<_, _>>()?;
    let variant = |options: &Vec<(&str, &str)>| {
        let replace = |&(key, value): &(&str, &str)| on_command_line(key, Some(value.to_owned()));
        let mut builder = Builder::new(env);
        builder.only(only.clone());
        builder.replace(options.iter().map(replace).collect());
        for section in &sections {
            builder.add(section)?;
        }
        for file in &sections_of_files {
            builder.add_all(file.clone())?;
        }
        builder.finish(&files)
    };
    Ok(variants.iter().map(variant).collect())
}

/// The jobs of the arguments as arguments without job files (fio's `--showcmd`), each quoted for a
/// shell where necessary.
///
/// # Errors
/// An argument or a job file cannot be read. Values are not looked at.
pub fn command_line<A>(
    args: impl IntoIterator<Item = A>,
    env: &dyn Environment,
) -> Result<String, JobError>
where
    A: Into<OsString>,
{
    let Arguments { mut sections, files, only } = classify(args.into_iter().map(Into::into))?;
    for file in &files {
        let of_file = sections::read_file(Path::new(file), env)?.into_iter();
        let wanted = |section: &Section| {
            section.is_global() || only.is_empty() || only.contains(&section.name)
        };
        sections.extend(of_file.filter(wanted));
    }
    let mut words = Vec::new();
    for section in &mut sections {
        section.options.sort_by_key(|option| option.key != "kb_base");
        // Before the first name everything is global.
        if !section.is_global() || !words.is_empty() && !section.options.is_empty() {
            words.push(format!("--name={}", quoted(&section.name)));
        }
        for RawOption { key, value, .. } in &section.options {
            match value {
                _ if key == "name" => {}
                Some(value) => words.push(format!("--{key}={}", quoted(value))),
                None => words.push(format!("--{key}")),
            }
        }
    }
    Ok(words.join(" "))
}

/// A word for a shell. Variables are expanded by it, as in a job file.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./%@^".contains(c);
    match word {
        _ if word.chars().all(is_plain) => word.to_owned(),
        _ => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('`', "\\`")),
    }
}

struct Arguments {
    sections: Vec<Section>,
    files: Vec<String>,
    only: Vec<String>,
}

fn classify(args: impl Iterator<Item = OsString>) -> Result<Arguments, JobError> {
    let mut args = args.map(unicode).peekable();
    let mut arguments =
        Arguments { sections: vec![begin(GLOBAL)], files: Vec::new(), only: Vec::new() };
    while let Some(argument) = args.next().transpose()? {
        let option = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        let Some(option) = option.filter(|option| !option.is_empty()) else {
            arguments.files.push(argument);
            continue;
        };
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (option, None),
        };
        if key == "section" {
            arguments.only.push(required(key, "the name of a section", value, &mut args)?);
        } else if key == "name" {
            let name = required(key, "the name of a job", value, &mut args)?;
            let mut section = begin(&name);
            if !section.is_global() {
                // fio reports it among the job's options.
                section.options.push(on_command_line(key, Some(name)));
            }
            arguments.sections.push(section);
        } else {
            if let Some(instead) = instead_of(key) {
                return Err(JobError::OfProgram { option: key.to_owned(), instead });
            }
            let known = find(key).ok_or_else(|| unknown(key, Origin::CommandLine))?;
            let is_bare = known.is_flag()
                || known.is_value_optional() && args.peek().is_none_or(starts_option);
            let value = match is_bare {
                true => value,
                false => Some(required(key, expected(&known), value, &mut args)?),
            };
            let section = arguments.sections.last_mut().expect("the global section comes first");
            section.options.push(on_command_line(key, value));
        }
    }
    Ok(arguments)
}

fn starts_option(argument: &Result<String, JobError>) -> bool {
    argument.as_ref().is_ok_and(|argument| argument.starts_with("--"))
}

fn begin(name: &str) -> Section {
    Section { name: name.to_owned(), origin: Origin::CommandLine, options: Vec::new() }
}

fn on_command_line(key: &str, value: Option<String>) -> RawOption {
    RawOption { key: key.to_owned(), value, origin: Origin::CommandLine }
}

fn unicode(argument: OsString) -> Result<String, JobError> {
    argument
        .into_string()
        .map_err(|argument| JobError::Argument(argument.to_string_lossy().into_owned()))
}

fn expected(known: &FioOption) -> &'static str {
    match known {
        FioOption::Supported(spec) => spec.kind.expected(),
        FioOption::Unsupported(_) => ValueKind::Text(|_, _| ()).expected(),
    }
}

/// The value after `=`, or the next argument.
fn required(
    key: &str,
    expected: &'static str,
    value: Option<String>,
    args: &mut impl Iterator<Item = Result<String, JobError>>,
) -> Result<String, JobError> {
    let value = match value {
        Some(value) => Some(value),
        None => args.next().transpose()?,
    };
    value.filter(|value| !value.is_empty()).ok_or_else(|| JobError::Value {
        origin: Origin::CommandLine,
        option: key.to_owned(),
        error: ValueError::Missing { expected },
    })
}
