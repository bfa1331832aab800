//! A limit on how often one place in the program may log, since a remote host can make it do so at
//! will.
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;

/// The messages of one place in this time...
const INTERVAL: Duration = Duration::from_secs(5);
/// ...are at most this many.
const BURST: u32 = 100;

/// Counts the lines logged from each place in the program, as the kernel's printk_ratelimited does.
#[derive(Default)]
pub(super) struct RateLimit(HashMap<Identifier, Window>);

struct Window {
    begin: Instant,
    logged: u32,
    suppressed: u32,
}

impl RateLimit {
    /// Whether a message from `place` may be logged at `now`. If so, returns how many have been
    /// suppressed since the last one.
    pub fn admit(&mut self, place: Identifier, now: Instant) -> Option<u32> {
        let new = || Window { begin: now, logged: 0, suppressed: 0 };
        let window = self.0.entry(place).or_insert_with(new);
        let mut suppressed = 0;
        if now.duration_since(window.begin) >= INTERVAL {
            suppressed = window.suppressed;
            *window = new();
        }
        if window.logged == BURST {
            window.suppressed += 1;
            return None;
        }
        window.logged += 1;
        Some(suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{Callsite, Metadata, callsite, metadata, subscriber::Interest};

    struct Place;
    static PLACE: Place = Place;
    static METADATA: Metadata<'static> = metadata! {
        name: "event",
        target: "test",
        level: tracing::Level::INFO,
        fields: &[],
        callsite: &PLACE,
        kind: metadata::Kind::EVENT,
    };

    impl Callsite for Place {
        fn set_interest(&self, _: Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            &METADATA
        }
    }

    #[test]
    fn messages_beyond_the_burst_are_counted_and_reported_in_the_next_interval() {
        let place = || callsite::Identifier(&PLACE);
        let (mut limit, begin) = (RateLimit::default(), Instant::now());
        let logged = (0..BURST + 7).filter(|_| limit.admit(place(), begin) == Some(0)).count();
        assert_eq!(logged, BURST as usize);
        assert_eq!(limit.admit(place(), begin + INTERVAL / 2), None);
        assert_eq!(limit.admit(place(), begin + INTERVAL), Some(8));
        assert_eq!(limit.admit(place(), begin + INTERVAL), Some(0));
    }
}
