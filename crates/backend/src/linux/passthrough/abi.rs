//! The kernel's interface to NVMe commands (include/uapi/linux/nvme_ioctl.h, Linux 6.12).
//!
//! The driver fills in the command identifier and the data pointer.
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::Sqe;

/// `struct nvme_uring_cmd`, in native byte order.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct UringCmd {
    opcode: u8,
    /// PSDT and FUSE, which must be 0.
    flags: u8,
    rsvd1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    /// Dwords 10 to 15.
    cdw10: [u32; 6],
    /// 0 for the driver's default.
    timeout_ms: u32,
    rsvd2: u32,
}

/// `struct nvme_passthru_cmd64`.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct PassthruCmd64 {
    command: UringCmd,
    result: u64,
}

/// `_IO('N', 0x40)`.
const ID: libc::Ioctl = 0x4e40;
/// `_IOWR('N', 0x47, struct nvme_passthru_cmd64)`, and the one after it.
const ADMIN64_CMD: libc::Ioctl = 0xc050_4e47_u32 as libc::Ioctl;
const IO64_CMD: libc::Ioctl = 0xc050_4e48_u32 as libc::Ioctl;
/// `NVME_URING_CMD_IO`: `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
pub const URING_CMD_IO: u32 = 0xc048_4e80;

const _: () = assert!(size_of::<UringCmd>() == 72 && size_of::<PassthruCmd64>() == 80);

impl UringCmd {
    /// A command with `len` bytes of data at `data`.
    pub fn new(sqe: &Sqe, data: *mut u8, len: u32) -> Self {
        let dwords = [sqe.cdw10, sqe.cdw11, sqe.cdw12, sqe.cdw13, sqe.cdw14, sqe.cdw15];
        UringCmd {
            opcode: sqe.opcode,
            nsid: sqe.nsid.get(),
            cdw2: sqe.cdw2.get(),
            cdw3: sqe.cdw3.get(),
            addr: data.expose_provenance() as u64,
            data_len: len,
            cdw10: dwords.map(|dword| dword.get()),
            ..UringCmd::new_zeroed()
        }
    }

    /// The command field of a submission entry of 128 bytes.
    pub fn in_entry(&self) -> [u8; 80] {
        let mut field = [0; 80];
        field[..size_of::<UringCmd>()].copy_from_slice(self.as_bytes());
        field
    }
}

/// Why a command failed.
#[derive(Debug)]
pub enum PassthruError {
    /// The command did not reach the device.
    System(io::Error),
    /// The device failed it.
    Nvme(NvmeStatus),
}

/// Which queue a command goes to.
#[derive(Clone, Copy, Debug)]
pub enum QueueKind {
    /// The admin queue.
    Admin,
    /// An I/O queue.
    Io,
}

/// Executes a command that reads into `data`, and waits for it.
///
/// # Errors
/// Why it failed.
pub fn execute(
    file: &File,
    queue: QueueKind,
    sqe: &Sqe,
    data: &mut [u8],
) -> Result<(), PassthruError> {
    let len = u32::try_from(data.len()).expect("less than 4 GiB");
    let mut command =
        PassthruCmd64 { command: UringCmd::new(sqe, data.as_mut_ptr(), len), result: 0 };
    let request = match queue {
        QueueKind::Admin => ADMIN64_CMD,
        QueueKind::Io => IO64_CMD,
    };
    // SAFETY: the kernel writes to the command and, until it returns, to `data`, which is as long
    // as the command says.
    let result =
        unsafe { libc::ioctl(file.as_raw_fd(), request, (&raw mut command).cast::<c_void>()) };
    match u16::try_from(result) {
        Ok(0) => Ok(()),
        Ok(status) => Err(PassthruError::Nvme(NvmeStatus(status))),
        Err(_) => Err(PassthruError::System(io::Error::last_os_error())),
    }
}

/// The NSID of a node.
///
/// # Errors
/// The errors of the ioctl.
pub fn nsid(file: &File) -> io::Result<u32> {
    // SAFETY: this ioctl accesses no memory.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), ID) };
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_nvme::wire::io::RwCommand;
    use zonal_nvme::wire::opcode::IoOpcode;
    use zonal_nvme::wire::queue::PSDT_SGL;
    use zonal_nvme::wire::{Sgl, zone};

    #[test]
    fn command_has_the_layout_of_the_kernel() {
        let append = RwCommand {
            opcode: IoOpcode::ZONE_APPEND.0,
            flags: PSDT_SGL,
            cid: 77.into(),
            nsid: 5.into(),
            dptr: Sgl::transport(8192),
            slba: 0x1_2345_6789.into(),
            nlb: 1.into(),
            control: 0x4000.into(),
            ..RwCommand::zeroed()
        };
        let mut data = [0_u8; 8192];
        let command = UringCmd::new(&append.into(), data.as_mut_ptr(), 8192);
        let bytes = command.in_entry();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        assert_eq!(bytes[..4], [0x7d, 0, 0, 0], "no PSDT and no identifier");
        assert_eq!((word(4), word(8), word(12), long(16)), (5, 0, 0, 0));
        assert_eq!((long(24), word(32), word(36)), (data.as_ptr().addr() as u64, 0, 8192));
        assert_eq!([40, 44, 48, 52, 56, 60].map(word), [0x2345_6789, 1, 0x4000_0001, 0, 0, 0]);
        assert_eq!(bytes[64..], [0; 16]);
    }

    #[test]
    fn zone_send_action_is_in_dword_13() {
        let mut reset = zone::ZoneSend::zeroed();
        (reset.opcode, reset.nsid) = (IoOpcode::ZONE_MANAGEMENT_SEND.0, 1.into());
        (reset.slba, reset.action) = (4096.into(), zone::SendAction::RESET.0);
        reset.options = zone::SELECT_ALL;
        let command = UringCmd::new(&reset.into(), std::ptr::null_mut(), 0);
        assert_eq!((command.cdw10[0], command.cdw10[3]), (4096, 0x104));
        assert_eq!((command.addr, command.data_len), (0, 0));
    }

    #[test]
    fn ioctls_fail_on_a_plain_file() {
        let file = tempfile::tempfile().expect("a file");
        let failed = execute(&file, QueueKind::Admin, &Sqe::zeroed(), &mut [0; 64]);
        let Err(PassthruError::System(error)) = failed else { panic!("{failed:?}") };
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
        assert!(nsid(&file).is_err());
    }
}
