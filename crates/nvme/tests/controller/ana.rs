//! Two hosts at two ports of a subsystem, whose ANA states change.
use crate::support::{Host, ZONE, null};
use std::sync::Arc;
use zerocopy::FromBytes;
use zonal_nvme::NvmeStatus;
use zonal_nvme::ana::AnaState;
use zonal_nvme::wire::identify::{IdentifyController, IdentifyNamespace};
use zonal_nvme::wire::log::{AnaGroup, AnaHeader};
use zonal_nvme::wire::opcode::{Cns, FeatureId, LogId};

/// The Asymmetric Namespace Access Change event: bit 11 of its configuration, and what it is.
const ANA_EVENTS: u32 = 0x800;
const ANA_CHANGED: Option<(NvmeStatus, u64)> = Some((NvmeStatus::SUCCESS, 0x0c_0302));

fn two_hosts() -> (Host, Host) {
    let first = Host::new(&null());
    let second = Host::of(Arc::clone(&first.subsystem));
    (first, second)
}

fn set(host: &Host, state: AnaState) {
    host.subsystem.set_ana_state(&host.port, state);
}

/// Changes, state and the first namespace, as the log page has them.
fn log(host: &mut Host) -> (u64, u8, u32) {
    let data = host.log(LogId::ANA, 0, 0, 52, 0).fine().data;
    let (header, rest) = AnaHeader::read_from_prefix(&data).unwrap();
    let (group, nsids) = AnaGroup::read_from_prefix(rest).unwrap();
    assert_eq!((header.groups.get(), group.id.get(), group.nsids.get()), (1, 1, 1));
    assert_eq!(header.changes, group.changes);
    (header.changes.get(), group.state, u32::from_le_bytes(nsids.try_into().unwrap()))
}

#[test]
fn controllers_report_one_group_of_namespaces() {
    let mut host = two_hosts().1;
    let id: IdentifyController = host.identify(Cns::CONTROLLER, 0, 0).fine().structure();
    assert_eq!((id.cmic, id.anacap, id.oaes.get() & ANA_EVENTS), (0b1010, 0x5f, ANA_EVENTS));
    assert_eq!((id.anagrpmax.get(), id.nanagrpid.get()), (1, 1));
    let id: IdentifyNamespace = host.identify(Cns::NAMESPACE, 1, 0).fine().structure();
    assert_eq!((id.ana_group.get(), id.used), (1, id.size));
    assert_eq!(log(&mut host), (0, 1, 1));
}

#[test]
fn change_is_an_event_at_its_port_until_the_log_is_read() {
    let (mut first, mut second) = two_hosts();
    for host in [&mut first, &mut second] {
        host.set_feature(FeatureId::ASYNC_EVENT, ANA_EVENTS, &[]).fine();
        assert_eq!(host.ask_for_event(7), None);
    }
    set(&first, AnaState::Optimized);
    assert_eq!(first.event(7), None, "it was that before");
    set(&first, AnaState::NonOptimized);
    assert_eq!((first.event(7), second.event(7)), (ANA_CHANGED, None));
    set(&first, AnaState::Inaccessible);
    assert_eq!(first.ask_for_event(8), None, "masked");
    assert_eq!(log(&mut first), (2, 3, 1));
    assert_eq!(log(&mut second), (0, 1, 1));
    set(&first, AnaState::Optimized);
    assert_eq!(first.event(8), ANA_CHANGED);
}

#[test]
fn io_fails_at_a_port_where_its_namespace_is_inaccessible() {
    let (mut first, second) = two_hosts();
    let (mut lost, mut other) = (first.io(1), second.io(1));
    for (state, status) in [
        (AnaState::Inaccessible, NvmeStatus::ANA_INACCESSIBLE),
        (AnaState::PersistentLoss, NvmeStatus::ANA_PERSISTENT_LOSS),
        (AnaState::Change, NvmeStatus::ANA_TRANSITION),
    ] {
        set(&first, state);
        assert_eq!(lost.write(0, &[1; 4096]).status, status);
        assert_eq!(lost.read(0, 1).status, status);
        assert_eq!(lost.append(ZONE, &[1; 4096]).status, status);
        assert_eq!(lost.manage(ZONE, 4, 0), status);
        let id: IdentifyNamespace = first.identify(Cns::NAMESPACE, 1, 0).fine().structure();
        assert_eq!((id.used.get(), id.size.get() > 0), (0, true));
    }
    other.write(0, &[2; 4096]).fine();
    for state in [AnaState::NonOptimized, AnaState::Optimized] {
        set(&first, state);
        lost.read(0, 1).fine();
    }
    assert_eq!(lost.zone(0).write_pointer.get(), 1, "of the write over the other path alone");
}
