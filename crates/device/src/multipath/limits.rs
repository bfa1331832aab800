//! Stacked limits: the strictest of the paths' limits, or the field in which the paths cannot belong
//! to one device.
use zonal_blk::Limits;

/// Incompatible limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: found {found}, expected {expected}")]
pub struct LimitError {
    field: &'static str,
    found: u64,
    expected: u64,
}

fn same(field: &'static str, found: u64, expected: u64) -> Result<(), LimitError> {
    if found == expected { Ok(()) } else { Err(LimitError { field, found, expected }) }
}

/// Checks that two paths have the same blocks and zones.
fn same_geometry(found: &Limits, expected: &Limits) -> Result<(), LimitError> {
    same("lba_size", found.lba_size.into(), expected.lba_size.into())?;
    let granularity = (found.zone_write_granularity(), expected.zone_write_granularity());
    same("write_granularity", granularity.0.into(), granularity.1.into())?;
    same("capacity in sectors", found.capacity.0, expected.capacity.0)?;
    same("zone_size in sectors", found.zone_size.0, expected.zone_size.0)?;
    same("nr_zones", found.nr_zones.into(), expected.nr_zones.into())?;
    same("rotational", found.rotational.into(), expected.rotational.into())
}

/// The smaller of two limits, where 0 means no limit.
fn smaller(a: u32, b: u32) -> u32 {
    if a == 0 || b == 0 { a.max(b) } else { a.min(b) }
}

/// Tightens `limits` for one more path.
///
/// # Errors
/// The field of the geometry that differs.
pub(super) fn stack_limits(limits: &mut Limits, path: &Limits) -> Result<(), LimitError> {
    same_geometry(path, limits)?;
    limits.max_open_zones = smaller(limits.max_open_zones, path.max_open_zones);
    limits.max_active_zones = smaller(limits.max_active_zones, path.max_active_zones);
    limits.max_sectors = limits.max_sectors.min(path.max_sectors);
    // What one path lacks, the device lacks: 0 is the strictest here.
    limits.append_max_sectors = limits.append_max_sectors.min(path.append_max_sectors);
    limits.max_write_zeroes_sectors =
        limits.max_write_zeroes_sectors.min(path.max_write_zeroes_sectors);
    limits.nr_queues = limits.nr_queues.min(path.nr_queues);
    limits.queue_depth = limits.queue_depth.min(path.queue_depth);
    Ok(())
}

/// Checks that the limits of a reconnected path are no stricter than what was promised for it: limits
/// are constant while a queue is attached.
///
/// # Errors
/// The field that is stricter.
pub fn check_compatible(found: &Limits, promised: &Limits) -> Result<(), LimitError> {
    same_geometry(found, promised)?;
    let mut both = promised.clone();
    stack_limits(&mut both, found)?;
    let strict = |field, both: u32, promised: u32| same(field, both.into(), promised.into());
    strict("max_open_zones", both.max_open_zones, promised.max_open_zones)?;
    strict("max_active_zones", both.max_active_zones, promised.max_active_zones)?;
    strict("max_sectors", both.max_sectors, promised.max_sectors)?;
    strict("append_max_sectors", both.append_max_sectors, promised.append_max_sectors)?;
    let zeroes = (both.max_write_zeroes_sectors, promised.max_write_zeroes_sectors);
    strict("max_write_zeroes_sectors", zeroes.0, zeroes.1)?;
    strict("nr_queues", both.nr_queues.into(), promised.nr_queues.into())?;
    strict("queue_depth", both.queue_depth.into(), promised.queue_depth.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::{Sector, ZrwaLimits};

    fn limits() -> Limits {
        Limits {
            lba_size: 4096,
            capacity: Sector(8192),
            zone_size: Sector(2048),
            nr_zones: 4,
            max_open_zones: 8,
            max_active_zones: 0,
            max_sectors: 256,
            append_max_sectors: 128,
            max_write_zeroes_sectors: 64,
            nr_queues: 4,
            queue_depth: 32,
            rotational: false,
            write_granularity: 0,
            zrwa: ZrwaLimits::NONE,
        }
    }

    #[test]
    fn strictest_limits_are_stacked() {
        let mut both = limits();
        let other = Limits {
            max_open_zones: 0,
            max_active_zones: 6,
            max_sectors: 512,
            append_max_sectors: 0,
            max_write_zeroes_sectors: 32,
            nr_queues: 2,
            queue_depth: 64,
            ..limits()
        };
        stack_limits(&mut both, &other).unwrap();
        let expected = Limits {
            max_active_zones: 6,
            append_max_sectors: 0,
            max_write_zeroes_sectors: 32,
            nr_queues: 2,
            ..limits()
        };
        assert_eq!(both, expected);
    }

    #[test]
    fn geometry_that_differs_is_named() {
        for (expected, path) in [
            ("lba_size: found 512, expected 4096", Limits { lba_size: 512, ..limits() }),
            ("capacity in sectors: found 1, ", Limits { capacity: Sector(1), ..limits() }),
            ("zone_size in sectors: found 1, ", Limits { zone_size: Sector(1), ..limits() }),
            ("nr_zones: found 5, expected 4", Limits { nr_zones: 5, ..limits() }),
            ("rotational: found 1, expected 0", Limits { rotational: true, ..limits() }),
        ] {
            let error = stack_limits(&mut limits(), &path).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert_eq!(check_compatible(&path, &limits()).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn path_that_comes_back_may_have_looser_limits_only() {
        check_compatible(&limits(), &limits()).unwrap();
        check_compatible(&Limits { max_sectors: 512, max_open_zones: 0, ..limits() }, &limits())
            .unwrap();
        for (field, found) in [
            ("max_open_zones", Limits { max_open_zones: 7, ..limits() }),
            ("max_active_zones", Limits { max_active_zones: 9, ..limits() }),
            ("max_sectors", Limits { max_sectors: 255, ..limits() }),
            ("append_max_sectors", Limits { append_max_sectors: 0, ..limits() }),
            ("max_write_zeroes_sectors", Limits { max_write_zeroes_sectors: 8, ..limits() }),
            ("nr_queues", Limits { nr_queues: 3, ..limits() }),
            ("queue_depth", Limits { queue_depth: 31, ..limits() }),
        ] {
            let error = check_compatible(&found, &limits()).unwrap_err().to_string();
            assert!(error.starts_with(field), "{error}");
        }
    }
}
