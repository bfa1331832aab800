//! The zones that `--offset`, `--length` and `--count` name.
use super::args::RangeArgs;
use anyhow::{Result, bail};
use zonal_blk::{Limits, Sector, ZoneNo};

/// How a length that ends inside a zone is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialZone {
    /// The zone belongs to the range, as in reports.
    Included,
    /// It is an error, as in zone management, which affects whole zones.
    Rejected,
}

/// A range of zones of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its first sector, which is the start of a zone.
    pub start: Sector,
    /// Its length, if it was given.
    pub length: Option<Sector>,
    /// The maximum number of zones, if it was given.
    pub count: Option<u32>,
}

impl Range {
    /// Finds the range on a device with zones.
    ///
    /// # Errors
    /// An option does not fit the device.
    pub fn new(args: &RangeArgs, partial: PartialZone, limits: &Limits) -> Result<Self> {
        let (offset, zone_size) = (args.offset, limits.zone_size.0);
        if offset >= limits.capacity.0 {
            bail!("--offset {offset}: the device ends at sector {}", limits.capacity);
        }
        if !offset.is_multiple_of(zone_size) {
            bail!("--offset {offset}: expected the start of a zone, a multiple of {zone_size}");
        }
        if args.length == Some(0) {
            bail!("--length 0: expected at least one sector");
        }
        if args.count == Some(0) {
            bail!("--count 0: expected at least one zone");
        }
        if let (Some(length), PartialZone::Rejected) = (args.length, partial)
            && !length.is_multiple_of(zone_size)
            && length < limits.capacity.0 - offset
        {
            bail!("--length {length}: expected whole zones, a multiple of {zone_size}");
        }
        let (start, length) = (Sector(offset), args.length.map(Sector));
        Ok(Range { start, length, count: args.count })
    }

    /// The zones of the range, including one that it covers in part.
    pub fn zones(&self, limits: &Limits) -> std::ops::Range<u32> {
        let first = limits.zone_of(self.start).0;
        let left = limits.nr_zones - first;
        let by_length = self.length.map_or(left, |Sector(length)| {
            let zones = length.div_ceil(limits.zone_size.0);
            u32::try_from(zones).unwrap_or(u32::MAX)
        });
        let count = by_length.min(self.count.unwrap_or(left)).min(left);
        first..first + count
    }

    /// Whether the range is the whole device.
    pub fn is_all(&self, limits: &Limits) -> bool {
        self.zones(limits) == (0..limits.nr_zones)
    }

    /// The end of its last zone.
    pub fn end(&self, limits: &Limits) -> Sector {
        limits.zone_start(ZoneNo(self.zones(limits).end)).min(limits.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let spec = zonal_device::device_spec::parse("null:zones=8,zone_size=96M").unwrap();
        zonal_device::device_spec::build(&spec).unwrap().limits().clone()
    }

    fn args(offset: u64, length: Option<u64>, count: Option<u32>) -> RangeArgs {
        let (device, verbose, after) = (String::new(), false, Vec::new());
        RangeArgs { device, offset, length, count, verbose, after, format: Default::default() }
    }

    #[test]
    fn range_is_clamped_to_the_device() {
        let limits = limits();
        let zone = limits.zone_size.0;
        for (offset, length, count, expected) in [
            (0, None, None, 0..8),
            (6 * zone, None, None, 6..8),
            (2 * zone, None, Some(3), 2..5),
            (2 * zone, None, Some(u32::MAX), 2..8),
            (2 * zone, Some(zone), None, 2..3),
            (2 * zone, Some(zone + 1), None, 2..4),
            (7 * zone, Some(u64::MAX), None, 7..8),
        ] {
            let range =
                Range::new(&args(offset, length, count), PartialZone::Included, &limits).unwrap();
            assert_eq!(range.zones(&limits), expected);
        }
    }

    #[test]
    fn wrong_ranges_name_the_option() {
        let limits = limits();
        let zone = limits.zone_size.0;
        let wrong = |args: RangeArgs| {
            Range::new(&args, PartialZone::Rejected, &limits).unwrap_err().to_string()
        };
        for (args, expected) in [
            (args(8 * zone, None, None), "--offset 1572864: the device ends at sector 1572864"),
            (args(1, None, None), "--offset 1: expected the start of a zone, a multiple of 196608"),
            (args(0, Some(0), None), "--length 0: expected at least one sector"),
            (args(0, None, Some(0)), "--count 0: expected at least one zone"),
            (args(0, Some(8), None), "--length 8: expected whole zones, a multiple of 196608"),
        ] {
            assert_eq!(wrong(args), expected);
        }
    }
}
