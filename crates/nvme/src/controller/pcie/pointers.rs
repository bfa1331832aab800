//! Data pointers: PRPs, PRP lists and SGLs become segments of guest memory.
//!
//! A list is read once, when its command is fetched. Every step of a walk yields data or counts against
//! a limit, so that a list in a loop ends as an error.
use super::{Dma, PAGE};
use crate::NvmeStatus;
use crate::controller::response::INVALID_FIELD;
use crate::wire::pcie::{prps, sgl};
use crate::wire::{Sgl, Sqe};
use zerocopy::FromBytes;

/// Descriptors of an SGL, those of its segments included.
const MAX_DESCRIPTORS: usize = 1024;

/// A piece of guest memory: address and length in bytes.
pub(super) type Segment = (u64, u64);

const DATA_TRANSFER: NvmeStatus = NvmeStatus::DATA_TRANSFER;

/// Appends the segments of `len` bytes of a command's data.
///
/// # Errors
/// The status for a data pointer that is malformed, or does not have as many.
pub(super) fn parse(
    dma: &impl Dma,
    sqe: &Sqe,
    len: u64,
    segments: &mut Vec<Segment>,
) -> Result<(), NvmeStatus> {
    if len == 0 {
        return Ok(());
    }
    match sqe.flags >> 6 {
        0 => parse_prps(dma, prps(sqe), len, segments),
        // With a buffer or an SGL of metadata, of which there are none.
        0b01 | 0b10 => parse_sgl(dma, &sqe.dptr, len, segments),
        _ => Err(INVALID_FIELD),
    }
}

fn push(segments: &mut Vec<Segment>, address: u64, len: u64) {
    match segments.last_mut() {
        Some((start, before)) if start.checked_add(*before) == Some(address) => *before += len,
        _ => segments.push((address, len)),
    }
}

/// Base section 4.1.1.
fn parse_prps(
    dma: &impl Dma,
    [first, second]: [u64; 2],
    len: u64,
    segments: &mut Vec<Segment>,
) -> Result<(), NvmeStatus> {
    let offset = NvmeStatus::PRP_OFFSET.do_not_retry();
    if first % 4 != 0 {
        return Err(offset);
    }
    let here = len.min(PAGE - first % PAGE);
    push(segments, first, here);
    let mut left = len - here;
    if left == 0 {
        return Ok(());
    }
    if left <= PAGE {
        if second % PAGE != 0 {
            return Err(offset);
        }
        push(segments, second, left);
        return Ok(());
    }
    if second % 8 != 0 {
        return Err(offset);
    }
    let mut list = second;
    let mut page = [0; 4096];
    loop {
        let (room, wanted) = ((PAGE - list % PAGE) / 8, left.div_ceil(PAGE));
        let entries = usize::try_from(room.min(wanted)).expect("no more than a page has");
        let bytes = &mut page[..entries * 8];
        dma.read(list, bytes).map_err(|_| DATA_TRANSFER)?;
        for (number, entry) in (1..).zip(bytes.chunks_exact(8)) {
            let entry = u64::from_le_bytes(entry.try_into().expect("a chunk has eight bytes"));
            // Of further lists, too: so each has as many entries as a page, and the walk ends.
            if entry % PAGE != 0 {
                return Err(offset);
            }
            if number == room && left > PAGE {
                list = entry;
                break;
            }
            push(segments, entry, left.min(PAGE));
            left -= left.min(PAGE);
        }
        if left == 0 {
            return Ok(());
        }
    }
}

/// Base section 4.1.2. The SGL has to describe exactly the data.
fn parse_sgl(
    dma: &impl Dma,
    first: &Sgl,
    len: u64,
    segments: &mut Vec<Segment>,
) -> Result<(), NvmeStatus> {
    let mut left = len;
    let mut add = |descriptor: &Sgl| {
        let (address, part) = (descriptor.address.get(), descriptor.length.get().into());
        left = left.checked_sub(part).ok_or(NvmeStatus::SGL_LENGTH.do_not_retry())?;
        if part > 0 {
            push(segments, address, part);
        }
        Ok::<_, NvmeStatus>(())
    };
    let mut list = match first.kind {
        sgl::DATA_BLOCK => {
            add(first)?;
            None
        }
        sgl::SEGMENT | sgl::LAST_SEGMENT => Some(*first),
        _ => return Err(NvmeStatus::SGL_TYPE.do_not_retry()),
    };
    let mut count = 0;
    while let Some(segment) = list.take() {
        let count_error = NvmeStatus::SGL_COUNT.do_not_retry();
        let bytes = segment.length.get() as usize;
        count += bytes / Sgl::SIZE;
        if bytes == 0 || !bytes.is_multiple_of(Sgl::SIZE) || count > MAX_DESCRIPTORS {
            return Err(count_error);
        }
        let mut descriptors = vec![0; bytes];
        dma.read(segment.address.get(), &mut descriptors).map_err(|_| DATA_TRANSFER)?;
        let last = bytes / Sgl::SIZE - 1;
        for (number, descriptor) in descriptors.chunks_exact(Sgl::SIZE).enumerate() {
            let descriptor = Sgl::read_from_bytes(descriptor).expect("a chunk has its length");
            match descriptor.kind {
                sgl::DATA_BLOCK => add(&descriptor)?,
                sgl::SEGMENT | sgl::LAST_SEGMENT
                    if number == last && segment.kind == sgl::SEGMENT =>
                {
                    list = Some(descriptor);
                }
                _ => return Err(NvmeStatus::SGL_TYPE.do_not_retry()),
            }
        }
    }
    if left > 0 { Err(NvmeStatus::SGL_LENGTH.do_not_retry()) } else { Ok(()) }
}

/// Copies data from guest memory. `to` has their length.
pub(super) fn gather(
    dma: &impl Dma,
    segments: &[Segment],
    mut to: &mut [u8],
) -> Result<(), NvmeStatus> {
    for &(address, len) in segments {
        let len = usize::try_from(len).expect("a transfer is short");
        let (here, rest) = to.split_at_mut(len);
        dma.read(address, here).map_err(|_| DATA_TRANSFER)?;
        to = rest;
    }
    Ok(())
}

/// Copies data to guest memory: all, or as many as there are segments for.
pub(super) fn scatter(
    dma: &impl Dma,
    segments: &[Segment],
    mut from: &[u8],
) -> Result<(), NvmeStatus> {
    for &(address, len) in segments {
        let len = usize::try_from(len).expect("a transfer is short").min(from.len());
        let (here, rest) = from.split_at(len);
        dma.write(address, here).map_err(|_| DATA_TRANSFER)?;
        from = rest;
    }
    Ok(())
}
