//! The drive while the log is replayed: what is durable, what is in its cache, what is in flight.
//!
//! Data are numbers of blocks of the log. What becomes durable is handed on as [`Effect`]s, so memory
//! is bounded by the size of the cache, not by the length of the log.
use crate::log::{Command, Header};
use crate::outcome::{Outcome, ReplayStep};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use zonal_blk::{BioFlags, Op, Sector, ZoneCondition, ZoneNo};
use zonal_device::power_loss::{FlushPoint, WriteCache};
use zonal_device::rng::mix;

/// A change of a device's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Blocks are written, in a sequential zone at its write pointer.
    Write {
        /// First logical block of the device.
        lba: u64,
        /// The number of each block in the log.
        blocks: Vec<u64>,
    },
    /// A zone is emptied.
    Reset {
        /// The zone.
        zone: u32,
    },
    /// A zone becomes full.
    Finish {
        /// The zone.
        zone: u32,
    },
}

/// In a tail of a zone, a block that no successful write has written, after which there is one that
/// was: a failed write has left it. Zeroes stand for whatever that was.
const UNKNOWN: u64 = 0;

/// The drive.
pub struct Drive {
    /// Sectors in a logical block.
    pub(crate) lba_sectors: u64,
    pub(crate) zone_lbas: u64,
    pub(crate) zones: Vec<ZoneModel>,
    pub(crate) cache: WriteCache,
    /// Sequential zones with data that are not durable.
    pub(crate) dirty: BTreeSet<u32>,
    /// Durable content of conventional zones, where it is not that of the beginning.
    content: HashMap<u64, u64>,
    /// Unflushed writes outside sequential zones, by their number in the cache.
    pub(crate) written: BTreeMap<u64, Unordered>,
    pub(crate) in_flight: BTreeMap<u64, InFlight>,
    /// Identifies what is durable.
    hash: u64,
    /// The most that the cache holds, in sectors.
    cache_size: u64,
    events: u64,
    marks: u64,
}

/// A zone. Positions are logical blocks from its start.
pub(crate) struct ZoneModel {
    pub sequential: bool,
    pub durable: u64,
    /// Blocks written after the durable ones.
    pub tail: VecDeque<u64>,
    pub finished: bool,
    pub capacity: u64,
    /// Identifies what is durable.
    hash: u64,
    /// It had data when the recording began.
    had_data: bool,
}

/// A write outside sequential zones that has completed.
pub(crate) struct Unordered {
    pub id: u64,
    pub lba: u64,
    pub blocks: Vec<u64>,
}

/// A command that has not completed.
pub(crate) struct InFlight {
    pub command: Command,
    pub outcome: Outcome,
    /// It must have been executed, since a write after it has completed.
    pub executed: bool,
    pub point: FlushPoint,
}

impl ZoneModel {
    /// The end of the data of completed writes.
    pub(crate) fn end(&self) -> u64 {
        self.durable + self.tail.len() as u64
    }

    /// Puts blocks at a position, where they are not durable yet.
    fn place(&mut self, at: u64, blocks: impl Iterator<Item = u64>) {
        for (position, block) in (at..).zip(blocks) {
            let Some(index) = position.checked_sub(self.durable) else { continue };
            let index = usize::try_from(index).expect("a tail fits in memory");
            if self.tail.len() <= index {
                self.tail.resize(index + 1, UNKNOWN);
            }
            self.tail[index] = block;
        }
    }
}

const FULL: u64 = 1 << 62;
const EMPTIED: u64 = 1 << 61;

/// Identifies a block at its place.
fn hash_of(lba: u64, block: u64) -> u64 {
    mix(mix(lba) ^ block)
}

