//! Writing a log while the device is in use. The threads that do I/O copy what they write to memory; a
//! thread of the writer recognises blocks, compresses and writes them. At most [`QUEUED`] full batches
//! wait for it, then I/O waits. It writes what there is after each flush of the device, and when no batch
//! was full for a second: a recording that does not end in order lacks no more than that.
use super::batch::{Batch, Frames, Totals};
use super::event::{BlockRun, Command, Event};
use super::header::Header;
use crate::file;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

/// Full batches that wait to be written.
const QUEUED: usize = 64;

/// A log that is being written.
pub struct Writer {
    lba: usize,
    /// The batch that is being filled. The thread takes it when nothing came for a while.
    batch: Arc<Mutex<Batch>>,
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
        let mut file = BufWriter::new(file::create(path)?);
        header.write(&mut file)?;
        file.flush()?;
        let lba = header.geometry().lba as usize;
        let (sender, batches) = sync_channel(QUEUED);
        let (used_sender, used) = channel();
        let frames = Frames::new(file, lba)?;
        let (batch, name) = (Arc::<Mutex<Batch>>::default(), path.display().to_string());
        let open = Arc::clone(&batch);
        let run = move || {
            let written = frames.run(&batches, &open, &used_sender);
            written.inspect_err(|error| {
                tracing::error!("{name}: cannot write the log, which ends before this: {error}");
            })
        };
        let thread = thread::Builder::new().name("crash-log".to_owned()).spawn(run)?;
        Ok(Writer { lba, batch, sender: Some(sender), used, thread })
    }

    /// Adds the blocks of `data` to a command, whose event is the next to be added.
    pub fn add_blocks(&mut self, command: &mut Command, data: &[u8]) {
        batch(&self.batch).add_blocks(command, data, self.lba);
    }

    /// Adds this many bytes of zeroes to a command.
    pub fn add_zeroes(&mut self, command: &mut Command, bytes: u64) {
        let len = u32::try_from(bytes / self.lba as u64).expect("no longer than a command");
        command.push_blocks(BlockRun { first: 0, len });
    }

    /// Adds an event.
    pub fn add(&mut self, event: Event) {
        let is_full = {
            let mut batch = batch(&self.batch);
            batch.add(event);
            batch.is_full()
        };
        if is_full {
            self.flush();
        }
    }

    /// Whether everything was handed to the thread.
    #[cfg(test)]
    pub(crate) fn is_flushed(&self) -> bool {
        batch(&self.batch).is_empty()
    }

    /// Has the thread write what there is, soon.
    pub fn flush(&mut self) {
        let next = self.used.try_recv().unwrap_or_default();
        // The lock is held until the batch is sent: the thread takes no later one before it.
        let mut batch = batch(&self.batch);
        let full = std::mem::replace(&mut *batch, next);
        if self.sender.as_ref().is_some_and(|sender| sender.send(full).is_err()) {
            self.sender = None;
        }
    }

    /// Writes what is left, and the footer. The log is whole then.
    ///
    /// # Errors
    /// Part of the log could not be written.
    pub fn finish(mut self) -> io::Result<Totals> {
        self.flush();
        drop(self.sender);
        self.thread.join().map_err(|_| io::Error::other("the writer panicked"))?
    }
}

fn batch(batch: &Mutex<Batch>) -> MutexGuard<'_, Batch> {
    batch.lock().expect("no thread panics while it fills a batch")
}
