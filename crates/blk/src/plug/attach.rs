//! Reads and checks a device's zones when a queue is attached (A39).
use super::{Qd1, WpRecovery, ZonePlug, ZonePlugs};
use crate::device::Device;
use crate::lazy::LazyTable;
use crate::limits::Limits;
use crate::probe::mutant;
use crate::status::Status;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::units::{Sector, ZoneNo};
use crate::zone::{REPORT_BATCH, Zone, ZoneAttributes, ZoneCondition, ZoneKind};
use std::sync::Arc;

/// Why a device cannot be used: its limits or its zone report break a rule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AttachError {
    /// A limit makes no sense.
    #[error("device limits: {0}")]
    Limits(&'static str),
    /// The report failed.
    #[error("zone {zone}: the device did not report its zones: {status}")]
    Report {
        /// The first zone of the report.
        zone: u32,
        /// The device's answer.
        status: Status,
    },
    /// The policy needs a scheduler that holds back writes by zone.
    #[error("zone write locking needs the scheduler mq-deadline, the queue has {scheduler}")]
    Scheduler {
        /// The queue's scheduler.
        scheduler: &'static str,
    },
    /// A zone of the report breaks a rule.
    #[error("zone {zone}: {rule}")]
    Zone {
        /// The zone.
        zone: u32,
        /// The rule that is broken.
        rule: &'static str,
    },
}

pub(crate) fn check_limits(limits: &Limits, power_of_two: bool) -> Result<(), AttachError> {
    let rule = |holds, text| rule(holds, text).map_err(AttachError::Limits);
    let (zones, zone_size) = (limits.nr_zones, limits.zone_size.0);
    rule(matches!(limits.lba_size, 512 | 4096), "the LBA size must be 512 or 4096")?;
    let lba = limits.lba_sectors();
    rule(limits.capacity.0 > 0, "the capacity must not be zero")?;
    rule(
        limits.capacity.0.is_multiple_of(u64::from(lba)),
        "the capacity must be a multiple of the LBA size",
    )?;
    rule(limits.nr_queues > 0, "there must be a hardware queue")?;
    rule(limits.queue_depth > 0, "the queue depth must not be zero")?;
    rule(
        limits.max_sectors >= lba && limits.max_sectors.is_multiple_of(lba),
        "the largest command must be a multiple of the LBA size",
    )?;
    let granularity = limits.write_granularity;
    rule(
        granularity == 0 || granularity.is_power_of_two() && granularity >= limits.lba_size,
        "the write granularity must be a power of two, and not less than the LBA size",
    )?;
    rule(
        granularity == 0 || zones > 0,
        "a device without zones has the LBA size as its write granularity",
    )?;
    let unit = limits.zone_write_sectors();
    rule(
        limits.max_sectors >= unit && zone_size.is_multiple_of(u64::from(unit)),
        "the largest command and the zones must hold whole units of the write granularity",
    )?;
    rule(
        limits.append_max_sectors.is_multiple_of(lba),
        "the largest append must be a multiple of the LBA size",
    )?;
    let zrwa = limits.zrwa;
    rule(
        zrwa.max == 0
            || zrwa.granularity > 0
                && zrwa.granularity.is_multiple_of(lba)
                && zrwa.size >= zrwa.granularity
                && zrwa.size.is_multiple_of(zrwa.granularity),
        "a random write area must consist of granules, and these of LBAs",
    )?;
    rule((zones == 0) == (zone_size == 0), "a zoned device has zones and a zone size")?;
    if zones == 0 {
        return Ok(());
    }
    rule(!power_of_two || zone_size.is_power_of_two(), "the zone size must be a power of two")?;
    rule(
        limits.capacity.0.div_ceil(zone_size) == u64::from(zones)
            && u64::from(zones).checked_mul(zone_size).is_some(),
        "the zones must cover the capacity",
    )
}

