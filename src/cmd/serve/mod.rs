//! `zonal serve`: a device for other programs and machines.
//!
//! ```text
//!  fuse        zones as files, behind a mount point
//!  nvme_tcp    a namespace of an NVMe subsystem, over TCP
//! ```
//!
//! Takes a device and its exports, all on one block layer; serves until an interrupt, or until the
//! last export has ended by itself. The lines on standard output, one for each export, say that it
//! is ready, and where.
#[cfg_attr(not(feature = "fuse"), path = "no_fuse.rs")]
mod fuse;
mod nvme_tcp;

use crate::cli::ServeArgs;
use crate::devices::{self, Attached};
use anyhow::{Context, Result};
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc;
use zonal_blk::QueueOptions;
use zonal_host::RealClock;

/// A way for others to the device; ends when it is dropped.
trait Export {
    /// Where it is, as a user names it.
    fn place(&self) -> String;
}

/// What a server waits for.
enum Event {
    /// It is to end.
    Interrupted,
    /// An export has ended by itself, for this reason.
    #[cfg_attr(not(feature = "fuse"), allow(dead_code))]
    Ended(String),
}

/// Serves a device until an interrupt, or until no export is left.
///
/// # Errors
/// What is wrong with the device or an option, or why it cannot be exported.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let (sender, events) = mpsc::channel();
    let interrupted = sender.clone();
    ctrlc::set_handler(move || {
        // After the first there may be nobody left to tell.
        let _ = interrupted.send(Event::Interrupted);
    })
    .context("cannot handle interrupts")?;
    let device = attach(args)?;
    if !device.keeps_data {
        eprintln!("zonal: device {} keeps no data: reads give zeroes (memory=true)", args.device);
    }
    let exports = start(args, &device, &sender)?;
    let mut out = std::io::stdout().lock();
    exports.iter().try_for_each(|export| writeln!(out, "{}", export.place()))?;
    out.flush()?;
    let mut left = exports.len();
    while left > 0 {
        match events.recv().context("waiting for an interrupt")? {
            Event::Interrupted => break,
            Event::Ended(why) => {
                eprintln!("zonal: {why}");
                left -= 1;
            }
        }
    }
    drop(exports);
    Ok(ExitCode::SUCCESS)
}

fn attach(args: &ServeArgs) -> Result<Attached> {
    let queue = QueueOptions {
        zone_write: args.zone_write.map(Into::into),
        scheduler: devices::named_scheduler(args.scheduler.as_deref(), &args.sched_opt)?,
        merge: !args.nomerges,
        ..QueueOptions::default()
    };
    let spec = devices::load(&args.device)?.with_seed(args.seed);
    // More channels than any device has queues: clients come as they like.
    devices::attach(&args.device, &spec, queue, usize::MAX)
}

fn start(
    args: &ServeArgs,
    device: &Attached,
    events: &mpsc::Sender<Event>,
) -> Result<Vec<Box<dyn Export>>> {
    let mut exports: Vec<Box<dyn Export>> = Vec::new();
    // One for all: the device has one time.
    let clock = RealClock::start();
    if let Some(address) = args.nvme_tcp.address {
        exports.push(Box::new(nvme_tcp::start(address, args, device, &clock)?));
    }
    if let Some(dir) = &args.fuse.dir {
        exports.push(Box::new(fuse::start(dir, args, device, (&clock, events.clone()))?));
    }
    Ok(exports)
}
