//! Random histories of a small drive, as a log has them.
//!
//! Zone 0 is conventional, zones 1 and 2 are written in order, zone 3 is appended to. Up to two
//! commands are in flight in each zone, beside flushes and a reset of all zones. Commands in flight
//! never overlap in zone 0, whose order no drive defines; zone management waits for the zone's writes.
//! Half of the commands of a history go to one zone, and some have FUA and PREFLUSH more often, so that
//! what is rare is frequent in some histories.
use zonal_blk::{BioFlags, Limits, Op, Sector, Status, Zone, ZoneCondition, ZoneKind, ZoneNo};
use zonal_crash::log::{BlockRun, Command, Event, Header, ZoneStart};
use zonal_device::image::{ImageGeometry, Profile, Superblock};
use zonal_device::rng::Rng;

/// Blocks, of one sector, from one zone to the next; only so many of a sequential zone can be written.
pub const ZONE: u64 = 8;
pub const CAPACITY: u64 = 6;
pub const ZONES: usize = 4;
/// The number of a block that was there when the recording began.
pub const OLD: u64 = u64::MAX;

/// A command of a history.
#[derive(Clone, Debug)]
pub struct Issued {
    pub id: u64,
    pub command: Command,
    /// The numbers of the events of its start and, if the log has one, its end.
    pub started: u64,
    pub ended: Option<u64>,
    /// Whether it is executed when it completes.
    pub succeeds: bool,
    /// Where it wrote, from the start of its zone, once that has been determined: an append has no
    /// place before.
    pub place: Option<u64>,
}

impl Issued {
    pub fn zone(&self) -> usize {
        (self.command.sector.0 / ZONE) as usize
    }

    pub fn len(&self) -> u64 {
        u64::from(self.command.nr_sectors)
    }

    pub fn has(&self, flag: BioFlags) -> bool {
        self.command.flags.contains(flag)
    }

    pub fn writes(&self) -> bool {
        self.command.op.is_write() || self.command.op == Op::Discard
    }
}

pub struct History {
    pub header: Header,
    pub events: Vec<Event>,
    pub issued: Vec<Issued>,
    /// By zone: blocks that were there at the start, and whether the zone was full.
    pub start: Vec<(u64, bool)>,
}

pub fn header(start: &[(u64, bool)]) -> Header {
    let limits = Limits::zoned(ZONES as u32, Sector(ZONE));
    let mut zones: Vec<Zone> = limits.empty_zones(ZoneNo(0), ZONES).collect();
    zones[0].kind = ZoneKind::Conventional;
    zones[0].cond = ZoneCondition::NotWritePointer;
    zones[1..].iter_mut().for_each(|zone| zone.capacity = Sector(CAPACITY));
    let geometry = ImageGeometry::of(&limits, &zones).expect("a geometry");
    let superblock = Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned()));
    let not_empty = (0..).zip(start).filter(|(_, (written, full))| *written > 0 || *full);
    let not_empty = not_empty.map(|(zone, &(written, full))| ZoneStart { zone, full, written });
    let zones = not_empty.collect();
    Header { device: "test".to_owned(), superblock: superblock.expect("one"), zones }
}

/// Draws a history.
struct Draw {
    rng: Rng,
    events: Vec<Event>,
    issued: Vec<Issued>,
    /// Commands in flight.
    pending: Vec<usize>,
    /// The zone of half of the commands.
    favourite: usize,
    /// One command in so many has a flag.
    flagged: u64,
    /// By zone: where its next write goes, and whether it is full.
    wps: Vec<(u64, bool)>,
    next_block: u64,
}

pub fn history(seed: u64, len: usize) -> History {
    let mut rng = Rng::new(seed);
    let mut start = vec![(0, false)];
    start.extend((1..ZONES).map(|_| match rng.below(8) {
        0 => (CAPACITY, true),
        1 | 2 => (1 + rng.below(CAPACITY - 1), false),
        _ => (0, false),
    }));
    let (events, issued, pending) = Default::default();
    let (favourite, flagged) =
        (seed as usize % ZONES, if (seed / 4).is_multiple_of(2) { 6 } else { 2 });
    let wps = start.clone();
    let mut draw = Draw { rng, events, issued, pending, favourite, flagged, wps, next_block: 1 };
    while draw.events.len() < len {
        if draw.pending.len() >= 2 + draw.rng.below(4) as usize {
            let at = draw.rng.below(draw.pending.len() as u64) as usize;
            draw.end(at);
        } else {
            draw.start();
        }
    }
    // Commands whose ends are not in the log may have been executed or not. Whether one has is left
    // open only if nothing else has told it.
    while let Some(at) = draw.pending.iter().position(|&at| {
        let issued = &draw.issued[at];
        !issued.succeeds || (issued.command.op == Op::ZoneAppend && issued.place.is_some())
    }) {
        draw.end(at);
    }
    History { header: header(&start), events: draw.events, issued: draw.issued, start }
}

impl Draw {
    fn one_of(&mut self, of: u64) -> bool {
        self.rng.below(of) == 0
    }

    fn in_flight(&self, zone: usize) -> usize {
        let is_here = |issued: &Issued| match issued.command.op {
            Op::ZoneResetAll => zone > 0,
            Op::Flush | Op::Read => false,
            _ => issued.zone() == zone,
        };
        self.pending.iter().filter(|&&at| is_here(&self.issued[at])).count()
    }

    /// Whether zone management is in flight in a zone.
    fn is_managed(&self, zone: usize) -> bool {
        self.pending.iter().any(|&at| {
            let issued = &self.issued[at];
            let all = issued.command.op == Op::ZoneResetAll && zone > 0;
            all || (issued.zone() == zone && issued.command.op.is_zone_management())
        })
    }

