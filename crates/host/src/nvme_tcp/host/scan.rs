//! Set-up: the admin queue, what there is behind it, and the I/O queues.
use super::exchange::{ConnectError, Exchange, QueueId};
use crate::nvme_tcp::address::Address;
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, Immutable, KnownLayout};
use zonal_blk::{Limits, Sector};
use zonal_nvme::NvmeStatus;
use zonal_nvme::ns::{Ids, NamespaceInfo};
use zonal_nvme::wire::admin::{FeatureCommand, IdentifyCommand};
use zonal_nvme::wire::fabrics::{CNTLID_ANY, PropertyCommand};
use zonal_nvme::wire::identify::{
    IdentifyController, IdentifyNamespace, IndependentNamespace, NamespaceList, ZnsController,
    ZnsNamespace, id_type,
};
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, Csi, FABRICS, FabricsType, FeatureId};
use zonal_nvme::wire::property::{CSTS_FATAL, CSTS_READY, Property};
use zonal_nvme::wire::sqe::PSDT_SGL;
use zonal_nvme::wire::{Sqe, text};

/// Keep alive timeout in milliseconds.
const KATO: u32 = 10_000;
/// Commands in flight on one queue, if the target takes as many.
pub(super) const DEPTH: u16 = 128;
/// Entries of the admin queue, minus one.
const ADMIN_SQSIZE: u16 = 31;
/// CC: entries of 64 and 16 bytes, enabled.
const ENABLE: u64 = 0x46_0001;
/// CC.CSS: all command sets that there are.
const ALL_SETS: u64 = 0b110 << 4;
/// CC: enabled, and to shut down.
pub(super) const SHUTDOWN: u64 = ENABLE | ALL_SETS | 0b01 << 14;
/// CAP.CSS bit 6.
const HAS_SETS: u64 = 1 << 43;
/// The longest command in 512-byte sectors where the target sets no limit: 1 MiB.
const MAX_SECTORS: u32 = 2048;

/// What was found.
pub(super) struct Found {
    pub admin: Exchange,
    pub keep_alive: Duration,
    pub info: NamespaceInfo,
    pub cntlid: u16,
    pub limits: Limits,
    /// What the controller calls itself.
    pub model: String,
    /// I/O queues.
    pub queues: Vec<Exchange>,
}

/// Connects, and finds out what there is. `queues` is how many hardware queues are wanted.
///
/// # Errors
/// What went wrong.
pub(super) fn scan(address: &Address, queues: u16) -> Result<Found, ConnectError> {
    let id = QueueId { cntlid: CNTLID_ANY, qid: 0, sqsize: ADMIN_SQSIZE, kato: KATO };
    let (mut admin, result) = Exchange::connect(address, &id)?;
    let cntlid = u16::try_from(result & 0xffff).expect("16 bits");
    let cap = enable(&mut admin)?;
    let controller: IdentifyController = identify(&mut admin, Cns::CONTROLLER, 0, Csi::NVM)?;
    let nsid = find(&mut admin, address)?;
    let info = namespace(&mut admin, nsid)?;
    // MDTS counts in units of the smallest page, CAP.MPSMIN, which is 4 KiB at least.
    let page = 8 << (cap >> 48 & 0xf).min(8);
    let shifted = |shift: u8| page << u32::from(shift).min(16);
    let mdts = if controller.mdts == 0 { MAX_SECTORS } else { shifted(controller.mdts) };
    let zones = info.zones.is_some();
    let append = if zones {
        let zns: ZnsController = identify(&mut admin, Cns::CSI_CONTROLLER, 0, Csi::ZNS)?;
        if zns.append_shift == 0 { mdts } else { shifted(zns.append_shift).min(mdts) }
    } else {
        0
    };
    // Older controllers do not know this one, and say that the field is invalid.
    let rotational =
        identify::<IndependentNamespace>(&mut admin, Cns::INDEPENDENT_NAMESPACE, nsid, Csi::NVM);
    let rotational = match rotational {
        Ok(id) => id.features & 1 << 4 != 0,
        Err(ConnectError::Refused { .. }) => false,
        Err(error) => return Err(error),
    };
    // One more than hardware queues where there are zones, for their reports.
    let reports = u32::from(zones);
    let granted = grant(&mut admin, u32::from(queues) + reports)?;
    if granted <= reports {
        return Err(ConnectError::Queues(granted));
    }
    let nr_queues = u16::try_from(granted - reports).unwrap_or(u16::MAX).min(queues);
    let entries = u16::try_from(cap & 0xffff).expect("16 bits");
    let maxcmd = match controller.maxcmd.get() {
        0 => u16::MAX,
        most => most,
    };
    let depth = DEPTH.min(entries).min(maxcmd).max(1);
    let in_capsule = controller.ioccsz.get().saturating_sub(4).saturating_mul(16);
    let mut connections = Vec::new();
    for qid in 1..=u32::from(nr_queues) + reports {
        let qid = u16::try_from(qid).expect("no more than were granted");
        let id = QueueId { cntlid, qid, sqsize: depth, kato: 0 };
        let (mut queue, _) = Exchange::connect(address, &id)?;
        queue.tcp.set_in_capsule(in_capsule);
        connections.push(queue);
    }
    let mut limits = limits(nsid, &info)?;
    // NLB has 16 bits.
    let most = (1_u32 << 16 << (info.lba_shift - 9)).min(u32::MAX >> 9);
    limits.max_sectors = mdts.min(most);
    limits.append_max_sectors = append.min(most);
    // ONCS bit 3.
    let zeroes = controller.oncs.get() & 1 << 3 != 0;
    limits.max_write_zeroes_sectors = if zeroes { limits.max_sectors } else { 0 };
    (limits.nr_queues, limits.queue_depth, limits.rotational) = (nr_queues, depth, rotational);
    Ok(Found {
        admin,
        keep_alive: Duration::from_millis(u64::from(KATO) / 2),
        info,
        cntlid,
        limits,
        model: text(&controller.mn).unwrap_or_default().to_owned(),
        queues: connections,
    })
}

