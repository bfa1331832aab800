//! The commands at the device, and whether the layer may send them.
use super::bios::Part;
use super::{CheckResult, Model, require};
use crate::config::Policy;
use zonal_blk::{BioFlags, Limits, Op, Sector, Status, Tag, Zone, ZoneCondition, ZoneKind};

/// A command at the device.
pub(super) struct Command {
    pub(super) op: Op,
    pub(super) flags: BioFlags,
    pub(super) zone: usize,
    pub(super) sector: Sector,
    pub(super) nr_sectors: u32,
    pub(super) parts: Vec<Part>,
    /// Whether it went through its zone's plug.
    pub(super) plugged: bool,
    /// Whether the medium has executed it.
    pub(super) executed: bool,
    /// When it was started, or last aborted.
    pub(super) since: u64,
    /// Whether the device accepted an abort, so that the result is unknown.
    pub(super) aborted: bool,
}

struct MediumZone {
    sequential: bool,
    start: u64,
    capacity: u64,
    wp: u64,
    cond: ZoneCondition,
    /// Writes in flight, without appends.
    writes: u32,
}

pub(super) struct DeviceModel {
    zones: Vec<MediumZone>,
    /// By hardware queue and tag.
    commands: Vec<Vec<Option<Command>>>,
    in_flight: Vec<u32>,
    depth: u16,
    /// How many zones may be active, and how many explicitly open; 0 for any number. A device that has
    /// lost zones keeps its limits.
    max: (u32, u32),
    /// Writes in flight to sequential zones.
    writes: u32,
}

impl DeviceModel {
    pub(super) fn new(limits: &Limits, zones: &[Zone]) -> Self {
        let medium = |zone: &Zone| {
            let mut medium = MediumZone {
                sequential: zone.kind == ZoneKind::SequentialRequired,
                start: zone.start.0,
                capacity: zone.capacity.0,
                wp: 0,
                cond: zone.cond,
                writes: 0,
            };
            medium.learn(zone);
            medium
        };
        DeviceModel {
            zones: zones.iter().map(medium).collect(),
            commands: Vec::new(),
            in_flight: Vec::new(),
            depth: limits.queue_depth,
            max: (limits.max_active_zones, limits.max_open_zones),
            writes: 0,
        }
    }

    pub(super) fn clear_queues(&mut self) {
        self.commands.iter_mut().flatten().for_each(|command| *command = None);
        self.in_flight.fill(0);
    }

    pub(super) fn write_pointer(&self, zone: usize) -> u64 {
        self.zones.get(zone).map_or(0, |zone| zone.wp)
    }

    pub(super) fn is_sequential(&self, zone: usize) -> bool {
        self.zones.get(zone).is_some_and(|zone| zone.sequential)
    }

    /// The number of active zones, and of those among them that are explicitly open.
    fn resources(&self) -> (u32, u32) {
        let explicit = |zone: &&MediumZone| zone.cond == ZoneCondition::ExplicitOpen;
        let count = |zones: usize| u32::try_from(zones).expect("as many as zones at most");
        let active = self.zones.iter().filter(|zone| zone.sequential && zone.cond.is_active());
        (count(active.clone().count()), count(active.filter(explicit).count()))
    }

    pub(super) fn learn(&mut self, zone: usize, report: &Zone) {
        self.zones[zone].learn(report);
    }

    pub(super) fn check(&self, number: usize, report: &Zone) -> CheckResult {
        let zone = &self.zones[number];
        let mut found = MediumZone { wp: zone.wp, cond: zone.cond, ..*zone };
        found.learn(report);
        require!(
            found.wp == zone.wp,
            "the device has the write pointer of zone {number} at {}, expected {}",
            found.wp,
            zone.wp
        );
        // A device may close a zone that is implicitly open.
        let closes =
            |cond| if cond == ZoneCondition::ImplicitOpen { ZoneCondition::Closed } else { cond };
        require!(
            closes(found.cond) == closes(zone.cond),
            "the device has zone {number} {}, expected {}",
            found.cond,
            zone.cond
        );
        Ok(())
    }

