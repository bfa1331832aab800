//! The parts of hostile virtual machines: memory, descriptors to send, and an input that says what they do.
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

pub const PAGE: u64 = 4096;
/// Pages of guest memory.
pub const PAGES: u64 = 32;

/// What all inputs share: memory, memory of huge pages, of which there need not be any, and descriptors to
/// send. The first is that of memory, the last that of huge pages.
pub struct Files {
    pub memory: File,
    huge: File,
    pub fds: [OwnedFd; 4],
}

pub static FILES: LazyLock<Files> = LazyLock::new(|| {
    let memory = memfd_create("guest", MemfdFlags::CLOEXEC).expect("a memfd");
    let huge = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    // A kernel without huge pages has small ones twice.
    let huge = memfd_create("huge", huge).or_else(|_| memfd_create("huge", MemfdFlags::CLOEXEC));
    let huge = huge.expect("a memfd");
    let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
    let (pipe, _) = std::io::pipe().expect("a pipe");
    let again = |fd: &OwnedFd| fd.try_clone().expect("a descriptor");
    let fds = [again(&memory), event, pipe.into(), again(&huge)];
    Files { memory: memory.into(), huge: huge.into(), fds }
});

/// Makes memory so long, in pages, and that of huge pages one or none.
pub fn resize(pages: u64) {
    FILES.memory.set_len(pages * PAGE).expect("room");
    FILES.huge.set_len((pages % 2) << 21).expect("a size");
}

/// Writes to memory. Beyond its end there is room as well.
pub fn write(at: u64, bytes: &[u8]) {
    let _ = FILES.memory.write_all_at(bytes, at);
}

/// Sends bytes and descriptors to a server, which may have gone.
pub fn send(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "there is room");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
}

/// Adds what has arrived.
pub fn receive(mut socket: &UnixStream, received: &mut Vec<u8>) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = socket.read(&mut bytes) {
        received.extend_from_slice(&bytes[..len]);
    }
}

/// The ends of a connection: the monitor's, which does not block, and the server's.
pub fn connection() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    ours.set_nonblocking(true).expect("a socket");
    (ours, theirs)
}

/// The socket of the next client, which is taken once the I/O of the last one has ended.
pub fn next_client(connect: impl FnMut() -> Option<UnixStream>) -> UnixStream {
    std::iter::repeat_with(connect).take(64).flatten().next().expect("I/O in flight ends")
}

/// The input, as far as it was used. Beyond its end are zeroes.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let (here, rest) = self.0.split_at(N.min(self.0.len()));
        taken[..here.len()].copy_from_slice(here);
        self.0 = rest;
        taken
    }

    pub fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// Up to 255 bytes.
    pub fn bytes(&mut self) -> Vec<u8> {
        let len = usize::from(self.byte()).min(self.0.len());
        let (here, rest) = self.0.split_at(len);
        self.0 = rest;
        here.to_vec()
    }

    /// Up to nine descriptors, of which some messages take some.
    pub fn fds(&mut self) -> Vec<BorrowedFd<'static>> {
        let kinds = self.byte();
        (0..kinds & 15)
            .take(9)
            .map(|at| FILES.fds[usize::from(kinds >> 4 ^ at) % FILES.fds.len()].as_fd())
            .collect()
    }
}