impl Drive {
    /// The drive at the beginning of a log, with a cache of `cache_size` sectors.
    pub fn new(header: &Header, cache_size: u64) -> Self {
        let (limits, zones) = header.zoned();
        let lba_sectors = u64::from(limits.lba_sectors());
        let cache = WriteCache::new(&limits, &zones);
        let zone = |number: u32| {
            let zone = &zones[number as usize];
            let sequential = cache.is_sequential(ZoneNo(number));
            let durable =
                if sequential { cache.durable(ZoneNo(number)).0 / lba_sectors } else { 0 };
            ZoneModel {
                sequential,
                durable,
                tail: VecDeque::new(),
                finished: zone.cond == ZoneCondition::Full,
                capacity: zone.capacity.0 / lba_sectors,
                hash: 0,
                had_data: durable > 0,
            }
        };
        Drive {
            lba_sectors,
            zone_lbas: limits.zone_size.0 / lba_sectors,
            zones: (0..limits.nr_zones).map(zone).collect(),
            cache,
            dirty: BTreeSet::new(),
            content: HashMap::new(),
            written: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            hash: 0,
            cache_size,
            events: 0,
            marks: 0,
        }
    }

    /// Events so far: the number of a cut here.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The zone of a sector. Logs of a device with other zones have been refused.
    pub(crate) fn zone_of(&self, sector: Sector) -> Option<u32> {
        let zone = u32::try_from(sector.0 / self.lba_sectors / self.zone_lbas).ok()?;
        ((zone as usize) < self.zones.len()).then_some(zone)
    }

    /// The distance of a sector from the start of its zone, in logical blocks.
    pub(crate) fn offset(&self, sector: Sector) -> u64 {
        sector.0 / self.lba_sectors % self.zone_lbas
    }

