//! The pages of the driver's requests: copied, or registered as fixed buffers of an io_uring.
use super::abi::{self, IoCmd, io};
use io_uring::{opcode, squeue, types};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::IntoBytes;
use zonal_blk::{ExternalMemory, Status};
use zonal_os::poll::fixed_buffers::RegisterBuffer;

pub use zonal_os::Notify;

/// The pages of a queue's requests. The token of an external buffer is the tag.
pub struct IoBuffers {
    file: Arc<File>,
    queue: u16,
    notify: Notify,
    /// The user has been told that data are copied despite zero copy.
    copy_reported: AtomicBool,
}

impl IoBuffers {
    /// The buffers of queue `queue` of the device whose character device is `file`.
    pub fn new(file: Arc<File>, queue: u16, notify: Notify) -> Self {
        IoBuffers { file, queue, notify, copy_reported: AtomicBool::new(false) }
    }

    /// Copies data out of a tag's request, from byte `at` on.
    pub fn copy_from_request(&self, tag: u16, at: usize, data: &mut [u8]) -> Result<(), Status> {
        let offset = abi::data_offset(self.queue, tag) + at as u64;
        self.file.read_exact_at(data, offset).map_err(|_| Status::IoError)
    }

    /// Copies data into a tag's request, from byte `at` on.
    pub fn copy_to_request(&self, tag: u16, at: usize, data: &[u8]) -> Result<(), Status> {
        let offset = abi::data_offset(self.queue, tag) + at as u64;
        self.file.write_all_at(data, offset).map_err(|_| Status::IoError)
    }

    fn entry(&self, number: u32, tag: u16, index: u16) -> squeue::Entry {
        let command = IoCmd { q_id: self.queue, tag, result: 0, addr: index.into() };
        let command = command.as_bytes().try_into().expect("its size");
        opcode::UringCmd16::new(types::Fd(self.file.as_raw_fd()), number).cmd(command).build()
    }

    /// A device has copied an external buffer. Tells the user, once. A copy fails if the request is
    /// gone, as when the device was stopped.
    fn copied(&self, copied: Result<(), Status>) -> Result<(), Status> {
        if copied.is_ok() && !self.copy_reported.swap(true, Ordering::Relaxed) {
            let queue = self.queue;
            (self.notify)(&format!(
                "ublk queue {queue}: data are copied: the kernel did not register a request's pages, \
                 or the device could not use them as they are"
            ));
        }
        copied
    }
}

impl ExternalMemory for IoBuffers {
    fn read(&self, token: u64, at: usize, data: &mut [u8]) -> Result<(), Status> {
        self.copied(self.copy_from_request(u16::try_from(token).expect("a tag"), at, data))
    }

    fn write(&self, token: u64, at: usize, data: &[u8]) -> Result<(), Status> {
        self.copied(self.copy_to_request(u16::try_from(token).expect("a tag"), at, data))
    }
}

impl RegisterBuffer for IoBuffers {
    /// The ring may be any thread's (`UBLK_F_BUF_REG_OFF_DAEMON`).
    fn register_entries(&self, token: u64, index: u16) -> Option<[squeue::Entry; 2]> {
        let tag = u16::try_from(token).ok()?;
        let register = self.entry(io::REGISTER_IO_BUF, tag, index);
        let unregister = self.entry(io::UNREGISTER_IO_BUF, tag, index);
        Some([register.flags(squeue::Flags::IO_LINK), unregister])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn user_hears_of_copies_once() {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let notify = {
            let notices = Arc::clone(&notices);
            move |notice: &str| notices.lock().expect("no panic").push(notice.to_owned())
        };
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let buffers = IoBuffers::new(file, 0, Arc::new(notify));
        assert_eq!(buffers.read(3, 0, &mut [0; 512]), Err(Status::IoError), "it is empty");
        assert!(notices.lock().expect("no panic").is_empty(), "nothing was copied");
        buffers.write(3, 0, &[7; 512]).expect("room");
        buffers.read(3, 0, &mut [0; 512]).expect("it is there");
        assert_eq!(notices.lock().expect("no panic").len(), 1);
    }
}