/// The limits as the layer uses them: appends that are emulated have none of the device's (A23);
/// the longest commands are whole units of the write granularity, so that bios are split between units.
pub(crate) fn normalise(limits: &Limits, emulate_append: bool) -> Limits {
    let mut limits = limits.clone();
    if emulate_append {
        limits.append_max_sectors = 0;
    }
    let unit = match mutant!(SplitBelowGranularity) {
        true => limits.lba_sectors(),
        false => limits.zone_write_sectors(),
    };
    for longest in [
        &mut limits.max_sectors,
        &mut limits.append_max_sectors,
        &mut limits.max_write_zeroes_sectors,
    ] {
        *longest -= *longest % unit;
    }
    limits
}

/// A limit on zones that the device's sequential zones cannot reach is none (A42).
pub(crate) fn drop_unreachable(limits: &mut Limits, sequential_zones: u32) {
    for limit in [&mut limits.max_open_zones, &mut limits.max_active_zones] {
        if *limit >= sequential_zones {
            *limit = 0;
        }
    }
}

impl ZonePlugs {
    /// Reads all zones of `device` and makes their plugs; counts the sequential zones.
    pub(crate) fn attach(
        device: Arc<dyn Device>,
        limits: &Limits,
        merge_max_sectors: u32,
        recovery: WpRecovery,
    ) -> Result<(Self, u32), AttachError> {
        let nr_zones = limits.nr_zones as usize;
        let mut plugs = ZonePlugs {
            slots: LazyTable::new(nr_zones),
            device,
            zone_size: limits.zone_size,
            capacity: Sector(0),
            nr_zones: AtomicU32::new(limits.nr_zones),
            last_capacity: AtomicU64::new(0),
            merge_max_sectors: AtomicU32::new(merge_max_sectors),
            emulate_append: limits.append_max_sectors == 0,
            recovery,
            qd1: Qd1::new(),
            alive: AtomicU32::new(0),
        };
        let mut report: Vec<Zone> = Vec::with_capacity(REPORT_BATCH.min(nr_zones));
        let mut sequential_zones = 0;
        for first in (0..limits.nr_zones).step_by(REPORT_BATCH) {
            let want = REPORT_BATCH.min((limits.nr_zones - first) as usize);
            report.clear();
            if plugs.are_as_checked(limits, ZoneNo(first), want, &mut report) {
                sequential_zones += u32::try_from(want).expect("no more than a report has");
                continue;
            }
            report.clear();
            plugs
                .device
                .report_zones_cached(ZoneNo(first), want, &mut report)
                .map_err(|status| AttachError::Report { zone: first, status })?;
            if report.len() > want {
                let rule = "the report must not have more zones than were asked for";
                return Err(AttachError::Zone { zone: first, rule });
            }
            for (zone_no, zone) in (first..).zip(&report) {
                sequential_zones += u32::from(zone.kind == ZoneKind::SequentialRequired);
                plugs
                    .attach_zone(limits, zone_no, zone)
                    .map_err(|rule| AttachError::Zone { zone: zone_no, rule })?;
            }
            if report.len() != want {
                let rule = "the report ends before the device does";
                let reported = u32::try_from(report.len()).expect("no more than were asked for");
                return Err(AttachError::Zone { zone: first + reported, rule });
            }
        }
        Ok((plugs, sequential_zones))
    }

    /// Whether the device says of this many zones that they are as new, and the first is as one that has
    /// been checked. The last zone is always looked at.
    fn are_as_checked(
        &self,
        limits: &Limits,
        first: ZoneNo,
        count: usize,
        report: &mut Vec<Zone>,
    ) -> bool {
        let Ok(count) = u32::try_from(count) else { return false };
        self.capacity > Sector(0)
            && first.0 + count < limits.nr_zones
            && self.device.zones_as_new(first, count) == count
            && self.device.report_zones(first, 1, report).is_ok()
            && report.first() == Some(&self.empty_zone(first))
    }

