//! A file with an image in it.
//!
//! Takes reads, writes and the like; does them. Keeps true: it is locked against other processes
//! while it is open; what goes past the page cache is aligned as that wants it.
use super::OpenError;
use super::ring::ImageRing;
use rustix::fs::{
    FallocateFlags, FlockOperation, OFlags, fallocate, fcntl_setfl, fdatasync, flock,
};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zonal_blk::Buf;
use zonal_device::image::{ImageStore, ReadAt, Ring};

/// Direct I/O wants no coarser addresses in memory than this.
const PAGE: usize = 4096;
/// Zeroes that are written at a time where no space can be given back.
const ZERO_CHUNK: u64 = 1 << 20;

/// How long another process may hold the lock before that is an error.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// The file of an image.
pub struct ImageFile {
    file: Arc<File>,
    direct: bool,
}

/// Locks a file for as long as it is open: writers against all, readers against writers. The ring
/// of a process that was killed keeps its file until the kernel has put it away.
fn lock(file: &File, write: bool) -> Result<(), OpenError> {
    let operation = if write {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::InUse),
            Err(error) => return Err(OpenError::File(error.into())),
        }
    }
}

impl ImageFile {
    /// Makes an empty file.
    ///
    /// # Errors
    /// There is one, or none can be made.
    pub fn create(path: &Path) -> Result<Self, OpenError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenError::Exists,
            _ => OpenError::File(error),
        })?;
        lock(&file, true)?;
        Ok(ImageFile { file: Arc::new(file), direct: false })
    }

    /// Opens a file, for writing or only to be looked at.
    ///
    /// # Errors
    /// There is none, it cannot be opened, or another process has it.
    pub fn open(path: &Path, write: bool) -> Result<Self, OpenError> {
        let file = OpenOptions::new().read(true).write(write).open(path).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => OpenError::Missing,
                _ => OpenError::File(error),
            }
        })?;
        let kind = file.metadata().map_err(OpenError::File)?.file_type();
        if !kind.is_file() {
            return Err(OpenError::File(io::Error::other("it is not a regular file")));
        }
        lock(&file, write)?;
        Ok(ImageFile { file: Arc::new(file), direct: false })
    }

    /// From now on goes past the page cache, if the file system does that in units of `lba` bytes.
    /// Gives what to say if it does not.
    pub fn try_direct_io(&mut self, lba: u32) -> Option<String> {
        let mut probe = Buf::zeroed(lba as usize);
        self.direct = fcntl_setfl(&*self.file, OFlags::DIRECT).is_ok()
            && self.file.read_exact_at(&mut probe, lba.into()).is_ok();
        if self.direct {
            return None;
        }
        // Where the flag is refused there is nothing to take back.
        let _plain = fcntl_setfl(&*self.file, OFlags::empty());
        Some(format!(
            "no direct I/O in blocks of {lba} bytes on this file system: data go through the page \
             cache"
        ))
    }

    /// Whether data go past the page cache.
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
        // Rings are put away later than they are closed.
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

    fn open_ring(&self, depth: u16) -> io::Result<Box<dyn Ring>> {
        Ok(Box::new(ImageRing::new(self.handle(), depth)?))
    }
}
