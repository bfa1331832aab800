//! A server of virtual machines: a listening socket, and a thread that has one client at a time.
use super::closer::{ClientSocket, Closer};
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use zonal_blk::{Channel, Clock, Nanos, Wake, WakeUp};
use zonal_os::RealClock;
use zonal_os::poll::{Frontend, Poller, Progress, WaitSet, Waker, serve};
use zonal_os::unix_socket::BoundSocket;

/// Messages that a client may have sent just before it went.
const MAX_LAST: usize = 1024;
/// How long no client is accepted after an error.
const RETRY_INTERVAL: Nanos = Nanos(50_000_000);

/// The controller or device that a client uses.
pub trait GuestEndpoint: Send + 'static {
    /// The protocol.
    const NAME: &'static str;

    /// Whether a client has it.
    fn is_connected(&self) -> bool;

    /// Whether all I/O of clients that are gone has ended.
    fn is_quiescent(&mut self) -> bool;

    /// Takes a client, where there is none.
    fn connect(&mut self, socket: ClientSocket);

    /// Executes what the client has sent. Returns whether there was anything to do.
    fn poll_session(&mut self, now: Nanos) -> bool;

    /// Does all else that there is to do. Returns whether there was any.
    fn poll(&mut self, now: Nanos) -> bool;

    /// Disconnects the client; called until it returns that nobody is there any more, and nothing depends on
    /// the channels.
    fn end(&mut self, now: Nanos) -> bool;

    /// Visits the channels that the thread of the client polls.
    fn for_each_channel(&mut self, _visit: &mut dyn FnMut(&mut Channel)) {}

    /// Waits for threads that do I/O.
    fn join(self);

    /// When to poll next, unless a message arrives.
    fn next_event(&mut self) -> Wake;

    /// Adds the client's socket.
    fn wait_fds(&self, set: &mut WaitSet);
}

