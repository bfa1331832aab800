//! Through a mount: mappings, open files after an error, unmounting.
use super::support::{BLOCK, Files, ZONE, bytes};
use rustix::fs::{OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zonal_blk::Buf;
use zonal_frontend::zonefs::Mount;
use zonal_torture::FaultDevice;
use zonal_torture::fault::{AbortResponse, Effect, FaultSpec};

struct Mounted {
    device: Arc<FaultDevice>,
    mount: Option<Mount>,
    ended: Receiver<String>,
    dir: TempDir,
}

impl Mounted {
    fn new(options: &str) -> Self {
        let Files { device, workers, .. } = Files::new(options);
        let dir = tempfile::tempdir().unwrap();
        let (sender, ended) = channel();
        let tell = move |why: &str| sender.send(why.to_owned()).unwrap();
        let mount = Mount::start(dir.path(), "a,b", workers, tell).unwrap();
        Mounted { device, mount: Some(mount), ended, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Whether the mount is read-only.
    fn is_read_only(&self) -> bool {
        rustix::fs::statvfs(self.dir.path()).unwrap().f_flag.contains(StatVfsMountFlags::RDONLY)
    }

    /// Opens a file for direct I/O.
    fn open(&self, name: &str) -> io::Result<File> {
        direct(&self.path(name))
    }
}

fn direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Aligned for direct I/O.
fn block() -> Buf {
    Buf::from(&bytes(0, 4096)[..])
}

#[track_caller]
fn fails<T>(result: io::Result<T>, expected: Errno) {
    let found = result.err().and_then(|error| error.raw_os_error());
    assert_eq!(found, Some(expected.raw_os_error()));
}

/// Maps a file's first page, changes its first byte if the protection allows, and returns that byte.
fn map(file: &File, protection: ProtFlags, flags: MapFlags) -> Result<u8, Errno> {
    // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
    let at = unsafe { mmap(std::ptr::null_mut(), 4096, protection, flags, file, 0) }?;
    let first = at.cast::<u8>();
    // SAFETY: the page was just mapped, and there is no other reference to it.
    unsafe {
        if protection.contains(ProtFlags::WRITE) {
            first.write_volatile(77);
        }
        let byte = first.read_volatile();
        munmap(at, 4096)?;
        Ok(byte)
    }
}

#[test]
fn only_conventional_files_have_shared_writable_mappings() {
    let mounted = Mounted::new("");
    mounted.open("seq/0").unwrap().write_all_at(&block(), 0).unwrap();
    // In a process of its own: a page fault waits for the server while it holds the process's mmap
    // lock, which the server's threads may need to reply.
    let client = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "mounted::maps_files_of_a_server_elsewhere"])
        .env(MAPPED, mounted.dir.path())
        .output()
        .unwrap();
    assert!(client.status.success(), "{client:?}");
    // Writes to the mapping have reached the device: direct reads bypass the page cache.
    let cnv = mounted.open("cnv/0").unwrap();
    let mut there = Buf::zeroed(4096);
    cnv.read_exact_at(&mut there, 0).unwrap();
    assert_eq!(there[0], 77);
    assert_eq!(cnv.metadata().unwrap().size(), ZONE);
}

/// The mount of the files to map.
const MAPPED: &str = "ZONAL_MAPPED";

#[test]
#[ignore = "the client of only_conventional_files_have_shared_writable_mappings, which starts it"]
fn maps_files_of_a_server_elsewhere() {
    let dir = PathBuf::from(std::env::var_os(MAPPED).expect("the mount point in ZONAL_MAPPED"));
    let open = |name| direct(&dir.join(name)).unwrap();
    let (cnv, seq) = (open("cnv/0"), open("seq/0"));
    let (read, write) = (ProtFlags::READ, ProtFlags::READ | ProtFlags::WRITE);
    assert_eq!(map(&cnv, write, MapFlags::SHARED), Ok(77));
    assert_eq!(map(&seq, write, MapFlags::SHARED), Err(Errno::NODEV));
    assert_eq!(map(&seq, read, MapFlags::SHARED), Err(Errno::NODEV));
    assert_eq!(map(&seq, read, MapFlags::PRIVATE), Ok(block()[0]));
    cnv.sync_all().unwrap();
}

#[test]
fn after_an_error_open_files_can_be_read_and_not_written() {
    let mounted = Mounted::new("errors=remount-ro");
    let file = mounted.open("seq/0").unwrap();
    file.write_all_at(&block(), 0).unwrap();
    let status = Some(zonal_blk::Status::IoError);
    let fault = FaultSpec {
        delay: zonal_blk::Nanos(0),
        effect: Effect::Nothing,
        status,
        on_abort: AbortResponse::default(),
    };
    mounted.device.inject(true, fault);
    fails(file.write_all_at(&block(), BLOCK), Errno::IO);
    fails(file.write_all_at(&block(), BLOCK), Errno::ROFS);
    fails(mounted.open("seq/1"), Errno::ROFS);
    fails(file.set_len(0), Errno::ROFS);
    let mut there = Buf::zeroed(4096);
    file.read_exact_at(&mut there, 0).unwrap();
    assert_eq!(&there[..], &block()[..]);
    assert!(File::open(mounted.path("seq/1")).is_ok());
    // When the last file that is open for writing is closed, the mount becomes read-only.
    assert!(!mounted.is_read_only());
    drop(file);
    let end = Instant::now() + Duration::from_secs(30);
    while !mounted.is_read_only() {
        assert!(Instant::now() < end, "it stays as it was");
        std::thread::sleep(Duration::from_millis(1));
    }
    let changed = std::fs::set_permissions(mounted.path("seq/1"), Permissions::from_mode(0o600));
    fails(changed, Errno::ROFS);
    assert!(File::open(mounted.path("seq/1")).is_ok());
}

#[test]
fn offline_zone_has_no_permissions_not_even_for_root() {
    let mounted = Mounted::new("errors=zone-offline");
    let file = mounted.open("seq/0").unwrap();
    let status = Some(zonal_blk::Status::IoError);
    let fault = FaultSpec {
        delay: zonal_blk::Nanos(0),
        effect: Effect::Nothing,
        status,
        on_abort: AbortResponse::default(),
    };
    mounted.device.inject(true, fault);
    fails(file.write_all_at(&block(), 0), Errno::IO);
    fails(file.read_at(&mut block(), 0), Errno::PERM);
    assert_eq!(std::fs::metadata(mounted.path("seq/0")).unwrap().mode() & 0o777, 0);
    assert!(mounted.open("seq/1").unwrap().write_all_at(&block(), 0).is_ok());
}

#[test]
fn unmounting_by_another_program_is_reported() {
    let mounted = Mounted::new("");
    rustix::mount::unmount(mounted.dir.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    let why = mounted.ended.recv_timeout(Duration::from_secs(30)).expect("it ends");
    assert_eq!(why, format!("{} was unmounted", mounted.dir.path().display()));
}

#[test]
fn dropping_unmounts_while_files_are_open() {
    for busy in [false, true] {
        let mut mounted = Mounted::new("");
        let file = busy.then(|| mounted.open("seq/0").unwrap());
        assert!(mounted.path("seq").exists());
        drop(mounted.mount.take());
        assert!(!mounted.path("seq").exists(), "in use: {busy}");
        drop(file);
        // A requested unmount is not reported.
        assert!(mounted.ended.recv_timeout(Duration::from_secs(30)).is_err());
    }
}
