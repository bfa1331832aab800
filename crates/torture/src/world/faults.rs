//! What happens to the queue and to the device: policies, channels that go, faults.
use super::super::config::{Policy, scheduler};
use super::super::model::{CheckResult, require};
use super::super::step::{AbortBehaviour, Change, CommandFault, FaultEffect};
use super::{World, all_zones};
use crate::fault::FaultDevice;
use crate::fault::{AbortResponse, Effect, FaultSpec};
use std::sync::Arc;
use zonal_blk::{Nanos, Status, SwitchError, ZoneNo};

impl World {
    pub(super) fn thaw(&mut self, change: Option<&Change>, hasty: bool) -> CheckResult {
        if !self.model.is_frozen() {
            return Ok(());
        }
        if let Some(change) = change {
            if !hasty {
                let queue = Arc::clone(&self.queue);
                self.drain("draining a frozen queue", |_| queue.is_quiescent())?;
            }
            self.change(change)?;
        }
        self.queue.unfreeze();
        self.model.thaw();
        Ok(())
    }

    fn change(&mut self, change: &Change) -> CheckResult {
        let quiescent = self.queue.is_quiescent();
        let queue = &self.queue;
        let result = match change {
            Change::Policy(policy) => queue.set_zone_write((*policy).into()),
            Change::Scheduler(name, attributes) => {
                queue.set_scheduler(scheduler(name, attributes)?)
            }
            Change::MaxIo(lbas) => queue.set_max_sectors(lbas * self.config.lba_sectors()),
            Change::Requests(requests) => queue.set_nr_requests(*requests),
            Change::Timeout(nanos) => queue.set_io_timeout(Nanos(*nanos)),
        };
        self.take_log();
        if !quiescent {
            let refused = result == Err(SwitchError::NotQuiescent);
            require!(refused, "{change:?} with bios inside ended with {result:?}");
            return self.model.no_reports_left();
        }
        let zoned = self.config.zones > 0;
        let (policy, scheduler) = match change {
            Change::Policy(policy) => (*policy, &self.scheduler),
            Change::Scheduler(name, _) => (self.model.policy, name),
            _ => (self.model.policy, &self.scheduler),
        };
        let syncs = zoned
            && matches!(change, Change::Policy(_))
            && matches!(policy, Policy::Plug | Policy::Qd1);
        let locks = zoned && policy == Policy::Lock;
        let unsuitable = locks && scheduler != "mq-deadline";
        let gone = self.device.is_removed() && (syncs || locks);
        if syncs || locks && !unsuitable {
            self.model.reported(syncs)?;
        }
        match result {
            Ok(()) => {
                require!(!unsuitable && !gone, "{change:?} was accepted and should not have been")
            }
            Err(SwitchError::Unsuitable(_)) => require!(unsuitable, "{change:?} is suitable"),
            Err(SwitchError::Report(_)) => require!(gone, "{change:?}: the zones were refused"),
            Err(error @ SwitchError::NotQuiescent) => return Err(error.to_string()),
        }
        if result.is_ok() {
            match change {
                Change::Policy(policy) => self.model.policy = *policy,
                Change::Scheduler(name, _) => self.scheduler.clone_from(name),
                Change::MaxIo(_) => self.model.limits.max_sectors = self.queue.max_sectors(),
                Change::Requests(requests) => self.model.nr_requests = (*requests).into(),
                Change::Timeout(nanos) => self.model.io_timeout = *nanos,
            }
        }
        self.model.no_reports_left()
    }

    /// A channel goes, another comes in its place.
    pub(super) fn retire(&mut self, index: usize) -> CheckResult {
        let index = index % self.channels.len();
        // One that holds bios back needs a thaw to be idle, and without shared hardware queues
        // the next channel waits for this one's.
        if self.model.is_frozen() {
            return Ok(());
        }
        let (number, mut channel) = self.channels.remove(index);
        channel.retire();
        self.retiring.push((number, channel));
        if !self.config.share_queues {
            self.drain("retiring a channel", |world| world.retiring.is_empty())?;
        }
        let channel = self.queue.channel().map_err(|error| error.to_string())?;
        let number = self.model.open_channel();
        self.channels.insert(index, (number, channel));
        Ok(())
    }

    pub(super) fn report(&mut self, zone: u16, count: usize) -> CheckResult {
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

    pub(super) fn condition(
        &mut self,
        zone: u16,
        change: impl FnOnce(&FaultDevice, ZoneNo, bool) -> Result<(), Status>,
    ) -> CheckResult {
        if self.config.zones == 0 {
            return Ok(());
        }
        let zone = ZoneNo(u32::from(zone) % self.config.zones);
        let ordered = self.model.is_sequential(zone);
        if change(&self.device, zone, ordered).is_ok() {
            self.faults += 1;
            let zones = all_zones(&self.device);
            self.model.changed_externally(zone, &zones[zone.index()]);
        }
        Ok(())
    }

    pub(super) fn reattach(&mut self) -> CheckResult {
        if !self.device.is_removed() {
            return Ok(());
        }
        self.device.reattach();
        self.report(0, self.config.zones as usize)
    }

    pub(super) fn lose_power(&mut self, draw: u32) -> CheckResult {
        self.faults += 1;
        self.device.lose_power(draw.into());
        // What the drive was at counts as done before.
        self.take_log();
        self.events()?;
        let zones = all_zones(&self.device);
        let device = Arc::clone(&self.device);
        self.model.lost_power(&zones, |sector, to| device.medium().read_raw(sector, to))
    }

    /// The machine loses power: what is in flight fails, and all is built anew.
    pub(super) fn crash(&mut self, draw: u32) -> CheckResult {
        self.lose_power(draw)?;
        self.quiesce("after a loss of power")?;
        self.channels.clear();
        self.queue = self.config.queue(&self.device)?;
        self.forget_log();
        let zones = all_zones(&self.device);
        self.scheduler.clone_from(&self.config.scheduler);
        self.model.attach_anew(&self.config, self.queue.limits(), &zones);
        self.open_channels()?;
        self.check_write_pointers()
    }
}

pub(super) fn device_fault(fault: &CommandFault) -> FaultSpec {
    let (effect, status) = match fault.end {
        FaultEffect::Late | FaultEffect::Lose => (Effect::All, None),
        FaultEffect::Fail => (Effect::Nothing, Some(Status::IoError)),
        FaultEffect::TimeOut => (Effect::Nothing, Some(Status::Timeout)),
        FaultEffect::Deny => (Effect::All, Some(Status::IoError)),
        FaultEffect::TimeOutDone => (Effect::All, Some(Status::Timeout)),
        FaultEffect::Tear(lbas) => (Effect::Part(lbas.into()), None),
    };
    let stop = match fault.stop {
        AbortBehaviour::Undone => AbortResponse::NotExecuted,
        AbortBehaviour::Done => AbortResponse::Executed,
        AbortBehaviour::Late(nanos) => AbortResponse::Delayed(Nanos(nanos.into())),
        AbortBehaviour::Deaf(times) => AbortResponse::ResetTimer(times.into()),
    };
    let late = if fault.end == FaultEffect::Lose { u64::MAX } else { fault.late.into() };
    FaultSpec { late: Nanos(late), effect, status, stop }
}
