//! The file of an image: locked against other processes while it is open, and accessed with direct
//! I/O where the file system has it.
use super::OpenError;
use super::ring::ImageRing;
use super::shared::share;
use rustix::fs::{
    FallocateFlags, FlockOperation, OFlags, fallocate, fcntl_setfl, fdatasync, flock,
};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zonal_blk::Buf;
use zonal_device::image::{ImageStore, ReadAt, Ring, SharedWords};
use zonal_os::poll::retry;

/// An alignment in memory that is enough for direct I/O, in bytes.
const PAGE: usize = 4096;
/// Bytes of zeroes to write at a time where holes cannot be punched.
const ZERO_CHUNK: u64 = 1 << 20;

/// How long another process may hold the lock before that is an error.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The file of an image.
pub struct ImageFile {
    file: Arc<File>,
    direct: bool,
}

/// Locks a file for as long as it is open, exclusively or shared. Retries for a time: the io_uring
/// of a process that was killed holds the file until the kernel has torn it down.
fn lock(file: &File, write: bool) -> Result<(), OpenError> {
    let operation = if write {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    let locked = retry(LOCK_RETRY_INTERVAL, LOCK_TIMEOUT, || match flock(file, operation) {
        Err(rustix::io::Errno::WOULDBLOCK) => None,
        result => Some(result),
    });
    match locked {
        None => Err(OpenError::InUse),
        Some(result) => result.map_err(|error| OpenError::File(error.into())),
    }
}

impl ImageFile {
    /// Creates an empty file that only its owner can read and write.
    ///
    /// # Errors
    /// The file exists, or cannot be created.
    pub fn create(path: &Path) -> Result<Self, OpenError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenError::Exists,
            _ => OpenError::File(error),
        })?;
        lock(&file, true)?;
        Ok(ImageFile { file: Arc::new(file), direct: false })
    }

    /// Opens a file for reading, and if `write` also for writing.
    ///
    /// # Errors
    /// It does not exist, cannot be opened, or is locked by another process.
    pub fn open(path: &Path, write: bool) -> Result<Self, OpenError> {
        let mut options = OpenOptions::new();
        // A FIFO would wait for its other end.
        options.read(true).write(write).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => OpenError::Missing,
            _ => OpenError::File(error),
        })?;
        let kind = file.metadata().map_err(OpenError::File)?.file_type();
        if !kind.is_file() {
            return Err(OpenError::File(io::Error::other("it is not a regular file")));
        }
        lock(&file, write)?;
        Ok(ImageFile { file: Arc::new(file), direct: false })
    }

    /// Switches to direct I/O, if the file system has it in units of `lba` bytes. Returns a notice for
    /// the user if it has not.
    pub fn try_direct_io(&mut self, lba: u32) -> Option<String> {
        let mut probe = Buf::zeroed(lba as usize);
        self.direct = fcntl_setfl(&*self.file, OFlags::DIRECT).is_ok()
            && self.file.read_exact_at(&mut probe, lba.into()).is_ok();
        if self.direct {
            return None;
        }
        // Where the flag was refused there is nothing to undo.
        let _plain = fcntl_setfl(&*self.file, OFlags::empty());
        Some(format!(
            "no direct I/O in blocks of {lba} bytes on this file system: data go through the page \
             cache"
        ))
    }

    /// Whether I/O is direct.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// The open file.
    pub fn handle(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    fn zero(&self, mut at: u64, end: u64) -> io::Result<()> {
        let zeroes = Buf::zeroed(usize::try_from(ZERO_CHUNK.min(end - at)).unwrap_or(PAGE));
        while at < end {
            let len = (end - at).min(zeroes.len() as u64);
            self.write(at, &zeroes[..usize::try_from(len).unwrap_or(PAGE)])?;
            at += len;
        }
        Ok(())
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        // The kernel tears rings, which hold the file, down some time after they are closed.
        let _unlocked = flock(&*self.file, FlockOperation::Unlock);
    }
}

impl ReadAt for ImageFile {
    fn read(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        if self.direct && !to.as_ptr().addr().is_multiple_of(PAGE) {
            let mut aligned = Buf::zeroed(to.len());
            self.read(at, &mut aligned)?;
            to.copy_from_slice(&aligned);
            return Ok(());
        }
        let mut done = 0;
        while done < to.len() {
            match self.file.read_at(&mut to[done..], at + done as u64) {
                Ok(0) => {
                    to[done..].fill(0);
                    break;
                }
                Ok(len) => done += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl ImageStore for ImageFile {
    fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
        if self.direct && !from.as_ptr().addr().is_multiple_of(PAGE) {
            return self.file.write_all_at(&Buf::from(from), at);
        }
        self.file.write_all_at(from, at)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fdatasync(&*self.file)?)
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(&*self.file, FallocateFlags::empty(), at, len)?)
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        let end = (at + len).min(self.len()?);
        if at >= end {
            return Ok(());
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&*self.file, punch, at, end - at) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP) => self.zero(at, end),
            Err(error) => Err(error.into()),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        if self.len()? > len { self.file.set_len(len) } else { Ok(()) }
    }

    fn share(&self, at: u64, len: u64) -> io::Result<Box<dyn SharedWords>> {
        share(&self.file, at, len)
    }

    /// From what the kernel chooses when it starts; zeroes if it does not say.
    fn boot(&self) -> [u8; 16] {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        zonal_os::uuid::parse(text.trim()).unwrap_or_default()
    }

    fn open_ring(&self, depth: u16) -> io::Result<Box<dyn Ring>> {
        Ok(Box::new(ImageRing::new(self.handle(), depth)?))
    }
}
