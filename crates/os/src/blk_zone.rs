//! Zone descriptors of the kernel (`struct blk_zone`, include/uapi/linux/blkzoned.h, Linux 6.12).
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};
use zonal_blk::{Sector, Zone, ZoneAttributes, ZoneCondition, ZoneKind};

const CONVENTIONAL: u8 = 1;
const SEQUENTIAL_REQUIRED: u8 = 2;
/// Open or closed (`BLK_ZONE_COND_ACTIVE`, Linux 6.19), in reports from the kernel's cache.
const ACTIVE: u8 = 0xff;

/// `struct blk_zone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[allow(missing_docs, reason = "the kernel's names")]
pub struct BlkZone {
    pub start: u64,
    pub len: u64,
    pub wp: u64,
    /// 1 for conventional, 2 for sequential write required.
    pub kind: u8,
    pub cond: u8,
    pub non_seq: u8,
    pub reset: u8,
    pub resv: [u8; 4],
    pub capacity: u64,
    pub reserved: [u8; 24],
}

/// Whether the condition has a valid write pointer. Otherwise `wp` is the zone's end, as the
/// kernel's own drivers report it.
fn has_wp(cond: ZoneCondition) -> bool {
    cond.is_active() || cond == ZoneCondition::Empty
}

impl From<&Zone> for BlkZone {
    fn from(zone: &Zone) -> Self {
        let wp = if has_wp(zone.cond) { zone.wp } else { zone.start + zone.len };
        let kind = match zone.kind {
            ZoneKind::Conventional => CONVENTIONAL,
            ZoneKind::SequentialRequired => SEQUENTIAL_REQUIRED,
        };
        BlkZone {
            start: zone.start.0,
            len: zone.len.0,
            wp: wp.0,
            kind,
            cond: zone.cond as u8,
            capacity: zone.capacity.0,
            ..BlkZone::new_zeroed()
        }
    }
}

impl BlkZone {
    /// The zone. One that the kernel reports only as active is taken as closed. `None` if the descriptor
    /// contradicts itself, or the zone is of a type that is not supported, such as sequential write preferred.
    pub fn zone(&self) -> Option<Zone> {
        let kind = match self.kind {
            CONVENTIONAL => ZoneKind::Conventional,
            SEQUENTIAL_REQUIRED => ZoneKind::SequentialRequired,
            _ => return None,
        };
        let conditions = [
            ZoneCondition::NotWritePointer,
            ZoneCondition::Empty,
            ZoneCondition::ImplicitOpen,
            ZoneCondition::ExplicitOpen,
            ZoneCondition::Closed,
            ZoneCondition::ReadOnly,
            ZoneCondition::Full,
            ZoneCondition::Offline,
        ];
        let cond = match self.cond {
            ACTIVE => ZoneCondition::Closed,
            found => conditions.into_iter().find(|cond| *cond as u8 == found)?,
        };
        let end = self.start.checked_add(self.len)?;
        let wp = if has_wp(cond) { self.wp } else { end };
        if self.capacity > self.len || !(self.start..=end).contains(&wp) {
            return None;
        }
        let (start, len, capacity) = (Sector(self.start), Sector(self.len), Sector(self.capacity));
        let attributes = ZoneAttributes::NONE;
        Some(Zone { start, len, capacity, wp: Sector(wp), kind, cond, attributes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    const OPEN: Zone = Zone {
        start: Sector(2048),
        len: Sector(2048),
        capacity: Sector(1536),
        wp: Sector(2056),
        kind: ZoneKind::SequentialRequired,
        cond: ZoneCondition::ImplicitOpen,
        attributes: ZoneAttributes::NONE,
    };

    #[test]
    fn structure_has_the_layout_of_the_kernel() {
        assert_eq!(size_of::<BlkZone>(), 64);
        assert_eq!(offset_of!(BlkZone, wp), 16);
        assert_eq!(offset_of!(BlkZone, kind), 24);
        assert_eq!(offset_of!(BlkZone, capacity), 32);
    }

    #[test]
    fn zone_converts_to_the_kernels_numbers_and_back() {
        let fields = |zone| {
            let raw = BlkZone::from(&zone);
            assert_eq!(BlkZone::from(&raw.zone().expect("a valid descriptor")), raw);
            (raw.start, raw.len, raw.wp, raw.kind, raw.cond, raw.capacity)
        };
        assert_eq!(fields(OPEN), (2048, 2048, 2056, 2, 2, 1536));
        let full = Zone { cond: ZoneCondition::Full, ..OPEN };
        assert_eq!(fields(full), (2048, 2048, 4096, 2, 14, 1536));
        let (cond, kind) = (ZoneCondition::NotWritePointer, ZoneKind::Conventional);
        assert_eq!(fields(Zone { cond, kind, ..OPEN }), (2048, 2048, 4096, 1, 0, 1536));
    }

    #[test]
    fn zone_that_is_only_known_to_be_active_keeps_its_write_pointer() {
        let active = BlkZone { cond: ACTIVE, ..BlkZone::from(&OPEN) };
        assert_eq!(active.zone(), Some(Zone { cond: ZoneCondition::Closed, ..OPEN }));
    }

    #[test]
    fn contradictory_descriptors_are_refused() {
        let good = BlkZone::from(&OPEN);
        for bad in [
            BlkZone { kind: 3, ..good },
            BlkZone { cond: 9, ..good },
            BlkZone { wp: 2047, ..good },
            BlkZone { wp: 4097, ..good },
            BlkZone { capacity: 2049, ..good },
            BlkZone { start: u64::MAX, ..good },
        ] {
            assert_eq!(bad.zone(), None, "{bad:?}");
        }
    }
}
