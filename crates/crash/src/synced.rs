//! Data that software takes for durable: all that had completed when it put a mark `synced` into the log.
//!
//! A drive keeps what a flush has made durable. Software that calls something synced which no flush
//! has covered has lost it in one of the states.
use crate::content::{Content, data_end};
use crate::drive::Drive;
use crate::image::MakeError;
use crate::log::Blocks;
use crate::outcome::{Outcome, ReplayStep};
use std::collections::BTreeMap;
use std::sync::Arc;
use zonal_blk::{Op, Sector, Zone, ZoneKind};

/// A mark that says that data are durable.
///
/// ```text
///  synced                 all that had completed
///  synced zone 3          the same, of this zone
///  synced zone 3 131072   bytes from the start of this zone
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncMark {
    zone: Option<u32>,
    bytes: Option<u64>,
}

impl SyncMark {
    /// The meaning of a mark; `None` for other marks.
    ///
    /// # Errors
    /// It begins with `synced` and continues as none of these.
    pub fn parse(mark: &str) -> Result<Option<Self>, String> {
        let words: Vec<&str> = mark.split_whitespace().collect();
        let bad = || {
            format!("mark `{mark}`: expected `synced`, `synced zone N` or `synced zone N BYTES`")
        };
        let (zone, bytes) = match words[..] {
            ["synced"] => (None, None),
            ["synced", "zone", zone] => (Some(zone), None),
            ["synced", "zone", zone, bytes] => (Some(zone), Some(bytes)),
            ["synced", ..] => return Err(bad()),
            _ => return Ok(None),
        };
        let zone = zone.map(str::parse).transpose().map_err(|_| bad())?;
        let bytes = bytes.map(str::parse).transpose().map_err(|_| bad())?;
        Ok(Some(SyncMark { zone, bytes }))
    }

    /// The zone, if it is about one.
    pub fn zone(&self) -> Option<u32> {
        self.zone
    }
}

/// The data that were synced, from mark to mark.
#[derive(Clone, Debug, Default)]
struct Marked {
    /// By zone: how many blocks of it. Of a conventional zone, 0.
    zones: Vec<u64>,
    /// Outside sequential zones: what a block may hold, the synced content first and then what was
    /// written later, as numbers of the log. Data that a flush had covered are not here: no state
    /// lacks them.
    blocks: BTreeMap<u64, Vec<u64>>,
}

/// Follows a log, and knows at each cut what was synced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracker(Arc<Marked>);

/// The data that must be there after a loss of power.
#[derive(Clone, Debug)]
pub struct Synced {
    marked: Arc<Marked>,
    /// By zone: the most blocks that it can have, with what was in flight.
    longest: Vec<u64>,
    lba_sectors: u64,
}

impl Tracker {
    /// Follows a step, which the drive has replayed.
    pub(crate) fn advance(&mut self, step: &ReplayStep, drive: &Drive) {
        match step {
            // Marks that are none were refused before.
            ReplayStep::Mark(text) => {
                if let Ok(Some(mark)) = SyncMark::parse(text) {
                    self.synced(mark, drive);
                }
            }
            ReplayStep::Started(_, command, outcome) if *outcome != Outcome::Failed => {
                match command.op {
                    Op::ZoneReset => {
                        if let Some(zone) = drive.zone_of(command.sector) {
                            self.forget(zone);
                        }
                    }
                    Op::ZoneResetAll => {
                        (0..).zip(&drive.zones).for_each(|(zone, _)| self.forget(zone));
                    }
                    Op::Write | Op::WriteZeroes | Op::Discard if !self.0.blocks.is_empty() => {
                        let first = command.sector.0 / drive.lba_sectors;
                        self.may_hold(first, command.block_numbers());
                    }
                    _ => {}
                }
            }
            ReplayStep::Started(..) | ReplayStep::Ended(..) => {}
        }
    }

    fn forget(&mut self, zone: u32) {
        let zone = zone as usize;
        if self.0.zones.get(zone).is_some_and(|&synced| synced > 0) {
            Arc::make_mut(&mut self.0).zones[zone] = 0;
        }
    }

    /// Blocks that were synced may hold something newer from now on.
    fn may_hold(&mut self, first: u64, blocks: impl Iterator<Item = u64>) {
        for (lba, block) in (first..).zip(blocks) {
            if self.0.blocks.contains_key(&lba)
                && let Some(may) = Arc::make_mut(&mut self.0).blocks.get_mut(&lba)
            {
                may.push(block);
            }
        }
    }

