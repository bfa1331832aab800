//! Commands of the NVM Command Set, and zone append, as bios.
use super::long::Remaining;
use super::pending::CompletionKind;
use super::{CommandOutput, Namespace, Submission};
use crate::NvmeStatus;
use crate::controller::namespace::append_shift;
use crate::controller::placement::write_stream;
use crate::controller::response::INVALID_FIELD;
use crate::wire::io::{DSM_DEALLOCATE, DsmCommand, DsmRange, RwCommand, control};
use zerocopy::FromBytes;
use zonal_blk::{Bio, BioFlags, Buf, BufPool, Nanos, Op, Sector};

type SubmissionResult = Result<Submission, NvmeStatus>;

fn one(bio: Bio, kind: CompletionKind) -> SubmissionResult {
    Ok(Submission::Bio(bio, kind))
}

fn flags(command: &RwCommand) -> BioFlags {
    if command.has(control::FUA) { BioFlags::FUA } else { BioFlags::NONE }
}

/// Namespaces have no protection information: a command that requires checks is invalid.
fn check_control(command: &RwCommand) -> Result<(), NvmeStatus> {
    let checks = control::CHECK_GUARD | control::CHECK_APPLICATION | control::CHECK_REFERENCE;
    if command.control.get() & (control::PRACT | checks) != 0 {
        return Err(INVALID_FIELD);
    }
    Ok(())
}

/// The sectors of a command that transfers `bytes` of data, which must be their length.
fn transfer(
    namespace: &Namespace,
    command: &RwCommand,
    bytes: u32,
) -> Result<(Sector, u32), NvmeStatus> {
    check_control(command)?;
    let (sector, len) = namespace.range(command.slba.get(), command.blocks())?;
    if u64::from(bytes) != u64::from(len) * 512 {
        return Err(NvmeStatus::SGL_LENGTH.do_not_retry());
    }
    Ok((sector, len))
}

/// The data received with a command of `len` sectors, which must have that length. Leaves `data`
/// alone if they have not.
fn take_data(len: u32, data: &mut Option<Buf>) -> Result<Buf, NvmeStatus> {
    data.take_if(|data| data.len() as u64 == u64::from(len) * 512).ok_or(NvmeStatus::DATA_TRANSFER)
}

/// A write must not cross a zone boundary (ZNS section 2.1.1.2.1); the block layer would split it.
fn check_zone(namespace: &Namespace, sector: Sector, len: u32) -> Result<(), NvmeStatus> {
    let limits = namespace.limits();
    if namespace.is_zoned() {
        let end = limits.zone_start(limits.zone_of(sector)) + limits.zone_size;
        if sector + Sector(len.into()) > end {
            return Err(NvmeStatus::ZONE_BOUNDARY.do_not_retry());
        }
    }
    Ok(())
}

pub(super) fn flush() -> Submission {
    Submission::Bio(Bio::new(Op::Flush, Sector(0), 0, 0), CompletionKind::Plain)
}

pub(super) fn read(
    namespace: &Namespace,
    command: &RwCommand,
    bytes: u32,
    bufs: &mut BufPool,
) -> SubmissionResult {
    let (sector, len) = transfer(namespace, command, bytes)?;
    let buf = Some(namespace.read_buf(bufs, len as usize * 512)?);
    one(Bio { buf, ..Bio::new(Op::Read, sector, len, 0) }, CompletionKind::Read)
}

pub(super) fn write(
    now: Nanos,
    namespace: &Namespace,
    command: &RwCommand,
    bytes: u32,
    data: &mut Option<Buf>,
) -> SubmissionResult {
    let (sector, len) = transfer(namespace, command, bytes)?;
    check_zone(namespace, sector, len)?;
    let stream = write_stream(namespace, command, now)?;
    let bio = Bio::write(sector, take_data(len, data)?, 0);
    one(Bio { flags: flags(command), stream, ..bio }, CompletionKind::Write(len))
}

pub(super) fn append(
    namespace: &Namespace,
    command: &RwCommand,
    bytes: u32,
    data: &mut Option<Buf>,
) -> SubmissionResult {
    let (sector, len) = transfer(namespace, command, bytes)?;
    let limits = namespace.limits();
    let shift = append_shift(namespace.append_max());
    if sector != limits.zone_start(limits.zone_of(sector)) || len > 8 << shift {
        return Err(INVALID_FIELD);
    }
    let bio = Bio::write(sector, take_data(len, data)?, 0);
    one(Bio { op: Op::ZoneAppend, flags: flags(command), ..bio }, CompletionKind::Append(len))
}

pub(super) fn write_zeroes(
    now: Nanos,
    namespace: &Namespace,
    command: &RwCommand,
) -> SubmissionResult {
    check_control(command)?;
    let (sector, len) = namespace.range(command.slba.get(), command.blocks())?;
    check_zone(namespace, sector, len)?;
    let range = Remaining::Range {
        op: Op::WriteZeroes,
        flags: flags(command),
        stream: write_stream(namespace, command, now)?,
        sector,
        nr_sectors: len,
    };
    Ok(Submission::Bios(range, CompletionKind::Write(len)))
}

pub(super) fn compare(
    namespace: &Namespace,
    command: &RwCommand,
    bytes: u32,
    data: &mut Option<Buf>,
    bufs: &mut BufPool,
) -> SubmissionResult {
    let (sector, len) = transfer(namespace, command, bytes)?;
    let buf = Some(namespace.read_buf(bufs, len as usize * 512)?);
    let expected = CompletionKind::Compare(take_data(len, data)?);
    one(Bio { buf, ..Bio::new(Op::Read, sector, len, 0) }, expected)
}

/// Verify: reads, and returns no data to the host.
pub(super) fn verify(namespace: &Namespace, command: &RwCommand) -> SubmissionResult {
    check_control(command)?;
    let (sector, len) = namespace.range(command.slba.get(), command.blocks())?;
    let flags = BioFlags::NONE;
    let range = Remaining::Range { op: Op::Read, flags, stream: 0, sector, nr_sectors: len };
    Ok(Submission::Bios(range, CompletionKind::Plain))
}

/// Dataset Management. Deallocation is a hint; in sequential zones it does nothing, since they are
/// reset as a whole. Of the `bytes` of data those after the ranges are ignored: Linux sends 4096, enough
/// for all 256 ranges, whatever their number.
pub(super) fn deallocate(
    namespace: &Namespace,
    command: &DsmCommand,
    bytes: u32,
    data: &[u8],
) -> SubmissionResult {
    let count = usize::from(command.nr) + 1;
    let size = DsmRange::SIZE;
    let sent = bytes as usize;
    if sent < count * size {
        return Err(NvmeStatus::SGL_LENGTH.do_not_retry());
    }
    if data.len() != sent {
        return Err(NvmeStatus::DATA_TRANSFER);
    }
    let mut ranges = Vec::new();
    for chunk in data.chunks_exact(size).take(count) {
        let entry = DsmRange::read_from_bytes(chunk).expect("a chunk has a range's length");
        let (sector, len) = namespace.range(entry.slba.get(), entry.nlb.get())?;
        if len > 0 {
            ranges.push((sector, len));
        }
    }
    if namespace.is_zoned() || command.attributes.get() & DSM_DEALLOCATE == 0 {
        return Ok(Submission::Done(CommandOutput::EMPTY));
    }
    Ok(Submission::Bios(Remaining::Discards(ranges.into_iter()), CompletionKind::Plain))
}
