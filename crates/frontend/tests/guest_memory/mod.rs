//! The parts that clients of virtual machines' frontends share: memory of the guest, messages with
//! descriptors, timeouts.
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// How long anything may take on a crowded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Memory of the guest, from address 0 on.
pub struct Memory {
    pub file: OwnedFd,
    start: *mut u8,
    pub len: usize,
}

// SAFETY: the memory is accessed as raw bytes and atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(len: usize) -> Self {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("a memfd");
        ftruncate(&file, len as u64).expect("room");
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, of which only raw pointers exist.
        let start =
            unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, file.as_fd(), 0) };
        Memory { file, start: start.expect("a mapping").cast(), len }
    }

    fn at(&self, address: u64, len: usize) -> *mut u8 {
        let address = usize::try_from(address).expect("an address of the guest");
        assert!(address + len <= self.len, "an address of the guest");
        // SAFETY: it is in the mapping.
        unsafe { self.start.add(address) }
    }

    pub fn get(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // SAFETY: as many bytes of the mapping, and of a vector.
        unsafe { self.at(address, len).copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
        bytes
    }

    pub fn put(&self, address: u64, bytes: &[u8]) {
        // SAFETY: as many bytes of the mapping, and of a slice.
        unsafe {
            self.at(address, bytes.len()).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }

    /// A number that the device reads and writes, too.
    pub fn number(&self, address: u64) -> &AtomicU32 {
        assert_eq!(address % 4, 0, "it is aligned");
        // SAFETY: four aligned bytes of a mapping that lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.at(address, 4).cast()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

/// Sends bytes with descriptors.
pub fn send_with(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "there is room");
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    assert_eq!(sent, Ok(bytes.len()));
}

/// Waits until `check` returns something.
#[track_caller]
pub fn wait<T>(mut check: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "it does not come");
        std::thread::yield_now();
    }
}

/// Waits until an eventfd was signalled.
#[track_caller]
pub fn wait_signal(event: &OwnedFd) {
    wait(|| rustix::io::read(event, &mut [0; 8]).ok());
}
