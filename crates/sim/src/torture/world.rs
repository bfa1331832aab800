//! The layer over a failing device, in virtual time, with the model beside it.
//!
//! Takes a history; does it step by step, and lets the model look at all that comes of each call.
//! Keeps true: one thread plays all channels, so the same history has the same end.
use super::config::{Config, Policy};
use super::model::{Checked, Model, Spec, filled, require};
use super::step::{Action, Doom, End, Step, Submit, UNALIGNED};
use std::sync::Arc;
use zonal_blk::sched::{Prio, PrioClass};
use zonal_blk::{
    Bio, BioFlags, Buf, Channel, Completion, Nanos, Op, Queue, Sector, Status, SwitchError, Zone,
    ZoneNo, ZonePhase,
};
use zonal_device::FaultDevice;
use zonal_device::fault::{Effect, Event, Fate, Log};

/// Polls in a row at one time that may be in vain before the layer counts as spinning.
const SPINS: u32 = 64;
/// The end of time: the clock jumps no further.
const LATE: u64 = 1 << 60;

pub(super) struct World {
    config: Config,
    device: Arc<FaultDevice>,
    queue: Arc<Queue>,
    /// Those that bios are submitted on, by number, with their number in the model.
    channels: Vec<(usize, Channel)>,
    /// Those that are on their way out.
    leaving: Vec<(usize, Channel)>,
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
            leaving: Vec::new(),
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
        for _ in 0..self.config.channels.max(1) {
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

    pub(super) fn step(&mut self, step: &Step) -> Checked {
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
            Action::Thaw { policy } => self.thaw(*policy),
            Action::Retire { channel } => self.retire(usize::from(*channel)),
            Action::Report { zone, count } => self.report(*zone, (*count).into()),
            Action::Doom(doom) => {
                self.device.doom(doom.writes_only, fate(doom));
                self.faults += 1;
                Ok(())
            }
            Action::Busy { starts } => {
                self.device.be_busy((*starts).into());
                self.faults += u64::from(*starts);
                Ok(())
            }
            Action::Condition { zone, to } => self.condition(*zone, |device, zone, ordered| {
                device.set_condition(zone, to.condition(!ordered))
            }),
            Action::ResetBehind { zone } => {
                self.condition(*zone, |device, zone, _| device.reset_behind(zone))
            }
            Action::Remove => {
                self.device.remove();
                self.faults += 1;
                Ok(())
            }
            Action::Return => self.come_back(),
            Action::PowerLoss { draw } => self.lose_power(*draw),
            Action::Crash { draw } => self.crash(*draw),
            Action::Jump => {
                self.now = Nanos((self.now.0 * 2).min(LATE));
                Ok(())
            }
        }?;
        self.check()
    }

    /// What can be said at any time.
    fn check(&self) -> Checked {
        let (live, expected) = (self.queue.live_plugs(), self.model.live_plugs());
        require!(live == expected, "{live} plugs live, it should be {expected}");
        for (number, channel) in self.channels.iter().chain(&self.leaving) {
            let (has, expected) = (channel.outstanding(), self.model.outstanding(*number));
            require!(
                has == expected as usize,
                "channel {number} has {has} bios outstanding, it should have {expected}"
            );
        }
        Ok(())
    }

