//! A plain model of zone write plugging, without locks, slots or reuse, for the property tests.
use crate::op::Op;
use crate::status::Status;
use std::collections::VecDeque;

pub(super) const ZONES: usize = 3;
pub(super) const SIZE: u64 = 32;
pub(super) const CAPACITY: u64 = 24;
pub(super) const LONGEST: u32 = 12;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) one_per_disk: bool,
    pub(super) native_append: bool,
    pub(super) asks_at_once: bool,
    pub(super) merges: bool,
}

/// A write pointer as the layer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    At(u64),
    No,
    MovedByAppends,
}

#[derive(Clone, Debug)]
struct Write {
    /// More than one if they were submitted together and follow one another.
    bios: Vec<(u64, u32)>,
    channel: usize,
    op: Op,
    at: u64,
    len: u32,
    mergeable: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) op: Op,
    pub(super) zone: usize,
    pub(super) at: u64,
    pub(super) len: u32,
    bios: Vec<(u64, usize)>,
}

#[derive(Debug)]
struct Zone {
    known: Known,
    device_wp: u64,
    waiting: VecDeque<Write>,
    write_out: bool,
    managing: usize,
    appending: usize,
}

pub(super) struct Model {
    rules: Rules,
    zones: Vec<Zone>,
    /// QD=1: the zone that has the disk, and those that are queued.
    disk: Option<usize>,
    line: Vec<usize>,
    pub(super) in_flight: [Vec<Command>; 2],
    ended: [Vec<(Command, Status)>; 2],
    completed: [Vec<(u64, Status)>; 2],
    /// The requests that reached the device.
    pub(super) log: Vec<(Op, u64, u32)>,
}

impl Model {
    pub(super) fn new(rules: Rules) -> Self {
        let zone = |_| Zone {
            known: Known::At(0),
            device_wp: 0,
            waiting: VecDeque::new(),
            write_out: false,
            managing: 0,
            appending: 0,
        };
        Model {
            rules,
            zones: (0..ZONES).map(zone).collect(),
            disk: None,
            line: Vec::new(),
            in_flight: Default::default(),
            ended: Default::default(),
            completed: Default::default(),
            log: Vec::new(),
        }
    }

    /// Where a write to the zone has to begin, as far as the layer or the device knows.
    pub(super) fn pointer(&self, zone: usize) -> u64 {
        match self.zones[zone].known {
            Known::At(at) => at,
            _ => self.zones[zone].device_wp,
        }
    }

    pub(super) fn device_pointer(&self, zone: usize) -> u64 {
        self.zones[zone].device_wp
    }

    /// Zones whose plug is live when nothing is in flight.
    pub(super) fn live(&self) -> usize {
        let lives = |zone: &&Zone| match zone.known {
            Known::At(at) => at > 0 && at < CAPACITY,
            Known::No => true,
            Known::MovedByAppends => false,
        };
        self.zones.iter().filter(lives).count()
    }

    pub(super) fn submit(
        &mut self,
        channel: usize,
        id: u64,
        (op, zone, at, len): (Op, usize, u64, u32),
    ) {
        let command = Command { op, zone, at, len, bios: vec![(id, channel)] };
        match op {
            Op::ZoneReset | Op::ZoneFinish => self.zones[zone].managing += 1,
            Op::ZoneResetAll => self.zones.iter_mut().for_each(|zone| zone.managing += 1),
            Op::ZoneAppend if self.rules.native_append => {
                self.abort(zone);
                self.zones[zone].appending += 1;
                self.zones[zone].known = Known::MovedByAppends;
            }
            Op::Write | Op::WriteZeroes | Op::ZoneAppend => {
                return self.submit_write(channel, vec![(id, len)], (op, zone, at));
            }
            _ => {}
        }
        self.send(channel, command);
    }

