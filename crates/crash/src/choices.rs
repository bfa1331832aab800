//! The possible outcomes for everything that was not durable when the power failed, and the effects of
//! a choice among them.
use crate::drive::{Drive, Effect, InFlight};
use crate::outcome::Outcome;
use crate::state::{Append, State, WriteFate, ZoneFate};
use std::collections::BTreeSet;
use zonal_blk::{BioFlags, Op, ZoneNo};

/// Torn writes of more units than this are sampled.
const ALL_TORN: u64 = 8;
/// Places where the data of a zone may end, of which more are sampled.
const MAX_ENDS: u64 = 64;
/// Appends in flight, all of whose orders are tried.
const ALL_ORDERS: usize = 3;

/// Something that has more than one possible fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A sequential zone.
    Zone {
        /// The zone.
        zone: u32,
        /// The fates other than that exactly what had completed is there, that with the least data first.
        fates: Vec<ZoneFate>,
    },
    /// A write outside sequential zones.
    Write {
        /// The number of the command.
        id: u64,
        /// The fates other than that of a drive that keeps what has completed and nothing else.
        fates: Vec<WriteFate>,
    },
}

impl Choice {
    /// The number of possible fates.
    pub fn count(&self) -> u64 {
        1 + match self {
            Choice::Zone { fates, .. } => fates.len() as u64,
            Choice::Write { fates, .. } => fates.len() as u64,
        }
    }

    /// Sets fate `index` in a state: 0 is that of a drive that keeps what has completed and nothing
    /// else, 1 that with the least data.
    pub fn set(&self, index: u64, state: &mut State) {
        let Some(index) = index.checked_sub(1).and_then(|index| usize::try_from(index).ok()) else {
            return;
        };
        match self {
            Choice::Zone { zone, fates } => {
                state.zones.insert(*zone, fates[index].clone());
            }
            Choice::Write { id, fates } => {
                state.writes.insert(*id, fates[index]);
            }
        }
    }
}

/// The commands in flight for a sequential zone.
#[derive(Default)]
struct ZoneFlight<'a> {
    /// Blocks of writes, one after the other, from the end of the completed ones on.
    chain: Vec<u64>,
    /// Where the writes end that have not completed, in blocks from the start of the zone.
    ends: Vec<u64>,
    appends: Vec<(u64, &'a InFlight)>,
    reset: bool,
    finish: bool,
}

