//! One connection: a socket and the session that it carries. The listening thread serves it until
//! Connect, then a thread of its own.
//!
//! A host that breaks a rule is told so, as far as it takes that, and its connection is closed. I/O in
//! flight is drained, also if the host is gone.
use super::config::{ServerConfig, TargetShared};
use super::disconnect::DisconnectReason;
use super::opening::{Opened, Opening, OpeningTimeouts};
use super::registry::{Registration, RegistryError};
use std::io::{self};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use zonal_blk::{Channel, Clock, Nanos, Outgoing, Wake};
use zonal_nvme::ana::Port;
use zonal_nvme::controller::Subsystem;
use zonal_nvme::tcp::TargetConfig;
use zonal_nvme::tls::TlsPsk;
use zonal_nvme::wire::fabrics::DISCOVERY_NQN;
use zonal_nvme::wire::log::{
    DiscoveryEntry, NO_SECURITY, SECURE_CHANNEL_NOT_REQUIRED, SECURE_CHANNEL_REQUIRED, TLS_1_3,
};
use zonal_nvme::wire::{padded, terminated};
use zonal_nvme::{Admission, NvmeStatus, QueueIdentity, Refusal, Session, SessionConfig};
use zonal_os::RealClock;
use zonal_os::poll::socket::{End, HEADER_BUFFER, RECEIVE_BUFFER, Socket};
use zonal_os::poll::{Frontend, Poller, Progress, WaitPolicy, WaitSet, serve};

/// The longest transfer in bytes: MDTS of the emulated controllers.
const MAX_TRANSFER: u32 = 1 << 20;
/// Bytes received at a time before the host has authenticated: Connect with its data, and more.
const UNAUTHENTICATED_BUFFER: usize = 2 << 10;
/// How often a host that takes no data is looked at.
const STALL_CHECK_INTERVAL: Nanos = Nanos(100_000_000);
/// How long a queue that was used is polled as configured. Unused ones, such as that of a host for zone
/// reports, would take the processors from those in use.
const BUSY_TIME: Nanos = Nanos(10_000_000);
/// How long the last words for a host may take.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// A connection that was accepted.
pub(super) struct Connection {
    shared: Arc<TargetShared>,
    peer: SocketAddr,
    socket: Socket,
    /// As long as it is open whether the connection has TLS, and in its handshake.
    opening: Option<Opening>,
    session: Session<ServerAdmission>,
    buffer: Vec<u8>,
    /// When there was last something to do.
    used: Nanos,
    /// That was a short time ago.
    in_use: bool,
}

impl Connection {
    pub fn new(stream: TcpStream, peer: SocketAddr, shared: Arc<TargetShared>) -> io::Result<Self> {
        let config = SessionConfig {
            tcp: TargetConfig { max_transfer: MAX_TRANSFER, ..TargetConfig::default() },
            io_queues: shared.config.io_queues,
            init_timeout: shared.config.init_timeout,
            connect_timeout: shared.config.peer_timeout,
            auth_timeout: shared.config.auth_timeout,
            discovery_timeout: shared.config.discovery_timeout,
        };
        let local = stream.local_addr()?;
        let socket = Socket::new(stream, End::Target)?;
        let admission = ServerAdmission {
            shared: Arc::clone(&shared),
            stream: Arc::clone(socket.stream()),
            registration: None,
            psk: None,
            local,
            peer,
        };
        let now = shared.config.clock.now();
        let opening = shared.config.tls.as_ref().map(|_| Opening::new(now, &timeouts(&shared)));
        Ok(Connection {
            peer,
            socket,
            opening,
            session: Session::new(now, config, admission),
            buffer: Vec::new(),
            used: now,
            in_use: true,
            shared,
        })
    }

    /// The address of the host.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether the connection has become a queue.
    pub fn is_connected(&self) -> bool {
        self.session.identity().is_some()
    }

    /// Serves the connection until it ends.
    pub fn run(mut self, mut poller: Poller) {
        self.session.set_waker(poller.waker());
        let clock = self.shared.config.clock.clone();
        // The connection has reported why it ended.
        let _ = serve(&mut self, &clock, &mut poller);
    }

