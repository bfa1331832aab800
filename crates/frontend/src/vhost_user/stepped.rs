//! A server without a thread and without a path: its owner polls it. For tests and fuzzing.
use super::super::guest::closer::Closer;
use super::super::guest::server::GuestEndpoint;
use super::device::{DeviceError, VirtioDevice};
use super::endpoint::Endpoint;
use super::worker::SteppedWorker;
use std::mem::take;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use zonal_blk::{Nanos, Queue};

/// A device that does nothing but in [`Stepped::poll`].
pub struct Stepped {
    endpoint: Endpoint,
    workers: Arc<Mutex<Vec<SteppedWorker>>>,
}

impl Stepped {
    /// The device behind `queue`, with 1 to 256 virtqueues.
    ///
    /// # Errors
    /// virtio has no such devices.
    pub fn new(queue: &Arc<Queue>, queues: u16) -> Result<Self, DeviceError> {
        let device = VirtioDevice::new(queue, queues, "stepped")?;
        let workers = Arc::<Mutex<Vec<SteppedWorker>>>::default();
        let started = Arc::clone(&workers);
        let start = Box::new(move |_, worker: super::worker::Worker| {
            let (running, stepped) = worker.stepped();
            started.lock().unwrap_or_else(PoisonError::into_inner).push(stepped);
            Ok(running)
        });
        Ok(Stepped { endpoint: Endpoint::new(device, Arc::new(|| {}), start), workers })
    }

    /// Takes a client, unless there is one or I/O of the last one is in flight. Returns whether it was
    /// taken.
    pub fn connect(&mut self, socket: UnixStream) -> bool {
        let free = !self.endpoint.is_connected() && self.endpoint.is_quiescent();
        if free {
            self.endpoint.connect(Closer::default().client(socket));
        }
        free
    }

    /// Whether a client has the device.
    pub fn is_connected(&self) -> bool {
        self.endpoint.is_connected()
    }

    /// Disconnects the client.
    pub fn disconnect(&mut self) {
        self.endpoint.leave();
    }

    /// Does once what the threads of a server do again and again. Returns whether there was anything to
    /// do.
    pub fn poll(&mut self, now: Nanos) -> bool {
        let mut worked = self.endpoint.poll_session(now);
        let mut workers = self.workers.lock().expect("workers lock");
        for worker in take(&mut *workers) {
            let (left, did) = worker.step(now);
            workers.extend(left);
            worked |= did;
        }
        worked
    }

    /// As threads do with nothing to do: the guest then has to kick, and does not before.
    pub fn sleep(&mut self) {
        self.workers.lock().expect("workers lock").iter_mut().for_each(SteppedWorker::sleep);
    }
}

impl Drop for Stepped {
    /// Waits for the I/O in flight, in steps of a second.
    fn drop(&mut self) {
        let mut now = Nanos(u64::MAX / 2);
        self.endpoint.leave();
        while !self.workers.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            now += Nanos(1_000_000_000);
            self.poll(now);
        }
    }
}
