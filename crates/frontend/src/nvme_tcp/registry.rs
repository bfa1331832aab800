//! The queues of a server, within its limits. The I/O queues of a host end with its admin queue, as
//! NVMe over Fabrics requires (Base section 3.3.2).
//!
//! Connections without a proven name, and discovery, which needs none, have a pool of their own. A
//! connection that finds it full takes the place of another: of the oldest of the address that has
//! the most. So they keep nobody out, and count against no host whose name they use.
use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use zonal_nvme::QueueIdentity;

/// Maximum numbers of connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of all hosts.
    pub hosts: usize,
    /// Of one host.
    pub of_host: usize,
    /// Of those that have not authenticated, and of discovery.
    pub unauthenticated: usize,
}

/// The queues of a server.
#[derive(Debug)]
pub(super) struct Registry {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest first.
    entries: BTreeMap<u64, Entry>,
    last: u64,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    stream: Arc<TcpStream>,
    address: IpAddr,
    queue: QueueIdentity,
    pool: Pool,
}

/// The pool that an entry counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pool {
    Unauthenticated,
    Host,
    /// Nothing: it had to make room, and its thread is about to end.
    Evicted,
}

/// A connection's entry, until dropped.
#[derive(Debug)]
pub(super) struct Registration {
    registry: Arc<Registry>,
    id: u64,
}

/// Why a connection may not stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RegistryError {
    #[error("the host has {0} connections, the most for one host")]
    Host(usize),
    #[error("there are {0} connections, the most for all hosts")]
    Server(usize),
    #[error("controller {0} is gone")]
    ControllerGone(u16),
    #[error("the server stops")]
    Stopping,
    #[error("another connection took its place before the host had authenticated")]
    Evicted,
}

impl Registry {
    pub fn new(limits: Limits) -> Self {
        Registry { limits, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("registry lock")
    }

    /// Registers a queue that can be closed through `stream`, of a host that has not authenticated.
    ///
    /// # Errors
    /// The host has its connections already, its controller is gone, or the server stops.
    pub fn register(
        self: &Arc<Self>,
        queue: &QueueIdentity,
        address: IpAddr,
        stream: Arc<TcpStream>,
    ) -> Result<Registration, RegistryError> {
        let mut state = self.state();
        if state.closed {
            return Err(RegistryError::Stopping);
        }
        if queue.qid > 0 && !state.has_admin(queue) {
            return Err(RegistryError::ControllerGone(queue.cntlid));
        }
        if !queue.discovery {
            state.check(&queue.hostnqn, address, self.limits)?;
        }
        let pool = |entry: &Entry| entry.pool == Pool::Unauthenticated;
        if state.entries.values().filter(|entry| pool(entry)).count() >= self.limits.unauthenticated
        {
            let candidates = state.entries.iter().filter(|(_, entry)| pool(entry));
            let evicted = to_evict(candidates.map(|(id, entry)| (*id, entry.address)));
            if let Some(entry) = evicted.and_then(|id| state.entries.get_mut(&id)) {
                entry.pool = Pool::Evicted;
                entry.close();
            }
        }
        state.last += 1;
        let id = state.last;
        let (queue, pool) = (queue.clone(), Pool::Unauthenticated);
        state.entries.insert(id, Entry { stream, address, queue, pool });
        Ok(Registration { registry: Arc::clone(self), id })
    }

    /// Closes all connections, and admits no more.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.entries.values().for_each(Entry::close);
    }

    /// The number of connections.
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }
}

impl State {
    /// Whether the admin queue of an I/O queue is connected.
    fn has_admin(&self, queue: &QueueIdentity) -> bool {
        let is_admin = |entry: &Entry| {
            let of = &entry.queue;
            of.qid == 0 && !of.discovery && of.cntlid == queue.cntlid
        };
        self.entries.values().any(is_admin)
    }

    /// Whether a host may have one more connection. Hosts without a name are told apart by their address.
    fn check(&self, host: &str, address: IpAddr, limits: Limits) -> Result<(), RegistryError> {
        let hosts = || self.entries.values().filter(|entry| entry.pool == Pool::Host);
        let is_same = |entry: &&Entry| {
            entry.queue.hostnqn == host && (!host.is_empty() || entry.address == address)
        };
        if hosts().filter(is_same).count() >= limits.of_host {
            return Err(RegistryError::Host(limits.of_host));
        }
        if hosts().count() >= limits.hosts {
            return Err(RegistryError::Server(limits.hosts));
        }
        Ok(())
    }
}

