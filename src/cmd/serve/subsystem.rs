//! The NVMe subsystem of a server: the devices as namespaces, whatever brings the commands.
use super::identity::Identity;
use super::{Attached, ServeArgs};
use anyhow::{Context, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use zonal_backend::nvme_tcp::load_secrets;
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};

/// A subsystem whose namespaces are the devices, in the order of their numbers.
///
/// # Errors
/// An option or a device is unsuitable.
pub fn of(args: &ServeArgs, attached: &Attached) -> Result<Arc<Subsystem>> {
    let Attached { nsids, devices, power, marks, .. } = attached;
    let options = &args.nvme_tcp;
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
        Some(file) => Subsystem::authenticated(config, authentication(file, args)?),
        None => Subsystem::new(config),
    };
    for (((nsid, device), uuid), mark) in nsids.iter().zip(devices).zip(uuids).zip(marks) {
        let mut namespace = Namespace::new(Arc::clone(&device.queue), uuid)
            .with_context(|| format!("device {}", device.name))?;
        if let Some(put) = mark {
            namespace = namespace.with_marks(Arc::clone(put));
        }
        subsystem.add(*nsid, Arc::new(namespace)).expect("free numbers within the limits");
    }
    for power in power.iter().flatten() {
        // The subsystem has the device.
        let told = Arc::downgrade(&subsystem);
        power.device.on_loss(move || told.upgrade().iter().for_each(|told| told.power_lost()));
    }
    zonal_os::return_freed_buffers();
    Ok(subsystem)
}

/// The secrets of hosts and the order of preference of algorithms.
fn authentication(file: &Path, args: &ServeArgs) -> Result<AuthConfig> {
    let options = &args.nvme_tcp;
    let mut auth = load_secrets(file).context("--dhchap-secrets")?;
    if !options.dhchap_hash.is_empty() {
        auth.hashes.clone_from(&options.dhchap_hash);
    }
    if !options.dhchap_dhgroup.is_empty() {
        auth.groups.clone_from(&options.dhchap_dhgroup);
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
