//! The listening socket, and the thread that has the client.
use super::super::guest::memory::GuestMemory;
use super::super::guest::socket::SocketError;
use super::device::{DeviceError, VirtioDevice};
use super::messages::{Disconnect, Messages};
use super::session::{Session, Shared};
use super::worker::RunningWorker;
use crate::RealClock;
use crate::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, Waker, serve};
use crate::unix_socket::BoundSocket;
use std::convert::Infallible;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::{self, JoinHandle};
use zonal_blk::{Channel, Nanos, Queue, Wake, WakeUp};

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Virtqueues, each with a thread while the guest uses it: 1 to 256.
    pub queues: u16,
    /// What the guest finds as the device's serial number: up to 20 characters of it.
    pub serial: String,
    /// How the threads of the queues wait.
    pub waiting: WaitPolicy,
    /// The clock, the same for all users of a device.
    pub clock: RealClock,
}

/// Why a device is not served.
#[derive(Debug, thiserror::Error)]
pub enum VhostUserError {
    /// The path is in use, the socket cannot be created, or the system has no resources left.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// virtio has no such devices.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A device that a virtual machine can have. Dropping it ends that, answers the requests in flight, and
/// removes the socket.
pub struct Server {
    socket: Arc<BoundSocket>,
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Offers the device behind `queue` at the socket `path`, which only the user may open. A socket
    /// without a server is replaced.
    ///
    /// # Errors
    /// See [`VhostUserError`].
    ///
    /// # Panics
    /// If the number of queues is 0 or more than 256.
    pub fn start(
        path: &Path,
        queue: &Arc<Queue>,
        config: ServerConfig,
    ) -> Result<Self, VhostUserError> {
        assert!((1..=256).contains(&config.queues), "{} queues", config.queues);
        let device = Arc::new(VirtioDevice::new(queue, config.queues, &config.serial)?);
        let socket = Arc::new(BoundSocket::new(path)?);
        socket.listener.set_nonblocking(true)?;
        let poller = Poller::new(WaitPolicy::default())?;
        let waker = poller.waker();
        let stopping = Arc::new(AtomicBool::new(false));
        let memory = Arc::new(RwLock::new(GuestMemory::default()));
        let serving = Serving {
            socket: Arc::clone(&socket),
            shared: Arc::new(Shared { device, config, memory, waker: Arc::clone(&waker) }),
            session: None,
            next: None,
            workers: Vec::new(),
            stopping: Arc::clone(&stopping),
        };
        let thread = thread::Builder::new().name("vhost-user".to_owned());
        let thread = thread.spawn(move || serving.run(poller))?;
        Ok(Server { socket, stopping, waker, thread: Some(thread) })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// The thread of a server.
struct Serving {
    socket: Arc<BoundSocket>,
    shared: Arc<Shared>,
    session: Option<Session>,
    /// A client that waits until I/O of the last one has ended.
    next: Option<UnixStream>,
    /// Of clients that are gone.
    workers: Vec<RunningWorker>,
    stopping: Arc<AtomicBool>,
}

impl Serving {
    fn run(mut self, mut poller: Poller) {
        let clock = self.shared.config.clock.clone();
        let Ok(()) = serve(&mut self, &clock, &mut poller);
        self.workers.into_iter().for_each(RunningWorker::join);
    }

    /// Accepts a client, when I/O of the last one has ended. Returns whether there was one.
    fn accept(&mut self) -> bool {
        if self.next.is_none() {
            // An error is that nobody is there, or has gone again.
            self.next = self.socket.listener.accept().ok().map(|(socket, _)| socket);
        }
        let Some(socket) = self.next.take() else { return false };
        // The last client may have gone before this one came.
        while self.session.is_some() && self.poll_session() {}
        self.workers.retain(|worker| worker.finished().is_none());
        if self.session.is_some() {
            tracing::warn!("vhost-user: a second client was turned away");
        } else if !self.workers.is_empty() {
            self.next = Some(socket);
            return false;
        } else if socket.set_nonblocking(true).is_ok() {
            tracing::debug!("vhost-user: a client has connected");
            self.session = Some(Session::new(Messages::new(socket), Arc::clone(&self.shared)));
        }
        true
    }

    fn poll_session(&mut self) -> bool {
        let Some(session) = &mut self.session else { return false };
        session.poll().unwrap_or_else(|why| {
            match why {
                Disconnect::Socket(SocketError::Closed) => tracing::debug!("vhost-user: {why}"),
                _ => tracing::warn!("vhost-user: the client was disconnected: {why}"),
            }
            self.leave();
            true
        })
    }

    fn leave(&mut self) {
        self.workers.extend(self.session.take().into_iter().flat_map(Session::leave));
    }
}

impl Frontend for Serving {
    type Error = Infallible;

    fn poll(&mut self, _clock: &RealClock) -> Result<Progress, Infallible> {
        if self.stopping.load(Ordering::Acquire) {
            if self.session.as_mut().is_some_and(|session| !session.drain()) {
                return Ok(Progress::Idle);
            }
            self.leave();
            return Ok(Progress::Done);
        }
        let mut worked = self.poll_session();
        worked |= self.accept();
        self.workers.retain(|worker| worker.finished().is_none());
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }

    fn drain(&mut self, _now: Nanos) -> bool {
        true
    }

    fn for_each_channel(&mut self, _visit: &mut dyn FnMut(&mut Channel)) {}

    fn wait_fds(&mut self, set: &mut WaitSet) {
        if self.stopping.load(Ordering::Acquire) {
            return;
        }
        if let Some(session) = &self.session {
            if session.wants_input() {
                set.read(session.messages.fd());
            }
            if session.messages.has_unsent() {
                set.write(session.messages.fd());
            }
        }
        if self.next.is_none() {
            set.read(self.socket.listener.as_raw_fd());
        }
    }

    fn next_event(&mut self, _now: Nanos) -> Wake {
        Wake::Idle
    }
}
