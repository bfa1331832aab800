//! Steps that change the queue or the device: new policies, replaced channels, faults.
use super::{World, all_zones};
use crate::config::{Policy, scheduler};
use crate::fault::{AbortResponse, Effect, FaultDevice, FaultSpec};
use crate::model::{CheckResult, require};
use crate::step::{AbortBehaviour, Change, CommandFault, FaultEffect};
use std::sync::Arc;
use zonal_blk::{Device, Nanos, Status, SwitchError, ZoneNo};

impl World {
    pub(super) fn thaw(&mut self, change: Option<&Change>, without_drain: bool) -> CheckResult {
        if !self.model.is_frozen() {
            return Ok(());
        }
        if let Some(change) = change {
            if !without_drain {
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
            Change::Revalidate => queue.revalidate().map(|_| ()),
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
            let rejected = result == Err(SwitchError::NotQuiescent);
            require!(rejected, "{change:?} on a queue that is not quiescent returned {result:?}");
            return self.model.no_reports_left();
        }
        if *change == Change::Revalidate {
            return self.revalidated(result);
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
        // The device has lost zones that the layer does not know to be lost.
        let too_few = self.device.nr_zones() < self.model.limits.nr_zones;
        let unreadable = (self.device.is_removed() || too_few) && (syncs || locks);
        if syncs && !unreadable {
            self.model.reported(true)?;
        } else if syncs || locks && !unsuitable {
            self.model.reported_in_vain()?;
        }
        match result {
            Ok(()) => {
                require!(!unsuitable && !unreadable, "{change:?} was accepted, expected an error")
            }
            Err(SwitchError::Unsuitable(_)) => {
                require!(unsuitable, "{change:?} was rejected as unsuitable")
            }
            Err(SwitchError::Report(_)) => {
                require!(unreadable, "{change:?}: the zone report failed")
            }
            Err(error) => return Err(error.to_string()),
        }
        if result.is_ok() {
            match change {
                Change::Revalidate => unreachable!("it was checked"),
                Change::Policy(policy) => self.model.policy = *policy,
                Change::Scheduler(name, _) => self.scheduler.clone_from(name),
                Change::MaxIo(_) => self.model.limits.max_sectors = self.queue.max_sectors(),
                Change::Requests(requests) => self.model.nr_requests = (*requests).into(),
                Change::Timeout(nanos) => self.model.io_timeout = *nanos,
            }
        }
        self.model.no_reports_left()
    }

    /// Checks the outcome of a revalidation.
    fn revalidated(&mut self, result: Result<(), SwitchError>) -> CheckResult {
        let zones = self.device.nr_zones();
        if zones > self.queue.limits().nr_zones {
            let refused = matches!(result, Err(SwitchError::Unsuitable(_)));
            require!(refused, "a device with more zones than were attached: {result:?}");
        } else if self.device.is_removed() {
            require!(result == Err(SwitchError::Report(Status::Offline)), "{result:?}");
            self.model.reported_in_vain()?;
        } else {
            require!(result == Ok(()), "the zones were not read anew: {result:?}");
            let capacity = match zones {
                all if all == self.config.zones => self.config.capacity(),
                fewer => self.model.limits.zone_start(ZoneNo(fewer)),
            };
            self.model.revalidated(zones, capacity)?;
            if self.model.policy == Policy::Lock {
                self.model.reported_in_vain()?;
            }
        }
        self.model.no_reports_left()
    }

    /// The device is formatted with another number of zones, under whatever is in flight.
    pub(super) fn format(&mut self, zones: u32) {
        if self.config.zones == 0 {
            return;
        }
        self.faults += 1;
        let emptied = self.device.format(zones.clamp(1, self.config.zones));
        let zones = all_zones(&self.device);
        for zone in emptied {
            self.model.changed_externally(zone, &zones[zone.index()]);
        }
    }

    /// Drains a channel and opens another in its place.
    pub(super) fn replace_channel(&mut self, index: usize) -> CheckResult {
        let index = index % self.channels.len();
        // A frozen channel cannot become idle, and without shared hardware queues the next channel
        // needs this one's.
        if self.model.is_frozen() {
            return Ok(());
        }
        let (number, mut channel) = self.channels.remove(index);
        channel.drain();
        self.draining.push((number, channel));
        if !self.config.share_queues {
            self.drain("draining a channel", |world| world.draining.is_empty())?;
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
        let zone = ZoneNo(u32::from(zone) % self.model.limits.nr_zones);
        let mut zones = Vec::new();
        let result = self.queue.report_zones(zone, count, &mut zones);
        self.take_log();
        self.model.reported(false)?;
        require!(result.is_ok() != self.device.is_removed(), "a zone report returned {result:?}");
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
        let sequential = self.model.is_sequential(zone);
        if change(&self.device, zone, sequential).is_ok() {
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
        // Commands that the drive was executing count as done before.
        self.take_log();
        self.events()?;
        let zones = all_zones(&self.device);
        let device = Arc::clone(&self.device);
        self.model.lost_power(&zones, |sector, to| device.medium().read_raw(sector, to))
    }

    /// The machine loses power: commands in flight fail, and the layer is attached again.
    pub(super) fn crash(&mut self, draw: u32) -> CheckResult {
        self.lose_power(draw)?;
        self.quiesce("after a power loss")?;
        self.channels.clear();
        self.queue = self.config.queue(&self.device)?;
        self.forget_log();
        let zones = all_zones(&self.device);
        self.scheduler.clone_from(&self.config.scheduler);
        self.model.reattach(&self.config, self.queue.limits(), &zones);
        self.open_channels()?;
        self.check_write_pointers()
    }
}

pub(super) fn device_fault(fault: &CommandFault) -> FaultSpec {
    let (effect, status) = match fault.effect {
        FaultEffect::Late | FaultEffect::Drop => (Effect::All, None),
        FaultEffect::Fail => (Effect::Nothing, Some(Status::IoError)),
        FaultEffect::TimeOut => (Effect::Nothing, Some(Status::Timeout)),
        FaultEffect::FailDone => (Effect::All, Some(Status::IoError)),
        FaultEffect::TimeOutDone => (Effect::All, Some(Status::Timeout)),
        FaultEffect::Tear(lbas) => (Effect::Part(lbas.into()), None),
    };
    let on_abort = match fault.on_abort {
        AbortBehaviour::Undone => AbortResponse::NotExecuted,
        AbortBehaviour::Done => AbortResponse::Executed,
        AbortBehaviour::Late(nanos) => AbortResponse::Delayed(Nanos(nanos.into())),
        AbortBehaviour::Ignores(times) => AbortResponse::ResetTimer(times.into()),
    };
    let delay = if fault.effect == FaultEffect::Drop { u64::MAX } else { fault.delay.into() };
    FaultSpec { delay: Nanos(delay), effect, status, on_abort }
}
