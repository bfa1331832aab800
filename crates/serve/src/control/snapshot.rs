//! Values of a metrics page that a device may be slow to report: its zones and events.
//!
//! A thread asks the device, one at a time. A page waits for the answer up to [`PATIENCE`] and has
//! the last one otherwise; while the thread still waits, later pages have that immediately.
use super::managed::ManagedDevice;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::{Queue, ZoneNo};
use zonal_device::control::{DeviceControl, DeviceStats, Lateness};
use zonal_os::poll::retry;

/// How long a page waits for a device, from when that was asked.
const PATIENCE: Duration = Duration::from_secs(1);
/// How soon it sees the answer.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// A device's answer.
#[derive(Default)]
pub(super) struct Answer {
    /// Zones by condition; empty if the device does not report them.
    pub zones: BTreeMap<&'static str, u32>,
    /// Its events.
    pub stats: DeviceStats,
    /// How often its model was late.
    pub lateness: Option<Lateness>,
}

impl Answer {
    fn of(queue: &Queue, device: &dyn DeviceControl) -> Self {
        let mut report = Vec::new();
        // A report that fails has no zones.
        let _ = queue.report_zones(ZoneNo(0), queue.limits().nr_zones as usize, &mut report);
        let mut zones: BTreeMap<&'static str, u32> = BTreeMap::new();
        for zone in &report {
            *zones.entry(zone.cond.long()).or_default() += 1;
        }
        Answer { zones, stats: device.stats(), lateness: device.lateness() }
    }
}

#[derive(Default)]
struct State {
    /// When the device was asked, while it has not answered.
    asked: Option<Instant>,
    answer: Arc<Answer>,
}

/// The last answer of one device.
#[derive(Default)]
pub(super) struct Snapshot(Arc<Mutex<State>>);

impl Snapshot {
    /// Asks the device, unless it is being asked.
    pub fn ask(&self, managed: &ManagedDevice) {
        let mut state = lock(&self.0);
        if state.asked.is_some() {
            return;
        }
        let (queue, device) = (Arc::clone(&managed.queue), Arc::clone(&managed.device));
        let shared = Arc::clone(&self.0);
        let ask = move || {
            let answer = Arc::new(Answer::of(&queue, &*device));
            *lock(&shared) = State { asked: None, answer };
        };
        // Without a thread the last answer stays.
        let started = thread::Builder::new().name("snapshot".to_owned()).spawn(ask);
        state.asked = started.is_ok().then(Instant::now);
    }

    /// The answer, or the last one and for how long the device has owed another.
    pub fn answer(&self) -> (Arc<Answer>, Duration) {
        let asked = lock(&self.0).asked;
        let patience =
            asked.map_or(Duration::ZERO, |asked| PATIENCE.saturating_sub(asked.elapsed()));
        retry(CHECK_INTERVAL, patience, || lock(&self.0).asked.is_none().then_some(()));
        let state = lock(&self.0);
        (Arc::clone(&state.answer), state.asked.map_or(Duration::ZERO, |asked| asked.elapsed()))
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no thread panics with the answer locked")
}
