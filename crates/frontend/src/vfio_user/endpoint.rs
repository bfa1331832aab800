//! A function and the client that has it. It is polled by a thread of the server's, or in steps.
use super::super::guest::closer::ClientSocket;
use super::super::guest::memory::GuestMemory;
use super::super::guest::socket::{MessageSocket, SocketError};
use super::messages::Disconnect;
use super::session::{Device, FunctionShared, Session};
use super::vectors::Vectors;
use std::sync::{Arc, RwLock};
use zonal_blk::Nanos;
use zonal_nvme::controller::Subsystem;
use zonal_nvme::controller::pcie::{Function, IoWorker};

/// The controller of a server.
pub struct Endpoint {
    pub function: Function,
    pub shared: FunctionShared,
    pub session: Option<Session>,
}

impl Endpoint {
    /// A controller of `subsystem` with up to `io_queues` I/O queues. `None` if the subsystem has too
    /// many.
    pub fn new(now: Nanos, subsystem: &Arc<Subsystem>, io_queues: u16) -> Option<Self> {
        let function = Function::new(now, subsystem, io_queues)?;
        let shared = FunctionShared {
            memory: Arc::new(RwLock::new(GuestMemory::default())),
            vectors: Arc::new(Vectors::new(function.vectors())),
        };
        Some(Endpoint { function, shared, session: None })
    }

    /// Gives the function, which must be quiescent, to a client.
    pub fn connect(&mut self, socket: ClientSocket) {
        self.session = Some(Session::new(MessageSocket::new(socket), self.shared.clone()));
    }

    /// Executes what the client has sent. Returns whether there was anything to do.
    pub fn poll_session(&mut self, now: Nanos) -> bool {
        let Some(session) = &mut self.session else { return false };
        let polled = session.poll(&mut Device { function: &mut self.function, now });
        polled.unwrap_or_else(|why| {
            match why {
                Disconnect::Socket(SocketError::Closed) => tracing::debug!("vfio-user: {why}"),
                _ => tracing::warn!("vfio-user: the client was disconnected: {why}"),
            }
            self.leave(now);
            true
        })
    }

    /// Executes admin commands. Returns whether there was anything to do.
    pub fn poll_function(&mut self, now: Nanos) -> bool {
        let memory = self.shared.memory.read().expect("memory lock");
        let (worked, interrupt) = self.function.poll(now, &*memory);
        drop(memory);
        if interrupt {
            self.shared.vectors.interrupt(0);
        }
        worked
    }

    /// A worker for a completion queue that the guest has created.
    pub fn take_worker(&mut self) -> Option<IoWorker> {
        self.function.take_worker()
    }

    /// Resets the function, and forgets the client and all it shared.
    pub fn leave(&mut self, now: Nanos) {
        self.session = None;
        self.function.reset(now);
        self.shared.memory.write().expect("memory lock").clear();
        self.shared.vectors.clear();
    }
}
