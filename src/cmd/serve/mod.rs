//! `zonal serve`: devices for other programs and machines.
//!
//! ```text
//!  nvme_tcp    namespaces of an NVMe subsystem, over TCP
//!  control     a socket to watch and change them, and metrics
//! ```
//!
//! Takes devices and their exports, all of a device on one block layer; serves until an interrupt.
//! The lines on standard output, one for each export, say that it is ready, and where.
mod control;
mod nvme_tcp;

use crate::cli::ServeArgs;
use crate::devices::{self, Attached};
use anyhow::{Context, Result};
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use zonal_blk::QueueOptions;
use zonal_device::inject::InjectDevice;
use zonal_device::spec;

/// A way for others to the devices; ends when it is dropped.
trait Export {
    /// Where it is, as a user names it.
    fn place(&self) -> String;
}

/// Serves devices until an interrupt.
///
/// # Errors
/// What is wrong with a device or an option, or why it cannot be exported.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let (interrupted, interrupt) = mpsc::channel();
    ctrlc::set_handler(move || {
        // After the first there may be nobody left to tell.
        let _ = interrupted.send(());
    })
    .context("cannot handle interrupts")?;
    let (devices, injects): (Vec<_>, Vec<_>) = attach(args)?.into_iter().unzip();
    for device in devices.iter().filter(|device| !device.keeps_data) {
        eprintln!("zonal: device {} keeps no data: reads give zeroes (memory=true)", device.name);
    }
    let mut exports = start(args, &devices)?;
    exports.extend(control::start(args, &devices, injects, &exports)?);
    let mut out = std::io::stdout().lock();
    exports.iter().try_for_each(|export| writeln!(out, "{}", export.place()))?;
    out.flush()?;
    interrupt.recv().context("waiting for an interrupt")?;
    drop(exports);
    Ok(ExitCode::SUCCESS)
}

/// The devices, each with a way to make it fail.
fn attach(args: &ServeArgs) -> Result<Vec<(Attached, Arc<InjectDevice>)>> {
    let attach = |name: &String| {
        let queue = QueueOptions {
            zone_write: args.zone_write.map(Into::into),
            scheduler: devices::named_scheduler(args.scheduler.as_deref(), &args.sched_opt)?,
            merge: !args.nomerges,
            iostats: args.control.is_wanted(),
            ..QueueOptions::default()
        };
        let spec = devices::load(name)?.with_seed(args.seed);
        let model = spec::build(&spec).with_context(|| format!("device {name}"))?;
        let inject = Arc::new(InjectDevice::new(model, args.seed));
        let model = Arc::clone(&inject) as _;
        // More channels than any device has queues: clients come as they like.
        Ok((devices::attach_device(name, &spec, model, queue, usize::MAX)?, inject))
    };
    args.devices.iter().map(attach).collect()
}

fn start(args: &ServeArgs, devices: &[Attached]) -> Result<Vec<Box<dyn Export>>> {
    let mut exports: Vec<Box<dyn Export>> = Vec::new();
    if !args.nvme_tcp.addresses.is_empty() {
        exports.push(Box::new(nvme_tcp::start(args, devices)?));
    }
    Ok(exports)
}
