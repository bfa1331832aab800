//! The export over NVMe/TCP.
use super::identity::check_nqn;
use super::subsystem::warn_if_readable;
use super::{Export, NvmeOptions, ServeError, of_option};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use zonal_backend::nvme_tcp::load_psks;
use zonal_frontend::nvme_tcp::{Path, Server, ServerConfig, TargetTls};
use zonal_nvme::controller::Subsystem;
use zonal_os::RealClock;

/// A subsystem whose namespaces are the devices.
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

    fn paths(&self) -> Vec<Path> {
        self.servers.iter().map(Server::path).collect()
    }
}

/// Starts the target on all addresses.
///
/// # Errors
/// An option is unsuitable, or an address cannot be bound.
pub fn start(
    addresses: &[SocketAddr],
    options: &NvmeOptions,
    subsystem: &Arc<Subsystem>,
    clock: &RealClock,
) -> Result<NvmeTcp, ServeError> {
    options.allowed_hosts.iter().try_for_each(|host| check_nqn("allow-host", host))?;
    let limits = [
        ("max-connections", options.max_connections),
        ("max-host-connections", options.max_host_connections),
    ];
    if let Some((option, _)) = limits.into_iter().find(|(_, limit)| *limit == 0) {
        return Err(of_option(option, Some(&0))("expected 1 or more"));
    }
    let nqn = &subsystem.config().nqn;
    let config = ServerConfig {
        allowed_hosts: options.allowed_hosts.clone(),
        max_connections: options.max_connections,
        max_host_connections: options.max_host_connections,
        io_queues: options.io_queues,
        tls: tls(options, nqn)?,
        waiting: options.waiting(),
        clock: clock.clone(),
        ..ServerConfig::default()
    };
    let listen = |&address| {
        warn(address, options);
        Server::start(address, Arc::clone(subsystem), config.clone())
            .map_err(of_option("nvme-tcp", Some(&address)))
    };
    let servers = addresses.iter().map(listen).collect::<Result<_, _>>()?;
    Ok(NvmeTcp { servers, nqn: subsystem.config().nqn.clone() })
}

/// TLS of the target with this name, if it has a file of keys.
fn tls(options: &NvmeOptions, nqn: &str) -> Result<Option<Arc<TargetTls>>, ServeError> {
    let Some(file) = &options.tls_psk else { return Ok(None) };
    let psks = load_psks(file).map_err(of_option("tls-psk", None))?;
    warn_if_readable(file);
    let tls = TargetTls::new(psks, nqn, options.requires_tls);
    Ok(Some(Arc::new(tls.map_err(of_option("tls-psk", Some(&file.display())))?)))
}

/// Warns about an address that others can reach.
fn warn(address: SocketAddr, options: &NvmeOptions) {
    let ip = match address.ip() {
        IpAddr::V6(ip) => ip.to_canonical(),
        ip => ip,
    };
    let requires_tls = options.tls_psk.is_some() && options.requires_tls;
    if ip.is_loopback() || requires_tls {
        return;
    }
    if options.dhchap_secrets.is_some() {
        tracing::warn!(
            "--nvme-tcp {address}: hosts authenticate, but there is no encryption without TLS: \
             whoever is on the way can read and change the data"
        );
    } else {
        tracing::warn!(
            "--nvme-tcp {address}: whoever reaches this address can read and write the \
             devices; there is no authentication and no encryption{}",
            if options.tls_psk.is_some() { " of hosts without TLS" } else { "" }
        );
    }
}
