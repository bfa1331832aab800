//! The keep-alive thread of a path: has its controller, sends Keep Alive, follows the ANA state,
//! reconnects, and shuts the controller down.
//!
//! ```text
//!   connect --> scan --> connected --- Keep Alive or a queue's connection fails ---> lost
//!    ^  |        ^       usable or not, as the ANA state is                             |
//!    |  v        |                                                                      |
//!    | watched --+  inaccessible: no queues yet, until it is accessible                 |
//!    |                                                                                  |
//!    |             every reconnect_delay, for ctrl_loss_tmo                             |
//!    +----------------------------------------------------------------------------------+--> removed
//! ```
use super::address::Address;
use super::connections::PathConnections;
use super::controller::Controller;
use super::error::ConnectError;
use super::queue_connection::QueueConnection;
use super::scan::{ScanResult, scan};
use super::zones::{Reported, contradiction};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zonal_blk::{Limits, Nanos, Zone, ZoneNo};
use zonal_device::multipath::{Path, Reconnect, ReconnectAction, check_compatible};
use zonal_nvme::ana::AnaState;
use zonal_nvme::ns::NamespaceHead;
use zonal_os::Notify;

/// The paths of a namespace; `None` if there is one only.
pub(super) type Siblings = Arc<Mutex<Option<Vec<Weak<dyn Path>>>>>;

/// The properties that a path must have each time it connects.
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
        controller: Controller,
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
        let ScanResult { mut queues, .. } = found;
        let mut reports = if self.limits.nr_zones > 0 { queues.pop() } else { None };
        if let (Some(live), Some(reports)) = (live, &mut reports) {
            self.check_zones(&*live, reports)?;
        }
        let access = controller.ana_state();
        let generation = connections.connected(self.head.path(), queues, reports, access);
        Ok(AdminQueue { controller, generation })
    }

    fn is_shared(&self) -> bool {
        self.siblings.lock().expect("siblings lock").is_some()
    }

    /// Another path that is usable. This one is not, so that no two of their threads wait for each other
    /// when they drop the last reference to a path.
    fn live_sibling(&self) -> Option<Arc<dyn Path>> {
        let siblings = self.siblings.lock().expect("siblings lock");
        let mut paths = siblings.as_ref()?.iter().filter_map(Weak::upgrade);
        paths.find(|path| path.state().is_usable())
    }

    /// Checks that the zones which this path reports are those of a live one: equal identifiers alone
    /// may be a mistake in the configuration.
    fn check_zones(
        &self,
        live: &dyn Path,
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

    fn notify_access(&self, state: Option<AnaState>) {
        if let Some(state) = state {
            self.notify(&format!("ANA state {state}"));
        }
    }
}

/// The controller of a path that is connected.
pub(super) struct AdminQueue {
    controller: Controller,
    /// The generation of the path's connections, which may be lost before the thread has the queue.
    generation: u32,
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
            if !keep_alive(connections, path_config, &mut admin) {
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

/// Keeps the controller alive, and follows its ANA state, until its connections are lost; `false` if the
/// thread is to end.
fn keep_alive(
    connections: &PathConnections,
    path_config: &PathConfig,
    admin: &mut AdminQueue,
) -> bool {
    let AdminQueue { controller, generation } = admin;
    loop {
        connections.reset_wake();
        if connections.shared().stop {
            controller.shut_down();
            return false;
        }
        if connections.generation() != *generation {
            return true;
        }
        let before = controller.ana_state();
        let doubted = connections.is_access_doubted();
        if let Err(error) = controller.process(doubted) {
            connections.lost(*generation, &error.to_string());
            continue;
        }
        let state = controller.ana_state();
        if doubted || state != before {
            connections.set_access(state);
        }
        if state != before {
            path_config.notify_access(state);
        }
        controller.wait(connections.wake_fd());
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
            ReconnectAction::Now => match connect_again(connections, path_config) {
                Ok(admin) => return admin,
                Err(Failure { error, was_reached }) => {
                    path_config.notify(&format!("cannot connect again: {error}"));
                    match was_reached {
                        // It is lost anew.
                        true => reconnect = Reconnect::lost(&path_config.address.reconnect, now()),
                        false => reconnect.failed(now()),
                    }
                }
            },
            ReconnectAction::GiveUp => {
                connections.removed();
                path_config.notify("given up");
                return None;
            }
        }
    }
}

/// Why a path is not connected.
struct Failure {
    error: ConnectError,
    /// The controller could be reached, and the namespace not.
    was_reached: bool,
}

/// Connects the path once, when the namespace is accessible; `None` if the thread is to end.
fn connect_again(
    connections: &PathConnections,
    path_config: &PathConfig,
) -> Result<Option<AdminQueue>, Failure> {
    let failed = |error| Failure { error, was_reached: false };
    let mut controller = Controller::connect(&path_config.address).map_err(failed)?;
    let was_inaccessible = controller.check_access().is_err();
    let connected = (|| {
        if was_inaccessible && !watch(connections, path_config, &mut controller)? {
            return Ok(None);
        }
        let found = scan(&mut controller, &path_config.address, path_config.limits.nr_queues)?;
        path_config.admit(connections, controller, found).map(Some)
    })();
    connected.map_err(|error| {
        let refused =
            matches!(error, ConnectError::Refused { status, .. } if status.is_ana_error());
        Failure { error, was_reached: was_inaccessible || refused }
    })
}

/// Waits until the namespace is accessible at the controller; `false` if the thread is to end.
fn watch(
    connections: &PathConnections,
    path_config: &PathConfig,
    controller: &mut Controller,
) -> Result<bool, ConnectError> {
    connections.set_watched(true);
    path_config.notify_access(controller.ana_state());
    let watched = loop {
        connections.set_access(controller.ana_state());
        connections.reset_wake();
        if connections.shared().stop {
            controller.shut_down();
            break Ok(false);
        }
        if let Err(error) = controller.process(false) {
            break Err(error);
        }
        if controller.check_access().is_ok() {
            break Ok(true);
        }
        controller.wait(connections.wake_fd());
    };
    connections.set_access(None);
    connections.set_watched(false);
    watched
}

impl Drop for KeepAliveThread {
    fn drop(&mut self) {
        self.connections.stop();
        // A thread that is connecting may wait long for a silent target; it ends after that.
        if let Some(thread) = self.thread.take()
            && self.connections.has_controller()
        {
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}
