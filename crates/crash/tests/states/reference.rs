//! What a loss of power may leave, from the text of the specifications: each rule is looked up in the
//! whole history, and nothing is kept from one moment to the next.
//!
//! - NVM command set, *Flush* and the volatile write cache: what had completed when a flush was
//!   submitted is on the medium when the flush completes. PREFLUSH is such a flush, done before the
//!   command that has it.
//! - *FUA*: the write is on the medium when it completes.
//! - *AWUPF*: a write may be torn at multiples of what is written atomically.
//! - ZNS, write pointers: a sequential zone has no holes. What a write wrote is there only with all
//!   that is before it, so a write at the write pointer tells that those before it were executed.
//! - ZNS, reset and finish: done when they have completed. A zone that was finished takes no more
//!   writes and has lost none.
use crate::history::{CAPACITY, History, Issued, OLD, ZONE, ZONES};
use std::collections::BTreeSet;
use zonal_blk::{BioFlags, Op};

/// A sequential zone: its blocks, and whether it is full.
pub type ZoneContent = (Vec<u64>, bool);

/// What a drive holds: blocks of the conventional zone that were written, and the other zones.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content {
    pub anywhere: [Option<u64>; ZONE as usize],
    pub zones: Vec<ZoneContent>,
}

/// A possible fate of a zone or of a write, and what it tells of the others.
#[derive(Clone, Debug)]
struct Fate<T> {
    content: T,
    /// Commands that had not completed and were executed, at least in part.
    executed: Vec<u64>,
    /// Writes that had completed and are not there as a whole.
    lost: Vec<u64>,
}

/// The moment after event `cut`.
pub struct Moment<'a> {
    history: &'a History,
    cut: u64,
    /// Blocks that are written atomically.
    unit: u64,
    /// Whether a write is on the medium when it completes.
    write_through: bool,
}

impl<'a> Moment<'a> {
    pub fn new(history: &'a History, cut: u64, unit: u64, write_through: bool) -> Self {
        Moment { history, cut, unit, write_through }
    }

