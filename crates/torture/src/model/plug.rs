//! What the layer knows of each zone, and which write has its turn.
use super::super::config::Policy;
use super::bios::Part;
use super::{CheckResult, Model, Violation, require};
use std::collections::VecDeque;
use zonal_blk::sched::Prio;
use zonal_blk::{BioFlags, Op, Sector, Status, Zone, ZoneCondition, ZoneKind};

/// What the layer knows of a write pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownWp {
    Conventional,
    At(u64),
    /// A write failed, and the device has yet to be asked.
    Unknown,
    /// Native appends moved it.
    Appended,
    ReadOnly,
    Offline,
}

/// An accepted write: a bio, part of one, or several that were submitted together.
pub(super) struct Write {
    pub(super) op: Op,
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) flags: BioFlags,
    pub(super) prio: Prio,
    pub(super) parts: Vec<Part>,
}

pub(super) struct Plug {
    pub(super) known: KnownWp,
    start: u64,
    pub(super) capacity: u64,
    waiting: VecDeque<Write>,
    /// The write whose turn it is, until the device is done with it.
    pub(super) turn: Option<Write>,
    /// ... and whether it reached the device.
    pub(super) started: bool,
    pub(super) managing: u32,
    pub(super) appending: u32,
    /// The layer cannot know where the write pointer is: somebody moved it past the layer, or a
    /// reset and a write were on their way together.
    pub(super) wp_uncertain: bool,
    alive: bool,
}

impl Plug {
    pub(super) fn is_idle(&self) -> bool {
        self.turn.is_none() && self.waiting.is_empty() && self.has_no_management()
    }

    fn has_no_management(&self) -> bool {
        self.managing == 0 && self.appending == 0
    }

    fn sync(&mut self, report: Option<&Zone>) {
        let Some(zone) = report else {
            self.known = KnownWp::Unknown;
            return;
        };
        self.wp_uncertain = false;
        self.known = match (zone.kind, zone.cond) {
            (ZoneKind::Conventional, _) => KnownWp::Conventional,
            (_, ZoneCondition::ReadOnly) => KnownWp::ReadOnly,
            (_, ZoneCondition::Offline) => KnownWp::Offline,
            (_, ZoneCondition::Full) => KnownWp::At(zone.capacity.0),
            _ => KnownWp::At((zone.wp - zone.start).0),
        };
    }

    fn lives(&self) -> bool {
        let partial = match self.known {
            KnownWp::At(at) => at > 0 && at < self.capacity,
            KnownWp::Unknown => true,
            _ => false,
        };
        partial || self.turn.is_some() || !self.waiting.is_empty()
    }
}

#[derive(Default)]
pub(super) struct Plugs {
    pub(super) zones: Vec<Plug>,
    pub(super) alive: u32,
    /// QD=1: the zone that has the disk, and those that want it.
    qd1_owner: Option<usize>,
    qd1_waiters: VecDeque<usize>,
}

impl Plugs {
    pub(super) fn new(zones: &[Zone]) -> Self {
        let plug = |zone: &Zone| {
            let mut plug = Plug {
                known: KnownWp::Unknown,
                start: zone.start.0,
                capacity: zone.capacity.0,
                waiting: VecDeque::new(),
                turn: None,
                started: false,
                managing: 0,
                appending: 0,
                wp_uncertain: false,
                alive: false,
            };
            plug.sync(Some(zone));
            plug
        };
        let mut plugs = Plugs { zones: zones.iter().map(plug).collect(), ..Plugs::default() };
        (0..zones.len()).for_each(|zone| plugs.settle(zone));
        plugs
    }

    pub(super) fn write_pointer(&self, zone: usize) -> Option<u64> {
        match self.zones.get(zone)?.known {
            KnownWp::At(at) => Some(at),
            _ => None,
        }
    }

    pub(super) fn mark_wp_uncertain(&mut self, zone: usize) {
        self.zones[zone].wp_uncertain = true;
    }

    /// Whether a report on request tells the plug something.
    pub(super) fn wants_report(&self, zone: usize) -> bool {
        let plug = &self.zones[zone];
        plug.known == KnownWp::Unknown && plug.is_idle()
    }

    /// Whether a question about the zone makes the layer ask the device.
    pub(super) fn is_stale(&self, zone: usize) -> bool {
        let plug = &self.zones[zone];
        matches!(plug.known, KnownWp::Unknown | KnownWp::Appended) && plug.is_idle()
    }

