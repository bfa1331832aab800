//! One connection: a loop between the socket and the queue that the connection is.
//!
//! Takes bytes; gives bytes. Keeps true: a command is begun only while the data in flight and the
//! bytes that the host has not taken are within bounds, and nothing is received while commands
//! wait; I/O that was begun is seen to its end, also if the host is gone.
use super::execute::Executor;
use super::registry::Place;
use super::server::Shared;
use crate::poll::socket::Waiting;
use crate::poll::socket::{self, Look, RECEIVE, Socket};
use std::collections::VecDeque;
use std::hint::spin_loop;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::Nanos;
use zonal_nvme::auth::Standing;
use zonal_nvme::controller::Answer;
use zonal_nvme::tcp::{Closed, TargetConfig, TargetConnection, TargetEvent};
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
pub(super) enum End {
    #[error("the host closed the connection")]
    Host,
    #[error(transparent)]
    Io(io::Error),
    #[error(transparent)]
    Protocol(#[from] Closed),
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

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => End::Host,
            _ => End::Io(error),
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
    look: Look,
}

impl Connection {
    pub fn new(stream: TcpStream, shared: Arc<Shared>, place: Place) -> io::Result<Self> {
        let local = stream.local_addr()?;
        let config = TargetConfig { max_transfer: MAX_TRANSFER, ..TargetConfig::default() };
        Ok(Connection {
            socket: Socket::new(stream)?,
            tcp: TargetConnection::new(config),
            executor: Executor::new(Arc::clone(&shared), place, local),
            shared,
            commands: VecDeque::new(),
            accepted: Instant::now(),
            look: Look::default(),
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
        self.say_goodbye();
        self.socket.close();
        self.executor.finish();
    }

    fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        socket::wake_in_time();
        let mut buffer = vec![0; RECEIVE];
        let mut events = Vec::new();
        let mut answers = Vec::new();
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
                self.executor.begin(now, &command, &mut answers)?;
                self.tcp.recycle(command);
                // At once, so that the next one waits if there is too much to send.
                self.respond(&mut answers);
            }
            self.executor.poll(now, &mut answers);
            busy |= !answers.is_empty();
            self.respond(&mut answers);
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

    fn respond(&mut self, answers: &mut Vec<Answer>) {
        for Answer { cqe, data } in answers.drain(..) {
            self.tcp.respond(cqe, data.as_deref().unwrap_or_default());
            if let Some(data) = data {
                self.executor.recycle(data);
            }
        }
    }

    /// Whether the connection may go on.
    fn check(&mut self, now: Nanos) -> Result<(), End> {
        if let Some(closed) = self.tcp.closed() {
            return Err(closed.clone().into());
        }
        if let Some(refused) = self.executor.refused() {
            return Err(End::Refused(refused.to_owned()));
        }
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(End::Stopping);
        }
        if self.executor.is_expired(now) {
            return Err(End::KeepAlive);
        }
        match self.executor.standing() {
            Standing::Proved => {}
            Standing::Failed(why) => return Err(End::Authentication(why)),
            Standing::Unknown => {
                let limit = self.shared.config.authentication;
                if self.accepted.elapsed() > limit {
                    return Err(End::NoAuthentication(limit));
                }
            }
        }
        let patience = self.shared.config.patience;
        // The clock is read only while there is something to wait for.
        if self.executor.what().is_none() && self.accepted.elapsed() > patience {
            return Err(End::NoConnect(patience));
        }
        if self.socket.stalled(self.tcp.output()) > patience {
            return Err(End::SlowReader(patience));
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
        if let Waiting::Poll = self.shared.config.waiting
            && self.executor.is_io()
        {
            return thread::yield_now();
        }
        if let Waiting::Sleep(most) = self.shared.config.waiting
            && self.look.again(most)
        {
            return;
        }
        let unsent = self.socket.unsent(self.tcp.output()) > 0;
        let known = self.executor.standing() == Standing::Proved;
        let most = if self.executor.is_io() && !unsent && known { None } else { Some(ADMIN) };
        let timeout = sleep.into_iter().chain(most).min();
        self.socket.wait(self.receives(), unsent, timeout);
    }

    /// Lets the host have what it was told, if it takes it soon: why the connection ends.
    fn say_goodbye(&mut self) {
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
