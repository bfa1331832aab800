//! Writes a run down as a trace.
//!
//! Takes each I/O as the runner submits it; gives lines of an iolog (version 3) or of blkparse's
//! output. Keeps true: what the lines say depends on the I/Os and their times alone, so a replay
//! that does the same at the same times is recorded as the same bytes.
use super::{RecordFormat, blkparse, iolog};
use crate::generate::Io;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use zonal_blk::{Nanos, Op};

/// A recording that is to be made: it is opened before the run and taken by the runner.
pub struct Recording(Mutex<State>);

enum State {
    Ready(Box<Recorder>),
    Taken,
    Ended(io::Result<()>),
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recording")
    }
}

/// What writes the lines.
pub struct Recorder {
    out: Box<dyn Write + Send>,
    format: RecordFormat,
    /// The device's name, as iologs have it.
    file: String,
    /// The job's name, as blkparse has processes.
    process: String,
    /// Bytes of the device's zones; 0 without.
    zone_size: u64,
    /// Lines of blkparse so far.
    sequence: u64,
    last: Nanos,
    result: io::Result<()>,
    /// Where the result goes.
    recording: Option<Arc<Recording>>,
}

impl Recording {
    /// A recording of a clone of job `job` on the device `device` to `out`. Blanks in the names,
    /// which separate the words of a line, become underlines.
    pub fn new(
        out: Box<dyn Write + Send>,
        format: RecordFormat,
        device: &str,
        job: &str,
        zone_size: u64,
    ) -> Arc<Self> {
        let one_word = |name: &str| name.split_whitespace().collect::<Vec<_>>().join("_");
        let recorder = Recorder {
            out,
            format,
            file: one_word(device),
            process: one_word(job),
            zone_size,
            sequence: 0,
            last: Nanos(0),
            result: Ok(()),
            recording: None,
        };
        Arc::new(Recording(Mutex::new(State::Ready(Box::new(recorder)))))
    }

    /// The recorder, once.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Box<Recorder>> {
        let mut state = self.0.lock().expect("recording lock");
        match std::mem::replace(&mut *state, State::Taken) {
            State::Ready(mut recorder) => {
                recorder.recording = Some(Arc::clone(self));
                recorder.begin();
                Some(recorder)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// How the recording ended.
    ///
    /// # Errors
    /// What the system said when something could not be written.
    pub fn result(&self) -> io::Result<()> {
        let mut state = self.0.lock().expect("recording lock");
        match &mut *state {
            State::Ended(result) => std::mem::replace(result, Ok(())),
            _ => Ok(()),
        }
    }
}

impl Recorder {
    fn begin(&mut self) {
        if self.format == RecordFormat::Iolog {
            let (header, file) = (iolog::HEADER_3, &self.file);
            let text = format!("{header}\n0 {file} add\n0 {file} open\n");
            self.write(format_args!("{text}"));
        }
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        if self.result.is_ok() {
            self.result = self.out.write_fmt(text);
        }
    }

    /// Writes down an I/O that is submitted `at` after the job's begin.
    pub(crate) fn record(&mut self, at: Nanos, io: &Io) {
        self.last = at;
        match self.format {
            RecordFormat::Iolog => self.iolog(at, io),
            RecordFormat::Blkparse => self.blkparse(at, io),
        }
    }

    /// What an iolog has no name for is left out; a zone that is reset is trimmed, as in fio.
    fn iolog(&mut self, at: Nanos, io: &Io) {
        let (action, len) = match io.op {
            Op::Read => ("read", io.len),
            Op::Write => ("write", io.len),
            Op::Discard => ("trim", io.len),
            Op::ZoneReset => ("trim", self.zone_size),
            Op::Flush => ("sync", 0),
            _ => return,
        };
        let file = std::mem::take(&mut self.file);
        self.write(format_args!("{} {file} {action} {} {len}\n", at.0 / 1000, io.offset));
        self.file = file;
    }

    fn blkparse(&mut self, at: Nanos, io: &Io) {
        let Some(rwbs) = blkparse::rwbs(io.op, io.flags) else { return };
        self.sequence += 1;
        let sequence = self.sequence;
        let sectors = match io.op {
            Op::Flush | Op::ZoneResetAll => 0,
            op if op.is_zone_management() => self.zone_size / 512,
            _ => io.len / 512,
        };
        let range = match sectors {
            0 => String::new(),
            sectors => format!("{} + {sectors} ", io.offset / 512),
        };
        let (seconds, nanos) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        let process = std::mem::take(&mut self.process);
        self.write(format_args!(
            "{:>5} {:>2} {:>8} {seconds:>5}.{nanos:09} {:>5} {:>2} {rwbs:>3} {range}[{process}]\n",
            "8,0", 0, sequence, 0, "Q"
        ));
        self.process = process;
    }

    /// The last I/O has completed.
    pub(crate) fn finish(mut self) {
        if self.format == RecordFormat::Iolog {
            let text = format!("{} {} close\n", self.last.0 / 1000, self.file);
            self.write(format_args!("{text}"));
        }
        let result = std::mem::replace(&mut self.result, Ok(())).and_then(|()| self.out.flush());
        if let Some(recording) = self.recording.take() {
            *recording.0.lock().expect("recording lock") = State::Ended(result);
        }
    }
}
