//! `zonal serve`: exports devices to other programs and machines.
//!
//! The exports run until an interrupt, or until the last one has ended by itself. Once all are ready,
//! a line for each on standard output says where it is.
pub mod args;

use super::traced;
use crate::interrupt::end_on_interrupt;
use crate::terminal::{notices, stdout};
use anyhow::{Error, Result, anyhow, ensure};
pub use args::ServeArgs;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use zonal_backend::{Stack, StackError, Unattached};
use zonal_blk::{Device, QueueOptions};
use zonal_device::part::{PartDevice, Share};
use zonal_lab::devices::named_scheduler;
use zonal_lab::io_trace::IoTrace;
use zonal_os::service::{self, State};
use zonal_serve::control::log::Log;
use zonal_serve::{
    ControlOptions, NvmeOptions, ServeError, ServeOptions, Server, UblkOptions, ZonefsOptions,
    stopping,
};

/// Exports devices until an interrupt, or until no export is left.
///
/// # Errors
/// A device or an option is bad, or a device cannot be exported.
pub fn run(args: &ServeArgs, log: &Log) -> Result<ExitCode> {
    let stopping = stopping();
    let stopper = stopping.stopper();
    let timeout = Duration::from_secs_f64(args.shutdown_timeout);
    end_on_interrupt(move || stopper.stop(), timeout, log.clone())?;
    let mut options = options(args)?;
    let devices = devices(args, &mut options)?;
    let server = Server::new(devices, options).map_err(of_options)?.stopped_by(stopping);
    let kept_by_none = |stack: &&Stack| !stack.keeps_data;
    let without_data = server.stacks().iter().filter(kept_by_none);
    let without_data: Vec<String> = without_data.map(|stack| stack.name.clone()).collect();
    // Before any client can come.
    let trace = args.trace.trace.is_some();
    let start = || IoTrace::start(server.stacks().iter(), args.trace.settings());
    let trace = trace.then(start).transpose()?;
    let running = server.start().map_err(of_options)?;
    // An error of the start is not hidden among warnings about what would be served.
    for name in without_data {
        tracing::warn!("device {name} keeps no data: reads give zeroes (memory=true)");
    }
    // One write: a script may read the first line, and close the pipe.
    let locations: String = running.locations().iter().map(|place| place.clone() + "\n").collect();
    stdout().write_all(locations.as_bytes())?;
    tell_manager(State::Ready);
    let mut code = ExitCode::SUCCESS;
    if let Err(error) = running.wait() {
        tracing::error!("{error}");
        code = ExitCode::FAILURE;
    }
    tell_manager(State::Stopping);
    let stopped = running.stop();
    trace.as_ref().map_or(Ok(()), traced::finish)?;
    match stopped {
        Err(error @ ServeError::Flush(_)) => {
            tracing::error!("{error}");
            Ok(ExitCode::FAILURE)
        }
        stopped => stopped.map(|()| code).map_err(of_options),
    }
}

/// Tells systemd, if that started the server with `Type=notify`.
fn tell_manager(state: State) {
    if let Err(error) = service::notify(state) {
        tracing::warn!("cannot tell the service manager ({state:?}): {error}");
    }
}

/// The devices, whose numbers as namespaces become options.
fn devices(args: &ServeArgs, options: &mut ServeOptions) -> Result<Vec<Stack<Unattached>>> {
    if let Some((device, shares)) = args.shares()? {
        return divide(device, shares, args, options);
    }
    let (nsids, names): (Vec<_>, Vec<_>) = args.numbered_devices()?.into_iter().unzip();
    let count = names.len();
    ensure!(args.record.is_none() || count == 1, "--record: found {count} devices, expected one");
    options.namespaces = nsids;
    names.iter().map(|name| Ok(wrapped(options.open(name)?, args))).collect()
}

