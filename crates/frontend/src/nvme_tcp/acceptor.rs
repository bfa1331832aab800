//! Accepts connections and serves them until Connect, all in one thread; then each gets one of its own.
//!
//! So a connection that never becomes a queue costs a socket and a small buffer. Their number is
//! limited: one more takes the place of another, of the oldest of the address that has the most.
use super::config::TargetShared;
use super::connection::Connection;
use super::registry::to_evict;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use zonal_blk::{Channel, Clock, Nanos, Wake};
use zonal_os::RealClock;
use zonal_os::poll::{Frontend, Poller, Progress, WaitSet, serve};

/// How long nothing is accepted after an error.
const RETRY_INTERVAL: Nanos = Nanos(50_000_000);

/// The listening thread.
pub(super) struct Acceptor {
    listener: TcpListener,
    shared: Arc<TargetShared>,
    /// Connections before Connect, the oldest first.
    pending: Vec<Connection>,
    /// The threads of the others.
    threads: Vec<JoinHandle<()>>,
    /// When to accept again after an error.
    retry: Option<Nanos>,
}

impl Acceptor {
    pub fn new(listener: TcpListener, shared: Arc<TargetShared>) -> Self {
        let (pending, threads) = (Vec::new(), Vec::new());
        Acceptor { listener, shared, pending, threads, retry: None }
    }

    /// Serves until the server stops.
    pub fn run(mut self, mut poller: Poller) {
        let clock = self.shared.config.clock.clone();
        let Ok(()) = serve(&mut self, &clock, &mut poller);
        self.shared.registry.close();
        for thread in self.threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }

    /// Accepts a connection. Returns whether there was one.
    fn accept(&mut self, now: Nanos) -> bool {
        if self.retry.is_some_and(|retry| now < retry) {
            return false;
        }
        self.retry = None;
        let accepted = self.listener.accept().and_then(|(stream, peer)| {
            if self.pending.len() >= self.shared.config.max_pending {
                self.evict();
            }
            Connection::new(stream, peer, Arc::clone(&self.shared))
        });
        match accepted {
            Ok(connection) => self.pending.push(connection),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => {
                // No descriptors left, or the peer is gone already: others may do better later.
                tracing::warn!("cannot accept a connection: {error}");
                self.retry = Some(now + RETRY_INTERVAL);
                self.evict();
            }
        }
        true
    }

    /// Makes room for one more connection before Connect.
    fn evict(&mut self) {
        let oldest_first = self.pending.iter().map(|pending| pending.peer().ip()).enumerate();
        if let Some(at) = to_evict(oldest_first) {
            self.pending.remove(at).evict();
        }
    }

    /// Serves the connections before Connect. Returns whether there was anything to do.
    fn serve_pending(&mut self, clock: &RealClock) -> bool {
        let mut worked = false;
        let mut at = 0;
        while let Some(connection) = self.pending.get_mut(at) {
            match connection.poll(clock) {
                Ok(progress) if !connection.is_connected() => {
                    worked |= progress == Progress::Worked;
                    at += 1;
                }
                Ok(_) => {
                    worked = true;
                    self.start(at);
                }
                Err(_) => {
                    // The connection has reported why it ended.
                    worked = true;
                    self.pending.remove(at);
                }
            }
        }
        worked
    }

    /// Gives a connection that has become a queue a thread of its own.
    fn start(&mut self, at: usize) {
        let connection = self.pending.remove(at);
        let peer = connection.peer();
        let started = Poller::new(self.shared.config.waiting).and_then(|poller| {
            let thread = thread::Builder::new().name("nvme-tcp".to_owned());
            thread.spawn(move || connection.run(poller))
        });
        match started {
            Ok(thread) => self.threads.push(thread),
            Err(error) => tracing::warn!(%peer, "cannot serve a connection: {error}"),
        }
    }
}

impl Frontend for Acceptor {
    type Error = Infallible;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, Infallible> {
        if self.shared.stopping.load(Ordering::Acquire) {
            return Ok(Progress::Done);
        }
        self.threads.retain(|thread| !thread.is_finished());
        let accepted = self.accept(clock.now());
        let worked = self.serve_pending(clock);
        self.shared.pending.store(self.pending.len(), Ordering::Relaxed);
        Ok(if accepted || worked { Progress::Worked } else { Progress::Idle })
    }

    fn drain(&mut self, _now: Nanos) -> bool {
        self.pending.clear();
        true
    }

    fn for_each_channel(&mut self, _visit: &mut dyn FnMut(&mut Channel)) {}

    fn wait_fds(&mut self, set: &mut WaitSet) {
        if self.retry.is_none() {
            set.read(self.listener.as_raw_fd());
        }
        self.pending.iter_mut().for_each(|connection| connection.wait_fds(set));
    }

    fn next_event(&mut self, now: Nanos) -> Wake {
        let retry = self.retry.map_or(Wake::Idle, Wake::At);
        let pending = self.pending.iter_mut().map(|connection| connection.next_event(now));
        pending.fold(retry, Wake::min)
    }
}
