//! The subsystems of a target, from the discovery log: for an error about one that it does not have.
use super::address::Address;
use super::admin::enable;
use super::error::ConnectError;
use super::queue_connection::{ConnectParams, QueueConnection};
use std::collections::BTreeSet;
use zerocopy::FromBytes;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::admin::LogCommand;
use zonal_nvme::wire::fabrics::{CNTLID_ANY, DISCOVERY_NQN};
use zonal_nvme::wire::log::{DiscoveryEntry, DiscoveryHeader};
use zonal_nvme::wire::nqn;
use zonal_nvme::wire::opcode::{AdminOpcode, LogId};
use zonal_nvme::wire::queue::PSDT_SGL;

/// Entries of the admin queue, minus one.
const SQSIZE: u16 = 31;
/// Entries of the log that are read: it is for a message.
const MAX_ENTRIES: u64 = 63;
/// SUBTYPE of an entry: an NVM subsystem.
const NVM_SUBSYSTEM: u8 = 2;

/// The error with which a target refused Connect; if it has no such subsystem, one that names those
/// that it has.
pub(super) fn explained(error: ConnectError, address: &Address) -> ConnectError {
    let parameters = NvmeStatus::CONNECT_PARAMETERS.code();
    match &error {
        ConnectError::Refused { status, .. } if status.code() == parameters => {}
        _ => return error,
    }
    // A target without discovery says no more than it did.
    match subsystems(address) {
        Ok(known) if !known.contains(&address.nqn) => ConnectError::NoSubsystem {
            target: address.target.clone(),
            nqn: address.nqn.clone(),
            known: known.into_iter().collect(),
        },
        _ => error,
    }
}

/// The NQNs of the subsystems at the first target of an address.
fn subsystems(address: &Address) -> Result<BTreeSet<String>, ConnectError> {
    let discovery = Address { nqn: DISCOVERY_NQN.to_owned(), ..address.clone() };
    let queue = ConnectParams { cntlid: CNTLID_ANY, qid: 0, sqsize: SQSIZE, kato: 0 };
    let (mut admin, _) = QueueConnection::connect(&discovery, &queue)?;
    enable(&mut admin)?;
    let header = log(&mut admin, DiscoveryHeader::SIZE)?;
    let (header, _) = DiscoveryHeader::read_from_prefix(&header).expect("a whole header");
    let count = usize::try_from(header.count.get().min(MAX_ENTRIES)).expect("a few");
    let log = log(&mut admin, DiscoveryHeader::SIZE + count * DiscoveryEntry::SIZE)?;
    let entries = log[DiscoveryHeader::SIZE..].chunks_exact(DiscoveryEntry::SIZE);
    let entries = entries.filter_map(|entry| DiscoveryEntry::read_from_bytes(entry).ok());
    let subsystems = entries.filter(|entry| entry.subsystem_type == NVM_SUBSYSTEM);
    Ok(subsystems.filter_map(|entry| nqn(&entry.subnqn).map(str::to_owned)).collect())
}

/// The first `len` bytes of the Discovery log page (Base section 5.16.1.23).
fn log(admin: &mut QueueConnection, len: usize) -> Result<Vec<u8>, ConnectError> {
    let mut command = LogCommand::zeroed();
    (command.opcode, command.flags) = (AdminOpcode::GET_LOG_PAGE.0, PSDT_SGL);
    command.lid = LogId::DISCOVERY.0;
    command.numdl = u16::try_from(len / 4 - 1).expect("at most 64 KiB").into();
    let len = u32::try_from(len).expect("at most 64 KiB");
    Ok(admin.execute("Get Log Page, discovery", command.into(), Vec::new(), len)?.1)
}
