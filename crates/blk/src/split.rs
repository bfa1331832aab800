//! Checks a bio against the device's limits and splits it where a command must end.
//!
//! Parts fit the largest command and lie in one zone each; they are in order, aligned and cover the
//! bio. A bio that breaks a rule fails here.
use crate::bio::{Bio, BioFlags};
use crate::buf::Buf;
use crate::buf_pool::BufPool;
use crate::device::ReadBufs;
use crate::limits::Limits;
use crate::op::{Op, OpClass};
use crate::probe::{mark, mutant};
use crate::status::Status;
use crate::units::{Sector, ZoneNo};

/// The limits that the check of the usual bio needs, computed once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastPath {
    zone_size: u64,
    /// log2 of the zone size, if it is a power of two.
    zone_shift: Option<u32>,
    /// Mask of the unit of writes: bios that are not aligned to it take the slow path.
    unit_mask: u64,
    max_sectors: u32,
    capacity: u64,
}

impl FastPath {
    pub(crate) fn new(limits: &Limits) -> Self {
        let zone_size = limits.zone_size.0;
        FastPath {
            zone_size,
            zone_shift: zone_size.is_power_of_two().then(|| zone_size.trailing_zeros()),
            unit_mask: u64::from(limits.zone_write_sectors()) - 1,
            max_sectors: limits.max_sectors,
            capacity: limits.capacity.0,
        }
    }

    /// The zone of a read or write that needs no further check and no split: aligned, with the
    /// buffer it should have, in one zone and no longer than the largest command. `None` for every
    /// other bio, valid or not.
    // A call would have the bio built in memory.
    #[inline(always)]
    pub(crate) fn zone_of(&self, bio: &Bio) -> Option<ZoneNo> {
        let (sector, len) = (bio.sector.0, u64::from(bio.nr_sectors));
        let simple = matches!(bio.op, Op::Read | Op::Write)
            && bio.nr_sectors.wrapping_sub(1) < self.max_sectors
            && (sector | len) & self.unit_mask == 0
            && sector < self.capacity
            && bio.buf.as_ref().is_none_or(|buf| buf.len() as u64 == len << 9);
        if !simple {
            return None;
        }
        let zone = match self.zone_shift {
            Some(shift) => sector >> shift,
            None if self.zone_size > 0 => sector / self.zone_size,
            None => return (sector + len <= self.capacity).then_some(ZoneNo(0)),
        };
        if sector + len > self.capacity.min((zone + 1) * self.zone_size) {
            return None;
        }
        u32::try_from(zone).ok().map(ZoneNo)
    }
}

/// Checks that a bio may enter the layer.
///
/// # Errors
/// [`Status::Invalid`] for a bio that is empty, unaligned, beyond the capacity or whose buffer has
/// another length; [`Status::NotSupported`] for zone operations on a device without zones;
/// or random write areas on one that has none; [`Status::IoError`] for an append that does not begin
/// at its zone's start or is too long (A25).
pub(crate) fn check(limits: &Limits, bio: &Bio) -> Result<(), Status> {
    if bio.op == Op::Flush || bio.op == Op::ZoneResetAll {
        return check_zoned(limits, bio.op);
    }
    check_zoned(limits, bio.op)?;
    let len = u64::from(bio.nr_sectors);
    let mask = u64::from(limits.lba_sectors()) - 1;
    let in_range = bio.sector.0.checked_add(len).is_some_and(|end| end <= limits.capacity.0);
    if !in_range || (bio.sector.0 | len) & mask != 0 {
        return Err(Status::Invalid);
    }
    if bio.op.has_range() {
        if len == 0 || bio.buf.as_ref().is_some_and(|b| b.len() as u64 != len << 9) {
            return Err(Status::Invalid);
        }
        if bio.op == Op::ZoneAppend {
            let fits = bio.nr_sectors <= append_max(limits);
            let at_start = bio.sector == limits.zone_start(limits.zone_of(bio.sector));
            return if fits && at_start { Ok(()) } else { Err(Status::IoError) };
        }
    } else if bio.sector == limits.capacity
        || bio.sector != limits.zone_start(limits.zone_of(bio.sector))
    {
        return Err(Status::Invalid);
    }
    if bio.op == Op::ZrwaFlush && len > limits.zone_size.0 {
        return Err(Status::Invalid);
    }
    Ok(())
}

