//! Records a run as a trace: fio's iolog (version 3) or blkparse's output.
//!
//! The lines depend on the I/Os and their submission times alone, so a replay at the same times is
//! recorded as the same bytes.
use crate::generate::Io;
use crate::job::RecordFormat;
use crate::trace::{blkparse, iolog};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use zonal_blk::{Nanos, Op};

/// A recording, opened before the run and taken by the runner.
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

/// Writes the lines.
pub(crate) struct Recorder {
    out: Box<dyn Write + Send>,
    format: RecordFormat,
    /// The device's name, the file name of iologs.
    file: String,
    /// The job's name, the process name of blkparse.
    process: String,
    /// Zone size in bytes; 0 without zones.
    zone_size: u64,
    /// Number of blkparse events so far.
    sequence: u64,
    last: Nanos,
    result: io::Result<()>,
    /// Where the result goes.
    recording: Option<Arc<Recording>>,
}

impl Recording {
    /// A recording of a clone of job `job` on the device `device` to `out`. Blanks in the names become
    /// underscores, as they separate the words of a line. `zone_size` is in bytes.
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

    /// Starts the recording: returns the recorder, once.
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

    /// The result of the recording.
    ///
    /// # Errors
    /// The first write error.
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

    /// Records an I/O that is submitted `at` after the start of the job.
    pub(crate) fn record(&mut self, at: Nanos, io: &Io) {
        self.last = at;
        match self.format {
            RecordFormat::Iolog => self.iolog(at, io),
            RecordFormat::Blkparse => self.blkparse(at, io),
        }
    }

    /// Operations without a name in iologs are left out; a zone reset is a trim, as in fio.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{BlkparseAction, DataDir};
    use crate::trace::read;
    use zonal_blk::BioFlags;

    #[test]
    fn recorded_traces_parse_to_the_recorded_io() {
        let file = std::env::temp_dir().join(format!("zonal-record-{}", std::process::id()));
        let io =
            |op, offset, len, flags| Io { op, dir: DataDir::Write, offset, len, zone: None, flags };
        let done = [
            (Nanos(1_234), io(Op::Write, 4096, 512, BioFlags::FUA)),
            (Nanos(2_000), io(Op::Read, 0, 4096, BioFlags::NONE)),
            (Nanos(2_000), io(Op::Flush, 0, 0, BioFlags::NONE)),
            (Nanos(5_000_000_001), io(Op::ZoneReset, 1 << 20, 0, BioFlags::NONE)),
        ];
        for (format, times) in [
            (RecordFormat::Iolog, [1_000, 2_000, 2_000, 5_000_000_000]),
            (RecordFormat::Blkparse, [1_234, 2_000, 2_000, 5_000_000_001]),
        ] {
            let out = Box::new(std::fs::File::create(&file).expect("a file"));
            let recording = Recording::new(out, format, "null:a, b", "the job", 1 << 20);
            let mut recorder = recording.take().expect("taken once");
            assert!(recording.take().is_none());
            done.iter().for_each(|(at, io)| recorder.record(*at, io));
            recorder.finish();
            recording.result().expect("written");
            let text = std::fs::read_to_string(&file).expect("written");
            let action = BlkparseAction::Queue;
            let (_, trace) = read("t", &mut text.as_bytes(), action).expect("a trace");
            assert_eq!(trace.requests.iter().map(|it| it.at.0).collect::<Vec<_>>(), times);
            let ops: Vec<Op> = trace.requests.iter().map(|it| it.op).collect();
            let reset = if format == RecordFormat::Iolog { Op::Discard } else { Op::ZoneReset };
            assert_eq!(ops, [Op::Write, Op::Read, Op::Flush, reset]);
        }
        std::fs::remove_file(&file).expect("removed");
    }
}
