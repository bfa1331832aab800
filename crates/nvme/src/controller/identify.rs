//! Identify.
use super::admin::Controller;
use super::namespace::{Namespace, append_shift};
use super::pcie::VENDOR;
use super::response::{CommandOutput, CommandResult, INVALID_FIELD};
use super::subsystem::Subsystem;
use super::{
    CRITICAL_TEMPERATURE, ERROR_ENTRIES, KAS, MAX_EVENT_REQUESTS, MAX_NAMESPACES, MAX_QUEUE,
    Transport, VERSION, WARNING_TEMPERATURE,
};
use crate::NvmeStatus;
use crate::ana;
use crate::wire::admin::IdentifyCommand;
use crate::wire::identify::{
    DATA_PLACEMENT, DIRECTIVES, ENDURANCE_GROUPS, IdentifyController, IdentifyNamespace,
    NamespaceList, NvmController, TRAFFIC_KEEP_ALIVE, ZnsController,
};
use crate::wire::opcode::{Cns, Csi};
use crate::wire::queue::NSID_ALL;
use crate::wire::{padded, terminated};
use zerocopy::{Immutable, IntoBytes};

/// How long a host should wait for a shutdown, in microseconds (RTD3E): the device flushes its cache. As long
/// as Linux waits at most.
const SHUTDOWN_TIME: u32 = 60_000_000;
const INVALID_NAMESPACE: NvmeStatus = NvmeStatus::INVALID_NAMESPACE.do_not_retry();

fn structure<T: IntoBytes + Immutable>(data: &T) -> CommandResult {
    Ok(CommandOutput::data(data.as_bytes().to_vec()))
}

impl Controller {
    /// Executes Identify (Base section 5.17).
    pub(super) fn identify(&self, command: &IdentifyCommand) -> CommandResult {
        let subsystem = &self.subsystem;
        let (nsid, csi) = (command.nsid.get(), Csi(command.csi));
        let namespace = || match nsid {
            0 | NSID_ALL => Err(INVALID_NAMESPACE),
            _ => Ok(subsystem.namespace(nsid)),
        };
        // An inactive namespace is all zeroes (Base section 5.17.2).
        let zeroes = || Ok(CommandOutput::data(vec![0; 4096]));
        let cns = Cns(command.cns);
        if subsystem.is_discovery() && cns != Cns::CONTROLLER {
            return Err(INVALID_FIELD);
        }
        match cns {
            Cns::CONTROLLER => structure(&identify_controller(self)),
            Cns::NAMESPACE if nsid == NSID_ALL => zeroes(),
            Cns::NAMESPACE => namespace()?.map_or_else(zeroes, |ns| {
                let mut id = identify_namespace(self, &ns);
                id.endurance_group = endurance_group(subsystem, &ns).into();
                structure(&id)
            }),
            Cns::NAMESPACE_DESCRIPTORS => {
                let namespace = namespace()?.ok_or(INVALID_NAMESPACE)?;
                Ok(CommandOutput::data(namespace.descriptors()))
            }
            Cns::INDEPENDENT_NAMESPACE => namespace()?.map_or_else(zeroes, |ns| {
                let mut id = ns.identify_independent();
                id.sharing = subsystem.is_shared().into();
                id.ana_group = ana_group(self).into();
                id.endurance_group = endurance_group(subsystem, &ns).into();
                structure(&id)
            }),
            Cns::ACTIVE_NAMESPACES => list(nsid, subsystem.namespaces_after(nsid, |_| true)),
            Cns::CSI_ACTIVE_NAMESPACES if matches!(csi, Csi::NVM | Csi::ZNS) => {
                list(nsid, subsystem.namespaces_after(nsid, |namespace| namespace.csi() == csi))
            }
            Cns::CSI_NAMESPACE => match (namespace()?, csi) {
                (Some(namespace), Csi::ZNS) if namespace.is_zoned() => {
                    structure(&namespace.identify_zns())
                }
                (Some(namespace), Csi::NVM) => structure(&namespace.identify_nvm()),
                (None, Csi::NVM | Csi::ZNS) => zeroes(),
                _ => Err(INVALID_FIELD),
            },
            Cns::CSI_CONTROLLER => match csi {
                Csi::NVM => structure(&NvmController::zeroed()),
                Csi::ZNS => {
                    let mut id = ZnsController::zeroed();
                    id.append_shift =
                        subsystem.append_max().map_or(0, append_shift).min(subsystem.mdts());
                    structure(&id)
                }
                _ => Err(INVALID_FIELD),
            },
            Cns::ENDURANCE_GROUPS if subsystem.has_placement() => {
                self.endurance_groups(command.specific.get())
            }
            Cns::COMMAND_SETS => {
                // One combination of command sets: NVM and ZNS, bits 0 and 2 (Base section 5.17.2.21).
                let mut data = vec![0; 4096];
                data[0] = 1 << Csi::NVM.0 | 1 << Csi::ZNS.0;
                Ok(CommandOutput::data(data))
            }
            _ => Err(INVALID_FIELD),
        }
    }
}

