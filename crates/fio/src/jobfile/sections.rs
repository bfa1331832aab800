//! Job files as text: lines, sections, and the files that they include.
//!
//! Lines follow fio's rules: `;` and `#` begin a comment anywhere, and blanks around a line are
//! ignored. So are blanks around `=`; fio keeps those after it, and then rejects words and drops the
//! suffixes of numbers.
use super::environment::Environment;
use super::error::{JobError, Origin};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zonal_os::text_file;

/// A line of a job file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    /// `[name]`
    Section(&'a str),
    /// `include FILE`
    Include(&'a str),
    /// `key=value` or `key`
    Option {
        /// Before `=`.
        key: &'a str,
        /// After it.
        value: Option<&'a str>,
    },
    /// `[` without a name or without an end.
    BadSection(&'a str),
}

/// The lines that are not empty, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (u32, Line<'_>)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1..).zip(text.lines()).filter_map(|(number, line)| Some((number, line_of(line)?)))
}

fn line_of(line: &str) -> Option<Line<'_>> {
    let end = line.find([';', '#']).unwrap_or(line.len());
    let line = line[..end].trim();
    if line.is_empty() {
        return None;
    }
    if let Some(rest) = line.strip_prefix('[') {
        // A name may contain brackets: the last one ends it.
        let name = rest.strip_suffix(']').filter(|name| !name.trim().is_empty());
        return Some(name.map_or(Line::BadSection(line), Line::Section));
    }
    if let Some(file) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
        return Some(Line::Include(file.trim()));
    }
    Some(match line.split_once('=') {
        Some((key, value)) => Line::Option { key: key.trim_end(), value: Some(value.trim_start()) },
        None => Line::Option { key: line, value: None },
    })
}

/// Limit of nested includes.
const MAX_DEPTH: usize = 16;

/// The section that sets defaults for the ones after it.
pub(super) const GLOBAL: &str = "global";

/// An option as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawOption {
    pub(super) key: String,
    pub(super) value: Option<String>,
    pub(super) origin: Origin,
}

/// A section: `[global]` or a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) options: Vec<RawOption>,
}

impl Section {
    pub(super) fn is_global(&self) -> bool {
        self.name == GLOBAL
    }
}

/// The sections of the job file at `path`.
pub(super) fn read_file(path: &Path, env: &dyn Environment) -> Result<Vec<Section>, JobError> {
    let shown = path.display().to_string();
    let text =
        read_text(path, env).map_err(|error| JobError::Read { file: shown.clone(), error })?;
    let shown = if shown == "-" { "standard input" } else { &shown };
    Reader { env, stack: vec![path.to_owned()] }.sections(shown, &text)
}

/// The sections of `text`, called `name` in errors.
pub(super) fn read(
    name: &str,
    text: &str,
    env: &dyn Environment,
) -> Result<Vec<Section>, JobError> {
    Reader { env, stack: vec![PathBuf::from(name)] }.sections(name, text)
}

fn read_text(path: &Path, env: &dyn Environment) -> io::Result<String> {
    text_file::utf8(env.read(path)?)
}

struct Reader<'a> {
    env: &'a dyn Environment,
    /// The files that are being read, outermost first.
    stack: Vec<PathBuf>,
}

