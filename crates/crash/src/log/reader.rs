//! Reading a log: events in order, blocks by their number.
use super::LogError;
use super::event::Event;
use super::frame::{self, FrameHeader, FrameKind};
use super::header::Header;
use crate::file;
use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, RwLock};

/// Decompressed frames of blocks that a [`Blocks`] keeps.
const KEPT_FRAMES: usize = 8;

/// A log that is open for reading.
#[derive(Clone)]
pub struct Log {
    file: Arc<File>,
    header: Arc<Header>,
    /// Where the first frame begins.
    frames_at: u64,
    /// The frames of blocks that were met, in order.
    index: Arc<RwLock<Vec<(FrameHeader, u64)>>>,
}

/// How a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With its footer.
    Whole,
    /// Without: what was recorded last is missing, from this byte of the file on.
    Truncated(u64),
}

impl Log {
    /// Opens a log.
    ///
    /// # Errors
    /// It cannot be read, or is not a log of this version.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let file = file::read(path)?;
        if !file.metadata()?.is_file() {
            return Err(LogError::NotALog);
        }
        let (header, frames_at) = Header::read(&mut BufReader::new(&file))?;
        (&file).seek(SeekFrom::Start(0))?;
        let (file, header) = (Arc::new(file), Arc::new(header));
        Ok(Log { file, header, frames_at, index: Arc::default() })
    }

    /// The properties of the recording.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Distinguishes this log from others: its length and its last bytes.
    pub(crate) fn identity(&self) -> String {
        let len = self.file.metadata().map_or(0, |file| file.len());
        let from = len.saturating_sub(1 << 16);
        let mut end = vec![0; usize::try_from(len - from).unwrap_or(0)];
        // What cannot be read now is missed when it is needed.
        let _read = self.file.read_exact_at(&mut end, from);
        format!("{len} {:032x}", twox_hash::XxHash3_128::oneshot(&end))
    }

    /// The events, from the first on.
    pub fn events(&self) -> Events {
        let at = self.frames_at;
        Events {
            log: self.clone(),
            at,
            payload: Vec::new(),
            used: 0,
            left: 0,
            number: 0,
            end: None,
        }
    }

    /// Reads blocks that events have referred to.
    pub fn blocks(&self) -> Blocks {
        Blocks { log: self.clone(), kept: Vec::new() }
    }

    fn frame_at(&self, at: u64) -> Option<FrameHeader> {
        let mut bytes = [0; frame::HEADER];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        let header = FrameHeader::decode(&bytes)?;
        let end = at + frame::HEADER as u64 + u64::from(header.stored);
        (end <= self.file.metadata().ok()?.len()).then_some(header)
    }

    fn payload(&self, header: &FrameHeader, at: u64) -> Option<Vec<u8>> {
        let mut stored = vec![0; header.stored as usize];
        self.file.read_exact_at(&mut stored, at + frame::HEADER as u64).ok()?;
        frame::decompress(header, &stored)
    }

    fn meet(&self, header: FrameHeader, at: u64) {
        let mut index = self.index.write().expect("no thread panics with the index locked");
        if index.last().is_none_or(|(last, _)| last.first < header.first) {
            index.push((header, at));
        }
    }
}

/// The events of a log, as far as it is intact.
pub struct Events {
    log: Log,
    /// The next frame.
    at: u64,
    /// Events of the current frame.
    payload: Vec<u8>,
    used: usize,
    /// Events left in it.
    left: u32,
    /// Events so far.
    number: u64,
    end: Option<End>,
}

impl Events {
    /// How the log ended, once there are no more events.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The number of events so far.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Goes to the next frame of events. False at the end.
    fn next_frame(&mut self) -> bool {
        while let Some(header) = self.log.frame_at(self.at) {
            let at = self.at;
            self.at += frame::HEADER as u64 + u64::from(header.stored);
            match header.kind {
                FrameKind::Blocks | FrameKind::RawBlocks => self.log.meet(header, at),
                FrameKind::Footer => {
                    self.end = Some(End::Whole);
                    return false;
                }
                FrameKind::Events => {
                    let Some(payload) = self.log.payload(&header, at) else {
                        self.at = at;
                        break;
                    };
                    (self.payload, self.used, self.left) = (payload, 0, header.count);
                    return true;
                }
            }
        }
        self.end = Some(End::Truncated(self.at));
        false
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        while self.left == 0 {
            if self.end.is_some() || !self.next_frame() {
                return None;
            }
        }
        let mut rest = &self.payload[self.used..];
        let Some(event) = Event::decode(&mut rest) else {
            self.left = 0;
            self.end = Some(End::Truncated(self.at));
            return None;
        };
        self.used = self.payload.len() - rest.len();
        self.left -= 1;
        self.number += 1;
        Some(event)
    }
}

/// Reads blocks by their numbers.
pub struct Blocks {
    log: Log,
    /// Frames that were used last, the latest at the end.
    kept: Vec<(FrameHeader, Vec<u8>)>,
}

impl Blocks {
    /// Reads a block that an event has referred to.
    ///
    /// # Errors
    /// The log does not have it, or its frame is damaged.
    pub fn read(&mut self, number: u64, to: &mut [u8]) -> Result<(), LogError> {
        if number == 0 {
            to.fill(0);
            return Ok(());
        }
        let has = |header: &FrameHeader| {
            number.checked_sub(header.first).is_some_and(|at| at < header.count.into())
        };
        match self.kept.iter().position(|(header, _)| has(header)) {
            Some(at) => self.kept[at..].rotate_left(1),
            None => {
                let index = self.log.index.read().expect("no thread panics with the index locked");
                let after = index.partition_point(|(header, _)| header.first <= number);
                let found = after.checked_sub(1).map(|at| index[at]);
                drop(index);
                let (header, at) =
                    found.filter(|(header, _)| has(header)).ok_or(LogError::Block(number))?;
                let payload = self.log.payload(&header, at).ok_or(LogError::Block(number))?;
                if self.kept.len() == KEPT_FRAMES {
                    self.kept.remove(0);
                }
                self.kept.push((header, payload));
            }
        }
        let (header, payload) = self.kept.last().expect("it was just put there");
        let at = usize::try_from(number - header.first).map_err(io::Error::other)? * to.len();
        let block = payload.get(at..at + to.len()).ok_or(LogError::Block(number))?;
        to.copy_from_slice(block);
        Ok(())
    }
}
