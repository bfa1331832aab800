//! A server without a thread and without a path: its owner polls it. For tests and fuzzing.
use super::super::guest::closer::Closer;
use super::endpoint::Endpoint;
use super::worker;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use zonal_blk::Nanos;
use zonal_nvme::controller::Subsystem;
use zonal_nvme::controller::pcie::IoWorker;

/// A controller that does nothing but in [`Stepped::poll`].
pub struct Stepped {
    endpoint: Endpoint,
    workers: Vec<IoWorker>,
}

impl Stepped {
    /// A controller of `subsystem` with up to `io_queues` I/O queues. `None` if the subsystem has too
    /// many.
    pub fn new(now: Nanos, subsystem: &Arc<Subsystem>, io_queues: u16) -> Option<Self> {
        let endpoint = Endpoint::new(now, subsystem, io_queues)?;
        Some(Stepped { endpoint, workers: Vec::new() })
    }

    /// Takes a client, unless there is one or I/O of the last one is in flight. Returns whether it was
    /// taken.
    pub fn connect(&mut self, socket: UnixStream) -> bool {
        let free = self.endpoint.session.is_none() && self.endpoint.function.is_quiescent();
        if free {
            self.endpoint.connect(Closer::default().client(socket));
        }
        free
    }

    /// Whether a client has the controller.
    pub fn is_connected(&self) -> bool {
        self.endpoint.session.is_some()
    }

    /// Disconnects the client.
    pub fn disconnect(&mut self, now: Nanos) {
        self.endpoint.leave(now);
    }

    /// Does once what the threads of a server do again and again. Returns whether there was anything to
    /// do.
    pub fn poll(&mut self, now: Nanos) -> bool {
        let mut worked = self.endpoint.poll_session(now);
        worked |= self.endpoint.poll_function(now);
        while let Some(worker) = self.endpoint.take_worker() {
            self.workers.push(worker);
        }
        let shared = &self.endpoint.shared;
        self.workers.retain_mut(|queue| {
            let polled = worker::step(queue, shared, now);
            worked |= polled.worked || polled.done;
            !polled.done
        });
        worked
    }

    /// As threads do with nothing to do: the guest then writes doorbells, and does not before.
    pub fn sleep(&mut self) {
        let memory = self.endpoint.shared.memory.read().expect("memory lock");
        for queue in &mut self.workers {
            queue.prepare_to_sleep(&*memory);
            queue.awake();
        }
    }
}

impl Drop for Stepped {
    /// Waits for the I/O in flight, in steps of a second.
    fn drop(&mut self) {
        let mut now = Nanos(u64::MAX / 2);
        self.endpoint.leave(now);
        while !self.workers.is_empty() || !self.endpoint.function.is_quiescent() {
            now += Nanos(1_000_000_000);
            self.poll(now);
        }
    }
}
