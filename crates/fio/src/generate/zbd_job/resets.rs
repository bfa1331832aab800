//! Resets that a job with `zonemode=zbd` issues besides those of full zones: early ones, for garbage
//! collection, and those before a job that verifies what it writes.
use crate::generate::{Region, ZbdTable};
use crate::job::{Fraction, Job};
use std::ops::Range;

/// Resets of zones before they are full (`zone_reset_frequency`).
pub(super) struct EarlyResets {
    /// Bytes of data from which on zones are reset.
    threshold: u64,
    /// Writes for each reset.
    every: u64,
    left: u64,
    /// The next write is counted.
    counted: bool,
    /// The zone of the next write is reset before it.
    due: bool,
    /// Zones that are reset before the next write in them.
    marked: Vec<u32>,
    /// A pass goes on at the start of the region when it has met the end.
    goes_on: bool,
    /// It does so next.
    is_at_end: bool,
}

impl EarlyResets {
    pub(super) fn new(job: &Job, region: Region) -> Option<Self> {
        let part_of = |whole: u64, part: Fraction| {
            let bytes = u128::from(whole) * u128::from(part.millionths());
            u64::try_from(bytes / u128::from(Fraction::ONE)).expect("a part")
        };
        let every = Fraction::ONE.checked_div(job.zbd.reset_frequency.millionths())?;
        let threshold = part_of(region.len(), job.zbd.reset_threshold);
        Some(EarlyResets {
            threshold,
            every,
            left: every,
            counted: false,
            due: false,
            marked: Vec::new(),
            goes_on: !job.random && job.time_based,
            is_at_end: false,
        })
    }

    /// The next write would begin at the end of the region.
    #[cold]
    pub(super) fn meet_end(&mut self) {
        self.is_at_end = self.goes_on;
    }

    /// The job begins at the start of its region again. As in fio, which opens its file again for a new pass, writes
    /// are then counted anew, but counted on where only the position is put back, in sequential jobs with
    /// `time_based`.
    pub(super) fn restart(&mut self) {
        let left = if self.is_at_end { self.left } else { self.every };
        (self.left, self.counted, self.due, self.is_at_end) = (left, false, false, false);
    }

    /// A write is next while zones hold this much. As in fio it counts once, wherever it goes in the end,
    /// also if its zone is empty or full, or there is none left.
    pub(super) fn count(&mut self, data: u64) {
        if !std::mem::replace(&mut self.counted, true) && data >= self.threshold {
            self.left -= 1;
            if self.left == 0 {
                (self.left, self.due) = (self.every, true);
            }
        }
    }

    /// The next write is counted once more, and its zone reset if it was to be.
    pub(super) fn count_again(&mut self) {
        self.counted = false;
    }

    /// The next write is in this zone: whether that is to be reset. As in fio, it still is if a read for
    /// verification comes first, and the next write is elsewhere.
    pub(super) fn is_due(&mut self, zone: u32) -> bool {
        if std::mem::take(&mut self.due) && !self.marked.contains(&zone) {
            self.marked.push(zone);
        }
        self.marked.contains(&zone)
    }

    /// Whether a write has found that this zone is to be reset.
    pub(super) fn has_marked(&self, zone: u32) -> bool {
        self.marked.contains(&zone)
    }

    /// The zone is being reset, or holds nothing.
    pub(super) fn resets(&mut self, zone: u32) {
        self.marked.retain(|&marked| marked != zone);
    }

    /// The write that was counted is issued, or there is no place for it.
    pub(super) fn next(&mut self) {
        (self.counted, self.due) = (false, false);
    }
}

/// The zones that a job resets before its first write, as it verifies what it writes: a reset between
/// would take away what is still to be verified.
pub(super) struct FirstResets {
    zones: Vec<u32>,
    job: u32,
}

impl FirstResets {
    /// Of the zones of `region` that hold data, but not those of other jobs; `None` if there are none.
    pub(super) fn new(table: &ZbdTable, region: Range<u32>, job: u32) -> Option<Self> {
        let mut zones = table.with_data_of(region, job);
        zones.reverse();
        (!zones.is_empty()).then_some(FirstResets { zones, job })
    }

    /// The next zone that no job has written or reset meanwhile.
    pub(super) fn next(&mut self, table: &ZbdTable) -> Option<u32> {
        loop {
            let zone = self.zones.pop()?;
            if table.has_data_of(zone, self.job) {
                return Some(zone);
            }
        }
    }
}
