//! Why a write, or a command to a zone, failed: what it asked for, and what the zone was like.
use crate::limits::Limits;
use crate::op::Op;
use crate::status::Status;
use crate::sync::{AtomicU64, Ordering};
use crate::units::{Sector, ZoneNo};
use crate::zone::{Zone, ZoneCondition, ZoneKind};
use crate::zone_refusal::ZoneRefusal;
use std::fmt;
use std::sync::OnceLock;

/// Failures that are reported one by one; later ones only when their number reaches a power of two.
const REPORTED: u64 = 8;

/// A command to a zone that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation.
    pub op: Op,
    /// Its first sector.
    pub sector: Sector,
    /// Its length in sectors.
    pub nr_sectors: u32,
    /// Its status.
    pub status: Status,
    /// The zone's number.
    pub zone: ZoneNo,
    /// The zone as the device reported it after the failure; `None` if it did not.
    pub found: Option<Zone>,
    /// The rule that was broken.
    pub rule: String,
    /// Which failure of the queue it is, from 1.
    pub number: u64,
}

impl Failure {
    pub(crate) fn new(
        limits: &Limits,
        (op, sector, nr_sectors): (Op, Sector, u32),
        status: Status,
        found: Option<Zone>,
        number: u64,
    ) -> Self {
        let zone = limits.zone_of(sector);
        let rule = rule(limits, (op, sector, nr_sectors), status, found.as_ref());
        Failure { op, sector, nr_sectors, status, zone, found, rule, number }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { op, sector, nr_sectors, status, zone, found, rule, .. } = self;
        write!(f, "{op:?} of {nr_sectors} sectors at sector {sector}: {status}: {rule}")?;
        match found {
            None => write!(f, " (zone {zone})"),
            Some(Zone { start, wp, cond, .. }) => {
                write!(f, " (zone {zone} from sector {start}, {cond}, write pointer {wp})")
            }
        }
    }
}

/// The rule that a command broke, the most specific one first.
fn rule(
    limits: &Limits,
    (op, sector, nr_sectors): (Op, Sector, u32),
    status: Status,
    found: Option<&Zone>,
) -> String {
    match status {
        Status::ZoneOpenResource => {
            return format!("at most {} zones may be open", limits.max_open_zones);
        }
        Status::ZoneActiveResource => {
            return format!("at most {} zones may be active", limits.max_active_zones);
        }
        Status::NoSpace if op == Op::ZoneOpenZrwa => {
            return format!("at most {} zones may have a random write area", limits.zrwa.max);
        }
        Status::NotSupported => return "the device does not have this operation".to_owned(),
        _ => {}
    }
    let Some(zone) = found else { return FAILED.to_owned() };
    match op {
        op if op.is_write() => {
            let refusal = ZoneRefusal::of_write(limits.zrwa, (op, sector, nr_sectors), zone);
            refusal.map_or_else(|| FAILED.to_owned(), |refusal| write_rule(limits, refusal, zone))
        }
        _ if zone.cond == ZoneCondition::Offline => "the zone is offline".to_owned(),
        _ if zone.cond == ZoneCondition::ReadOnly => "the zone is read-only".to_owned(),
        _ if zone.kind == ZoneKind::Conventional && op.is_zone_management() => {
            "a conventional zone has no conditions to change".to_owned()
        }
        Op::ZoneOpenZrwa | Op::ZrwaFlush => zrwa_rule(limits, op, status, zone),
        Op::ZoneClose if !zone.cond.is_open() => "only an open zone can be closed".to_owned(),
        _ => FAILED.to_owned(),
    }
}

const FAILED: &str = "the device failed it";

/// The rule that a write broke.
fn write_rule(limits: &Limits, refusal: ZoneRefusal, zone: &Zone) -> String {
    match refusal {
        ZoneRefusal::Offline => "the zone is offline".to_owned(),
        ZoneRefusal::ReadOnly => "the zone is read-only".to_owned(),
        ZoneRefusal::Full => "the zone is full".to_owned(),
        ZoneRefusal::AppendToZrwa => "a zone with a random write area takes no appends".to_owned(),
        ZoneRefusal::CrossesZone => "a write must not cross the end of its zone".to_owned(),
        ZoneRefusal::BeyondCapacity => {
            format!("a write must end by the zone's capacity, sector {}", zone.writable_end())
        }
        ZoneRefusal::OutsideZrwa => format!(
            "a write must lie within two random write areas of {} sectors from the write pointer on",
            limits.zrwa.size
        ),
        ZoneRefusal::NotAtWritePointer => "a write must begin at the write pointer".to_owned(),
    }
}

/// The rule that opening a random write area, or committing it, broke.
fn zrwa_rule(limits: &Limits, op: Op, status: Status, zone: &Zone) -> String {
    let (area, granule) = (limits.zrwa.size, limits.zrwa.granularity);
    match op {
        Op::ZoneOpenZrwa if zone.cond != ZoneCondition::Empty => {
            "only an empty zone can be given a random write area".to_owned()
        }
        Op::ZrwaFlush if !zone.has_zrwa() => "the zone has no random write area".to_owned(),
        Op::ZrwaFlush if status == Status::Invalid => format!(
            "a commit must end in the random write area of {area} sectors, at a granule of \
             {granule}, or at the zone's capacity"
        ),
        _ => FAILED.to_owned(),
    }
}

