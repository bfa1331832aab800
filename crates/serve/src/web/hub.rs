//! Frames for all viewers of a page: made while there are any, and not kept for slow ones.
use super::frame::Frame;
use super::sampler::Sampler;
use crate::control::http::Feed;
use hyper::body::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::{self, AbortHandle};
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
    /// The oldest first.
    viewers: Mutex<VecDeque<Viewer>>,
    /// A task makes frames.
    sampling: AtomicBool,
    started: Instant,
}

/// A viewer.
struct Viewer {
    /// Brings it frames.
    task: AbortHandle,
    stalled: Arc<AtomicBool>,
}

impl Hub {
    pub(super) fn new(samplers: Vec<Sampler>) -> Self {
        Hub {
            samplers: Mutex::new(samplers),
            frames: broadcast::Sender::new(BEHIND),
            viewers: Mutex::default(),
            sampling: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    /// The frames from now on, as server-sent events. Where there are [`MAX_VIEWERS`], the one that has
    /// looked for longest makes room; a browser comes back by itself. What a viewer does not read is in
    /// buffers of two kernels for a long time, so those who are gone cannot be distinguished from those
    /// who look. To be called within the server's runtime.
    pub(super) fn subscribe(self: &Arc<Self>) -> Feed {
        let mut viewers = self.viewers.lock().expect("no thread panics with the viewers");
        viewers.retain(|viewer| !viewer.task.is_finished());
        while viewers.len() >= MAX_VIEWERS
            && let Some(oldest) = viewers.pop_front()
        {
            oldest.stalled.store(true, Ordering::Release);
            oldest.task.abort();
        }
        let (send, frames) = mpsc::channel(1);
        let stalled = Arc::new(AtomicBool::new(false));
        let task = task::spawn(forward(self.frames.subscribe(), send, Arc::clone(&stalled)));
        viewers.push_back(Viewer { task: task.abort_handle(), stalled: Arc::clone(&stalled) });
        drop(viewers);
        if !self.sampling.swap(true, Ordering::AcqRel) {
            task::spawn(Arc::clone(self).sample());
        }
        Feed { parts: frames, stalled }
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
                // A viewer that came meanwhile saw that a task makes frames, and started none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_read_nothing_lock_nobody_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let hub = Arc::new(Hub::new(Vec::new()));
            let mut feeds: VecDeque<Feed> = (0..MAX_VIEWERS).map(|_| hub.subscribe()).collect();
            let mut late = hub.subscribe();
            assert!(feeds.iter().skip(1).all(|feed| !feed.stalled.load(Ordering::Acquire)));
            let mut oldest = feeds.pop_front().expect("there are sixteen");
            assert!(oldest.stalled.load(Ordering::Acquire), "its connection is closed");
            while oldest.parts.recv().await.is_some() {}
            assert!(late.parts.recv().await.is_some(), "frames");
        });
    }
}