/// The parts of a device.
fn divide(
    name: &str,
    shares: BTreeMap<u32, Share>,
    args: &ServeArgs,
    options: &mut ServeOptions,
) -> Result<Vec<Stack<Unattached>>> {
    let whole = wrapped(options.open(name)?, args).wrap().map_err(of_wrapper)?;
    let (nsids, shares): (Vec<_>, Vec<_>) = shares.into_iter().unzip();
    let parts = PartDevice::divide(&whole.model, &shares).map_err(|(number, error)| {
        Error::from(error).context(format!("--namespace {}: part of {name}", nsids[number]))
    })?;
    let stack = |(nsid, part): (&u32, Arc<PartDevice>)| {
        let size = part.limits().capacity.to_bytes();
        whole.part(&format!("{name}@{nsid}"), size, part)
    };
    let stacks = nsids.iter().zip(parts).map(stack).collect();
    options.namespaces = nsids;
    Ok(stacks)
}

/// A device that is recorded and has a write cache if the options say so.
fn wrapped(mut stack: Stack<Unattached>, args: &ServeArgs) -> Stack<Unattached> {
    if let Some(log) = &args.record {
        stack = stack.record(log);
    }
    if let Some(sectors) = args.write_cache {
        stack = stack.write_cache(sectors);
    }
    stack
}

/// Why a device cannot be wrapped or attached, with the option.
fn of_wrapper(error: StackError) -> Error {
    match error {
        StackError::WriteCache { .. } => Error::from(error).context("--write-cache"),
        error if error.is_of_recording() => Error::from(error).context("--record"),
        error => error.into(),
    }
}

/// How devices are served, but for their numbers.
fn options(args: &ServeArgs) -> Result<ServeOptions> {
    let args::ControlArgs { ctl, ctl_group, metrics, web, web_control, .. } = args.control.clone();
    let args::UblkArgs { id, queues, depth, recover, copies, .. } = args.ublk;
    let args::FuseArgs { dir, options: list, threads, .. } = args.fuse.clone();
    Ok(ServeOptions {
        seed: args.seed,
        queue: QueueOptions {
            zone_write: args.zone_write,
            scheduler: named_scheduler(args.scheduler.as_deref(), &args.sched_opt)?,
            merge: !args.nomerges,
            ..QueueOptions::default()
        },
        notices: notices(),
        nvme_tcp: args.nvme_tcp.addresses.clone(),
        nvme: nvme_options(args),
        vfio_user: args.vfio_user.socket.clone(),
        vhost_user: args.vhost_user.socket.clone().map(|path| (path, args.vhost_user.queues)),
        zonefs: dir.map(|dir| ZonefsOptions { dir, list, threads }),
        ublk: id.map(|id| UblkOptions { id, queues, depth, recover, copies }),
        control: ControlOptions { ctl, ctl_group, metrics, web, web_control },
        ..ServeOptions::default()
    })
}

fn nvme_options(args: &ServeArgs) -> NvmeOptions {
    let options = &args.nvme_tcp;
    NvmeOptions {
        nqn: options.nqn.clone(),
        serial: options.serial.clone(),
        uuids: options.uuid.clone(),
        allowed_hosts: options.allow_host.clone(),
        dhchap_secrets: options.dhchap_secrets.clone(),
        dhchap_hashes: options.dhchap_hash.clone(),
        dhchap_groups: options.dhchap_dhgroup.clone(),
        tls_psk: options.tls_psk.clone(),
        requires_tls: options.tls.unwrap_or_default() == args::TlsPolicy::Required,
        max_connections: options.max_connections,
        max_host_connections: options.max_host_connections,
        io_queues: options.io_queues,
        poll: options.poll,
    }
}

/// An error as the command line has it: its options have dashes.
fn of_options(error: ServeError) -> Error {
    match error {
        ServeError::Option { option, value, source } => {
            let value = value.map_or_else(String::new, |value| format!(" {value}"));
            anyhow!(source).context(format!("--{option}{value}"))
        }
        ServeError::Stack(error) => of_wrapper(error),
        ServeError::Recording(_) => Error::from(error).context("--record"),
        error => error.into(),
    }
}