impl Drive {
    fn zone_flight(&self, zone: u32) -> ZoneFlight<'_> {
        let mut flight = ZoneFlight::default();
        let mut writes = Vec::new();
        for (&id, other) in &self.in_flight {
            let here = self.zone_of(other.command.sector) == Some(zone);
            if here && let Some(position) = other.position() {
                let end = position.0 + u64::from(other.command.nr_sectors);
                flight.ends.push(end / self.lba_sectors - self.zone_start(zone));
            }
            if other.outcome == Outcome::Failed || other.executed {
                continue;
            }
            match other.command.op {
                Op::ZoneResetAll => flight.reset = true,
                Op::ZoneReset if here => flight.reset = true,
                Op::ZoneFinish if here => flight.finish = true,
                Op::ZoneAppend if here => flight.appends.push((id, other)),
                Op::Write | Op::WriteZeroes if here => writes.push(other),
                _ => {}
            }
        }
        writes.sort_by_key(|write| write.command.sector);
        let mut end = self.zones[zone as usize].end();
        for write in writes {
            if self.offset(write.command.sector) == end {
                flight.chain.extend(write.command.block_numbers());
                end += u64::from(write.command.nr_sectors) / self.lba_sectors;
            }
        }
        flight
    }

    /// Sequential zones that may hold other data than those that had completed.
    fn open_zones(&self) -> Vec<u32> {
        let in_flight = self.in_flight.values().filter_map(|other| {
            let zone = self.zone_of(other.command.sector)?;
            (other.command.op != Op::Flush && other.command.op != Op::Read).then_some(zone)
        });
        let all = self.in_flight.values().any(|other| other.command.op == Op::ZoneResetAll);
        let numbers = 0..u32::try_from(self.zones.len()).expect("a number of zones");
        let all = numbers.filter(|_| all);
        let mut zones: Vec<u32> = self.dirty.iter().copied().chain(in_flight).chain(all).collect();
        zones.sort_unstable();
        zones.dedup();
        zones.retain(|&zone| self.zones[zone as usize].sequential);
        zones
    }

    /// All choices if the power fails now. Writes are torn at multiples of `unit` blocks.
    pub fn choices(&self, unit: u64) -> Vec<Choice> {
        let mut choices = Vec::new();
        for zone in self.open_zones() {
            let fates = self.zone_fates(zone, unit);
            if !fates.is_empty() {
                choices.push(Choice::Zone { zone, fates });
            }
        }
        let mut last = None;
        for part in self.cache.unordered() {
            let write = &self.written[&part.number];
            // Parts of one write are next to one another.
            if last != Some(write.id) {
                last = Some(write.id);
                let mut fates = vec![WriteFate::None];
                fates.extend(torn(write.blocks.len() as u64, unit));
                choices.push(Choice::Write { id: write.id, fates });
            }
        }
        for (&id, other) in self.unordered_in_flight() {
            let len = u64::from(other.command.nr_sectors) / self.lba_sectors;
            let mut fates: Vec<WriteFate> = torn(len, unit).collect();
            fates.push(WriteFate::All);
            choices.push(Choice::Write { id, fates });
        }
        choices
    }

    fn unordered_in_flight(&self) -> impl Iterator<Item = (&u64, &InFlight)> {
        self.in_flight.iter().filter(|(_, other)| {
            let writes = matches!(other.command.op, Op::Write | Op::WriteZeroes | Op::Discard);
            let zone = self.zone_of(other.command.sector);
            let anywhere = zone.is_some_and(|zone| !self.zones[zone as usize].sequential);
            writes && anywhere && other.outcome != Outcome::Failed
        })
    }

    fn zone_fates(&self, zone: u32, unit: u64) -> Vec<ZoneFate> {
        let model = &self.zones[zone as usize];
        let flight = self.zone_flight(zone);
        let (end, last) = (model.end(), model.end() + flight.chain.len() as u64);
        let kept = |kept| ZoneFate::Data { kept, appends: Vec::new() };
        // Of many places where the data may end, other ones at each event.
        let stride = ((last - model.durable) / unit / MAX_ENDS + 1) * unit;
        let first = (model.durable + self.events() % (stride / unit) * unit).next_multiple_of(unit);
        let torn = (first..last).step_by(usize::try_from(stride).unwrap_or(usize::MAX));
        let mut ends: BTreeSet<u64> = [model.durable, last].into_iter().chain(torn).collect();
        if stride == unit {
            // Between two writes nothing is torn.
            let written = self.cache.unflushed_ends(ZoneNo(zone)).map(|at| at.0 / self.lba_sectors);
            let written = written.chain(flight.ends.iter().copied());
            ends.extend(written.filter(|at| (model.durable..last).contains(at)));
        }
        ends.remove(&end);
        let mut fates: Vec<ZoneFate> = ends.into_iter().map(kept).collect();
        for appends in orders(&flight.appends, end, unit, self.lba_sectors) {
            fates.push(ZoneFate::Data { kept: end, appends });
        }
        if flight.reset && (end > 0 || model.finished) {
            fates.push(ZoneFate::Reset);
        }
        if flight.finish && !model.finished && end < model.capacity {
            fates.push(ZoneFate::Full);
        }
        fates
    }

    /// The changes that lead from what is durable to a state of this moment.
    ///
    /// # Errors
    /// Why no drive can be in that state.
    pub fn effects(&self, state: &State) -> Result<Vec<Effect>, String> {
        let mut effects = Vec::new();
        let open = self.open_zones();
        if let Some(zone) = state.zones.keys().find(|zone| !open.contains(zone)) {
            return Err(format!("zone {zone} has nothing that could be lost or kept"));
        }
        for zone in open {
            self.zone_effects(zone, state.zones.get(&zone), &mut effects)?;
        }
        let mut known = 0;
        let mut last = None;
        for part in self.cache.unordered() {
            let write = &self.written[&part.number];
            let fate = state.writes.get(&write.id).copied();
            known += usize::from(fate.is_some() && last != Some(write.id));
            last = Some(write.id);
            let at = part.sector.0 / self.lba_sectors;
            let part = at..at + part.nr_sectors / self.lba_sectors;
            let kept = fate.unwrap_or(WriteFate::All).kept(write.lba, write.blocks.len() as u64);
            let (from, to) = (kept.start.max(part.start), kept.end.min(part.end));
            if from < to {
                let index = |lba: u64| usize::try_from(lba - write.lba).expect("part of the write");
                let blocks = write.blocks[index(from)..index(to)].to_vec();
                effects.push(Effect::Write { lba: from, blocks });
            }
        }
        for (id, other) in self.unordered_in_flight() {
            let Some(fate) = state.writes.get(id) else { continue };
            known += 1;
            let blocks: Vec<u64> = other.command.block_numbers().collect();
            let lba = other.command.sector.0 / self.lba_sectors;
            let kept = fate.kept(lba, blocks.len() as u64);
            let index = |at: u64| usize::try_from(at - lba).expect("part of the write");
            let blocks = blocks[index(kept.start)..index(kept.end)].to_vec();
            effects.push(Effect::Write { lba: kept.start, blocks });
        }
        if known < state.writes.len() {
            return Err("a write of it is neither unflushed nor in flight then".to_owned());
        }
        if !self.keeps_preflushed(state) {
            return Err(
                "a command with PREFLUSH was executed, and what it flushed is lost".to_owned()
            );
        }
        Ok(effects)
    }

    /// Whether a state has all that was flushed before commands in flight that it has.
    fn keeps_preflushed(&self, state: &State) -> bool {
        let flushing = self.in_flight.iter().filter(|(id, other)| {
            other.command.flags.contains(BioFlags::PREFLUSH)
                && other.outcome != Outcome::Failed
                && self.is_executed(**id, other, state)
        });
        let Some(point) = flushing.map(|(_, other)| other.point).max() else { return true };
        let zones = state.zones.iter().all(|(&zone, fate)| match fate {
            ZoneFate::Data { kept, .. } => {
                kept * self.lba_sectors >= self.cache.durable_after(ZoneNo(zone), point).0
            }
            ZoneFate::Reset | ZoneFate::Full => true,
        });
        let mut covered = self.cache.unordered().filter(|part| point.covers(part.number));
        zones && covered.all(|part| !state.writes.contains_key(&self.written[&part.number].id))
    }

    /// Whether a state has a command in flight, or a part of it.
    fn is_executed(&self, id: u64, other: &InFlight, state: &State) -> bool {
        let Some(zone) = self.zone_of(other.command.sector) else { return false };
        let fate = state.zones.get(&zone);
        match (other.command.op, fate) {
            (Op::ZoneResetAll, _) => state.zones.values().any(|fate| *fate == ZoneFate::Reset),
            (Op::ZoneReset, _) => fate == Some(&ZoneFate::Reset),
            (Op::ZoneFinish, _) => fate == Some(&ZoneFate::Full),
            (Op::ZoneAppend, Some(ZoneFate::Data { appends, .. })) => {
                appends.iter().any(|append| append.id == id)
            }
            (Op::Write | Op::WriteZeroes, Some(ZoneFate::Data { kept, .. })) => {
                *kept > self.offset(other.command.sector)
            }
            _ => state.writes.get(&id).is_some_and(|fate| *fate != WriteFate::None),
        }
    }

    fn zone_effects(
        &self,
        zone: u32,
        fate: Option<&ZoneFate>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), String> {
        let model = &self.zones[zone as usize];
        let flight = self.zone_flight(zone);
        let (durable, end) = (model.durable, model.end());
        let mut blocks: Vec<u64> = model.tail.iter().copied().collect();
        match fate {
            None => {}
            Some(ZoneFate::Reset) if flight.reset => {
                effects.push(Effect::Reset { zone });
                return Ok(());
            }
            Some(ZoneFate::Full) if flight.finish => {}
            Some(ZoneFate::Reset | ZoneFate::Full) => {
                return Err(format!("zone {zone}: no such command is in flight then"));
            }
            Some(ZoneFate::Data { kept, appends }) => {
                blocks.extend(&flight.chain);
                let last = durable + blocks.len() as u64;
                if !(durable..=last).contains(kept) || (!appends.is_empty() && *kept != end) {
                    return Err(format!(
                        "zone {zone}: expected {durable} to {last} blocks, appends in flight after {end}"
                    ));
                }
                blocks.truncate(usize::try_from(kept - durable).expect("a tail"));
                for append in appends {
                    let found = flight.appends.iter().find(|(id, _)| *id == append.id);
                    let (_, found) = found.ok_or_else(|| {
                        format!("zone {zone}: append {} is not in flight then", append.id)
                    })?;
                    let all = append.blocks.unwrap_or(u64::MAX);
                    let all = usize::try_from(all).unwrap_or(usize::MAX);
                    blocks.extend(found.command.block_numbers().take(all));
                }
            }
        }
        if blocks.len() as u64 > model.capacity - durable.min(model.capacity) {
            return Err(format!(
                "zone {zone}: more than its capacity of {} blocks",
                model.capacity
            ));
        }
        if !blocks.is_empty() {
            effects.push(Effect::Write { lba: self.zone_start(zone) + durable, blocks });
        }
        if fate == Some(&ZoneFate::Full) {
            effects.push(Effect::Finish { zone });
        }
        Ok(())
    }
}