    pub(super) fn check_open(&self, zones: &[Zone]) -> CheckResult {
        let open = zones.iter().filter(|zone| zone.cond.is_open()).count();
        let max_open = self.max.1 as usize;
        require!(max_open == 0 || open <= max_open, "{open} zones are open, {max_open} may be");
        Ok(())
    }
}

impl MediumZone {
    fn learn(&mut self, report: &Zone) {
        self.cond = report.cond;
        self.wp = match report.cond {
            _ if !self.sequential => 0,
            ZoneCondition::Full => report.capacity.0,
            _ => (report.wp - report.start).0,
        };
    }

    fn close(&mut self) {
        if matches!(self.cond, ZoneCondition::ImplicitOpen | ZoneCondition::ExplicitOpen) {
            let empty = self.wp == 0;
            self.cond = if empty { ZoneCondition::Empty } else { ZoneCondition::Closed };
        }
    }

    fn is_writable(&self) -> bool {
        !matches!(self.cond, ZoneCondition::ReadOnly | ZoneCondition::Offline)
    }
}

impl Model {
    /// Checks that a command is one that the device takes, made of its bios.
    fn check_command(&self, command: &Command) -> CheckResult {
        let longest = match command.op {
            Op::Discard => u32::MAX,
            Op::WriteZeroes => self.limits.max_write_zeroes_sectors,
            _ => self.limits.max_sectors,
        };
        require!(
            command.nr_sectors <= longest,
            "a command of {} sectors, the longest is {longest}",
            command.nr_sectors
        );
        let mut next = command.sector;
        for part in &command.parts {
            self.bios.check_part(part)?;
            require!(part.sector == next, "bio {} is out of place in its command", part.bio);
            require!(
                part.flags == command.flags,
                "the flags of a command differ from those of its bio {}",
                part.bio
            );
            require!(
                part.goes_with(&command.parts[0]),
                "a command has bios of different priorities or write streams: {:?}",
                command.parts
            );
            next += Sector(part.nr_sectors.into());
        }
        require!(
            next.0 - command.sector.0 == u64::from(command.nr_sectors),
            "a command of {} sectors with bios of {}",
            command.nr_sectors,
            next - command.sector
        );
        let (zone, unit) = (command.zone, u64::from(self.limits.zone_write_sectors()));
        require!(
            !command.op.is_write()
                || !self.device.is_sequential(zone)
                || (command.sector.0 | u64::from(command.nr_sectors)).is_multiple_of(unit),
            "zone {zone}: a write of {} sectors at {}, which the device takes in units of {unit}",
            command.nr_sectors,
            command.sector
        );
        Ok(())
    }

    pub(super) fn started(&mut self, queue: u16, tag: Tag, mut command: Command) -> CheckResult {
        self.check_command(&command)?;
        let zone = command.zone;
        let sequential = self.device.is_sequential(zone);
        let writes = matches!(command.op, Op::Write | Op::WriteZeroes);
        if self.plugs_in_use() && !self.is_conventional(zone) {
            let manages = matches!(command.op, Op::ZoneReset | Op::ZoneFinish);
            command.plugged = writes || manages || command.op == Op::ZoneAppend;
            if writes {
                self.check_in_flight(zone, &command)?;
            }
        }
        if writes && sequential {
            let medium = &mut self.device.zones[zone];
            medium.writes += 1;
            self.device.writes += 1;
            if self.policy != Policy::Off {
                require!(medium.writes == 1, "zone {zone}: {} writes in flight", medium.writes);
            }
            if self.policy == Policy::Qd1 {
                require!(self.device.writes == 1, "{} writes in flight", self.device.writes);
            }
        }
        let depth = usize::from(self.device.depth);
        let queue = usize::from(queue);
        while self.device.commands.len() <= queue {
            self.device.commands.push((0..depth).map(|_| None).collect());
            self.device.in_flight.push(0);
        }
        let slot = &mut self.device.commands[queue][usize::from(tag.0)];
        require!(slot.is_none(), "tag {} of hardware queue {queue} is in use", tag.0);
        *slot = Some(command);
        let in_flight = &mut self.device.in_flight[queue];
        *in_flight += 1;
        require!(
            *in_flight <= self.nr_requests,
            "{in_flight} commands in flight on hardware queue {queue}, at most {} may be",
            self.nr_requests
        );
        Ok(())
    }

