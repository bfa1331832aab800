//! Frames of a run in a file: a line of JSON for the run, then one for each frame.
//!
//! ```text
//!  {"format":"zonal view","version":1,"title":"...","clock":"virtual","devices":[...]}
//!  {"device":0,"frame":{"at":10000000,...}}
//! ```
//!
//! A recording has a bounded number of frames: when there are too many, two become one, and later
//! ones are twice as far apart.
use super::frame::{DeviceInfo, Frame};
use super::sampler::Sampler;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use zonal_blk::Nanos;

const FORMAT: &str = "zonal view";
const VERSION: u32 = 1;
/// Most frames of a device while it is recorded; there may be as many again at the end of a phase.
const MAX_FRAMES: usize = 1024;
/// Most cells of the map of a device.
pub(super) const MAX_CELLS: u32 = 2048;
/// Time between the first frames.
const FIRST_INTERVAL: Nanos = Nanos(20_000_000);

/// Most of what a file may have: devices, frames of all devices, bytes of a line and of the file.
const MAX_DEVICES: usize = 16;
const MAX_FILE_FRAMES: usize = MAX_DEVICES * MAX_FRAMES;
const MAX_LINE: u64 = 1 << 20;
const MAX_FILE: u64 = 512 << 20;

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recording {
    /// The title of the run.
    pub title: String,
    /// `real` or `virtual`.
    pub clock: String,
    /// The devices, each with its frames in order.
    pub devices: Vec<RecordedDevice>,
}

/// A recorded device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecordedDevice {
    /// The device.
    pub info: DeviceInfo,
    /// Its frames, in order.
    pub frames: Vec<Frame>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    title: String,
    clock: String,
    devices: Vec<DeviceInfo>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    device: usize,
    frame: Frame,
}

/// Why a file is not a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Its content is wrong: the line, what was found, and what was expected.
    #[error("line {0}: {1}")]
    Line(usize, String),
}

impl Recording {
    /// Writes the recording to a file.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(zonal_os::output_file::create(path)?);
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            title: self.title.clone(),
            clock: self.clock.clone(),
            devices: self.devices.iter().map(|device| device.info.clone()).collect(),
        };
        serde_json::to_writer(&mut out, &header)?;
        for (device, recorded) in self.devices.iter().enumerate() {
            for frame in &recorded.frames {
                writeln!(out)?;
                serde_json::to_writer(&mut out, &Line { device, frame: frame.clone() })?;
            }
        }
        writeln!(out)?;
        out.flush()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read or is not a recording.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Recording::read(BufReader::new(File::open(path)?))
    }

    /// Reads a recording, which need not be one.
    ///
    /// # Errors
    /// The line, what was found there, and what was expected.
    pub fn read(input: impl BufRead) -> Result<Self, RecordingError> {
        let mut lines = Lines { input: input.take(MAX_FILE), number: 0 };
        let first = lines.next()?.unwrap_or_default();
        let (mut recording, count) = header(&first).map_err(|why| lines.error(why))?;
        let mut frames = 0;
        while let Some(text) = lines.next()? {
            frames += 1;
            let added = frame(&text, &mut recording, frames);
            added.map_err(|why| lines.error(why))?;
        }
        debug_assert_eq!(recording.devices.len(), count);
        Ok(recording)
    }
}

struct Lines<R> {
    input: io::Take<R>,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    fn error(&self, why: String) -> RecordingError {
        RecordingError::Line(self.number, why)
    }

    /// The next line that is not empty.
    fn next(&mut self) -> Result<Option<String>, RecordingError> {
        loop {
            self.number += 1;
            let mut bytes = Vec::new();
            let read = (&mut self.input).take(MAX_LINE).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return match self.input.limit() {
                    0 => Err(self.error(format!("found more than {} MiB", MAX_FILE >> 20))),
                    _ => Ok(None),
                };
            }
            if read as u64 == MAX_LINE {
                return Err(self.error(format!("found more than {MAX_LINE} bytes")));
            }
            match String::from_utf8(bytes) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => return Ok(Some(text)),
                Err(_) => {
                    let what = "found bytes that are not text, expected a recording of \
                                `zonal run --record-view`";
                    return Err(self.error(what.to_owned()));
                }
            }
        }
    }
}

fn header(text: &str) -> Result<(Recording, usize), String> {
    #[derive(Deserialize)]
    struct Format {
        format: String,
        version: u32,
    }
    let expected = "expected a recording of `zonal run --record-view`";
    let kind: Format =
        serde_json::from_str(text).map_err(|error| format!("{error}, {expected}"))?;
    if kind.format != FORMAT {
        return Err(format!("format: found {:?}, {expected}", kind.format));
    }
    if kind.version != VERSION {
        return Err(format!("version: found {}, expected {VERSION}", kind.version));
    }
    let header: Header = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let count = header.devices.len();
    if !(1..=MAX_DEVICES).contains(&count) {
        return Err(format!("devices: found {count}, expected 1 to {MAX_DEVICES}"));
    }
    for info in &header.devices {
        let cells = info.cells();
        if info.zones_per_cell == 0 || cells > MAX_CELLS as usize {
            let per_cell = info.zones_per_cell;
            return Err(format!(
                "zones_per_cell: found {per_cell} for {} zones, expected at most {MAX_CELLS} cells",
                info.zones
            ));
        }
    }
    let devices = header.devices.into_iter();
    let devices = devices.map(|info| RecordedDevice { info, frames: Vec::new() }).collect();
    Ok((Recording { title: header.title, clock: header.clock, devices }, count))
}

