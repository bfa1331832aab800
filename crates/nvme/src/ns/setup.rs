//! Makes the command for a request, in its place in the submission queue.
//!
//! Reads, writes and appends are made by one inlined function for every place that a [`CommandFormat`]
//! comes from, so that a benchmark of layouts compares nothing else.
use super::path::CommandFormat;
use crate::wire::io::{DSM_DEALLOCATE, DsmCommand, DsmRange, RwCommand, control};
use crate::wire::opcode::IoOpcode;
use crate::wire::queue::PSDT_SGL;
use crate::wire::zone::{ALLOCATE_ZRWA, SELECT_ALL, SendAction, ZoneSend};
use crate::wire::{Sgl, Sqe};
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Op, Request, Status};

/// Data of a command that its request does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialPayload {
    /// None: the data are the request's, or there are none.
    None,
    /// A range of Dataset Management.
    Range(DsmRange),
}

/// Makes the command of a read, write or zone append in `slot`.
///
/// # Errors
/// [`Status::NotSupported`] for another operation; [`Status::Invalid`] for more blocks than NLB can
/// hold.
#[inline(always)]
pub fn setup_rw(
    ns: CommandFormat,
    request: &Request,
    cid: u16,
    slot: &mut Sqe,
) -> Result<(), Status> {
    let protection = ns.protection;
    let (opcode, bits) = match request.op() {
        Op::Read => (IoOpcode::READ, protection.rw),
        Op::Write => (IoOpcode::WRITE, protection.rw),
        Op::ZoneAppend => (IoOpcode::ZONE_APPEND, protection.append),
        _ => return Err(Status::NotSupported),
    };
    let dptr = Sgl::transport(request.nr_sectors() << SECTOR_SHIFT);
    rw(ns, request, cid, slot, opcode, bits, dptr)
}

/// A command with the fields of a read or write.
#[inline(always)]
fn rw(
    ns: CommandFormat,
    request: &Request,
    cid: u16,
    slot: &mut Sqe,
    opcode: IoOpcode,
    bits: u16,
    dptr: Sgl,
) -> Result<(), Status> {
    let shift = u32::from(ns.lba_shift) - SECTOR_SHIFT;
    let blocks = request.nr_sectors() >> shift;
    let nlb = u16::try_from(blocks.wrapping_sub(1)).map_err(|_| Status::Invalid)?;
    let slba = request.sector().0 >> shift;
    let fua = if request.flags().contains(BioFlags::FUA) { control::FUA } else { 0 };
    // The tag is the lower part of the LBA (NVM section 5.2.1.2).
    #[allow(clippy::cast_possible_truncation)]
    let tag = if bits & control::CHECK_REFERENCE != 0 { slba as u32 } else { 0 };
    let command = RwCommand {
        opcode: opcode.0,
        flags: PSDT_SGL,
        cid: cid.into(),
        nsid: ns.nsid.into(),
        dptr,
        slba: slba.into(),
        nlb: nlb.into(),
        control: (bits | fua).into(),
        reference_tag: tag.into(),
        ..RwCommand::zeroed()
    };
    *slot = command.into();
    Ok(())
}

/// Makes the command of any request in `slot`. Returns data that the command has beside the
/// request's.
///
/// # Errors
/// As [`setup_rw`].
pub fn setup(
    ns: CommandFormat,
    request: &Request,
    cid: u16,
    slot: &mut Sqe,
) -> Result<SpecialPayload, Status> {
    match request.op() {
        Op::Read | Op::Write | Op::ZoneAppend => setup_rw(ns, request, cid, slot)?,
        Op::Flush => *slot = Sqe::new(IoOpcode::FLUSH.0, cid, ns.nsid),
        Op::WriteZeroes => {
            let bits = ns.protection.rw;
            rw(ns, request, cid, slot, IoOpcode::WRITE_ZEROES, bits, Sgl::zeroed())?;
        }
        Op::Discard => return Ok(SpecialPayload::Range(discard(ns, request, cid, slot))),
        Op::ZoneOpen => *slot = zone(ns, request, cid, SendAction::OPEN, 0),
        Op::ZoneClose => *slot = zone(ns, request, cid, SendAction::CLOSE, 0),
        Op::ZoneFinish => *slot = zone(ns, request, cid, SendAction::FINISH, 0),
        Op::ZoneReset => *slot = zone(ns, request, cid, SendAction::RESET, 0),
        Op::ZoneResetAll => *slot = zone(ns, request, cid, SendAction::RESET, SELECT_ALL),
        Op::ZoneOpenZrwa => *slot = zone(ns, request, cid, SendAction::OPEN, ALLOCATE_ZRWA),
        Op::ZrwaFlush => *slot = zrwa_flush(ns, request, cid)?,
    }
    Ok(SpecialPayload::None)
}

fn discard(ns: CommandFormat, request: &Request, cid: u16, slot: &mut Sqe) -> DsmRange {
    let shift = u32::from(ns.lba_shift) - SECTOR_SHIFT;
    let command = DsmCommand {
        opcode: IoOpcode::DATASET_MANAGEMENT.0,
        flags: PSDT_SGL,
        cid: cid.into(),
        nsid: ns.nsid.into(),
        dptr: Sgl::in_capsule(16),
        attributes: DSM_DEALLOCATE.into(),
        ..DsmCommand::zeroed()
    };
    *slot = command.into();
    DsmRange {
        slba: (request.sector().0 >> shift).into(),
        nlb: (request.nr_sectors() >> shift).into(),
        ..DsmRange::zeroed()
    }
}

fn zone(ns: CommandFormat, request: &Request, cid: u16, action: SendAction, options: u8) -> Sqe {
    let shift = u32::from(ns.lba_shift) - SECTOR_SHIFT;
    let command = ZoneSend {
        opcode: IoOpcode::ZONE_MANAGEMENT_SEND.0,
        flags: PSDT_SGL,
        cid: cid.into(),
        nsid: ns.nsid.into(),
        slba: (request.sector().0 >> shift).into(),
        action: action.0,
        options,
        ..ZoneSend::zeroed()
    };
    command.into()
}

/// Flush Explicit ZRWA Range, which names the last block to commit.
fn zrwa_flush(ns: CommandFormat, request: &Request, cid: u16) -> Result<Sqe, Status> {
    let shift = u32::from(ns.lba_shift) - SECTOR_SHIFT;
    let last = (request.end().0 >> shift).checked_sub(1).filter(|_| request.nr_sectors() > 0);
    let last = last.ok_or(Status::Invalid)?;
    let send = ZoneSend::from(zone(ns, request, cid, SendAction::ZRWA_FLUSH, 0));
    Ok(ZoneSend { slba: last.into(), ..send }.into())
}
