//! Serves devices to other programs and machines, in this process.
//!
//! ```text
//!  nvme_tcp    namespaces of an NVMe subsystem, over TCP
//!  vfio_user   the same subsystem, as a controller of a virtual machine
//!  vhost_user  a virtio block device of a virtual machine
//!  ublk        a block device of this machine
//!  zonefs      zones as files, below a mount point
//!  control     a socket to watch and change them, metrics, and a page for a browser
//! ```
//!
//! All exports of a device share its block layer. They run until the server is stopped, or until the
//! last one has ended by itself; I/O in flight then completes.
//!
//! ```
//! use zonal_serve::{ServeOptions, Server};
//!
//! let options = ServeOptions { nvme_tcp: vec!["127.0.0.1:0".parse()?], ..ServeOptions::default() };
//! let running = Server::open("null:zones=4,zone_size=1M,memory=true", options)?.start()?;
//! assert!(running.locations()[0].starts_with("nvme-tcp://127.0.0.1:"));
//! running.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod control;
mod distinct;
mod error;
mod identity;
mod nvme_tcp;
mod options;
mod running;
mod subsystem;
mod ublk;
mod vfio_user;
mod vhost_user;
#[cfg(feature = "fuse")]
mod zonefs;

#[cfg(feature = "http")]
pub use control::watched;
pub use control::{ControlOptions, managed};
pub use error::ServeError;
pub use options::{NvmeOptions, ServeOptions, ZonefsOptions};
pub use running::{Running, Stopper, Stopping, stopping};
pub use ublk::UblkOptions;

use distinct::distinct;
use error::{expected, of_option};
use running::{Event, Export};
use zonal_backend::{Stack, Unattached, UnnamedLog};
use zonal_nvme::controller::{MAX_NAMESPACES, PutMark};
use zonal_os::RealClock;

/// Devices, and how they are to be served.
pub struct Server {
    stacks: Vec<Stack>,
    options: ServeOptions,
    stopping: Stopping,
}

impl Server {
    /// Opens a device to be served.
    ///
    /// # Errors
    /// It cannot be opened or attached.
    pub fn open(name: &str, options: ServeOptions) -> Result<Self, ServeError> {
        Self::new([options.open(name)?], options)
    }

    /// Attaches devices to be served.
    ///
    /// # Errors
    /// One of them cannot be attached.
    pub fn new(
        devices: impl IntoIterator<Item = Stack<Unattached>>,
        options: ServeOptions,
    ) -> Result<Self, ServeError> {
        let stacks = devices.into_iter().map(|device| options.attach(device));
        let stacks = stacks.collect::<Result<_, _>>()?;
        Ok(Server { stacks, options, stopping: stopping() })
    }

    /// The devices.
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// Has the server stop when a stopper that was made before it says so.
    #[must_use]
    pub fn stopped_by(self, stopping: Stopping) -> Self {
        Server { stopping, ..self }
    }

    /// Starts all exports, and the recordings of the devices that are to be recorded.
    ///
    /// # Errors
    /// An option or a device is unsuitable, or an export cannot be started. Those that were started have
    /// ended then.
    pub fn start(self) -> Result<Running, ServeError> {
        self.check()?;
        // Before any client can come.
        let recordings = distinct(self.stacks.iter().filter_map(|stack| stack.recording.as_ref()));
        let started = recordings.into_iter().map(|recording| recording.start_unnamed());
        let logs: Vec<UnnamedLog> = started.collect::<Result<_, _>>()?;
        // All exports of a device need the same time.
        let clock = RealClock::start();
        let (exports, marks) = self.exports(&clock)?;
        let served = exports.len();
        let controls = self.options.control.start(&self.stacks, marks, &exports)?;
        // Nothing can refuse the server any more.
        logs.into_iter().try_for_each(UnnamedLog::keep)?;
        let exports = exports.into_iter().chain(controls).collect();
        Ok(Running::new(exports, served, self.stacks, clock, self.stopping))
    }

    /// Starts, and waits until the server is stopped or its exports have ended.
    ///
    /// # Errors
    /// As [`Server::start`], or an export failed.
    pub fn run(self) -> Result<(), ServeError> {
        let running = self.start()?;
        running.wait()?;
        running.stop()
    }

