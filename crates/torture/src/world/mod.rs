//! The layer over a failing device, in virtual time, beside the model.
//!
//! Runs a history step by step, and lets the model check the effects of each call. One thread drives
//! all channels, so the same history has the same outcome.
mod faults;
mod polling;

use crate::config::Config;
use crate::fault::{Event, FaultDevice, Log};
use crate::model::{CheckResult, Model, Spec, fill, require, tear};
use crate::step::{Action, Submit, TortureStep, UNALIGNED};
use faults::device_fault;
use std::cell::Cell;
use std::sync::Arc;
use zonal_blk::{
    Bio, BioFlags, Buf, Channel, Completion, Nanos, Op, Prio, PrioClass, Queue, Sector, Zone,
    ZoneNo,
};

/// The latest time that the clock jumps to: 36 years.
const MAX_TIME: u64 = 1 << 60;

thread_local! {
    /// The buffers that the last run of this thread left. What is in them has no effect: what is checked
    /// of a buffer is written anew for each bio.
    static KEPT_BUFFERS: Cell<Vec<Buf>> = const { Cell::new(Vec::new()) };
}

pub(super) struct World {
    config: Config,
    device: Arc<FaultDevice>,
    queue: Arc<Queue>,
    /// Channels that accept bios, with their number in the model.
    channels: Vec<(usize, Channel)>,
    /// Draining channels that still have bios.
    draining: Vec<(usize, Channel)>,
    /// The name of the scheduler.
    scheduler: String,
    pub(super) model: Model,
    pub(super) now: Nanos,
    /// Injected faults.
    pub(super) faults: u64,
    log: Log,
    completions: Vec<Completion>,
    /// Buffers of bios that have completed, for later ones.
    buffers: Vec<Buf>,
    /// Whether anything happened at the device or completed since this was last cleared.
    progressed: bool,
}

impl Drop for World {
    fn drop(&mut self) {
        KEPT_BUFFERS.set(std::mem::take(&mut self.buffers));
    }
}

impl World {
    pub(super) fn new(config: &Config) -> Result<Self, String> {
        let device = config.device()?;
        let queue = config.queue(&device)?;
        let zones = all_zones(&device);
        let model = Model::new(config, queue.limits(), &zones);
        let mut world = World {
            config: config.clone(),
            device,
            queue,
            channels: Vec::new(),
            draining: Vec::new(),
            scheduler: config.scheduler.clone(),
            model,
            now: Nanos(0),
            faults: 0,
            log: Log::default(),
            completions: Vec::new(),
            buffers: KEPT_BUFFERS.take(),
            progressed: false,
        };
        world.open_channels()?;
        world.forget_log();
        Ok(world)
    }

    fn open_channels(&mut self) -> Result<(), String> {
        for _ in 0..self.config.channels {
            let channel = self.queue.channel().map_err(|error| error.to_string())?;
            let number = self.model.open_channel();
            self.channels.push((number, channel));
        }
        Ok(())
    }

    /// Discards zone reports that the test itself requested.
    fn forget_log(&mut self) {
        self.device.swap_log(&mut self.log);
        self.log.clear();
    }

