//! Reads and checks a device's zones when a queue is attached (A39).
use super::{Qd1, Slot, ZonePlug, ZonePlugs};
use crate::device::Device;
use crate::limits::Limits;
use crate::queue::QueueOptions;
use crate::status::Status;
use crate::sync::{AtomicU32, Mutex};
use crate::units::Sector;
use crate::zone::{Zone, ZoneCondition, ZoneKind};
use std::sync::Arc;

/// Zones asked for at a time.
const REPORT_CHUNK: usize = 4096;

/// Why a device cannot be used: its limits or its zone report break a rule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AttachError {
    /// A limit makes no sense.
    #[error("device limits: {0}")]
    Limits(&'static str),
    /// The report failed.
    #[error("zone {zone}: the device did not report its zones: {status}")]
    Report {
        /// The first zone that was asked for.
        zone: u32,
        /// What the device answered.
        status: Status,
    },
    /// A zone of the report breaks a rule.
    #[error("zone {zone}: {rule}")]
    Zone {
        /// The zone.
        zone: u32,
        /// What must be true.
        rule: &'static str,
    },
}

pub(crate) fn check_limits(limits: &Limits, power_of_two: bool) -> Result<(), AttachError> {
    let zones = limits.nr_zones;
    let rules = [
        (
            !power_of_two || zones == 0 || limits.zone_size.0.is_power_of_two(),
            "the zone size must be a power of two",
        ),
        (
            (zones == 0) == (limits.zone_size.0 == 0),
            "a zoned device has zones and a zone size",
        ),
        (
            zones == 0 || limits.capacity.0.div_ceil(limits.zone_size.0) == u64::from(zones),
            "the zones must cover the capacity",
        ),
        (
            matches!(limits.lba_size, 512 | 4096),
            "the LBA size must be 512 or 4096",
        ),
        (limits.capacity.0 > 0, "the capacity must not be zero"),
        (
            limits.lba_size == 512
                || limits.lba_size == 4096 && limits.capacity.0.is_multiple_of(8),
            "the capacity must be a multiple of the LBA size",
        ),
        (limits.nr_queues > 0, "there must be a hardware queue"),
        (limits.queue_depth > 0, "the queue depth must not be zero"),
        (
            limits.max_sectors >= limits.lba_size >> 9
                && limits.max_sectors.is_multiple_of(limits.lba_size >> 9),
            "the largest command must be a multiple of the LBA size",
        ),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(AttachError::Limits(rule)),
        None => Ok(()),
    }
}

/// The limits as the layer uses them (A23, A42): a limit that cannot be reached is none; appends
/// that are emulated have none of the device's.
pub(crate) fn normalise(limits: &Limits, options: &QueueOptions) -> Limits {
    let mut limits = limits.clone();
    let reachable = |limit: u32| if limit >= limits.nr_zones { 0 } else { limit };
    limits.max_open_zones = reachable(limits.max_open_zones);
    limits.max_active_zones = reachable(limits.max_active_zones);
    if options.emulate_append {
        limits.append_max_sectors = 0;
    }
    limits
}

impl ZonePlugs {
    /// Reads all zones of `device` and makes their plugs.
    pub(crate) fn attach(
        device: Arc<dyn Device>,
        limits: &Limits,
        options: &QueueOptions,
    ) -> Result<Self, AttachError> {
        let nr_zones = limits.nr_zones as usize;
        let mut slots = Vec::with_capacity(nr_zones);
        let mut report: Vec<Zone> = Vec::with_capacity(REPORT_CHUNK.min(nr_zones));
        let mut capacity = Sector(0);
        let mut last_capacity = Sector(0);
        for first in (0..limits.nr_zones).step_by(REPORT_CHUNK) {
            let want = REPORT_CHUNK.min((limits.nr_zones - first) as usize);
            report.clear();
            device
                .report_zones(crate::ZoneNo(first), want, &mut report)
                .map_err(|status| AttachError::Report {
                    zone: first,
                    status,
                })?;
            for (zone_no, zone) in (first..).zip(&report) {
                check_zone(limits, zone_no, zone).map_err(|rule| AttachError::Zone {
                    zone: zone_no,
                    rule,
                })?;
                let sequential = zone.kind == ZoneKind::SequentialRequired;
                if sequential && capacity == Sector(0) {
                    capacity = zone.capacity;
                } else if sequential && zone_no + 1 < limits.nr_zones && zone.capacity != capacity {
                    let rule = "all sequential zones but the last must have the same capacity";
                    return Err(AttachError::Zone {
                        zone: zone_no,
                        rule,
                    });
                }
                last_capacity = zone.capacity;
                slots.push(Slot(Mutex::new(ZonePlug::new(zone))));
            }
            if report.len() != want {
                let rule = "the report ends before the device does";
                let zone = u32::try_from(slots.len()).expect("no more slots than zones");
                return Err(AttachError::Zone { zone, rule });
            }
        }
        let plugs = ZonePlugs {
            slots: slots.into_boxed_slice(),
            device,
            zone_size: limits.zone_size,
            capacity,
            last_capacity,
            merge_max_sectors: if options.merge { limits.max_sectors } else { 0 },
            emulate_append: limits.append_max_sectors == 0,
            recovery: options.wp_recovery,
            qd1: Qd1::new(),
            alive: AtomicU32::new(0),
        };
        // Partially written zones have their plug from the start (A40).
        plugs.for_each(|zone, plug| plugs.settle(zone, plug));
        Ok(plugs)
    }
}

fn check_zone(limits: &Limits, zone_no: u32, zone: &Zone) -> Result<(), &'static str> {
    let start = Sector(u64::from(zone_no) * limits.zone_size.0);
    let last = zone_no + 1 == limits.nr_zones;
    let lba = u64::from(limits.lba_sectors());
    let rules = [
        (
            zone.start == start,
            "the zone must begin where the one before it ends",
        ),
        (
            zone.len == limits.zone_size || last && zone.len <= limits.zone_size,
            "all zones but the last must have the device's zone size",
        ),
        (
            !last || zone.start + zone.len == limits.capacity,
            "the last zone must end where the device does",
        ),
        (zone.capacity.0 > 0, "the capacity must not be zero"),
        (
            zone.capacity <= zone.len,
            "the capacity must not be larger than the zone",
        ),
        (
            (zone.len.0 | zone.capacity.0).is_multiple_of(lba),
            "size and capacity must be whole LBAs",
        ),
        (
            condition_fits(zone),
            "the condition must be one that the kind of zone can have",
        ),
        (
            !zone.cond.is_active()
                || zone.start <= zone.wp
                    && zone.wp <= zone.writable_end()
                    && zone.wp.0.is_multiple_of(lba),
            "the write pointer must lie in the zone, not beyond its capacity",
        ),
        (
            zone.cond != ZoneCondition::Empty || zone.wp == zone.start,
            "the write pointer of an empty zone must be at its start",
        ),
    ];
    rules
        .iter()
        .find(|(holds, _)| !holds)
        .map_or(Ok(()), |(_, rule)| Err(rule))
}

fn condition_fits(zone: &Zone) -> bool {
    match zone.kind {
        ZoneKind::Conventional => matches!(
            zone.cond,
            ZoneCondition::NotWritePointer | ZoneCondition::ReadOnly | ZoneCondition::Offline
        ),
        ZoneKind::SequentialRequired => zone.cond != ZoneCondition::NotWritePointer,
    }
}
