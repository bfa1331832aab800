//! The keep-alive thread of a path: has its admin queue, sends Keep Alive, reconnects, and shuts the
//! controller down.
//!
//! ```text
//!            scan --> live --- Keep Alive or a queue's connection fails ---> lost
//!             ^                                                               |
//!             |    every reconnect_delay, for ctrl_loss_tmo                   |
//!             +---------------------------------------------------------------+--> removed
//! ```
use super::address::Address;
use super::connections::PathConnections;
use super::device::NvmeTcpDevice;
use super::queue_connection::{ConnectError, QueueConnection};
use super::scan::{CC_SHUTDOWN, ScanResult, property_set, scan};
use super::zones::{Reported, contradiction};
use crate::Notify;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zonal_blk::{Device, Limits, Nanos, Zone, ZoneNo};
use zonal_device::multipath::{Path, PathState, Reconnect, ReconnectAction, check_compatible};
use zonal_nvme::ns::NamespaceHead;
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::fabrics::Property;
use zonal_nvme::wire::opcode::AdminOpcode;

/// How long the target may take to complete the shutdown command.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The paths of a namespace; `None` if there is one only.
pub(super) type Siblings = Arc<Mutex<Option<Vec<Weak<NvmeTcpDevice>>>>>;

/// What a path has to be, each time that it is connected.
pub(super) struct PathConfig {
    pub address: Address,
    pub head: Arc<NamespaceHead>,
    /// The serial number of the subsystem.
    pub serial: String,
    /// The paths of the namespace, this one among them, if there may be several.
    pub siblings: Siblings,
    pub limits: Limits,
    pub notify: Notify,
}

impl PathConfig {
    /// Checks what a scan found, and makes its connections those of the path.
    ///
    /// # Errors
    /// How it differs from what it has to be.
    pub fn admit(
        &self,
        connections: &PathConnections,
        found: ScanResult,
    ) -> Result<AdminQueue, ConnectError> {
        let target = || self.address.target.clone();
        let (head, info) = (&self.head, &found.info);
        let live = self.live_sibling();
        if self.is_shared() && found.serial != self.serial {
            let (found, expected) = (found.serial, self.serial.clone());
            return Err(ConnectError::Serial { target: target(), found, expected });
        }
        let admitted =
            if self.is_shared() { head.validate_shared(info) } else { head.validate(info) };
        admitted.map_err(|source| ConnectError::Head { target: target(), source })?;
        check_compatible(&found.limits, &self.limits)
            .map_err(|source| ConnectError::Limits { target: target(), source })?;
        let ScanResult { admin, keep_alive, mut queues, .. } = found;
        let mut reports = if self.limits.nr_zones > 0 { queues.pop() } else { None };
        if let (Some(live), Some(reports)) = (live, &mut reports) {
            self.check_zones(&live, reports)?;
        }
        let generation = connections.connected(self.head.path(), queues, reports);
        Ok(AdminQueue { connection: admin, generation, period: keep_alive })
    }

    fn is_shared(&self) -> bool {
        self.siblings.lock().expect("siblings lock").is_some()
    }

    /// Another path that is live. This one is not, so that no two of their threads wait for each other
    /// when they drop the last reference to a path.
    fn live_sibling(&self) -> Option<Arc<NvmeTcpDevice>> {
        let siblings = self.siblings.lock().expect("siblings lock");
        let mut paths = siblings.as_ref()?.iter().filter_map(Weak::upgrade);
        paths.find(|path| path.state() == PathState::Live)
    }

    /// Checks that the zones which this path reports are those of a live one: equal identifiers alone
    /// may be a mistake of who chose them.
    fn check_zones(
        &self,
        live: &NvmeTcpDevice,
        reports: &mut QueueConnection,
    ) -> Result<(), ConnectError> {
        let (limits, timeout) = (&self.limits, self.address.io_timeout);
        let all = |zones: &mut Vec<Zone>| live.report_zones(ZoneNo(0), usize::MAX, zones);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let asked = all(&mut before);
        let found = Reported { info: &self.head.info, limits, timeout }.all(reports)?;
        // If the other path was lost meanwhile, there is nothing to compare with.
        if asked.and_then(|()| all(&mut after)).is_err() {
            return Ok(());
        }
        match contradiction(&found, &before, &after) {
            None => Ok(()),
            Some((zone, &found, &expected)) => {
                let target = self.address.target.clone();
                Err(ConnectError::Zone { target, zone, found, expected })
            }
        }
    }

