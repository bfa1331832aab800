//! The place of a command's data: its data pointer, as the transport understands it.
use super::response::INVALID_FIELD;
use crate::NvmeStatus;
use crate::wire::queue::{PSDT_SGL, Transfer};
use crate::wire::{Sgl, Sqe};

/// The fused operation in the flags of a command (Base section 3.3.3.1, FUSE).
const FUSE: u8 = 0b11;
/// The kind of its data pointer (PSDT).
const PSDT: u8 = 0b11 << 6;

/// The data pointer of a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum DataPointer<'a> {
    /// Over fabrics: an SGL with one descriptor, for data in the capsule or in PDUs of their own.
    Fabrics(&'a Sgl),
    /// Over PCIe: PRPs or an SGL. The transport has checked them, and finds this many bytes there.
    Resolved(u32),
}

impl DataPointer<'_> {
    /// The pointer to `len` bytes. Whatever is too long for it is too long for any transfer.
    pub fn resolved(len: u64) -> Self {
        DataPointer::Resolved(u32::try_from(len).unwrap_or(u32::MAX))
    }

    /// Bytes of data that the host sends, or has room for.
    #[inline]
    pub fn len(self) -> u32 {
        match self {
            DataPointer::Fabrics(sgl) => sgl.length.get(),
            DataPointer::Resolved(len) => len,
        }
    }

    /// Checks the flags of the command, and the pointer if the transport has not, against what this
    /// controller supports.
    #[inline]
    pub fn check(self, sqe: &Sqe) -> Result<(), NvmeStatus> {
        if sqe.flags & FUSE != 0 {
            return Err(INVALID_FIELD);
        }
        let DataPointer::Fabrics(sgl) = self else { return Ok(()) };
        if sqe.flags & PSDT != PSDT_SGL {
            return Err(INVALID_FIELD);
        }
        match sgl.kind {
            Sgl::TRANSPORT => Ok(()),
            // Response capsules carry no data (TCP section 3.3.2).
            Sgl::IN_CAPSULE if sqe.transfer() == Transfer::ToHost => {
                Err(NvmeStatus::SGL_TYPE.do_not_retry())
            }
            Sgl::IN_CAPSULE if sgl.address.get() != 0 => Err(NvmeStatus::SGL_OFFSET.do_not_retry()),
            Sgl::IN_CAPSULE => Ok(()),
            _ if *sgl == Sgl::zeroed() => Ok(()),
            _ => Err(NvmeStatus::SGL_TYPE.do_not_retry()),
        }
    }
}
