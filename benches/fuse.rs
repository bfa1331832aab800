//! Zones as files against a pass-through file system of the same FUSE library: 4 KiB sequential
//! direct writes, at depth 1 to one file and at depth 16 to sixteen, one thread each.
//!
//! `cargo bench --features fuse --bench fuse`. Needs /dev/fuse and the right to mount. Rounds
//! alternate; the best of each counts.
#[path = "support/start.rs"]
mod start;

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use zonal_blk::{Buf, Device, Queue, QueueOptions};
use zonal_device::device_spec;
use zonal_frontend::zonefs::{Mount, Options, WorkerPool, ZoneFs};
use zonal_os::RealClock;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(400);
const FILES: usize = 16;
/// Size of a file in bytes.
const CAPACITY: u64 = 32 << 20;
const BLOCK: usize = 4096;
/// The throughput that zones have to reach, as a fraction of the pass-through's.
const GOAL: f64 = 0.8;

/// Files `0` to `15`, each backed by a file.
struct PassThrough {
    files: Vec<File>,
}

impl PassThrough {
    fn attr(&self, ino: u64) -> Option<FileAttr> {
        let behind = usize::try_from(ino).ok()?.checked_sub(2).and_then(|at| self.files.get(at));
        let (kind, size) = match behind {
            Some(file) => (FileType::RegularFile, file.metadata().ok()?.len()),
            None if ino == 1 => (FileType::Directory, 0),
            None => return None,
        };
        Some(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn file(&self, INodeNo(ino): INodeNo) -> &File {
        &self.files[usize::try_from(ino - 2).expect("a small number")]
    }
}

impl Filesystem for PassThrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config.set_max_write(1 << 20).map(drop).map_err(|_| io::Error::other("max_write"))
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        match number.and_then(|number| self.attr(number + 2)) {
            Some(attr) => reply.entry(&Duration::ZERO, &attr, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino.0) {
            Some(attr) => reply.attr(&Duration::ZERO, &attr),
            None => reply.error(Errno::ENOENT),
        }
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
        let resized = size.map_or(Ok(()), |size| self.file(ino).set_len(size));
        match (resized, self.attr(ino.0)) {
            (Ok(()), Some(attr)) => reply.attr(&Duration::ZERO, &attr),
            _ => reply.error(Errno::EIO),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file(ino).write_all_at(data, offset) {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("a short write")),
            Err(_) => reply.error(Errno::EIO),
        }
    }
}

/// A directory in memory, if there is one.
fn memory() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

fn pass_through(dir: &Path) -> BackgroundSession {
    let file = |_| tempfile::tempfile_in(memory()).expect("a file");
    let files = PassThrough { files: (0..FILES).map(file).collect() };
    fuser::spawn_mount(files, dir, &Config::default()).expect("the right to mount")
}

fn zones(dir: &Path) -> Mount {
    let text = format!("null:zones={FILES},zone_size={CAPACITY},lba=4096,memory=true");
    let device: Arc<dyn Device> =
        device_spec::build(&device_spec::parse(&text).expect("a spec")).expect("a device");
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(device, options).expect("a queue");
    let fs = ZoneFs::new(queue, Options::default(), Arc::new(|what| panic!("{what}")));
    let workers =
        WorkerPool::start(Arc::new(fs.expect("zones")), RealClock::start(), 4).expect("threads");
    Mount::start(dir, "bench", workers, |_| ()).expect("the right to mount")
}

/// Fills the file again and again. Returns writes per second.
fn write(path: &Path) -> f64 {
    let flags = OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(flags).open(path).expect("a file");
    file.set_len(0).expect("it can be emptied");
    let block = Buf::zeroed(BLOCK);
    let (begin, mut count, mut at) = (Instant::now(), 0_u32, 0_u64);
    while begin.elapsed() < ROUND {
        if at == CAPACITY {
            file.set_len(0).expect("it can be emptied");
            at = 0;
        }
        file.write_all_at(&block, at).expect("a write");
        at += BLOCK as u64;
        count += 1;
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}

fn round(dir: &Path, depth: usize) -> f64 {
    thread::scope(|scope| {
        let writer = |number: usize| {
            let path = dir.join(number.to_string());
            scope.spawn(move || write(&path))
        };
        let writers: Vec<_> = (0..depth).map(writer).collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer")).sum()
    })
}

fn main() {
    if !start::measures() {
        return;
    }
    let dirs: [TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().expect("a directory"));
    let session = pass_through(dirs[0].path());
    let mount = zones(dirs[1].path());
    let paths = [dirs[0].path().to_owned(), dirs[1].path().join("seq")];
    println!(
        "{:24} {:>14} {:>14} {:>7}  goal",
        "4 KiB writes, KIOPS", "pass-through", "zones", "ratio"
    );
    for depth in [1, FILES] {
        let mut best = [0.0_f64; 2];
        for _ in 0..ROUNDS {
            for (path, best) in paths.iter().zip(&mut best) {
                *best = best.max(round(path, depth));
            }
        }
        let [through, zones] = best;
        println!(
            "{:24} {:14.1} {:14.1} {:7.2}  {GOAL}",
            format!("depth {depth}"),
            through / 1e3,
            zones / 1e3,
            zones / through
        );
    }
    drop(mount);
    session.umount_and_join().expect("nobody uses it");
}
