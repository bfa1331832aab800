//! A file system that loses its power: one file, mounted through /dev/fuse, on the medium with which images are
//! tested inside of the process. Until it is synced, what is written to it is in a volatile cache.
#[path = "../../crates/device/tests/image/medium.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod medium;

use crate::files::abort;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use medium::Medium;
use rustix::fs::FallocateFlags;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use zonal_device::image::{ImageStore, ReadAt};
use zonal_device::rng::Rng;

/// The name of the file.
const NAME: &str = "disk.img";
const FILE: INodeNo = INodeNo(2);
/// The longest write in bytes.
const MAX_WRITE: u32 = 1 << 20;

/// Calls that fail.
struct Faults {
    rng: Rng,
    /// One call in this many fails; 0 for none.
    one_in: u64,
    failed: u64,
}

/// How a call fails.
#[derive(Clone, Copy)]
enum Fault {
    Eio,
    NoSpace,
    Short,
    Torn,
}

impl Faults {
    fn draw(&mut self) -> Option<Fault> {
        if self.one_in == 0 || self.rng.below(self.one_in) > 0 {
            return None;
        }
        self.failed += 1;
        let faults = [Fault::Eio, Fault::NoSpace, Fault::Short, Fault::Torn];
        Some(faults[usize::try_from(self.rng.below(4)).expect("four")])
    }
}

/// The file system.
struct OneFile {
    medium: Medium,
    faults: Arc<Mutex<Faults>>,
}

impl OneFile {
    fn attr(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0),
            FILE => (FileType::RegularFile, self.medium.len().unwrap_or(0)),
            _ => return None,
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn fault(&self) -> Option<Fault> {
        self.faults.lock().expect("no thread panics").draw()
    }

    fn reply_attr(&self, ino: INodeNo, reply: ReplyAttr) {
        match self.attr(ino) {
            Some(attr) => reply.attr(&Duration::ZERO, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config.set_max_write(MAX_WRITE).map(drop).map_err(|_| io::Error::other("max_write"))
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attr(FILE).filter(|_| name == NAME) {
            Some(attr) => reply.entry(&Duration::ZERO, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attr(ino, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match size.map_or(Ok(()), |size| self.medium.truncate(size)) {
            Ok(()) => self.reply_attr(ino, reply),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let end = self.medium.len().unwrap_or(0);
        let mut data = vec![0; (u64::from(size)).min(end.saturating_sub(offset)) as usize];
        match self.medium.read(offset, &mut data) {
            Ok(()) if self.fault().is_none() => reply.data(&data),
            _ => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let fault = self.fault();
        // What is written of it: a number of sectors.
        let len = match fault {
            None => data.len(),
            Some(Fault::Eio | Fault::NoSpace) => 0,
            Some(Fault::Short | Fault::Torn) => data.len() / 1024 * 512,
        };
        let written = if len > 0 { self.medium.write(offset, &data[..len]) } else { Ok(()) };
        match fault {
            _ if written.is_err() => reply.error(Errno::EIO),
            Some(Fault::Eio | Fault::Torn) => reply.error(Errno::EIO),
            Some(Fault::NoSpace) => reply.error(Errno::ENOSPC),
            Some(Fault::Short) if len == 0 => reply.error(Errno::ENOSPC),
            _ => reply.written(u32::try_from(len).expect("a short write")),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // One that fails leaves everything in the cache.
        match self.fault().is_none() && self.medium.sync().is_ok() {
            true => reply.ok(),
            false => reply.error(Errno::EIO),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let punch = FallocateFlags::PUNCH_HOLE.bits().cast_signed();
        let done = match mode & punch {
            0 => return reply.error(Errno::EOPNOTSUPP),
            _ => self.medium.discard(offset, length),
        };
        match done {
            Ok(()) if self.fault().is_none() => reply.ok(),
            _ => reply.error(Errno::EIO),
        }
    }
}

/// The file system, with its medium.
pub struct Disk {
    medium: Medium,
    faults: Arc<Mutex<Faults>>,
    dir: PathBuf,
    mounted: Option<(PathBuf, BackgroundSession)>,
    mounts: u64,
}

impl Disk {
    /// On a directory below `dir`, with a file that is durable.
    pub fn new(dir: &Path, file: Vec<u8>, seed: u64) -> Self {
        let faults = Faults { rng: Rng::new(seed), one_in: 0, failed: 0 };
        let mut disk = Disk {
            medium: Medium::of(file, seed),
            faults: Arc::new(Mutex::new(faults)),
            dir: dir.to_owned(),
            mounted: None,
            mounts: 0,
        };
        disk.mount();
        disk
    }

    fn mount(&mut self) {
        self.mounts += 1;
        let dir = self.dir.join(format!("mount{}", self.mounts));
        std::fs::create_dir_all(&dir).expect("a directory");
        let fs = OneFile { medium: self.medium.clone(), faults: Arc::clone(&self.faults) };
        let session = fuser::spawn_mount(fs, &dir, &Config::default());
        self.mounted = Some((dir, session.expect("/dev/fuse, and the right to mount")));
    }

    /// Where the file is.
    pub fn path(&self) -> PathBuf {
        self.mounted.as_ref().expect("it is mounted").0.join(NAME)
    }

    /// One call in so many fails from now on; 0 for none.
    pub fn set_faults(&self, one_in: u64) {
        self.faults.lock().expect("no thread panics").one_in = one_in;
    }

    /// Calls that have failed since the last call.
    pub fn take_failed(&self) -> u64 {
        std::mem::take(&mut self.faults.lock().expect("no thread panics").failed)
    }

    /// The power fails after so many calls: all that follow fail, and nothing more becomes durable.
    pub fn set_fuse(&self, calls: u64) {
        self.medium.set_fuse(calls);
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.medium.is_off()
    }

    /// With no process that uses the file: of what was not synced, `keep` in 4 is there afterwards, in units
    /// of `unit` bytes. Nothing is in the page cache.
    pub fn lose_power(&mut self, unit: usize, keep: u64) {
        self.medium.set_fuse(0);
        self.unmount();
        self.medium.lose_power(unit, keep);
        self.mount();
    }

    fn unmount(&mut self) {
        if let Some((dir, session)) = self.mounted.take() {
            abort(&dir);
            session.join().expect("the session ends with the mount");
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
    }
}
