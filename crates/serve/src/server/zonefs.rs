//! The export of zones as files.
use super::error::of_device;
use super::options::ZonefsOptions;
use super::{Event, Export, ServeError, of_option};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use zonal_backend::Stack;
use zonal_frontend::zonefs::{Mount, Options, WorkerPool, ZoneFs};
use zonal_os::RealClock;

impl Export for Mount {
    fn location(&self) -> String {
        self.dir().display().to_string()
    }

    fn files(&self) -> Option<Arc<ZoneFs>> {
        Some(Arc::clone(self.fs()))
    }
}

/// Mounts the device's zones on a directory.
///
/// # Errors
/// An option or the device is unsuitable, or the directory cannot be mounted on.
pub fn start(
    options: &ZonefsOptions,
    device: &Stack,
    clock: &RealClock,
    events: Sender<Event>,
) -> Result<Mount, ServeError> {
    // The files belong to the user who serves them, which is root for zonefs.
    let ours = std::fs::metadata("/proc/self").map_or((0, 0), |own| (own.uid(), own.gid()));
    let mut of_files = Options::owned_by(ours.0, ours.1);
    if let Some(list) = &options.list {
        of_files = of_files.with(list).map_err(of_option("fuse-options", None))?;
    }
    let queue = Arc::clone(&device.queue);
    let notify = Arc::new(|what: &str| tracing::warn!("{what}"));
    let fs = ZoneFs::new(queue, of_files, notify).map_err(of_device(&device.name))?;
    let workers = WorkerPool::start(Arc::new(fs), clock.clone(), options.threads.into())
        .map_err(of_device(&device.name))?;
    let ended = move |why: &str| {
        // Without a receiver the server is already shutting down.
        let _ = events.send(Event::Ended(why.to_owned()));
    };
    Mount::start(&options.dir, &device.name, workers, ended).map_err(of_option("fuse", None))
}