    fn try_poll(&mut self, now: Nanos) -> Result<Progress, DisconnectReason> {
        if self.opening.is_some() && !self.open(now)? {
            return Ok(Progress::Idle);
        }
        let mut worked = self.session.wants_input() && self.receive()?;
        worked |= self.session.poll(now)?;
        let more = self.session.has_commands();
        worked |= self.socket.send(&mut self.session, more)? > 0;
        if worked {
            self.used = now;
        }
        self.in_use = now < self.used + BUSY_TIME;
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(DisconnectReason::Stopping);
        }
        let timeout = self.shared.config.peer_timeout;
        if self.socket.stalled(&self.session) > timeout {
            return Err(DisconnectReason::SlowReader(timeout));
        }
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }

    /// Finds out whether the connection has TLS, and makes the handshake. Returns whether that is done.
    fn open(&mut self, now: Nanos) -> Result<bool, DisconnectReason> {
        let (Some(opening), Some(tls)) = (&mut self.opening, &self.shared.config.tls) else {
            return Ok(true);
        };
        match opening.poll(now, &mut self.socket, tls, &timeouts(&self.shared))? {
            None => return Ok(false),
            Some(Opened::Plain) => {}
            Some(Opened::Tls(psk)) => {
                tracing::debug!(peer = %self.peer, "TLS, {}, {}", psk.suite.name(), psk.identity);
                self.session.admission_mut().psk = Some(psk);
                self.session.restart(now);
            }
        }
        self.opening = None;
        Ok(true)
    }

    /// Receives what has arrived, data of commands straight into their buffers.
    fn receive(&mut self) -> io::Result<bool> {
        let len = if !self.session.is_authenticated() {
            UNAUTHENTICATED_BUFFER
        } else if self.session.expects_data() || !self.session.is_io() {
            HEADER_BUFFER
        } else {
            RECEIVE_BUFFER
        };
        if self.buffer.len() < len {
            self.buffer = vec![0; len];
        }
        let buffer = &mut self.buffer[..len];
        let data = self.session.data_buffer().unwrap_or_default();
        let missing = data.len();
        let len = self.socket.receive_vectored(data, buffer, false)?;
        if missing > 0 {
            self.session.data_received(len.min(missing));
        }
        self.session.receive(&buffer[..len.saturating_sub(missing)]);
        Ok(len > 0)
    }

    /// Reports why the connection ends, sends the host what it has to know, and closes the socket.
    fn close(&mut self, reason: &DisconnectReason) {
        let queue = self.session.identity().map(tracing::field::display);
        tracing::debug!(peer = %self.peer, queue, "disconnected: {reason}");
        // Before Connect others wait for this thread, and what is sent then fits an empty socket.
        let patience = if self.is_connected() { FLUSH_TIMEOUT } else { Duration::ZERO };
        let begin = Instant::now();
        while self.session.unsent() > 0 {
            if self.socket.send(&mut self.session, false).is_err() || begin.elapsed() >= patience {
                break;
            }
            self.socket.wait(false, true, Some(FLUSH_TIMEOUT / 10));
        }
        self.socket.close();
    }

    /// Ends a connection before Connect, to make room.
    pub fn evict(mut self) {
        self.close(&DisconnectReason::Evicted);
    }
}

impl Frontend for Connection {
    type Error = DisconnectReason;

    fn poll(&mut self, clock: &RealClock) -> Result<Progress, DisconnectReason> {
        let polled = self.try_poll(clock.now());
        polled.inspect_err(|reason| self.close(reason))
    }

    fn drain(&mut self, now: Nanos) -> bool {
        self.session.drain(now)
    }

    fn for_each_channel(&mut self, visit: &mut dyn FnMut(&mut Channel)) {
        self.session.for_each_channel(visit);
    }

    fn wait_fds(&mut self, set: &mut WaitSet) {
        let fd = self.socket.as_fd().as_raw_fd();
        if self.session.wants_input() {
            set.read(fd);
        }
        if self.session.unsent() > 0 || self.socket.wants_write() {
            set.write(fd);
        }
    }

    fn next_event(&mut self, now: Nanos) -> Wake {
        if let Some(opening) = &self.opening {
            return Wake::At(opening.due());
        }
        let stalls = self.session.unsent() > 0;
        let check = if stalls { Wake::At(now + STALL_CHECK_INTERVAL) } else { Wake::Idle };
        self.session.next_event().min(check)
    }

