//! A model of the layer's state for each zone, with the write in flight.
use super::bios::Part;
use super::{CheckResult, Model, Violation, mergeable, require};
use crate::config::Policy;
use std::collections::VecDeque;
use zonal_blk::{BioFlags, Op, Sector, Status, Zone, ZoneCondition, ZoneKind};

/// A write pointer as the layer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownWp {
    Conventional,
    At(u64),
    /// A write failed, and the zone has not been reported since.
    Unknown,
    /// Native appends moved it.
    Appended,
    ReadOnly,
    Offline,
}

/// An accepted write: a bio, part of one, or several of a batch.
pub(super) struct Write {
    pub(super) op: Op,
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) flags: BioFlags,
    pub(super) parts: Vec<Part>,
}

pub(super) struct Plug {
    pub(super) known: KnownWp,
    start: u64,
    pub(super) capacity: u64,
    waiting: VecDeque<Write>,
    /// The write that the plug has issued, until it completes.
    pub(super) in_flight: Option<Write>,
    /// Whether that write has reached the device.
    pub(super) started: bool,
    pub(super) managing: u32,
    pub(super) appending: u32,
    /// The layer cannot know the write pointer: it was moved without the layer, or a reset and a
    /// write were in flight together.
    pub(super) wp_uncertain: bool,
    alive: bool,
}

impl Plug {
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && self.waiting.is_empty() && self.has_no_management()
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
        partial || self.in_flight.is_some() || !self.waiting.is_empty()
    }
}

#[derive(Default)]
pub(super) struct Plugs {
    pub(super) zones: Vec<Plug>,
    pub(super) alive: u32,
    /// QD=1: the zone whose write is in flight, and those that wait.
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
                in_flight: None,
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

    /// Whether the plug uses a report that a user requests.
    pub(super) fn wants_report(&self, zone: usize) -> bool {
        let plug = &self.zones[zone];
        let closed = matches!(plug.known, KnownWp::ReadOnly | KnownWp::Offline);
        (plug.known == KnownWp::Unknown || closed) && plug.is_idle()
    }

    /// Whether the layer requests a report when it is asked for the zone.
    pub(super) fn is_stale(&self, zone: usize) -> bool {
        let plug = &self.zones[zone];
        matches!(plug.known, KnownWp::Unknown | KnownWp::Appended) && plug.is_idle()
    }

    pub(super) fn sync(&mut self, zone: usize, report: Option<&Zone>) {
        self.zones[zone].sync(report);
        self.settle(zone);
    }

