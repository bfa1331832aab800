//! The zones that a job owns: few of very many, so that thousands of jobs on a device with a hundred
//! thousand zones cost what their I/O costs.
use crate::generate::zbd::OwnedZone;
use zonal_blk::Slab;

/// A zone that the job owns.
#[derive(Clone, Copy, Default)]
pub(super) struct ZoneSlot {
    zone: u32,
    pub(super) owned: OwnedZone,
    pub(super) in_flight: u32,
    /// A reset or finish is in flight.
    pub(super) managing: bool,
    /// The reset is a trim: no write follows.
    pub(super) trimmed: bool,
    /// A write has failed: only the device knows the write pointer.
    pub(super) failed: bool,
}

impl ZoneSlot {
    /// Whether a block of this length fits after the write pointer.
    #[inline(always)]
    pub(super) fn has_room(&self, block: u64) -> bool {
        self.owned.wp + block <= self.owned.capacity
    }

    /// Places a write of `len` bytes, or of as many blocks as there is room for, at the write pointer;
    /// where less than a block is left, of that. Returns its offset and length; `None` if there is less
    /// room than `least`.
    #[inline(always)]
    pub(super) fn place_write(&mut self, least: u64, block: u64, len: u64) -> Option<(u64, u64)> {
        if !self.has_room(least) {
            return None;
        }
        let OwnedZone { start, capacity, wp, .. } = self.owned;
        let room = capacity - wp;
        let len = match len <= room {
            true => len,
            false if room < block => room / least * least,
            false => room / block * block,
        };
        self.owned.wp += len;
        self.in_flight += 1;
        Some((start + wp, len))
    }
}

/// The zones of a region that the job owns.
pub(super) struct OwnedZones {
    /// By zone, one more than its place in `slots`; 0 if it is not owned. Pages of zeroes take no
    /// memory until they are written.
    places: Vec<u32>,
    nr_zones: u32,
    slots: Slab<ZoneSlot>,
}

impl OwnedZones {
    /// None of `count` zones.
    pub(super) fn new(count: u32) -> Self {
        let places = vec![0; count as usize];
        OwnedZones { places, nr_zones: count, slots: Slab::default() }
    }

    /// Zones of the region.
    pub(super) fn nr_zones(&self) -> u32 {
        self.nr_zones
    }

    /// Zones that the job owns.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("zones are counted in u32")
    }

    /// The nearest zone to this one that holds this many bytes, written or being written.
    pub(super) fn nearest_with_data(&self, zone: u32, bytes: u64) -> Option<u32> {
        let holds = |slot: &&ZoneSlot| !slot.managing && slot.owned.wp >= bytes;
        let zones = self.slots.iter().filter(holds).map(|slot| slot.zone);
        zones.min_by_key(|other| (other.abs_diff(zone), *other < zone))
    }

    /// Whether the job has I/O in any zone.
    pub(super) fn any_busy(&self) -> bool {
        self.slots.iter().any(|slot| slot.in_flight > 0)
    }

    /// The zones that the job owns without I/O in them.
    pub(super) fn idle(&self) -> Vec<u32> {
        self.slots.iter().filter(|slot| slot.in_flight == 0).map(|slot| slot.zone).collect()
    }

    #[inline]
    pub(super) fn contains(&self, zone: u32) -> bool {
        self.places[zone as usize] != 0
    }

    /// A zone, if the job owns it.
    #[inline(always)]
    pub(super) fn find(&mut self, zone: u32) -> Option<&mut ZoneSlot> {
        let place = self.places[zone as usize].checked_sub(1)?;
        self.slots.get_mut(place as usize)
    }

    /// A zone that the job owns.
    ///
    /// # Panics
    /// If it does not.
    #[inline(always)]
    pub(super) fn get(&mut self, zone: u32) -> &mut ZoneSlot {
        self.find(zone).expect("the job owns the zone")
    }

    pub(super) fn add(&mut self, zone: u32, owned: OwnedZone) {
        let place = self.slots.insert(ZoneSlot { zone, owned, ..ZoneSlot::default() });
        let place = u32::try_from(place).expect("zones are counted in u32");
        self.places[zone as usize] = place + 1;
    }

    pub(super) fn remove(&mut self, zone: u32) {
        let place = std::mem::take(&mut self.places[zone as usize]);
        let slot = place.checked_sub(1).and_then(|place| self.slots.remove(place as usize));
        slot.expect("the job owns the zone");
    }
}
