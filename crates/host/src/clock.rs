//! The real clock.
use quanta::{Clock as Counter, Instant};
use zonal_blk::Clock;
use zonal_blk::Nanos;

/// Time since the clock was made, from the processor's time stamp counter where it is steady, else
/// from the system's monotonic clock.
#[derive(Clone, Debug)]
pub struct RealClock {
    counter: Counter,
    origin: Instant,
}

impl RealClock {
    /// A clock that begins now.
    pub fn start() -> Self {
        let counter = Counter::new();
        let origin = counter.now();
        RealClock { counter, origin }
    }
}

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        let since = self.counter.now().duration_since(self.origin);
        Nanos(u64::try_from(since.as_nanos()).expect("a run is shorter than 500 years"))
    }
}
