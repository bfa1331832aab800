//! Recording: a probe around a device that writes a log of the commands that change it.
//!
//! A command is logged before the device gets it and after it is back, so in the log it is in flight
//! for at least as long as it was.
use crate::log::{Command, Event, Header, Totals, Writer};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_blk::{
    Abort, BioFlags, Device, HwQueue, Limits, Nanos, Op, Request, Sector, Status, Tag, Wake,
    ZoneExtensions, ZrwaLimits,
};
use zonal_device::control::DeviceControl;

/// A recording that is in progress.
pub struct Recorder(Mutex<State>);

struct State {
    /// `None` before the start and after the end.
    writer: Option<Writer>,
    /// Commands so far.
    commands: u64,
}

impl Recorder {
    /// A recorder that has no file yet, and records nothing until [`Recorder::start`].
    pub fn idle() -> Arc<Self> {
        Arc::new(Recorder(Mutex::new(State { writer: None, commands: 0 })))
    }

    /// Creates the file of a log, in which what follows is recorded.
    ///
    /// # Errors
    /// It cannot be created or written.
    pub fn start(&self, path: &Path, header: &Header) -> io::Result<()> {
        self.state().writer = Some(Writer::create(path, header)?);
        Ok(())
    }

    /// A recorder that has started.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub fn create(path: &Path, header: &Header) -> io::Result<Arc<Self>> {
        let recorder = Self::idle();
        recorder.start(path, header)?;
        Ok(recorder)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while it records")
    }

    /// Puts a mark into the log. Commands that completed before the call come before it.
    pub fn mark(&self, text: &str) {
        if let Some(writer) = &mut self.state().writer {
            writer.add(Event::Mark(text.to_owned()));
        }
    }

    /// Ends the recording, whether or not the device is used further. `None` if it had ended.
    ///
    /// # Errors
    /// Part of the log could not be written.
    pub fn finish(&self) -> io::Result<Option<Totals>> {
        let writer = self.state().writer.take();
        writer.map(Writer::finish).transpose()
    }

    /// Logs the start of a command, and returns its number.
    fn started(&self, request: &mut Request) -> u64 {
        let mut command = Command {
            op: request.op(),
            flags: request.flags(),
            sector: request.sector(),
            nr_sectors: request.nr_sectors(),
            blocks: Vec::new(),
        };
        let mut state = self.state();
        let id = state.commands;
        state.commands += 1;
        let Some(writer) = &mut state.writer else { return id };
        match command.op {
            Op::Write | Op::ZoneAppend => {
                request.for_each_segment(|_, nr_sectors, buf| match buf {
                    Some(buf) => writer.add_blocks(&mut command, buf),
                    None => writer.add_zeroes(&mut command, u64::from(nr_sectors) * 512),
                });
            }
            Op::WriteZeroes | Op::Discard => {
                let bytes = u64::from(command.nr_sectors) * 512;
                writer.add_zeroes(&mut command, bytes);
            }
            _ => {}
        }
        writer.add(Event::Started { id, command });
        id
    }

    /// Logs the end of a command, and after that of a flush has all so far written.
    fn ended(&self, id: u64, status: Status, landed: Sector, flushes: bool) {
        if let Some(writer) = &mut self.state().writer {
            writer.add(Event::Ended { id, status, landed });
            if flushes {
                writer.flush();
            }
        }
    }
}

/// A device whose commands are recorded.
pub struct RecordDevice {
    inner: Arc<dyn DeviceControl>,
    limits: Limits,
    recorder: Arc<Recorder>,
}

impl RecordDevice {
    /// A device around `inner`. It has no random write areas: the log tells nothing of the order in
    /// which a loss of power takes them.
    pub fn new(inner: Arc<dyn DeviceControl>, recorder: Arc<Recorder>) -> Self {
        let limits = Limits { zrwa: ZrwaLimits::NONE, ..inner.limits().clone() };
        RecordDevice { inner, limits, recorder }
    }
}

