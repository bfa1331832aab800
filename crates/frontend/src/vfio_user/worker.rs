//! The frontend of a completion queue.
use super::session::FunctionShared;
use std::convert::Infallible;
use std::sync::Arc;
use zonal_blk::{Channel, Clock, Nanos, Wake, WakeUp};
use zonal_nvme::controller::pcie::{IoWorker, Polled};
use zonal_os::RealClock;
use zonal_os::bus_error;
use zonal_os::poll::{Frontend, Poller, Progress, WaitSet, Waker, serve};

/// A completion queue and its submission queues.
pub struct Worker {
    queue: IoWorker,
    shared: FunctionShared,
    /// Of the thread that has the client.
    server: Arc<Waker>,
}

impl Worker {
    pub fn new(queue: IoWorker, shared: FunctionShared, server: Arc<Waker>) -> Self {
        Worker { queue, shared, server }
    }

    /// Serves the queue until it is deleted, or the controller is reset.
    pub fn run(mut self, clock: &RealClock, mut poller: Poller) {
        self.queue.set_waker(poller.waker());
        let Ok(()) = serve(&mut self, clock, &mut poller);
    }
}

/// Polls a queue, and interrupts the guest.
pub fn step(queue: &mut IoWorker, shared: &FunctionShared, now: Nanos) -> Polled {
    // Held for the whole of a poll: memory that was unmapped is not accessed any more.
    let memory = shared.memory.read().expect("memory lock");
    let polled = queue.poll(now, &*memory);
    drop(memory);
    if let Some(vector) = polled.interrupt {
        shared.vectors.interrupt(vector);
    }
    polled
}

impl Frontend for Worker {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        let polled = step(&mut self.queue, &self.shared, clock.now());
        if bus_error::any_lost() {
            self.server.wake();
        }
        Ok(match polled {
            _ if polled.done => Progress::Done,
            _ if polled.worked => Progress::Worked,
            _ => Progress::Idle,
        })
    }

    /// The queue is done when nothing depends on its channels.
    fn drain(&mut self, _now: Nanos) -> bool {
        true
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        self.queue.for_each_channel(visit);
    }

    fn wait_fds(&mut self, _set: &mut WaitSet) {}

    fn next_event(&mut self, _now: Nanos) -> Wake {
        self.queue.next_event()
    }

    fn prepare_to_sleep(&mut self) -> bool {
        let memory = self.shared.memory.read().expect("memory lock");
        self.queue.prepare_to_sleep(&*memory)
    }

    fn awake(&mut self) {
        self.queue.awake();
    }
}
