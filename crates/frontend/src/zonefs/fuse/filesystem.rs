//! FUSE requests, answered by the file system and the workers. The kernel caches nothing but the pages of
//! conventional files, which may be mapped.
use super::RemountReadOnly;
use crate::zonefs::{Attr, FileNo, FileOp, OpenMode, Reply, SetAttr, WorkerPool};
use fuser::{
    FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use zonal_blk::Buf;

/// The longest read or write in bytes, the maximum of most kernels.
const MAX_WRITE: u32 = 1 << 20;
/// Asynchronous requests in flight.
const MAX_BACKGROUND: u16 = 128;
/// Attributes and names are not cached: zones may also be written through other exports.
const TTL: Duration = Duration::ZERO;

pub(super) struct FuseFs {
    workers: WorkerPool,
    read_only: Arc<RemountReadOnly>,
}

impl FuseFs {
    /// For a file system mounted on `dir`.
    pub fn new(workers: WorkerPool, dir: PathBuf) -> Self {
        FuseFs { workers, read_only: Arc::new(RemountReadOnly::new(dir)) }
    }

    fn submit(
        &self,
        INodeNo(ino): INodeNo,
        work: FileOp,
        on_done: impl FnOnce(Result<Reply<'_>, fuser::Errno>) + Send + 'static,
    ) {
        match self.workers.fs().file(ino) {
            Ok(file) => self.workers.submit(file, work, |ended| on_done(ended.map_err(errno))),
            Err(error) => on_done(Err(errno(error))),
        }
    }

    fn is_sequential(&self, INodeNo(ino): INodeNo) -> bool {
        let fs = self.workers.fs();
        fs.file(ino).is_ok_and(|file: FileNo| fs.is_sequential(file))
    }
}

fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

fn open_mode(OpenFlags(flags): OpenFlags) -> OpenMode {
    // `O_SYNC` has this bit, too; `OFlags::DSYNC` is `O_SYNC`.
    let sync = flags & libc::O_DSYNC != 0;
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    OpenMode {
        direct: flags.contains(OFlags::DIRECT),
        append: flags.contains(OFlags::APPEND),
        sync,
    }
}

fn writes(flags: OpenFlags) -> bool {
    flags.acc_mode() != OpenAccMode::O_RDONLY
}

fn kind(is_dir: bool) -> FileType {
    if is_dir { FileType::Directory } else { FileType::RegularFile }
}

/// `number` is that of the inode, or of its node in the reply to a lookup: FUSE has one field for both.
fn file_attr(attr: &Attr, number: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.accessed,
        mtime: attr.modified,
        ctime: attr.changed,
        crtime: attr.changed,
        kind: kind(attr.is_dir),
        perm: attr.perm,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: 0,
        blksize: attr.block_size,
        flags: 0,
    }
}

impl Filesystem for FuseFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let too_much = |_| io::Error::other("the FUSE library refuses a limit");
        config.set_max_write(MAX_WRITE).map_err(too_much)?;
        config.set_max_background(MAX_BACKGROUND).map_err(|_| too_much(0))?;
        // Without it, the kernel serializes asynchronous direct I/O.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, INodeNo(parent): INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = name.to_str().ok_or(Errno::NOENT);
        match found.and_then(|name| self.workers.fs().lookup(parent, name)) {
            Ok(attr) => reply.entry(&TTL, &file_attr(&attr, attr.node), Generation(0)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn getattr(&self, _: &Request, INodeNo(ino): INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.workers.fs().attr(ino) {
            Ok(attr) => reply.attr(&TTL, &file_attr(&attr, attr.ino)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let time = |time| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        };
        let change = SetAttr {
            perm: mode.map(|mode| u16::try_from(mode & 0o7777).unwrap_or_default()),
            uid,
            gid,
            accessed: atime.map(time),
            modified: mtime.map(time),
        };
        let fs = Arc::clone(self.workers.fs());
        let finish = move |truncated: Result<Reply<'_>, fuser::Errno>| {
            let changed = truncated.and_then(|_| {
                // A truncation that sets no other attributes leaves them alone.
                let others = SetAttr::default();
                if size.is_none() || change != others {
                    fs.setattr(ino.0, change).map_err(errno)?;
                }
                fs.attr(ino.0).map_err(errno)
            });
            match changed {
                Ok(attr) => reply.attr(&TTL, &file_attr(&attr, attr.ino)),
                Err(error) => reply.error(error),
            }
        };
        match size {
            Some(size) => self.submit(ino, FileOp::Truncate { size }, finish),
            None => finish(Ok(Reply::Done)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // The page cache would not write the pages of a sequential file back in order.
        let direct =
            if self.is_sequential(ino) { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() };
        self.submit(ino, FileOp::Open { writes: writes(flags) }, move |ended| match ended {
            Ok(_) => reply.opened(FileHandle(0), direct),
            Err(error) => reply.error(error),
        });
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        flags: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let (fs, read_only) = (Arc::clone(self.workers.fs()), Arc::clone(&self.read_only));
        self.submit(ino, FileOp::Close { wrote: writes(flags) }, move |ended| {
            match ended {
                Ok(_) => reply.ok(),
                Err(error) => reply.error(error),
            }
            read_only.closed(&fs);
        });
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let work = FileOp::Read { offset, len: size as usize, open_mode: open_mode(flags) };
        self.submit(ino, work, move |ended| match ended {
            Ok(Reply::Data(data)) => reply.data(data),
            Ok(_) => reply.data(&[]),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The writeback of pages has no open mode.
        let cached = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let open_mode = if cached { OpenMode::default() } else { open_mode(flags) };
        let work = FileOp::Write { offset, data: Buf::from(data), open_mode };
        self.submit(ino, work, move |ended| match ended {
            Ok(Reply::Written(len)) => reply.written(u32::try_from(len).unwrap_or(u32::MAX)),
            Ok(_) => reply.written(0),
            Err(error) => reply.error(error),
        });
    }

    /// At close(2): all writes have reached the device already.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.submit(ino, FileOp::Sync, move |ended| match ended {
            Ok(_) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        INodeNo(ino): INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let entries = match self.workers.fs().entries(ino, from) {
            Ok(entries) => entries,
            Err(error) => return reply.error(errno(error)),
        };
        for (next, entry) in (offset.saturating_add(1)..).zip(entries) {
            if reply.add(INodeNo(entry.ino), next, kind(entry.is_dir), &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let usage = self.workers.fs().statfs();
        let (free, block) = (usage.free, usage.block_size);
        reply.statfs(usage.blocks, free, free, usage.files, 0, block, 255, block);
    }

    // Nothing is created or removed. The errors are those of a Linux file system without these calls.

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(fuser::Errno::EACCES);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(fuser::Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(fuser::Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(fuser::Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(fuser::Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(fuser::Errno::EPERM);
    }
}
