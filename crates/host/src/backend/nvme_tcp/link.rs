//! The life of a path: its connections, while there are some.
//!
//! Takes connections from whoever made them, and word of their loss from whoever found out; gives
//! connections to hardware queues. Keeps true: all connections of a controller are lost together, as
//! its host gives up the controller when one fails (Linux: error recovery); who holds one finds out
//! by [`Link::generation`].
use super::queue_connection::QueueConnection;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use zonal_device::multipath::PathState;
use zonal_nvme::ns::Namespace;

/// A path that will not be connected again.
const REMOVED: u32 = u32::MAX;

pub(super) struct Link {
    /// Odd while there are connections; one more each time they come and go.
    generation: AtomicU32,
    shared: Mutex<Shared>,
    changed: Condvar,
    /// For zone reports, one at a time; with the generation that it belongs to.
    pub reports: Mutex<Option<(u32, QueueConnection)>>,
}

#[derive(Default)]
pub(super) struct Shared {
    /// Nobody needs the path any more.
    pub stop: bool,
    /// Connections that no hardware queue has.
    idle: Vec<QueueConnection>,
    namespace: Option<Arc<Namespace>>,
    /// Why the connections were lost.
    pub why: String,
}

/// What a hardware queue has of a path.
pub(super) struct Lease {
    pub generation: u32,
    pub connection: QueueConnection,
    pub namespace: Arc<Namespace>,
}

impl Link {
    /// A path without connections, which may get some.
    pub fn new() -> Arc<Self> {
        Arc::new(Link {
            generation: AtomicU32::new(0),
            shared: Mutex::default(),
            changed: Condvar::new(),
            reports: Mutex::new(None),
        })
    }

    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn state(&self) -> PathState {
        match self.generation() {
            REMOVED => PathState::Gone,
            generation if generation % 2 == 1 => PathState::Live,
            _ => PathState::Connecting,
        }
    }

    pub fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("a thread died while it held a path")
    }

    /// Waits for a change, or for as long as `while_so` and no longer than `most`.
    pub fn wait<'a>(
        &self,
        shared: MutexGuard<'a, Shared>,
        most: std::time::Duration,
        mut while_so: impl FnMut(&Shared) -> bool,
    ) -> MutexGuard<'a, Shared> {
        let waited = self.changed.wait_timeout_while(shared, most, |shared| while_so(shared));
        waited.expect("a thread died while it held a path").0
    }

    /// There are connections: for hardware queues, and one for reports.
    pub fn connected(
        &self,
        namespace: Arc<Namespace>,
        idle: Vec<QueueConnection>,
        reports: Option<QueueConnection>,
    ) {
        let generation = self.generation() + 1;
        // Before the others are locked: who reports finds out losses while it holds this one.
        *self.reports.lock().expect("report lock") = reports.map(|reports| (generation, reports));
        let mut shared = self.shared();
        (shared.idle, shared.namespace) = (idle, Some(namespace));
        self.generation.store(generation, Ordering::Release);
    }

    /// The connections of this generation are lost.
    pub fn lost(&self, generation: u32, why: &str) {
        let mut shared = self.shared();
        if self.generation() != generation || generation == REMOVED {
            // Somebody else has found out before.
            return;
        }
        self.generation.store(generation + 1, Ordering::Release);
        shared.idle.clear();
        why.clone_into(&mut shared.why);
        self.changed.notify_all();
    }

    /// There will be no connections any more.
    pub fn gone(&self) {
        let mut shared = self.shared();
        shared.idle.clear();
        self.generation.store(REMOVED, Ordering::Release);
    }

    /// Nobody needs the path any more.
    pub fn stop(&self) {
        self.shared().stop = true;
        self.changed.notify_all();
    }

    /// A connection for a hardware queue; `None` if there is none.
    pub fn lease(&self) -> Option<Lease> {
        let mut shared = self.shared();
        let connection = shared.idle.pop()?;
        let namespace = Arc::clone(shared.namespace.as_ref()?);
        Some(Lease { generation: self.generation(), connection, namespace })
    }

    /// A connection that its hardware queue does not need any more.
    pub fn give_back(&self, lease: Lease) {
        let mut shared = self.shared();
        if lease.generation == self.generation() {
            shared.idle.push(lease.connection);
        }
    }
}