    pub(super) fn step(&mut self, step: &TortureStep) -> CheckResult {
        let at = Nanos(self.now.0.saturating_add(step.after.into()));
        if self.config.polls_eagerly {
            self.poll_when_due("between two steps", at)?;
        }
        self.now = self.now.max(at);
        match &step.action {
            Action::Submit(submit) => self.submit(submit),
            Action::Batch { channel, reads, zone, offset, lens, flags, stream } => {
                self.batch(*channel, *reads, (*zone, *offset), lens, (*flags, *stream))
            }
            Action::Poll { channel } => {
                let index = usize::from(*channel) % self.channels.len();
                self.poll(index)
            }
            Action::Freeze => {
                self.queue.freeze();
                self.model.freeze();
                Ok(())
            }
            Action::Thaw { change, without_drain } => self.thaw(change.as_ref(), *without_drain),
            Action::ReplaceChannel { channel } => self.replace_channel(usize::from(*channel)),
            Action::Report { zone, count } => self.report(*zone, (*count).into()),
            Action::Fault(fault) => {
                self.device.inject(fault.writes_only, device_fault(fault));
                self.faults += 1;
                Ok(())
            }
            Action::Busy { starts } => {
                self.device.refuse_starts((*starts).into());
                self.faults += u64::from(*starts);
                Ok(())
            }
            Action::Condition { zone, to } => self.condition(*zone, |device, zone, sequential| {
                device.set_condition(zone, to.condition(!sequential))
            }),
            Action::ExternalReset { zone } => {
                self.condition(*zone, |device, zone, _| device.reset_externally(zone))
            }
            Action::Format { zones } => {
                self.format((*zones).into());
                Ok(())
            }
            Action::Remove => {
                self.device.remove();
                self.faults += 1;
                Ok(())
            }
            Action::Reattach => self.reattach(),
            Action::PowerLoss { draw } => self.lose_power(*draw),
            Action::Crash { draw } => self.crash(*draw),
            Action::Jump => {
                self.now = jump(self.now);
                Ok(())
            }
        }?;
        self.check()
    }

    /// Checks that hold at any time.
    fn check(&self) -> CheckResult {
        let (live, expected) = (self.queue.live_plugs(), self.model.live_plugs());
        require!(live == expected, "{live} plugs live, expected {expected}");
        for (number, channel) in self.channels.iter().chain(&self.draining) {
            let (has, expected) = (channel.outstanding(), self.model.outstanding(*number));
            require!(
                has == expected as usize,
                "channel {number} has {has} bios outstanding, expected {expected}"
            );
        }
        Ok(())
    }

    /// Lets the model check what a call did at the device.
    fn events(&mut self) -> CheckResult {
        #[cfg(torture)]
        if self.model.policy == super::config::Policy::Qd1
            && self.log.events.iter().any(|event| matches!(event, Event::Refused))
        {
            zonal_blk::probe::reach(zonal_blk::probe::Mark::Qd1Requeue);
        }
        self.progressed |= self.log.events.iter().any(|event| !matches!(event, Event::Refused));
        self.model.events(&mut self.log)?;
        self.model.no_reports_left()
    }

    fn take_log(&mut self) {
        self.device.swap_log(&mut self.log);
        self.model.take_reports(&mut self.log);
    }

    fn bio(&mut self, id: u64, spec: &Spec) -> Bio {
        let buf = spec.has_buf.then(|| {
            let mut buf = self.buffer(spec.nr_sectors as usize * 512);
            if spec.op == Op::Read {
                tear(&mut buf)
            } else {
                fill(&mut buf, id)
            }
            buf
        });
        let Spec { op, sector, nr_sectors, flags, prio, stream, .. } = *spec;
        Bio { flags, prio, stream, buf, ..Bio::new(op, sector, nr_sectors, id) }
    }

    /// A buffer of this length with any contents.
    fn buffer(&mut self, len: usize) -> Buf {
        let Some(at) = self.buffers.iter().rposition(|buf| buf.capacity() >= len) else {
            return Buf::zeroed(len);
        };
        let mut buf = self.buffers.swap_remove(at);
        buf.set_len(len);
        buf
    }

    fn spec(
        &self,
        channel: usize,
        op: Op,
        (sector, lbas): (u64, u16),
        (flags, stream): (u8, u8),
    ) -> Spec {
        let names = [BioFlags::FUA, BioFlags::PREFLUSH, BioFlags::NOMERGE, BioFlags::ASYNC];
        let set = names.iter().enumerate().filter(|(bit, _)| flags & 1 << bit != 0);
        let writes = op.is_write();
        Spec {
            channel,
            op,
            sector: Sector(sector),
            nr_sectors: if op.has_range() {
                u32::from(lbas) * self.config.lba_sectors()
            } else {
                0
            },
            flags: if writes {
                set.fold(BioFlags::NONE, |all, (_, &f)| all | f)
            } else {
                BioFlags::NONE
            },
            prio: Prio::default(),
            stream,
            has_buf: self.config.data && matches!(op, Op::Read | Op::Write | Op::ZoneAppend),
        }
    }