/// What the namespace alone says of limits.
fn limits(nsid: u32, info: &NamespaceInfo) -> Result<Limits, ConnectError> {
    let (capacity, zones) = (info.capacity, info.zones);
    let zone_size = zones.map_or(Sector(0), |zones| zones.size);
    let nr_zones = if zones.is_none() { 0 } else { capacity.0.div_ceil(zone_size.0) };
    let fits = u32::try_from(nr_zones).ok().filter(|&count| zones.is_none() || count > 0);
    let nr_zones =
        fits.ok_or(ConnectError::Zones { nsid, capacity: capacity.0, zone_size: zone_size.0 })?;
    Ok(Limits {
        lba_size: 1 << info.lba_shift,
        capacity,
        zone_size,
        nr_zones,
        max_open_zones: zones.map_or(0, |zones| zones.max_open),
        max_active_zones: zones.map_or(0, |zones| zones.max_active),
        max_sectors: 0,
        append_max_sectors: 0,
        max_write_zeroes_sectors: 0,
        nr_queues: 0,
        queue_depth: 0,
        rotational: false,
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

fn property_get(admin: &mut Exchange, which: Property) -> Result<u64, ConnectError> {
    let command = property(FabricsType::PROPERTY_GET, which).into();
    Ok(admin.send("Property Get", command, Vec::new(), 0)?.0.result())
}

/// Enables the controller; gives its capabilities.
fn enable(admin: &mut Exchange) -> Result<u64, ConnectError> {
    const LOOK: Duration = Duration::from_millis(10);
    let cap = property_get(admin, Property::CAP)?;
    let cc = if cap & HAS_SETS != 0 { ENABLE | ALL_SETS } else { ENABLE };
    admin.send("Property Set of CC", property_set(Property::CC, cc), Vec::new(), 0)?;
    // CAP.TO in units of 500 ms.
    let (begin, patience) = (Instant::now(), Duration::from_millis((cap >> 24 & 0xff) * 500));
    loop {
        let csts = property_get(admin, Property::CSTS)? & 0xffff_ffff;
        if csts & u64::from(CSTS_READY) != 0 {
            return Ok(cap);
        }
        if csts & u64::from(CSTS_FATAL) != 0 || begin.elapsed() > patience {
            return Err(ConnectError::NotReady(begin.elapsed(), csts));
        }
        thread::sleep(LOOK);
    }
}

fn identify_bytes(
    admin: &mut Exchange,
    cns: Cns,
    nsid: u32,
    csi: Csi,
) -> Result<Vec<u8>, ConnectError> {
    let mut command = IdentifyCommand::zeroed();
    (command.opcode, command.flags) = (AdminOpcode::IDENTIFY.0, PSDT_SGL);
    (command.nsid, command.cns, command.csi) = (nsid.into(), cns.0, csi.0);
    Ok(admin.send("Identify", command.into(), Vec::new(), 4096)?.1)
}

fn identify<T: FromBytes + KnownLayout + Immutable>(
    admin: &mut Exchange,
    cns: Cns,
    nsid: u32,
    csi: Csi,
) -> Result<T, ConnectError> {
    let bytes = identify_bytes(admin, cns, nsid, csi)?;
    Ok(T::read_from_prefix(&bytes).expect("4096 bytes came").0)
}

/// The namespace that was asked for.
fn find(admin: &mut Exchange, address: &Address) -> Result<u32, ConnectError> {
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

fn namespace(admin: &mut Exchange, nsid: u32) -> Result<NamespaceInfo, ConnectError> {
    let (ids, csi) =
        descriptors(&identify_bytes(admin, Cns::NAMESPACE_DESCRIPTORS, nsid, Csi::NVM)?);
    let id: IdentifyNamespace = identify(admin, Cns::NAMESPACE, nsid, Csi::NVM)?;
    let zns: Option<ZnsNamespace> = match csi {
        Csi::ZNS => Some(identify(admin, Cns::CSI_NAMESPACE, nsid, Csi::ZNS)?),
        Csi::NVM => None,
        _ => {
            let (doing, status) = ("Identify: command set", NvmeStatus::INVALID_NAMESPACE);
            return Err(ConnectError::Refused { doing, status });
        }
    };
    NamespaceInfo::new(nsid, ids, &id, zns.as_ref())
        .map_err(|error| ConnectError::Namespace(nsid, error))
}

/// Reads the Namespace Identification Descriptor list (Base section 5.17.2.3): entries of type,
/// length, two bytes of nothing, and the identifier.
fn descriptors(mut list: &[u8]) -> (Ids, Csi) {
    let mut ids = Ids { eui64: [0; 8], nguid: [0; 16], uuid: [0; 16] };
    let mut csi = Csi::NVM;
    while let [kind, len, _, _, rest @ ..] = list
        && *len > 0
    {
        let Some((id, rest)) = rest.split_at_checked(usize::from(*len)) else { break };
        match (*kind, id) {
            (id_type::NGUID, id) if id.len() == 16 => ids.nguid.copy_from_slice(id),
            (id_type::UUID, id) if id.len() == 16 => ids.uuid.copy_from_slice(id),
            (id_type::CSI, [found]) => csi = Csi(*found),
            _ => {}
        }
        list = rest;
    }
    (ids, csi)
}

/// Asks for I/O queues; gives how many there may be.
fn grant(admin: &mut Exchange, queues: u32) -> Result<u32, ConnectError> {
    let mut command = FeatureCommand::zeroed();
    (command.opcode, command.flags) = (AdminOpcode::SET_FEATURES.0, PSDT_SGL);
    command.fid = FeatureId::NUMBER_OF_QUEUES.0;
    // Minus one, of submission and of completion queues. FFFFh is reserved.
    let number = (queues - 1).min(0xfffe);
    command.value = (number << 16 | number).into();
    let (cqe, _) = admin.send("Set Features, queues", command.into(), Vec::new(), 0)?;
    let granted = cqe.dw0.get();
    Ok((granted & 0xffff).min(granted >> 16) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn descriptors_are_read_up_to_the_first_that_is_none() {
        let mut list = vec![id_type::NGUID, 16, 0, 0];
        list.extend([7; 16]);
        list.extend([id_type::CSI, 1, 0, 0, 2, 0, 0, 0, 0, id_type::CSI, 1, 0, 0, 0]);
        let (ids, csi) = descriptors(&list);
        assert_eq!((ids.nguid, ids.uuid, csi), ([7; 16], [0; 16], Csi::ZNS));
        assert_eq!(descriptors(&[id_type::UUID, 16, 0, 0, 1]).1, Csi::NVM, "cut short");
    }

    proptest! {
        #[test]
        fn no_descriptors_make_it_panic(list in prop::collection::vec(any::<u8>(), 0..64)) {
            descriptors(&list);
        }
    }
}
