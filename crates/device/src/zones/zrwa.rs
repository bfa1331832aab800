//! Zone random write areas (ZRWA): which zones have one, and how writes and commits move the write
//! pointer of a zone that has.
//!
//! ```text
//!        write pointer
//!    ...------|---------------|---------------|
//!     written       ZRWA         implicit commit region: a write that ends here advances the
//!                                write pointer by whole granules until its end is in the ZRWA
//! ```
//!
//! The rules are those of NVMe ZNS 1.1, section 5.7 (implicit commits and the explicit ZRWA flush).
//! An area belongs to a zone from Open Zone with ZRWAA until the zone is no longer active.
use std::sync::atomic::{AtomicU32, Ordering};
use zonal_blk::{Status, ZrwaLimits};

/// The areas of a device. All positions are offsets in a zone, in sectors.
#[derive(Debug)]
pub(super) struct Areas {
    size: u64,
    granularity: u64,
    capacity: u64,
    max: u32,
    in_use: AtomicU32,
}

impl Areas {
    /// For zones of this capacity. Without areas (`max` 0) none can be taken.
    pub fn new(limits: ZrwaLimits, capacity: u64) -> Self {
        let ZrwaLimits { size, granularity, max } = limits;
        let in_use = AtomicU32::new(0);
        Areas { size: size.into(), granularity: granularity.into(), capacity, max, in_use }
    }

    /// Takes an area for a zone.
    ///
    /// # Errors
    /// [`Status::NotSupported`] if the device has none; [`Status::NoSpace`] if all are in use.
    pub fn take(&self) -> Result<(), Status> {
        let more = |in_use| (in_use < self.max).then_some(in_use + 1);
        match self.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) if self.max == 0 => Err(Status::NotSupported),
            Err(_) => Err(Status::NoSpace),
        }
    }

    pub fn give_back(&self) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn in_use(&self) -> u32 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// How far a write of `from..to` advances the write pointer from `wp`.
    ///
    /// # Errors
    /// [`Status::IoError`] for a write below the write pointer or too far beyond it.
    pub fn write(&self, wp: u64, from: u64, to: u64) -> Result<u64, Status> {
        let end = wp + self.size;
        if from < wp || to > end + self.size || to > self.capacity {
            return Err(Status::IoError);
        }
        let beyond = to.saturating_sub(end);
        Ok(beyond.next_multiple_of(self.granularity).min(self.capacity - wp))
    }

    /// How far a commit up to `to` advances the write pointer from `wp`.
    ///
    /// # Errors
    /// [`Status::Invalid`] if `to` is not the end of a granule in the area.
    pub fn commit(&self, wp: u64, to: u64) -> Result<u64, Status> {
        let moves = to.checked_sub(wp).ok_or(Status::Invalid)?;
        let in_area = to <= (wp + self.size).min(self.capacity);
        let whole = moves.is_multiple_of(self.granularity) || to == self.capacity;
        if in_area && whole { Ok(moves) } else { Err(Status::Invalid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn areas() -> Areas {
        Areas::new(ZrwaLimits { size: 8, granularity: 2, max: 2 }, 30)
    }

    /// One granule at a time, until the end of the write is in the area.
    fn model(wp: u64, from: u64, to: u64) -> Option<u64> {
        let mut moved = wp;
        while to > moved + 8 && moved < 30 {
            moved = (moved + 2).min(30);
        }
        (from >= wp && to <= 30 && to <= wp + 16).then_some(moved - wp)
    }

    #[test]
    fn every_write_moves_the_pointer_as_if_granule_by_granule() {
        for wp in 0..=30 {
            for from in 0..=30 {
                for to in from + 1..=34 {
                    let moves = areas().write(wp, from, to).ok();
                    assert_eq!(moves, model(wp, from, to), "{wp}: {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn commits_end_at_granules_of_the_area_or_at_the_capacity() {
        for (wp, to, expected) in [
            (4, 4, Ok(0)),
            (4, 6, Ok(2)),
            (4, 12, Ok(8)),
            (4, 14, Err(Status::Invalid)),
            (4, 7, Err(Status::Invalid)),
            (4, 2, Err(Status::Invalid)),
            (25, 30, Ok(5)),
            (25, 31, Err(Status::Invalid)),
        ] {
            assert_eq!(areas().commit(wp, to), expected, "{wp} to {to}");
        }
    }

    #[test]
    fn no_more_areas_than_there_are_can_be_taken() {
        let areas = areas();
        assert_eq!([areas.take(), areas.take()], [Ok(()); 2]);
        assert_eq!(areas.take(), Err(Status::NoSpace));
        areas.give_back();
        assert_eq!((areas.take(), areas.in_use()), (Ok(()), 2));
        assert_eq!(Areas::new(ZrwaLimits::NONE, 30).take(), Err(Status::NotSupported));
    }
}
