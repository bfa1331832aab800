//! The connections of a path, while there are some.
//!
//! All connections of a controller are lost together, as its host gives up the controller when one
//! fails (Linux: error recovery). The queue that holds one sees that by [`PathConnections::generation`].
use super::access::Access;
use super::queue_connection::QueueConnection;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use zonal_device::multipath::PathState;
use zonal_nvme::ana::AnaState;
use zonal_nvme::ns::Namespace;

/// The generation of a path that will not be connected again.
const REMOVED: u32 = u32::MAX;

pub(super) struct PathConnections {
    /// Odd while there are connections; incremented each time they come and go.
    generation: AtomicU32,
    shared: Mutex<PoolShared>,
    changed: Condvar,
    /// An eventfd that is readable while connections of an older generation may have commands in
    /// flight, so that hardware queues that sleep give them up.
    lost: OwnedFd,
    /// The access over the path while the controller is connected.
    access: Access,
    /// An eventfd that wakes the keep-alive thread: connections are lost, commands were refused because
    /// of the access, or the device is being dropped.
    wake: OwnedFd,
    /// The controller is connected, and the namespace inaccessible: there are no connections yet.
    is_watched: AtomicBool,
    /// For zone reports, one at a time; with its generation.
    pub reports: Mutex<Option<(u32, QueueConnection)>>,
}

#[derive(Default)]
pub(super) struct PoolShared {
    /// The device is being dropped.
    pub stop: bool,
    /// Connections that no hardware queue has acquired.
    idle: Vec<QueueConnection>,
    namespace: Option<Arc<Namespace>>,
    /// Why the connections were lost.
    pub reason: String,
}

/// A connection that a hardware queue has acquired.
pub(super) struct ActiveConnection {
    pub generation: u32,
    pub connection: QueueConnection,
    pub namespace: Arc<Namespace>,
}

impl PathConnections {
    /// A path that is not connected yet.
    ///
    /// # Errors
    /// There are no more file descriptors.
    pub fn new() -> io::Result<Arc<Self>> {
        let eventfd = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Arc::new(PathConnections {
            generation: AtomicU32::new(0),
            shared: Mutex::default(),
            changed: Condvar::new(),
            lost: eventfd()?,
            access: Access::default(),
            wake: eventfd()?,
            is_watched: AtomicBool::new(false),
            reports: Mutex::new(None),
        }))
    }

    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn state(&self) -> PathState {
        match self.generation() {
            REMOVED => PathState::Gone,
            generation if generation % 2 == 1 => self.access.state(),
            _ if self.access.state() == PathState::Gone => PathState::Gone,
            _ => PathState::Connecting,
        }
    }

    /// Whether a controller is connected.
    pub fn has_controller(&self) -> bool {
        let generation = self.generation();
        let is_connected = generation != REMOVED && generation % 2 == 1;
        is_connected || self.is_watched.load(Ordering::Acquire)
    }

    /// The controller says how the namespace can be accessed; `None` if it never does.
    pub fn set_access(&self, state: Option<AnaState>) {
        self.access.set(state);
    }

    /// Notes that the controller is connected whose namespace is inaccessible, or no longer.
    pub fn set_watched(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Ordering::Release);
    }

    /// A command of a connection was refused with an ANA status: the path is not used until the
    /// controller was asked.
    pub fn doubt_access(&self, generation: u32) {
        if self.generation() == generation && self.access.doubt() {
            self.wake();
        }
    }

    /// Whether the controller is to be asked for the access.
    pub fn is_access_doubted(&self) -> bool {
        self.access.is_doubted()
    }

    fn wake(&self) {
        // It cannot overflow.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Readable when the keep-alive thread has to check the connections.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The keep-alive thread is about to look at them.
    pub fn reset_wake(&self) {
        // Nothing to read if nobody woke it.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    pub fn shared(&self) -> MutexGuard<'_, PoolShared> {
        self.shared.lock().expect("a thread panicked with the lock")
    }

    /// Sleeps as long as `condition` holds, up to `timeout`.
    pub fn wait_while(
        &self,
        timeout: Duration,
        mut condition: impl FnMut(&PoolShared) -> bool,
    ) -> MutexGuard<'_, PoolShared> {
        let shared = self.shared();
        let waited = self.changed.wait_timeout_while(shared, timeout, |shared| condition(shared));
        waited.expect("a thread panicked with the lock").0
    }

    /// Sets new connections: those for hardware queues, and one for zone reports; with the ANA state.
    /// Returns their generation.
    pub fn connected(
        &self,
        namespace: Arc<Namespace>,
        idle: Vec<QueueConnection>,
        reports: Option<QueueConnection>,
        access: Option<AnaState>,
    ) -> u32 {
        let generation = self.generation() + 1;
        // Before `shared` is locked: a thread that reports zones locks in this order, in `lost`.
        *self.reports.lock().expect("report lock") = reports.map(|reports| (generation, reports));
        let mut shared = self.shared();
        (shared.idle, shared.namespace) = (idle, Some(namespace));
        // Nothing to read if nothing was lost.
        let _ = rustix::io::read(&self.lost, &mut [0; 8]);
        self.access.set(access);
        self.generation.store(generation, Ordering::Release);
        generation
    }

    /// Drops the connections of a generation, unless that was done before.
    pub fn lost(&self, generation: u32, reason: &str) {
        let mut shared = self.shared();
        if self.generation() != generation || generation == REMOVED {
            return;
        }
        self.generation.store(generation + 1, Ordering::Release);
        self.access.set(None);
        shared.idle.clear();
        reason.clone_into(&mut shared.reason);
        // It cannot overflow.
        let _ = rustix::io::write(&self.lost, &1_u64.to_ne_bytes());
        self.wake();
    }

    /// A descriptor that is readable while connections are lost.
    pub fn lost_fd(&self) -> RawFd {
        self.lost.as_raw_fd()
    }

    /// There will be no more connections.
    pub fn removed(&self) {
        let mut shared = self.shared();
        shared.idle.clear();
        self.generation.store(REMOVED, Ordering::Release);
    }

    /// Wakes the keep-alive thread to end.
    pub fn stop(&self) {
        self.shared().stop = true;
        self.changed.notify_all();
        self.wake();
    }

    /// A connection for a hardware queue; `None` if there is none.
    pub fn acquire(&self) -> Option<ActiveConnection> {
        let mut shared = self.shared();
        let connection = shared.idle.pop()?;
        let namespace = Arc::clone(shared.namespace.as_ref()?);
        Some(ActiveConnection { generation: self.generation(), connection, namespace })
    }

    /// Returns a connection for another hardware queue.
    pub fn release(&self, active: ActiveConnection) {
        let mut shared = self.shared();
        if active.generation == self.generation() {
            shared.idle.push(active.connection);
        }
    }
}