    /// Writes submitted together, one after the other.
    pub(super) fn submit_batch(
        &mut self,
        channel: usize,
        bios: &[(u64, u32)],
        zone: usize,
        mut at: u64,
    ) {
        let mut together: Vec<(u64, u32)> = Vec::new();
        for &(id, len) in bios {
            let all: u32 = together.iter().map(|&(_, len)| len).sum();
            if !together.is_empty() && (!self.rules.merges || all + len > LONGEST) {
                let bios = std::mem::take(&mut together);
                self.submit_write(channel, bios, (Op::Write, zone, at));
                at += u64::from(all);
            }
            together.push((id, len));
        }
        self.submit_write(channel, together, (Op::Write, zone, at));
    }

    fn submit_write(
        &mut self,
        channel: usize,
        bios: Vec<(u64, u32)>,
        (op, zone, at): (Op, usize, u64),
    ) {
        let append = op == Op::ZoneAppend;
        let len = bios.iter().map(|&(_, len)| len).sum();
        let z = &mut self.zones[zone];
        let fits = |known| known == Known::At(at) || append && matches!(known, Known::At(_));
        let quiet = !z.write_out && z.waiting.is_empty() && z.managing == 0 && z.appending == 0;
        let may_ask = self.rules.asks_at_once || z.known == Known::MovedByAppends;
        if !fits(z.known) && quiet && may_ask {
            z.known = Known::At(z.device_wp);
        }
        let wp = match z.known {
            Known::At(wp) if fits(z.known) && z.managing == 0 => Some(wp),
            _ => None,
        };
        let Some(wp) = wp.filter(|wp| wp + u64::from(len) <= CAPACITY) else {
            return self.refuse(channel, bios, (op, zone, at));
        };
        z.known = Known::At(wp + u64::from(len));
        let op = if append { Op::Write } else { op };
        let mergeable = !append && op == Op::Write && self.rules.merges;
        z.waiting.push_back(Write { bios, channel, op, at: wp, len, mergeable });
        if !self.rules.one_per_disk {
            if !z.write_out {
                self.send_next(zone, channel);
            }
        } else if self.disk.is_none() {
            self.disk = Some(zone);
            self.send_next(zone, channel);
        } else if self.disk != Some(zone) && !self.line.contains(&zone) {
            self.line.push(zone);
        }
    }

    /// If they are refused together, each is tried alone.
    fn refuse(
        &mut self,
        channel: usize,
        bios: Vec<(u64, u32)>,
        (op, zone, mut at): (Op, usize, u64),
    ) {
        if let [(id, _)] = bios[..] {
            return self.completed[channel].push((id, Status::IoError));
        }
        for (id, len) in bios {
            self.submit_write(channel, vec![(id, len)], (op, zone, at));
            at += u64::from(len);
        }
    }

    /// Issues the first waiting write, merged with those after it that can be.
    fn send_next(&mut self, zone: usize, channel: usize) -> bool {
        let z = &mut self.zones[zone];
        z.write_out = false;
        let Some(first) = z.waiting.pop_front() else { return false };
        z.write_out = true;
        let mut command =
            Command { op: first.op, zone, at: first.at, len: first.len, bios: vec![] };
        let homes = |write: &Write| -> Vec<(u64, usize)> {
            write.bios.iter().map(|&(id, _)| (id, write.channel)).collect()
        };
        command.bios.extend(homes(&first));
        while first.mergeable
            && let Some(next) = z.waiting.front()
            && next.mergeable
            && next.bios.len() == 1
            && command.len + next.len <= LONGEST
        {
            let next = z.waiting.pop_front().unwrap();
            command.len += next.len;
            command.bios.extend(homes(&next));
        }
        self.send(channel, command);
        true
    }

    fn send(&mut self, channel: usize, command: Command) {
        let sector = command.zone as u64 * SIZE + command.at;
        self.log.push((command.op, sector, command.len));
        self.in_flight[channel].push(command);
    }

