//! The NVMe/TCP host: a namespace of a remote subsystem as a device.
//!
//! ```text
//!  QueueConnection   a connection to one queue; commands that are waited for
//!  discover          the subsystems of a target, for an error
//!  secrets           files of secrets and keys
//!  secure            TLS, before anything else
//!  authenticate      DH-HMAC-CHAP, after Connect
//!  Controller        the admin queue: Keep Alive, the ANA state of the namespace
//!  scan              namespace, limits, I/O queues
//!  zones             zone reports, compared between paths
//!  Queue             a hardware queue: a connection with many commands in flight
//!  NvmeTcpDevice     one path to a namespace
//!  PathConnections   the connections of a path, while there are some, and the access over them
//!  KeepAliveThread   Keep Alive, reconnecting, shutdown
//! ```
//!
//! [`open`] makes a multipath device of the paths of an address. Every request completes, with an
//! error if its connection is lost or its time is over. What the target sends is validated.
mod access;
mod address;
mod admin;
mod authenticate;
mod connections;
mod controller;
mod device;
mod discover;
mod error;
mod keep_alive;
mod offered;
mod queue;
mod queue_connection;
mod scan;
mod secrets;
mod secure;
mod zones;

pub use address::{Address, AddressError, NQN_FORM, SCHEME, TlsOptions};
pub use device::NvmeTcpDevice;
pub use error::{AuthError, ConnectError, TlsKeyError};
use keep_alive::Siblings;
pub use secrets::{load_psks, load_secrets};

use std::sync::Arc;
use zonal_blk::Nanos;
use zonal_device::control::DeviceControl;
use zonal_device::multipath::{MultipathConfig, MultipathDevice, Path};
use zonal_os::Notify;

/// Connects to a namespace over all paths of the address, with up to `queues` hardware queues, 1 or
/// more. Returns the device and its description. If at least one path can be connected, others are
/// retried later. `notify` gets a notice of each path that is lost or reconnected.
///
/// A single path that is not to be reconnected (`ctrl_loss_tmo=0`) is used without a multipath device.
///
/// # Errors
/// Why the first path cannot be connected, if none can, or why one that can is unsuitable.
pub fn open(
    address: &Address,
    queues: u16,
    notify: &Notify,
) -> Result<(Arc<dyn DeviceControl>, String), ConnectError> {
    if address.more_targets.is_empty() && address.reconnect.ctrl_loss_tmo == Some(Nanos(0)) {
        let device = NvmeTcpDevice::connect(address, queues)?;
        let description = device.describe();
        return Ok((Arc::new(device), description));
    }
    let paths = connect_all(address, queues, notify)?;
    let mut description = paths[0].describe();
    if paths.len() > 1 {
        description.push_str(&format!(", {} paths ({})", paths.len(), address.policy));
    }
    let config = MultipathConfig {
        policy: address.policy,
        hold_timeout: address.reconnect.ctrl_loss_tmo,
        quiesce: Nanos(u64::try_from(address.quiesce.as_nanos()).unwrap_or(u64::MAX)),
    };
    let paths = paths.into_iter().map(|path| path as Arc<dyn Path>).collect();
    Ok((MultipathDevice::new(paths, config)?, description))
}

fn connect_all(
    address: &Address,
    queues: u16,
    notify: &Notify,
) -> Result<Vec<Arc<NvmeTcpDevice>>, ConnectError> {
    let mut connected: Vec<(usize, Arc<NvmeTcpDevice>)> = Vec::new();
    let mut disconnected = Vec::new();
    let siblings = Siblings::default();
    if !address.more_targets.is_empty() {
        *siblings.lock().expect("siblings lock") = Some(Vec::new());
    }
    let add = |path: &Arc<NvmeTcpDevice>| {
        if let Some(siblings) = &mut *siblings.lock().expect("siblings lock") {
            siblings.push(Arc::downgrade(path) as _);
        }
    };
    for (number, path) in address.paths().enumerate() {
        let first = connected.first().map(|(_, first)| &**first);
        match NvmeTcpDevice::path(&path, queues, first, &siblings, notify) {
            Ok(device) => {
                let device = Arc::new(device);
                add(&device);
                connected.push((number, device));
            }
            Err(error) if error.is_transient() => disconnected.push((number, path, error)),
            Err(error) => return Err(error),
        }
    }
    let Some((_, first)) = connected.first().cloned() else {
        return Err(disconnected.swap_remove(0).2);
    };
    for (number, path, error) in disconnected {
        notify(&format!("{}: not connected: {error}", path.target));
        let device = NvmeTcpDevice::disconnected(&path, &first, &siblings, notify)?;
        let device = Arc::new(device);
        add(&device);
        connected.push((number, device));
    }
    connected.sort_by_key(|&(number, _)| number);
    Ok(connected.into_iter().map(|(_, path)| path).collect())
}

impl ConnectError {
    /// Whether a retry may succeed.
    fn is_transient(&self) -> bool {
        match self {
            ConnectError::Connect { .. }
            | ConnectError::Io { .. }
            | ConnectError::Timeout { .. } => true,
            ConnectError::Tls { source, .. } => source.is_transient(),
            // The namespace is inaccessible at that port (ANA).
            ConnectError::Refused { status, .. } => status.is_path_error(),
            _ => false,
        }
    }
}
