//! A connection of a target: Connect, authentication, then the commands of the queue it has become.
//!
//! ```text
//!  bytes -> TargetConnection -> commands -> Connect, then Controller or IoQueue
//!  bytes <- TargetConnection <- responses <-'
//! ```
//!
//! A host that may not connect gets no further than Connect, and until it has authenticated it can
//! send and be sent little, so that it costs little. A command is started only while the data in
//! flight and the bytes that the host has not taken are within bounds, and nothing is received while
//! commands wait. Bytes and time are arguments; sockets, threads and waiting are the caller's.
use crate::NvmeStatus;
use crate::ana::Port;
use crate::auth::AuthState;
use crate::controller::{ConnectedQueue, Response, Subsystem, Target};
use crate::tcp::{CloseReason, ReceivedCommand, TargetConfig, TargetConnection};
use crate::wire::auth::Explanation;
use crate::wire::fabrics::{ConnectCommand, ConnectData, DISABLE_SQ_FLOW, DISCOVERY_NQN};
use crate::wire::{Cqe, Sqe, host_nqn, nqn};
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::FromBytes;
use zonal_blk::{Channel, Nanos, Outgoing, Wake, WakeUp};

/// Bytes that the host has not taken from which on no command is started.
const MAX_UNSENT: usize = 4 << 20;
/// The same before the host has authenticated.
const MAX_UNSENT_UNAUTHENTICATED: usize = 16 << 10;
/// Bytes of data for the host that one [`Session::poll`] requests before what there is is sent: the
/// host then takes them while the next are produced, and few buffers are in use, still in the
/// processor's cache.
const SEND_AT_ONCE: usize = 64 << 10;
/// How many times as much is requested by commands that have as much data by themselves: reads
/// of 128 KiB that are sent one by one are slower by a third (the row `read 1m qd8 mdts 128k` of
/// `benches/nvme_tcp`).
const LONG_AT_ONCE: usize = 16;
/// Data of a command before the host has authenticated, in bytes: the maximum of a capsule with a
/// Fabrics command (TCP section 3.5). Connect has 1024, messages of authentication less than 2048.
const MAX_UNAUTHENTICATED_DATA: u32 = 8192;

/// Limits of a session.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Settings of the connection.
    pub tcp: TargetConfig,
    /// I/O queues of a controller.
    pub io_queues: u16,
    /// How long a connection may take to send ICReq.
    pub init_timeout: Duration,
    /// How long a connection may take to Connect.
    pub connect_timeout: Duration,
    /// How long a host may take to authenticate, where it must.
    pub auth_timeout: Duration,
    /// How long a discovery controller without a Keep Alive Timer may get no command.
    pub discovery_timeout: Duration,
}

/// The decisions of a server about the hosts that connect.
pub trait Admission {
    /// Whether a host that says that this is its name may connect to a subsystem of this name, which may
    /// be that of discovery.
    ///
    /// # Errors
    /// Why not.
    fn admit(&mut self, hostnqn: &str, subnqn: &str) -> Result<(), Refusal>;

    /// The subsystem that this connection reaches, or its discovery subsystem.
    fn subsystem(&mut self, discovery: bool) -> Arc<Subsystem>;

    /// The port of the subsystem that the connection reaches.
    fn port(&mut self) -> Arc<Port>;

    /// The connection becomes this queue. The host may not have authenticated yet.
    ///
    /// # Errors
    /// Why not.
    fn connected(&mut self, queue: &QueueIdentity) -> Result<(), Refusal>;

    /// The host of the queue is the one that it says, as far as the server requires a proof. Not
    /// called for discovery controllers, which anybody can reach.
    ///
    /// # Errors
    /// Why it may not stay.
    fn authenticated(&mut self) -> Result<(), Refusal>;
}

/// The identity of a connection's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueIdentity {
    /// The name that the host gave.
    pub hostnqn: String,
    /// The controller.
    pub cntlid: u16,
    /// The queue; 0 for the admin queue.
    pub qid: u16,
    /// The controller is a discovery controller.
    pub discovery: bool,
}

