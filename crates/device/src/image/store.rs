//! The operations that an image needs of its file. Real files are in `zonal-backend`; tests have one that loses and
//! tears writes that were not synced.
use std::io;
use std::os::fd::RawFd;
use zonal_blk::{Buf, Tag};

/// A file that can be read at any address.
pub trait ReadAt {
    /// Fills `to` from byte `at` on; with zeroes beyond the end.
    ///
    /// # Errors
    /// The errors of the file.
    fn read(&self, at: u64, to: &mut [u8]) -> io::Result<()>;

    /// Its length in bytes.
    ///
    /// # Errors
    /// The errors of the file.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    ///
    /// # Errors
    /// The errors of the file.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// The file of an image. All calls are synchronous.
pub trait ImageStore: ReadAt + Send + Sync {
    /// Writes all of `from` at byte `at`.
    ///
    /// # Errors
    /// The errors of the file; how much was written is then unknown.
    fn write(&self, at: u64, from: &[u8]) -> io::Result<()>;

    /// Makes everything done before durable.
    ///
    /// # Errors
    /// The errors of the file; what is durable is then unknown.
    fn sync(&self) -> io::Result<()>;

    /// Reserves space for later writes, which makes them faster. Existing data stay.
    ///
    /// # Errors
    /// No space, or not supported by the file system; neither does harm.
    fn reserve(&self, at: u64, len: u64) -> io::Result<()>;

    /// Makes a range read as zeroes, and frees its space where the file system can do that.
    ///
    /// # Errors
    /// The errors of the file.
    fn discard(&self, at: u64, len: u64) -> io::Result<()>;

    /// Truncates the file to `len` bytes, if it is longer.
    ///
    /// # Errors
    /// The errors of the file.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Opens `len` bytes from `at` on, which are in the file, for stores that survive the process.
    ///
    /// # Errors
    /// There are none in this kind of file.
    fn share(&self, _at: u64, _len: u64) -> io::Result<Box<dyn SharedWords>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A number for the time since the machine got its power.
    fn boot(&self) -> [u8; 16] {
        [0; 16]
    }

    /// Opens a ring for up to `depth` transfers at the same time.
    ///
    /// # Errors
    /// Why there is none.
    fn open_ring(&self, depth: u16) -> io::Result<Box<dyn Ring>>;
}

/// A part of a file that is written word by word, without a call for each. What was stored is in the file when
/// the process ends, however it does; a sync makes it durable.
pub trait SharedWords: Send + Sync {
    /// Stores words of 64 bits, little-endian, from word `first` on, one after the other. Nobody else stores to them
    /// at the same time.
    ///
    /// # Errors
    /// The file has lost them.
    fn store(&self, first: usize, words: &[u64]) -> io::Result<()>;
}

/// A transfer between buffers and a range of the file.
#[derive(Debug)]
pub struct Transfer {
    /// Identifies the transfer in its ring.
    pub tag: Tag,
    /// A write: from the buffers to the file.
    pub write: bool,
    /// First byte in the file.
    pub at: u64,
    /// Bytes to transfer; no more than the buffers have.
    pub len: usize,
    /// The buffers, one after the other.
    pub bufs: Vec<Buf>,
}

/// Transfers in flight. Used by one thread at a time.
pub trait Ring: Send {
    /// Queues a transfer, which starts with the next [`Ring::poll`] at the latest. Its tag is below
    /// the depth that the ring was opened with, and none that is in use.
    fn start(&mut self, transfer: Transfer);

    /// Starts what is queued.
    fn submit(&mut self) {}

    /// The buffers of a write in flight, which may be read meanwhile.
    ///
    /// # Panics
    /// If the tag is not that of a write in flight.
    fn write_bufs(&self, tag: Tag) -> &[Buf];

    /// Moves completed transfers to the end of `completed`, each with the number of bytes that were
    /// transferred. Never blocks.
    fn poll(&mut self, completed: &mut Vec<(Transfer, io::Result<usize>)>);

    /// A descriptor that becomes readable when a transfer completes. `None` if the ring has to be
    /// polled instead.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }
}

/// A store for tests.
#[cfg(test)]
pub(super) mod testing {
    use super::{ImageStore, ReadAt, Ring};
    use std::io;
    use std::sync::Mutex;

    #[derive(Default)]
    pub struct Contents {
        pub bytes: Vec<u8>,
        pub writes: usize,
        pub syncs: usize,
    }

    /// A file in memory that counts writes and syncs.
    #[derive(Default)]
    pub struct Memory(pub Mutex<Contents>);

    impl ReadAt for Memory {
        fn read(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
            let file = self.0.lock().unwrap();
            let at = usize::try_from(at).unwrap().min(file.bytes.len());
            let len = to.len().min(file.bytes.len() - at);
            to[..len].copy_from_slice(&file.bytes[at..at + len]);
            to[len..].fill(0);
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().bytes.len() as u64)
        }
    }

    impl ImageStore for Memory {
        fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
            let mut file = self.0.lock().unwrap();
            let at = usize::try_from(at).unwrap();
            if file.bytes.len() < at + from.len() {
                file.bytes.resize(at + from.len(), 0);
            }
            file.bytes[at..at + from.len()].copy_from_slice(from);
            file.writes += 1;
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            self.0.lock().unwrap().syncs += 1;
            Ok(())
        }

        fn reserve(&self, _at: u64, _len: u64) -> io::Result<()> {
            Ok(())
        }

        fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&self, _len: u64) -> io::Result<()> {
            Ok(())
        }

        fn open_ring(&self, _depth: u16) -> io::Result<Box<dyn Ring>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}
