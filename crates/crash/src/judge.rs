//! The judge of a state: a command of the user, or an oracle.
use crate::content::Content;
use crate::error::CheckError;
use crate::image::MakeError;
use crate::log::{Event, Log};
use crate::process::CheckProcess;
use crate::synced::{SyncMark, Synced};
pub use crate::verdict::Judgement;
use std::path::Path;

/// A state that is to be judged.
pub struct Case<'a> {
    /// As text.
    pub state: &'a str,
    /// Its image.
    pub image: &'a Path,
    /// A file with the marks before the loss of power, one a line, if the judge wants it.
    pub marks: &'a Path,
    /// The data that were synced.
    pub synced: &'a Synced,
    /// The recording.
    pub log: &'a Log,
}

/// Judges states, from several threads.
pub trait Judge: Send + Sync {
    /// Identifies the judge, for resuming.
    fn identity(&self) -> String;

    /// Whether it needs the file with the marks.
    fn wants_marks(&self) -> bool {
        false
    }

    /// Judges a state.
    ///
    /// # Errors
    /// The state cannot be judged at all.
    fn judge(&self, case: &Case<'_>) -> Result<Judgement, CheckError>;

    /// Whether there was anything to judge, after all states.
    ///
    /// # Errors
    /// There was nothing to judge: the text says what all states lacked.
    fn conclude(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Judge for CheckProcess {
    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn wants_marks(&self) -> bool {
        self.uses_marks()
    }

    fn judge(&self, case: &Case<'_>) -> Result<Judgement, CheckError> {
        Ok(self.run(case.state, case.image, case.marks)?)
    }
}

/// Zones as files (zonefs): none is longer than what was written to it, and none lacks what was
/// synced.
pub struct ZonefsOracle(());

impl ZonefsOracle {
    /// The oracle for a log.
    ///
    /// # Errors
    /// The log says of nothing that it was synced, or a mark is malformed.
    pub fn new(log: &Log) -> Result<Self, String> {
        match sync_marks(log)? {
            0 => {
                Err("found a log without a mark `synced`, expected one after each sync of a file; \
                      `zonal ctl SOCKET mark synced` puts one there"
                    .to_owned())
            }
            _ => Ok(ZonefsOracle(())),
        }
    }
}

impl Judge for ZonefsOracle {
    fn identity(&self) -> String {
        "oracle zonefs".to_owned()
    }

    fn judge(&self, case: &Case<'_>) -> Result<Judgement, CheckError> {
        let mut content = Content::open(case.image, case.log.header())?;
        let zones = content.zones()?;
        Ok(Judgement::of(case.synced.violation(&mut content, &zones, &mut case.log.blocks())?))
    }
}

/// Counts the marks that say that data are synced.
///
/// # Errors
/// One of them is malformed, or names a zone that the device has not.
pub fn sync_marks(log: &Log) -> Result<u64, String> {
    let zones = log.header().geometry().zones;
    let mut count = 0;
    for event in log.events() {
        let Event::Mark(text) = event else { continue };
        if let Some(mark) = SyncMark::parse(&text)? {
            if mark.zone().is_some_and(|zone| zone >= zones) {
                return Err(format!("mark `{text}`: the device has {zones} zones, from 0"));
            }
            count += 1;
        }
    }
    Ok(count)
}

/// An image that does not give its data fails the state, and is no error of the run.
///
/// # Errors
/// All other errors.
pub fn unreadable(result: Result<Judgement, MakeError>) -> Result<Judgement, CheckError> {
    match result {
        Err(error @ MakeError::Command { .. }) => Ok(Judgement::of(Some(error.to_string()))),
        other => Ok(other?),
    }
}
