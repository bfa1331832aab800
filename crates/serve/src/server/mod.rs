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
//! use zonal_backend::Stack;
//! use zonal_blk::QueueOptions;
//! use zonal_serve::Server;
//!
//! let stack = Stack::open("null:zones=4,zone_size=1M,memory=true")?.attach(QueueOptions::default())?;
//! let running = Server::new([stack]).nvme_tcp("127.0.0.1:0".parse()?).start()?;
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

pub use control::managed;
#[cfg(feature = "http")]
pub use control::watched;
pub use error::ServeError;
pub use options::NvmeOptions;
pub use running::{Running, Stopper, Stopping, stopping};
pub use ublk::UblkOptions;

use distinct::distinct;
use error::{expected, of_option};
use running::{Event, Export};
use std::net::SocketAddr;
use std::path::PathBuf;
use zonal_backend::{Stack, UnnamedLog};
use zonal_nvme::controller::{MAX_NAMESPACES, PutMark};
use zonal_os::RealClock;

/// Devices, and how they are to be served.
pub struct Server {
    stacks: Vec<Stack>,
    /// The numbers of the devices as namespaces, ascending.
    nsids: Vec<u32>,
    addresses: Vec<SocketAddr>,
    nvme: NvmeOptions,
    vfio_user: Option<PathBuf>,
    vhost_user: Option<(PathBuf, u16)>,
    ublk: Option<UblkOptions>,
    zonefs: Option<ZonefsOptions>,
    control: control::ControlOptions,
    stopping: Stopping,
}

/// How zones are offered as files.
struct ZonefsOptions {
    dir: PathBuf,
    #[cfg_attr(not(feature = "fuse"), allow(dead_code))]
    list: Option<String>,
    #[cfg_attr(not(feature = "fuse"), allow(dead_code))]
    threads: u16,
}

impl Server {
    /// A server of these devices, which have the numbers from 1 on as namespaces.
    pub fn new(stacks: impl IntoIterator<Item = Stack>) -> Self {
        Server {
            stacks: stacks.into_iter().collect(),
            nsids: Vec::new(),
            addresses: Vec::new(),
            nvme: NvmeOptions::default(),
            vfio_user: None,
            vhost_user: None,
            ublk: None,
            zonefs: None,
            control: control::ControlOptions::default(),
            stopping: stopping(),
        }
    }

    /// The numbers of the devices as namespaces, ascending, from 1 to [`MAX_NAMESPACES`].
    #[must_use]
    pub fn namespaces(self, nsids: Vec<u32>) -> Self {
        Server { nsids, ..self }
    }

    /// Serves them over NVMe/TCP on this address, at any free port if it has port 0. With several calls
    /// each address is a path to the same subsystem.
    #[must_use]
    pub fn nvme_tcp(mut self, address: SocketAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// How the subsystem is served, over NVMe/TCP or to a virtual machine; its serial number is also that
    /// of a virtio device.
    #[must_use]
    pub fn nvme(self, nvme: NvmeOptions) -> Self {
        Server { nvme, ..self }
    }

    /// Serves them to a virtual machine as an NVMe controller, by a socket at this path.
    #[must_use]
    pub fn vfio_user(self, path: impl Into<PathBuf>) -> Self {
        Server { vfio_user: Some(path.into()), ..self }
    }

    /// Serves the device to a virtual machine as a virtio block device with one queue, by a socket at
    /// this path.
    #[must_use]
    pub fn vhost_user(self, path: impl Into<PathBuf>) -> Self {
        self.vhost_user_queues(path, 1)
    }

    /// The same with this many queues, from 1 to 256.
    #[must_use]
    pub fn vhost_user_queues(self, path: impl Into<PathBuf>, queues: u16) -> Self {
        Server { vhost_user: Some((path.into(), queues)), ..self }
    }

    /// Serves the device as a block device of this machine with this number, or one that is free.
    #[must_use]
    pub fn ublk(self, id: Option<u32>) -> Self {
        self.ublk_with(UblkOptions { id, ..UblkOptions::default() })
    }

    /// The same with more options.
    #[must_use]
    pub fn ublk_with(self, options: UblkOptions) -> Self {
        Server { ublk: Some(options), ..self }
    }

    /// Mounts the zones as files on this directory.
    #[must_use]
    pub fn zonefs(self, dir: impl Into<PathBuf>) -> Self {
        self.zonefs_with(dir, None, 4)
    }

    /// The same with zonefs' mount options, separated by commas, and a number of threads that do I/O.
    #[must_use]
    pub fn zonefs_with(self, dir: impl Into<PathBuf>, list: Option<String>, threads: u16) -> Self {
        Server { zonefs: Some(ZonefsOptions { dir: dir.into(), list, threads }), ..self }
    }

    /// Makes a control socket at this path. Of the devices it knows those whose faults can be injected
    /// ([`Stack::inject`](zonal_backend::Stack::inject)), and their queues count I/Os
    /// ([`iostats`](zonal_blk::QueueOptions::iostats)).
    #[must_use]
    pub fn ctl(mut self, path: impl Into<PathBuf>) -> Self {
        self.control.ctl = Some(path.into());
        self
    }

    /// Lets the members of a group use the control socket, by the number of the group.
    #[must_use]
    pub fn ctl_group(mut self, group: u32) -> Self {
        self.control.ctl_group = Some(group);
        self
    }

    /// Answers `GET /metrics` on this address, for Prometheus. Of which devices: as [`Server::ctl`].
    #[cfg(feature = "http")]
    #[must_use]
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.control.metrics = Some(address);
        self
    }