    fn notify(&self, notice: &str) {
        (self.notify)(&format!("{}: {notice}", self.address.target));
    }
}

/// The admin queue and how often it sends Keep Alive.
pub(super) struct AdminQueue {
    connection: QueueConnection,
    /// That of the path's connections, which may be lost before the thread has the queue.
    generation: u32,
    period: Duration,
}

/// The thread. Dropping it shuts the controller down.
pub(super) struct KeepAliveThread {
    connections: Arc<PathConnections>,
    thread: Option<JoinHandle<()>>,
}

impl KeepAliveThread {
    /// Starts with the admin queue of a path that is connected, or else by connecting it.
    pub fn start(
        connections: &Arc<PathConnections>,
        path_config: PathConfig,
        admin: Option<AdminQueue>,
    ) -> std::io::Result<Self> {
        let (connections, path) = (Arc::clone(connections), Arc::clone(connections));
        let thread = thread::Builder::new().name("keep-alive".to_owned());
        let thread = thread.spawn(move || run(&path, &path_config, admin))?;
        Ok(KeepAliveThread { connections, thread: Some(thread) })
    }
}

fn run(connections: &PathConnections, path_config: &PathConfig, admin: Option<AdminQueue>) {
    let mut next = admin;
    loop {
        if let Some(mut admin) = next.take() {
            if !keep_alive(connections, &mut admin) {
                return;
            }
            let reason = connections.shared().reason.clone();
            path_config.notify(&format!("lost: {reason}"));
        }
        next = reconnect(connections, path_config);
        if next.is_none() {
            return;
        }
        path_config.notify("connected again");
    }
}

/// Keeps the controller alive until its connections are lost; `false` if the thread is to end.
fn keep_alive(connections: &PathConnections, admin: &mut AdminQueue) -> bool {
    let generation = admin.generation;
    loop {
        let is_live = || connections.generation() == generation;
        let shared = connections.wait_while(admin.period, |shared| !shared.stop && is_live());
        if shared.stop {
            drop(shared);
            let shutdown = property_set(Property::CC, CC_SHUTDOWN);
            // The target may be gone.
            let _ = admin.connection.execute_within(
                SHUTDOWN_TIMEOUT,
                "shutdown",
                shutdown,
                Vec::new(),
                0,
            );
            return false;
        }
        if !is_live() {
            return true;
        }
        drop(shared);
        let keep_alive = Sqe::new(AdminOpcode::KEEP_ALIVE.0, 0, 0);
        let result =
            admin.connection.execute_within(admin.period, "Keep Alive", keep_alive, Vec::new(), 0);
        if let Err(error) = result {
            connections.lost(generation, &error.to_string());
        }
    }
}

/// Retries until the path is connected; `None` if it is given up or the thread is to end.
fn reconnect(connections: &PathConnections, path_config: &PathConfig) -> Option<AdminQueue> {
    let begin = Instant::now();
    let now = || Nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut reconnect = Reconnect::lost(&path_config.address.reconnect, now());
    loop {
        match reconnect.attempt(now()) {
            ReconnectAction::At(at) => {
                let left = Duration::from_nanos(at.0.saturating_sub(now().0));
                if connections.wait_while(left, |shared| !shared.stop).stop {
                    return None;
                }
            }
            ReconnectAction::Now => {
                let found = scan(&path_config.address, path_config.limits.nr_queues);
                match found.and_then(|found| path_config.admit(connections, found)) {
                    Ok(admin) => return Some(admin),
                    Err(error) => path_config.notify(&format!("cannot connect again: {error}")),
                }
                reconnect.failed(now());
            }
            ReconnectAction::GiveUp => {
                connections.removed();
                path_config.notify("given up");
                return None;
            }
        }
    }
}

impl Drop for KeepAliveThread {
    fn drop(&mut self) {
        self.connections.stop();
        // A thread that is connecting may wait long for a silent target; it ends after that.
        if let Some(thread) = self.thread.take()
            && self.connections.state() == PathState::Live
        {
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}