impl fmt::Display for QueueIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueIdentity { hostnqn, cntlid, qid, .. } = self;
        let hostnqn = if hostnqn.is_empty() { "a host without a name" } else { hostnqn };
        match (self.discovery, qid) {
            (true, _) => write!(f, "discovery of {hostnqn}"),
            (false, 0) => write!(f, "controller {cntlid} of {hostnqn}"),
            (false, _) => write!(f, "controller {cntlid}, queue {qid} of {hostnqn}"),
        }
    }
}

/// Why a Connect is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of Connect.
    pub status: NvmeStatus,
    /// The reason in words.
    pub reason: String,
}

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A side broke the protocol.
    #[error(transparent)]
    Protocol(#[from] CloseReason),
    /// The host did not send ICReq in time.
    #[error("no ICReq within {0:?}")]
    NoInitialize(Duration),
    /// The host did not Connect in time.
    #[error("no Connect within {0:?}")]
    NoConnect(Duration),
    /// The host may not connect.
    #[error("Connect refused: {0}")]
    Refused(String),
    /// The host did not prove who it is.
    #[error("authentication failed: {0}")]
    Authentication(Explanation),
    /// A host that has authenticated may not stay.
    #[error("closed after authentication: {0}")]
    NotAdmitted(String),
    /// The host did not authenticate in time.
    #[error("no authentication within {0:?}")]
    NoAuthentication(Duration),
    /// More commands in flight than the queue has entries.
    #[error("more commands than the queue has entries")]
    Overrun,
    /// Nobody uses the discovery controller.
    #[error("no command to the discovery controller within {0:?}")]
    IdleDiscovery(Duration),
    /// The controller was reset or shut down, or its admin queue has ended, and with it this I/O queue.
    #[error("the controller was reset or shut down, or its admin queue has ended")]
    Reset,
    /// The host did not keep the controller alive.
    #[error("keep alive timeout")]
    KeepAlive,
}

/// A connection of a target and its queue.
pub struct Session<A> {
    config: SessionConfig,
    admission: A,
    tcp: TargetConnection,
    queue: Option<ConnectedQueue>,
    identity: Option<QueueIdentity>,
    /// The host has connected and, where it must, authenticated; not to a discovery controller.
    authenticated: bool,
    /// Why Connect failed.
    refused: Option<String>,
    /// Entries of the queue.
    entries: usize,
    accepted: Nanos,
    last_command: Nanos,
    responses: Vec<Response>,
    waker: Option<Arc<dyn WakeUp>>,
}

impl<A: Admission> Session<A> {
    /// A session on a connection accepted at `now`.
    pub fn new(now: Nanos, config: SessionConfig, admission: A) -> Self {
        let mut tcp = TargetConnection::new(config.tcp);
        tcp.set_limits(TargetConfig {
            in_capsule: MAX_UNAUTHENTICATED_DATA,
            max_transfer: MAX_UNAUTHENTICATED_DATA,
            max_r2ts: 1,
            max_r2t_bytes: MAX_UNAUTHENTICATED_DATA.into(),
            ..config.tcp
        });
        Session {
            tcp,
            config,
            admission,
            queue: None,
            identity: None,
            authenticated: false,
            refused: None,
            entries: 0,
            accepted: now,
            last_command: now,
            responses: Vec::new(),
            waker: None,
        }
    }

    /// The server's decisions about its hosts.
    pub fn admission_mut(&mut self) -> &mut A {
        &mut self.admission
    }

    /// The time that the host has for ICReq and Connect begins at `now`: what came before was a handshake.
    pub fn restart(&mut self, now: Nanos) {
        self.accepted = now;
    }

    /// The queue that the connection has become; `None` before Connect.
    pub fn identity(&self) -> Option<&QueueIdentity> {
        self.identity.as_ref()
    }

    /// Whether the host has connected and, where it must, authenticated. Never true of a discovery
    /// controller, which anybody can reach.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Whether the queue is an I/O queue.
    pub fn is_io(&self) -> bool {
        matches!(self.queue, Some(ConnectedQueue::Io(_)))
    }

