//! A device of the paths that an address names.
use super::device::NvmeTcpDevice;
use super::queue_connection::ConnectError;
use crate::Notify;
use crate::backend::nvme_tcp::address::Address;
use std::sync::Arc;
use zonal_blk::Nanos;
use zonal_device::control::DeviceControl;
use zonal_device::multipath::{MultipathConfig, MultipathDevice, Path};

/// Connects to a namespace over all paths of the address, with up to `queues` hardware queues, 1 or
/// more; gives the device and its description. Paths that cannot be connected now are tried again
/// later, if there is one that can. `notify` is told in words of paths that are lost and found.
///
/// A device with one path that is not to be made again is that path, and nothing is between.
///
/// # Errors
/// What went wrong with the first path of all that cannot be connected, or with one that can.
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
        hold: address.reconnect.ctrl_loss_tmo,
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
    let shared = !address.more_targets.is_empty();
    for (number, path) in address.paths().enumerate() {
        let head = connected.first().map(|(_, first)| first.head());
        match NvmeTcpDevice::path(&path, queues, head, shared, notify) {
            Ok(device) => connected.push((number, Arc::new(device))),
            Err(error) if error.is_transient() => disconnected.push((number, path, error)),
            Err(error) => return Err(error),
        }
    }
    let Some((_, first)) = connected.first().cloned() else {
        return Err(disconnected.swap_remove(0).2);
    };
    for (number, path, error) in disconnected {
        notify(&format!("{}: not connected: {error}", path.target));
        connected.push((number, Arc::new(NvmeTcpDevice::disconnected(&path, &first, notify)?)));
    }
    connected.sort_by_key(|&(number, _)| number);
    Ok(connected.into_iter().map(|(_, path)| path).collect())
}

impl ConnectError {
    /// Whether it may be better later: nobody answered.
    fn is_transient(&self) -> bool {
        matches!(
            self,
            ConnectError::Connect { .. } | ConnectError::Io { .. } | ConnectError::Timeout { .. }
        )
    }
}
