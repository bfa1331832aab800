//! Requests as commands of a block device: reads and writes by io_uring, zone management by ioctl.
//!
//! Takes requests; gives entries of a ring. The kernel manages zones only while one waits, so these
//! requests end at once.
use super::device::status;
use super::queue::{Commands, data_len};
use super::zones;
use crate::frontend::ublk::io_buffers::IoBuffers;
use io_uring::{cqueue, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use zonal_blk::{BioFlags, Limits, Op, Request, Sector, Status};

/// Flags of a write that is to be durable when it ends, or not.
fn durability(request: &Request) -> i32 {
    if request.flags().contains(BioFlags::FUA) { libc::RWF_DSYNC } else { 0 }
}

pub(super) struct BlockCommands {
    pub file: Arc<File>,
    pub limits: Limits,
}

impl BlockCommands {
    fn fd(&self) -> types::Fd {
        types::Fd(self.file.as_raw_fd())
    }

    fn manage(&self, request: &Request) -> Status {
        let (start, len) = match request.op() {
            Op::ZoneResetAll => (Sector(0), self.limits.capacity),
            _ => (request.sector(), self.limits.zone_size),
        };
        let done = zones::manage(&self.file, request.op(), start, len);
        done.map_or_else(|error| status(&error), |()| Status::Ok)
    }
}

// SAFETY: the file is held, and reads and writes are of `data` and that long.
unsafe impl Commands for BlockCommands {
    type Entry = squeue::Entry;
    type Cqe = cqueue::Entry;

    fn flush(&self) -> squeue::Entry {
        opcode::Fsync::new(self.fd()).build()
    }

    fn start(&self, request: &Request, data: *mut u8) -> Result<squeue::Entry, Status> {
        let (len, offset) = (data_len(request), request.sector().to_bytes().0);
        Ok(match request.op() {
            Op::Read => opcode::Read::new(self.fd(), data, len).offset(offset).build(),
            Op::Write => {
                let flags = durability(request);
                opcode::Write::new(self.fd(), data, len).offset(offset).rw_flags(flags).build()
            }
            Op::Flush => self.flush(),
            op if op.is_zone_management() || op == Op::ZoneResetAll => {
                return Err(self.manage(request));
            }
            _ => return Err(Status::NotSupported),
        })
    }

    /// The place in lent pages is counted from their first byte.
    fn start_external(&self, request: &Request, index: u16) -> Option<[squeue::Entry; 3]> {
        let lent = request.external_buf()?;
        let [register, unregister] = IoBuffers::register_entries(lent, index)?;
        let at = std::ptr::without_provenance_mut(lent.offset());
        let (len, offset) = (data_len(request), request.sector().to_bytes().0);
        let moves = match request.op() {
            Op::Read => opcode::ReadFixed::new(self.fd(), at, len, index).offset(offset).build(),
            Op::Write => opcode::WriteFixed::new(self.fd(), at, len, index)
                .offset(offset)
                .rw_flags(durability(request))
                .build(),
            _ => return None,
        };
        Some([register, moves.flags(squeue::Flags::IO_HARDLINK), unregister])
    }

    fn result(&self, answer: &cqueue::Entry) -> Result<u64, Status> {
        let result = answer.result();
        u64::try_from(result).map_err(|_| status(&io::Error::from_raw_os_error(-result)))
    }

    /// The result is the number of bytes that have moved.
    fn finish(&self, request: &mut Request, result: u64) -> Status {
        let whole = result == u64::from(data_len(request));
        if whole { Status::Ok } else { Status::IoError }
    }
}
