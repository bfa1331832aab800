//! Enabling a controller, its namespace, and its I/O queues.
use super::address::Address;
use super::admin::{identify, namespace};
use super::controller::Controller;
use super::error::ConnectError;
use super::queue_connection::{ConnectParams, QueueConnection};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use zonal_blk::Limits;
use zonal_nvme::ns::{ControllerInfo, NamespaceInfo};
use zonal_nvme::wire::admin::FeatureCommand;
use zonal_nvme::wire::identify::{IndependentNamespace, ZnsController};
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, Csi, FeatureId};
use zonal_nvme::wire::queue::PSDT_SGL;
use zonal_nvme::wire::text;

/// Depth of an I/O queue, if the target allows it.
pub(super) const DEPTH: u16 = 128;
/// The longest command where the target sets no limit, in 512-byte sectors: 1 MiB.
const MAX_SECTORS: u32 = 2048;

/// The result of a scan.
pub(super) struct ScanResult {
    pub info: NamespaceInfo,
    pub limits: Limits,
    /// The controller's model number.
    pub model: String,
    /// The subsystem's serial number.
    pub serial: String,
    /// I/O queues; with zones, the last is for zone reports.
    pub queues: Vec<QueueConnection>,
}

/// Identifies the namespace, which has to be accessible, and connects up to `queues` hardware queues.
///
/// # Errors
/// Why there is no device.
pub(super) fn scan(
    controller: &mut Controller,
    address: &Address,
    queues: u16,
) -> Result<ScanResult, ConnectError> {
    let Controller { admin, cap, identify: id, nsid, .. } = controller;
    let (cap, nsid) = (*cap, *nsid);
    let info = namespace(admin, nsid)?;
    let zones = info.zones.is_some();
    let zns: Option<ZnsController> = match zones {
        true => Some(identify(admin, Cns::CSI_CONTROLLER, 0, Csi::ZNS)?),
        false => None,
    };
    let reach = ControllerInfo {
        controller: id,
        zns: zns.as_ref(),
        mpsmin: u32::try_from(cap >> 48 & 0xf).expect("4 bits"),
        default_max_sectors: MAX_SECTORS,
    };
    let mut limits = info.limits(&reach).map_err(|error| ConnectError::Namespace(nsid, error))?;
    // Older controllers do not support this CNS.
    let rotational =
        identify::<IndependentNamespace>(admin, Cns::INDEPENDENT_NAMESPACE, nsid, Csi::NVM);
    let rotational = match rotational {
        Ok(id) => id.features & 1 << 4 != 0,
        Err(ConnectError::Refused { .. }) => false,
        Err(error) => return Err(error),
    };
    // With zones one queue more, for their reports.
    let reports = u32::from(zones);
    let granted = set_queue_count(admin, u32::from(queues) + reports)?;
    if granted <= reports {
        return Err(ConnectError::Queues(granted));
    }
    let nr_queues = u16::try_from(granted - reports).unwrap_or(u16::MAX).min(queues);
    let entries = u16::try_from(cap & 0xffff).expect("16 bits");
    let maxcmd = match id.maxcmd.get() {
        0 => u16::MAX,
        maxcmd => maxcmd,
    };
    let depth = DEPTH.min(entries).min(maxcmd).max(1);
    let (model, serial) = (text(&id.mn), text(&id.sn));
    let (model, serial) =
        (model.unwrap_or_default().to_owned(), serial.unwrap_or_default().to_owned());
    let queues = connect_queues(controller, address, u32::from(nr_queues) + reports, depth)?;
    (limits.nr_queues, limits.queue_depth, limits.rotational) = (nr_queues, depth, rotational);
    Ok(ScanResult { info, limits, model, serial, queues })
}

/// Connects the I/O queues, and keeps the controller alive meanwhile: with authentication that may take
/// longer than the Keep Alive Timeout.
fn connect_queues(
    controller: &mut Controller,
    address: &Address,
    count: u32,
    depth: u16,
) -> Result<Vec<QueueConnection>, ConnectError> {
    let in_capsule = controller.identify.ioccsz.get().saturating_sub(4).saturating_mul(16);
    let cntlid = controller.cntlid;
    let connect = |qid| {
        let qid = u16::try_from(qid).expect("no more than granted");
        let id = ConnectParams { cntlid, qid, sqsize: depth, kato: 0 };
        let (mut queue, _) = QueueConnection::connect(address, &id)?;
        queue.tcp.set_in_capsule(in_capsule);
        Ok(queue)
    };
    let (send, connected) = mpsc::channel();
    thread::scope(|scope| {
        // Nobody receives if the controller is lost.
        let work = move || drop(send.send((1..=count).map(connect).collect()));
        let started = thread::Builder::new().name("connect".to_owned()).spawn_scoped(scope, work);
        started.map_err(|source| ConnectError::Io { doing: "connecting", source })?;
        loop {
            controller.process(false)?;
            match connected.recv_timeout(controller.time_left()) {
                Ok(queues) => return queues,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the thread sends its queues"),
            }
        }
    })
}

/// Requests a number of I/O queues. Returns the number granted.
fn set_queue_count(admin: &mut QueueConnection, queues: u32) -> Result<u32, ConnectError> {
    let mut command = FeatureCommand::zeroed();
    (command.opcode, command.flags) = (AdminOpcode::SET_FEATURES.0, PSDT_SGL);
    command.fid = FeatureId::NUMBER_OF_QUEUES.0;
    // Minus one, of submission and of completion queues. FFFFh is reserved.
    let number = (queues - 1).min(0xfffe);
    command.value = (number << 16 | number).into();
    let (cqe, _) = admin.execute("Set Features, queues", command.into(), Vec::new(), 0)?;
    let granted = cqe.dw0.get();
    Ok((granted & 0xffff).min(granted >> 16) + 1)
}
