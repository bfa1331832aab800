//! Zone random write areas: how far writes ahead of the write pointer move it.
//!
//! Takes the write pointer of a zone and a write; gives how far the pointer moves. Keeps true: what
//! lies behind the pointer is never written again; no write reaches further than two areas ahead.
//!
//! ```text
//!        write pointer
//!    ...------|---------------|---------------|
//!     written       area         behind it: a write that ends here moves the write pointer by
//!                                whole granules until its end lies in the area
//! ```
//!
//! The rules are those of NVMe ZNS 1.1, section 5.7 (implicit commits and the ZRWA flush). The
//! areas are memory of their own beside the write buffer: what lies there takes no room until it
//! is committed.
use super::ZnsConfig;
use zonal_blk::{Sector, Status};

/// The size of a drive's random write areas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zrwa {
    size: u64,
    granularity: u64,
    capacity: u64,
}

impl Zrwa {
    /// `None` for a drive without.
    pub(super) fn new(config: &ZnsConfig) -> Option<Self> {
        let sectors = |bytes: zonal_blk::Bytes| bytes.to_sectors().0;
        (config.zrwa.0 > 0).then(|| Zrwa {
            size: sectors(config.zrwa),
            granularity: sectors(config.zrwa_granularity),
            capacity: sectors(config.zone_capacity),
        })
    }

    /// How far a write from `from` up to `to` moves the write pointer from `wp`, all from the
    /// zone's start.
    ///
    /// # Errors
    /// [`Status::IoError`] for a write behind the write pointer or too far ahead of it.
    pub(super) fn write(&self, wp: Sector, from: Sector, to: Sector) -> Result<Sector, Status> {
        let end_of_area = wp.0 + self.size;
        if from < wp || to.0 > end_of_area + self.size || to.0 > self.capacity {
            return Err(Status::IoError);
        }
        let beyond = to.0.saturating_sub(end_of_area);
        Ok(Sector(beyond.next_multiple_of(self.granularity).min(self.capacity - wp.0)))
    }

    /// How far a commit up to `to` moves the write pointer from `wp`.
    ///
    /// # Errors
    /// [`Status::Invalid`] if `to` is not a granule's end in the area.
    pub(super) fn commit(&self, wp: Sector, to: Sector) -> Result<Sector, Status> {
        let moves = to.0.checked_sub(wp.0).ok_or(Status::Invalid)?;
        let in_area = to.0 <= (wp.0 + self.size).min(self.capacity);
        let whole = moves.is_multiple_of(self.granularity) || to.0 == self.capacity;
        if in_area && whole { Ok(Sector(moves)) } else { Err(Status::Invalid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Zrwa = Zrwa { size: 8, granularity: 2, capacity: 30 };

    /// One granule at a time, until the end of the write lies in the area.
    fn model(wp: u64, from: u64, to: u64) -> Option<u64> {
        let mut moved = wp;
        while to > moved + AREA.size && moved < AREA.capacity {
            moved = (moved + AREA.granularity).min(AREA.capacity);
        }
        (from >= wp && to <= AREA.capacity && to <= wp + 2 * AREA.size).then_some(moved - wp)
    }

    #[test]
    fn every_write_moves_the_pointer_as_if_granule_by_granule() {
        for wp in 0..=30 {
            for from in 0..=30 {
                for to in from + 1..=34 {
                    let moves = AREA.write(Sector(wp), Sector(from), Sector(to));
                    let moves = moves.ok().map(|moves| moves.0);
                    assert_eq!(moves, model(wp, from, to), "{wp}: {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn commits_end_at_granules_in_the_area_or_at_the_capacity() {
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
            let moves = AREA.commit(Sector(wp), Sector(to)).map(|moves| moves.0);
            assert_eq!(moves, expected, "{wp} to {to}");
        }
    }
}
