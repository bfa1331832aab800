//! The NVMe subsystem of a server: the devices as namespaces, whatever brings the commands.
use super::distinct::distinct;
use super::error::of_device;
use super::identity::Identity;
use super::{NvmeOptions, ServeError, of_option};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use zonal_backend::Stack;
use zonal_backend::nvme_tcp::load_secrets;
use zonal_device::control::PowerHistory;
use zonal_device::inject::DeviceChange;
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::controller::{Namespace, NamespaceError, PutMark, Subsystem, SubsystemConfig};

/// A subsystem whose namespaces are the devices, in the order of their numbers.
///
/// # Errors
/// An option or a device is unsuitable.
pub fn of(
    devices: &[Stack],
    nsids: &[u32],
    options: &NvmeOptions,
    marks: &[Option<PutMark>],
) -> Result<Arc<Subsystem>, ServeError> {
    let Identity { nqn, serial, uuids } = Identity::new(options, devices)?;
    let kind = devices[0].kind;
    let config = SubsystemConfig {
        nqn,
        serial,
        model: if devices.iter().all(|device| device.kind == kind) {
            format!("Zonal {kind}")
        } else {
            "Zonal".to_owned()
        },
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let subsystem = match &options.dhchap_secrets {
        Some(file) => Subsystem::authenticated(config, authentication(file, options)?),
        None => Subsystem::new(config),
    };
    let nsids = nsids.iter().copied().chain(1 + nsids.len() as u32..);
    for (((nsid, device), uuid), mark) in nsids.zip(devices).zip(uuids).zip(marks) {
        let namespace = Namespace::new(Arc::clone(&device.queue), uuid).map_err(with_other_exports);
        let mut namespace = namespace.map_err(of_device(&device.name))?;
        if let Some(put) = mark {
            namespace = namespace.with_marks(Arc::clone(put));
        }
        subsystem.add(nsid, Arc::new(namespace)).expect("free numbers within the limits");
        if let Some(inject) = &device.inject {
            let told = Arc::downgrade(&subsystem);
            inject.on_change(move |change| {
                let Some(told) = told.upgrade() else { return };
                match change {
                    DeviceChange::Zone(zone) => told.condition_changed(nsid, zone),
                    DeviceChange::Zones => told.zones_changed(nsid),
                }
            });
        }
    }
    for power in distinct(devices.iter().filter_map(|device| device.power.as_ref())) {
        // The subsystem has the device.
        let told = Arc::downgrade(&subsystem);
        power.on_loss(move || told.upgrade().iter().for_each(|told| told.power_lost()));
    }
    resume_power(&subsystem, devices);
    zonal_os::return_freed_buffers();
    Ok(subsystem)
}

/// The subsystem goes on from how the devices in images were switched on and off.
fn resume_power(subsystem: &Subsystem, devices: &[Stack]) {
    let histories = || devices.iter().filter_map(|device| device.model.power_history());
    let most = |count: fn(PowerHistory) -> u64| histories().map(count).max().unwrap_or(0);
    subsystem.set_power_history(
        most(|history| history.cycles).saturating_sub(1),
        most(|history| history.unsafe_shutdowns),
        histories().map(|history| history.losses).sum(),
    );
}

/// Why a device cannot be a namespace, with the exports that it can have instead.
fn with_other_exports(error: NamespaceError) -> String {
    match error {
        NamespaceError::Conventional(_) => {
            format!("{error}; --vhost-user and --ublk export devices with conventional zones")
        }
        _ => error.to_string(),
    }
}

/// The secrets of hosts and the order of preference of algorithms.
fn authentication(file: &Path, options: &NvmeOptions) -> Result<AuthConfig, ServeError> {
    let mut auth = load_secrets(file).map_err(of_option("dhchap-secrets", None))?;
    if !options.dhchap_hashes.is_empty() {
        auth.hashes.clone_from(&options.dhchap_hashes);
    }
    if !options.dhchap_groups.is_empty() {
        auth.groups.clone_from(&options.dhchap_groups);
    }
    warn_if_readable(file);
    Ok(auth)
}

/// Warns about a file of secrets that others can read.
pub fn warn_if_readable(file: &Path) {
    if file.metadata().is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        tracing::warn!("{}: others on this machine can read the secrets", file.display());
    }
}