    /// Checks a zone of the report. One that is empty is as its plug is when it is first used.
    fn attach_zone(
        &mut self,
        limits: &Limits,
        zone_no: u32,
        zone: &Zone,
    ) -> Result<(), &'static str> {
        let is_last = zone_no + 1 == limits.nr_zones;
        if !is_last && self.capacity > Sector(0) && *zone == self.empty_zone(ZoneNo(zone_no)) {
            // One like it has been checked.
            return Ok(());
        }
        let sequential = zone.kind == ZoneKind::SequentialRequired;
        if sequential && self.capacity == Sector(0) {
            self.capacity = zone.capacity;
        }
        self.check_zone(limits, zone_no, zone)?;
        self.last_capacity.store(zone.capacity.0, Ordering::Relaxed);
        if !sequential || zone.cond != ZoneCondition::Empty {
            let mut plug = self.lock(ZoneNo(zone_no));
            *plug = ZonePlug::new(zone);
            // Partially written zones have their plug from the start (A40).
            self.update_alive(ZoneNo(zone_no), &mut plug);
        }
        Ok(())
    }

    /// Checks a zone by itself, and that it has the capacity of the others.
    pub(super) fn check_zone(
        &self,
        limits: &Limits,
        zone_no: u32,
        zone: &Zone,
    ) -> Result<(), &'static str> {
        check_zone(limits, zone_no, zone)?;
        let is_last = zone_no + 1 == limits.nr_zones;
        let sequential = zone.kind == ZoneKind::SequentialRequired;
        rule(
            is_last || !sequential || zone.capacity == self.capacity,
            "all sequential zones but the last must have the same capacity",
        )
    }

    /// An empty zone of the usual size and capacity.
    fn empty_zone(&self, zone: ZoneNo) -> Zone {
        let start = self.start(zone);
        Zone {
            start,
            len: self.zone_size,
            capacity: self.capacity,
            wp: start,
            kind: ZoneKind::SequentialRequired,
            cond: ZoneCondition::Empty,
            attributes: ZoneAttributes::NONE,
        }
    }
}

fn check_zone(limits: &Limits, zone_no: u32, zone: &Zone) -> Result<(), &'static str> {
    let last = zone_no + 1 == limits.nr_zones;
    let unit = u64::from(match zone.kind {
        ZoneKind::Conventional => limits.lba_sectors(),
        ZoneKind::SequentialRequired => limits.zone_write_sectors(),
    });
    rule(
        zone.start == limits.zone_start(ZoneNo(zone_no)),
        "the zone must begin where the one before it ends",
    )?;
    rule(
        zone.len == limits.zone_size || last && zone.len <= limits.zone_size,
        "all zones but the last must have the device's zone size",
    )?;
    rule(
        !last || zone.start + zone.len == limits.capacity,
        "the last zone must end where the device does",
    )?;
    rule(zone.capacity.0 > 0, "the capacity must not be zero")?;
    rule(zone.capacity <= zone.len, "the capacity must not be larger than the zone")?;
    rule(
        zone.kind != ZoneKind::Conventional || zone.capacity == zone.len,
        "the capacity of a conventional zone must be its size",
    )?;
    rule(
        (zone.len.0 | zone.capacity.0).is_multiple_of(u64::from(limits.lba_sectors())),
        "size and capacity must be whole LBAs",
    )?;
    rule(
        (zone.len.0 | zone.capacity.0).is_multiple_of(unit),
        "size and capacity of a sequential zone must be whole units of the write granularity",
    )?;
    rule(condition_fits(zone), "the condition must be one that the kind of zone can have")?;
    rule(
        !zone.cond.is_active()
            || zone.start <= zone.wp
                && zone.wp <= zone.writable_end()
                && zone.wp.0.is_multiple_of(unit),
        "the write pointer must lie in the zone, not beyond its capacity",
    )?;
    rule(
        zone.cond != ZoneCondition::Empty || zone.wp == zone.start,
        "the write pointer of an empty zone must be at its start",
    )
}

fn rule(holds: bool, text: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(text) }
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
