//! When to try to reconnect, and when to give up.
//!
//! As in Linux (`reconnect_delay` and `ctrl_loss_tmo`; drivers/nvme/host/fabrics.c, 6.12): the first
//! attempt comes one delay after the loss, each other one delay after the last has failed, and the
//! number of attempts is the timeout divided by the delay, rounded up.
use zonal_blk::Nanos;

const SECOND: u64 = 1_000_000_000;

/// Reconnection parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectConfig {
    /// Delay between attempts; more than 0.
    pub delay: Nanos,
    /// How long to try (`ctrl_loss_tmo`); 0 not to reconnect, `None` to try for ever.
    pub ctrl_loss_tmo: Option<Nanos>,
}

impl Default for ReconnectConfig {
    /// As in Linux: every 10 seconds, for 600 seconds.
    fn default() -> Self {
        ReconnectConfig { delay: Nanos(10 * SECOND), ctrl_loss_tmo: Some(Nanos(600 * SECOND)) }
    }
}

/// The action on a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconnectAction {
    /// Wait until this time.
    At(Nanos),
    /// Try now.
    Now,
    /// Give up.
    GiveUp,
}

/// The state of a lost connection.
#[derive(Clone, Copy, Debug)]
pub struct Reconnect {
    delay: Nanos,
    /// Attempts left; `None` for no limit.
    left: Option<u64>,
    next: Nanos,
}

impl Reconnect {
    /// The connection was lost at `now`.
    pub fn lost(config: &ReconnectConfig, now: Nanos) -> Self {
        let left = config
            .ctrl_loss_tmo
            .map(|ctrl_loss_tmo| ctrl_loss_tmo.0.div_ceil(config.delay.0.max(1)));
        Reconnect { delay: config.delay, left, next: now + config.delay }
    }

    /// The action at `now`.
    pub fn attempt(&self, now: Nanos) -> ReconnectAction {
        match self.left {
            Some(0) => ReconnectAction::GiveUp,
            _ if now < self.next => ReconnectAction::At(self.next),
            _ => ReconnectAction::Now,
        }
    }

    /// An attempt has failed.
    pub fn failed(&mut self, now: Nanos) {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.next = now + self.delay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(delay: u64, ctrl_loss_tmo: Option<u64>) -> ReconnectConfig {
        ReconnectConfig { delay: Nanos(delay), ctrl_loss_tmo: ctrl_loss_tmo.map(Nanos) }
    }

    /// The times of up to 100 attempts, each of which takes `takes`.
    fn attempts(config: &ReconnectConfig, takes: u64) -> Vec<u64> {
        let (mut now, mut all) = (Nanos(1000), Vec::new());
        let mut reconnect = Reconnect::lost(config, now);
        while all.len() < 100 {
            match reconnect.attempt(now) {
                ReconnectAction::At(at) => now = at,
                ReconnectAction::GiveUp => break,
                ReconnectAction::Now => {
                    all.push(now.0);
                    now += Nanos(takes);
                    reconnect.failed(now);
                }
            }
        }
        all
    }

    #[test]
    fn attempts_are_a_delay_apart_and_as_many_as_fit() {
        assert_eq!(attempts(&config(10, Some(30)), 0), [1010, 1020, 1030]);
        assert_eq!(attempts(&config(10, Some(31)), 0).len(), 4, "rounded up");
        assert_eq!(attempts(&config(10, Some(20)), 5), [1010, 1025], "after the one before");
        assert_eq!(attempts(&config(10, Some(0)), 0), [] as [u64; 0]);
        assert_eq!(attempts(&config(10, None), 0).len(), 100, "for ever");
        assert_eq!(attempts(&ReconnectConfig::default(), 0).len(), 60, "as Linux");
    }
}