/// Receives failures.
type Observer = Box<dyn Fn(&Failure) + Send + Sync>;

/// The failures of a queue.
#[derive(Default)]
pub(crate) struct Failures {
    count: AtomicU64,
    first: OnceLock<Failure>,
    observer: OnceLock<Observer>,
}

impl Failures {
    /// Counts a failure. Returns its number if somebody is to learn of it.
    pub fn count(&self) -> Option<u64> {
        self.observer.get()?;
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        (number <= REPORTED || number.is_power_of_two()).then_some(number)
    }

    pub fn report(&self, failure: Failure) {
        if let Some(observer) = self.observer.get() {
            observer(&failure);
        }
        let _ = self.first.set(failure);
    }

    pub fn first(&self) -> Option<&Failure> {
        self.first.get()
    }

    /// Only the first call has an effect.
    pub fn observe(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::limits::ZrwaLimits;
    use crate::zone::ZoneAttributes;

    fn limits() -> Limits {
        let zrwa = ZrwaLimits { size: 16, granularity: 4, max: 2 };
        Limits { max_open_zones: 2, max_active_zones: 3, zrwa, ..Limits::zoned(4, Sector(100)) }
    }

    fn zone(cond: ZoneCondition, wp: u64) -> Zone {
        let kind = ZoneKind::SequentialRequired;
        let (start, len, capacity) = (Sector(100), Sector(100), Sector(80));
        let attributes = ZoneAttributes::NONE;
        Zone { start, len, capacity, wp: Sector(wp), kind, cond, attributes }
    }

    #[test]
    fn the_rule_that_was_broken_is_named() {
        let open = zone(ZoneCondition::ImplicitOpen, 140);
        for (command, status, found, rule) in [
            ((Op::Write, 150, 8), Status::IoError, open, "a write must begin at the write pointer"),
            ((Op::Write, 140, 8), Status::Medium, open, "the device failed it"),
            (
                (Op::Write, 140, 41),
                Status::IoError,
                open,
                "a write must end by the zone's capacity, sector 180",
            ),
            (
                (Op::Write, 140, 61),
                Status::IoError,
                open,
                "a write must not cross the end of its zone",
            ),
            (
                (Op::Write, 140, 8),
                Status::IoError,
                zone(ZoneCondition::Full, 200),
                "the zone is full",
            ),
            (
                (Op::Write, 100, 8),
                Status::ZoneOpenResource,
                zone(ZoneCondition::Empty, 100),
                "at most 2 zones may be open",
            ),
            (
                (Op::ZoneOpen, 100, 0),
                Status::ZoneActiveResource,
                zone(ZoneCondition::Empty, 100),
                "at most 3 zones may be active",
            ),
            (
                (Op::ZoneClose, 100, 0),
                Status::IoError,
                zone(ZoneCondition::Full, 100),
                "only an open zone can be closed",
            ),
            (
                (Op::ZoneReset, 100, 0),
                Status::IoError,
                zone(ZoneCondition::ReadOnly, 100),
                "the zone is read-only",
            ),
        ] {
            let (op, sector, nr) = command;
            let failure = Failure::new(&limits(), (op, Sector(sector), nr), status, Some(found), 1);
            assert_eq!(failure.rule, rule, "{failure}");
        }
    }

    #[test]
    fn rules_of_random_write_areas_are_named() {
        let open = zone(ZoneCondition::ImplicitOpen, 140);
        let area = Zone { attributes: ZoneAttributes::ZRWA, ..open };
        for (command, status, found, rule) in [
            (
                (Op::ZoneOpenZrwa, 100, 0),
                Status::NoSpace,
                zone(ZoneCondition::Empty, 100),
                "at most 2 zones may have a random write area",
            ),
            (
                (Op::ZrwaFlush, 100, 33),
                Status::Invalid,
                area,
                "a commit must end in the random write area of 16 sectors, at a granule of 4, or at \
                 the zone's capacity",
            ),
            (
                (Op::Write, 136, 8),
                Status::IoError,
                area,
                "a write must lie within two random write areas of 16 sectors from the write pointer on",
            ),
            (
                (Op::ZoneAppend, 100, 8),
                Status::IoError,
                area,
                "a zone with a random write area takes no appends",
            ),
        ] {
            let (op, sector, nr) = command;
            let failure = Failure::new(&limits(), (op, Sector(sector), nr), status, Some(found), 1);
            assert_eq!(failure.rule, rule, "{failure}");
        }
    }

    #[test]
    fn sentence_names_sector_zone_condition_and_write_pointer() {
        let found = Some(zone(ZoneCondition::ImplicitOpen, 140));
        let command = (Op::Write, Sector(150), 8);
        let failure = Failure::new(&limits(), command, Status::IoError, found, 1);
        assert_eq!(
            failure.to_string(),
            "Write of 8 sectors at sector 150: I/O error: a write must begin at the write pointer \
             (zone 1 from sector 100, implicit-open, write pointer 140)"
        );
    }

    #[test]
    fn after_the_first_few_only_powers_of_two_are_reported() {
        let failures = Failures::default();
        assert_eq!(failures.count(), None, "nobody observes");
        failures.observe(Box::new(|_| ()));
        let reported: Vec<u64> = (0..40).filter_map(|_| failures.count()).collect();
        assert_eq!(reported, [1, 2, 3, 4, 5, 6, 7, 8, 16, 32]);
    }
}