    pub(super) fn sync(&mut self, zone: usize, report: Option<&Zone>) {
        self.zones[zone].sync(report);
        self.settle(zone);
    }

    fn settle(&mut self, zone: usize) {
        let plug = &mut self.zones[zone];
        let lives = plug.lives();
        self.alive = self.alive + u32::from(lives) - u32::from(plug.alive);
        plug.alive = lives;
    }
}

impl Model {
    pub(super) fn is_conventional(&self, zone: usize) -> bool {
        self.plugs.zones[zone].known == KnownWp::Conventional
    }

    /// A reset or finish goes down.
    pub(super) fn begin_management(&mut self, zone: usize) {
        let plug = &mut self.plugs.zones[zone];
        plug.wp_uncertain |= !plug.is_idle();
        plug.managing += 1;
    }

    /// ... and has ended.
    pub(super) fn end_management(
        &mut self,
        zone: usize,
        (op, status, faulty): (Op, Status, bool),
    ) -> CheckResult {
        let one = op != Op::ZoneResetAll;
        let plug = &mut self.plugs.zones[zone];
        plug.managing -= 1;
        plug.wp_uncertain |= faulty;
        let moves = one
            || !matches!(plug.known, KnownWp::Conventional | KnownWp::ReadOnly | KnownWp::Offline);
        if status == Status::Ok && moves {
            self.abort(zone, Status::IoError)?;
            let plug = &mut self.plugs.zones[zone];
            let wp = if op == Op::ZoneFinish { plug.capacity } else { 0 };
            plug.known = if plug.appending > 0 { KnownWp::Appended } else { KnownWp::At(wp) };
            if plug.is_idle() && self.device.write_pointer(zone) == wp {
                self.plugs.zones[zone].wp_uncertain = false;
            }
        }
        self.plugs.settle(zone);
        Ok(())
    }

    /// A native append goes past the plug.
    pub(super) fn begin_append(&mut self, zone: usize) -> CheckResult {
        let plug = &mut self.plugs.zones[zone];
        plug.wp_uncertain |= plug.turn.is_some() || plug.managing > 0;
        plug.appending += 1;
        self.abort(zone, Status::IoError)?;
        self.plugs.zones[zone].known = KnownWp::Appended;
        self.plugs.settle(zone);
        Ok(())
    }

    pub(super) fn end_append(&mut self, zone: usize) {
        self.plugs.zones[zone].appending -= 1;
        self.plugs.settle(zone);
    }

    /// A write enters the plug; `at` is from the zone's start, and means nothing for an append.
    pub(super) fn write(&mut self, zone: usize, mut write: Write) -> CheckResult {
        let append = write.op == Op::ZoneAppend;
        let plug = &self.plugs.zones[zone];
        let fits = |known| matches!(known, KnownWp::At(at) if append || at == write.at);
        let may_ask = !self.lazy_recovery || plug.known == KnownWp::Appended;
        // A write at the pointer that is too long is refused without a question.
        if !fits(plug.known) && plug.is_idle() && may_ask {
            let report = self.ask(zone)?;
            self.plugs.sync(zone, report.as_ref());
        }
        let plug = &self.plugs.zones[zone];
        let wp = match plug.known {
            KnownWp::At(wp) if fits(plug.known) && plug.managing == 0 => Some(wp),
            _ => None,
        };
        let wp = wp.filter(|wp| wp + u64::from(write.len) <= plug.capacity);
        let Some(wp) = wp else {
            let offline = plug.known == KnownWp::Offline;
            let status = if offline { Status::Offline } else { Status::IoError };
            return self.refuse(zone, write, status);
        };
        self.plugs.zones[zone].known = KnownWp::At(wp + u64::from(write.len));
        write.at = wp;
        if append {
            write.op = Op::Write;
            write.flags = write.flags | BioFlags::NOMERGE;
            let landed = Sector(self.plugs.zones[zone].start + wp);
            self.bios.landed(write.parts[0].bio, landed);
            write.parts[0].sector = landed;
            write.parts[0].flags = write.flags;
        }
        self.plugs.zones[zone].waiting.push_back(write);
        if self.policy != Policy::Qd1 {
            if self.plugs.zones[zone].turn.is_none() {
                self.next_turn(zone);
            }
        } else if self.plugs.qd1_owner.is_none() {
            self.plugs.qd1_owner = Some(zone);
            self.next_turn(zone);
        } else if self.plugs.qd1_owner != Some(zone) && !self.plugs.qd1_waiters.contains(&zone) {
            self.plugs.qd1_waiters.push_back(zone);
        }
        self.plugs.settle(zone);
        Ok(())
    }