    fn check(&self) -> Result<(), ServeError> {
        let (found, most) = (self.stacks.len(), MAX_NAMESPACES);
        if found == 0 || found > most as usize {
            return Err(expected("devices", format!("found {found}, expected 1 to {most}")));
        }
        let ServeOptions { namespaces: nsids, nvme_tcp, .. } = &self.options;
        if !nsids.is_empty() && nsids.len() != found {
            let text = format!("found {} for {found} devices", nsids.len());
            return Err(expected("namespace", text));
        }
        // As an owner of files this number, -1, means to keep the one that there is.
        if self.options.control.ctl_group == Some(u32::MAX) {
            let text = format!("found {}, expected the number of a group", u32::MAX);
            return Err(expected("ctl-group", text));
        }
        let in_range = nsids.iter().all(|nsid| (1..=most).contains(nsid));
        if !in_range || !nsids.is_sorted_by(|one, next| one < next) {
            let text = format!("found {nsids:?}, expected ascending numbers from 1 to {most}");
            return Err(expected("namespace", text));
        }
        let ServeOptions { vfio_user, vhost_user, ublk, zonefs, .. } = &self.options;
        let by_socket = vfio_user.is_some() || vhost_user.is_some();
        if nvme_tcp.is_empty() && !by_socket && ublk.is_none() && zonefs.is_none() {
            return Err(expected("exports", "found none, expected one or more".to_owned()));
        }
        Ok(())
    }

    /// The one device of an export that has no others.
    fn only(&self, option: &'static str) -> Result<&Stack, ServeError> {
        match &self.stacks[..] {
            [only] => Ok(only),
            all => Err(expected(option, format!("found {} devices, expected one", all.len()))),
        }
    }

    /// Starts the exports. Returns also what takes the marks of each device.
    #[allow(clippy::type_complexity, reason = "two lists that the caller takes apart")]
    fn exports(
        &self,
        clock: &RealClock,
    ) -> Result<(Vec<Box<dyn Export>>, Vec<Option<PutMark>>), ServeError> {
        let ServeOptions { nvme, nvme_tcp, namespaces, .. } = &self.options;
        let marks: Vec<_> = self.stacks.iter().map(control::put_mark).collect();
        let mut exports: Vec<Box<dyn Export>> = Vec::new();
        let tcp = !nvme_tcp.is_empty();
        if tcp || self.options.vfio_user.is_some() {
            let subsystem = subsystem::of(&self.stacks, namespaces, nvme, &marks)?;
            if tcp {
                let target = nvme_tcp::start(nvme_tcp, nvme, &subsystem, clock)?;
                exports.push(Box::new(target));
            } else {
                subsystem.make_private();
            }
            if let Some(path) = &self.options.vfio_user {
                let server = vfio_user::start(path, nvme, &subsystem, clock)?;
                exports.push(Box::new(server));
            }
        }
        if let Some((path, queues)) = &self.options.vhost_user {
            let device = self.only("vhost-user")?;
            exports.push(Box::new(vhost_user::start(path, *queues, nvme, device, clock)?));
        }
        if let Some(options) = &self.options.zonefs {
            exports.push(self.mount(options, clock)?);
        }
        if let Some(options) = &self.options.ublk {
            let device = self.only("ublk")?;
            let events = self.stopping.sender();
            exports.push(Box::new(ublk::start(options, device, clock, events)?));
        }
        Ok((exports, marks))
    }

    #[cfg(feature = "fuse")]
    fn mount(
        &self,
        options: &ZonefsOptions,
        clock: &RealClock,
    ) -> Result<Box<dyn Export>, ServeError> {
        let device = self.only("fuse")?;
        Ok(Box::new(zonefs::start(options, device, clock, self.stopping.sender())?))
    }

    #[cfg(not(feature = "fuse"))]
    fn mount(
        &self,
        options: &ZonefsOptions,
        _clock: &RealClock,
    ) -> Result<Box<dyn Export>, ServeError> {
        let text = "this program was built without it; `cargo build --release --features fuse` \
                    builds one with it";
        Err(of_option("fuse", Some(&options.dir.display()))(text))
    }
}