/// A running server. Dropping it ends it, and removes the socket.
pub struct RunningServer {
    socket: Arc<BoundSocket>,
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl RunningServer {
    /// Serves clients at the socket `path`, which only the user may open, by a thread with this poller. A
    /// socket without a server is replaced.
    ///
    /// # Errors
    /// The path is in use, the socket cannot be created, or the system has no resources left.
    pub fn start<S: GuestEndpoint>(
        path: &Path,
        endpoint: S,
        clock: &RealClock,
        poller: Poller,
    ) -> io::Result<Self> {
        let socket = Arc::new(BoundSocket::new(path)?);
        socket.listener.set_nonblocking(true)?;
        let (waker, stopping) = (poller.waker(), Arc::new(AtomicBool::new(false)));
        let serving = Serving {
            clients: Clients::new(Arc::clone(&socket)),
            endpoint,
            stopping: Arc::clone(&stopping),
        };
        let (thread, clock) = (thread::Builder::new().name(S::NAME.to_owned()), clock.clone());
        let thread = thread.spawn(move || serving.run(&clock, poller))?;
        Ok(RunningServer { socket, stopping, waker, thread: Some(thread) })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Clients that wait to be served.
struct Clients {
    socket: Arc<BoundSocket>,
    closer: Closer,
    /// One that waits until I/O of the last one has ended.
    next: Option<ClientSocket>,
    /// When to accept again after an error.
    retry: Option<Nanos>,
}

impl Clients {
    fn new(socket: Arc<BoundSocket>) -> Self {
        Clients { socket, closer: Closer::default(), next: None, retry: None }
    }

    /// The next client, if there is one.
    fn take(&mut self, now: Nanos) -> Option<ClientSocket> {
        if self.next.is_none() && self.retry.is_none_or(|retry| retry <= now) {
            let accepted = if self.closer.has_room() {
                self.socket.listener.accept().map(|(client, _)| self.closer.client(client))
            } else {
                Err(io::Error::other("clients have left too much that cannot be closed"))
            };
            self.accepted(now, accepted);
        }
        self.next.take()
    }

    fn accepted(&mut self, now: Nanos, accepted: io::Result<ClientSocket>) {
        let error = match accepted {
            Ok(client) => {
                self.retry = None;
                match self.socket.admit(client.socket()) {
                    Ok(()) => self.next = Some(client),
                    Err(error) => {
                        let path = self.socket.path.display();
                        tracing::warn!("{path}: turned a client away: {error}");
                    }
                }
                return;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return self.retry = None,
            Err(error) => error,
        };
        // No descriptors left, for example: the client is still there, and would wake us immediately.
        if self.retry.is_none() {
            let path = self.socket.path.display();
            tracing::warn!("{path}: cannot accept a client, and will try again: {error}");
        }
        self.retry = Some(now + RETRY_INTERVAL);
    }

    fn wait_fds(&self, set: &mut WaitSet) {
        if self.next.is_none() && self.retry.is_none() {
            set.read(self.socket.listener.as_raw_fd());
        }
    }
}

/// The thread of a server.
struct Serving<S> {
    clients: Clients,
    endpoint: S,
    stopping: Arc<AtomicBool>,
}

impl<S: GuestEndpoint> Serving<S> {
    fn run(mut self, clock: &RealClock, mut poller: Poller) {
        let Ok(()) = serve(&mut self, clock, &mut poller);
        self.endpoint.join();
    }

    /// Accepts a client, when I/O of the last one has ended. Returns whether there was one.
    fn accept(&mut self, now: Nanos) -> bool {
        let Some(socket) = self.clients.take(now) else { return false };
        // The last client may have gone before this one came, and what it sent is still there.
        (0..MAX_LAST).any(|_| !self.endpoint.poll_session(now));
        if self.endpoint.is_connected() {
            tracing::warn!("{}: a second client was turned away", S::NAME);
        } else if !self.endpoint.is_quiescent() {
            self.clients.next = Some(socket);
            return false;
        } else {
            tracing::debug!("{}: a client has connected", S::NAME);
            self.endpoint.connect(socket);
        }
        true
    }
}

impl<S: GuestEndpoint> Frontend for Serving<S> {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        let now = clock.now();
        if self.stopping.load(Ordering::Acquire) {
            return Ok(if self.endpoint.end(now) { Progress::Done } else { Progress::Idle });
        }
        let mut worked = self.endpoint.poll_session(now);
        worked |= self.accept(now);
        worked |= self.endpoint.poll(now);
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }

    fn drain(&mut self, _now: Nanos) -> bool {
        true
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        self.endpoint.for_each_channel(visit);
    }

    fn wait_fds(&mut self, set: &mut WaitSet) {
        // The end is not delayed by a thread that writes.
        if !self.stopping.load(Ordering::Acquire) {
            self.endpoint.wait_fds(set);
            self.clients.wait_fds(set);
        }
    }

    fn next_event(&mut self, _now: Nanos) -> Wake {
        let retry = self.clients.retry.map_or(Wake::Idle, Wake::At);
        retry.min(self.endpoint.next_event())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn server_that_cannot_accept_waits_before_it_tries_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = BoundSocket::new(&directory.path().join("s")).expect("a socket");
        socket.listener.set_nonblocking(true).expect("a socket");
        let mut clients = Clients::new(Arc::new(socket));
        let _client = UnixStream::connect(&clients.socket.path).expect("a server");
        clients.accepted(Nanos(5), Err(rustix::io::Errno::MFILE.into()));
        let retry = clients.retry.expect("a time");
        assert_eq!(retry, Nanos(5) + RETRY_INTERVAL);
        assert!(clients.take(retry - Nanos(1)).is_none(), "too early");
        assert!(clients.take(retry).is_some());
        assert!(clients.take(retry).is_none(), "there was one");
        assert_eq!(clients.retry, None);
    }
}