    fn start(&mut self) {
        if self.one_of(2) {
            return match self.favourite {
                0 => self.write_anywhere(),
                zone => self.in_zone(zone),
            };
        }
        match self.rng.below(12) {
            0 | 1 => self.issue(Op::Flush, 0, 0),
            2 => self.issue(Op::Read, ZONE, 1),
            3 if (1..ZONES).all(|zone| self.in_flight(zone) == 0) => {
                self.issue(Op::ZoneResetAll, 0, 0);
            }
            4..6 => self.write_anywhere(),
            _ => {
                let zone = 1 + self.rng.below(ZONES as u64 - 1) as usize;
                self.in_zone(zone);
            }
        }
    }

    fn write_anywhere(&mut self) {
        let (at, len) = (self.rng.below(ZONE - 3), 1 + self.rng.below(3));
        let overlaps = |issued: &Issued| {
            let first = issued.command.sector.0;
            issued.writes() && first < at + len && at < first + issued.len()
        };
        if self.in_flight(0) < 2 && !self.pending.iter().any(|&p| overlaps(&self.issued[p])) {
            let op = match self.rng.below(6) {
                0 => Op::WriteZeroes,
                1 => Op::Discard,
                _ => Op::Write,
            };
            self.issue(op, at, len);
        }
    }

    fn in_zone(&mut self, zone: usize) {
        let (wp, full) = self.wps[zone];
        let (start, idle) = (zone as u64 * ZONE, self.in_flight(zone) == 0);
        // Appends in flight have no place yet, and take room.
        let is_append = |at: &&usize| self.issued[**at].place.is_none();
        let here = self.pending.iter().filter(|&&at| self.issued[at].zone() == zone);
        let unplaced =
            here.filter(is_append).filter(|&&at| self.issued[at].command.op == Op::ZoneAppend);
        let taken: u64 = unplaced.map(|&at| self.issued[at].len()).sum();
        let room = if full { 0 } else { CAPACITY - wp - taken };
        match self.rng.below(10) {
            0 if idle => self.issue(Op::ZoneReset, start, 0),
            1 if idle => self.issue(Op::ZoneFinish, start, 0),
            2 if idle && !full => self.issue(Op::ZoneOpen, start, 0),
            3 if idle => self.issue(Op::ZoneClose, start, 0),
            _ if room == 0 && idle => self.issue(Op::ZoneReset, start, 0),
            _ if room == 0 || self.in_flight(zone) >= 2 || self.is_managed(zone) => {}
            choice => {
                let len = (1 + self.rng.below(3)).min(room);
                match choice {
                    _ if zone == 3 => self.issue(Op::ZoneAppend, start, len),
                    4 => self.issue(Op::WriteZeroes, start + wp, len),
                    _ => self.issue(Op::Write, start + wp, len),
                }
            }
        }
    }

    fn issue(&mut self, op: Op, sector: u64, len: u64) {
        let mut flags = BioFlags::NONE;
        let writes = op.is_write() || op == Op::Discard;
        if writes && self.one_of(self.flagged) {
            flags = flags | BioFlags::FUA;
        }
        if op == Op::Read || self.one_of(self.flagged) {
            flags = flags | BioFlags::PREFLUSH;
        }
        let succeeds = !self.one_of(10);
        let zone = (sector / ZONE) as usize;
        let place = (writes && op != Op::ZoneAppend).then_some(sector % ZONE);
        let nr_sectors = u32::try_from(len).expect("short");
        let mut blocks = Vec::new();
        if matches!(op, Op::WriteZeroes | Op::Discard) {
            blocks.push(BlockRun { first: 0, len: nr_sectors });
        } else if writes {
            blocks.push(BlockRun { first: self.next_block, len: nr_sectors });
            self.next_block += len;
        }
        if place.is_some() && zone > 0 && succeeds {
            self.wps[zone].0 += len;
        }
        let command = Command { op, flags, sector: Sector(sector), nr_sectors, blocks };
        let id = self.issued.len() as u64;
        self.pending.push(self.issued.len());
        self.events.push(Event::Started { id, command: command.clone() });
        let started = self.events.len() as u64;
        self.issued.push(Issued { id, command, started, ended: None, succeeds, place });
    }

    /// The drive executes an append of zone 3.
    fn land(&mut self, at: usize) {
        let issued = &mut self.issued[at];
        if issued.command.op == Op::ZoneAppend && issued.place.is_none() && issued.succeeds {
            issued.place = Some(self.wps[3].0);
            self.wps[3].0 += issued.len();
        }
    }

    fn end(&mut self, pending: usize) {
        let at = self.pending.remove(pending);
        if self.issued[at].command.op == Op::ZoneAppend && self.one_of(2) {
            for other in self.pending.clone() {
                self.land(other);
            }
        }
        self.land(at);
        let issued = &mut self.issued[at];
        issued.ended = Some(self.events.len() as u64 + 1);
        let (zone, id) = (issued.zone(), issued.id);
        let landed = match (issued.command.op, issued.place) {
            (Op::ZoneAppend, Some(place)) => Sector(3 * ZONE + place),
            _ => issued.command.sector,
        };
        let status = if issued.succeeds { Status::Ok } else { Status::Timeout };
        if issued.succeeds {
            match issued.command.op {
                Op::ZoneReset => self.wps[zone] = (0, false),
                Op::ZoneFinish => self.wps[zone].1 = true,
                Op::ZoneResetAll => self.wps[1..].fill((0, false)),
                _ => {}
            }
        }
        self.events.push(Event::Ended { id, status, landed });
    }
}