    /// Shows the devices as a page on this address. Their queues are
    /// [watchable](zonal_blk::QueueOptions::watchable).
    #[cfg(feature = "http")]
    #[must_use]
    pub fn web(mut self, address: SocketAddr) -> Self {
        self.control.web = Some(address);
        self
    }

    /// Lets the page change devices that [`Server::ctl`] could.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn web_control(mut self) -> Self {
        self.control.web_control = true;
        self
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
        let (exports, marks) = self.exports()?;
        let served = exports.len();
        let controls = self.control.start(&self.stacks, marks, &exports)?;
        // Nothing can refuse the server any more.
        logs.into_iter().try_for_each(UnnamedLog::keep)?;
        let exports = exports.into_iter().chain(controls).collect();
        Ok(Running::new(exports, served, self.stacks, self.stopping))
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
        let nsids = &self.nsids;
        if !nsids.is_empty() && nsids.len() != found {
            let text = format!("found {} for {found} devices", nsids.len());
            return Err(expected("namespace", text));
        }
        let in_range = nsids.iter().all(|nsid| (1..=most).contains(nsid));
        if !in_range || !nsids.is_sorted_by(|one, next| one < next) {
            let text = format!("found {nsids:?}, expected ascending numbers from 1 to {most}");
            return Err(expected("namespace", text));
        }
        let by_socket = self.vfio_user.is_some() || self.vhost_user.is_some();
        let here = self.ublk.is_some() || self.zonefs.is_some();
        if self.addresses.is_empty() && !by_socket && !here {
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
    fn exports(&self) -> Result<(Vec<Box<dyn Export>>, Vec<Option<PutMark>>), ServeError> {
        let marks: Vec<_> = self.stacks.iter().map(control::put_mark).collect();
        let mut exports: Vec<Box<dyn Export>> = Vec::new();
        // All exports of a device need the same time.
        let clock = RealClock::start();
        let tcp = !self.addresses.is_empty();
        if tcp || self.vfio_user.is_some() {
            let subsystem = subsystem::of(&self.stacks, &self.nsids, &self.nvme, &marks)?;
            if tcp {
                let target = nvme_tcp::start(&self.addresses, &self.nvme, &subsystem, &clock)?;
                exports.push(Box::new(target));
            } else {
                subsystem.make_private();
            }
            if let Some(path) = &self.vfio_user {
                let server = vfio_user::start(path, &self.nvme, &subsystem, &clock)?;
                exports.push(Box::new(server));
            }
        }
        if let Some((path, queues)) = &self.vhost_user {
            let device = self.only("vhost-user")?;
            exports.push(Box::new(vhost_user::start(path, *queues, &self.nvme, device, &clock)?));
        }
        if let Some(options) = &self.zonefs {
            exports.push(self.mount(options, &clock)?);
        }
        if let Some(options) = &self.ublk {
            let device = self.only("ublk")?;
            let events = self.stopping.sender();
            exports.push(Box::new(ublk::start(options, device, &clock, events)?));
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
