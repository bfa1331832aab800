//! The layer over a failing device, in virtual time, with the model beside it.
//!
//! Takes a history; does it step by step, and lets the model look at all that comes of each call.
//! Keeps true: one thread plays all channels, so the same history has the same end.
mod faults;
mod polling;
mod quiesce;

use super::config::Config;
use super::model::{CheckResult, Model, Spec, filled, require};
use super::step::{Action, Step, Submit, UNALIGNED};
use crate::fault::FaultDevice;
use crate::fault::{Event, Log};
use faults::device_fault;
use std::sync::Arc;
use zonal_blk::sched::{Prio, PrioClass};
use zonal_blk::{Bio, BioFlags, Buf, Channel, Completion, Nanos, Op, Queue, Sector, Zone, ZoneNo};

/// The clock jumps no further: 36 years.
const MAX_TIME: u64 = 1 << 60;

pub(super) struct World {
    config: Config,
    device: Arc<FaultDevice>,
    queue: Arc<Queue>,
    /// Those that bios are submitted on, by number, with their number in the model.
    channels: Vec<(usize, Channel)>,
    /// Those that are on their way out.
    retiring: Vec<(usize, Channel)>,
    /// The name of the scheduler.
    scheduler: String,
    pub(super) model: Model,
    pub(super) now: Nanos,
    /// Faults that came to pass.
    pub(super) faults: u64,
    log: Log,
    completions: Vec<Completion>,
    /// Something happened at the device or completed since this was last put back.
    moved: bool,
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
            retiring: Vec::new(),
            scheduler: config.scheduler.clone(),
            model,
            now: Nanos(0),
            faults: 0,
            log: Log::default(),
            completions: Vec::new(),
            moved: false,
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

    /// Reports that the test itself asked for are no business of the model.
    fn forget_log(&mut self) {
        self.device.swap_log(&mut self.log);
        self.log.clear();
    }

    pub(super) fn step(&mut self, step: &Step) -> CheckResult {
        let at = Nanos(self.now.0.saturating_add(step.after.into()));
        if self.config.attentive {
            self.poll_punctually("between two steps", at)?;
        }
        self.now = self.now.max(at);
        match &step.action {
            Action::Submit(submit) => self.submit(submit),
            Action::Batch { channel, reads, zone, shift, lens, flags } => {
                self.batch(*channel, *reads, (*zone, *shift), lens, *flags)
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
            Action::Thaw { change, hasty } => self.thaw(change.as_ref(), *hasty),
            Action::Retire { channel } => self.retire(usize::from(*channel)),
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
            Action::Condition { zone, to } => self.condition(*zone, |device, zone, ordered| {
                device.set_condition(zone, to.condition(!ordered))
            }),
            Action::ResetBehind { zone } => {
                self.condition(*zone, |device, zone, _| device.reset_past_layer(zone))
            }
            Action::Remove => {
                self.device.remove();
                self.faults += 1;
                Ok(())
            }
            Action::Return => self.reattach(),
            Action::PowerLoss { draw } => self.lose_power(*draw),
            Action::Crash { draw } => self.crash(*draw),
            Action::Jump => {
                self.now = jump(self.now);
                Ok(())
            }
        }?;
        self.check()
    }

    /// What can be said at any time.
    fn check(&self) -> CheckResult {
        let (live, expected) = (self.queue.live_plugs(), self.model.live_plugs());
        require!(live == expected, "{live} plugs live, it should be {expected}");
        for (number, channel) in self.channels.iter().chain(&self.retiring) {
            let (has, expected) = (channel.outstanding(), self.model.outstanding(*number));
            require!(
                has == expected as usize,
                "channel {number} has {has} bios outstanding, it should have {expected}"
            );
        }
        Ok(())
    }

    /// Lets the model look at what a call did at the device.
    fn events(&mut self) -> CheckResult {
        #[cfg(torture)]
        if self.model.policy == super::config::Policy::Qd1
            && self.log.events.iter().any(|event| matches!(event, Event::Refused))
        {
            zonal_blk::probe::reach(zonal_blk::probe::Mark::Qd1Requeue);
        }
        self.moved |= self.log.events.iter().any(|event| !matches!(event, Event::Refused));
        self.model.events(&mut self.log)?;
        self.model.no_reports_left()
    }

    fn take_log(&mut self) {
        self.device.swap_log(&mut self.log);
        self.model.take_reports(&mut self.log);
    }

    fn bio(&self, id: u64, spec: &Spec) -> Bio {
        let buf = match spec.op {
            Op::Write | Op::ZoneAppend if spec.has_buf => Some(filled(id, spec.nr_sectors)),
            Op::Read if spec.has_buf => Some(Buf::zeroed(spec.nr_sectors as usize * 512)),
            _ => None,
        };
        let Spec { op, sector, nr_sectors, flags, prio, .. } = *spec;
        Bio { flags, prio, buf, ..Bio::new(op, sector, nr_sectors, id) }
    }

    fn spec(&self, channel: usize, op: Op, (sector, lbas): (u64, u16), flags: u8) -> Spec {
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
            has_buf: self.config.data && matches!(op, Op::Read | Op::Write | Op::ZoneAppend),
        }
    }

    /// Where a bio begins.
    fn place(&self, op: Op, zone: u16, shift: u16) -> u64 {
        let lba = u64::from(self.config.lba_sectors());
        let size = u64::from(self.config.zone_lbas) * lba;
        let shift = u64::from(shift) * lba;
        let capacity = self.config.capacity().0;
        if self.config.zones == 0 {
            return (shift + self.model.next_id().wrapping_mul(0x9e37_79b9) % 64 * lba) % capacity;
        }
        let zone = zone % u16::try_from(self.config.zones).unwrap_or(u16::MAX);
        let start = u64::from(zone) * size;
        if matches!(op, Op::Write | Op::WriteZeroes)
            && self.model.is_sequential(ZoneNo(zone.into()))
        {
            let pointer = self.model.write_pointer(zone);
            return start + (pointer + shift) % size;
        }
        match op {
            Op::Read | Op::Write | Op::WriteZeroes | Op::Discard => start + shift % size,
            _ => start + if shift > 0 && shift < size { lba } else { 0 },
        }
    }

    fn submit(&mut self, submit: &Submit) -> CheckResult {
        let index = usize::from(submit.channel) % self.channels.len();
        let number = self.channels[index].0;
        let op = Op::from(submit.op);
        let unaligned = u64::from(submit.flags & UNALIGNED != 0);
        let sector = self.place(op, submit.zone, submit.shift) + unaligned;
        let mut spec = self.spec(number, op, (sector, submit.len), submit.flags);
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
        (zone, shift): (u16, u16),
        lens: &[u16],
        flags: u8,
    ) -> CheckResult {
        let index = usize::from(channel) % self.channels.len();
        let number = self.channels[index].0;
        let op = if reads { Op::Read } else { Op::Write };
        let mut sector = self.place(op, zone, shift);
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
    // A device without zones has none to report; one that is gone comes back to be asked.
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

/// Twice the time, or the latest if that is later; waiting may have led beyond, and time never runs
/// back.
fn jump(now: Nanos) -> Nanos {
    Nanos(now.0.saturating_mul(2)).min(Nanos(MAX_TIME)).max(now)
}

#[cfg(test)]
mod tests {
    use super::{MAX_TIME, jump};
    use zonal_blk::Nanos;

    /// Seed 54908: a command of 30 s took the clock beyond its end, and the next jump took it back
    /// into the past of the device.
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