    /// Lets the model look at what a call did at the device.
    fn events(&mut self) -> Checked {
        #[cfg(feature = "torture")]
        if self.model.policy == Policy::Qd1
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
            let pointer = self.model.pointer(zone);
            return start + (pointer + shift) % size;
        }
        match op {
            Op::Read | Op::Write | Op::WriteZeroes | Op::Discard => start + shift % size,
            _ => start + if shift > 0 && shift < size { lba } else { 0 },
        }
    }

    fn submit(&mut self, submit: &Submit) -> Checked {
        let index = usize::from(submit.channel) % self.channels.len();
        let number = self.channels[index].0;
        let op = Op::from(submit.op);
        let astray = u64::from(submit.flags & UNALIGNED != 0);
        let sector = self.place(op, submit.zone, submit.shift) + astray;
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
    ) -> Checked {
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

    fn poll(&mut self, index: usize) -> Checked {
        let now = self.now;
        let (number, channel) = match index.checked_sub(self.channels.len()) {
            None => &mut self.channels[index],
            Some(leaving) => &mut self.leaving[leaving],
        };
        let number = *number;
        self.completions.clear();
        channel.poll(now, &mut self.completions);
        self.take_log();
        self.model.poll(number)?;
        self.events()?;
        self.moved |= !self.completions.is_empty();
        self.model.completed(number, &self.completions)
    }

    fn poll_all(&mut self) -> Checked {
        for index in 0..self.channels.len() + self.leaving.len() {
            self.poll(index)?;
            self.check()?;
        }
        self.let_go()
    }

    /// Channels that are on their way out and may go, go.
    fn let_go(&mut self) -> Checked {
        let mut index = 0;
        while index < self.leaving.len() {
            let (number, channel) = &mut self.leaving[index];
            if channel.is_idle() {
                require!(
                    self.model.outstanding(*number) == 0,
                    "channel {number} is idle with bios outstanding"
                );
                drop(self.leaving.swap_remove(index));
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Polls until `done`, moving on in time to where something is to happen.
    fn drain(&mut self, what: &str, done: impl Fn(&mut World) -> bool) -> Checked {
        if self.config.punctual {
            self.poll_all()?;
            self.poll_punctually(what, Nanos(u64::MAX))?;
            require!(done(self), "{}", self.stuck(what, "all sleep and nobody will wake them"));
            return Ok(());
        }
        let mut spins = 0;
        loop {
            self.moved = false;
            self.poll_all()?;
            if done(self) {
                return Ok(());
            }
            if self.moved || !self.wait(what)? {
                spins = 0;
            } else {
                spins += 1;
                require!(spins < SPINS, "{}", self.stuck(what, "the layer spins"));
            }
        }
    }

    /// Moves on to the earliest time that any channel names. Whether that is now.
    fn wait(&mut self, what: &str) -> Result<bool, String> {
        let channels = self.channels.iter_mut().chain(&mut self.leaving);
        match channels.filter_map(|(_, channel)| channel.next_event()).min() {
            Some(at) if at > self.now => {
                self.now = at;
                Ok(false)
            }
            Some(_) => Ok(true),
            None => Err(self.stuck(what, "nothing will ever happen")),
        }
    }

    /// Goes on until `until`, or until nothing is left to wait for, as threads do it that sleep: each
    /// wakes when the time has come that its channel names, and nobody polls for no reason.
    fn poll_punctually(&mut self, what: &str, until: Nanos) -> Checked {
        let mut spins = 0;
        loop {
            let now = self.now;
            let mut next: Option<Nanos> = None;
            let mut channels = self.channels.iter_mut().chain(&mut self.leaving);
            let woken = channels.position(|(_, channel)| {
                let due = channel.next_event();
                next = next.into_iter().chain(due).min();
                due.is_some_and(|due| due <= now)
            });
            match (woken, next) {
                (Some(index), _) => {
                    self.moved = false;
                    self.poll(index)?;
                    self.check()?;
                    self.let_go()?;
                    spins = if self.moved { 0 } else { spins + 1 };
                    require!(spins < SPINS, "{}", self.stuck(what, "the layer spins"));
                }
                (None, Some(at)) if at <= until => (self.now, spins) = (at, 0),
                (None, _) => return Ok(()),
            }
        }
    }

    fn stuck(&self, what: &str, how: &str) -> String {
        format!("{what}: {how}; waiting: {}", self.model.waiting())
    }

    fn thaw(&mut self, policy: Option<Policy>) -> Checked {
        if !self.model.is_frozen() {
            return Ok(());
        }
        if let Some(policy) = policy {
            let queue = Arc::clone(&self.queue);
            self.drain("draining a frozen queue", |_| queue.is_quiescent())?;
            self.switch(policy)?;
        }
        self.queue.thaw();
        self.model.thaw();
        Ok(())
    }

    fn switch(&mut self, policy: Policy) -> Checked {
        let result = self.queue.set_zone_write(policy.into());
        self.take_log();
        let zoned = self.config.zones > 0;
        let gone = self.device.is_removed() && zoned;
        let plugs = matches!(policy, Policy::Plug | Policy::Qd1);
        let locks = policy == Policy::Lock && zoned;
        let unsuitable = locks && self.config.scheduler != "mq-deadline";
        if plugs && zoned {
            self.model.reported(true)?;
        }
        if locks && !unsuitable {
            self.model.reported(false)?;
        }
        match result {
            Ok(()) => require!(
                !unsuitable && !(gone && (plugs || locks)),
                "the policy {policy:?} was accepted and should not have been"
            ),
            Err(SwitchError::Unsuitable(_)) => require!(unsuitable, "{policy:?} is suitable"),
            Err(SwitchError::Report(_)) => require!(gone, "{policy:?}: the zones were refused"),
            Err(error @ SwitchError::NotQuiescent) => return Err(error.to_string()),
        }
        if result.is_ok() {
            self.model.policy = policy;
        }
        self.model.no_reports_left()
    }

    /// A channel goes, another comes in its place.
    fn retire(&mut self, index: usize) -> Checked {
        let index = index % self.channels.len();
        // One that holds bios back needs a thaw to be idle, and without shared hardware queues
        // the next channel waits for this one's.
        if self.model.is_frozen() {
            return Ok(());
        }
        let (number, mut channel) = self.channels.remove(index);
        channel.retire();
        self.leaving.push((number, channel));
        if !self.config.share_queues {
            self.drain("retiring a channel", |world| world.leaving.is_empty())?;
        }
        let channel = self.queue.channel().map_err(|error| error.to_string())?;
        let number = self.model.open_channel();
        self.channels.insert(index, (number, channel));
        Ok(())
    }

    fn report(&mut self, zone: u16, count: usize) -> Checked {
        if self.config.zones == 0 {
            return Ok(());
        }
        let zone = ZoneNo(u32::from(zone) % self.config.zones);
        let mut zones = Vec::new();
        let result = self.queue.report_zones(zone, count, &mut zones);
        self.take_log();
        self.model.reported(false)?;
        require!(result.is_ok() != self.device.is_removed(), "a zone report ended with {result:?}");
        self.model.no_reports_left()
    }

    fn condition(
        &mut self,
        zone: u16,
        change: impl FnOnce(&FaultDevice, ZoneNo, bool) -> Result<(), Status>,
    ) -> Checked {
        if self.config.zones == 0 {
            return Ok(());
        }
        let zone = ZoneNo(u32::from(zone) % self.config.zones);
        let ordered = self.model.is_sequential(zone);
        if change(&self.device, zone, ordered).is_ok() {
            self.faults += 1;
            let zones = all_zones(&self.device);
            self.model.changed_behind(zone, &zones[zone.index()]);
        }
        Ok(())
    }

    fn come_back(&mut self) -> Checked {
        if !self.device.is_removed() {
            return Ok(());
        }
        self.device.come_back();
        self.report(0, self.config.zones as usize)
    }

    fn lose_power(&mut self, draw: u32) -> Checked {
        self.faults += 1;
        self.device.lose_power(draw.into());
        let zones = all_zones(&self.device);
        let device = Arc::clone(&self.device);
        self.model.lost_power(&zones, |sector, to| device.medium().read_raw(sector, to))
    }

    /// The machine loses power: what is in flight fails, and all is built anew.
    fn crash(&mut self, draw: u32) -> Checked {
        self.lose_power(draw)?;
        self.end("after a loss of power")?;
        self.channels.clear();
        self.queue = self.config.queue(&self.device)?;
        self.forget_log();
        let zones = all_zones(&self.device);
        self.model.attach_anew(self.config.policy, &zones);
        self.open_channels()?;
        self.check_pointers()
    }

    /// No more faults: all that is outstanding must end.
    fn end(&mut self, when: &str) -> Checked {
        self.device.forget_faults();
        self.come_back()?;
        while self.model.is_frozen() {
            self.thaw(None)?;
        }
        self.drain(when, |world| {
            let idle = |(_, channel): &mut (usize, Channel)| channel.is_idle();
            world.model.all_outstanding() == 0
                && world.leaving.is_empty()
                && world.channels.iter_mut().all(idle)
        })?;
        require!(self.queue.is_quiescent(), "{when}: nothing is outstanding and bios are inside");
        let listed = self.queue.dump_plugs(true);
        let references: u32 = listed.iter().map(|plug| plug.references).sum();
        require!(
            references == self.model.live_plugs(),
            "{when}: {references} references to {} plugs",
            self.model.live_plugs()
        );
        let zones = all_zones(&self.device);
        self.model.check_zones(&zones)?;
        self.forget_log();
        Ok(())
    }

    fn check_pointers(&mut self) -> Checked {
        for zone in 0..self.config.zones {
            let Some((phase, wp)) = self.queue.cached_zone(ZoneNo(zone)) else { continue };
            let known = !matches!(
                phase,
                ZonePhase::Unknown
                    | ZonePhase::Conventional
                    | ZonePhase::ReadOnly
                    | ZonePhase::Offline
            );
            self.take_log();
            self.model.looked_up(zone as usize)?;
            self.model.check_known(zone as usize, wp.0, known)?;
        }
        self.model.no_reports_left()
    }

    /// The end of the run: everything ends, and everything is where it should be.
    pub(super) fn finish(&mut self) -> Checked {
        self.end("at the end")?;
        self.check_pointers()?;
        if self.config.data {
            self.read_back()?;
        }
        for index in (0..self.channels.len()).rev() {
            let (number, mut channel) = self.channels.remove(index);
            channel.retire();
            require!(channel.is_idle(), "channel {number} cannot go");
            drop(channel);
        }
        Ok(())
    }

    /// Reads the whole device through the layer.
    fn read_back(&mut self) -> Checked {
        let lba = self.config.lba_sectors();
        let step = self.config.max_io_lbas.min(16);
        let lbas = self.config.capacity().0 / u64::from(lba);
        let number = self.channels[0].0;
        for first in (0..lbas).step_by(step as usize) {
            let count = u16::try_from((lbas - first).min(step.into())).expect("at most 16");
            let spec = self.spec(number, Op::Read, (first * u64::from(lba), count), 0);
            let bio = self.bio(self.model.next_id(), &spec);
            let now = self.now;
            self.channels[0].1.submit(now, bio);
            self.take_log();
            self.model.submit(spec)?;
            self.events()?;
        }
        self.drain("reading back", |world| world.model.all_outstanding() == 0)
    }
}

fn all_zones(device: &FaultDevice) -> Vec<Zone> {
    let mut zones = Vec::new();
    // A device without zones has none to report; one that is gone comes back to be asked.
    device.inspect(&mut zones);
    zones
}

fn prio(class: u8) -> Prio {
    match class {
        1 => Prio::new(PrioClass::Realtime, 0),
        3 => Prio::new(PrioClass::Idle, 0),
        _ => Prio::default(),
    }
}

fn fate(doom: &Doom) -> Fate {
    let (effect, status) = match doom.end {
        End::Late => (Effect::All, None),
        End::Fail => (Effect::Nothing, Some(Status::IoError)),
        End::TimeOut => (Effect::Nothing, Some(Status::Timeout)),
        End::Deny => (Effect::All, Some(Status::IoError)),
        End::TimeOutDone => (Effect::All, Some(Status::Timeout)),
        End::Tear(lbas) => (Effect::Part(lbas.into()), None),
    };
    Fate { late: Nanos(doom.late.into()), effect, status }
}
