//! What a connection does with commands: at first Connect, then those of the queue that it became.
//!
//! Takes commands; gives responses. Keeps true: hosts that may not connect get no further than
//! Connect; the data of the I/O that is in flight is bounded.
use super::connection::DisconnectReason;
use super::registry::Registration;
use super::server::Shared;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use zerocopy::FromBytes;
use zonal_blk::Nanos;
use zonal_nvme::NvmeStatus;
use zonal_nvme::auth::AuthState;
use zonal_nvme::controller::{ConnectedQueue, Data, Response, Subsystem, SubsystemConfig, Target};
use zonal_nvme::tcp::TargetEvent;
use zonal_nvme::wire::fabrics::{ConnectCommand, ConnectData, DISCOVERY_NQN};
use zonal_nvme::wire::log::DiscoveryEntry;
use zonal_nvme::wire::{Cqe, Sqe, padded, terminated, text};

/// The queue that a connection is.
pub(super) struct Executor {
    shared: Arc<Shared>,
    registration: Registration,
    local: SocketAddr,
    queue: Option<ConnectedQueue>,
    /// Who the queue is for, in words.
    what: Option<String>,
    /// Why Connect failed.
    refused: Option<String>,
    /// Entries of the queue.
    entries: usize,
}

impl Shared {
    pub(super) fn now(&self) -> Nanos {
        use zonal_blk::Clock;
        self.config.clock.now()
    }
}

impl Executor {
    pub fn new(shared: Arc<Shared>, registration: Registration, local: SocketAddr) -> Self {
        Executor { shared, registration, local, queue: None, what: None, refused: None, entries: 0 }
    }

    /// Who the queue is for; `None` before Connect.
    pub fn what(&self) -> Option<&str> {
        self.what.as_deref()
    }

