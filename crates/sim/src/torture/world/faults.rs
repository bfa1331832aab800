//! What happens to the queue and to the device: policies, channels that go, faults.
use super::super::config::Policy;
use super::super::model::{Checked, require};
use super::super::step::{Doom, End};
use super::{World, all_zones};
use std::sync::Arc;
use zonal_blk::{Nanos, Status, SwitchError, ZoneNo};
use zonal_device::FaultDevice;
use zonal_device::fault::{Effect, Fate};

impl World {
    pub(super) fn thaw(&mut self, policy: Option<Policy>) -> Checked {
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

    pub(super) fn switch(&mut self, policy: Policy) -> Checked {
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
    pub(super) fn retire(&mut self, index: usize) -> Checked {
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

    pub(super) fn report(&mut self, zone: u16, count: usize) -> Checked {
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

    pub(super) fn come_back(&mut self) -> Checked {
        if !self.device.is_removed() {
            return Ok(());
        }
        self.device.come_back();
        self.report(0, self.config.zones as usize)
    }

    pub(super) fn lose_power(&mut self, draw: u32) -> Checked {
        self.faults += 1;
        self.device.lose_power(draw.into());
        let zones = all_zones(&self.device);
        let device = Arc::clone(&self.device);
        self.model.lost_power(&zones, |sector, to| device.medium().read_raw(sector, to))
    }

    /// The machine loses power: what is in flight fails, and all is built anew.
    pub(super) fn crash(&mut self, draw: u32) -> Checked {
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
}

pub(super) fn fate(doom: &Doom) -> Fate {
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