impl Entry {
    fn close(&self) {
        // Its thread wakes up and does the rest.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Of connections with their addresses, the oldest first, the one that makes room for another: the
/// oldest of the address that has the most. An address that has many pushes out none but its own.
pub(super) fn to_evict<T>(oldest_first: impl Iterator<Item = (T, IpAddr)> + Clone) -> Option<T> {
    let mut counts = BTreeMap::new();
    for (_, address) in oldest_first.clone() {
        *counts.entry(address).or_insert(0_usize) += 1;
    }
    let most = counts.values().copied().max()?;
    oldest_first.into_iter().find(|(_, address)| counts[address] == most).map(|(id, _)| id)
}

impl Registration {
    /// The host has authenticated where it must: the connection counts as one of its own.
    ///
    /// # Errors
    /// The host, or the server, has as many as it may.
    pub fn authenticated(&self) -> Result<(), RegistryError> {
        let mut state = self.registry.state();
        let entry = &state.entries[&self.id];
        if entry.pool == Pool::Evicted {
            return Err(RegistryError::Evicted);
        }
        state.check(&entry.queue.hostnqn, entry.address, self.registry.limits)?;
        state.entries.get_mut(&self.id).expect("a registration has an entry").pool = Pool::Host;
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        let Some(Entry { queue, .. }) = state.entries.remove(&self.id) else { return };
        if queue.qid == 0 && !queue.discovery {
            let of_controller =
                |entry: &&Entry| entry.queue.qid > 0 && entry.queue.cntlid == queue.cntlid;
            state.entries.values().filter(of_controller).for_each(Entry::close);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    fn queue(host: &str, cntlid: u16, qid: u16) -> QueueIdentity {
        QueueIdentity { hostnqn: host.to_owned(), cntlid, qid, discovery: false }
    }

    /// A registry with these limits, and a stream to register.
    fn registry(limits: Limits) -> (Arc<Registry>, Arc<TcpStream>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address"));
        (Arc::new(Registry::new(limits)), Arc::new(stream.expect("it listens")))
    }

    #[test]
    fn address_with_the_most_connections_makes_room() {
        let (a, b) = (address(1), address(2));
        let evict = |of: &[IpAddr]| to_evict(of.iter().copied().enumerate());
        assert_eq!(evict(&[]), None);
        assert_eq!(evict(&[a, b]), Some(0), "the oldest");
        assert_eq!(evict(&[a, b, b]), Some(1), "the oldest of the address that has the most");
        assert_eq!(evict(&[a, b, b, a, a]), Some(0));
    }

    #[test]
    fn unauthenticated_connections_count_against_nobody() {
        let limits = Limits { hosts: 3, of_host: 2, unauthenticated: 4 };
        let (registry, stream) = registry(limits);
        let register = |cntlid, from| {
            registry.register(&queue("nqn.host", cntlid, 0), address(from), Arc::clone(&stream))
        };
        let fakes: Vec<_> = (0..64).map(|cntlid| register(cntlid, 1).expect("room")).collect();
        let honest = register(100, 2).expect("room");
        assert_eq!(honest.authenticated(), Ok(()), "the pool of the fakes is not the host's");
        assert_eq!(fakes[0].authenticated(), Err(RegistryError::Evicted));
        let second = register(101, 2).expect("room");
        let third = register(102, 2).expect("room");
        assert_eq!(second.authenticated(), Ok(()));
        assert_eq!(third.authenticated(), Err(RegistryError::Host(2)));
        assert_eq!(register(103, 2).err(), Some(RegistryError::Host(2)));
        let other = registry.register(&queue("nqn.other", 104, 0), address(3), stream.clone());
        assert_eq!(other.expect("room").authenticated(), Ok(()));
    }

    #[test]
    fn hosts_without_a_name_are_told_apart_by_their_address() {
        let (registry, stream) = registry(Limits { hosts: 4, of_host: 1, unauthenticated: 8 });
        let register = |cntlid, from| {
            registry.register(&queue("", cntlid, 0), address(from), Arc::clone(&stream))
        };
        let (first, other) = (register(1, 1).expect("room"), register(2, 2).expect("room"));
        assert_eq!((first.authenticated(), other.authenticated()), (Ok(()), Ok(())));
        assert_eq!(register(3, 1).err(), Some(RegistryError::Host(1)));
    }

    #[test]
    fn io_queue_needs_its_admin_queue() {
        let limits = Limits { hosts: 8, of_host: 8, unauthenticated: 8 };
        let (registry, stream) = registry(limits);
        let register = |cntlid, qid| {
            let queue = queue("nqn.host", cntlid, qid);
            registry.register(&queue, address(1), Arc::clone(&stream))
        };
        assert_eq!(register(1, 1).err(), Some(RegistryError::ControllerGone(1)));
        let admin = register(1, 0).expect("room");
        register(1, 1).expect("the controller is there");
        drop(admin);
        assert_eq!(register(1, 1).err(), Some(RegistryError::ControllerGone(1)));
        registry.close();
        assert_eq!(register(2, 0).err(), Some(RegistryError::Stopping));
    }
}