    pub(crate) fn zone_start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.zone_lbas
    }

    /// Whether the reset of a zone is in flight.
    pub(crate) fn is_being_reset(&self, zone: u32) -> bool {
        self.in_flight.values().any(|other| match other.command.op {
            Op::ZoneResetAll => true,
            Op::ZoneReset => self.zone_of(other.command.sector) == Some(zone),
            _ => false,
        })
    }

    /// Replays a step; what becomes durable goes to `settled`.
    pub fn advance(&mut self, step: &ReplayStep, settled: &mut Vec<Effect>) {
        self.events += 1;
        match step {
            ReplayStep::Mark(_) => self.marks += 1,
            ReplayStep::Started(id, command, outcome) => {
                let (command, mut outcome) = (command.clone(), *outcome);
                let landed = match outcome {
                    Outcome::Done(landed) => landed,
                    _ => command.sector,
                };
                if !self.is_sound(&command, landed) {
                    outcome = Outcome::Failed;
                }
                let point = self.cache.flush_point();
                let started = InFlight { command, outcome, executed: false, point };
                self.in_flight.insert(*id, started);
            }
            ReplayStep::Ended(id, outcome) => {
                if let Some(ended) = self.in_flight.remove(id)
                    && let Outcome::Done(landed) = outcome
                    && self.is_sound(&ended.command, *landed)
                {
                    self.apply(*id, ended, *landed, settled);
                }
            }
        }
    }

    /// Whether a command is one that the device can have executed: in one zone, in whole blocks, all of
    /// which the log has.
    fn is_sound(&self, command: &Command, landed: Sector) -> bool {
        let len = u64::from(command.nr_sectors);
        let aligned =
            [len, landed.0].into_iter().all(|sectors| sectors.is_multiple_of(self.lba_sectors));
        let writes = command.op.is_write() || command.op == Op::Discard;
        let blocks: u64 = command.blocks.iter().map(|run| u64::from(run.len)).sum();
        let whole = !writes || (len > 0 && blocks == len / self.lba_sectors);
        let in_zone = match self.zone_of(landed) {
            Some(_) => self.offset(landed) + len / self.lba_sectors <= self.zone_lbas,
            None => false,
        };
        let no_zone = matches!(command.op, Op::Flush | Op::ZoneResetAll);
        no_zone
            || (aligned && whole && in_zone && self.zone_of(command.sector) == self.zone_of(landed))
    }

    fn apply(&mut self, id: u64, ended: InFlight, landed: Sector, settled: &mut Vec<Effect>) {
        let InFlight { command, point, .. } = ended;
        if command.op == Op::Flush || command.flags.contains(BioFlags::PREFLUSH) {
            self.change_cache(settled, |cache| cache.flushed(point));
        }
        let Some(zone) = self.zone_of(landed) else { return };
        match command.op {
            Op::Write | Op::WriteZeroes | Op::ZoneAppend | Op::Discard => {
                if self.zones[zone as usize].sequential {
                    self.wrote_in_order(zone, &command, landed, settled);
                } else {
                    self.wrote_anywhere(id, zone, &command, settled);
                }
                if self.cache.held().0 > self.cache_size {
                    let size = self.cache_size;
                    self.change_cache(settled, |cache| cache.limit(size));
                }
            }
            Op::ZoneReset => self.reset(zone, settled),
            Op::ZoneFinish => self.finish(zone, settled),
            Op::ZoneResetAll => {
                for zone in 0..u32::try_from(self.zones.len()).expect("a number of zones") {
                    self.reset(zone, settled);
                }
            }
            // A device that is recorded has no random write areas.
            Op::Read
            | Op::Flush
            | Op::ZoneOpen
            | Op::ZoneClose
            | Op::ZoneOpenZrwa
            | Op::ZrwaFlush => {}
        }
    }

    fn wrote_in_order(
        &mut self,
        zone: u32,
        command: &Command,
        landed: Sector,
        settled: &mut Vec<Effect>,
    ) {
        let at = self.offset(landed);
        let model = &mut self.zones[zone as usize];
        let mut preflushed = None;
        if at > model.end() {
            // What is in between is in flight, and was executed.
            let (start, lba_sectors) = (landed.0 - at * self.lba_sectors, self.lba_sectors);
            for other in self.in_flight.values_mut() {
                let Some(first) =
                    other.position().filter(|first| (start..landed.0).contains(&first.0))
                else {
                    continue;
                };
                other.executed = true;
                if other.command.flags.contains(BioFlags::PREFLUSH) {
                    preflushed = preflushed.max(Some(other.point));
                }
                let at = (first.0 - start) / lba_sectors;
                model.place(at, other.command.block_numbers());
            }
        }
        model.place(at, command.block_numbers());
        self.dirty.insert(zone);
        let (fua, nr_sectors) = (command.flags.contains(BioFlags::FUA), command.nr_sectors);
        self.cache.wrote(ZoneNo(zone), landed, nr_sectors.into(), fua);
        if let Some(point) = preflushed {
            self.change_cache(settled, |cache| cache.flushed(point));
        }
        if fua {
            self.settle_zone(zone, settled);
        }
    }

    fn wrote_anywhere(&mut self, id: u64, zone: u32, command: &Command, settled: &mut Vec<Effect>) {
        let (fua, nr_sectors) = (command.flags.contains(BioFlags::FUA), command.nr_sectors);
        let number = self.cache.wrote(ZoneNo(zone), command.sector, nr_sectors.into(), fua);
        let lba = command.sector.0 / self.lba_sectors;
        let blocks: Vec<u64> = command.block_numbers().collect();
        if fua {
            self.settle_anywhere(lba, blocks, settled);
        } else {
            self.written.insert(number, Unordered { id, lba, blocks });
        }
    }

    /// Makes part of the cache durable.
    fn change_cache(&mut self, settled: &mut Vec<Effect>, change: impl FnOnce(&mut WriteCache)) {
        let before: Vec<_> = self.cache.unordered().collect();
        change(&mut self.cache);
        let first = self.cache.unordered().next().map_or(u64::MAX, |write| write.number);
        for part in before.iter().take_while(|part| part.number < first) {
            let write = &self.written[&part.number];
            let at = part.sector.0 / self.lba_sectors;
            let len = usize::try_from(part.nr_sectors / self.lba_sectors).expect("a length");
            let from = usize::try_from(at - write.lba).expect("a part of the write");
            let blocks = write.blocks[from..from + len].to_vec();
            self.settle_anywhere(at, blocks, settled);
        }
        self.written = self.written.split_off(&first);
        for zone in self.dirty.clone() {
            self.settle_zone(zone, settled);
        }
    }

    fn settle_anywhere(&mut self, lba: u64, blocks: Vec<u64>, settled: &mut Vec<Effect>) {
        for (lba, &block) in (lba..).zip(&blocks) {
            let old = self.content.insert(lba, block);
            let old = old.map_or(0, |old| hash_of(lba, old));
            self.hash = self.hash.wrapping_sub(old).wrapping_add(hash_of(lba, block));
        }
        settled.push(Effect::Write { lba, blocks });
    }

    /// Moves what has become durable out of a zone's tail.
    fn settle_zone(&mut self, zone: u32, settled: &mut Vec<Effect>) {
        let durable = self.cache.durable(ZoneNo(zone)).0 / self.lba_sectors;
        let start = self.zone_start(zone);
        let model = &mut self.zones[zone as usize];
        let count = durable.saturating_sub(model.durable).min(model.tail.len() as u64);
        if count > 0 {
            let count = usize::try_from(count).expect("a tail fits in memory");
            let blocks: Vec<u64> = model.tail.drain(..count).collect();
            let lba = start + model.durable;
            let hash = (lba..).zip(&blocks).map(|(lba, &block)| hash_of(lba, block));
            let hash = hash.fold(0, u64::wrapping_add);
            model.hash = model.hash.wrapping_add(hash);
            self.hash = self.hash.wrapping_add(hash);
            model.durable += blocks.len() as u64;
            settled.push(Effect::Write { lba, blocks });
        }
        if model.tail.is_empty() {
            self.dirty.remove(&zone);
        }
    }

    fn reset(&mut self, zone: u32, settled: &mut Vec<Effect>) {
        let model = &mut self.zones[zone as usize];
        if !model.sequential || (model.end() == 0 && !model.finished) {
            return;
        }
        let hash = if model.had_data { mix(EMPTIED | u64::from(zone)) } else { 0 };
        self.hash = self.hash.wrapping_sub(model.hash).wrapping_add(hash);
        (model.hash, model.durable, model.finished) = (hash, 0, false);
        model.tail.clear();
        self.dirty.remove(&zone);
        self.cache.moved(ZoneNo(zone), Sector(0));
        settled.push(Effect::Reset { zone });
    }

    fn finish(&mut self, zone: u32, settled: &mut Vec<Effect>) {
        let end = self.zones[zone as usize].end();
        self.cache.moved(ZoneNo(zone), Sector(end * self.lba_sectors));
        self.settle_zone(zone, settled);
        let model = &mut self.zones[zone as usize];
        if !model.finished && model.sequential && end < model.capacity {
            model.finished = true;
            let hash = mix(FULL | u64::from(zone));
            model.hash = model.hash.wrapping_add(hash);
            self.hash = self.hash.wrapping_add(hash);
            settled.push(Effect::Finish { zone });
        }
    }

    /// Identifies the content of the drive after `effects`, and the marks so far. Two different
    /// contents have the same with a probability of 2^-64.
    pub fn identify(&self, effects: &[Effect]) -> u64 {
        let mut hash = self.hash.wrapping_add(mix(mix(self.marks)));
        let mut here: HashMap<u64, u64> = HashMap::new();
        for effect in effects {
            match effect {
                Effect::Reset { zone } => {
                    let model = &self.zones[*zone as usize];
                    let emptied = if model.had_data { mix(EMPTIED | u64::from(*zone)) } else { 0 };
                    hash = hash.wrapping_sub(model.hash).wrapping_add(emptied);
                }
                Effect::Finish { zone } => {
                    hash = hash.wrapping_add(mix(FULL | u64::from(*zone)));
                }
                Effect::Write { lba, blocks } => {
                    for (lba, &block) in (*lba..).zip(blocks) {
                        let old = here.insert(lba, block).or(self.content.get(&lba).copied());
                        let old = old.map_or(0, |old| hash_of(lba, old));
                        hash = hash.wrapping_sub(old).wrapping_add(hash_of(lba, block));
                    }
                }
            }
        }
        hash
    }
}

impl InFlight {
    /// Where a write in a sequential zone begins, if it may have been executed.
    pub(crate) fn position(&self) -> Option<Sector> {
        match (self.command.op, self.outcome) {
            (_, Outcome::Failed) => None,
            (Op::Write | Op::WriteZeroes, _) => Some(self.command.sector),
            (Op::ZoneAppend, Outcome::Done(landed)) => Some(landed),
            _ => None,
        }
    }
}
