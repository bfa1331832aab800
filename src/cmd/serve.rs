//! `zonal serve`: exports devices to other programs and machines.
//!
//! ```text
//!  fuse        zones as files, behind a mount point
//!  nvme_tcp    namespaces of an NVMe subsystem, over TCP
//!  vfio_user   the same subsystem, as a controller of a virtual machine
//!  vhost_user  a virtio block device of a virtual machine
//!  ublk        a block device of this machine
//!  control     a socket to watch and change them, metrics, and a page for a browser
//! ```
//!
//! All exports of a device share its block layer. They run until an interrupt, or until the last one
//! has ended by itself; I/O in flight then completes, unless that takes too long. Once an export is
//! ready, a line on standard output says where it is.
pub mod args;
mod control;
#[cfg(feature = "fuse")]
mod fuse;
mod identity;
mod nvme_tcp;
mod subsystem;
mod ublk;
mod vfio_user;
mod vhost_user;

use super::traced;
use crate::interrupt::end_on_interrupt;
use crate::terminal::notices;
use anyhow::{Context, Result, ensure};
pub use args::ServeArgs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tempfile::TempPath;
use zonal_blk::QueueOptions;
use zonal_crash::Recorder;
use zonal_device::control::Lateness;
use zonal_frontend::zonefs::ZoneFs;
use zonal_lab::devices::{self, AttachedDevice, Recording};
use zonal_lab::io_trace::IoTrace;
use zonal_nvme::controller::PutMark;
use zonal_os::RealClock;
use zonal_serve::control::Power;
use zonal_serve::control::log::Log;

/// An export of devices. Dropping it ends it.
trait Export {
    /// Its address, as users write it.
    fn location(&self) -> String;

    /// The paths over which hosts reach it, if it has ANA states.
    fn paths(&self) -> Vec<nvme_tcp::Path> {
        Vec::new()
    }

    /// The zones as files, if the export has one.
    fn files(&self) -> Option<Arc<ZoneFs>> {
        None
    }
}

/// What the server waits for.
enum Event {
    /// SIGINT or SIGTERM.
    Interrupted,
    /// An export ended by itself, for this reason.
    #[cfg_attr(not(feature = "fuse"), allow(dead_code))]
    Ended(String),
    /// An export failed, for this reason.
    Failed(String),
}

/// Exports devices until an interrupt, or until no export is left.
///
/// # Errors
/// A device or an option is bad, or a device cannot be exported.
pub fn run(args: &ServeArgs, log: &Log) -> Result<ExitCode> {
    let (sender, events) = mpsc::channel();
    let interrupted = sender.clone();
    let interrupt = move || {
        // Without a receiver the server is already shutting down.
        let _ = interrupted.send(Event::Interrupted);
    };
    end_on_interrupt(interrupt, Duration::from_secs_f64(args.shutdown_timeout), log.clone())?;
    let attached = attach(args)?;
    let devices = &attached.devices;
    for device in devices.iter().filter(|device| !device.keeps_data) {
        tracing::warn!("device {} keeps no data: reads give zeroes (memory=true)", device.name);
    }
    // Before any client can come.
    let trace = args.trace.trace.is_some();
    let trace = trace.then(|| IoTrace::start(devices.iter(), args.trace.settings())).transpose()?;
    let mut exports = start(args, &attached, &sender)?;
    let mut left = exports.len();
    let Attached { devices, power, marks, recording, .. } = attached;
    exports.extend(control::start(&args.control, &devices, power, marks, &exports)?);
    let recorder = recording.map(UnnamedLog::keep).transpose()?;
    // One write: a script may read the first line, and close the pipe.
    let locations: String = exports.iter().map(|export| export.location() + "\n").collect();
    std::io::stdout().lock().write_all(locations.as_bytes())?;
    let mut code = ExitCode::SUCCESS;
    while left > 0 {
        match events.recv().context("waiting for an interrupt")? {
            Event::Interrupted => break,
            Event::Ended(why) => {
                tracing::info!("{why}");
                left -= 1;
            }
            Event::Failed(why) => {
                tracing::error!("{why}");
                code = ExitCode::FAILURE;
                break;
            }
        }
    }
    drop(exports);
    devices.iter().for_each(report_lateness);
    let written = trace.as_ref().map_or(Ok(()), traced::finish);
    if let Some(recorder) = recorder {
        recorder.finish().context("--record: cannot write the log")?;
    }
    written.map(|()| code)
}

/// Says how often a model was polled too late.
fn report_lateness(device: &AttachedDevice) {
    if let Some(lateness) = device.model.lateness().filter(|lateness| lateness.completions > 0) {
        let (Lateness { completions, late }, percent) = (lateness, lateness.percent());
        tracing::info!(
            "late_completions: device={}, completions={completions}, late={late}, \
             percent={percent:.2}",
            device.name
        );
    }
}

