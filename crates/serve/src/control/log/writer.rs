//! Writes lines on a thread of its own: a thread that logs never waits for the reader of the log.
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use zonal_os::poll::retry;

/// Most lines that wait to be written.
const QUEUE_LEN: usize = 1024;
/// How long [`Writer::flush`] waits at most.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
const FLUSH_RETRY_INTERVAL: Duration = Duration::from_millis(5);

enum Entry {
    Line(String),
    /// Dropped when all lines before it have been written.
    Flush(SyncSender<()>),
}

/// A queue of lines, and the thread that writes them.
#[derive(Clone)]
pub(super) struct Writer(SyncSender<Entry>);

impl Writer {
    /// Writes to `out`; lines that it refuses are lost.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, entries) = sync_channel(QUEUE_LEN);
        let write = move || write_all(entries, out);
        thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok(Writer(sender))
    }

    /// Queues a line. Returns false if the queue is full.
    pub fn write(&self, line: String) -> bool {
        self.0.try_send(Entry::Line(line)).is_ok()
    }

    /// Waits until the lines so far have been written, or for a second if nobody reads them.
    pub fn flush(&self) {
        let (done, is_done) = sync_channel(0);
        let queued = retry(FLUSH_RETRY_INTERVAL, FLUSH_TIMEOUT, || {
            self.0.try_send(Entry::Flush(done.clone())).ok()
        });
        drop(done);
        if queued.is_some() {
            let _ = is_done.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn write_all(entries: Receiver<Entry>, mut out: impl Write) {
    for entry in entries {
        match entry {
            // If nobody can read the log, there is nobody to tell.
            Entry::Line(line) => drop(out.write_all(line.as_bytes())),
            Entry::Flush(done) => drop(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, mpsc};

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Blocks until its sender is dropped.
    struct Blocked(mpsc::Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn flushed_lines_are_written_in_order() {
        let out = SharedBuffer::default();
        let writer = Writer::start(out.clone()).expect("a thread");
        assert!(writer.write("a\n".to_owned()) && writer.write("b\n".to_owned()));
        writer.flush();
        assert_eq!(*out.0.lock().expect("no panic"), b"a\nb\n");
    }

    #[test]
    fn full_queue_refuses_lines_and_does_not_block() {
        let (_open, blocked) = mpsc::channel();
        let writer = Writer::start(Blocked(blocked)).expect("a thread");
        // One may be with the thread already.
        let taken = (0..2 * QUEUE_LEN).filter(|_| writer.write(String::from("x"))).count();
        assert!((QUEUE_LEN..=QUEUE_LEN + 1).contains(&taken), "{taken}");
        writer.flush();
    }
}
