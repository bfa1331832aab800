//! Enabling a controller, its namespace, and its I/O queues.
use super::address::Address;
use super::controller::Controller;
use super::queue_connection::{ConnectError, ConnectParams, QueueConnection};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, Immutable, KnownLayout};
use zonal_blk::Limits;
use zonal_nvme::ns::{self, ControllerInfo, NamespaceInfo, identify_data};
use zonal_nvme::wire::admin::{FeatureCommand, IdentifyCommand};
use zonal_nvme::wire::fabrics::{CSTS_FATAL, CSTS_READY, Property, PropertyCommand};
use zonal_nvme::wire::identify::{IndependentNamespace, NamespaceList, ZnsController};
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, Csi, FABRICS, FabricsType, FeatureId};
use zonal_nvme::wire::queue::PSDT_SGL;
use zonal_nvme::wire::{Sqe, text};
use zonal_os::poll::retry;

/// Depth of an I/O queue, if the target allows it.
pub(super) const DEPTH: u16 = 128;
/// CC: IOSQES and IOCQES of 64 and 16 bytes, EN.
const CC_ENABLE: u64 = 0x46_0001;
/// CC.CSS: all supported I/O command sets.
const CC_CSS_ALL: u64 = 0b110 << 4;
/// CC with SHN for a normal shutdown.
pub(super) const CC_SHUTDOWN: u64 = CC_ENABLE | CC_CSS_ALL | 0b01 << 14;
/// CAP.CSS bit 6: I/O command sets beside NVM.
const CAP_CSS_IOCS: u64 = 1 << 43;
/// The longest command where the target sets no limit, in 512-byte sectors: 1 MiB.
const MAX_SECTORS: u32 = 2048;

/// What a scan found.
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
    let Controller { admin, cntlid, cap, identify: controller, nsid, .. } = controller;
    let (cntlid, cap, nsid) = (*cntlid, *cap, *nsid);
    let info = namespace(admin, nsid)?;
    let zones = info.zones.is_some();
    let zns: Option<ZnsController> = match zones {
        true => Some(identify(admin, Cns::CSI_CONTROLLER, 0, Csi::ZNS)?),
        false => None,
    };
    let reach = ControllerInfo {
        controller,
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
    let maxcmd = match controller.maxcmd.get() {
        0 => u16::MAX,
        maxcmd => maxcmd,
    };
    let depth = DEPTH.min(entries).min(maxcmd).max(1);
    let in_capsule = controller.ioccsz.get().saturating_sub(4).saturating_mul(16);
    let mut connections = Vec::new();
    for qid in 1..=u32::from(nr_queues) + reports {
        let qid = u16::try_from(qid).expect("no more than granted");
        let id = ConnectParams { cntlid, qid, sqsize: depth, kato: 0 };
        let (mut queue, _) = QueueConnection::connect(address, &id)?;
        queue.tcp.set_in_capsule(in_capsule);
        connections.push(queue);
    }
    (limits.nr_queues, limits.queue_depth, limits.rotational) = (nr_queues, depth, rotational);
    Ok(ScanResult {
        info,
        limits,
        model: text(&controller.mn).unwrap_or_default().to_owned(),
        serial: text(&controller.sn).unwrap_or_default().to_owned(),
        queues: connections,
    })
}

fn property(fctype: FabricsType, property: Property) -> PropertyCommand {
    let mut command = PropertyCommand::zeroed();
    (command.opcode, command.fctype) = (FABRICS, fctype.0);
    command.offset = property.0.into();
    command.attributes = u8::from(property.size() == Some(8));
    command
}

/// Property Set.
pub(super) fn property_set(which: Property, value: u64) -> Sqe {
    let mut command = property(FabricsType::PROPERTY_SET, which);
    command.value = value.into();
    command.into()
}

fn property_get(admin: &mut QueueConnection, which: Property) -> Result<u64, ConnectError> {
    let command = property(FabricsType::PROPERTY_GET, which).into();
    Ok(admin.execute("Property Get", command, Vec::new(), 0)?.0.result())
}

/// Enables the controller. Returns CAP.
///
/// # Errors
/// The connection or a command failed, or the controller does not become ready.
pub(super) fn enable(admin: &mut QueueConnection) -> Result<u64, ConnectError> {
    const READY_POLL_INTERVAL: Duration = Duration::from_millis(10);
    let cap = property_get(admin, Property::CAP)?;
    let cc = if cap & CAP_CSS_IOCS != 0 { CC_ENABLE | CC_CSS_ALL } else { CC_ENABLE };
    admin.execute("Property Set of CC", property_set(Property::CC, cc), Vec::new(), 0)?;
    // CAP.TO in units of 500 ms.
    let (begin, timeout) = (Instant::now(), Duration::from_millis((cap >> 24 & 0xff) * 500));
    let mut csts = 0;
    let ready = retry(READY_POLL_INTERVAL, timeout, || {
        csts = match property_get(admin, Property::CSTS) {
            Ok(value) => value & 0xffff_ffff,
            Err(error) => return Some(Err(error)),
        };
        match csts {
            csts if csts & u64::from(CSTS_READY) != 0 => Some(Ok(true)),
            csts if csts & u64::from(CSTS_FATAL) != 0 => Some(Ok(false)),
            _ => None,
        }
    });
    match ready.transpose()? {
        Some(true) => Ok(cap),
        _ => Err(ConnectError::NotReady(begin.elapsed(), csts)),
    }
}

fn identify_bytes(
    admin: &mut QueueConnection,
    cns: Cns,
    nsid: u32,
    csi: Csi,
) -> Result<Vec<u8>, ConnectError> {
    let mut command = IdentifyCommand::zeroed();
    (command.opcode, command.flags) = (AdminOpcode::IDENTIFY.0, PSDT_SGL);
    (command.nsid, command.cns, command.csi) = (nsid.into(), cns.0, csi.0);
    Ok(admin.execute("Identify", command.into(), Vec::new(), 4096)?.1)
}

/// Identify.
///
/// # Errors
/// The connection or the command failed.
pub(super) fn identify<T: FromBytes + KnownLayout + Immutable>(
    admin: &mut QueueConnection,
    cns: Cns,
    nsid: u32,
    csi: Csi,
) -> Result<T, ConnectError> {
    Ok(identify_data(&identify_bytes(admin, cns, nsid, csi)?))
}

/// The NSID of the address, or the first.
///
/// # Errors
/// The connection or the command failed, or there is none.
pub(super) fn find(admin: &mut QueueConnection, address: &Address) -> Result<u32, ConnectError> {
    let list: NamespaceList = identify(admin, Cns::ACTIVE_NAMESPACES, 0, Csi::NVM)?;
    let nsids: Vec<u32> =
        list.nsids.iter().map(|nsid| nsid.get()).take_while(|&nsid| nsid > 0).collect();
    let found = match address.nsid {
        Some(wanted) => nsids.contains(&wanted).then_some(wanted),
        None => nsids.first().copied(),
    };
    let wanted = address.nsid.map_or_else(String::new, |nsid| nsid.to_string());
    found.ok_or(ConnectError::NoNamespace(wanted, nsids))
}

fn namespace(admin: &mut QueueConnection, nsid: u32) -> Result<NamespaceInfo, ConnectError> {
    ns::scan(nsid, |cns, csi| identify_bytes(admin, cns, nsid, csi))?
        .map_err(|error| ConnectError::Namespace(nsid, error))
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
