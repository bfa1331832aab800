//! What the metadata say of one zone.
//!
//! Takes a zone's state; gives 32 bytes, and back. Keeps true: what is read back is a state that a
//! zone can have.
use super::block::{put, u32_at, u64_at};
use super::superblock::ImageGeometry;
use zonal_blk::{Sector, ZoneCondition, ZoneNo};

/// A zone without a place in the file.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// Data that a record vouches for instead of being written after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveredData {
    /// Where they begin, from the zone's start. They end where the zone's data end.
    pub from: Sector,
    /// Their CRC-32C.
    pub crc: u32,
}

/// What the metadata say of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneEntry {
    /// The zone.
    pub zone: ZoneNo,
    /// Its condition; no zone is open.
    pub cond: ZoneCondition,
    /// Which slot of the file has its data; `None` for a zone that was never written.
    pub slot: Option<u32>,
    /// Where its data end, from its start. 0 for a conventional zone.
    pub written: Sector,
    /// In the log: the zone is so only if the data are there.
    pub covered: Option<CoveredData>,
}

impl ZoneEntry {
    pub(super) const BYTES: usize = 32;

    /// A zone that was never written.
    pub(super) fn new(zone: ZoneNo, geometry: &ImageGeometry) -> Self {
        let conventional = zone.0 < geometry.conventional;
        let cond = if conventional { ZoneCondition::NotWritePointer } else { ZoneCondition::Empty };
        ZoneEntry { zone, cond, slot: None, written: Sector(0), covered: None }
    }

    pub(super) fn encode(&self, to: &mut [u8]) {
        to.fill(0);
        to[0] = self.cond as u8;
        to[1] = self.covered.is_some().into();
        put(to, 4, &self.zone.0.to_le_bytes());
        put(to, 8, &self.slot.unwrap_or(NO_SLOT).to_le_bytes());
        put(to, 16, &self.written.0.to_le_bytes());
        if let Some(covered) = self.covered {
            put(to, 12, &covered.crc.to_le_bytes());
            put(to, 24, &covered.from.0.to_le_bytes());
        }
    }

    /// Reads an entry; `None` for a state that no zone of this geometry can have.
    pub(super) fn decode(from: &[u8], geometry: &ImageGeometry) -> Option<Self> {
        use ZoneCondition::{Closed, Empty, Full, NotWritePointer, Offline, ReadOnly};
        let known = [NotWritePointer, Empty, Closed, ReadOnly, Full, Offline];
        let cond = known.into_iter().find(|&cond| cond as u8 == from[0])?;
        let zone = ZoneNo(u32_at(from, 4));
        let written = Sector(u64_at(from, 16));
        let slot = Some(u32_at(from, 8)).filter(|&slot| slot != NO_SLOT);
        let covered = match from[1] {
            0 => None,
            1 => Some(CoveredData { from: Sector(u64_at(from, 24)), crc: u32_at(from, 12) }),
            _ => return None,
        };
        let conventional = zone.0 < geometry.conventional;
        let capacity = if conventional { Sector(0) } else { geometry.zone_capacity };
        let fits = match cond {
            NotWritePointer => conventional,
            Empty => !conventional && written == Sector(0),
            Closed => !conventional && written > Sector(0) && written < capacity,
            Full => !conventional,
            _ => true,
        };
        let sound = zone.0 < geometry.zones
            && slot.is_none_or(|slot| slot < geometry.zones)
            && (slot.is_some() || written == Sector(0))
            && written <= capacity
            && written.0.is_multiple_of(u64::from(geometry.lba) / 512)
            && covered.is_none_or(|covered| covered.from < written)
            && from[2..4] == [0; 2];
        (fits && sound).then_some(ZoneEntry { zone, cond, slot, written, covered })
    }
}
