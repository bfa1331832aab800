//! A device and the client that has it. It is polled by a thread of the server's, or in steps.
use super::super::guest::closer::ClientSocket;
use super::super::guest::memory::GuestMemory;
use super::super::guest::server::GuestEndpoint;
use super::super::guest::socket::{MessageSocket, SocketError};
use super::device::VirtioDevice;
use super::messages::Disconnect;
use super::session::{DeviceShared, Session};
use super::worker::{RunningWorker, StartWorker};
use std::sync::{Arc, RwLock};
use zonal_blk::{Nanos, Wake, WakeUp};
use zonal_os::poll::WaitSet;

/// The device of a server.
pub struct Endpoint {
    shared: Arc<DeviceShared>,
    session: Option<Session>,
    /// Of clients that are gone.
    workers: Vec<RunningWorker>,
}

impl Endpoint {
    /// A device without a client. `waker` wakes the thread that polls it, and `start` serves its rings.
    pub fn new(device: VirtioDevice, waker: Arc<dyn WakeUp>, start: StartWorker) -> Self {
        let memory = Arc::new(RwLock::new(GuestMemory::default()));
        let shared = Arc::new(DeviceShared { device: Arc::new(device), memory, waker, start });
        Endpoint { shared, session: None, workers: Vec::new() }
    }

    /// Disconnects the client. The workers of its rings end without it.
    pub fn leave(&mut self) {
        self.workers.extend(self.session.take().into_iter().flat_map(Session::leave));
    }
}

impl GuestEndpoint for Endpoint {
    const NAME: &'static str = "vhost-user";

    fn is_connected(&self) -> bool {
        self.session.is_some()
    }

    fn is_quiescent(&mut self) -> bool {
        self.workers.retain(|worker| worker.finished().is_none());
        self.workers.is_empty()
    }

    fn connect(&mut self, socket: ClientSocket) {
        self.session = Some(Session::new(MessageSocket::new(socket), Arc::clone(&self.shared)));
    }

    fn poll_session(&mut self, now: Nanos) -> bool {
        let Some(session) = &mut self.session else { return false };
        session.poll(now).unwrap_or_else(|why| {
            match why {
                Disconnect::Socket(SocketError::Closed) => tracing::debug!("vhost-user: {why}"),
                _ => tracing::warn!("vhost-user: the client was disconnected: {why}"),
            }
            self.leave();
            true
        })
    }

    fn poll(&mut self, _now: Nanos) -> bool {
        self.workers.retain(|worker| worker.finished().is_none());
        false
    }

    fn end(&mut self, _now: Nanos) -> bool {
        if self.session.as_mut().is_some_and(|session| !session.drain()) {
            return false;
        }
        self.leave();
        true
    }

    fn join(self) {
        self.workers.into_iter().for_each(RunningWorker::join);
    }

    fn next_event(&mut self) -> Wake {
        self.session.as_ref().map_or(Wake::Idle, Session::next_event)
    }

    fn wait_fds(&self, set: &mut WaitSet) {
        if let Some(session) = &self.session {
            session.wait_fds(set);
        }
    }
}
