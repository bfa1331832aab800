//! Sections of job files, with what they include.
//!
//! Takes files; gives their sections in order, each option with its place. Keeps true: including
//! ends, because no file may be inside itself and the depth is limited.
use super::environment::Environment;
use super::error::{JobError, Origin};
use super::lexer::{Line, lines};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files inside one another; more is an accident.
const MAX_DEPTH: usize = 16;

/// The section that sets defaults for those after it.
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
    pub(super) given: Vec<RawOption>,
}

impl Section {
    pub(super) fn is_global(&self) -> bool {
        self.name == GLOBAL
    }
}

/// The sections of the job file at `path`.
pub(super) fn read_file(path: &Path, source: &dyn Environment) -> Result<Vec<Section>, JobError> {
    let shown = path.display().to_string();
    let text =
        text_of(path, source).map_err(|error| JobError::Read { file: shown.clone(), error })?;
    let shown = if shown == "-" { "standard input" } else { &shown };
    Reader { source, stack: vec![path.to_owned()] }.sections(shown, &text)
}

/// The sections of `text`, which is called `name`.
pub(super) fn read(
    name: &str,
    text: &str,
    source: &dyn Environment,
) -> Result<Vec<Section>, JobError> {
    Reader { source, stack: vec![PathBuf::from(name)] }.sections(name, text)
}

fn text_of(path: &Path, source: &dyn Environment) -> io::Result<String> {
    String::from_utf8(source.read(path)?).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not valid UTF-8"))
    })
}

struct Reader<'a> {
    source: &'a dyn Environment,
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
                    sections.push(Section { name: name.to_owned(), origin, given: Vec::new() });
                }
                (Line::BadSection(found), _) => {
                    return Err(JobError::Section { origin, found: found.to_owned() });
                }
                (Line::Include(file), Some(section)) => {
                    self.include(file, &origin, &mut section.given)?;
                }
                (Line::Option { key, value }, Some(section)) => {
                    section.given.push(given(key, value, origin));
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
                Line::Option { key, value } => into.push(given(key, value, origin)),
            }
        }
        self.stack.pop();
        Ok(())
    }

    /// Reads an included file: beside the including one, or else, as fio does it, from the current
    /// folder.
    fn find(&self, file: &str) -> io::Result<(PathBuf, String)> {
        let including = self.stack.last().and_then(|path| path.parent());
        let beside = including.unwrap_or(Path::new("")).join(file);
        match text_of(&beside, self.source) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && beside != Path::new(file) => {
                text_of(Path::new(file), self.source).map(|text| (PathBuf::from(file), text))
            }
            result => result.map(|text| (beside, text)),
        }
    }
}

fn given(key: &str, value: Option<&str>, origin: Origin) -> RawOption {
    RawOption { key: key.to_owned(), value: value.map(str::to_owned), origin }
}
