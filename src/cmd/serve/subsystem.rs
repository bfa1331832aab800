//! The NVMe subsystem of a server: the devices as namespaces, whatever brings the commands.
use super::ServeArgs;
use super::identity::Identity;
use anyhow::{Context, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use zonal_host::secrets::load_secrets;
use zonal_lab::devices::AttachedDevice;
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::controller::{Namespace, PutMark, Subsystem, SubsystemConfig};

/// A subsystem whose namespaces are the devices, numbered from 1.
///
/// # Errors
/// An option or a device is unsuitable.
pub fn of(
    args: &ServeArgs,
    devices: &[AttachedDevice],
    marks: &[Option<PutMark>],
) -> Result<Arc<Subsystem>> {
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
    for (((nsid, device), uuid), mark) in (1..).zip(devices).zip(uuids).zip(marks) {
        let mut namespace = Namespace::new(Arc::clone(&device.queue), uuid)
            .with_context(|| format!("device {}", device.name))?;
        if let Some(put) = mark {
            namespace = namespace.with_marks(Arc::clone(put));
        }
        subsystem.add(nsid, Arc::new(namespace)).context("too many devices")?;
    }
    zonal_host::return_freed_buffers();
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
    if file.metadata().is_ok_and(|metadata| metadata.mode() & 0o077 != 0) {
        tracing::warn!("{}: others on this machine can read the secrets", file.display());
    }
    Ok(auth)
}