impl Drive {
    /// A state of this moment in words, by the changes that it lacks or has: a line for each change.
    pub fn describe(&self, state: &State) -> Vec<String> {
        let zone = |(&zone, fate): (&u32, &ZoneFate)| match fate {
            ZoneFate::Reset => format!("zone {zone}: its reset, in flight, was done"),
            ZoneFate::Full => format!("zone {zone}: its finish, in flight, was done"),
            ZoneFate::Data { kept, appends } => {
                let model = &self.zones[zone as usize];
                let (durable, end) = (model.durable, model.end());
                let mut text = format!("zone {zone}: {kept} blocks kept");
                if *kept > end {
                    text.push_str(&format!(", {} of them of writes in flight", kept - end));
                }
                for append in appends {
                    text.push_str(&format!(", then append {}", append.id));
                    if let Some(blocks) = append.blocks {
                        text.push_str(&format!(" (its first {blocks} blocks)"));
                    }
                }
                text + &format!("; {end} were written, {durable} of them durable")
            }
        };
        let write = |(&id, fate): (&u64, &WriteFate)| match self.in_flight.get(&id) {
            Some(other) => {
                let sector = other.command.sector;
                format!("write {id} at sector {sector}, in flight: {}", fate.words())
            }
            None => {
                let write = self.written.values().find(|write| write.id == id);
                let sector = write.map_or(0, |write| write.lba * self.lba_sectors);
                format!("write {id} at sector {sector}, not flushed: {}", fate.words())
            }
        };
        state.zones.iter().map(zone).chain(state.writes.iter().map(write)).collect()
    }
}

