//! A queue's way to the driver: an io_uring on `/dev/ublkcN`, and the descriptors that it shares.
//!
//! Takes commands; gives their ends. Keeps true: as few system calls as there are rounds: commands
//! gather until the queue waits.
use super::abi::{self, IoCmd, IoDesc, io};
use super::io_buffers::{IoBuffers, Notify};
use super::queue::{Command, Driver, Wait};
use crate::poll::fixed_buffers::FixedBuffers;
use io_uring::{IoUring, opcode, types};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use zerocopy::IntoBytes;
use zonal_blk::{Buf, ExternalBuf, Status};

/// The descriptors of a queue, in memory that the driver writes.
struct Descriptors {
    start: *mut c_void,
    len: usize,
    depth: u16,
}

impl Descriptors {
    fn map(file: &File, queue: u16, depth: u16) -> Result<Self> {
        let page = rustix::param::page_size();
        let len = abi::descriptors_len(depth, page);
        let offset = abi::descriptors_offset(queue, page);
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let start = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, offset)
        }?;
        Ok(Descriptors { start, len, depth })
    }

    fn get(&self, tag: u16) -> IoDesc {
        assert!(tag < self.depth, "the queue has the tag");
        let descriptors = self.start.cast::<IoDesc>().cast_const();
        // SAFETY: the mapping has `depth` descriptors and lives as long as `self`; any bytes are a
        // descriptor. The driver writes one only while its tag's command is out, and is asked for
        // it when that has ended; should it change nevertheless, this copy does not.
        unsafe { descriptors.add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no reference into it was ever given.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}

/// A queue's way to the driver.
pub struct Ring {
    ring: IoUring,
    descriptors: Descriptors,
    file: Arc<File>,
    queue: u16,
    pages: Arc<IoBuffers>,
    /// The pages as buffers that a backend transfers in place; `None` if all is copied.
    fixed_buffers: Option<Arc<FixedBuffers>>,
}

impl Ring {
    /// The way for a queue with so many tags, whose requests' pages may be lent or not. All further
    /// calls come from the calling thread.
    ///
    /// # Errors
    /// The kernel has no memory for it, or io_uring is switched off.
    pub fn open(
        file: Arc<File>,
        queue: u16,
        depth: u16,
        (zero_copy, notify): (bool, Notify),
    ) -> Result<Self> {
        let descriptors = Descriptors::map(&file, queue, depth)?;
        let ring = IoUring::builder()
            // What the driver has for this thread comes when it enters the kernel, without an
            // interrupt.
            .setup_coop_taskrun()
            .setup_single_issuer()
            .build(depth.into())?;
        let pages = Arc::new(IoBuffers::new(Arc::clone(&file), queue, notify));
        let fixed_buffers = zero_copy.then(|| Arc::new(FixedBuffers(Arc::clone(&pages) as _)));
        Ok(Ring { ring, descriptors, file, queue, pages, fixed_buffers })
    }
}

/// The time is over, a signal came, or there was no room for the end of a command: whoever waits
/// looks for itself.
fn is_harmless(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::WouldBlock
            | ErrorKind::ResourceBusy
    ) || error.raw_os_error() == Some(rustix::io::Errno::TIME.raw_os_error())
}

impl Driver for Ring {
    fn descriptor(&self, tag: u16) -> IoDesc {
        self.descriptors.get(tag)
    }

    fn copy_from_request(&mut self, tag: u16, data: &mut [u8]) -> std::result::Result<(), Status> {
        self.pages.copy_from_request(tag, 0, data)
    }

    fn copy_to_request(
        &mut self,
        tag: u16,
        offset: usize,
        data: &[u8],
    ) -> std::result::Result<(), Status> {
        self.pages.copy_to_request(tag, offset, data)
    }

    fn external_buf(&self, tag: u16, len: usize) -> Option<Buf> {
        let memory = Arc::clone(self.fixed_buffers.as_ref()?);
        Some(Buf::external(ExternalBuf::new(memory, tag.into()), len))
    }

    fn send(&mut self, command: Command) {
        let (number, tag, result, addr) = match command {
            Command::Fetch { tag } => (io::FETCH_REQ, tag, 0, 0),
            Command::Commit { tag, result, sector } => {
                (io::COMMIT_AND_FETCH_REQ, tag, result, sector)
            }
        };
        let command = IoCmd { q_id: self.queue, tag, result, addr };
        let command: [u8; 16] = command.as_bytes().try_into().expect("its size");
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(fd, number).cmd(command).build().user_data(tag.into());
        // SAFETY: the command has no pointers, and the file is open as long as the ring is.
        unsafe { self.ring.submission().push(&entry) }.expect("one command for each tag");
    }

    fn enter(&mut self, wait: Wait) -> Result<()> {
        let submitter = self.ring.submitter();
        let entered = match wait {
            Wait::No => submitter.submit(),
            Wait::Forever => submitter.submit_and_wait(1),
            Wait::For(time) => {
                let time = types::Timespec::from(time);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        match entered {
            Err(error) if !is_harmless(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn ends(&mut self, ends: &mut Vec<(u64, i32)>) {
        let arrived = self.ring.completion();
        ends.extend(arrived.map(|end| (end.user_data(), end.result())));
    }
}