    /// What cannot be done together may be done in part.
    fn refuse(&mut self, zone: usize, write: Write, status: Status) -> CheckResult {
        if write.parts.len() == 1 {
            return self.part_ended(&write.parts[0], status);
        }
        let mut at = write.at;
        for part in write.parts {
            let len = part.nr_sectors;
            self.write(zone, Write { at, len, parts: vec![part], ..write })?;
            at += u64::from(len);
        }
        Ok(())
    }

    /// The first waiting write has its turn, with those behind it that can go along. Whether there
    /// was one.
    fn next_turn(&mut self, zone: usize) -> bool {
        let longest = if self.merge { self.limits.max_sectors } else { 0 };
        let plug = &mut self.plugs.zones[zone];
        plug.started = false;
        plug.turn = plug.waiting.pop_front();
        let Some(turn) = &mut plug.turn else { return false };
        while let Some(next) = plug.waiting.front()
            && turn.op == Op::Write
            && next.op == Op::Write
            && next.parts.len() == 1
            && next.flags == turn.flags
            && next.prio == turn.prio
            && !turn.flags.contains(BioFlags::NOMERGE)
            && turn.len + next.len <= longest
            && let Some(next) = plug.waiting.pop_front()
        {
            turn.len += next.len;
            turn.parts.extend(next.parts);
        }
        true
    }

    /// What waits can no longer be done.
    fn abort(&mut self, zone: usize, status: Status) -> CheckResult {
        for write in std::mem::take(&mut self.plugs.zones[zone].waiting) {
            for part in &write.parts {
                self.part_ended(part, status)?;
            }
        }
        self.plugs.qd1_waiters.retain(|&waiting| waiting != zone);
        Ok(())
    }

    /// The write whose turn it was has ended.
    pub(super) fn end_turn(&mut self, zone: usize, status: Status) -> CheckResult {
        if status != Status::Ok {
            let still = self.plugs.zones[zone].has_no_management();
            let asks = still && !self.lazy_recovery;
            let report = if asks { self.ask(zone)? } else { None };
            let offline = report.is_some_and(|zone| zone.cond == ZoneCondition::Offline);
            self.abort(zone, if offline { Status::Offline } else { Status::IoError })?;
            self.plugs.zones[zone].sync(report.as_ref());
        }
        let more = self.next_turn(zone);
        self.plugs.settle(zone);
        if !more && self.policy == Policy::Qd1 {
            let next = self.plugs.qd1_waiters.pop_front();
            self.plugs.qd1_owner = next;
            if let Some(next) = next {
                require!(self.next_turn(next), "zone {next} stands in line without a write");
                self.plugs.settle(next);
            }
        }
        Ok(())
    }

    /// A write to a sequential zone reached the device: it is the one whose turn it is.
    pub(super) fn check_turn(
        &mut self,
        zone: usize,
        command: &super::device::Command,
    ) -> CheckResult {
        let plug = &mut self.plugs.zones[zone];
        let Some(turn) = &plug.turn else {
            return Err(format!(
                "zone {zone}: the device got a write at {} that is nobody's turn",
                command.sector
            ));
        };
        require!(!plug.started, "zone {zone}: two writes are in flight");
        plug.started = true;
        let place = Sector(plug.start + turn.at);
        require!(
            command.sector == place && command.op == turn.op,
            "zone {zone}: {:?} at {} reached the device, it is the turn of {:?} at {place}",
            command.op,
            command.sector,
            turn.op
        );
        require!(
            command.parts == turn.parts,
            "zone {zone}: the device got bios {:?}, it is the turn of {:?}",
            numbers(&command.parts),
            numbers(&turn.parts)
        );
        Ok(())
    }

    pub(super) fn part_ended(&mut self, part: &Part, status: Status) -> Result<(), Violation> {
        if let Some(channel) = self.bios.part_ended(part.bio, status)? {
            self.channels[channel].ready += 1;
        }
        Ok(())
    }
}

fn numbers(parts: &[Part]) -> Vec<u32> {
    parts.iter().map(|part| part.bio).collect()
}
