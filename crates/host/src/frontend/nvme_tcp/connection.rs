//! One connection: a loop between the socket and the queue that the connection is.
//!
//! Takes bytes; gives bytes. Keeps true: a command is begun only while the data in flight and the
//! bytes that the host has not taken are within bounds, and nothing is received while commands
//! wait; I/O that was begun is seen to its end, also if the host is gone.
use super::execute::Executor;
use super::registry::Registration;
use super::server::Shared;
use crate::poll::socket::WaitPolicy;
use crate::poll::socket::{self, RECEIVE_BUFFER, Socket, SpinWait};
use std::collections::VecDeque;
use std::hint::spin_loop;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::Nanos;
use zonal_nvme::auth::AuthState;
use zonal_nvme::controller::Response;
use zonal_nvme::tcp::{CloseReason, TargetConfig, TargetConnection, TargetEvent};
use zonal_nvme::wire::auth::Explanation;

/// Bytes that the host has not taken, above which no command is begun.
const MAX_UNSENT: usize = 4 << 20;
/// The longest transfer in bytes: MDTS of the emulated controllers.
const MAX_TRANSFER: u32 = 1 << 20;
/// A sleep ends this long before the event of the device that it is for.
const SLEEP_SLACK: Nanos = Nanos(20_000);
/// The longest sleep while another connection may have something for this one.
const SHORT: Duration = Duration::from_micros(100);
/// The longest sleep of an admin queue, which other threads may have events for.
const ADMIN: Duration = Duration::from_millis(100);

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum DisconnectReason {
    #[error("the host closed the connection")]
    Host,
    #[error(transparent)]
    Io(io::Error),
    #[error(transparent)]
    Protocol(#[from] CloseReason),
    #[error("no Connect within {0:?}")]
    NoConnect(Duration),
    #[error("Connect refused: {0}")]
    Refused(String),
    #[error("authentication failed: {0}")]
    Authentication(Explanation),
    #[error("no authentication within {0:?}")]
    NoAuthentication(Duration),
    #[error("more commands than the queue has entries")]
    Overrun,
    #[error("keep alive timeout")]
    KeepAlive,
    #[error("the host took none of its data for {0:?}")]
    SlowReader(Duration),
    #[error("the server stops")]
    Stopping,
}

impl From<io::Error> for DisconnectReason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => DisconnectReason::Host,
            _ => DisconnectReason::Io(error),
        }
    }
}

/// A connection that was accepted.
pub(super) struct Connection {
    shared: Arc<Shared>,
    socket: Socket,
    tcp: TargetConnection,
    executor: Executor,
    /// Commands that came and were not begun.
    commands: VecDeque<TargetEvent>,
    accepted: Instant,
    look: SpinWait,
}

impl Connection {
    pub fn new(
        stream: TcpStream,
        shared: Arc<Shared>,
        registration: Registration,
    ) -> io::Result<Self> {
        let local = stream.local_addr()?;
        let config = TargetConfig { max_transfer: MAX_TRANSFER, ..TargetConfig::default() };
        Ok(Connection {
            socket: Socket::new(stream)?,
            tcp: TargetConnection::new(config),
            executor: Executor::new(Arc::clone(&shared), registration, local),
            shared,
            commands: VecDeque::new(),
            accepted: Instant::now(),
            look: SpinWait::default(),
        })
    }

    /// Serves the connection to its end.
    pub fn run(mut self, peer: SocketAddr) {
        let Err(end) = self.serve();
        let words = match self.executor.what() {
            Some(what) => format!("{peer}: {what}: {end}"),
            None => format!("{peer}: {end}"),
        };
        (self.shared.config.notify)(&words);
        self.flush_output();
        self.socket.close();
        self.executor.finish();
    }