fn check_zoned(limits: &Limits, op: Op) -> Result<(), Status> {
    let zoned = op.info().class == OpClass::Zone || op == Op::ZoneAppend;
    let zrwa = matches!(op, Op::ZoneOpenZrwa | Op::ZrwaFlush);
    if zoned && limits.nr_zones == 0 || zrwa && limits.zrwa.max == 0 {
        Err(Status::NotSupported)
    } else {
        Ok(())
    }
}

/// Whether a checked bio writes part of a unit of the device's write granularity at its start or its end
/// in a zone that is not conventional.
#[inline]
pub(crate) fn is_too_fine(
    limits: &Limits,
    bio: &Bio,
    is_conventional: impl Fn(ZoneNo) -> bool,
) -> bool {
    if limits.write_granularity == 0 || !bio.op.is_write() || mutant!(GranularityIgnored) {
        return false;
    }
    let unit = u64::from(limits.zone_write_sectors());
    let end = bio.sector + Sector(u64::from(bio.nr_sectors));
    let is_inside = |at: Sector, sector: Sector| {
        !at.0.is_multiple_of(unit) && !is_conventional(limits.zone_of(sector))
    };
    let too_fine = is_inside(bio.sector, bio.sector) || is_inside(end, end - Sector(1));
    mark!(TooFine if too_fine);
    too_fine
}

/// The longest append in sectors: the device's own, or for an emulated one what a write may have
/// (A23). It is never split, so it must fit a command and a zone (A25).
pub(crate) fn append_max(limits: &Limits) -> u32 {
    let zone = u32::try_from(limits.zone_size.0).unwrap_or(u32::MAX);
    let native = limits.append_max_sectors;
    let append = if native > 0 { native } else { limits.max_sectors };
    append.min(limits.max_sectors).min(zone)
}

/// Whether the bio is split. So is a write zeroes that the device does not have, even if it is
/// short: its parts have buffers (A21).
#[inline]
pub(crate) fn needs_split(limits: &Limits, bio: &Bio) -> bool {
    bio.op.has_range()
        && (max_len_at(limits, bio.op, bio.sector, bio.nr_sectors) < bio.nr_sectors
            || writes_zeroes_as_data(limits, bio.op))
}

fn writes_zeroes_as_data(limits: &Limits, op: Op) -> bool {
    op == Op::WriteZeroes && limits.max_write_zeroes_sectors == 0
}

/// How long a command that begins at `sector` may be, up to `len` sectors.
pub(crate) fn max_len_at(limits: &Limits, op: Op, sector: Sector, len: u32) -> u32 {
    let mut fits = len;
    match op {
        Op::Discard => {}
        Op::WriteZeroes if limits.max_write_zeroes_sectors > 0 => {
            fits = fits.min(limits.max_write_zeroes_sectors);
        }
        _ => fits = fits.min(limits.max_sectors),
    }
    if limits.nr_zones > 0 {
        let next_zone = limits.zone_start(limits.zone_of(sector)) + limits.zone_size;
        fits = fits.min(u32::try_from((next_zone - sector).0).unwrap_or(u32::MAX));
    }
    fits
}

