//! Closes descriptors of clients, where close(2) may block.
//!
//! Closing the last descriptor of a file calls its file system, which may be a FUSE file system that does
//! not answer; closing that of a socket may wait for its peer (`SO_LINGER`), also for the peers of sockets
//! in messages that nobody has received. A thread that serves clients must not block in either.
//!
//! A descriptor that waits counts for the client that has sent it, and is closed by one thread of that
//! client's. The descriptors that clients have left count for their export, which then accepts no other
//! client: no export stands in the way of another.
use rustix::fs::{fcntl_get_seals, readlink};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// No message of a client is received while as many of its descriptors wait to be closed. One message can
/// add several, so that more may wait.
pub const MAX_WAITING: usize = 16;
/// No client is accepted while as many that are gone have descriptors waiting, each with a thread.
const MAX_GONE: usize = 16;
/// No client is accepted while clients that are gone have left as many descriptors: more than one client
/// can leave, so that one alone does not lock out the next.
const MAX_LEFT: usize = 320;

/// Starts a thread.
type Start = dyn Fn(Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync;

/// Closes the descriptors of an export's clients.
pub struct Closer {
    start: Arc<Start>,
    /// Those of clients that are there, or of which some wait.
    clients: Mutex<Vec<Arc<Waiting>>>,
}

impl Default for Closer {
    fn default() -> Self {
        Closer::new(|work| thread::Builder::new().name("close".to_owned()).spawn(work).map(drop))
    }
}

impl Closer {
    fn new(
        start: impl Fn(Box<dyn FnOnce() + Send>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Closer { start: Arc::new(start), clients: Mutex::default() }
    }

    /// The socket of a client.
    pub fn client(&self, socket: UnixStream) -> ClientSocket {
        let waiting = Arc::new(Waiting { start: Arc::clone(&self.start), fds: Mutex::default() });
        lock(&self.clients).push(Arc::clone(&waiting));
        ClientSocket { socket: Some(socket), waiting }
    }

    /// Whether another client may be accepted. Tries again to start threads that could not be started.
    pub fn has_room(&self) -> bool {
        let mut clients = lock(&self.clients);
        clients.retain(|client| {
            client.close([]);
            let fds = lock(&client.fds);
            !fds.is_gone || fds.count > 0
        });
        let left: Vec<usize> = clients
            .iter()
            .map(|client| lock(&client.fds))
            .filter_map(|fds| fds.is_gone.then_some(fds.count))
            .collect();
        left.len() < MAX_GONE && left.iter().sum::<usize>() < MAX_LEFT
    }
}

/// A client's socket. Dropping it disconnects the client.
pub struct ClientSocket {
    /// `None` only while it is being dropped.
    socket: Option<UnixStream>,
    waiting: Arc<Waiting>,
}

impl ClientSocket {
    pub fn socket(&self) -> &UnixStream {
        self.socket.as_ref().expect("it is taken only when dropped")
    }

    /// Whether [`MAX_WAITING`] is reached: nothing that the client sends may be received.
    pub fn is_full(&self) -> bool {
        lock(&self.waiting.fds).count >= MAX_WAITING
    }

    /// Descriptors that close(2) does not block on: those that were sent, or, in place of one that no
    /// message may have, `/dev/null`, which is refused like it.
    ///
    /// # Errors
    /// `/dev/null` cannot be opened, as without free file descriptors. All are closed then.
    pub fn usable(&self, fds: impl IntoIterator<Item = OwnedFd>) -> io::Result<Vec<OwnedFd>> {
        let (mut usable, mut unusable) = (Vec::new(), Vec::new());
        for fd in fds {
            if closes_without_waiting(&fd) {
                usable.push(Ok(fd));
            } else {
                usable.push(File::open("/dev/null").map(OwnedFd::from));
                unusable.push(fd);
            }
        }
        self.waiting.close(unusable);
        usable.into_iter().collect()
    }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            // The client sees it before the socket's turn to be closed. That also closes the descriptors of
            // messages that were not received.
            let _ = socket.shutdown(Shutdown::Both);
            self.waiting.close([socket.into()]);
        }
        lock(&self.waiting.fds).is_gone = true;
    }
}

/// Whether close(2) cannot block: files in memory, eventfds and pipes. Calls no file system of the client's.
fn closes_without_waiting(fd: &OwnedFd) -> bool {
    // Only files in memory have seals.
    let name = || readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new());
    fcntl_get_seals(fd).is_ok()
        || name().is_ok_and(|name| {
            let name = name.to_bytes();
            name == b"anon_inode:[eventfd]" || name.starts_with(b"pipe:[")
        })
}

/// The descriptors that a client has sent and that are not closed yet.
struct Waiting {
    start: Arc<Start>,
    fds: Mutex<Fds>,
}

#[derive(Default)]
struct Fds {
    queued: VecDeque<OwnedFd>,
    /// The queued ones, and the one that is being closed.
    count: usize,
    has_thread: bool,
    /// Whether the client is no more.
    is_gone: bool,
}