    /// Sets what to wake when an event for the host comes up in another thread. Channels have
    /// [wakers of their own](Channel::set_waker).
    pub fn set_waker(&mut self, waker: Arc<dyn WakeUp>) {
        match &self.queue {
            None => {}
            Some(ConnectedQueue::Admin(admin)) => admin.set_waker(Arc::clone(&waker)),
            Some(ConnectedQueue::Io(io)) => io.set_waker(Arc::clone(&waker)),
        }
        self.waker = Some(waker);
    }

    /// Whether bytes may be received now. Not while commands wait to be started.
    pub fn wants_input(&self) -> bool {
        !self.tcp.has_commands()
    }

    /// Whether commands wait that the next [`Session::poll`] starts: more to send may follow soon.
    pub fn has_commands(&self) -> bool {
        self.tcp.has_commands() && self.has_room()
    }

    /// As [`TargetConnection::expects_data`].
    pub fn expects_data(&self) -> bool {
        self.tcp.expects_data()
    }

    /// As [`TargetConnection::data_buffer`].
    pub fn data_buffer(&mut self) -> Option<&mut [u8]> {
        self.tcp.data_buffer()
    }

    /// As [`TargetConnection::data_received`].
    pub fn data_received(&mut self, len: usize) {
        self.tcp.data_received(len);
    }

