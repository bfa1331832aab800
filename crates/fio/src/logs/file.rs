//! Files of logs.
use super::NANOS_PER_MSEC;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zonal_blk::Nanos;
use zonal_os::output_file;

/// Bytes of lines that are written at a time.
const BUFFER: usize = 32 << 10;

/// A file that the lines of one clone, or with `per_job_logs=0` of several, are appended to.
///
/// It is opened anew for each append: a run may have more logs than a process may have open files.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    /// The time in milliseconds of the clock that its times are those of, when that of the run was 0.
    clock_ms: Option<u64>,
    /// The first error.
    result: Mutex<io::Result<()>>,
}

impl LogFile {
    /// Creates the file, or empties it. `clock_ms` is the time in milliseconds of the clock that its times
    /// are to be those of, when that of the run is 0; without it they count from the start of the job.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: impl Into<PathBuf>, clock_ms: Option<u64>) -> io::Result<Arc<Self>> {
        let path = path.into();
        output_file::create(&path)?;
        Ok(Arc::new(LogFile { path, clock_ms, result: Mutex::new(Ok(())) }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all lines were written; the error is returned once.
    ///
    /// # Errors
    /// The first one.
    pub fn result(&self) -> io::Result<()> {
        let mut result = self.result.lock().expect("log lock");
        std::mem::replace(&mut *result, Ok(()))
    }

    fn append(&self, lines: &str) {
        let mut result = self.result.lock().expect("log lock");
        if result.is_ok() {
            let file = output_file::open(OpenOptions::new().append(true), &self.path);
            *result = file.and_then(|mut file| file.write_all(lines.as_bytes()));
        }
    }
}

/// Lines to be written to a file.
pub(super) struct Lines {
    file: Arc<LogFile>,
    text: String,
    /// The time of the start of the job in the file, in milliseconds.
    began_ms: u64,
}

impl Lines {
    pub fn new(file: Arc<LogFile>) -> Self {
        Lines { file, text: String::new(), began_ms: 0 }
    }

    /// The measured part of the job begins, at this time of the run.
    pub fn start(&mut self, now: Nanos) {
        let began_ms = |clock_ms| clock_ms + now.0 / NANOS_PER_MSEC;
        self.began_ms = self.file.clock_ms.map_or(0, began_ms);
    }

    /// The time in the file, from that since the start of the job, both in milliseconds.
    pub fn time(&self, elapsed: u64) -> u64 {
        self.began_ms + elapsed
    }

    /// Adds a line.
    pub fn line(&mut self, write: impl FnOnce(&mut String) -> fmt::Result) {
        write(&mut self.text).expect("a string takes all text");
        self.text.push('\n');
        if self.text.len() >= BUFFER {
            self.flush();
        }
    }

    /// Writes what has been added.
    pub fn flush(&mut self) {
        if !self.text.is_empty() {
            self.file.append(&self.text);
            self.text.clear();
        }
    }
}
