//! Admin commands that set a controller up.
use super::address::Address;
use super::error::ConnectError;
use super::queue_connection::QueueConnection;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, Immutable, KnownLayout};
use zonal_nvme::ns::{self, NamespaceInfo, identify_data};
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::admin::IdentifyCommand;
use zonal_nvme::wire::fabrics::{
    CSTS_FATAL, CSTS_READY, CSTS_SHUTDOWN_COMPLETE, Property, PropertyCommand,
};
use zonal_nvme::wire::identify::NamespaceList;
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, Csi, FABRICS, FabricsType};
use zonal_nvme::wire::queue::PSDT_SGL;
use zonal_os::poll::retry;

/// CC: IOSQES and IOCQES of 64 and 16 bytes, EN.
const CC_ENABLE: u64 = 0x46_0001;
/// CC.CSS: all supported I/O command sets.
const CC_CSS_ALL: u64 = 0b110 << 4;
/// CC with SHN for a normal shutdown.
const CC_SHUTDOWN: u64 = CC_ENABLE | CC_CSS_ALL | 0b01 << 14;
/// How often CSTS is read.
const CSTS_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// CAP.CSS bit 6: I/O command sets beside NVM.
const CAP_CSS_IOCS: u64 = 1 << 43;

fn property(fctype: FabricsType, property: Property) -> PropertyCommand {
    let mut command = PropertyCommand::zeroed();
    (command.opcode, command.fctype) = (FABRICS, fctype.0);
    command.offset = property.0.into();
    command.attributes = u8::from(property.size() == Some(8));
    command
}

/// Property Set.
fn property_set(which: Property, value: u64) -> Sqe {
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
    let cap = property_get(admin, Property::CAP)?;
    let cc = if cap & CAP_CSS_IOCS != 0 { CC_ENABLE | CC_CSS_ALL } else { CC_ENABLE };
    admin.execute("Property Set of CC", property_set(Property::CC, cc), Vec::new(), 0)?;
    // CAP.TO in units of 500 ms.
    let (begin, timeout) = (Instant::now(), Duration::from_millis((cap >> 24 & 0xff) * 500));
    let mut csts = 0;
    let ready = retry(CSTS_POLL_INTERVAL, timeout, || {
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

/// Shuts the controller down, and waits until it has committed what it has answered, or cannot.
///
/// # Errors
/// The connection or a command failed.
pub(super) fn shut_down(admin: &mut QueueConnection) -> Result<(), ConnectError> {
    /// A target that is gone does not answer.
    const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
    /// As long as Linux waits.
    const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
    let mut execute = |sqe| {
        admin.execute_within(COMMAND_TIMEOUT, "shutdown", sqe, Vec::new(), 0).map(|(cqe, _)| cqe)
    };
    execute(property_set(Property::CC, CC_SHUTDOWN))?;
    let get = property(FabricsType::PROPERTY_GET, Property::CSTS).into();
    let ends = u64::from(CSTS_SHUTDOWN_COMPLETE | CSTS_FATAL);
    let ended = retry(CSTS_POLL_INTERVAL, SHUTDOWN_TIMEOUT, || match execute(get) {
        Ok(csts) if csts.result() & ends == 0 => None,
        ended => Some(ended.map(drop)),
    });
    ended.unwrap_or(Ok(()))
}

pub(super) fn identify_bytes(
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

pub(super) fn namespace(
    admin: &mut QueueConnection,
    nsid: u32,
) -> Result<NamespaceInfo, ConnectError> {
    ns::scan(nsid, |cns, csi| identify_bytes(admin, cns, nsid, csi))?
        .map_err(|error| ConnectError::Namespace(nsid, error))
}
