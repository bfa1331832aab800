//! The end of a run, or of an attachment: all that must be true when nothing is outstanding.
use super::super::model::{CheckResult, require};
use super::{World, all_zones};
use zonal_blk::{Channel, Op, ZoneNo, ZonePhase};

impl World {
    /// No more faults: all that is outstanding must end.
    pub(super) fn quiesce(&mut self, when: &str) -> CheckResult {
        self.device.clear_faults();
        self.reattach()?;
        while self.model.is_frozen() {
            self.thaw(None, false)?;
        }
        self.drain(when, |world| {
            let idle = |(_, channel): &mut (usize, Channel)| channel.is_idle();
            world.model.all_outstanding() == 0
                && world.retiring.is_empty()
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

    pub(super) fn check_write_pointers(&mut self) -> CheckResult {
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
    pub(in super::super) fn finish(&mut self) -> CheckResult {
        self.quiesce("at the end")?;
        self.check_write_pointers()?;
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
    pub(super) fn read_back(&mut self) -> CheckResult {
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