/// Splits a checked bio. Each part has its piece of the bio's buffer, which `bio` then has no more, if
/// the buffer can be taken apart where the parts end. Otherwise the parts of a read have buffers that
/// are copied back when they complete; those of a write have copies: a buffer in flight has one owner.
/// The parts of an external buffer are external. Zeroes that the device cannot write without data become
/// writes of zero buffers (A21). The buffers come from `bufs`; `reads` says what a read does to one.
/// `None` if there is no memory for them.
pub(crate) fn parts(
    limits: &Limits,
    bio: &mut Bio,
    reads: ReadBufs,
    bufs: &mut BufPool,
) -> Option<Vec<Bio>> {
    let as_data = writes_zeroes_as_data(limits, bio.op);
    let op = if as_data { Op::Write } else { bio.op };
    mark!(ZeroesAsData if as_data);
    let flags = if mutant!(FuaDropped) { BioFlags::NONE } else { bio.flags };
    let stream = if mutant!(StreamDropped) { 0 } else { bio.stream };
    let mut rest = if is_divisible(limits, bio) { bio.buf.take() } else { None };
    let mut parts = Vec::new();
    for (done, len) in ranges(limits, bio) {
        let (at, bytes) = (done as usize * 512, len as usize * 512);
        let buf = match (rest.as_mut(), &bio.buf) {
            _ if as_data => Some(bufs.zeroed(bytes)?),
            (Some(rest_of), _) if rest_of.len() > bytes => rest_of.split_to(bytes),
            (Some(_), _) => rest.take(),
            (None, None) => None,
            (None, Some(whole)) => Some(match whole.as_external() {
                Some(lent) => Buf::external(lent.advanced_by(at), bytes),
                None if op == Op::Read => bufs.for_read(bytes, reads)?,
                None => {
                    let mut buf = bufs.sized(bytes)?;
                    buf.copy_from_slice(&whole[at..][..bytes]);
                    buf
                }
            }),
        };
        let part = Bio::new(op, bio.sector + Sector(done.into()), len, bio.user_data);
        parts.push(Bio { flags, prio: bio.prio, stream, buf, ..part });
    }
    Some(parts)
}

/// First sector, from that of the bio, and length of each part.
fn ranges(limits: &Limits, bio: &Bio) -> impl Iterator<Item = (u32, u32)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let done = next;
        let left = bio.nr_sectors - done;
        let len = max_len_at(limits, bio.op, bio.sector + Sector(done.into()), left);
        next += len;
        (left > 0).then_some((done, len))
    })
}