impl Waiting {
    /// Closes these, and what could not be closed before for want of a thread, in turn.
    fn close(self: &Arc<Self>, more: impl IntoIterator<Item = OwnedFd>) {
        let mut fds = lock(&self.fds);
        let before = fds.queued.len();
        fds.queued.extend(more);
        fds.count += fds.queued.len() - before;
        if fds.has_thread || fds.queued.is_empty() {
            return;
        }
        let waiting = Arc::clone(self);
        fds.has_thread = (self.start)(Box::new(move || waiting.close_all())).is_ok();
    }

    fn close_all(&self) {
        let mut fds = lock(&self.fds);
        while let Some(fd) = fds.queued.pop_front() {
            drop(fds);
            drop(fd);
            fds = lock(&self.fds);
            fds.count -= 1;
        }
        fds.has_thread = false;
    }
}

impl Drop for Waiting {
    /// Leaves open what no thread could be started for: the export ends, and must not block.
    fn drop(&mut self) {
        lock(&self.fds).queued.drain(..).for_each(std::mem::forget);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A closer whose threads wait until they are told to go on, and a count of those it has started.
    fn waiting_closer() -> (Closer, Sender<()>, Arc<AtomicUsize>) {
        let (go_on, told) = channel();
        let (told, started) =
            (Arc::new(Mutex::<Receiver<()>>::new(told)), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&started);
        let closer = Closer::new(move |work| {
            count.fetch_add(1, Ordering::Relaxed);
            let told = Arc::clone(&told);
            let run = move || {
                // Without a sender all go on.
                let _ = lock(&told).recv();
                work();
            };
            thread::Builder::new().spawn(run).map(drop)
        });
        (closer, go_on, started)
    }

    fn connect(closer: &Closer) -> (ClientSocket, UnixStream) {
        let (ours, client) = UnixStream::pair().expect("sockets");
        (closer.client(ours), client)
    }

    /// Descriptors that no message may have.
    fn files(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| File::open("/dev/zero").expect("a device").into()).collect()
    }

    #[track_caller]
    fn wait_until(mut reached: impl FnMut() -> bool) {
        let begun = std::time::Instant::now();
        while !reached() {
            assert!(begun.elapsed().as_secs() < 60, "it does not come");
            thread::yield_now();
        }
    }

    #[test]
    fn descriptors_of_a_client_count_for_no_other_and_take_one_thread() {
        let (closer, go_on, started) = waiting_closer();
        let (hostile, _peer) = connect(&closer);
        let (honest, _other_peer) = connect(&closer);
        hostile.usable(files(15)).expect("descriptors");
        assert!(!hostile.is_full());
        // The most that one more message can have.
        assert_eq!(hostile.usable(files(253)).expect("descriptors").len(), 253);
        assert!(hostile.is_full() && !honest.is_full());
        assert_eq!(started.load(Ordering::Relaxed), 1, "threads");
        let waiting = Arc::clone(&hostile.waiting);
        drop(hostile);
        assert_eq!(lock(&waiting.fds).count, 269, "and its socket");
        drop(waiting);
        assert!(closer.has_room(), "one client locks nobody out");
        drop(go_on);
        wait_until(|| closer.has_room() && lock(&closer.clients).len() == 1);
    }

    #[test]
    fn clients_that_are_gone_have_few_threads_and_descriptors_waiting() {
        for (clients, fds) in [(16, 0), (2, 159)] {
            let (closer, go_on, started) = waiting_closer();
            for _ in 0..clients {
                assert!(closer.has_room());
                connect(&closer).0.usable(files(fds)).expect("descriptors");
            }
            assert!(!closer.has_room(), "{clients} clients with {fds} descriptors");
            assert_eq!(started.load(Ordering::Relaxed), clients, "threads");
            drop(go_on);
            wait_until(|| closer.has_room() && lock(&closer.clients).is_empty());
        }
    }

    #[test]
    fn descriptors_are_closed_when_a_thread_can_be_started_again() {
        let (fails, tries) = (Arc::new(Mutex::new(true)), Arc::new(AtomicUsize::new(0)));
        let (failing, tried) = (Arc::clone(&fails), Arc::clone(&tries));
        let closer = Closer::new(move |work| {
            tried.fetch_add(1, Ordering::Relaxed);
            if *lock(&failing) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            thread::Builder::new().spawn(work).map(drop)
        });
        let (client, _peer) = connect(&closer);
        client.usable(files(MAX_WAITING)).expect("descriptors");
        assert!(client.is_full() && closer.has_room() && client.is_full());
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        *lock(&fails) = false;
        assert!(closer.has_room());
        wait_until(|| !client.is_full());
    }

    #[test]
    fn client_sees_that_it_is_disconnected_while_its_descriptors_wait() {
        let (closer, _go_on, _) = waiting_closer();
        let (client, mut peer) = connect(&closer);
        peer.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a timeout");
        client.usable(files(1)).expect("descriptors");
        drop(client);
        assert_eq!(io::Read::read(&mut peer, &mut [0]).expect("the end"), 0);
    }
}
