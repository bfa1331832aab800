//! The results of a run so far, in a file, so that a run that was interrupted goes on from where it
//! was: a line of JSON for each state.
use crate::file;
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("--resume {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is of another run.
    #[error("--resume {}: found results of another log, check or choice of states, expected those of this one, or no file", .0.display())]
    Other(PathBuf),
}

/// The first line.
#[derive(Serialize, Deserialize, PartialEq)]
struct Identity {
    zonal_crash: String,
}

/// A line.
#[derive(Serialize, Deserialize)]
struct Entry {
    number: usize,
    verdict: Verdict,
}

/// A file to which results are added.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or creates the file. Also returns the results in it, in the order of the states.
    pub(crate) fn open(path: &Path, identity: &str) -> Result<(Self, Vec<Verdict>), JournalError> {
        let failed = |error| JournalError::Io { path: path.to_owned(), error };
        let hash = twox_hash::XxHash3_128::oneshot(identity.as_bytes());
        let identity = Identity { zonal_crash: format!("{hash:032x}") };
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let file = file::open(&options, path).map_err(failed)?;
        let mut journal = Journal { path: path.to_owned(), file };
        let mut lines = BufReader::new(journal.file.try_clone().map_err(failed)?).lines();
        let Some(first) = lines.next().transpose().map_err(failed)? else {
            journal.write(&identity)?;
            return Ok((journal, Vec::new()));
        };
        if serde_json::from_str::<Identity>(&first).ok() != Some(identity) {
            return Err(JournalError::Other(path.to_owned()));
        }
        let mut known: Vec<Entry> = Vec::new();
        for line in lines {
            let line = line.map_err(failed)?;
            // A line that an interrupted run has not finished is that of a state not checked.
            known.extend(serde_json::from_str::<Entry>(&line));
        }
        known.sort_by_key(|entry| entry.number);
        // The next line must not continue an unfinished one.
        journal.file.write_all(b"\n").map_err(failed)?;
        Ok((journal, known.into_iter().map(|entry| entry.verdict).collect()))
    }

    /// Adds the result of state `number`.
    pub(crate) fn add(&mut self, number: usize, verdict: &Verdict) -> Result<(), JournalError> {
        self.write(&Entry { number, verdict: verdict.clone() })
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), JournalError> {
        let mut line = serde_json::to_vec(line).expect("plain data");
        line.push(b'\n');
        let written = self.file.write_all(&line);
        written.map_err(|error| JournalError::Io { path: self.path.clone(), error })
    }
}
