//! Polling: once, until something is done, or only when there is something to do.
use super::super::model::{CheckResult, require};
use super::World;
use zonal_blk::Nanos;

/// Polls in a row at one time that may be in vain before the layer counts as spinning.
const SPINS: u32 = 64;
/// Times in a row to which a run may go on in vain before what it waits for counts as never coming.
const WAITS: u32 = 100_000;

impl World {
    pub(super) fn poll(&mut self, index: usize) -> CheckResult {
        let now = self.now;
        let (number, channel) = match index.checked_sub(self.channels.len()) {
            None => &mut self.channels[index],
            Some(retiring) => &mut self.retiring[retiring],
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

    pub(super) fn poll_all(&mut self) -> CheckResult {
        for index in 0..self.channels.len() + self.retiring.len() {
            self.poll(index)?;
            self.check()?;
        }
        self.drop_retired()
    }

    /// Channels that are on their way out and may go, go.
    pub(super) fn drop_retired(&mut self) -> CheckResult {
        let mut index = 0;
        while index < self.retiring.len() {
            let (number, channel) = &mut self.retiring[index];
            if channel.is_idle() {
                require!(
                    self.model.outstanding(*number) == 0,
                    "channel {number} is idle with bios outstanding"
                );
                drop(self.retiring.swap_remove(index));
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Polls until `done`, moving on in time to where something is to happen.
    pub(super) fn drain(&mut self, what: &str, done: impl Fn(&mut World) -> bool) -> CheckResult {
        if self.config.punctual {
            self.poll_all()?;
            self.poll_punctually(what, Nanos(u64::MAX))?;
            require!(done(self), "{}", self.stuck(what, "all sleep and nobody will wake them"));
            return Ok(());
        }
        let (mut spins, mut waits) = (0, 0);
        loop {
            self.moved = false;
            self.poll_all()?;
            if done(self) {
                return Ok(());
            }
            if self.moved {
                (spins, waits) = (0, 0);
            } else if self.wait(what)? {
                spins += 1;
                require!(spins < SPINS, "{}", self.stuck(what, "the layer spins"));
            } else {
                (spins, waits) = (0, waits + 1);
                require!(waits < WAITS, "{}", self.stuck(what, "time goes by in vain"));
            }
        }
    }

    /// Moves on to the earliest time that any channel names. Whether that is now.
    pub(super) fn wait(&mut self, what: &str) -> Result<bool, String> {
        let channels = self.channels.iter_mut().chain(&mut self.retiring);
        match channels.filter_map(|(_, channel)| channel.next_event().at()).min() {
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
    pub(super) fn poll_punctually(&mut self, what: &str, until: Nanos) -> CheckResult {
        let (mut spins, mut waits) = (0, 0);
        loop {
            let now = self.now;
            let mut next: Option<Nanos> = None;
            let mut channels = self.channels.iter_mut().chain(&mut self.retiring);
            let woken = channels.position(|(_, channel)| {
                let due = channel.next_event().at();
                next = next.into_iter().chain(due).min();
                due.is_some_and(|due| due <= now)
            });
            match (woken, next) {
                (Some(index), _) => {
                    self.moved = false;
                    self.poll(index)?;
                    self.check()?;
                    self.drop_retired()?;
                    if self.moved {
                        waits = 0;
                    }
                    spins = if self.moved { 0 } else { spins + 1 };
                    require!(spins < SPINS, "{}", self.stuck(what, "the layer spins"));
                }
                (None, Some(at)) if at <= until => {
                    (self.now, spins, waits) = (at, 0, waits + 1);
                    require!(waits < WAITS, "{}", self.stuck(what, "time goes by in vain"));
                }
                (None, _) => return Ok(()),
            }
        }
    }

    pub(super) fn stuck(&self, what: &str, how: &str) -> String {
        format!("{what}: {how}; waiting: {}", self.model.waiting())
    }
}
