//! Scrubbing a served device: all stored data are read and compared with their checksums, by a thread
//! of its own and at a limited rate.
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zonal_blk::{Sector, Status};
use zonal_device::control::DeviceControl;
use zonal_os::poll::retry;

/// The rate of a scrub unless another is given, in MiB/s.
pub(super) const DEFAULT_RATE: u32 = 100;
/// Damaged blocks that are listed; all are counted.
const MAX_LISTED: usize = 64;
/// How soon a scrub that waits for its rate sees that it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Running,
    Stopped,
    Finished,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Running => "running",
            State::Stopped => "stopped",
            State::Finished => "finished",
        }
    }
}

/// How far a scrub is.
#[derive(Default)]
struct Progress {
    state: State,
    rate: u32,
    next: Sector,
    bytes: u64,
    damaged: u64,
    listed: Vec<u64>,
}

#[derive(Default)]
struct ScrubShared {
    stop: AtomicBool,
    progress: Mutex<Progress>,
}

impl ScrubShared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no thread panics with the progress locked")
    }
}

/// Scrubs one device, one scrub at a time. Dropping it stops the scrub.
pub(super) struct Scrubber {
    device: Arc<dyn DeviceControl>,
    shared: Arc<ScrubShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scrubber {
    pub fn new(device: Arc<dyn DeviceControl>) -> Self {
        Scrubber { device, shared: Arc::default(), thread: Mutex::new(None) }
    }

    /// Starts a scrub of all data, at up to `rate` MiB/s.
    ///
    /// # Errors
    /// The device has no checksums, or is being scrubbed.
    pub fn start(&self, rate: u32) -> Result<(), String> {
        let mut running = self.thread.lock().expect("no thread panics while it starts a scrub");
        if self.shared.progress().state == State::Running {
            return Err("scrub: one is running; stop it first".to_owned());
        }
        // At the end of the device there is nothing to read.
        match self.device.scrub(self.device.limits().capacity) {
            Err(Status::NotSupported) => {
                return Err("scrub: the device has no checksums of its data".to_owned());
            }
            Err(status) => return Err(format!("scrub: {status}")),
            Ok(_) => {}
        }
        if let Some(ended) = running.take() {
            let _ = ended.join();
        }
        self.shared.stop.store(false, Ordering::Relaxed);
        *self.shared.progress() = Progress { state: State::Running, rate, ..Progress::default() };
        let (device, shared) = (Arc::clone(&self.device), Arc::clone(&self.shared));
        let scrub = move || scrub(&*device, &shared, rate);
        let spawned = thread::Builder::new().name("scrub".to_owned()).spawn(scrub);
        *running = Some(spawned.map_err(|error| {
            self.shared.progress().state = State::Stopped;
            format!("scrub: {error}")
        })?);
        Ok(())
    }

    /// Stops the scrub, if one is running, and waits until it has ended.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().expect("no thread panics while it starts a scrub").take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// The progress of the scrub that was started last.
    pub fn status(&self) -> Value {
        let capacity = self.device.limits().capacity;
        let progress = self.shared.progress();
        let percent = 100.0 * progress.next.0 as f64 / capacity.0.max(1) as f64;
        json!({
            "state": progress.state.name(),
            "percent": (percent * 10.0).round() / 10.0,
            "bytes": progress.bytes,
            "rate_mib": progress.rate,
            "damaged_blocks": progress.damaged,
            "damaged_sectors": progress.listed,
        })
    }
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        self.stop();
    }
}

fn scrub(device: &dyn DeviceControl, shared: &ScrubShared, rate: u32) {
    let bytes_per_second = f64::from(rate) * f64::from(1 << 20);
    let begin = Instant::now();
    let mut next = Sector(0);
    let stopped = || shared.stop.load(Ordering::Relaxed);
    while !stopped() {
        // What a later step fails with is a state of the device, such as offline: no data to check.
        let Ok(step) = device.scrub(next) else { break };
        let mut progress = shared.progress();
        progress.bytes += step.bytes;
        progress.damaged += step.damaged.len() as u64;
        let room = MAX_LISTED.saturating_sub(progress.listed.len());
        progress.listed.extend(step.damaged.iter().take(room).map(|sector| sector.0));
        let Some(from) = step.next else {
            progress.next = device.limits().capacity;
            progress.state = State::Finished;
            return;
        };
        (next, progress.next) = (from, from);
        let due = Duration::from_secs_f64(progress.bytes as f64 / bytes_per_second);
        drop(progress);
        let ahead = due.saturating_sub(begin.elapsed());
        retry(STOP_INTERVAL.min(ahead), ahead, || stopped().then_some(()));
    }
    shared.progress().state = State::Stopped;
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::{Device, HwQueue, Limits, Zone, ZoneNo};
    use zonal_device::control::ScrubStep;
    use zonal_device::device_spec;

    /// A device of 8 MiB, in pieces of 1 MiB, of which the third is damaged.
    struct Checked(Arc<dyn DeviceControl>);

    impl Device for Checked {
        fn limits(&self) -> &Limits {
            self.0.limits()
        }

        fn report_zones(&self, _: ZoneNo, _: usize, _: &mut Vec<Zone>) -> Result<(), Status> {
            Ok(())
        }

        fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
            Arc::clone(&self.0).open_queue()
        }
    }

    impl DeviceControl for Checked {
        fn scrub(&self, from: Sector) -> Result<ScrubStep, Status> {
            let next = Some(from + Sector(2048)).filter(|&next| next < self.limits().capacity);
            let damaged = if from == Sector(4096) { vec![from] } else { Vec::new() };
            Ok(ScrubStep { next, bytes: 1 << 20, damaged })
        }
    }

    fn device() -> Arc<dyn DeviceControl> {
        let spec = device_spec::parse("null:zones=8,zone_size=1M").expect("a spec");
        device_spec::build(&spec).expect("a device")
    }

    fn wait_for(scrubber: &Scrubber, state: &str) -> Value {
        let ended = || Some(scrubber.status()).filter(|status| status["state"] == state);
        retry(Duration::from_millis(1), Duration::from_secs(30), ended).expect("it ends")
    }

    #[test]
    fn damage_is_counted_and_listed() {
        let scrubber = Scrubber::new(Arc::new(Checked(device())));
        assert_eq!(scrubber.status()["state"], "idle");
        scrubber.start(1 << 20).expect("it starts");
        let status = wait_for(&scrubber, "finished");
        assert_eq!(status["bytes"], 8 << 20);
        assert_eq!(status["percent"], 100.0);
        assert_eq!(
            (&status["damaged_blocks"], &status["damaged_sectors"]),
            (&json!(1), &json!([4096]))
        );
    }

    #[test]
    fn a_scrub_runs_alone_at_its_rate_until_it_is_stopped() {
        let scrubber = Scrubber::new(Arc::new(Checked(device())));
        scrubber.start(1).expect("it starts");
        assert!(scrubber.start(1).expect_err("one is running").contains("stop it first"));
        scrubber.stop();
        let status = scrubber.status();
        assert_eq!(status["state"], "stopped");
        scrubber.start(1 << 20).expect("it starts again");
        wait_for(&scrubber, "finished");
    }

    #[test]
    fn a_device_without_checksums_is_not_scrubbed() {
        let error = Scrubber::new(device()).start(1).expect_err("there are none");
        assert_eq!(error, "scrub: the device has no checksums of its data");
    }
}
