//! Frames for all who look at a page: made while somebody does, and kept for nobody who is slow.
use super::frame::Frame;
use super::sampler::Sampler;
use crate::control::http::Feed;
use hyper::body::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task;
use tokio::time::{MissedTickBehavior, interval, timeout};
use zonal_blk::Nanos;

/// Time between two frames: five a second.
const INTERVAL: Duration = Duration::from_millis(200);
/// Most viewers at a time.
pub(super) const MAX_VIEWERS: usize = 16;
/// Frames that a viewer may be behind; it misses more.
const BEHIND: usize = 4;
/// How long a viewer may take no frame before its connection is closed.
const STALL: Duration = Duration::from_secs(20);

/// The frames of all watched devices.
pub(super) struct Hub {
    samplers: Mutex<Vec<Sampler>>,
    frames: broadcast::Sender<Bytes>,
    /// A task makes frames.
    sampling: AtomicBool,
    started: Instant,
}

impl Hub {
    pub(super) fn new(samplers: Vec<Sampler>) -> Self {
        Hub {
            samplers: Mutex::new(samplers),
            frames: broadcast::Sender::new(BEHIND),
            sampling: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    /// The frames from now on, as server-sent events. `None` if there are too many viewers. To be called
    /// within the server's runtime.
    pub(super) fn subscribe(self: &Arc<Self>) -> Option<Feed> {
        if self.frames.receiver_count() >= MAX_VIEWERS {
            return None;
        }
        let (send, frames) = mpsc::channel(1);
        let stalled = Arc::new(AtomicBool::new(false));
        task::spawn(forward(self.frames.subscribe(), send, Arc::clone(&stalled)));
        if !self.sampling.swap(true, Ordering::AcqRel) {
            task::spawn(Arc::clone(self).sample());
        }
        Some(Feed { parts: frames, stalled })
    }

    /// Makes frames until nobody looks.
    async fn sample(self: Arc<Self>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.watch(true);
        loop {
            ticks.tick().await;
            if self.frames.receiver_count() == 0 {
                self.watch(false);
                self.sampling.store(false, Ordering::Release);
                // Whoever came meanwhile found a task that makes frames.
                let is_seen = self.frames.receiver_count() > 0;
                if !is_seen || self.sampling.swap(true, Ordering::AcqRel) {
                    return;
                }
                self.watch(true);
            }
            let hub = Arc::clone(&self);
            // A device may have to be waited for.
            if let Ok(frame) = task::spawn_blocking(move || hub.frame()).await {
                // Without a viewer the next turn ends this.
                let _ = self.frames.send(frame);
            }
        }
    }

    fn watch(&self, watched: bool) {
        self.samplers().iter_mut().for_each(|sampler| sampler.watch(watched));
    }

    fn samplers(&self) -> MutexGuard<'_, Vec<Sampler>> {
        self.samplers.lock().expect("no thread panics with the samplers")
    }

    /// A frame of each device, as an event.
    fn frame(&self) -> Bytes {
        let at = Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let frames: Vec<Frame> =
            self.samplers().iter_mut().map(|sampler| sampler.sample(at)).collect();
        let json = serde_json::to_string(&frames).expect("frames have no maps");
        Bytes::from(format!("data: {json}\n\n"))
    }
}

/// Brings frames to one viewer. The one that is slow misses some; the one that takes none is dropped.
async fn forward(
    mut frames: broadcast::Receiver<Bytes>,
    send: mpsc::Sender<Bytes>,
    stalled: Arc<AtomicBool>,
) {
    loop {
        let frame = match frames.recv().await {
            Ok(frame) => frame,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        match timeout(STALL, send.send(frame)).await {
            Ok(Ok(())) => {}
            // The connection is closed.
            Ok(Err(_)) => return,
            Err(_) => return stalled.store(true, Ordering::Release),
        }
    }
}
