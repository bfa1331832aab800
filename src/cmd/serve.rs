//! `zonal serve`: a device for other programs and machines.
//!
//! Takes a device and an address; serves until an interrupt. The one line on standard output says
//! that it is ready, and where.
use crate::cli::ServeArgs;
use crate::devices::{self, Attached, show_uuid};
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use zonal_blk::QueueOptions;
use zonal_host::image::ImageName;
use zonal_host::nvme_tcp::{Server, ServerConfig, Waiting, check_nqn};
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};

/// Serves a device until an interrupt.
///
/// # Errors
/// What is wrong with the device or an option, or why nothing can be listened to.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let (interrupted, interrupt) = mpsc::channel();
    ctrlc::set_handler(move || {
        // After the first there may be nobody left to tell.
        let _ = interrupted.send(());
    })
    .context("cannot handle interrupts")?;
    let server = start(args)?;
    interrupt.recv().context("waiting for an interrupt")?;
    drop(server);
    Ok(ExitCode::SUCCESS)
}

fn start(args: &ServeArgs) -> Result<Server> {
    let queue = QueueOptions {
        zone_write: args.zone_write.map(Into::into),
        scheduler: devices::named_scheduler(args.scheduler.as_deref(), &args.sched_opt)?,
        merge: !args.nomerges,
        ..QueueOptions::default()
    };
    let name = &args.device;
    let (device, kind, uuid) = attach(args, queue)?;
    let nqn = match &args.nqn {
        Some(nqn) => nqn.clone(),
        None => format!("nqn.2014-08.org.nvmexpress:uuid:{}", show_uuid(&uuid)),
    };
    check_nqn("--nqn", &nqn)?;
    args.allow_host.iter().try_for_each(|host| check_nqn("--allow-host", host))?;
    ensure!(args.max_connections > 0, "--max-connections 0: expected 1 or more");
    ensure!(args.max_host_connections > 0, "--max-host-connections 0: expected 1 or more");
    let namespace = Namespace::new(device.queue, uuid).with_context(|| format!("device {name}"))?;
    let subsystem = Subsystem::new(SubsystemConfig {
        nqn: nqn.clone(),
        serial: show_uuid(&uuid).replace('-', "")[..20].to_owned(),
        model: format!("Zonal {kind}"),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
    });
    subsystem.add(1, Arc::new(namespace)).context("namespace")?;
    warn(args, device.keeps_data);
    let server = Server::start(args.nvme_tcp, subsystem, config(args))
        .with_context(|| format!("--nvme-tcp {}", args.nvme_tcp))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "nvme-tcp://{}/{nqn}", server.address())?;
    out.flush()?;
    Ok(server)
}

/// The device, what it is, and its UUID: an image's own, or one that is made of its name.
fn attach(args: &ServeArgs, queue: QueueOptions) -> Result<(Attached, &'static str, [u8; 16])> {
    let name = &args.device;
    // More channels than any device has queues: hosts connect as they like.
    let channels = usize::MAX;
    if ImageName::looks_like(name) {
        let opened = devices::open_image(name)?;
        let uuid = opened.device.superblock().uuid;
        return Ok((devices::attach_image(name, opened, queue, channels)?, "image", uuid));
    }
    let spec = devices::load(name)?.with_seed(args.seed);
    Ok((devices::attach(name, &spec, queue, channels)?, spec.kind(), uuid(name)))
}

fn config(args: &ServeArgs) -> ServerConfig {
    let mut config = ServerConfig {
        allowed_hosts: args.allow_host.clone(),
        max_connections: args.max_connections,
        max_host_connections: args.max_host_connections,
        io_queues: args.io_queues,
        ..ServerConfig::default()
    };
    if args.poll {
        config.waiting = Waiting::Poll;
    }
    if args.verbose {
        config.notify = Arc::new(|what| eprintln!("zonal: {what}"));
    }
    config
}

/// Says what somebody may not expect.
fn warn(args: &ServeArgs, keeps_data: bool) {
    if !keeps_data {
        eprintln!("zonal: device {} keeps no data: reads give zeroes (memory=true)", args.device);
    }
    let ip = match args.nvme_tcp.ip() {
        IpAddr::V6(ip) => ip.to_canonical(),
        ip => ip,
    };
    if !ip.is_loopback() {
        eprintln!(
            "zonal: --nvme-tcp {}: whoever reaches this address can read and write the device; \
             there is no authentication and no encryption",
            args.nvme_tcp
        );
    }
}

/// A UUID of the device's name (RFC 9562 section 5.8, version 8): the same device has the same
/// whenever it is served. Two 64-bit FNV-1a hashes.
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
        let shown = |name: &str| show_uuid(&uuid(name));
        assert_eq!(shown("null"), shown("null"));
        assert_ne!(shown("null"), shown("null:zones=1"));
        let text = shown("null");
        assert_eq!((text.len(), &text[14..15]), (36, "8"), "version 8: {text}");
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "the variant: {text}");
    }
}
