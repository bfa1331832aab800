//! The export over NVMe/TCP.
use super::Export;
use super::ServeArgs;
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
use zonal_lab::devices::{AttachedDevice, format_uuid};
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};

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
pub fn start(args: &ServeArgs, devices: &[AttachedDevice], clock: &RealClock) -> Result<NvmeTcp> {
    let options = &args.nvme_tcp;
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    let id = uuid(&names.join(" "));
    let nqn = match &options.nqn {
        Some(nqn) => nqn.clone(),
        None => format!("nqn.2014-08.org.nvmexpress:uuid:{}", format_uuid(&id)),
    };
    check_nqn("--nqn", &nqn)?;
    options.allow_host.iter().try_for_each(|host| check_nqn("--allow-host", host))?;
    ensure!(options.max_connections > 0, "--max-connections 0: expected 1 or more");
    ensure!(options.max_host_connections > 0, "--max-host-connections 0: expected 1 or more");
    let kind = devices[0].kind;
    let config = SubsystemConfig {
        nqn: nqn.clone(),
        serial: format_uuid(&id).replace('-', "")[..20].to_owned(),
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
    for (nsid, device) in (1..).zip(devices) {
        // Devices of the same spec are different namespaces.
        let made = || {
            if nsid == 1 { uuid(&device.name) } else { uuid(&format!("{nsid} {}", device.name)) }
        };
        let id = device.uuid.unwrap_or_else(made);
        let namespace = Namespace::new(Arc::clone(&device.queue), id)
            .with_context(|| format!("device {}", device.name))?;
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
        eprintln!("zonal: {}: others on this machine can read the secrets", file.display());
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
    if args.verbose {
        config.notify = Arc::new(|what| eprintln!("zonal: {what}"));
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
        eprintln!(
            "zonal: --nvme-tcp {address}: hosts authenticate, but there is no encryption: whoever is \
             on the way can read and change the data"
        );
    } else {
        eprintln!(
            "zonal: --nvme-tcp {address}: whoever reaches this address can read and write the \
             devices; there is no authentication and no encryption"
        );
    }
}

/// A UUID derived from a device's name (RFC 9562 section 5.8, version 8), so that it is the same
/// whenever the device is served. Two 64-bit FNV-1a hashes.
fn uuid(name: &str) -> [u8; 16] {
    let hash = |basis: u64| {
        name.bytes()
            .fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    };
    let first = hash(0xcbf2_9ce4_8422_2325);
    let bits = u128::from(first) << 64 | u128::from(hash(first ^ 0x9e37_79b9_7f4a_7c15));
    let mut uuid = bits.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_has_the_same_uuid_each_time_and_another_one_has_another() {
        let shown = |name: &str| format_uuid(&uuid(name));
        assert_eq!(shown("null"), shown("null"));
        assert_ne!(shown("null"), shown("null:zones=1"));
        let text = shown("null");
        assert_eq!((text.len(), &text[14..15]), (36, "8"), "version 8: {text}");
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "the variant: {text}");
    }
}