impl Reader<'_> {
    fn sections(&mut self, name: &str, text: &str) -> Result<Vec<Section>, JobError> {
        let file: Arc<str> = name.into();
        let mut sections: Vec<Section> = Vec::new();
        for (number, line) in lines(text) {
            let origin = Origin::File { file: file.clone(), line: number };
            match (line, sections.last_mut()) {
                (Line::Section(name), _) => {
                    sections.push(Section { name: name.to_owned(), origin, options: Vec::new() });
                }
                (Line::BadSection(found), _) => {
                    return Err(JobError::Section { origin, found: found.to_owned() });
                }
                (Line::Include(file), Some(section)) => {
                    self.include(file, &origin, &mut section.options)?;
                }
                (Line::Option { key, value }, Some(section)) => {
                    section.options.push(raw_option(key, value, origin));
                }
                (Line::Include(file), None) => {
                    let found = format!("include {file}");
                    return Err(JobError::OutsideSection { origin, found });
                }
                (Line::Option { key, value }, None) => {
                    let found = value.map_or(key.to_owned(), |value| format!("{key}={value}"));
                    return Err(JobError::OutsideSection { origin, found });
                }
            }
        }
        Ok(sections)
    }

    /// Adds the options of `file` to `into`.
    fn include(
        &mut self,
        file: &str,
        at: &Origin,
        into: &mut Vec<RawOption>,
    ) -> Result<(), JobError> {
        let (path, text) = self.find(file).map_err(|error| JobError::Include {
            origin: at.clone(),
            file: file.to_owned(),
            error,
        })?;
        if self.stack.contains(&path) {
            return Err(JobError::IncludeCycle { origin: at.clone(), file: file.to_owned() });
        }
        if self.stack.len() == MAX_DEPTH {
            let (origin, file) = (at.clone(), file.to_owned());
            return Err(JobError::IncludeDepth { origin, file, limit: MAX_DEPTH });
        }
        let shown: Arc<str> = path.display().to_string().into();
        self.stack.push(path);
        for (number, line) in lines(&text) {
            let origin = Origin::File { file: shown.clone(), line: number };
            match line {
                Line::Section(_) | Line::BadSection(_) => {
                    return Err(JobError::SectionInInclude { origin });
                }
                Line::Include(file) => self.include(file, &origin, into)?,
                Line::Option { key, value } => into.push(raw_option(key, value, origin)),
            }
        }
        self.stack.pop();
        Ok(())
    }

    /// Reads an included file: relative to the including one or else, as in fio, to the current
    /// directory.
    fn find(&self, file: &str) -> io::Result<(PathBuf, String)> {
        let including = self.stack.last().and_then(|path| path.parent());
        let beside = including.unwrap_or(Path::new("")).join(file);
        match read_text(&beside, self.env) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && beside != Path::new(file) => {
                read_text(Path::new(file), self.env).map(|text| (PathBuf::from(file), text))
            }
            result => result.map(|text| (beside, text)),
        }
    }
}

fn raw_option(key: &str, value: Option<&str>, origin: Origin) -> RawOption {
    RawOption { key: key.to_owned(), value: value.map(str::to_owned), origin }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<Line<'_>> {
        lines(text).next().map(|(_, line)| line)
    }

    fn option<'a>(key: &'a str, value: Option<&'a str>) -> Option<Line<'a>> {
        Some(Line::Option { key, value })
    }

    #[test]
    fn comments_start_anywhere() {
        assert_eq!(one("; all of it"), None);
        assert_eq!(one("  # all of it"), None);
        assert_eq!(one("bs=4k ; rest"), option("bs", Some("4k")));
        assert_eq!(one("iodepth=2;x"), option("iodepth", Some("2")));
        assert_eq!(one("filename=a#b;c"), option("filename", Some("a")));
        assert_eq!(one("[a];c"), Some(Line::Section("a")));
    }

    #[test]
    fn blanks_around_lines_and_equals_signs_are_ignored() {
        assert_eq!(one("  rw = read \t"), option("rw", Some("read")));
        assert_eq!(one("\ttime_based\t"), option("time_based", None));
        assert_eq!(one("size="), option("size", Some("")));
        assert_eq!(one("a=b=c"), option("a", Some("b=c")));
        assert_eq!(one("=4"), option("", Some("4")));
    }

    #[test]
    fn section_names_extend_to_the_last_bracket() {
        assert_eq!(one("[a b]"), Some(Line::Section("a b")));
        assert_eq!(one("[a]b]"), Some(Line::Section("a]b")));
        assert_eq!(one("[a] trailing"), Some(Line::BadSection("[a] trailing")));
        assert_eq!(one("[a"), Some(Line::BadSection("[a")));
        assert_eq!(one("[]"), Some(Line::BadSection("[]")));
    }

    #[test]
    fn includes_name_a_file() {
        assert_eq!(one("include  a b.fio "), Some(Line::Include("a b.fio")));
        assert_eq!(one("include"), option("include", None));
        assert_eq!(one("includes=1"), option("includes", Some("1")));
    }

    #[test]
    fn lines_are_numbered_from_one_with_any_line_ending() {
        let numbers: Vec<u32> =
            lines("\r\n[a]\r\n\r\nbs=4k\r\n").map(|(number, _)| number).collect();
        assert_eq!(numbers, [2, 4]);
        assert_eq!(one("\u{feff}[a]"), Some(Line::Section("a")));
    }
}
