//! Requests as NVMe commands that io_uring passes through (`IORING_OP_URING_CMD`, Linux 5.19).
//!
//! Submission entries have 128 bytes, for the command, and completions 32, for the 64-bit result of
//! a zone append: where its data are.
use super::abi::{URING_CMD_IO, UringCmd};
use crate::linux::failure::Failure;
use crate::linux::queue::{Commands, data_len};
use io_uring::{cqueue, opcode, squeue, types};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use zonal_blk::{Op, Request, Status};
use zonal_nvme::NvmeStatus;
use zonal_nvme::ns::{Namespace, SpecialPayload, setup};
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_os::poll::fixed_buffers::FixedBuffers;

pub struct NvmeCommands {
    pub file: Arc<File>,
    pub namespace: Arc<Namespace>,
}

impl NvmeCommands {
    /// The entry of a command, with its data in a fixed buffer of the ring if there is one.
    fn entry(&self, command: &UringCmd, buffer: Option<u16>) -> squeue::Entry128 {
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, URING_CMD_IO).cmd(command.in_entry());
        entry.buf_index(buffer).build()
    }
}

// SAFETY: the file is held open, and commands transfer the `data_len` bytes at `data`, or none.
unsafe impl Commands for NvmeCommands {
    type Entry = squeue::Entry128;
    type Cqe = cqueue::Entry32;

    fn flush(&self) -> squeue::Entry128 {
        let sqe = Sqe::new(IoOpcode::FLUSH.0, 0, self.namespace.format().nsid);
        self.entry(&UringCmd::new(&sqe, std::ptr::null_mut(), 0), None)
    }

    fn start(&self, request: &Request, data: *mut u8) -> Result<squeue::Entry128, Status> {
        let mut sqe = Sqe::zeroed();
        match setup(self.namespace.format(), request, 0, &mut sqe)? {
            SpecialPayload::None => {
                Ok(self.entry(&UringCmd::new(&sqe, data, data_len(request)), None))
            }
            // Block devices here have no discards either.
            SpecialPayload::Range(_) => Err(Status::NotSupported),
        }
    }

    /// The address of data in a fixed buffer is their offset in it. A request that is no command
    /// fails when its data are copied.
    fn start_external(&self, request: &Request, index: u16) -> Option<[squeue::Entry128; 3]> {
        let external = request.external_buf()?;
        let [register, unregister] = FixedBuffers::register_entries(external, index)?;
        let mut sqe = Sqe::zeroed();
        let Ok(SpecialPayload::None) = setup(self.namespace.format(), request, 0, &mut sqe) else {
            return None;
        };
        let at = std::ptr::without_provenance_mut(external.offset());
        let transfer = self.entry(&UringCmd::new(&sqe, at, data_len(request)), Some(index));
        let transfer = transfer.flags(squeue::Flags::IO_HARDLINK);
        Some([register.into(), transfer, unregister.into()])
    }

    fn result(&self, _: &Request, completion: &cqueue::Entry32) -> Result<u64, Failure> {
        status_of(completion.result()).map(|()| completion.big_cqe()[0])
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

/// The result of a command: the status field of its completion queue entry, or a negative error
/// number.
fn status_of(result: i32) -> Result<(), Failure> {
    match (u16::try_from(result), result.wrapping_neg()) {
        (Ok(status), _) => match NvmeStatus(status).to_blk_status() {
            Status::Ok => Ok(()),
            blk => Err(Failure { status: blk, zone_error: NvmeStatus(status).is_zone_error() }),
        },
        // The driver cancelled the command, as when it resets the controller.
        (_, libc::EINTR) => Err(Status::Transport.into()),
        (_, errno) => Err(Status::from_errno(errno).into()),
    }
}

#[cfg(test)]
pub(in crate::linux) mod testing {
    use super::*;
    use zonal_nvme::ns::{Ids, NamespaceHead, NamespaceInfo};
    use zonal_nvme::wire::identify::IdentifyNamespace;

    /// Commands for namespace 1, of 2048 blocks of 512 bytes, passed through any file.
    pub fn commands(file: Arc<File>) -> NvmeCommands {
        let mut id = IdentifyNamespace::zeroed();
        (id.size, id.lba_formats[0].data_shift) = (2048.into(), 9);
        let info = NamespaceInfo::new(1, Ids::default(), &id, None).expect("a usable namespace");
        let namespace = NamespaceHead::new(&info).path();
        NvmeCommands { file, namespace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_those_of_the_device_or_of_the_kernel() {
        assert_eq!(status_of(0), Ok(()));
        let too_many = NvmeStatus::TOO_MANY_OPEN.do_not_retry();
        for (result, expected) in [
            (i32::from(too_many.0), Status::ZoneOpenResource),
            (i32::from(NvmeStatus::WRITE_FAULT.0), Status::Medium),
            (i32::from(NvmeStatus::ABORTED_BY_HOST.0), Status::Transport),
            (-libc::EINTR, Status::Transport),
            (-libc::ENODEV, Status::Offline),
            (-libc::EINVAL, Status::Invalid),
            (0x1_0000, Status::IoError),
            (i32::MIN, Status::IoError),
        ] {
            assert_eq!(status_of(result), Err(expected.into()), "{result}");
        }
        let refused = Failure { status: Status::IoError, zone_error: true };
        let out_of_order = NvmeStatus::ZONE_INVALID_WRITE.do_not_retry();
        assert_eq!(status_of(out_of_order.0.into()), Err(refused));
    }
}