impl Device for RecordDevice {
    fn inner(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    /// None: the recorder reads what is written.
    fn external_buf_alignment(&self) -> Option<u32> {
        None
    }

    /// None: extensions are not set by commands, so the log would not have them, and no image of a
    /// state after a loss of power either.
    fn zone_extensions(&self) -> Option<&dyn ZoneExtensions> {
        None
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let inner = (Arc::clone(&self.inner) as Arc<dyn Device>).open_queue();
        let tags = usize::from(self.limits().queue_depth);
        Box::new(Queue { recorder: Arc::clone(&self.recorder), inner, ids: vec![None; tags] })
    }
}

impl DeviceControl for RecordDevice {
    fn inner_control(&self) -> Option<&dyn DeviceControl> {
        Some(&*self.inner)
    }

    /// Not supported: the log of a device has one number of zones.
    fn format_without_head(&self, _head: u32) -> Result<u32, Status> {
        Err(Status::NotSupported)
    }
}

struct Queue {
    recorder: Arc<Recorder>,
    inner: Box<dyn HwQueue>,
    /// Numbers of the recorded commands in flight, by tag.
    ids: Vec<Option<u64>>,
}

/// Whether a command can change what a loss of power leaves.
fn changes(request: &Request) -> bool {
    request.op() != Op::Read || request.flags().contains(BioFlags::PREFLUSH)
}

impl Queue {
    fn log_ended(&mut self, done: &[Box<Request>]) {
        for request in done {
            let id = self.ids.get_mut(usize::from(request.tag().0)).and_then(Option::take);
            if let Some(id) = id {
                let flushes =
                    request.op() == Op::Flush || request.flags().contains(BioFlags::PREFLUSH);
                self.recorder.ended(id, request.status(), request.sector(), flushes);
            }
        }
    }
}

impl HwQueue for Queue {
    fn inner(&self) -> Option<&dyn HwQueue> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn HwQueue> {
        Some(&mut *self.inner)
    }

    fn start(&mut self, now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        if !changes(&request) {
            return self.inner.start(now, request);
        }
        let (tag, sector) = (usize::from(request.tag().0), request.sector());
        if self.ids.len() <= tag {
            self.ids.resize(tag + 1, None);
        }
        let id = self.recorder.started(&mut request);
        self.ids[tag] = Some(id);
        self.inner.start(now, request).inspect_err(|_busy| {
            self.ids[tag] = None;
            self.recorder.ended(id, Status::Again, sector, false);
        })
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let before = done.len();
        self.inner.poll(now, done);
        self.log_ended(&done[before..]);
    }

    fn next_event(&self) -> Wake {
        self.inner.next_event()
    }

    fn abort(&mut self, now: Nanos, tag: Tag, done: &mut Vec<Box<Request>>) -> Abort {
        let before = done.len();
        let abort = self.inner.abort(now, tag, done);
        self.log_ended(&done[before..]);
        abort
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::{Bio, Buf, QueueOptions};
    use zonal_device::device_spec;

    #[test]
    fn what_was_recorded_is_written_when_the_device_is_flushed() {
        let dir = tempfile::tempdir().expect("a directory");
        let header = Header::of_disk("disk", Sector(2048), 512).expect("a disk");
        let recorder = Recorder::create(&dir.path().join("log"), &header).expect("a log");
        let spec = device_spec::parse("null:zoned=false,size=1M,lba=512,memory=true");
        let inner = device_spec::build(&spec.expect("a spec")).expect("a device");
        let device = RecordDevice::new(inner, Arc::clone(&recorder));
        let queue = zonal_blk::Queue::attach(Arc::new(device), QueueOptions::default());
        let mut channel = queue.expect("a queue").channel().expect("a hardware queue");
        let mut done = Vec::new();
        for bio in [
            Bio::write(Sector(0), Buf::from(&[1; 512][..]), 0),
            Bio::new(Op::Flush, Sector(0), 0, 1),
        ] {
            channel.submit(Nanos(0), bio);
            channel.poll(Nanos(0), &mut done);
        }
        assert_eq!(done.len(), 2);
        assert!(recorder.state().writer.as_ref().expect("it records").is_flushed());
        assert_eq!(recorder.finish().expect("a log").expect("it recorded").events, 4);
    }
}
