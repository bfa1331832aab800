//! The thread of a queue.
//!
//! Takes a channel and the driver; serves the queue until the driver has given up all its tags.
//! Keeps true: I/O that was begun is seen to its end, also if the driver fails.
use super::queue::{Driver, Queue, Wait};
use super::tags::ProtocolError;
use crate::RealClock;
use rustix::thread::set_current_timer_slack;
use std::hint::spin_loop;
use std::io;
use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;
use zonal_blk::Clock;
use zonal_blk::Nanos;

/// A sleep ends this long before the event of the device that it is for.
const SLEEP_SLACK: Nanos = Nanos(20_000);
/// The longest sleep while another channel may have something for this one.
const SHORT: Duration = Duration::from_micros(100);

/// Why a queue is served no longer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// io_uring failed.
    #[error("waiting for requests: {0}")]
    Enter(#[from] io::Error),
    /// The driver does not do as it should.
    #[error(transparent)]
    ProtocolError(#[from] ProtocolError),
}

/// Gives the driver the commands of all tags.
///
/// # Errors
/// It does not take them.
pub fn begin(queue: &mut Queue, driver: &mut impl Driver) -> io::Result<()> {
    // Where it is refused, sleeps are longer.
    let _ = set_current_timer_slack(NonZeroU64::new(1000));
    queue.begin(driver);
    driver.enter(Wait::No)
}

/// Serves a queue that was begun to its end.
///
/// # Errors
/// Why it ended before the driver wanted it.
pub fn run(queue: &mut Queue, driver: &mut impl Driver, clock: &RealClock) -> Result<(), Failure> {
    let served = serve(queue, driver, clock);
    loop {
        let now = clock.now();
        if queue.drain(now) {
            return served;
        }
        match queue.next_event().at() {
            Some(at) if at <= now => thread::yield_now(),
            Some(at) => thread::sleep(Duration::from_nanos((at - now).0.min(1_000_000))),
            None => thread::sleep(SHORT),
        }
    }
}

fn serve(queue: &mut Queue, driver: &mut impl Driver, clock: &RealClock) -> Result<(), Failure> {
    let mut ends = Vec::new();
    let mut wait = Wait::No;
    while !queue.all_aborted() {
        driver.enter(wait)?;
        driver.ends(&mut ends);
        for (tag, result) in ends.drain(..) {
            queue.on_completion(tag, result, driver)?;
        }
        let now = clock.now();
        queue.poll(now, driver);
        wait = until_next(queue, now);
    }
    Ok(())
}

/// How long nothing is to be done, unless the driver has something.
fn until_next(queue: &mut Queue, now: Nanos) -> Wait {
    match queue.next_event().at() {
        Some(at) if at <= now + SLEEP_SLACK => {
            spin_loop();
            Wait::No
        }
        Some(at) => Wait::For(Duration::from_nanos((at - now - SLEEP_SLACK).0)),
        None if queue.outstanding() > 0 => Wait::For(SHORT),
        None => Wait::Forever,
    }
}
