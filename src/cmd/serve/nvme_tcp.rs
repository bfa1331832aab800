//! The export over NVMe/TCP.
use super::Export;
use super::ServeArgs;
use super::identity::Identity;
use anyhow::{Context, Result, ensure};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use zonal_host::RealClock;
use zonal_host::backend::nvme_tcp::check_nqn;
use zonal_host::frontend::nvme_tcp::{Server, ServerConfig};
use zonal_host::poll::WaitPolicy;
use zonal_host::secrets::load_secrets;
use zonal_lab::devices::AttachedDevice;
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::controller::{Namespace, PutMark, Subsystem, SubsystemConfig};

/// A subsystem whose namespaces are the devices, numbered from 1.
pub struct NvmeTcp {
    /// One server per path.
    servers: Vec<Server>,
    nqn: String,
}

impl Export for NvmeTcp {
    fn location(&self) -> String {
        let paths: Vec<String> =
            self.servers.iter().map(|server| server.address().to_string()).collect();
        format!("nvme-tcp://{}/{}", paths.join(","), self.nqn)
    }
}

/// Starts the target on all addresses.
///
/// # Errors
/// An option or a device is unsuitable, or an address cannot be bound.
pub fn start(
    args: &ServeArgs,
    devices: &[AttachedDevice],
    marks: &[Option<PutMark>],
    clock: &RealClock,
) -> Result<NvmeTcp> {
    let options = &args.nvme_tcp;
    let Identity { nqn, serial, uuids } = Identity::new(options, devices)?;
    options.allow_host.iter().try_for_each(|host| check_nqn("--allow-host", host))?;
    ensure!(options.max_connections > 0, "--max-connections 0: expected 1 or more");
    ensure!(options.max_host_connections > 0, "--max-host-connections 0: expected 1 or more");
    let kind = devices[0].kind;
    let config = SubsystemConfig {
        nqn: nqn.clone(),
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
    let limits = limits(args, clock);
    let listen = |&address| {
        warn(address, options.dhchap_secrets.is_some());
        Server::start(address, Arc::clone(&subsystem), limits.clone())
            .with_context(|| format!("--nvme-tcp {address}"))
    };
    let servers = options.addresses.iter().map(listen).collect::<Result<_>>()?;
    Ok(NvmeTcp { servers, nqn })
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

fn limits(args: &ServeArgs, clock: &RealClock) -> ServerConfig {
    let options = &args.nvme_tcp;
    let mut config = ServerConfig {
        allowed_hosts: options.allow_host.clone(),
        max_connections: options.max_connections,
        max_host_connections: options.max_host_connections,
        io_queues: options.io_queues,
        clock: clock.clone(),
        ..ServerConfig::default()
    };
    if options.poll {
        config.waiting = WaitPolicy::Yield;
    }
    config
}

/// Warns about an address that others can reach.
fn warn(address: SocketAddr, authenticates: bool) {
    let ip = match address.ip() {
        IpAddr::V6(ip) => ip.to_canonical(),
        ip => ip,
    };
    if ip.is_loopback() {
        return;
    }
    if authenticates {
        tracing::warn!(
            "--nvme-tcp {address}: hosts authenticate, but there is no encryption: whoever is \
             on the way can read and change the data"
        );
    } else {
        tracing::warn!(
            "--nvme-tcp {address}: whoever reaches this address can read and write the \
             devices; there is no authentication and no encryption"
        );
    }
}
