//! The connections of a server, within its limits. The I/O queues of a host end with its admin queue,
//! as NVMe over Fabrics requires (Base section 3.3.2).
use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// The connections of a server.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<u64, Entry>,
    last: u64,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    stream: TcpStream,
    host: Option<String>,
    /// Its controller, and whether it is the admin queue.
    controller: Option<(u16, bool)>,
}

/// A connection's entry, until dropped.
#[derive(Debug)]
pub(super) struct Registration {
    registry: Arc<Registry>,
    id: u64,
}

impl Registry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("registry lock")
    }

    /// Registers a connection that can be closed through `stream`. `None` if there are `most`.
    pub fn register(self: &Arc<Self>, stream: TcpStream, most: usize) -> Option<Registration> {
        let mut state = self.state();
        if state.closed || state.entries.len() >= most {
            return None;
        }
        state.last += 1;
        let id = state.last;
        state.entries.insert(id, Entry { stream, host: None, controller: None });
        Some(Registration { registry: Arc::clone(self), id })
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

impl Entry {
    fn close(&self) {
        // Its thread wakes up and does the rest.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Registration {
    /// Counts the connection as one of `host`. Returns false if that has `most`.
    pub fn set_host(&self, host: &str, most: usize) -> bool {
        let mut state = self.registry.state();
        let theirs = |entry: &&Entry| entry.host.as_deref() == Some(host);
        if state.entries.values().filter(theirs).count() >= most {
            return false;
        }
        self.entry(&mut state).host = Some(host.to_owned());
        true
    }

    /// The connection is an admin queue.
    pub fn set_admin_of(&self, cntlid: u16) {
        self.entry(&mut self.registry.state()).controller = Some((cntlid, true));
    }

    /// The connection is an I/O queue. Returns whether the admin queue is still connected.
    pub fn join_controller(&self, cntlid: u16) -> bool {
        let mut state = self.registry.state();
        let there = state.entries.values().any(|entry| entry.controller == Some((cntlid, true)));
        self.entry(&mut state).controller = Some((cntlid, false));
        there
    }

    fn entry<'a>(&self, state: &'a mut State) -> &'a mut Entry {
        state.entries.get_mut(&self.id).expect("a registration has an entry")
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.registry.state();
        if let Some(Entry { controller: Some((cntlid, true)), .. }) = state.entries.remove(&self.id)
        {
            let queues = Some((cntlid, false));
            state
                .entries
                .values()
                .filter(|entry| entry.controller == queues)
                .for_each(Entry::close);
        }
    }
}