    /// An admin queue is in no hurry, nor is one that nobody uses.
    fn wait_policy(&self, configured: WaitPolicy) -> WaitPolicy {
        if self.session.is_io() && self.in_use { configured } else { WaitPolicy::default() }
    }
}

fn timeouts(shared: &TargetShared) -> OpeningTimeouts {
    let ServerConfig { init_timeout, handshake_timeout, .. } = shared.config;
    OpeningTimeouts { init: init_timeout, handshake: handshake_timeout }
}

/// Who may connect to a server, and to what.
struct ServerAdmission {
    shared: Arc<TargetShared>,
    stream: Arc<TcpStream>,
    /// From Connect on.
    registration: Option<Registration>,
    /// The key that the host has proven, if the connection has TLS.
    psk: Option<Arc<TlsPsk>>,
    /// The address that the host has connected to.
    local: SocketAddr,
    peer: SocketAddr,
}

impl Admission for ServerAdmission {
    fn admit(&mut self, hostnqn: &str, subnqn: &str) -> Result<(), Refusal> {
        let refuse =
            |reason| Err(Refusal { status: NvmeStatus::CONNECT_HOST.do_not_retry(), reason });
        let discovery = subnqn == DISCOVERY_NQN;
        if let Some(psk) = &self.psk {
            if (&*psk.host, &*psk.subsystem) != (hostnqn, subnqn) {
                let reason = format!(
                    "{hostnqn:?} to {subnqn:?}, with the key of {:?} to {:?}",
                    psk.host, psk.subsystem
                );
                return refuse(reason);
            }
        } else if !discovery
            && self.shared.config.tls.as_ref().is_some_and(|tls| tls.has_key(hostnqn))
        {
            return refuse(format!("host {hostnqn:?} has a key and does not use TLS"));
        }
        if discovery {
            return Ok(());
        }
        let allowed = &self.shared.config.allowed_hosts;
        if allowed.is_empty() || allowed.iter().any(|host| host == hostnqn) {
            return Ok(());
        }
        refuse(format!("host {hostnqn:?} is not allowed"))
    }

    fn subsystem(&mut self, discovery: bool) -> Arc<Subsystem> {
        if !discovery {
            return Arc::clone(&self.shared.subsystem);
        }
        let config = self.shared.subsystem.config();
        let mut entry = DiscoveryEntry::zeroed();
        // TCP; IPv4 or IPv6; an NVM subsystem.
        (entry.transport, entry.subsystem_type) = (3, 2);
        (entry.requirements, entry.specific[0]) = match &self.shared.config.tls {
            None => (SECURE_CHANNEL_NOT_REQUIRED, NO_SECURITY),
            Some(tls) if tls.is_required() => (SECURE_CHANNEL_REQUIRED, TLS_1_3),
            Some(_) => (SECURE_CHANNEL_NOT_REQUIRED, TLS_1_3),
        };
        // A socket of both families has IPv4 addresses in IPv6 form.
        let ip = self.local.ip().to_canonical();
        entry.family = if ip.is_ipv4() { 1 } else { 2 };
        entry.cntlid = u16::MAX.into();
        entry.admin_queue = 32.into();
        entry.service = padded(&self.local.port().to_string());
        entry.address = padded(&ip.to_string());
        entry.subnqn = terminated(&config.nqn);
        Subsystem::discovery(config.clone(), vec![entry])
    }

    fn port(&mut self) -> Arc<Port> {
        Arc::clone(&self.shared.port)
    }

    fn connected(&mut self, queue: &QueueIdentity) -> Result<(), Refusal> {
        let address = self.peer.ip();
        let registered = self.shared.registry.register(queue, address, Arc::clone(&self.stream));
        self.registration = Some(registered.map_err(refusal)?);
        tracing::debug!(peer = %self.peer, %queue, "connected");
        Ok(())
    }

    fn authenticated(&mut self) -> Result<(), Refusal> {
        let registration = self.registration.as_ref().expect("authenticated after Connect");
        registration.authenticated().map_err(refusal)
    }
}

/// A refusal that may pass is Controller Busy, so that the host tries again.
fn refusal(error: RegistryError) -> Refusal {
    let status = match error {
        RegistryError::ControllerGone(_) => NvmeStatus::CONNECT_PARAMETERS.do_not_retry(),
        _ => NvmeStatus::CONTROLLER_BUSY,
    };
    Refusal { status, reason: error.to_string() }
}
