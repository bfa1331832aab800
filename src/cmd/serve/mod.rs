//! `zonal serve`: a device for other programs and machines.
//!
//! ```text
//!  nvme_tcp    a namespace of an NVMe subsystem, over TCP
//!  control     a socket to watch and change it, and metrics
//! ```
//!
//! Takes a device and its exports, all on one block layer; serves until an interrupt. The lines on
//! standard output, one for each export, say that it is ready, and where.
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
use zonal_host::control::{Operated, Operator};

/// A way for others to the device; ends when it is dropped.
trait Export {
    /// Where it is, as a user names it.
    fn place(&self) -> String;
}

/// Serves a device until an interrupt.
///
/// # Errors
/// What is wrong with the device or an option, or why it cannot be exported.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let (interrupted, interrupt) = mpsc::channel();
    ctrlc::set_handler(move || {
        // After the first there may be nobody left to tell.
        let _ = interrupted.send(());
    })
    .context("cannot handle interrupts")?;
    let (device, inject) = attach(args)?;
    if !device.keeps_data {
        eprintln!("zonal: device {} keeps no data: reads give zeroes (memory=true)", args.device);
    }
    let mut exports = start(args, &device)?;
    let places = exports.iter().map(|export| export.place()).collect();
    let operated = inject.map(|inject| Operated {
        name: device.name.clone(),
        description: device.description.clone(),
        queue: Arc::clone(&device.queue),
        device: inject,
    });
    let operator = Arc::new(Operator::new(operated.into_iter().collect(), places));
    if let Some(path) = &args.ctl {
        exports.push(control::socket(path, &operator)?);
    }
    if let Some(address) = args.metrics {
        exports.push(control::metrics(address, &operator)?);
    }
    let mut out = std::io::stdout().lock();
    exports.iter().try_for_each(|export| writeln!(out, "{}", export.place()))?;
    out.flush()?;
    interrupt.recv().context("waiting for an interrupt")?;
    drop(exports);
    Ok(ExitCode::SUCCESS)
}

/// The device, and a way to make it fail if somebody is to operate it.
fn attach(args: &ServeArgs) -> Result<(Attached, Option<Arc<InjectDevice>>)> {
    let name = &args.device;
    let operated = args.ctl.is_some() || args.metrics.is_some();
    let queue = QueueOptions {
        zone_write: args.zone_write.map(Into::into),
        scheduler: devices::named_scheduler(args.scheduler.as_deref(), &args.sched_opt)?,
        merge: !args.nomerges,
        iostats: operated,
        ..QueueOptions::default()
    };
    let spec = devices::load(name)?.with_seed(args.seed);
    // More channels than any device has queues: clients come as they like.
    if !operated {
        return Ok((devices::attach(name, &spec, queue, usize::MAX)?, None));
    }
    let model = spec::build(&spec).with_context(|| format!("device {name}"))?;
    let inject = Arc::new(InjectDevice::new(model, args.seed));
    let model = Arc::clone(&inject) as _;
    Ok((devices::attach_device(name, &spec, model, queue, usize::MAX)?, Some(inject)))
}

fn start(args: &ServeArgs, device: &Attached) -> Result<Vec<Box<dyn Export>>> {
    let mut exports: Vec<Box<dyn Export>> = Vec::new();
    if let Some(address) = args.nvme_tcp.address {
        exports.push(Box::new(nvme_tcp::start(address, args, device)?));
    }
    Ok(exports)
}