    /// Commands that may have been executed.
    fn issued(&self) -> impl Iterator<Item = &'a Issued> {
        let failed = |issued: &Issued| issued.ended.is_some() && !issued.succeeds;
        let cut = self.cut;
        self.history.issued.iter().filter(move |issued| issued.started <= cut && !failed(issued))
    }

    fn end_of(&self, issued: &Issued) -> Option<u64> {
        issued.ended.filter(|&ended| ended <= self.cut)
    }

    /// The commands of a sequential zone since its last reset.
    fn since_reset(&self, zone: usize) -> (Option<u64>, Vec<&'a Issued>) {
        let is_reset = |issued: &&Issued| match issued.command.op {
            Op::ZoneResetAll => true,
            op => op == Op::ZoneReset && issued.zone() == zone,
        };
        let reset = self.issued().filter(is_reset).filter_map(|issued| self.end_of(issued)).max();
        let here = |issued: &&Issued| {
            issued.zone() == zone && !matches!(issued.command.op, Op::Flush | Op::Read)
        };
        let since = self.issued().filter(|issued| here(issued) || is_reset(issued));
        (reset, since.filter(|issued| reset.is_none_or(|reset| issued.started > reset)).collect())
    }

    /// Where the completed writes of a sequential zone end.
    fn completed_end(&self, zone: usize) -> u64 {
        let (reset, since) = self.since_reset(zone);
        let start = if reset.is_none() { self.history.start[zone].0 } else { 0 };
        let completed = since.iter().filter(|issued| self.end_of(issued).is_some());
        let end = |issued: &&&Issued| {
            issued.place.filter(|_| issued.writes()).map(|at| at + issued.len())
        };
        completed.filter_map(|issued| end(&issued)).fold(start, u64::max)
    }

    /// Whether a command was executed, as it has completed or a write behind it in its zone has.
    fn was_executed(&self, issued: &Issued) -> bool {
        let is_behind = || {
            let zone = issued.zone();
            let now = self.since_reset(zone).1.iter().any(|other| other.id == issued.id);
            zone > 0 && now && issued.place.is_some_and(|at| at < self.completed_end(zone))
        };
        self.end_of(issued).is_some() || (issued.writes() && is_behind())
    }

    fn is_durable(&self, write: &Issued) -> bool {
        let Some(ended) = self.end_of(write) else { return false };
        let flushes = |other: &Issued| match other.command.op {
            Op::Flush => self.end_of(other).is_some(),
            _ => other.has(BioFlags::PREFLUSH) && self.was_executed(other),
        };
        let flushed = self.issued().any(|other| other.started > ended && flushes(other));
        flushed || write.has(BioFlags::FUA) || self.write_through
    }

    fn zone_fates(&self, zone: usize) -> Vec<Fate<ZoneContent>> {
        let (reset, since) = self.since_reset(zone);
        let (old, was_full) = if reset.is_none() { self.history.start[zone] } else { (0, false) };
        let writes = || since.iter().filter(|issued| issued.writes());
        let place = |write: &Issued| write.place.expect("it was executed");
        let mut blocks = vec![OLD; old as usize];
        let put = |blocks: &mut Vec<u64>, write: &Issued, at: u64, count: u64| {
            blocks.resize(blocks.len().max((at + count) as usize), 0);
            for (at, block) in (at..at + count).zip(write.command.block_numbers()) {
                blocks[at as usize] = block;
            }
        };
        for write in writes().filter(|write| self.was_executed(write)) {
            put(&mut blocks, write, place(write), write.len());
        }
        let end = blocks.len() as u64;
        let finishes = || since.iter().filter(|issued| issued.command.op == Op::ZoneFinish);
        if was_full || finishes().any(|finish| self.end_of(finish).is_some()) {
            let mut fates = vec![Fate { content: (blocks, true), executed: vec![], lost: vec![] }];
            fates.extend(self.emptied(zone, &since));
            return fates;
        }
        let durable = writes().filter(|write| self.is_durable(write));
        let durable = durable.map(|write| place(write) + write.len()).fold(old, u64::max);
        let waiting = || writes().filter(|write| !self.was_executed(write));
        // Writes in flight, each at the end of the one before it.
        let mut last = blocks.clone();
        let mut ends = BTreeSet::from([durable, end]);
        ends.extend(writes().filter_map(|write| write.place.map(|at| at + write.len())));
        for write in waiting() {
            if write.command.op != Op::ZoneAppend && write.place == Some(last.len() as u64) {
                put(&mut last, write, place(write), write.len());
                ends.insert(last.len() as u64);
            }
        }
        ends.extend((0..=CAPACITY).filter(|at| at.is_multiple_of(self.unit)));
        let mut fates = Vec::new();
        for at in ends.into_iter().filter(|&at| at >= durable && at <= last.len() as u64) {
            let reached =
                waiting().filter(|write| write.command.op != Op::ZoneAppend && place(write) < at);
            let lost = writes().filter(|write| self.end_of(write).is_some());
            fates.push(Fate {
                content: (last[..at as usize].to_vec(), false),
                executed: reached.map(|write| write.id).collect(),
                lost: lost
                    .filter(|lost| place(lost) + lost.len() > at)
                    .map(|lost| lost.id)
                    .collect(),
            });
        }
        fates.extend(self.append_fates(&blocks, &since));
        if let Some(finish) = finishes().next() {
            fates.push(Fate { content: (blocks, true), executed: vec![finish.id], lost: vec![] });
        }
        fates.extend(self.emptied(zone, &since));
        for fate in &mut fates {
            fate.content.1 |= fate.content.0.len() as u64 == CAPACITY;
        }
        fates
    }

    /// A sequential zone after appends in flight, behind its blocks.
    fn append_fates(&self, blocks: &[u64], since: &[&'a Issued]) -> Vec<Fate<ZoneContent>> {
        let is_waiting =
            |issued: &&&Issued| issued.command.op == Op::ZoneAppend && !self.was_executed(issued);
        let appends: Vec<&Issued> = since.iter().filter(is_waiting).copied().collect();
        let mut fates = Vec::new();
        for (order, counts) in orders(&appends) {
            let mut content = blocks.to_vec();
            for (append, &count) in order.iter().zip(&counts) {
                content.extend(append.command.block_numbers().take(count as usize));
            }
            let (last, count) = (order[order.len() - 1], counts[counts.len() - 1]);
            let end = content.len() as u64;
            if end <= CAPACITY && (count == last.len() || end.is_multiple_of(self.unit)) {
                let executed = order.iter().map(|append| append.id).collect();
                fates.push(Fate { content: (content, false), executed, lost: vec![] });
            }
        }
        fates
    }

    /// The zone as a reset in flight leaves it.
    fn emptied(&self, zone: usize, since: &[&Issued]) -> Option<Fate<ZoneContent>> {
        let is_reset = |issued: &&&Issued| match issued.command.op {
            Op::ZoneResetAll => true,
            op => op == Op::ZoneReset && issued.zone() == zone,
        };
        let reset = since.iter().find(is_reset)?;
        Some(Fate { content: (vec![], false), executed: vec![reset.id], lost: vec![] })
    }

    /// The blocks of a write to the conventional zone that may be there: ranges within it.
    fn write_fates(&self, write: &Issued) -> Vec<Fate<std::ops::Range<u64>>> {
        let (len, over) = (write.len(), self.end_of(write).is_some());
        let mut kept: Vec<_> = std::iter::once(0..len).collect();
        if !self.is_durable(write) {
            kept.push(0..0);
            for at in (1..len).filter(|at| at.is_multiple_of(self.unit)) {
                kept.extend([0..at, at..len]);
            }
        }
        let fate = |kept: std::ops::Range<u64>| Fate {
            executed: if over || kept.is_empty() { vec![] } else { vec![write.id] },
            lost: if over && kept != (0..len) { vec![write.id] } else { vec![] },
            content: kept,
        };
        kept.into_iter().map(fate).collect()
    }

    /// Whether the fates go together: what a command with PREFLUSH flushed is there if that command
    /// was executed.
    fn go_together(&self, executed: &[u64], lost: &[u64]) -> bool {
        let of = |id: u64| &self.history.issued[id as usize];
        let breaks = |flush: u64, lost: u64| {
            of(flush).has(BioFlags::PREFLUSH)
                && self.end_of(of(lost)).is_some_and(|ended| ended < of(flush).started)
        };
        !executed.iter().any(|&flush| lost.iter().any(|&lost| breaks(flush, lost)))
    }

    /// All that the drive may hold; `None` if that is more than `most`.
    pub fn contents(&self, most: usize) -> Option<BTreeSet<Content>> {
        let mut writes: Vec<_> =
            self.issued().filter(|issued| issued.zone() == 0 && issued.writes()).collect();
        // Those in flight come last.
        writes.sort_by_key(|write| (self.end_of(write).unwrap_or(u64::MAX), write.id));
        let writes: Vec<_> = writes.iter().map(|write| (write, self.write_fates(write))).collect();
        let zones: Vec<_> = (1..ZONES).map(|zone| self.zone_fates(zone)).collect();
        let counts = writes.iter().map(|(_, fates)| fates.len()).chain(zones.iter().map(Vec::len));
        counts
            .into_iter()
            .try_fold(1, |all: usize, count| all.checked_mul(count).filter(|&all| all <= most))?;
        let mut all = vec![(Content::default(), Vec::new(), Vec::new())];
        for (write, fates) in &writes {
            all = crossed(&all, fates, |content, kept| {
                let first = write.command.sector.0;
                for (at, block) in (0..).zip(write.command.block_numbers()) {
                    if kept.contains(&at) {
                        content.anywhere[(first + at) as usize] = Some(block);
                    }
                }
            });
        }
        for fates in &zones {
            all = crossed(&all, fates, |content, zone| content.zones.push(zone.clone()));
        }
        all.retain(|(_, executed, lost)| self.go_together(executed, lost));
        Some(all.into_iter().map(|(content, ..)| content).collect())
    }
}

type Joint = (Content, Vec<u64>, Vec<u64>);

/// Each of `all` with each of the fates.
fn crossed<T>(all: &[Joint], fates: &[Fate<T>], apply: impl Fn(&mut Content, &T)) -> Vec<Joint> {
    let mut crossed = Vec::new();
    for (content, executed, lost) in all {
        for fate in fates {
            let mut content = content.clone();
            apply(&mut content, &fate.content);
            let executed = executed.iter().chain(&fate.executed).copied().collect();
            crossed.push((content, executed, lost.iter().chain(&fate.lost).copied().collect()));
        }
    }
    crossed
}

/// All orders of one or two appends, with how many blocks of each are there: of the last, any number.
fn orders<'a>(appends: &[&'a Issued]) -> Vec<(Vec<&'a Issued>, Vec<u64>)> {
    let mut orders = Vec::new();
    for &append in appends {
        orders.extend((1..=append.len()).map(|count| (vec![append], vec![count])));
        for &other in appends.iter().filter(|other| other.id != append.id) {
            let both = |count| (vec![append, other], vec![append.len(), count]);
            orders.extend((1..=other.len()).map(both));
        }
    }
    orders
}