fn frame(text: &str, recording: &mut Recording, number: usize) -> Result<(), String> {
    if number > MAX_FILE_FRAMES {
        return Err(format!("found more than {MAX_FILE_FRAMES} frames"));
    }
    let Line { device, frame } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let count = recording.devices.len();
    let Some(recorded) = recording.devices.get_mut(device) else {
        return Err(format!("device: found {device}, expected less than {count}"));
    };
    frame.check(&recorded.info)?;
    if let Some(last) = recorded.frames.last().filter(|last| last.at > frame.at) {
        return Err(format!("at: found {} after {}, expected times in order", frame.at, last.at));
    }
    recorded.frames.push(frame);
    Ok(())
}

/// Records devices by looking at them now and then.
pub struct Recorder {
    samplers: Vec<Sampler>,
    devices: Vec<RecordedDevice>,
    interval: Nanos,
    next: Nanos,
}

impl Recorder {
    /// Records from now on.
    pub fn start(mut samplers: Vec<Sampler>) -> Self {
        samplers.truncate(MAX_DEVICES);
        samplers.iter_mut().for_each(|sampler| sampler.watch(true));
        let device =
            |sampler: &Sampler| RecordedDevice { info: sampler.info().clone(), frames: Vec::new() };
        let devices = samplers.iter().map(device).collect();
        let mut recorder = Recorder { samplers, devices, interval: FIRST_INTERVAL, next: Nanos(0) };
        recorder.sample(Nanos(0));
        recorder
    }

    /// The time when the next frame is due.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Takes a frame of each device if it is time to.
    pub fn observe(&mut self, now: Nanos) {
        if now >= self.next {
            self.sample(now);
        }
    }

    fn sample(&mut self, now: Nanos) {
        self.next = now + self.interval;
        for (sampler, device) in self.samplers.iter_mut().zip(&mut self.devices) {
            device.frames.push(sampler.sample(now));
        }
        if self.devices.iter().any(|device| device.frames.len() >= MAX_FRAMES) {
            self.interval = self.interval + self.interval;
            self.devices.iter_mut().for_each(|device| halve(&mut device.frames));
        }
    }

    /// The recording, with a last frame at `now`.
    pub fn finish(mut self, now: Nanos, title: String, clock: &str) -> Recording {
        self.sample(now);
        Recording { title, clock: clock.to_owned(), devices: self.devices }
    }
}

/// Makes one frame of two; the first remains, as it is where all begins.
fn halve(frames: &mut Vec<Frame>) {
    let mut kept = Vec::with_capacity(frames.len() / 2 + 1);
    let mut waiting: Option<Frame> = None;
    for (number, mut frame) in std::mem::take(frames).into_iter().enumerate() {
        match waiting.take() {
            _ if number == 0 => kept.push(frame),
            None => waiting = Some(frame),
            Some(before) => {
                frame.include(before);
                kept.push(frame);
            }
        }
    }
    kept.extend(waiting);
    *frames = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let info = DeviceInfo {
            name: "a".to_owned(),
            zones: 3,
            zones_per_cell: 2,
            zone_bytes: 4096,
            ..DeviceInfo::default()
        };
        let frame = |at| Frame {
            at,
            conditions: ".o".to_owned(),
            filled: "#}".to_owned(),
            written: vec![(1, at)],
            ..Frame::default()
        };
        let device = RecordedDevice { info, frames: (0..5).map(frame).collect() };
        let (title, clock) = ("a run".to_owned(), "virtual".to_owned());
        Recording { title, clock, devices: vec![device] }
    }

    fn text(recording: &Recording) -> String {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r");
        recording.write(&path).expect("written");
        std::fs::read_to_string(path).expect("text")
    }

    fn error(text: &str) -> String {
        Recording::read(text.as_bytes()).expect_err("not a recording").to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let recording = recording();
        let read = Recording::read(text(&recording).as_bytes()).expect("a recording");
        assert_eq!(read, recording);
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let good = text(&recording());
        let with = |from: &str, to: &str| error(&good.replacen(from, to, 1));
        assert!(error("").starts_with("line 1: EOF"), "{}", error(""));
        assert!(error("hello").contains("zonal run --record-view"));
        let expected = "line 1: version: found 9, expected 1";
        assert_eq!(with("\"version\":1", "\"version\":9"), expected);
        assert!(with("zonal view", "zonal log").starts_with("line 1: format: found \"zonal log\""));
        let expected = "line 2: conditions: found 1 cells, expected 2";
        assert_eq!(with("\"conditions\":\".o\"", "\"conditions\":\".\""), expected);
        assert!(with("\".o\"", "\".?\"").starts_with("line 2: conditions: found `?`"));
        assert_eq!(
            with("[[1,0]]", "[[2,0]]"),
            "line 2: written: found cell 2, expected less than 2"
        );
        let expected = "line 2: device: found 7, expected less than 1";
        assert_eq!(with("\"device\":0", "\"device\":7"), expected);
        assert!(with("\"at\":0", "\"at\":3").starts_with("line 3: at: found 1 after 3"));
        assert!(
            with("\"zones_per_cell\":2", "\"zones_per_cell\":0").starts_with("line 1: zones_per")
        );
        assert!(with("\"faults\"", "\"fault\"").starts_with("line 2: unknown field `fault`"));
    }

    #[test]
    fn halving_keeps_the_first_frame_and_what_was_written() {
        let mut frames = recording().devices.remove(0).frames;
        halve(&mut frames);
        let found: Vec<_> = frames.iter().map(|frame| (frame.at, frame.written[0].1)).collect();
        assert_eq!(found, [(0, 0), (2, 3), (4, 7)]);
    }
}