/// Whether the bio's buffer can be taken apart where its parts end.
fn is_divisible(limits: &Limits, bio: &Bio) -> bool {
    !writes_zeroes_as_data(limits, bio.op)
        && bio.buf.as_ref().is_some_and(Buf::is_divisible)
        && ranges(limits, bio).all(|(done, _)| done.is_multiple_of(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::{ExternalBuf, ExternalMemory};
    use crate::testing::limits;
    use std::sync::Arc;

    fn cut(limits: &Limits, bio: &mut Bio) -> Vec<Bio> {
        parts(limits, bio, ReadBufs::Filled, &mut BufPool::default()).expect("memory")
    }

    #[test]
    fn a15_bio_across_zones_is_cut_at_the_border_and_at_the_largest_command() {
        let limits = Limits { max_sectors: 1024, ..limits(4, 4096) };
        let mut bio = Bio::new(Op::Write, Sector(3000), 2048, 0);
        let cut: Vec<_> =
            cut(&limits, &mut bio).iter().map(|p| (p.sector.0, p.nr_sectors)).collect();
        assert_eq!(cut, [(3000, 1024), (4024, 72), (4096, 952)]);
    }

    #[test]
    fn parts_have_the_priority_and_the_write_stream_of_the_bio() {
        let limits = limits(4, 8);
        let prio = crate::Prio::new(crate::PrioClass::Idle, 3);
        let mut bio = Bio { stream: 3, prio, ..Bio::new(Op::Write, Sector(4), 16, 0) };
        let parts = cut(&limits, &mut bio);
        assert_eq!(parts.len(), 3);
        assert!(parts.iter().all(|part| (part.stream, part.prio) == (3, prio)));
    }

    #[test]
    fn parts_of_lent_data_are_lent_each_from_where_it_begins() {
        let limits = limits(4, 8);
        for op in [Op::Read, Op::Write] {
            let buf = Buf::external(ExternalBuf::new(Arc::new(Nobody), 7), 16 * 512);
            let mut bio = Bio { buf: Some(buf), ..Bio::new(op, Sector(4), 16, 0) };
            assert_eq!(check(&limits, &bio), Ok(()));
            let cut: Vec<_> = cut(&limits, &mut bio)
                .iter()
                .map(|part| part.buf.as_ref().expect("data"))
                .map(|buf| (buf.len(), buf.as_external().expect("lent")))
                .map(|(len, lent)| (len, lent.token(), lent.offset()))
                .collect();
            assert_eq!(cut, [(2048, 7, 0), (4096, 7, 2048), (2048, 7, 6144)]);
        }
    }

    /// Nobody asks it for data.
    struct Nobody;

    impl ExternalMemory for Nobody {
        fn read(&self, _: u64, _: usize, _: &mut [u8]) -> Result<(), Status> {
            Err(Status::IoError)
        }

        fn write(&self, _: u64, _: usize, _: &[u8]) -> Result<(), Status> {
            Err(Status::IoError)
        }
    }

    #[test]
    fn parts_have_the_pages_of_the_bio_where_they_end_at_pages() {
        let limits = Limits { max_sectors: 256, ..limits(4, 4096) };
        for (sector, divided) in [(4096 - 640, true), (4096 - 641, false)] {
            let mut buf = Buf::zeroed(1024 * 512);
            buf[640 * 512] = 1;
            let begin = buf.as_ptr();
            let mut bio = Bio { buf: Some(buf), ..Bio::new(Op::Write, Sector(sector), 1024, 0) };
            let parts = cut(&limits, &mut bio);
            assert_eq!(bio.buf.is_none(), divided, "from {sector}");
            let bufs: Vec<_> = parts.iter().map(|part| part.buf.as_ref().expect("data")).collect();
            assert_eq!(bufs.iter().map(|buf| buf.len()).sum::<usize>(), 1024 * 512);
            assert_eq!(bufs[0].as_ptr() == begin, divided);
            assert_eq!(bufs[3][if divided { 0 } else { 512 }..][..1], [1 - u8::from(!divided)]);
        }
    }

    #[test]
    fn check_names_the_rule_that_a_bio_breaks() {
        let limits = Limits { lba_size: 4096, ..limits(4, 4096) };
        let bio = |op, sector, len| Bio::new(op, Sector(sector), len, 0);
        for (bio, expected) in [
            (bio(Op::Write, 0, 8), Ok(())),
            (bio(Op::Write, 0, 0), Err(Status::Invalid)),
            (bio(Op::Write, 4, 8), Err(Status::Invalid)),
            (bio(Op::Write, 0, 4), Err(Status::Invalid)),
            (bio(Op::Read, 16384, 8), Err(Status::Invalid)),
            (bio(Op::Read, u64::MAX - 7, 8), Err(Status::Invalid)),
            (bio(Op::ZoneReset, 4096, 0), Ok(())),
            (bio(Op::ZoneReset, 8, 0), Err(Status::Invalid)),
            (bio(Op::ZoneReset, 16384, 0), Err(Status::Invalid)),
            (bio(Op::ZoneAppend, 4096, 8), Ok(())),
            (bio(Op::ZoneAppend, 4104, 8), Err(Status::IoError)),
            (bio(Op::Flush, 0, 0), Ok(())),
        ] {
            assert_eq!(check(&limits, &bio), expected, "{bio:?}");
        }
        let no_zones = Limits { nr_zones: 0, zone_size: Sector(0), ..limits };
        assert_eq!(check(&no_zones, &bio(Op::ZoneReset, 0, 0)), Err(Status::NotSupported));
        assert_eq!(check(&no_zones, &bio(Op::Write, 8, 8)), Ok(()));
    }
}
