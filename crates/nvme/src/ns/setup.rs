//! Makes a command of a request.
//!
//! Takes a request and the namespace it is for; gives a submission queue entry, in place, and data
//! that the command needs beside the request's. Keeps true: one body makes reads, writes and
//! appends for every arrangement, so that they differ in where the fields lie and in nothing else.
use super::layout::Arrangement;
use crate::wire::io::{DSM_DEALLOCATE, DsmCommand, DsmRange, RwCommand, control};
use crate::wire::opcode::IoOpcode;
use crate::wire::sqe::PSDT_SGL;
use crate::wire::zone::{SELECT_ALL, SendAction, ZoneSend};
use crate::wire::{Sgl, Sqe};
use zonal_blk::units::SECTOR_SHIFT;
use zonal_blk::{BioFlags, Op, Request, Status};

/// Data that a command has and its request has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None: the data are the request's, or there are none.
    None,
    /// A range of Dataset Management.
    Range(DsmRange),
}

/// What protection information asks of reads, writes and appends: bits of [`control`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Of reads and writes.
    pub rw: u16,
    /// Of zone appends.
    pub append: u16,
}

impl Protection {
    /// For a namespace with `metadata` bytes a block and protection of type `pi_type`.
    ///
    /// Bios carry no metadata, so where blocks have some the controller must make them up (PRACT):
    /// it does so for protection information only. `None`: the namespace cannot be read or written
    /// without metadata.
    #[inline(always)]
    pub fn of(metadata: u16, pi_type: u8, pi_size: u8) -> Option<Protection> {
        if metadata == 0 {
            return Some(Protection::default());
        }
        if pi_type == 0 || metadata != u16::from(pi_size) {
            return None;
        }
        let mut rw = control::PRACT | control::CHECK_GUARD;
        if pi_type != 3 {
            rw |= control::CHECK_REFERENCE;
        }
        // The host cannot know the LBA of an append, so the controller maps the tag.
        let append = if pi_type == 1 { rw | control::PI_REMAP } else { rw };
        Some(Protection { rw, append })
    }
}

/// Makes a read, write or zone append of `request`, in place.
///
/// # Errors
/// [`Status::NotSupported`] for another operation, or if blocks have metadata that nobody makes up;
/// [`Status::Invalid`] if there are more blocks than a command can have.
#[inline(always)]
pub fn setup_rw<A: Arrangement>(
    ns: &A,
    request: &Request,
    cid: u16,
    slot: &mut Sqe,
) -> Result<(), Status> {
    let opcode = match request.op() {
        Op::Read => IoOpcode::READ,
        Op::Write => IoOpcode::WRITE,
        Op::ZoneAppend => IoOpcode::ZONE_APPEND,
        _ => return Err(Status::NotSupported),
    };
    let protection = ns.protection().ok_or(Status::NotSupported)?;
    let mut bits = if opcode == IoOpcode::ZONE_APPEND { protection.append } else { protection.rw };
    *slot = rw(ns, request, cid, opcode, Sgl::transport(request.nr_sectors() << SECTOR_SHIFT))?;
    if request.flags().contains(BioFlags::FUA) {
        bits |= control::FUA;
    }
    set_control(slot, bits);
    Ok(())
}

/// A command of the form of reads and writes, without control bits.
#[inline(always)]
fn rw<A: Arrangement>(
    ns: &A,
    request: &Request,
    cid: u16,
    opcode: IoOpcode,
    dptr: Sgl,
) -> Result<Sqe, Status> {
    let shift = u32::from(ns.lba_shift()) - SECTOR_SHIFT;
    let blocks = request.nr_sectors() >> shift;
    let nlb = u16::try_from(blocks.wrapping_sub(1)).map_err(|_| Status::Invalid)?;
    let slba = request.sector().0 >> shift;
    let command = RwCommand {
        opcode: opcode.0,
        flags: PSDT_SGL,
        cid: cid.into(),
        nsid: ns.nsid().into(),
        dptr,
        slba: slba.into(),
        nlb: nlb.into(),
        ..RwCommand::zeroed()
    };
    Ok(command.into())
}

/// Sets the control bits; with a check of the reference tag, also the tag.
#[inline(always)]
fn set_control(slot: &mut Sqe, bits: u16) {
    let mut command = RwCommand::from(*slot);
    command.control = bits.into();
    if bits & control::CHECK_REFERENCE != 0 {
        let [a, b, c, d, ..] = command.slba.to_bytes();
        command.reference_tag = crate::wire::U32::from_bytes([a, b, c, d]);
    }
    *slot = command.into();
}

/// Makes the command of any request, in place, and the data that only the command has.
///
/// # Errors
/// As [`setup_rw`].
pub fn setup<A: Arrangement>(
    ns: &A,
    request: &Request,
    cid: u16,
    slot: &mut Sqe,
) -> Result<Payload, Status> {
    match request.op() {
        Op::Read | Op::Write | Op::ZoneAppend => setup_rw(ns, request, cid, slot)?,
        Op::Flush => *slot = Sqe::new(IoOpcode::FLUSH.0, cid, ns.nsid()),
        Op::WriteZeroes => {
            let bits = ns.protection().ok_or(Status::NotSupported)?.rw;
            *slot = rw(ns, request, cid, IoOpcode::WRITE_ZEROES, Sgl::zeroed())?;
            let fua = request.flags().contains(BioFlags::FUA);
            set_control(slot, bits | if fua { control::FUA } else { 0 });
        }
        Op::Discard => return Ok(Payload::Range(discard(ns, request, cid, slot))),
        Op::ZoneOpen => *slot = zone(ns, request, cid, SendAction::OPEN, 0),
        Op::ZoneClose => *slot = zone(ns, request, cid, SendAction::CLOSE, 0),
        Op::ZoneFinish => *slot = zone(ns, request, cid, SendAction::FINISH, 0),
        Op::ZoneReset => *slot = zone(ns, request, cid, SendAction::RESET, 0),
        Op::ZoneResetAll => *slot = zone(ns, request, cid, SendAction::RESET, SELECT_ALL),
    }
    Ok(Payload::None)
}

fn discard<A: Arrangement>(ns: &A, request: &Request, cid: u16, slot: &mut Sqe) -> DsmRange {
    let shift = u32::from(ns.lba_shift()) - SECTOR_SHIFT;
    let command = DsmCommand {
        opcode: IoOpcode::DATASET_MANAGEMENT.0,
        flags: PSDT_SGL,
        cid: cid.into(),
        nsid: ns.nsid().into(),
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

fn zone<A: Arrangement>(
    ns: &A,
    request: &Request,
    cid: u16,
    action: SendAction,
    options: u8,
) -> Sqe {
    let shift = u32::from(ns.lba_shift()) - SECTOR_SHIFT;
    let command = ZoneSend {
        opcode: IoOpcode::ZONE_MANAGEMENT_SEND.0,
        flags: PSDT_SGL,
        cid: cid.into(),
        nsid: ns.nsid().into(),
        slba: (request.sector().0 >> shift).into(),
        action: action.0,
        options,
        ..ZoneSend::zeroed()
    };
    command.into()
}
