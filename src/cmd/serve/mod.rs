//! `zonal serve`: a device for other programs and machines.
//!
//! ```text
//!  nvme_tcp    a namespace of an NVMe subsystem, over TCP
//!  ublk        a block device of this machine
//! ```
//!
//! Takes a device and its exports, all on one block layer; serves until an interrupt, or until an
//! export ends by itself. The lines on
//! standard output, one for each export, say that it is ready, and where.
mod nvme_tcp;
mod ublk;

use crate::cli::ServeArgs;
use crate::devices::{self, Attached};
use anyhow::{Context, Result};
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc;
use zonal_blk::QueueOptions;

/// A way for others to the device; ends when it is dropped.
trait Export {
    /// Where it is, as a user names it.
    fn place(&self) -> String;
}

/// Told that it is time to end: for nothing but an interrupt, or because an export ended, and why.
type End = mpsc::Sender<Option<String>>;

/// Serves a device until an interrupt.
///
/// # Errors
/// What is wrong with the device or an option, or why it cannot be exported.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let (end, ended) = mpsc::channel();
    let interrupted = end.clone();
    ctrlc::set_handler(move || {
        // After the first there may be nobody left to tell.
        let _ = interrupted.send(None);
    })
    .context("cannot handle interrupts")?;
    let device = attach(args)?;
    if !device.keeps_data {
        eprintln!("zonal: device {} keeps no data: reads give zeroes (memory=true)", args.device);
    }
    let exports = start(args, &device, &end)?;
    let mut out = std::io::stdout().lock();
    exports.iter().try_for_each(|export| writeln!(out, "{}", export.place()))?;
    out.flush()?;
    let why = ended.recv().context("waiting for an interrupt")?;
    drop(exports);
    Ok(match why {
        None => ExitCode::SUCCESS,
        Some(why) => {
            eprintln!("zonal: {why}");
            ExitCode::FAILURE
        }
    })
}

fn attach(args: &ServeArgs) -> Result<Attached> {
    let queue = QueueOptions {
        zone_write: args.zone_write.map(Into::into),
        scheduler: devices::named_scheduler(args.scheduler.as_deref(), &args.sched_opt)?,
        merge: !args.nomerges,
        ..QueueOptions::default()
    };
    // More channels than any device has queues: clients come as they like.
    if devices::is_block_device(&args.device) {
        return devices::open(&args.device, queue, usize::MAX);
    }
    let spec = devices::load(&args.device)?.with_seed(args.seed);
    devices::attach(&args.device, &spec, queue, usize::MAX)
}

fn start(args: &ServeArgs, device: &Attached, end: &End) -> Result<Vec<Box<dyn Export>>> {
    let mut exports: Vec<Box<dyn Export>> = Vec::new();
    if let Some(address) = args.nvme_tcp.address {
        exports.push(Box::new(nvme_tcp::start(address, args, device)?));
    }
    if let Some(id) = args.ublk.id {
        exports.push(Box::new(ublk::start(id, args, device, end)?));
    }
    Ok(exports)
}
