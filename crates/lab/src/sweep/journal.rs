//! Results in a file, so that a sweep that was interrupted goes on where it stopped.
//!
//! One line of JSON for each result, with a key made of everything that the result depends on: a file
//! serves other sweeps too, and what has changed since is measured anew.
use super::{Measured, Sample};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The results in a file.
pub struct Journal {
    name: String,
    file: Mutex<File>,
    known: BTreeMap<String, Measured>,
}

impl Journal {
    /// Reads the results in a file, which is created if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written, or is something else.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let opened = zonal_os::output_file::open(&options, path);
        let mut file = opened.with_context(|| name.clone())?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| name.clone())?;
        // A process that was killed may have left a part of a line.
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let mut known = BTreeMap::new();
        for (line, result) in (1..).zip(text[..complete].lines()) {
            let (key, measured) = parse(result)
                .with_context(|| format!("{name}:{line}: found no result of a sweep"))?;
            known.insert(key, measured);
        }
        if complete == 0 && !text.is_empty() && !text.starts_with('{') {
            bail!("{name}:1: found no result of a sweep");
        }
        file.set_len(complete as u64).with_context(|| name.clone())?;
        Ok(Journal { name, file: Mutex::new(file), known })
    }

    /// The result of this key.
    pub fn get(&self, key: &str) -> Option<&Measured> {
        self.known.get(key)
    }

    /// Adds a result. `about` is for people who read the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&self, key: &str, about: &str, measured: &Measured) -> Result<()> {
        let mut line = match measured {
            Ok(sample) => json!({ "key": key, "about": about, "sample": sample.to_exact_json() }),
            Err(failure) => json!({ "key": key, "about": about, "failure": failure }),
        }
        .to_string();
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).with_context(|| self.name.clone())
    }
}

fn parse(line: &str) -> Option<(String, Measured)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let key = value["key"].as_str()?.to_owned();
    let measured = match value["failure"].as_str() {
        Some(failure) => Err(failure.to_owned()),
        None => Ok(Sample::from_json(&value["sample"])?),
    };
    Some((key, measured))
}

#[cfg(test)]
mod tests {
    use super::super::JobFigures;
    use super::*;
    use std::fs;

    fn sample(seed: u64) -> Sample {
        Sample {
            seed,
            iops: 1.5,
            bytes: 390_167_813.953_488_35,
            latencies: [1, 2, 3],
            jobs: vec![JobFigures {
                job: "r".to_owned(),
                direction: "read".to_owned(),
                iops: 1.25,
                bytes: 390_167_813.953_488_35,
                latencies: [1, 2, 4],
            }],
            settling: None,
            without_io: vec!["job r: no I/O was done: \"none\"".to_owned()],
            reads_of_nothing: vec!["job s".to_owned(), "job t".to_owned()],
        }
    }

    #[test]
    fn results_are_read_back_as_they_were_and_a_torn_line_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let journal = Journal::open(&path).unwrap();
        journal.add("a", "x", &Ok(sample(7))).unwrap();
        journal.add("b", "y", &Err("job z: I/O error".to_owned())).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"key\":\"c"].concat()).unwrap();
        let again = Journal::open(&path).unwrap();
        assert_eq!(again.get("a"), Some(&Ok(sample(7))));
        assert_eq!(again.get("b"), Some(&Err("job z: I/O error".to_owned())));
        assert_eq!(again.get("c"), None);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn other_files_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("letter");
        for text in ["Dear reader,\nhello\n", "Dear reader"] {
            fs::write(&path, text).unwrap();
            let error = format!("{:#}", Journal::open(&path).err().expect("it is no journal"));
            assert!(error.ends_with("letter:1: found no result of a sweep"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
