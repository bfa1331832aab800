//! One path to a namespace: limits, zone reports, hardware queues.
use super::address::Address;
use super::connections::PathConnections;
use super::controller::Controller;
use super::discover::explained;
use super::error::ConnectError;
use super::keep_alive::{KeepAliveThread, PathConfig, Siblings};
use super::queue_connection::QueueConnection;
use super::scan::{ScanResult, scan};
use super::zones::Reported;
use std::sync::Arc;
use zonal_blk::{Limits, Nanos, Status, Zone, ZoneNo};
use zonal_device::multipath::{PathState, ReconnectConfig};
use zonal_nvme::ns::NamespaceHead;
use zonal_os::Notify;

/// A namespace of an NVMe/TCP target, over one path.
pub struct NvmeTcpDevice {
    pub(super) address: Address,
    pub(super) model: String,
    serial: String,
    head: Arc<NamespaceHead>,
    pub(super) limits: Limits,
    pub(super) connections: Arc<PathConnections>,
    /// There is no multipath device above.
    pub(super) is_only_path: bool,
    _keep_alive: KeepAliveThread,
}

impl NvmeTcpDevice {
    /// Connects to a namespace, over the first path of the address, with up to `queues` hardware
    /// queues, 1 or more. If the path is lost, the device fails: [`open`](super::open) returns one
    /// that holds commands and repeats them.
    ///
    /// # Errors
    /// Why it cannot be connected.
    pub fn connect(address: &Address, queues: u16) -> Result<Self, ConnectError> {
        let reconnect = ReconnectConfig { ctrl_loss_tmo: Some(Nanos(0)), ..address.reconnect };
        let address = Address { reconnect, ..address.clone() };
        let silent: Notify = Arc::new(|_: &str| ());
        let siblings = Siblings::default();
        let mut device = NvmeTcpDevice::path(&address, queues, None, &siblings, &silent)?;
        device.is_only_path = true;
        Ok(device)
    }

    /// Connects a path that is reconnected when it is lost. It has to lead to the namespace of
    /// `first`, if there is one, and to the zones that the live ones of its `siblings` report.
    ///
    /// # Errors
    /// Why it cannot be connected, or is unsuitable.
    pub(super) fn path(
        address: &Address,
        queues: u16,
        first: Option<&NvmeTcpDevice>,
        siblings: &Siblings,
        notify: &Notify,
    ) -> Result<Self, ConnectError> {
        let connected = Controller::connect(address);
        let mut controller = connected.map_err(|error| explained(error, address))?;
        controller.check_access()?;
        let found = scan(&mut controller, address, queues.max(1))?;
        let path_config = PathConfig {
            address: address.clone(),
            head: match first {
                Some(first) => Arc::clone(&first.head),
                None => NamespaceHead::new(&found.info),
            },
            serial: first.map_or(&found.serial, |first| &first.serial).clone(),
            siblings: Arc::clone(siblings),
            limits: found.limits.clone(),
            notify: Arc::clone(notify),
        };
        NvmeTcpDevice::new(path_config, found.model.clone(), Some((controller, found)))
    }

    /// A path to the namespace of `other` that is not connected yet.
    ///
    /// # Errors
    /// There are no more threads or file descriptors.
    pub(super) fn disconnected(
        address: &Address,
        other: &NvmeTcpDevice,
        siblings: &Siblings,
        notify: &Notify,
    ) -> Result<Self, ConnectError> {
        let path_config = PathConfig {
            address: address.clone(),
            head: Arc::clone(&other.head),
            serial: other.serial.clone(),
            siblings: Arc::clone(siblings),
            limits: other.limits.clone(),
            notify: Arc::clone(notify),
        };
        NvmeTcpDevice::new(path_config, other.model.clone(), None)
    }

    fn new(
        path_config: PathConfig,
        model: String,
        found: Option<(Controller, ScanResult)>,
    ) -> Result<Self, ConnectError> {
        let failed = |doing| move |source| ConnectError::Io { doing, source };
        let connections = PathConnections::new().map_err(failed("eventfd"))?;
        let admit = |(controller, found)| path_config.admit(&connections, controller, found);
        let admin = found.map(admit).transpose()?;
        let address = path_config.address.clone();
        let (head, limits) = (Arc::clone(&path_config.head), path_config.limits.clone());
        let serial = path_config.serial.clone();
        let keep_alive = KeepAliveThread::start(&connections, path_config, admin)
            .map_err(failed("keep alive"))?;
        Ok(NvmeTcpDevice {
            address,
            model,
            serial,
            head,
            limits,
            connections,
            is_only_path: false,
            _keep_alive: keep_alive,
        })
    }

    /// State that the paths of the namespace share.
    pub(super) fn head(&self) -> &Arc<NamespaceHead> {
        &self.head
    }

    /// How long a command may take.
    pub(super) fn io_timeout(&self) -> Nanos {
        Nanos(u64::try_from(self.address.io_timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The status of a command while the path is not connected.
    pub(super) fn lost_status(&self) -> Status {
        let gone = self.is_only_path && self.connections.state() == PathState::Gone;
        if gone { Status::Offline } else { Status::Transport }
    }

    /// Describes the device in one line, for reports.
    pub fn describe(&self) -> String {
        let bytes = self.limits.lba_size;
        let nsid = self.head.info.nsid;
        let mut parts = vec![self.address.to_string(), format!("namespace {nsid}")];
        if self.limits.nr_zones > 0 {
            let size = self.limits.zone_size.to_bytes();
            parts.push(format!("{} zones of {size} bytes", self.limits.nr_zones));
        } else {
            parts.push(format!("{} bytes without zones", self.limits.capacity.to_bytes()));
        }
        parts.push(format!("{bytes}B blocks"));
        parts.join(", ")
    }

    /// Part of a zone report: up to `max` zones from `first` on. Returns their number.
    pub(super) fn report(
        &self,
        reports: &mut QueueConnection,
        generation: u32,
        first: ZoneNo,
        max: usize,
        zones: &mut Vec<Zone>,
    ) -> Result<usize, Status> {
        let timeout = self.address.io_timeout;
        let reported = Reported { info: &self.head.info, limits: &self.limits, timeout };
        let part = reported.part(reports, first, max, zones);
        part.map_err(|error| self.report_failed(generation, &error))?.ok_or(Status::IoError)
    }

    /// The status of a zone report that failed. Unless the target failed it, the path is lost.
    fn report_failed(&self, generation: u32, error: &ConnectError) -> Status {
        if let ConnectError::Refused { status, .. } = error {
            if status.is_ana_error() {
                self.connections.doubt_access(generation);
            }
            return status.to_blk_status();
        }
        self.connections.lost(generation, &error.to_string());
        match error {
            ConnectError::Timeout { .. } => Status::Timeout,
            _ => Status::Transport,
        }
    }
}
