//! Writing a log while the device is in use. The threads that do I/O copy what they write to memory; a
//! thread of the writer recognises blocks, compresses and writes them. At most [`QUEUED`] full batches
//! wait for it, then I/O waits.
use super::batch::{Batch, Frames, Totals};
use super::event::{BlockRun, Command, Event};
use super::header::Header;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Full batches that wait to be written.
const QUEUED: usize = 64;

/// A log that is being written.
pub struct Writer {
    lba: usize,
    batch: Batch,
    /// `None` once the log could not be written.
    sender: Option<SyncSender<Batch>>,
    used: Receiver<Batch>,
    thread: JoinHandle<io::Result<Totals>>,
}

impl Writer {
    /// Creates the file of a log.
    ///
    /// # Errors
    /// It cannot be created or written.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        header.write(&mut file)?;
        file.flush()?;
        let lba = header.geometry().lba as usize;
        let (sender, batches) = sync_channel(QUEUED);
        let (used_sender, used) = channel();
        let frames = Frames::new(file, lba)?;
        let thread = thread::Builder::new()
            .name("crash-log".to_owned())
            .spawn(move || frames.run(&batches, &used_sender))?;
        Ok(Writer { lba, batch: Batch::default(), sender: Some(sender), used, thread })
    }

    /// Adds the blocks of `data` to a command, whose event is the next to be added.
    pub fn add_blocks(&mut self, command: &mut Command, data: &[u8]) {
        self.batch.add_blocks(command, data, self.lba);
    }

    /// Adds so many bytes of zeroes to a command.
    pub fn add_zeroes(&mut self, command: &mut Command, bytes: u64) {
        let len = u32::try_from(bytes / self.lba as u64).expect("no longer than a command");
        command.push_blocks(BlockRun { first: 0, len });
    }

    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        self.batch.add(event);
        if self.batch.is_full() {
            let next = self.used.try_recv().unwrap_or_default();
            let batch = std::mem::replace(&mut self.batch, next);
            self.send(batch);
        }
    }

    fn send(&mut self, batch: Batch) {
        if self.sender.as_ref().is_some_and(|sender| sender.send(batch).is_err()) {
            self.sender = None;
        }
    }

    /// Writes what is left, and the footer. The log is whole then.
    ///
    /// # Errors
    /// Part of the log could not be written.
    pub fn finish(mut self) -> io::Result<Totals> {
        let last = std::mem::take(&mut self.batch);
        self.send(last);
        drop(self.sender);
        self.thread.join().map_err(|_| io::Error::other("the writer panicked"))?
    }
}