    /// Takes received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        // After a refused Connect the session has ended: nothing is answered any more.
        if self.refused.is_some() {
            return;
        }
        self.tcp.receive(bytes);
    }

    /// Starts commands and collects responses. Returns whether anything was done.
    ///
    /// # Errors
    /// Why the session has ended. The output may still be sent, and the session must be
    /// [drained](Session::drain).
    pub fn poll(&mut self, now: Nanos) -> Result<bool, SessionError> {
        if let Some(ConnectedQueue::Io(io)) = &self.queue
            && io.has_ended()
        {
            return Err(SessionError::Reset);
        }
        self.recycle_spent();
        let mut worked = false;
        // What follows Connect is for the next call, which another thread may make.
        let mut connected = false;
        let mut requested = 0;
        while !connected
            && requested < SEND_AT_ONCE
            && self.has_room()
            && let Some(command) = self.tcp.take_command()
        {
            worked = true;
            connected = self.queue.is_none();
            let len = command.data_for_host();
            requested += if len < SEND_AT_ONCE { len } else { len / LONG_AT_ONCE };
            self.start(now, command)?;
            // Immediately, so that the next command waits if there is too much to send.
            if !self.responses.is_empty() {
                self.respond();
            }
            if !self.authenticated {
                self.note_authentication()?;
            }
        }
        match &mut self.queue {
            None => {}
            Some(ConnectedQueue::Admin(admin)) => admin.poll(now, &mut self.responses),
            Some(ConnectedQueue::Io(io)) => io.poll(now, &mut self.responses),
        }
        worked |= !self.responses.is_empty();
        self.respond();
        self.check(now)?;
        Ok(worked)
    }

    fn has_room(&self) -> bool {
        let has_room = match &self.queue {
            Some(ConnectedQueue::Io(io)) => io.has_room(),
            _ => self.refused.is_none(),
        };
        let most = if self.authenticated { MAX_UNSENT } else { MAX_UNSENT_UNAUTHENTICATED };
        has_room && self.tcp.unsent() <= most
    }

    fn start(&mut self, now: Nanos, command: ReceivedCommand) -> Result<(), SessionError> {
        let ReceivedCommand { sqe, data } = command;
        let responses = &mut self.responses;
        self.last_command = now;
        match (&mut self.queue, data) {
            (None, Ok(data)) => {
                let response = self.connect(now, &sqe, data.as_deref().unwrap_or_default());
                self.responses.push(Response { received: data, ..response });
            }
            (None, Err(status)) => {
                self.refused = Some(format!("{status:?}"));
                responses.push(Response::new(Cqe::new(sqe.cid.get(), status)));
            }
            (Some(ConnectedQueue::Admin(admin)), Ok(data)) => {
                admin.submit(now, &sqe, data.as_deref().unwrap_or_default(), responses);
                if let Some(data) = data {
                    self.tcp.recycle(data);
                }
            }
            (Some(ConnectedQueue::Admin(admin)), Err(status)) => {
                admin.refuse(&sqe, status, responses);
            }
            (Some(ConnectedQueue::Io(io)), Ok(data)) => {
                if io.outstanding() >= self.entries {
                    return Err(SessionError::Overrun);
                }
                io.submit(now, &sqe, data, responses);
            }
            (Some(ConnectedQueue::Io(io)), Err(status)) => io.refuse(&sqe, status, responses),
        }
        Ok(())
    }

    fn respond(&mut self) {
        for Response { cqe, data, received } in self.responses.drain(..) {
            self.tcp.respond(cqe, data);
            if let Some(buf) = received {
                self.tcp.recycle(buf);
            }
        }
        self.recycle_spent();
    }

    /// Takes back the buffers of data that were sent, or copied: the next reads use them.
    fn recycle_spent(&mut self) {
        while let Some(data) = self.tcp.take_spent() {
            if let Some(ConnectedQueue::Io(io)) = &mut self.queue {
                io.recycle(data);
            }
        }
    }

    /// Executes Connect.
    fn connect(&mut self, now: Nanos, sqe: &Sqe, data: &[u8]) -> Response {
        match self.try_connect(now, sqe, data) {
            Ok(response) => response,
            Err((response, reason)) => {
                self.refused = Some(reason);
                response
            }
        }
    }

    /// Returns with an error why Connect is refused.
    fn try_connect(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        data: &[u8],
    ) -> Result<Response, (Response, String)> {
        let refuse =
            |Refusal { status, reason }| (Response::new(Cqe::new(sqe.cid.get(), status)), reason);
        let names = ConnectData::read_from_bytes(data).ok();
        let subsystem = names.as_ref().and_then(|data| nqn(&data.subnqn)).unwrap_or_default();
        let host = names.as_ref().and_then(|data| host_nqn(&data.hostnqn));
        let discovery = subsystem == DISCOVERY_NQN;
        // The target refuses a host with a malformed name.
        if let Some(host) = host {
            self.admission.admit(host, subsystem).map_err(refuse)?;
        }
        let host = host.unwrap_or_default();
        let target = Target::new(vec![self.admission.subsystem(discovery)], self.admission.port());
        let (queue, response) = target.connect(now, sqe, data).map_err(|response| {
            let reason = format!("{:?}, {host:?} to {subsystem:?}", response.cqe.status());
            (response, reason)
        })?;
        let (cntlid, qid) = match &queue {
            ConnectedQueue::Admin(admin) => {
                admin.limit_queues(self.config.io_queues);
                if let Some(waker) = &self.waker {
                    admin.set_waker(Arc::clone(waker));
                }
                (admin.cntlid(), 0)
            }
            ConnectedQueue::Io(io) => {
                (names.as_ref().map_or(0, |data| data.cntlid.get()), io.qid())
            }
        };
        let identity = QueueIdentity { hostnqn: host.to_owned(), cntlid, qid, discovery };
        self.admission.connected(&identity).map_err(refuse)?;
        let command = ConnectCommand::from(*sqe);
        self.entries = usize::from(command.sqsize.get()) + 1;
        if command.attributes & DISABLE_SQ_FLOW != 0 {
            self.tcp.enable_success_with_data();
        }
        (self.identity, self.queue) = (Some(identity), Some(queue));
        self.try_authenticated().map_err(refuse)?;
        Ok(response)
    }

    /// Raises the limits of the connection when its host has authenticated.
    fn note_authentication(&mut self) -> Result<(), SessionError> {
        if self.refused.is_some() {
            return Ok(());
        }
        self.try_authenticated().map_err(|refusal| SessionError::NotAdmitted(refusal.reason))
    }

    fn try_authenticated(&mut self) -> Result<(), Refusal> {
        if self.authenticated
            || self.identity.as_ref().is_none_or(|queue| queue.discovery)
            || self.auth_state() != AuthState::Authenticated
        {
            return Ok(());
        }
        if let Some(ConnectedQueue::Io(io)) = &mut self.queue
            && !io.open()
        {
            let reason = format!("queue {} is connected already", io.qid());
            let status = NvmeStatus::CONNECT_PARAMETERS.do_not_retry();
            return Err(Refusal { status, reason });
        }
        if let (Some(ConnectedQueue::Io(io)), Some(waker)) = (&self.queue, &self.waker) {
            io.set_waker(Arc::clone(waker));
        }
        self.admission.authenticated()?;
        self.tcp.set_limits(self.config.tcp);
        self.authenticated = true;
        Ok(())
    }

    /// Before Connect there is nobody to authenticate.
    fn auth_state(&self) -> AuthState {
        match &self.queue {
            None => AuthState::Authenticated,
            Some(ConnectedQueue::Admin(admin)) => admin.auth_state(),
            Some(ConnectedQueue::Io(io)) => io.auth_state(),
        }
    }

    /// When the host must have gone a step further.
    fn deadline(&self) -> Option<(Nanos, SessionError)> {
        let after = |begin: Nanos, timeout: Duration| {
            let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            Nanos(begin.0.saturating_add(timeout))
        };
        let SessionConfig { init_timeout, connect_timeout, auth_timeout, .. } = self.config;
        match &self.queue {
            None if !self.tcp.is_initialized() => {
                let due = after(self.accepted, init_timeout.min(connect_timeout));
                Some((due, SessionError::NoInitialize(init_timeout.min(connect_timeout))))
            }
            None => {
                let due = after(self.accepted, connect_timeout);
                Some((due, SessionError::NoConnect(connect_timeout)))
            }
            Some(_) if self.auth_state() == AuthState::Unauthenticated => {
                let due = after(self.accepted, auth_timeout);
                Some((due, SessionError::NoAuthentication(auth_timeout)))
            }
            Some(ConnectedQueue::Admin(admin))
                if !self.authenticated && admin.next_event().is_none() =>
            {
                let timeout = self.config.discovery_timeout;
                Some((after(self.last_command, timeout), SessionError::IdleDiscovery(timeout)))
            }
            Some(_) => None,
        }
    }

    /// Whether the session may go on.
    fn check(&self, now: Nanos) -> Result<(), SessionError> {
        if let Some(closed) = self.tcp.close_reason() {
            return Err(closed.clone().into());
        }
        if let Some(refused) = &self.refused {
            return Err(SessionError::Refused(refused.clone()));
        }
        if let Some(ConnectedQueue::Admin(admin)) = &self.queue
            && admin.is_expired(now)
        {
            return Err(SessionError::KeepAlive);
        }
        if let AuthState::Failed(why) = self.auth_state() {
            return Err(SessionError::Authentication(why));
        }
        match self.deadline() {
            Some((due, error)) if now > due => Err(error),
            _ => Ok(()),
        }
    }

    /// When to call [`Session::poll`] next, unless bytes are received.
    pub fn next_event(&mut self) -> Wake {
        let deadline = self.deadline().map_or(Wake::Idle, |(due, _)| Wake::At(due + Nanos(1)));
        deadline.min(match &mut self.queue {
            None => Wake::Idle,
            Some(ConnectedQueue::Admin(admin)) => {
                let expires = admin.next_event().map_or(Wake::Idle, Wake::At);
                admin.channels().map(Channel::next_event).fold(expires, Wake::min)
            }
            Some(ConnectedQueue::Io(io)) => io.next_event(),
        })
    }

    /// The channels that commands go through.
    pub fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        match &mut self.queue {
            None => {}
            Some(ConnectedQueue::Admin(admin)) => admin.channels().for_each(visit),
            Some(ConnectedQueue::Io(io)) => io.channels().for_each(visit),
        }
    }

    /// Lets commands in flight complete, without a host. To be called again until it returns true;
    /// then the session can be dropped.
    pub fn drain(&mut self, now: Nanos) -> bool {
        let idle = match &mut self.queue {
            None => true,
            Some(ConnectedQueue::Admin(admin)) => {
                admin.poll(now, &mut self.responses);
                admin.is_idle()
            }
            Some(ConnectedQueue::Io(io)) => {
                io.drain();
                if !io.is_idle() {
                    io.poll(now, &mut self.responses);
                }
                io.is_idle()
            }
        };
        self.responses.clear();
        idle
    }
}

impl<A> Outgoing for Session<A> {
    fn unsent(&self) -> usize {
        self.tcp.unsent()
    }

    fn next_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.tcp.next_slices(slices)
    }

    fn sent(&mut self, len: usize) {
        self.tcp.sent(len);
    }
}
