//! Requests as NVMe commands that io_uring passes through (`IORING_OP_URING_CMD`, Linux 5.19).
//!
//! Takes requests; gives entries of 128 bytes, and reads answers of 32: the end of an append says in
//! 64 bits where it landed.
use super::abi::{URING_CMD_IO, UringCmd};
use crate::backend::linux::device::status;
use crate::backend::linux::queue::{Commands, data_len};
use crate::frontend::ublk::io_buffers::IoBuffers;
use io_uring::{cqueue, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use zonal_blk::{Op, Request, Status};
use zonal_nvme::NvmeStatus;
use zonal_nvme::ns::{Namespace, NamespaceLayout, SpecialPayload, setup};
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::opcode::IoOpcode;

pub struct NvmeCommands {
    pub file: Arc<File>,
    pub namespace: Arc<Namespace>,
}

impl NvmeCommands {
    /// The entry of a command; its data are in a buffer of the ring, if it says so.
    fn entry(&self, command: &UringCmd, buffer: Option<u16>) -> squeue::Entry128 {
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, URING_CMD_IO).cmd(command.in_entry());
        entry.buf_index(buffer).build()
    }
}

// SAFETY: the file is held, and commands move data at `data`, that long, or none.
unsafe impl Commands for NvmeCommands {
    type Entry = squeue::Entry128;
    type Cqe = cqueue::Entry32;

    fn flush(&self) -> squeue::Entry128 {
        let sqe = Sqe::new(IoOpcode::FLUSH.0, 0, self.namespace.nsid());
        self.entry(&UringCmd::new(&sqe, std::ptr::null_mut(), 0), None)
    }

    fn start(&self, request: &Request, data: *mut u8) -> Result<squeue::Entry128, Status> {
        let mut sqe = Sqe::zeroed();
        match setup(&*self.namespace, request, 0, &mut sqe)? {
            SpecialPayload::None => {
                Ok(self.entry(&UringCmd::new(&sqe, data, data_len(request)), None))
            }
            // As for the block devices here, there are no discards.
            SpecialPayload::Range(_) => Err(Status::NotSupported),
        }
    }

    /// The place in lent pages is counted from their first byte. What is no command here is told on
    /// the way of data that are not lent.
    fn start_external(&self, request: &Request, index: u16) -> Option<[squeue::Entry128; 3]> {
        let lent = request.external_buf()?;
        let [register, unregister] = IoBuffers::register_entries(lent, index)?;
        let mut sqe = Sqe::zeroed();
        let Ok(SpecialPayload::None) = setup(&*self.namespace, request, 0, &mut sqe) else {
            return None;
        };
        let at = std::ptr::without_provenance_mut(lent.offset());
        let moves = self.entry(&UringCmd::new(&sqe, at, data_len(request)), Some(index));
        let moves = moves.flags(squeue::Flags::IO_HARDLINK);
        Some([register.into(), moves, unregister.into()])
    }

    fn result(&self, answer: &cqueue::Entry32) -> Result<u64, Status> {
        outcome(answer.result()).map(|()| answer.big_cqe()[0])
    }

    fn finish(&self, request: &mut Request, result: u64) -> Status {
        if request.op() != Op::ZoneAppend {
            return Status::Ok;
        }
        match self.namespace.head().info.append_sector(request.zone(), result) {
            Some(sector) => request.set_append_sector(sector),
            None => return Status::IoError,
        }
        Status::Ok
    }
}

/// What the kernel says of a command: the status field of its completion, or an error number.
fn outcome(result: i32) -> Result<(), Status> {
    match (u16::try_from(result), result.wrapping_neg()) {
        (Ok(status), _) => match NvmeStatus(status).to_blk_status() {
            Status::Ok => Ok(()),
            status => Err(status),
        },
        // The driver gave the command up, as when it resets the controller.
        (_, libc::EINTR) => Err(Status::Transport),
        (_, errno) => Err(status(&io::Error::from_raw_os_error(errno))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_the_device_or_of_the_kernel() {
        assert_eq!(outcome(0), Ok(()));
        let too_many = NvmeStatus::TOO_MANY_OPEN.do_not_retry();
        for (result, expected) in [
            (i32::from(too_many.0), Status::ZoneOpenResource),
            (i32::from(NvmeStatus::ZONE_INVALID_WRITE.0), Status::IoError),
            (i32::from(NvmeStatus::ABORTED_BY_HOST.0), Status::Transport),
            (-libc::EINTR, Status::Transport),
            (-libc::ENODEV, Status::Offline),
            (-libc::EINVAL, Status::Invalid),
            (0x1_0000, Status::IoError),
            (i32::MIN, Status::IoError),
        ] {
            assert_eq!(outcome(result), Err(expected), "{result}");
        }
    }
}