    /// The waiting writes are aborted.
    fn abort(&mut self, zone: usize) {
        for write in std::mem::take(&mut self.zones[zone].waiting) {
            // It completes on its own channel, whichever aborted it.
            let failed = write.bios.iter().map(|&(id, _)| (id, Status::IoError));
            self.completed[write.channel].extend(failed);
        }
        self.line.retain(|&waiting| waiting != zone);
    }

    /// Whether the device can execute a command in flight.
    pub(super) fn possible(&self, queue: usize, nth: usize) -> bool {
        let command = &self.in_flight[queue][nth];
        let wp = self.zones[command.zone].device_wp;
        let fits = |at: u64| at + u64::from(command.len) <= CAPACITY;
        match command.op {
            Op::Write | Op::WriteZeroes => command.at == wp && fits(wp),
            Op::ZoneAppend => fits(wp) && wp < CAPACITY,
            _ => true,
        }
    }

    /// With nothing in flight, the policy is changed to the other one, and all zones are read anew.
    pub(super) fn switch(&mut self) {
        self.rules.one_per_disk = !self.rules.one_per_disk;
        self.zones.iter_mut().for_each(|zone| zone.known = Known::At(zone.device_wp));
    }

    /// The device completes a command: it succeeds, or fails after `written` sectors.
    pub(super) fn end(&mut self, queue: usize, nth: usize, fails_after: Option<u32>) {
        let possible = self.possible(queue, nth);
        let command = self.in_flight[queue].remove(nth);
        let wp = &mut self.zones[command.zone].device_wp;
        let status = match fails_after {
            Some(written) => {
                *wp += u64::from(written);
                Status::IoError
            }
            None if possible => Status::Ok,
            None => Status::IoError,
        };
        if status == Status::Ok {
            match command.op {
                op if op.is_write() => *wp += u64::from(command.len),
                Op::ZoneReset => *wp = 0,
                Op::ZoneFinish => *wp = CAPACITY,
                Op::ZoneResetAll => self.zones.iter_mut().for_each(|zone| zone.device_wp = 0),
                _ => {}
            }
        }
        self.ended[queue].push((command, status));
    }

    /// The completions that a channel finds when it polls.
    pub(super) fn poll(&mut self, channel: usize) -> Vec<(u64, Status)> {
        for (command, status) in std::mem::take(&mut self.ended[channel]) {
            self.complete(channel, &command, status);
            for (id, home) in command.bios {
                self.completed[home].push((id, status));
            }
        }
        std::mem::take(&mut self.completed[channel])
    }

    fn complete(&mut self, channel: usize, command: &Command, status: Status) {
        let zone = command.zone;
        match command.op {
            Op::ZoneReset => self.managed(zone, status, 0),
            Op::ZoneFinish => self.managed(zone, status, CAPACITY),
            Op::ZoneResetAll => (0..ZONES).for_each(|zone| self.managed(zone, status, 0)),
            Op::ZoneAppend => self.zones[zone].appending -= 1,
            Op::Write | Op::WriteZeroes => {
                if status != Status::Ok {
                    self.abort(zone);
                    let z = &mut self.zones[zone];
                    let still = z.managing == 0 && z.appending == 0;
                    z.known = match still && self.rules.asks_at_once {
                        true => Known::At(z.device_wp),
                        false => Known::No,
                    };
                }
                if !self.send_next(zone, channel) && self.rules.one_per_disk {
                    self.disk = (!self.line.is_empty()).then(|| self.line.remove(0));
                    if let Some(next) = self.disk {
                        assert!(self.send_next(next, channel), "who stands in line has a write");
                    }
                }
            }
            _ => {}
        }
    }

    fn managed(&mut self, zone: usize, status: Status, wp: u64) {
        self.zones[zone].managing -= 1;
        if status == Status::Ok {
            self.abort(zone);
            let z = &mut self.zones[zone];
            z.known = if z.appending > 0 { Known::MovedByAppends } else { Known::At(wp) };
        }
    }
}