/// The endurance group of a namespace; 0 if it has no data placement.
fn endurance_group(subsystem: &Subsystem, namespace: &Namespace) -> u16 {
    u16::try_from(subsystem.endurance_group(namespace)).expect("namespaces have small identifiers")
}

/// The ANA group of the controller's namespaces; 0 if it does not report ANA states.
fn ana_group(controller: &Controller) -> u32 {
    controller.association.port.as_ref().map_or(0, |_| ana::GROUP)
}

fn identify_namespace(controller: &Controller, namespace: &Namespace) -> IdentifyNamespace {
    let mut id = namespace.identify();
    id.sharing = controller.subsystem.is_shared().into();
    id.ana_group = ana_group(controller).into();
    let port = controller.association.port.as_ref();
    if port.is_some_and(|port| port.state().check().is_err()) {
        // What is used cannot be told (Base section 8.1.3.3).
        id.used = 0.into();
    }
    id
}

fn list(nsid: u32, nsids: Vec<u32>) -> CommandResult {
    // No namespace can follow the last two identifiers (Base section 5.17.2.2).
    if nsid >= NSID_ALL - 1 {
        return Err(INVALID_NAMESPACE);
    }
    let mut list = NamespaceList::zeroed();
    for (entry, nsid) in list.nsids.iter_mut().zip(nsids) {
        *entry = nsid.into();
    }
    structure(&list)
}

/// The value of a 0's based field.
fn zero_based(count: usize) -> u8 {
    u8::try_from(count - 1).expect("no more than 256")
}

fn identify_controller(controller: &Controller) -> IdentifyController {
    /// Compare, Dataset Management, Write Zeroes, Timestamp, Verify.
    const COMMANDS: u16 = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7;
    let subsystem = &controller.subsystem;
    let config = subsystem.config();
    let discovery = subsystem.is_discovery();
    let mut id = IdentifyController::zeroed();
    id.sn = padded(&config.serial);
    id.mn = padded(&config.model);
    id.fr = padded(&config.firmware);
    id.subnqn = terminated(&config.nqn);
    id.cmic = u8::from(subsystem.is_shared()) << 1;
    id.mdts = subsystem.mdts();
    id.cntlid = controller.cntlid().into();
    id.ver = VERSION.into();
    id.oaes = controller.known_events().into();
    id.ctratt = 1.into();
    id.rtd3e = SHUTDOWN_TIME.into();
    id.cntrltype = if discovery { 2 } else { 1 };
    if subsystem.has_placement() {
        id.ctratt = (id.ctratt.get() | ENDURANCE_GROUPS | DATA_PLACEMENT).into();
        id.oacs = DIRECTIVES.into();
        id.endgidmax = u16::try_from(MAX_NAMESPACES).expect("16 bits").into();
    }
    id.acl = 3;
    id.aerl = zero_based(MAX_EVENT_REQUESTS);
    // One read-only firmware slot.
    id.frmw = 1 << 1 | 1;
    // The effects log, offsets and lengths in log pages; no SMART log of a namespace (bit 0).
    id.lpa = 1 << 1 | 1 << 2;
    id.elpe = zero_based(ERROR_ENTRIES);
    (id.wctemp, id.cctemp) = (WARNING_TEMPERATURE.into(), CRITICAL_TEMPERATURE.into());
    match controller.transport {
        Transport::Fabrics => {
            id.kas = KAS.into();
            id.ctratt = (id.ctratt.get() | TRAFFIC_KEEP_ALIVE).into();
            id.maxcmd = MAX_QUEUE.into();
            id.sgls = (1 | 1 << 20 | 1 << 21).into();
            if !discovery {
                id.cmic |= 1 << 3;
                (id.anatt, id.anacap) = (ana::TRANSITION_TIME, ana::CAPABILITIES);
                (id.anagrpmax, id.nanagrpid) = (ana::GROUP.into(), 1.into());
            }
        }
        Transport::Pcie => {
            (id.vid, id.ssvid) = (VENDOR.into(), VENDOR.into());
            // Doorbell Buffer Config.
            id.oacs = (id.oacs.get() | 1 << 8).into();
            // SGLs without alignment.
            id.sgls = 1.into();
        }
    }
    if discovery {
        return id;
    }
    id.sqes = 0x66;
    id.cqes = 0x44;
    id.nn = MAX_NAMESPACES.into();
    id.mnan = MAX_NAMESPACES.into();
    id.oncs = COMMANDS.into();
    // A write cache; Flush may name all namespaces.
    id.vwc = 0b11 << 1 | 1;
    if controller.transport == Transport::Fabrics {
        id.ioccsz = (subsystem.in_capsule() / 16 + 4).into();
        id.iorcsz = 1.into();
        id.msdbd = 1;
    }
    id
}
