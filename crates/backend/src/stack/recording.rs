//! The log of what changes a device, for the crash lab.
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempPath;
use zonal_crash::Recorder;
use zonal_crash::log::Header;
use zonal_os::output_file::refuse_fifo;

/// The log cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot write the log", file.display())]
pub struct RecordingError {
    file: PathBuf,
    source: io::Error,
}

/// The recording of a device, which has no file before it starts.
pub struct Recording {
    /// The recorder.
    pub recorder: Arc<Recorder>,
    pub(super) header: Header,
    pub(super) log: PathBuf,
}

impl Recording {
    fn failed(&self, source: io::Error) -> RecordingError {
        RecordingError { file: self.log.clone(), source }
    }

    /// Creates the file and starts to record. A run that is refused before makes no file, and leaves one
    /// from an earlier run as it is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start(&self) -> Result<(), RecordingError> {
        let started = self.recorder.start(&self.log, &self.header);
        started.map_err(|source| self.failed(source))
    }

    /// Records what follows to a file beside the log, which [`UnnamedLog::keep`] makes the log.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start_unnamed(&self) -> Result<UnnamedLog, RecordingError> {
        let dir = self.log.parent().filter(|dir| !dir.as_os_str().is_empty());
        let file = || {
            let mut named = tempfile::Builder::new();
            named.prefix(".zonal-record-").tempfile_in(dir.unwrap_or(Path::new(".")))
        };
        let started = refuse_fifo(&self.log).and_then(|()| file()).and_then(|file| {
            let path = file.into_temp_path();
            self.recorder.start(&path, &self.header)?;
            Ok(UnnamedLog { path, log: self.log.clone() })
        });
        started.map_err(|source| self.failed(source))
    }

    /// Ends the recording: its log is whole then.
    ///
    /// # Errors
    /// Part of it could not be written.
    pub fn finish(&self) -> Result<(), RecordingError> {
        self.recorder.finish().map(drop).map_err(|source| self.failed(source))
    }
}

/// A log that has no name yet: an older one stays as it is until then.
pub struct UnnamedLog {
    path: TempPath,
    log: PathBuf,
}

impl UnnamedLog {
    /// Gives the log its name.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn keep(self) -> Result<(), RecordingError> {
        let UnnamedLog { path, log } = self;
        path.persist(&log).map_err(|error| RecordingError { file: log, source: error.error })
    }
}