    /// The layer aborted a command.
    pub(super) fn aborted(&mut self, queue: u16, tag: Tag, stops: bool, at: u64) -> CheckResult {
        let slot = &mut self.device.commands[usize::from(queue)][usize::from(tag.0)];
        let command = slot.as_mut().ok_or("the layer aborts a command that was not started")?;
        require!(!command.aborted, "the layer aborts a command twice");
        let waited = at - command.since;
        require!(
            waited >= self.io_timeout,
            "the layer aborts a command after {waited} ns, the timeout is {}",
            self.io_timeout
        );
        command.since = at;
        command.aborted |= stops;
        Ok(())
    }

    /// The medium executed `done` sectors of a command, or failed it.
    pub(super) fn executed(
        &mut self,
        queue: u16,
        tag: Tag,
        (landed, done): (Sector, u32),
        status: Status,
    ) -> CheckResult {
        let slot = &mut self.device.commands[usize::from(queue)][usize::from(tag.0)];
        let mut command =
            slot.take().ok_or("the medium executed a command that was not started")?;
        require!(!command.executed, "the medium executed a command twice");
        command.executed = true;
        let outcome = match status {
            Status::Ok => self.took_effect(&command, landed, done),
            _ => self.check_failure(&command, status),
        };
        self.device.commands[usize::from(queue)][usize::from(tag.0)] = Some(command);
        outcome
    }

    fn took_effect(&mut self, command: &Command, landed: Sector, done: u32) -> CheckResult {
        let zone = command.zone;
        match command.op {
            op if op.is_write() => {
                if self.device.is_sequential(zone) {
                    let medium = &mut self.device.zones[zone];
                    let at = landed.0 - medium.start;
                    require!(
                        at == medium.wp && medium.is_writable(),
                        "zone {zone}: the device wrote at {at}, its write pointer was {}",
                        medium.wp
                    );
                    medium.wp += u64::from(done);
                    if done > 0 {
                        self.opened(zone, ZoneCondition::ImplicitOpen)?;
                    }
                }
                if op == Op::ZoneAppend {
                    self.bios.landed(command.parts[0].bio, landed);
                }
                let sequential = self.device.is_sequential(zone);
                self.data.written(&mut self.bios, command, landed, done, sequential);
            }
            Op::Discard => self.data.written(&mut self.bios, command, landed, done, false),
            Op::Read => self.data.read(&mut self.bios, command),
            Op::ZoneReset => self.reset(zone),
            Op::ZoneResetAll => {
                for zone in 0..self.device.zones.len() {
                    let medium = &self.device.zones[zone];
                    if medium.sequential && medium.is_writable() {
                        self.reset(zone);
                    }
                }
            }
            Op::ZoneFinish => {
                let medium = &mut self.device.zones[zone];
                medium.wp = medium.capacity;
                medium.cond = ZoneCondition::Full;
            }
            Op::ZoneOpen => self.opened(zone, ZoneCondition::ExplicitOpen)?,
            Op::ZoneClose => self.device.zones[zone].close(),
            _ => {}
        }
        Ok(())
    }

    fn reset(&mut self, zone: usize) {
        let medium = &mut self.device.zones[zone];
        medium.wp = 0;
        medium.cond = ZoneCondition::Empty;
        self.data.truncate(&self.limits, zone, 0);
        self.data.was_reset(zone);
    }

    /// A zone was opened, or was written to, which opens it if it is not open.
    fn opened(&mut self, zone: usize, cond: ZoneCondition) -> CheckResult {
        let medium = &mut self.device.zones[zone];
        if medium.wp == medium.capacity {
            medium.cond = ZoneCondition::Full;
        } else if medium.cond != ZoneCondition::ExplicitOpen {
            medium.cond = cond;
        }
        let (active, explicit) = self.device.resources();
        let (max_active, max_open) = self.device.max;
        require!(
            (max_active == 0 || active <= max_active) && (max_open == 0 || explicit <= max_open),
            "zone {zone}: {active} zones are active and {explicit} of them explicitly open, at most \
             {max_active} and {max_open} may be"
        );
        Ok(())
    }

