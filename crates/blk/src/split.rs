//! Checks a bio against the device's limits and cuts it where a command must end.
//!
//! Takes a bio; gives parts that fit the largest command and one zone each. Keeps true: the parts
//! are in order, aligned and cover the bio; a bio that breaks a rule goes no further.
use crate::bio::{Bio, Op};
use crate::buf::Buf;
use crate::limits::Limits;
use crate::status::Status;
use crate::units::Sector;

/// Whether the bio may enter the layer.
///
/// # Errors
/// [`Status::Invalid`] for a bio that is empty, unaligned, beyond the capacity or whose buffer has
/// another length; [`Status::NotSupported`] for zone operations on a device without zones;
/// [`Status::IoError`] for an append that does not begin at its zone's start or is too long (A25).
pub(crate) fn check(limits: &Limits, bio: &Bio) -> Result<(), Status> {
    if bio.op == Op::Flush || bio.op == Op::ZoneResetAll {
        return zoned_if_needed(limits, bio.op);
    }
    zoned_if_needed(limits, bio.op)?;
    let len = u64::from(bio.nr_sectors);
    let mask = u64::from(limits.lba_sectors()) - 1;
    let in_range = bio
        .sector
        .0
        .checked_add(len)
        .is_some_and(|end| end <= limits.capacity.0);
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
            return if fits && at_start {
                Ok(())
            } else {
                Err(Status::IoError)
            };
        }
    } else if bio.sector == limits.capacity
        || bio.sector != limits.zone_start(limits.zone_of(bio.sector))
    {
        return Err(Status::Invalid);
    }
    Ok(())
}

fn zoned_if_needed(limits: &Limits, op: Op) -> Result<(), Status> {
    let zoned = op.is_zone_management() || matches!(op, Op::ZoneAppend | Op::ZoneResetAll);
    if zoned && limits.nr_zones == 0 {
        Err(Status::NotSupported)
    } else {
        Ok(())
    }
}

/// The longest append in sectors: the device's own, or for an emulated one what a write may have
/// (A23).
pub(crate) fn append_max(limits: &Limits) -> u32 {
    if limits.append_max_sectors > 0 {
        limits.append_max_sectors
    } else {
        limits.max_sectors
    }
}

/// How long a command that begins at `sector` may be, up to `len` sectors.
pub(crate) fn fitting(limits: &Limits, op: Op, sector: Sector, len: u32) -> u32 {
    let mut fits = len;
    if !matches!(op, Op::Discard | Op::WriteZeroes) {
        fits = fits.min(limits.max_sectors);
    }
    if limits.nr_zones > 0 {
        let next_zone = limits.zone_start(limits.zone_of(sector)) + limits.zone_size;
        fits = fits.min(u32::try_from((next_zone - sector).0).unwrap_or(u32::MAX));
    }
    fits
}

/// Cuts a checked bio in parts. The parts of a read have buffers of their own, copied back when
/// they complete; the parts of a write have copies: a buffer in flight has one owner.
pub(crate) fn parts(limits: &Limits, bio: &Bio) -> Vec<Bio> {
    let mut parts = Vec::new();
    let mut done = 0;
    while done < bio.nr_sectors {
        let sector = bio.sector + Sector(u64::from(done));
        let len = fitting(limits, bio.op, sector, bio.nr_sectors - done);
        let buf = bio.buf.as_ref().map(|whole| match bio.op {
            Op::Read => Buf::zeroed(len as usize * 512),
            _ => Buf::from(&whole[done as usize * 512..][..len as usize * 512]),
        });
        let part = Bio::new(bio.op, sector, len, bio.user_data);
        parts.push(Bio {
            flags: bio.flags,
            buf,
            ..part
        });
        done += len;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::limits;

    #[test]
    fn a15_bio_across_zones_is_cut_at_the_border_and_at_the_largest_command() {
        let limits = Limits {
            max_sectors: 1024,
            ..limits(4, 4096)
        };
        let bio = Bio::new(Op::Write, Sector(3000), 2048, 0);
        let cut: Vec<_> = parts(&limits, &bio)
            .iter()
            .map(|p| (p.sector.0, p.nr_sectors))
            .collect();
        assert_eq!(cut, [(3000, 1024), (4024, 72), (4096, 952)]);
    }

    #[test]
    fn check_names_the_rule_that_a_bio_breaks() {
        let limits = Limits {
            lba_size: 4096,
            ..limits(4, 4096)
        };
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
        let no_zones = Limits {
            nr_zones: 0,
            zone_size: Sector(0),
            ..limits
        };
        assert_eq!(
            check(&no_zones, &bio(Op::ZoneReset, 0, 0)),
            Err(Status::NotSupported)
        );
        assert_eq!(check(&no_zones, &bio(Op::Write, 8, 8)), Ok(()));
    }
}
