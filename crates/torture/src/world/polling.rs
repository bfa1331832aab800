//! Polling: once, when due, until drained; and what must hold when nothing is outstanding.
use super::{World, all_zones};
use crate::model::{CheckResult, require};
use zonal_blk::{Channel, Nanos, Op, ZoneNo, ZonePhase};

/// Polls in a row without progress, at one time, after which the layer counts as spinning.
const SPINS: u32 = 64;
/// Most buffers that are kept for later bios.
const MAX_BUFFERS: usize = 32;
/// Times in a row without progress after which a wait counts as endless.
const WAITS: u32 = 100_000;

impl World {
    pub(super) fn poll(&mut self, index: usize) -> CheckResult {
        let now = self.now;
        let (number, channel) = match index.checked_sub(self.channels.len()) {
            None => &mut self.channels[index],
            Some(draining) => &mut self.draining[draining],
        };
        let number = *number;
        self.completions.clear();
        channel.poll(now, &mut self.completions);
        self.take_log();
        self.model.poll(number)?;
        self.events()?;
        self.progressed |= !self.completions.is_empty();
        self.model.completed(number, &self.completions)?;
        let used = self.completions.drain(..).filter_map(|completion| completion.buf);
        self.buffers.extend(used);
        self.buffers.truncate(MAX_BUFFERS);
        Ok(())
    }

    pub(super) fn poll_all(&mut self) -> CheckResult {
        for index in 0..self.channels.len() + self.draining.len() {
            self.poll(index)?;
            self.check()?;
        }
        self.drop_retired()
    }

    /// Drops draining channels that are idle.
    pub(super) fn drop_retired(&mut self) -> CheckResult {
        let mut index = 0;
        while index < self.draining.len() {
            let (number, channel) = &mut self.draining[index];
            if channel.is_idle() {
                require!(
                    self.model.outstanding(*number) == 0,
                    "channel {number} is idle with bios outstanding"
                );
                drop(self.draining.swap_remove(index));
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Polls until `done`, advancing the time to the next event when there is no progress.
    pub(super) fn drain(&mut self, what: &str, done: impl Fn(&mut World) -> bool) -> CheckResult {
        if self.config.polls_when_due {
            self.poll_all()?;
            self.poll_when_due(what, Nanos(u64::MAX))?;
            require!(
                done(self),
                "{}",
                self.stuck(what, "all channels sleep, and nothing will wake them")
            );
            return Ok(());
        }
        let (mut spins, mut waits) = (0, 0);
        loop {
            self.progressed = false;
            self.poll_all()?;
            if done(self) {
                return Ok(());
            }
            if self.progressed {
                (spins, waits) = (0, 0);
            } else if self.wait(what)? {
                spins += 1;
                require!(spins < SPINS, "{}", self.stuck(what, "the layer spins"));
            } else {
                (spins, waits) = (0, waits + 1);
                require!(waits < WAITS, "{}", self.stuck(what, "time passes without progress"));
            }
        }
    }

    /// Advances the time to the earliest event of any channel. Returns whether that is now.
    pub(super) fn wait(&mut self, what: &str) -> Result<bool, String> {
        let channels = self.channels.iter_mut().chain(&mut self.draining);
        match channels.filter_map(|(_, channel)| channel.next_event().at()).min() {
            Some(at) if at > self.now => {
                self.now = at;
                Ok(false)
            }
            Some(_) => Ok(true),
            None => Err(self.stuck(what, "no event is pending")),
        }
    }

    /// Runs until `until`, or until no event is pending, as sleeping threads do: a channel is polled
    /// only when it is due.
    pub(super) fn poll_when_due(&mut self, what: &str, until: Nanos) -> CheckResult {
        let (mut spins, mut waits) = (0, 0);
        loop {
            let now = self.now;
            let mut next: Option<Nanos> = None;
            let mut channels = self.channels.iter_mut().chain(&mut self.draining);
            let woken = channels.position(|(_, channel)| {
                let due = channel.next_event().at();
                next = next.into_iter().chain(due).min();
                due.is_some_and(|due| due <= now)
            });
            match (woken, next) {
                (Some(index), _) => {
                    self.progressed = false;
                    self.poll(index)?;
                    self.check()?;
                    self.drop_retired()?;
                    if self.progressed {
                        waits = 0;
                    }
                    spins = if self.progressed { 0 } else { spins + 1 };
                    require!(spins < SPINS, "{}", self.stuck(what, "the layer spins"));
                }
                (None, Some(at)) if at <= until => {
                    (self.now, spins, waits) = (at, 0, waits + 1);
                    require!(waits < WAITS, "{}", self.stuck(what, "time passes without progress"));
                }
                (None, _) => return Ok(()),
            }
        }
    }

    pub(super) fn stuck(&self, what: &str, how: &str) -> String {
        format!("{what}: {how}; waiting: {}", self.model.waiting())
    }

    /// Clears all faults; everything outstanding must complete.
    pub(super) fn quiesce(&mut self, when: &str) -> CheckResult {
        self.device.clear_faults();
        self.reattach()?;
        while self.model.is_frozen() {
            self.thaw(None, false)?;
        }
        self.drain(when, |world| {
            let idle = |(_, channel): &mut (usize, Channel)| channel.is_idle();
            world.model.all_outstanding() == 0
                && world.draining.is_empty()
                && world.channels.iter_mut().all(idle)
        })?;
        require!(
            self.queue.is_quiescent(),
            "{when}: nothing is outstanding, but the queue is not quiescent"
        );
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

    /// Ends the run: everything completes, and all state is as expected.
    pub(crate) fn finish(&mut self) -> CheckResult {
        self.quiesce("at the end")?;
        self.check_write_pointers()?;
        if self.config.data {
            self.read_back()?;
        }
        for index in (0..self.channels.len()).rev() {
            let (number, mut channel) = self.channels.remove(index);
            channel.drain();
            require!(channel.is_idle(), "channel {number} is not idle");
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
            let spec = self.spec(number, Op::Read, (first * u64::from(lba), count), (0, 0));
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
