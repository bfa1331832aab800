//! The export over NVMe/TCP.
use super::Export;
use super::ServeArgs;
use super::args::{NvmeTcpArgs, TlsPolicy};
use super::subsystem::warn_if_readable;
use anyhow::{Context, Result, ensure};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use zonal_backend::nvme_tcp::check_nqn;
use zonal_backend::nvme_tcp::load_psks;
pub use zonal_frontend::nvme_tcp::Path;
use zonal_frontend::nvme_tcp::{Server, ServerConfig, TargetTls};
use zonal_nvme::controller::Subsystem;
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

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
pub fn start(args: &ServeArgs, subsystem: &Arc<Subsystem>, clock: &RealClock) -> Result<NvmeTcp> {
    let options = &args.nvme_tcp;
    options.allow_host.iter().try_for_each(|host| check_nqn("--allow-host", host))?;
    ensure!(options.max_connections > 0, "--max-connections 0: expected 1 or more");
    ensure!(options.max_host_connections > 0, "--max-host-connections 0: expected 1 or more");
    let nqn = &subsystem.config().nqn;
    let limits = ServerConfig { tls: tls(options, nqn)?, ..limits(args, clock) };
    let listen = |&address| {
        warn(address, options);
        Server::start(address, Arc::clone(subsystem), limits.clone())
            .with_context(|| format!("--nvme-tcp {address}"))
    };
    let servers = options.addresses.iter().map(listen).collect::<Result<_>>()?;
    Ok(NvmeTcp { servers, nqn: subsystem.config().nqn.clone() })
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

/// TLS of the target with this name, if it has a file of keys.
fn tls(options: &NvmeTcpArgs, nqn: &str) -> Result<Option<Arc<TargetTls>>> {
    let Some(file) = &options.tls_psk else { return Ok(None) };
    let context = || format!("--tls-psk {}", file.display());
    let psks = load_psks(file).context("--tls-psk")?;
    warn_if_readable(file);
    let required = options.tls.unwrap_or_default() == TlsPolicy::Required;
    let tls = TargetTls::new(psks, nqn, required).with_context(context)?;
    Ok(Some(Arc::new(tls)))
}

/// Warns about an address that others can reach.
fn warn(address: SocketAddr, options: &NvmeTcpArgs) {
    let ip = match address.ip() {
        IpAddr::V6(ip) => ip.to_canonical(),
        ip => ip,
    };
    let requires_tls =
        options.tls_psk.is_some() && options.tls.unwrap_or_default() == TlsPolicy::Required;
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
