//! Why a zone does not allow a write. Texts for people and the statuses of NVMe and virtio are made from
//! this.
use crate::limits::ZrwaLimits;
use crate::op::Op;
use crate::units::Sector;
use crate::zone::{Zone, ZoneCondition, ZoneKind};

/// Why a zone does not allow a write, the most specific reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneRefusal {
    /// The zone is offline.
    Offline,
    /// The zone is read-only.
    ReadOnly,
    /// The zone is full.
    Full,
    /// A zone with a random write area takes no appends.
    AppendToZrwa,
    /// The write crosses the end of its zone.
    CrossesZone,
    /// The write ends beyond the zone's capacity.
    BeyondCapacity,
    /// The write is neither in the zone's random write area nor in the region as long after it, which
    /// commits the area implicitly.
    OutsideZrwa,
    /// The write does not begin at the write pointer.
    NotAtWritePointer,
}

impl ZoneRefusal {
    /// Why `zone`, as it is now, does not allow a write, an append or a write of zeroes; `None` if it
    /// does. An append goes to the write pointer, whatever its sector is.
    pub fn of_write(
        zrwa: ZrwaLimits,
        (op, sector, nr_sectors): (Op, Sector, u32),
        zone: &Zone,
    ) -> Option<Self> {
        match zone.cond {
            ZoneCondition::Offline => return Some(ZoneRefusal::Offline),
            ZoneCondition::ReadOnly => return Some(ZoneRefusal::ReadOnly),
            ZoneCondition::Full => return Some(ZoneRefusal::Full),
            _ => {}
        }
        let appends = op == Op::ZoneAppend;
        let from = if appends { zone.wp } else { sector };
        let end = Sector(from.0.saturating_add(nr_sectors.into()));
        if zone.has_zrwa() && appends {
            Some(ZoneRefusal::AppendToZrwa)
        } else if !appends && end > zone.start + zone.len {
            Some(ZoneRefusal::CrossesZone)
        } else if zone.kind == ZoneKind::Conventional {
            None
        } else if end > zone.writable_end() {
            Some(ZoneRefusal::BeyondCapacity)
        } else if zone.has_zrwa() {
            let reach = zone.wp + Sector(2 * u64::from(zrwa.size));
            (from < zone.wp || end > reach).then_some(ZoneRefusal::OutsideZrwa)
        } else {
            (from != zone.wp).then_some(ZoneRefusal::NotAtWritePointer)
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::zone::ZoneAttributes;

    #[test]
    fn each_rule_of_a_zone_has_its_refusal() {
        use ZoneRefusal as R;
        let open = Zone {
            start: Sector(100),
            len: Sector(100),
            capacity: Sector(80),
            wp: Sector(140),
            kind: ZoneKind::SequentialRequired,
            cond: ZoneCondition::ImplicitOpen,
            attributes: ZoneAttributes::NONE,
        };
        let area = Zone { attributes: ZoneAttributes::ZRWA, ..open };
        let conventional = Zone { kind: ZoneKind::Conventional, ..open };
        let of = |cond| Zone { cond, ..open };
        let zrwa = ZrwaLimits { size: 16, granularity: 4, max: 2 };
        for (op, sector, len, zone, expected) in [
            (Op::Write, 140, 8, open, None),
            (Op::WriteZeroes, 140, 40, open, None),
            (Op::ZoneAppend, 100, 40, open, None),
            (Op::Write, 140, 8, of(ZoneCondition::Offline), Some(R::Offline)),
            (Op::Write, 140, 8, of(ZoneCondition::ReadOnly), Some(R::ReadOnly)),
            (Op::ZoneAppend, 100, 8, of(ZoneCondition::Full), Some(R::Full)),
            (Op::Write, 150, 8, open, Some(R::NotAtWritePointer)),
            (Op::Write, 132, 8, open, Some(R::NotAtWritePointer)),
            (Op::Write, 140, 41, open, Some(R::BeyondCapacity)),
            (Op::ZoneAppend, 100, 41, open, Some(R::BeyondCapacity)),
            (Op::Write, 140, 61, open, Some(R::CrossesZone)),
            (Op::Write, u64::MAX, 8, open, Some(R::CrossesZone)),
            (Op::ZoneAppend, 100, 8, area, Some(R::AppendToZrwa)),
            (Op::Write, 148, 24, area, None),
            (Op::Write, 148, 25, area, Some(R::OutsideZrwa)),
            (Op::Write, 136, 8, area, Some(R::OutsideZrwa)),
            (Op::Write, 100, 100, conventional, None),
            (Op::Write, 100, 101, conventional, Some(R::CrossesZone)),
        ] {
            let found = R::of_write(zrwa, (op, Sector(sector), len), &zone);
            assert_eq!(found, expected, "{op} of {len} at {sector}: {zone:?}");
        }
    }
}