impl WriteFate {
    fn words(self) -> String {
        match self {
            WriteFate::None => "lost".to_owned(),
            WriteFate::All => "kept".to_owned(),
            WriteFate::First(blocks) => format!("its first {blocks} blocks kept"),
            WriteFate::Last(blocks) => format!("its last {blocks} blocks kept"),
        }
    }

    /// The blocks that are kept, of a write of `len` blocks from `lba` on.
    fn kept(self, lba: u64, len: u64) -> std::ops::Range<u64> {
        match self {
            WriteFate::None => lba..lba,
            WriteFate::All => lba..lba + len,
            WriteFate::First(blocks) => lba..lba + blocks.min(len),
            WriteFate::Last(blocks) => lba + len - blocks.min(len)..lba + len,
        }
    }
}

/// Where `len` blocks from `at` on may be torn in two: distances from `at`.
fn tears(at: u64, len: u64, unit: u64) -> Vec<u64> {
    let first = (at + 1).next_multiple_of(unit);
    let places = (at + len).saturating_sub(first).div_ceil(unit);
    let place = |number: u64| first + number * unit - at;
    match places {
        0..ALL_TORN => (0..places).map(place).collect(),
        _ => [0, (places - 1) / 2, places - 1].map(place).to_vec(),
    }
}

/// The ways in which a write of `len` blocks may be torn in two.
fn torn(len: u64, unit: u64) -> impl Iterator<Item = WriteFate> {
    let tears = tears(0, len, unit).into_iter();
    tears.flat_map(move |place| [WriteFate::First(place), WriteFate::Last(len - place)])
}

/// Orders in which some of the appends in flight may have landed, from block `end` of the zone on; the
/// last one also torn.
fn orders(appends: &[(u64, &InFlight)], end: u64, unit: u64, lba_sectors: u64) -> Vec<Vec<Append>> {
    let whole = |&(id, _): &(u64, &InFlight)| Append { id, blocks: None };
    let mut orders: Vec<Vec<Append>> = appends.iter().map(|append| vec![whole(append)]).collect();
    let mut from = 0;
    if appends.len() <= ALL_ORDERS {
        while from < orders.len() {
            let order = orders[from].clone();
            let more = appends.iter().filter(|(id, _)| order.iter().all(|append| append.id != *id));
            orders
                .extend(more.map(|append| order.iter().copied().chain([whole(append)]).collect()));
            from += 1;
        }
    } else {
        orders.push(appends.iter().map(whole).collect());
        orders.push(appends.iter().rev().map(whole).collect());
    }
    let len = |append: &Append| {
        let found = appends.iter().find(|(id, _)| *id == append.id);
        found.map_or(0, |(_, found)| u64::from(found.command.nr_sectors) / lba_sectors)
    };
    let tear = |order: &Vec<Append>| -> Vec<Vec<Append>> {
        let Some((last, before)) = order.split_last() else { return Vec::new() };
        let at = end + before.iter().map(len).sum::<u64>();
        let torn = |blocks| Append { blocks: Some(blocks), ..*last };
        let tears = tears(at, len(last), unit).into_iter();
        tears.map(|blocks| before.iter().copied().chain([torn(blocks)]).collect()).collect()
    };
    let torn: Vec<Vec<Append>> = orders.iter().flat_map(tear).collect();
    orders.extend(torn);
    orders
}