struct Attached {
    /// The numbers of the devices as namespaces, ascending.
    nsids: Vec<u32>,
    devices: Vec<AttachedDevice>,
    /// Their power, if they are controlled: of those with a write cache.
    power: Vec<Option<Power>>,
    /// What takes the marks of each device, if it is recorded or its power can fail.
    marks: Vec<Option<PutMark>>,
    recording: Option<UnnamedLog>,
}

/// The log of a recording, which gets its name when nothing can refuse the server any more: an older log
/// stays as it is until then.
struct UnnamedLog {
    recorder: Arc<Recorder>,
    path: PathBuf,
    log: TempPath,
}

impl UnnamedLog {
    /// A new log beside this path.
    fn new(recording: Recording, path: &Path) -> Result<Self> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let log = tempfile::Builder::new()
            .prefix(".zonal-record-")
            .tempfile_in(dir.unwrap_or(Path::new(".")))
            .with_context(|| path.display().to_string())?
            .into_temp_path();
        recording.start(&log)?;
        Ok(UnnamedLog { recorder: recording.recorder, path: path.to_owned(), log })
    }

    /// Gives the log its name.
    fn keep(self) -> Result<Arc<Recorder>> {
        let UnnamedLog { recorder, path, log } = self;
        log.persist(&path).with_context(|| format!("--record: {}", path.display()))?;
        Ok(recorder)
    }
}

fn attach(args: &ServeArgs) -> Result<Attached> {
    let controlled = args.control.is_managed();
    let (mut devices, mut powers, mut recording) = (Vec::new(), Vec::new(), None);
    let mut marks = Vec::new();
    let (nsids, names): (Vec<_>, Vec<_>) = args.numbered_devices()?.into_iter().unzip();
    let count = names.len();
    ensure!(args.record.is_none() || count == 1, "--record: found {count} devices, expected one");
    for name in names {
        let queue = QueueOptions {
            zone_write: args.zone_write.map(Into::into),
            scheduler: devices::named_scheduler(args.scheduler.as_deref(), &args.sched_opt)?,
            merge: !args.nomerges,
            iostats: args.control.ctl.is_some() || args.control.metrics.is_some(),
            watchable: args.control.web.is_some(),
            ..QueueOptions::default()
        };
        // There may be any number of clients.
        let mut opened = devices::open(name, args.seed, usize::MAX, &notices())?;
        if let Some(log) = &args.record {
            let (recorded, recorder) = opened.recorded().context("--record")?;
            opened = recorded;
            recording = Some(UnnamedLog::new(recorder, log).context("--record")?);
        }
        let mut mark = recording.as_ref().map(|recording| {
            let recorder = Arc::clone(&recording.recorder);
            let put: PutMark = Arc::new(move |text| recorder.mark(text));
            put
        });
        if controlled {
            let (wrapped, power) = control::wrap(opened, args)?;
            mark = mark.or(power.as_ref().map(control::put_mark));
            powers.push(power);
            opened = wrapped;
        }
        marks.push(mark);
        let attached = opened.attach(queue, usize::MAX)?;
        attached.explain_failures(&notices());
        devices.push(attached);
    }
    Ok(Attached { nsids, devices, power: powers, marks, recording })
}

fn start(
    args: &ServeArgs,
    attached: &Attached,
    events: &mpsc::Sender<Event>,
) -> Result<Vec<Box<dyn Export>>> {
    let devices = &attached.devices;
    let only = |option: &str| {
        ensure!(devices.len() == 1, "{option}: found {} devices, expected one", devices.len());
        Ok(&devices[0])
    };
    let mut exports: Vec<Box<dyn Export>> = Vec::new();
    // All exports of a device need the same time.
    let clock = RealClock::start();
    let (tcp, vfio_user) = (!args.nvme_tcp.addresses.is_empty(), &args.vfio_user.socket);
    if tcp || vfio_user.is_some() {
        let subsystem = subsystem::of(args, attached)?;
        if tcp {
            exports.push(Box::new(nvme_tcp::start(args, &subsystem, &clock)?));
        } else {
            subsystem.make_private();
        }
        if let Some(path) = vfio_user {
            exports.push(Box::new(vfio_user::start(path, args, &subsystem, &clock)?));
        }
    }
    if let Some(path) = &args.vhost_user.socket {
        exports.push(Box::new(vhost_user::start(path, args, only("--vhost-user")?, &clock)?));
    }
    if let Some(dir) = &args.fuse.dir {
        #[cfg(feature = "fuse")]
        exports.push(Box::new(fuse::start(dir, args, only("--fuse")?, (&clock, events.clone()))?));
        #[cfg(not(feature = "fuse"))]
        anyhow::bail!(
            "--fuse {}: this program was built without it; `cargo build --release --features fuse` \
             builds one with it",
            dir.display()
        );
    }
    if let Some(id) = args.ublk.id {
        exports.push(Box::new(ublk::start(id, args, only("--ublk")?, (&clock, events.clone()))?));
    }
    Ok(exports)
}