    /// The first sector of a bio.
    fn start_sector(&self, op: Op, zone: u16, offset: u16) -> u64 {
        let lba = u64::from(self.config.lba_sectors());
        let size = u64::from(self.config.zone_lbas) * lba;
        let offset = u64::from(offset) * lba;
        let capacity = self.config.capacity().0;
        if self.config.zones == 0 {
            return (offset + self.model.next_id().wrapping_mul(0x9e37_79b9) % 64 * lba) % capacity;
        }
        let zone = zone % u16::try_from(self.config.zones).unwrap_or(u16::MAX);
        let start = u64::from(zone) * size;
        if matches!(op, Op::Write | Op::WriteZeroes)
            && self.model.is_sequential(ZoneNo(zone.into()))
        {
            let pointer = self.model.write_pointer(zone);
            return start + (pointer + offset) % size;
        }
        match op {
            Op::Read | Op::Write | Op::WriteZeroes | Op::Discard => start + offset % size,
            _ => start + if offset > 0 && offset < size { lba } else { 0 },
        }
    }

    fn submit(&mut self, submit: &Submit) -> CheckResult {
        let index = usize::from(submit.channel) % self.channels.len();
        let number = self.channels[index].0;
        let op = Op::from(submit.op);
        let unaligned = u64::from(submit.flags & UNALIGNED != 0);
        let sector = self.start_sector(op, submit.zone, submit.offset) + unaligned;
        let mut spec = self.spec(number, op, (sector, submit.len), (submit.flags, submit.stream));
        spec.prio = prio(submit.class);
        let bio = self.bio(self.model.next_id(), &spec);
        let now = self.now;
        self.channels[index].1.submit(now, bio);
        self.take_log();
        self.model.submit(spec)?;
        self.events()
    }

    fn batch(
        &mut self,
        channel: u8,
        reads: bool,
        (zone, offset): (u16, u16),
        lens: &[u16],
        flags: (u8, u8),
    ) -> CheckResult {
        let index = usize::from(channel) % self.channels.len();
        let number = self.channels[index].0;
        let op = if reads { Op::Read } else { Op::Write };
        let mut sector = self.start_sector(op, zone, offset);
        let first = self.model.next_id();
        let mut specs = Vec::with_capacity(lens.len());
        let mut bios = Vec::with_capacity(lens.len());
        for (id, &len) in (first..).zip(lens) {
            let spec = self.spec(number, op, (sector, len), flags);
            sector += u64::from(spec.nr_sectors);
            bios.push(self.bio(id, &spec));
            specs.push(spec);
        }
        let now = self.now;
        self.channels[index].1.submit_batch(now, &mut bios);
        self.take_log();
        self.model.submit_batch(specs)?;
        self.events()
    }
}

fn all_zones(device: &FaultDevice) -> Vec<Zone> {
    let mut zones = Vec::new();
    device.describe_zones(&mut zones);
    zones
}

fn prio(class: u8) -> Prio {
    match class {
        1 => Prio::new(PrioClass::Realtime, 0),
        3 => Prio::new(PrioClass::Idle, 0),
        _ => Prio::default(),
    }
}

/// Twice the time, at most [`MAX_TIME`]. Waiting may have led beyond that; time never runs back.
fn jump(now: Nanos) -> Nanos {
    Nanos(now.0.saturating_mul(2)).min(Nanos(MAX_TIME)).max(now)
}

#[cfg(test)]
mod tests {
    use super::{MAX_TIME, jump};
    use zonal_blk::Nanos;

    /// Seed 54908: a command of 30 s took the clock beyond `MAX_TIME`, and the next jump turned it
    /// back.
    #[test]
    fn jump_never_turns_the_clock_back() {
        for (now, then) in [(0, 0), (7, 14), (MAX_TIME - 1, MAX_TIME), (MAX_TIME, MAX_TIME)] {
            assert_eq!(jump(Nanos(now)), Nanos(then));
        }
        for now in [MAX_TIME + 30_000_000_000, u64::MAX] {
            assert_eq!(jump(Nanos(now)), Nanos(now));
        }
    }
}