    /// The device has lost the zones from `count` on.
    pub(super) fn truncate(&mut self, count: usize) {
        for zone in count..self.zones.len() {
            let plug = &mut self.zones[zone];
            (plug.known, plug.wp_uncertain) = (KnownWp::At(0), false);
            self.settle(zone);
        }
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

    /// A reset or finish is sent to the device.
    pub(super) fn begin_management(&mut self, zone: usize) {
        let plug = &mut self.plugs.zones[zone];
        plug.wp_uncertain |= !plug.is_idle();
        plug.managing += 1;
    }

    /// A reset or finish completed.
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

    /// A native append is sent to the device, around the plug.
    pub(super) fn begin_append(&mut self, zone: usize) -> CheckResult {
        let plug = &mut self.plugs.zones[zone];
        plug.wp_uncertain |= plug.in_flight.is_some() || plug.managing > 0;
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

    /// A write enters the plug. `at` is relative to the zone's start, and ignored for an append.
    pub(super) fn write(&mut self, zone: usize, mut write: Write) -> CheckResult {
        let append = write.op == Op::ZoneAppend;
        let plug = &self.plugs.zones[zone];
        let fits = |known| matches!(known, KnownWp::At(at) if append || at == write.at);
        let may_report = !self.lazy_recovery || plug.known == KnownWp::Appended;
        // A write at the write pointer that is too long is rejected without a report.
        if !fits(plug.known) && plug.is_idle() && may_report {
            let report = self.expect_report(zone)?;
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
            return self.reject(zone, write, status);
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
            if self.plugs.zones[zone].in_flight.is_none() {
                self.issue_next(zone);
            }
        } else if self.plugs.qd1_owner.is_none() {
            self.plugs.qd1_owner = Some(zone);
            self.issue_next(zone);
        } else if self.plugs.qd1_owner != Some(zone) && !self.plugs.qd1_waiters.contains(&zone) {
            self.plugs.qd1_waiters.push_back(zone);
        }
        self.plugs.settle(zone);
        Ok(())
    }

    /// Rejects a write; the bios of a batch are tried one by one.
    fn reject(&mut self, zone: usize, write: Write, status: Status) -> CheckResult {
        if write.parts.len() == 1 {
            return self.part_completed(&write.parts[0], status);
        }
        let mut at = write.at;
        for part in write.parts {
            let len = part.nr_sectors;
            self.write(zone, Write { at, len, parts: vec![part], ..write })?;
            at += u64::from(len);
        }
        Ok(())
    }

    /// Issues the first waiting write, merged with those after it if possible. Returns whether there
    /// was one.
    fn issue_next(&mut self, zone: usize) -> bool {
        let longest = if self.merge { self.limits.max_sectors } else { 0 };
        let plug = &mut self.plugs.zones[zone];
        plug.started = false;
        plug.in_flight = plug.waiting.pop_front();
        let Some(write) = &mut plug.in_flight else { return false };
        while let Some(next) = plug.waiting.front()
            && write.op == Op::Write
            && next.op == Op::Write
            && next.parts.len() == 1
            && next.parts[0].goes_with(&write.parts[0])
            && mergeable(write.flags)
            && write.len + next.len <= longest
            && let Some(next) = plug.waiting.pop_front()
        {
            write.len += next.len;
            write.parts.extend(next.parts);
        }
        true
    }

    /// Fails all waiting writes.
    fn abort(&mut self, zone: usize, status: Status) -> CheckResult {
        for write in std::mem::take(&mut self.plugs.zones[zone].waiting) {
            for part in &write.parts {
                self.part_completed(part, status)?;
            }
        }
        self.plugs.qd1_waiters.retain(|&waiting| waiting != zone);
        Ok(())
    }

    /// The write in flight completed.
    pub(super) fn complete_in_flight(&mut self, zone: usize, status: Status) -> CheckResult {
        if status != Status::Ok {
            let unmanaged = self.plugs.zones[zone].has_no_management();
            let reports = unmanaged && !self.lazy_recovery;
            let report = if reports { self.expect_report(zone)? } else { None };
            #[cfg(torture)]
            if reports && self.is_frozen() {
                zonal_blk::probe::reach(zonal_blk::probe::Mark::RecoveredWhileFrozen);
            }
            let offline = report.is_some_and(|zone| zone.cond == ZoneCondition::Offline);
            self.abort(zone, if offline { Status::Offline } else { Status::IoError })?;
            self.plugs.zones[zone].sync(report.as_ref());
        }
        let more = self.issue_next(zone);
        self.plugs.settle(zone);
        if !more && self.policy == Policy::Qd1 {
            let next = self.plugs.qd1_waiters.pop_front();
            self.plugs.qd1_owner = next;
            if let Some(next) = next {
                require!(self.issue_next(next), "zone {next} waits for the device without a write");
                self.plugs.settle(next);
            }
        }
        Ok(())
    }

    /// Checks that a write at the device is the one that its plug issued.
    pub(super) fn check_in_flight(
        &mut self,
        zone: usize,
        command: &super::device::Command,
    ) -> CheckResult {
        let plug = &mut self.plugs.zones[zone];
        let Some(write) = &plug.in_flight else {
            return Err(format!(
                "zone {zone}: the device got a write at {} that its plug did not issue",
                command.sector
            ));
        };
        require!(!plug.started, "zone {zone}: two writes are in flight");
        plug.started = true;
        let expected = Sector(plug.start + write.at);
        require!(
            command.sector == expected && command.op == write.op,
            "zone {zone}: {:?} at {} reached the device, the plug issued {:?} at {expected}",
            command.op,
            command.sector,
            write.op
        );
        require!(
            command.parts == write.parts,
            "zone {zone}: the device got bios {:?}, the plug issued {:?}",
            numbers(&command.parts),
            numbers(&write.parts)
        );
        Ok(())
    }

    pub(super) fn part_completed(&mut self, part: &Part, status: Status) -> Result<(), Violation> {
        if let Some(channel) = self.bios.part_completed(part.bio, status)? {
            self.channels[channel].ready += 1;
        }
        Ok(())
    }
}

fn numbers(parts: &[Part]) -> Vec<u32> {
    parts.iter().map(|part| part.bio).collect()
}