    /// Checks that a command failed for want of zone resources because all are in use.
    fn check_resources(&self, zone: usize, status: Status) -> CheckResult {
        let cond = self.device.zones[zone].cond;
        let (active, explicit) = self.device.resources();
        let (max_active, max_open) = self.device.max;
        let no_activation = max_active > 0 && active >= max_active;
        // A device need not close a zone that is implicitly open if it cannot activate another one.
        let lacking = match status {
            Status::ZoneActiveResource => no_activation && cond == ZoneCondition::Empty,
            _ => max_open > 0 && (explicit >= max_open || no_activation),
        };
        require!(
            lacking && cond != ZoneCondition::ExplicitOpen,
            "zone {zone} ({cond:?}): the device failed a command with {status:?}; {active} zones are \
             active and {explicit} of them explicitly open, {max_active} and {max_open} may be"
        );
        Ok(())
    }

    /// Checks that the medium had a reason to fail a command.
    fn check_failure(&self, command: &Command, status: Status) -> CheckResult {
        let zone = command.zone;
        if matches!(status, Status::ZoneOpenResource | Status::ZoneActiveResource) {
            return self.check_resources(zone, status);
        }
        let writes = matches!(command.op, Op::Write | Op::WriteZeroes);
        if !writes || !self.device.is_sequential(zone) {
            return Ok(());
        }
        let medium = &self.device.zones[zone];
        if !medium.is_writable() {
            return Ok(());
        }
        let at = command.sector.0 - medium.start;
        let end = at + u64::from(command.nr_sectors);
        require!(
            at != medium.wp || end > medium.capacity,
            "zone {zone}: the device failed a valid write at {at} with {status:?}"
        );
        require!(
            !self.plugs_in_use() || self.plugs.zones[zone].wp_uncertain,
            "zone {zone}: the device got a write at {at} of {} sectors, its write pointer is {} \
             and the capacity {}",
            command.nr_sectors,
            medium.wp,
            medium.capacity
        );
        Ok(())
    }

    pub(super) fn done(
        &mut self,
        queue: u16,
        tag: Tag,
        status: Status,
        faulty: bool,
    ) -> CheckResult {
        let slot = &mut self.device.commands[usize::from(queue)][usize::from(tag.0)];
        let command = slot.take().ok_or("the device completed a command that was not started")?;
        self.device.in_flight[usize::from(queue)] -= 1;
        #[cfg(torture)]
        if self.device.in_flight[usize::from(queue)] + 1 == self.nr_requests
            && self.nr_requests > 1
            && !self.reports.is_empty()
        {
            zonal_blk::probe::reach(zonal_blk::probe::Mark::RecoveredWithoutTag);
        }
        let (status, faulty) =
            if command.aborted { (Status::Timeout, true) } else { (status, faulty) };
        let zone = command.zone;
        if matches!(command.op, Op::Write | Op::WriteZeroes) && self.device.is_sequential(zone) {
            self.device.zones[zone].writes -= 1;
            self.device.writes -= 1;
        }
        for part in &command.parts {
            self.part_completed(part, status)?;
        }
        if command.op == Op::ZoneResetAll && self.plugs_in_use() {
            for zone in 0..self.limits.nr_zones as usize {
                self.end_management(zone, (command.op, status, faulty))?;
            }
        }
        if !command.plugged {
            return Ok(());
        }
        match command.op {
            Op::ZoneReset | Op::ZoneFinish => {
                self.end_management(zone, (command.op, status, faulty))
            }
            Op::ZoneAppend => {
                if faulty {
                    self.plugs.mark_wp_uncertain(zone);
                }
                self.end_append(zone);
                Ok(())
            }
            _ => self.complete_in_flight(zone, status),
        }
    }
}