    /// Why Connect failed: the answer says so too, the connection is then to end.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    pub fn is_io(&self) -> bool {
        matches!(self.queue, Some(ConnectedQueue::Io(_)))
    }

    /// What is to be thought of the host; before Connect it is known, as nobody is.
    pub fn auth_state(&self) -> AuthState {
        match &self.queue {
            None => AuthState::Authenticated,
            Some(ConnectedQueue::Admin(admin)) => admin.auth_state(),
            Some(ConnectedQueue::Io(io)) => io.auth_state(),
        }
    }

    /// Whether one more command may be begun.
    pub fn has_room(&self) -> bool {
        let room = |queue: &ConnectedQueue| match queue {
            ConnectedQueue::Admin(_) => true,
            ConnectedQueue::Io(io) => io.has_room(),
        };
        self.refused.is_none() && self.queue.as_ref().is_none_or(room)
    }

    /// Begins a command.
    pub fn begin(
        &mut self,
        now: Nanos,
        event: &TargetEvent,
        responses: &mut Vec<Response>,
    ) -> Result<(), DisconnectReason> {
        match (&mut self.queue, event) {
            (None, TargetEvent::Command { sqe, data }) => {
                responses.push(self.connect(now, sqe, data));
            }
            (None, TargetEvent::Refuse { sqe, status }) => {
                self.refused = Some(format!("{status:?}"));
                responses.push(Response { cqe: Cqe::new(sqe.cid.get(), *status), data: None });
            }
            (Some(ConnectedQueue::Admin(admin)), TargetEvent::Command { sqe, data }) => {
                admin.submit(now, sqe, data, responses);
            }
            (Some(ConnectedQueue::Admin(admin)), TargetEvent::Refuse { sqe, status }) => {
                admin.refuse(sqe, *status, responses);
            }
            (Some(ConnectedQueue::Io(io)), TargetEvent::Command { sqe, data }) => {
                if io.outstanding() >= self.entries {
                    return Err(DisconnectReason::Overrun);
                }
                io.submit(now, sqe, data, responses);
            }
            (Some(ConnectedQueue::Io(io)), TargetEvent::Refuse { sqe, status }) => {
                io.refuse(sqe, *status, responses);
            }
        }
        Ok(())
    }

    /// Adds the responses of commands that have ended.
    pub fn poll(&mut self, now: Nanos, responses: &mut Vec<Response>) {
        match &mut self.queue {
            None => {}
            Some(ConnectedQueue::Admin(admin)) => admin.poll(now, responses),
            Some(ConnectedQueue::Io(io)) => io.poll(now, responses),
        }
    }

    /// Takes back the data of an answer that was sent.
    pub fn recycle(&mut self, data: Data) {
        if let Some(ConnectedQueue::Io(io)) = &mut self.queue {
            io.recycle(data);
        }
    }

    /// Commands in flight.
    pub fn outstanding(&self) -> usize {
        match &self.queue {
            Some(ConnectedQueue::Io(io)) => io.outstanding(),
            _ => 0,
        }
    }

    /// When [`Executor::poll`] or [`Executor::is_expired`] is next to be called, as far as is known.
    pub fn next_event(&mut self) -> Option<Nanos> {
        match &mut self.queue {
            None => None,
            Some(ConnectedQueue::Admin(admin)) => admin.next_event(),
            Some(ConnectedQueue::Io(io)) => io.next_event().at(),
        }
    }

    /// Whether the host fell silent.
    pub fn is_expired(&self, now: Nanos) -> bool {
        matches!(&self.queue, Some(ConnectedQueue::Admin(admin)) if admin.is_expired(now))
    }

    /// Sees what was begun to its end.
    pub fn finish(mut self) {
        let Some(ConnectedQueue::Io(io)) = &mut self.queue else { return };
        let mut responses = Vec::new();
        io.retire();
        while !io.is_idle() {
            let now = self.shared.now();
            io.poll(now, &mut responses);
            responses.clear();
            match io.next_event().at() {
                Some(at) if at <= now => thread::yield_now(),
                Some(at) => thread::sleep(Duration::from_nanos((at - now).0.min(1_000_000))),
                None => thread::sleep(Duration::from_micros(100)),
            }
        }
    }

    fn connect(&mut self, now: Nanos, sqe: &Sqe, data: &[u8]) -> Response {
        let refusal = |status: NvmeStatus| {
            let cqe = Cqe::new(sqe.cid.get(), status.do_not_retry());
            Response { cqe, data: None }
        };
        let names = ConnectData::read_from_bytes(data).ok();
        let name = |field: fn(&ConnectData) -> &[u8; 256]| {
            names.as_ref().and_then(|data| text(field(data))).unwrap_or_default().to_owned()
        };
        let (host, nqn) = (name(|data| &data.hostnqn), name(|data| &data.subnqn));
        let config = &self.shared.config;
        let allowed = config.allowed_hosts.is_empty() || config.allowed_hosts.contains(&host);
        if !allowed {
            self.refused = Some(format!("host {host:?} is not allowed"));
            return refusal(NvmeStatus::CONNECT_HOST);
        }
        if !self.registration.set_host(&host, config.max_host_connections) {
            self.refused = Some(format!("host {host:?} has too many connections"));
            return refusal(NvmeStatus::CONTROLLER_BUSY);
        }
        let discovery = nqn == DISCOVERY_NQN;
        let subsystem =
            if discovery { self.discovery() } else { Arc::clone(&self.shared.subsystem) };
        let command = ConnectCommand::from(*sqe);
        match Target::new(vec![subsystem]).connect(now, sqe, data) {
            Ok((queue, answer)) => {
                let what = match &queue {
                    ConnectedQueue::Admin(_) if discovery => "discovery".to_owned(),
                    ConnectedQueue::Admin(admin) => {
                        self.registration.set_admin_of(admin.cntlid());
                        format!("controller {}", admin.cntlid())
                    }
                    ConnectedQueue::Io(io) => {
                        let cntlid = names.map_or(0, |data| data.cntlid.get());
                        if !self.registration.join_controller(cntlid) {
                            self.refused = Some(format!("controller {cntlid} is gone"));
                            return refusal(NvmeStatus::CONNECT_PARAMETERS);
                        }
                        format!("controller {cntlid}, queue {}", io.qid())
                    }
                };
                self.entries = usize::from(command.sqsize.get()) + 1;
                self.what = Some(format!("{what} of {host}"));
                (config.notify)(&format!("{what} of {host}: connected"));
                let queue = self.queue.insert(queue);
                if let ConnectedQueue::Admin(admin) = queue {
                    admin.limit_queues(config.io_queues);
                }
                answer
            }
            Err(answer) => {
                self.refused = Some(format!("{:?}, {host:?} to {nqn:?}", answer.cqe.status()));
                answer
            }
        }
    }

    /// The discovery subsystem as it is seen by who came to this address.
    fn discovery(&self) -> Arc<Subsystem> {
        let ours = self.shared.subsystem.config();
        let mut entry = DiscoveryEntry::zeroed();
        // TCP; IPv4 or IPv6; an NVM subsystem; no secure channel.
        (entry.transport, entry.subsystem_type, entry.requirements) = (3, 2, 2);
        entry.family = if self.local.is_ipv4() { 1 } else { 2 };
        entry.cntlid = u16::MAX.into();
        entry.admin_queue = 32.into();
        entry.service = padded(&self.local.port().to_string());
        entry.address = padded(&self.local.ip().to_string());
        entry.subnqn = terminated(&ours.nqn);
        Subsystem::discovery(SubsystemConfig { ..ours.clone() }, vec![entry])
    }
}
