//! The driver's side of a queue in the kernel: an io_uring on `/dev/ublkcN` and the shared request
//! descriptors. Commands are batched: one system call submits all that have been queued.
use super::abi::{self, IoCmd, IoDesc, io};
use super::io_buffers::{IoBuffers, Notify};
use super::queue::{Command, Driver};
use io_uring::{opcode, types};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io::Result;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use zerocopy::IntoBytes;
use zonal_blk::{Buf, ExternalBuf, Status};
use zonal_os::poll::fixed_buffers::FixedBuffers;
use zonal_os::poll::uring::Uring;

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
        // descriptor. The driver writes one only while its tag's command is in flight, and it is
        // read when that has completed; should it change nevertheless, this copy does not.
        unsafe { descriptors.add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no reference into it was ever handed out.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once");
    }
}

/// The io_uring of a queue.
pub struct Ring {
    ring: Uring,
    descriptors: Descriptors,
    file: Arc<File>,
    queue: u16,
    pages: Arc<IoBuffers>,
    /// The pages as buffers that a backend transfers in place; `None` if all is copied.
    fixed_buffers: Option<Arc<FixedBuffers>>,
}

impl Ring {
    /// The ring of a queue with `depth` tags, with or without zero copy. All further calls have to
    /// come from the calling thread.
    ///
    /// # Errors
    /// The kernel has no memory for it, or io_uring is disabled.
    pub fn open(
        file: Arc<File>,
        queue: u16,
        depth: u16,
        (zero_copy, notify): (bool, Notify),
    ) -> Result<Self> {
        let descriptors = Descriptors::map(&file, queue, depth)?;
        let ring = Uring::with_setup(depth.into(), |builder| {
            builder.setup_single_issuer();
        })?;
        let pages = Arc::new(IoBuffers::new(Arc::clone(&file), queue, notify));
        let fixed_buffers = zero_copy.then(|| Arc::new(FixedBuffers(Arc::clone(&pages) as _)));
        Ok(Ring { ring, descriptors, file, queue, pages, fixed_buffers })
    }
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
        unsafe { self.ring.push(entry) };
    }

    fn submit(&mut self) -> Result<()> {
        self.ring.submit()
    }

    fn completions(&mut self, completions: &mut Vec<(u64, i32)>) {
        while let Some(entry) = self.ring.reap() {
            completions.push((entry.user_data(), entry.result()));
        }
    }

    fn fd(&self) -> RawFd {
        self.ring.fd()
    }
}
