//! `zonal serve`: devices for other programs and machines.
//!
//! ```text
//!  fuse        zones as files, behind a mount point
//!  nvme_tcp    namespaces of an NVMe subsystem, over TCP
//!  ublk        a block device of this machine
//!  control     a socket to watch and change them, and metrics
//! ```
//!
//! Takes devices and their exports, all of a device on one block layer; serves until an interrupt,
//! or until the last export has ended by itself. The lines on standard output, one for each export,
//! say that it is ready, and where.
mod control;
#[cfg_attr(not(feature = "fuse"), path = "no_fuse.rs")]
mod fuse;
mod nvme_tcp;
mod ublk;

use crate::cli::ServeArgs;
use crate::devices::{self, AttachedDevice};
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use zonal_blk::QueueOptions;
use zonal_device::inject::InjectDevice;
use zonal_host::RealClock;
use zonal_host::frontend::zonefs::View;

/// A way for others to the devices; ends when it is dropped.
trait Export {
    /// Where it is, as a user names it.
    fn location(&self) -> String;

    /// The zones as files, if it is that.
    fn files(&self) -> Option<Arc<View>> {
        None
    }
}

/// What a server waits for.
enum Event {
    /// It is to end.
    Interrupted,
    /// An export has ended by itself, for this reason.
    #[cfg_attr(not(feature = "fuse"), allow(dead_code))]
    Ended(String),
    /// An export cannot go on, for this reason.
    Failed(String),
}

/// Serves devices until an interrupt, or until no export is left.
///
/// # Errors
/// What is wrong with a device or an option, or why it cannot be exported.
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let (sender, events) = mpsc::channel();
    let interrupted = sender.clone();
    ctrlc::set_handler(move || {
        // After the first there may be nobody left to tell.
        let _ = interrupted.send(Event::Interrupted);
    })
    .context("cannot handle interrupts")?;
    let (devices, injects) = attach(args)?;
    for device in devices.iter().filter(|device| !device.keeps_data) {
        eprintln!("zonal: device {} keeps no data: reads give zeroes (memory=true)", device.name);
    }
    let mut exports = start(args, &devices, &sender)?;
    let mut left = exports.len();
    exports.extend(control::start(&args.control, &devices, injects, &exports)?);
    let mut out = std::io::stdout().lock();
    exports.iter().try_for_each(|export| writeln!(out, "{}", export.location()))?;
    out.flush()?;
    let mut code = ExitCode::SUCCESS;
    while left > 0 {
        match events.recv().context("waiting for an interrupt")? {
            Event::Interrupted => break,
            Event::Ended(why) => {
                eprintln!("zonal: {why}");
                left -= 1;
            }
            Event::Failed(why) => {
                eprintln!("zonal: {why}");
                code = ExitCode::FAILURE;
                break;
            }
        }
    }
    drop(exports);
    Ok(code)
}

/// The devices and, if somebody is to operate them, a way to make each fail.
fn attach(args: &ServeArgs) -> Result<(Vec<AttachedDevice>, Vec<Arc<InjectDevice>>)> {
    let operated = args.control.is_wanted();
    let (mut devices, mut injects) = (Vec::new(), Vec::new());
    for name in &args.devices {
        let queue = QueueOptions {
            zone_write: args.zone_write.map(Into::into),
            scheduler: devices::named_scheduler(args.scheduler.as_deref(), &args.sched_opt)?,
            merge: !args.nomerges,
            iostats: operated,
            ..QueueOptions::default()
        };
        // More channels than any device has queues: clients come as they like.
        let mut opened = devices::open(name, args.seed, usize::MAX)?;
        if operated {
            let inject = Arc::new(InjectDevice::new(opened.model, args.seed));
            opened.model = Arc::clone(&inject) as _;
            injects.push(inject);
        }
        devices.push(opened.attach(queue, usize::MAX)?);
    }
    Ok((devices, injects))
}

fn start(
    args: &ServeArgs,
    devices: &[AttachedDevice],
    events: &mpsc::Sender<Event>,
) -> Result<Vec<Box<dyn Export>>> {
    let only = |option: &str| {
        ensure!(devices.len() == 1, "{option}: found {} devices, expected one", devices.len());
        Ok(&devices[0])
    };
    let mut exports: Vec<Box<dyn Export>> = Vec::new();
    // One for all: a device has one time.
    let clock = RealClock::start();
    if !args.nvme_tcp.addresses.is_empty() {
        exports.push(Box::new(nvme_tcp::start(args, devices, &clock)?));
    }
    if let Some(dir) = &args.fuse.dir {
        let device = only("--fuse")?;
        exports.push(Box::new(fuse::start(dir, args, device, (&clock, events.clone()))?));
    }
    if let Some(id) = args.ublk.id {
        exports.push(Box::new(ublk::start(id, args, only("--ublk")?, (&clock, events.clone()))?));
    }
    Ok(exports)
}