    fn synced(&mut self, mark: SyncMark, drive: &Drive) {
        let marked = Arc::make_mut(&mut self.0);
        marked.zones.resize(drive.zones.len(), 0);
        let is_synced = |zone: u32| mark.zone.is_none_or(|only| only == zone);
        for (zone, model) in (0..).zip(&drive.zones) {
            if model.sequential && is_synced(zone) && !drive.is_being_reset(zone) {
                let bytes = |bytes: u64| bytes.div_ceil(drive.lba_sectors * 512);
                marked.zones[zone as usize] = mark.bytes.map_or(model.end(), bytes);
            }
        }
        for part in drive.cache.unordered() {
            let Some(zone) = drive.zone_of(part.sector).filter(|&zone| is_synced(zone)) else {
                continue;
            };
            let write = &drive.written[&part.number];
            let from = part.sector.0 / drive.lba_sectors;
            let to = from + part.nr_sectors / drive.lba_sectors;
            let limit = mark.bytes.map_or(u64::MAX, |bytes| {
                drive.zone_start(zone) + bytes.div_ceil(drive.lba_sectors * 512)
            });
            for lba in from..to.min(limit) {
                let block = write.blocks[usize::try_from(lba - write.lba).expect("a part of it")];
                marked.blocks.insert(lba, vec![block]);
            }
        }
        let in_flight = drive.in_flight.values().filter(|other| other.outcome != Outcome::Failed);
        for other in in_flight {
            let first = other.command.sector.0 / drive.lba_sectors;
            self.may_hold(first, other.command.block_numbers());
        }
    }

    /// The data that must be there if the power fails now.
    pub(crate) fn at(&self, drive: &Drive) -> Synced {
        let mut longest: Vec<u64> = drive
            .zones
            .iter()
            .map(|model| if model.finished { model.capacity } else { model.end() })
            .collect();
        for other in drive.in_flight.values() {
            if let Some(zone) = drive.zone_of(other.command.sector)
                && other.outcome != Outcome::Failed
                && !other.executed
            {
                let model = &drive.zones[zone as usize];
                let len = u64::from(other.command.nr_sectors) / drive.lba_sectors;
                let longest = &mut longest[zone as usize];
                *longest = match other.command.op {
                    Op::ZoneFinish => model.capacity,
                    op if op.is_write() => (*longest + len).min(model.capacity),
                    _ => *longest,
                };
            }
        }
        Synced { marked: Arc::clone(&self.0), longest, lba_sectors: drive.lba_sectors }
    }
}

impl Synced {
    /// How many blocks of a sequential zone were synced.
    pub fn blocks(&self, zone: u32) -> u64 {
        self.marked.zones.get(zone as usize).copied().unwrap_or(0)
    }

    /// The synced data that is not there, or data that is there and was never written.
    ///
    /// # Errors
    /// The image or the log cannot be read.
    pub fn violation(
        &self,
        content: &mut Content,
        zones: &[Zone],
        log: &mut Blocks,
    ) -> Result<Option<String>, MakeError> {
        for (number, zone) in (0..).zip(zones) {
            if zone.kind != ZoneKind::SequentialRequired {
                continue;
            }
            let found = (data_end(zone) - zone.start).0 / self.lba_sectors;
            let (synced, longest) = (self.blocks(number), self.longest[number as usize]);
            if found < synced {
                let why = format!(
                    "zone {number}: found {found} blocks, expected the {synced} that were synced"
                );
                return Ok(Some(why));
            }
            if found > longest {
                let why =
                    format!("zone {number}: found {found} blocks, of which {longest} were written");
                return Ok(Some(why));
            }
        }
        let lba = usize::try_from(self.lba_sectors * 512).expect("512 or 4096");
        let mut expected = vec![0; lba];
        for (&at, may) in &self.marked.blocks {
            let sector = Sector(at * self.lba_sectors);
            let found = content.read(sector, u32::try_from(self.lba_sectors).expect("few"))?;
            let mut is_one = false;
            for &block in may {
                log.read(block, &mut expected)?;
                is_one |= found[..] == expected[..];
            }
            if !is_one {
                let why = format!("sector {sector}: found something older than what was synced");
                return Ok(Some(why));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_say_synced_are_understood_or_refused() {
        let parsed = |zone, bytes| Ok(Some(SyncMark { zone, bytes }));
        assert_eq!(SyncMark::parse("synced"), parsed(None, None));
        assert_eq!(SyncMark::parse("synced zone 3"), parsed(Some(3), None));
        assert_eq!(SyncMark::parse("synced zone 3 4096"), parsed(Some(3), Some(4096)));
        assert_eq!(SyncMark::parse("fsync 17 returned"), Ok(None));
        for bad in ["synced seq/3", "synced zone", "synced zone x", "synced zone 1 2 3"] {
            let error = SyncMark::parse(bad).expect_err(bad);
            assert!(error.contains("expected `synced`, `synced zone N`"), "{error}");
        }
    }
}
