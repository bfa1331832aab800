//! The admin queue of a path in use: says in time that the host lives, makes lost connections again,
//! and says goodbye.
//!
//! ```text
//!            scan --> live --- Keep Alive fails, or a queue's connection --> lost
//!             ^                                                               |
//!             |    after reconnect_delay, for ctrl_loss_tmo in all            |
//!             +---------------------------------------------------------------+--> gone
//! ```
use super::link::Link;
use super::queue_connection::{ConnectError, QueueConnection};
use super::scan::{CC_SHUTDOWN, ScanResult, property_set, scan};
use crate::Notify;
use crate::backend::nvme_tcp::address::Address;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zonal_blk::{Limits, Nanos};
use zonal_device::multipath::{PathState, Reconnect, ReconnectAction, check_compatible};
use zonal_nvme::ns::NamespaceHead;
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::opcode::AdminOpcode;
use zonal_nvme::wire::property::Property;

/// How long the target may take to say that it heard the goodbye.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// What a path is to be, each time that it is connected.
pub(super) struct PathConfig {
    pub address: Address,
    pub head: Arc<NamespaceHead>,
    /// There are other paths to the head.
    pub shared: bool,
    pub limits: Limits,
    pub notify: Notify,
}

impl PathConfig {
    /// Takes up what a scan found; gives the admin queue.
    ///
    /// # Errors
    /// In what it is not what was promised.
    pub fn take(&self, link: &Link, found: ScanResult) -> Result<AdminQueue, ConnectError> {
        let target = || self.address.target.clone();
        let (head, info) = (&self.head, &found.info);
        let admitted = if self.shared { head.validate_shared(info) } else { head.validate(info) };
        admitted.map_err(|source| ConnectError::Head { target: target(), source })?;
        check_compatible(&found.limits, &self.limits)
            .map_err(|source| ConnectError::Limits { target: target(), source })?;
        let ScanResult { admin, keep_alive, mut queues, .. } = found;
        let reports = if self.limits.nr_zones > 0 { queues.pop() } else { None };
        let namespace = self.head.path();
        link.connected(namespace, queues, reports);
        Ok(AdminQueue { connection: admin, period: keep_alive })
    }

    fn say(&self, what: &str) {
        (self.notify)(&format!("{}: {what}", self.address.target));
    }
}

/// The admin queue.
pub(super) struct AdminQueue {
    connection: QueueConnection,
    period: Duration,
}

/// A thread with the admin queue; dropping it shuts the controller down.
pub(super) struct KeepAliveThread {
    link: Arc<Link>,
    thread: Option<JoinHandle<()>>,
}

impl KeepAliveThread {
    /// Keeps a path that is connected, or else one that is to be.
    pub fn start(
        link: &Arc<Link>,
        path_config: PathConfig,
        admin: Option<AdminQueue>,
    ) -> std::io::Result<Self> {
        let theirs = Arc::clone(link);
        let thread = thread::Builder::new().name("keep-alive".to_owned());
        let thread = thread.spawn(move || run(&theirs, &path_config, admin))?;
        Ok(KeepAliveThread { link: Arc::clone(link), thread: Some(thread) })
    }
}

fn run(link: &Link, path_config: &PathConfig, admin: Option<AdminQueue>) {
    let mut next = admin;
    loop {
        if let Some(mut admin) = next.take() {
            if !keep_alive(link, &mut admin) {
                return;
            }
            let why = link.shared().why.clone();
            path_config.say(&format!("lost: {why}"));
        }
        next = reconnect(link, path_config);
        if next.is_none() {
            return;
        }
        path_config.say("connected again");
    }
}

/// Keeps the controller alive until its connections are lost; `false` if it is needed no more.
fn keep_alive(link: &Link, admin: &mut AdminQueue) -> bool {
    let generation = link.generation();
    loop {
        let live = |link: &Link| link.generation() == generation;
        let shared = link.wait(link.shared(), admin.period, |shared| !shared.stop && live(link));
        if shared.stop {
            drop(shared);
            // The target may be gone: then there is nobody to say it to.
            let goodbye = property_set(Property::CC, CC_SHUTDOWN);
            let _ =
                admin.connection.send_within(SHUTDOWN_TIMEOUT, "shutdown", goodbye, Vec::new(), 0);
            return false;
        }
        if !live(link) {
            return true;
        }
        drop(shared);
        let alive = Sqe::new(AdminOpcode::KEEP_ALIVE.0, 0, 0);
        let sent = admin.connection.send_within(admin.period, "Keep Alive", alive, Vec::new(), 0);
        if let Err(error) = sent {
            link.lost(generation, &error.to_string());
        }
    }
}

/// Tries until the path is connected; `None` if it never will be, or is needed no more.
fn reconnect(link: &Link, path_config: &PathConfig) -> Option<AdminQueue> {
    let begin = Instant::now();
    let now = || Nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut reconnect = Reconnect::lost(&path_config.address.reconnect, now());
    loop {
        match reconnect.attempt(now()) {
            ReconnectAction::At(at) => {
                let left = Duration::from_nanos(at.0.saturating_sub(now().0));
                if link.wait(link.shared(), left, |shared| !shared.stop).stop {
                    return None;
                }
            }
            ReconnectAction::Now => {
                let found = scan(&path_config.address, path_config.limits.nr_queues);
                match found.and_then(|found| path_config.take(link, found)) {
                    Ok(admin) => return Some(admin),
                    Err(error) => path_config.say(&format!("cannot connect again: {error}")),
                }
                reconnect.failed(now());
            }
            ReconnectAction::GiveUp => {
                link.gone();
                path_config.say("given up");
                return None;
            }
        }
    }
}

impl Drop for KeepAliveThread {
    fn drop(&mut self) {
        self.link.stop();
        // A thread that tries to connect may wait long for a target that is silent; it then finds
        // that it is needed no more.
        if let Some(thread) = self.thread.take()
            && self.link.state() == PathState::Live
        {
            // It panics nowhere; if it did it has said so.
            let _ = thread.join();
        }
    }
}