    fn serve(&mut self) -> Result<std::convert::Infallible, DisconnectReason> {
        socket::set_timer_slack();
        let mut buffer = vec![0; RECEIVE_BUFFER];
        let mut events = Vec::new();
        let mut responses = Vec::new();
        loop {
            let now = self.shared.now();
            let mut busy = false;
            if self.receives() {
                let len = self.socket.receive(&mut buffer)?;
                self.tcp.receive(&buffer[..len], &mut events);
                self.commands.extend(events.drain(..));
                busy = len > 0;
            }
            while self.has_room()
                && let Some(command) = self.commands.pop_front()
            {
                busy = true;
                self.executor.begin(now, &command, &mut responses)?;
                self.tcp.recycle(command);
                // At once, so that the next one waits if there is too much to send.
                self.respond(&mut responses);
            }
            self.executor.poll(now, &mut responses);
            busy |= !responses.is_empty();
            self.respond(&mut responses);
            busy |= self.socket.send(self.tcp.output())? > 0;
            self.check(now)?;
            if busy {
                self.look.reset();
            } else {
                self.wait(now);
            }
        }
    }

    fn receives(&self) -> bool {
        self.commands.is_empty()
    }

    fn has_room(&mut self) -> bool {
        self.socket.unsent(self.tcp.output()) <= MAX_UNSENT && self.executor.has_room()
    }

    fn respond(&mut self, responses: &mut Vec<Response>) {
        for Response { cqe, data } in responses.drain(..) {
            self.tcp.respond(cqe, data.as_deref().unwrap_or_default());
            if let Some(data) = data {
                self.executor.recycle(data);
            }
        }
    }

    /// Whether the connection may go on.
    fn check(&mut self, now: Nanos) -> Result<(), DisconnectReason> {
        if let Some(closed) = self.tcp.close_reason() {
            return Err(closed.clone().into());
        }
        if let Some(refused) = self.executor.refused() {
            return Err(DisconnectReason::Refused(refused.to_owned()));
        }
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(DisconnectReason::Stopping);
        }
        if self.executor.is_expired(now) {
            return Err(DisconnectReason::KeepAlive);
        }
        match self.executor.auth_state() {
            AuthState::Authenticated => {}
            AuthState::Failed(why) => return Err(DisconnectReason::Authentication(why)),
            AuthState::Unauthenticated => {
                let limit = self.shared.config.auth_timeout;
                if self.accepted.elapsed() > limit {
                    return Err(DisconnectReason::NoAuthentication(limit));
                }
            }
        }
        let peer_timeout = self.shared.config.peer_timeout;
        // The clock is read only while there is something to wait for.
        if self.executor.what().is_none() && self.accepted.elapsed() > peer_timeout {
            return Err(DisconnectReason::NoConnect(peer_timeout));
        }
        if self.socket.stalled(self.tcp.output()) > peer_timeout {
            return Err(DisconnectReason::SlowReader(peer_timeout));
        }
        Ok(())
    }

    /// Waits for the host or for the device, whichever is first.
    fn wait(&mut self, now: Nanos) {
        let device = self.executor.next_event();
        let sleep = match (device, self.executor.outstanding()) {
            (Some(at), _) if at <= now + SLEEP_SLACK => return spin_loop(),
            (Some(at), _) => Some(Duration::from_nanos((at - now - SLEEP_SLACK).0)),
            (None, 0) => None,
            (None, _) => Some(SHORT),
        };
        if let WaitPolicy::Yield = self.shared.config.waiting
            && self.executor.is_io()
        {
            return thread::yield_now();
        }
        if let WaitPolicy::Sleep(most) = self.shared.config.waiting
            && self.look.spin(most)
        {
            return;
        }
        let unsent = self.socket.unsent(self.tcp.output()) > 0;
        let known = self.executor.auth_state() == AuthState::Authenticated;
        let most = if self.executor.is_io() && !unsent && known { None } else { Some(ADMIN) };
        let timeout = sleep.into_iter().chain(most).min();
        self.socket.wait(self.receives(), unsent, timeout);
    }

    /// Lets the host have what it was told, if it takes it soon: why the connection ends.
    fn flush_output(&mut self) {
        const SOON: Duration = Duration::from_millis(100);
        let begin = Instant::now();
        while self.socket.unsent(self.tcp.output()) > 0 && begin.elapsed() < SOON {
            if self.socket.send(self.tcp.output()).is_err() {
                return;
            }
            self.socket.wait(false, true, Some(SOON / 10));
        }
    }
}
