//! Flexible data placement: what a host finds out, and where its writes go.
use crate::support::{Ended, Host, Io, config, feature, namespace, null, rw};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Bytes, Device, Queue};
use zonal_device::control::DeviceControl;
use zonal_device::part::PartDevice;
use zonal_device::{SsdConfig, SsdDevice};
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{Namespace, Subsystem};
use zonal_nvme::wire::admin::{FeatureCommand, LogCommand};
use zonal_nvme::wire::identify::{
    DATA_PLACEMENT, DIRECTIVES, ENDURANCE_GROUPS, IdentifyController, IdentifyNamespace,
    IndependentNamespace,
};
use zonal_nvme::wire::log::EffectsLog;
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, FeatureId, IoOpcode, LogId};
use zonal_nvme::wire::placement::{
    Configuration, ConfigurationsHeader, DirectiveCommand, EnduranceGroupLog, Event, EventType,
    EventsHeader, ID_VALID, IoManagementReceive, IoManagementSend, LOCATION_VALID, NSID_VALID,
    RETURN_PARAMETERS, ReceiveOperation, SendOperation, Statistics, StatusHeader, UnitHandle,
    UnitHandleStatus, UnitHandleUsage, UsageHeader, VALID, WRITE_CACHE,
};
use zonal_nvme::wire::{Sgl, Sqe};

/// Blocks of 4096 bytes in a reclaim unit.
const UNIT: u64 = 64;

/// Two handles, of which the second is persistently isolated, in two groups.
fn drive() -> SsdConfig {
    SsdConfig {
        size: Bytes(16 << 20),
        overprovision: 100_000,
        gc_buffer: Bytes(4 << 20),
        channels: 2,
        dies: 4,
        superblock_dies: 2,
        page: Bytes(16 << 10),
        cell_pages: 2,
        block: Bytes(64 << 10),
        fdp_handles: 2,
        fdp_persistent: 1,
        fdp_groups: 2,
        memory: true,
        ..SsdConfig::default()
    }
}

/// A host of a subsystem whose namespace 1 is a null device, and namespace 2 the drive.
fn host() -> Host {
    let device: Arc<dyn Device> = Arc::new(SsdDevice::new(&drive()).expect("a drive"));
    let queue = Queue::attach(device, Default::default()).expect("it keeps the rules");
    let subsystem = Subsystem::new(config());
    subsystem.add(1, namespace(&null()).1).expect("a free identifier");
    let placed = Arc::new(Namespace::new(queue, [8; 16]).expect("a namespace"));
    subsystem.add(2, placed).expect("a free identifier");
    Host::of(subsystem)
}

/// A host of a subsystem whose namespace 2 is another drive, and namespaces 3 and 5 are parts of one: with
/// handle 1, and with handle 0.
fn host_of_parts() -> Host {
    let subsystem = Subsystem::new(config());
    let add = |nsid, device: Arc<dyn Device>| {
        let queue = Queue::attach(device, Default::default()).expect("it keeps the rules");
        let namespace = Namespace::new(queue, [nsid as u8; 16]).expect("a namespace");
        subsystem.add(nsid, Arc::new(namespace)).expect("a free identifier");
    };
    let whole = || Arc::new(SsdDevice::new(&drive()).expect("a drive"));
    add(2, whole());
    let shares = ["4M/1", "rest/0"].map(|share| share.parse().expect("a share"));
    let divided: Arc<dyn DeviceControl> = whole();
    let parts = PartDevice::divide(&divided, &shares).map_err(|(_, error)| error);
    for (nsid, part) in [3, 5].into_iter().zip(parts.expect("there is enough")) {
        add(nsid, part);
    }
    Host::of(subsystem)
}

fn log(host: &mut Host, lid: LogId, group: u16, specific: u8, len: u32) -> Ended {
    let mut command = LogCommand::zeroed();
    command.opcode = AdminOpcode::GET_LOG_PAGE.0;
    command.flags = 0x40;
    command.lid = lid.0;
    command.specific = specific;
    command.identifier = group.into();
    command.numdl = u16::try_from(len / 4 - 1).unwrap().into();
    command.dptr = Sgl::transport(len);
    host.send(command, &[])
}

fn status(io: &mut Io, nsid: u32, len: u32) -> Ended {
    let mut command = IoManagementReceive::zeroed();
    command.opcode = IoOpcode::IO_MANAGEMENT_RECEIVE.0;
    command.flags = 0x40;
    command.nsid = nsid.into();
    command.operation = ReceiveOperation::UNIT_HANDLE_STATUS.0;
    command.numd = (len / 4 - 1).into();
    command.dptr = Sgl::transport(len);
    io.send(command, &[])
}

fn update(io: &mut Io, nsid: u32, ids: &[u16]) -> NvmeStatus {
    let data: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let mut command = IoManagementSend::zeroed();
    command.opcode = IoOpcode::IO_MANAGEMENT_SEND.0;
    command.flags = 0x40;
    command.nsid = nsid.into();
    command.operation = SendOperation::UNIT_HANDLE_UPDATE.0;
    command.specific = u16::try_from(ids.len() - 1).unwrap().into();
    command.dptr = Sgl::transport(u32::try_from(data.len()).unwrap());
    io.send(command, &data).status
}

/// The placement identifiers of namespace 2, with the blocks that are left in their units.
fn units(io: &mut Io) -> Vec<(u16, u64)> {
    let ended = status(io, 2, 16 + 4 * 32).fine();
    assert_eq!(ended.structure::<StatusHeader>().count.get(), 4);
    let statuses = ended.data[16..].chunks_exact(32);
    let statuses = statuses.map(|it| UnitHandleStatus::read_from_bytes(it).unwrap());
    statuses.map(|it| (it.id.get(), it.available.get())).collect()
}

/// A write of blocks of zeroes to a namespace, with a directive.
fn write(io: &mut Io, nsid: u32, (kind, id): (u16, u16), slba: u64, blocks: u32) -> NvmeStatus {
    let mut command = rw(IoOpcode::WRITE, slba, blocks);
    command.nsid = nsid.into();
    command.control = (kind << 4).into();
    command.dsm = (u32::from(id) << 16).into();
    io.send(command, &vec![0; blocks as usize * 4096]).status
}

fn events(host: &mut Host, of_host: bool) -> Vec<Event> {
    let page = log(host, LogId::FDP_EVENTS, 2, of_host.into(), 4096).fine();
    let count = page.structure::<EventsHeader>().count.get() as usize;
    let events = page.data[64..].chunks_exact(64).take(count);
    events.map(|event| Event::read_from_bytes(event).unwrap()).collect()
}

/// Get or Set Features for the events of a placement handle of a namespace.
fn event_feature(opcode: AdminOpcode, nsid: u32, handle: u16, types: &[u8], on: bool) -> Sqe {
    let value = u32::try_from(types.len()).unwrap() << 16 | u32::from(handle);
    let mut command =
        FeatureCommand::from(feature(opcode, FeatureId::DATA_PLACEMENT_EVENTS, value, 255));
    command.nsid = nsid.into();
    command.value_12 = u32::from(on).into();
    command.into()
}

#[test]
fn controller_and_namespace_say_that_there_is_an_endurance_group_with_data_placement() {
    let mut host = host();
    let id: IdentifyController = host.identify(Cns::CONTROLLER, 0, 0).fine().structure();
    let both = ENDURANCE_GROUPS | DATA_PLACEMENT;
    assert_eq!((id.ctratt.get() & both, id.oacs.get() & DIRECTIVES), (both, DIRECTIVES));
    assert!(id.endgidmax.get() >= 2);
    for (nsid, group) in [(1, 0), (2, 2)] {
        let id: IdentifyNamespace = host.identify(Cns::NAMESPACE, nsid, 0).fine().structure();
        assert_eq!(id.endurance_group.get(), group);
        let ended = host.identify(Cns::INDEPENDENT_NAMESPACE, nsid, 0).fine();
        assert_eq!(ended.structure::<IndependentNamespace>().endurance_group.get(), group);
    }
    let groups = host.identify(Cns::ENDURANCE_GROUPS, 0, 0).fine().data;
    assert_eq!(groups[..6], [1, 0, 2, 0, 0, 0]);
    let log = log(&mut host, LogId::ENDURANCE_GROUP, 2, 0, 512).fine();
    assert_eq!(log.structure::<EnduranceGroupLog>().capacity.get(), 16 << 20);
}

#[test]
fn subsystem_without_data_placement_has_nothing_of_it() {
    let mut host = Host::new(&null());
    let mut io = host.io(1);
    let id: IdentifyController = host.identify(Cns::CONTROLLER, 0, 0).fine().structure();
    assert_eq!((id.ctratt.get(), id.oacs.get(), id.endgidmax.get()), (0x41, 0, 0));
    let status_of = |host: &mut Host, lid| log(host, lid, 1, 0, 64).status;
    assert_eq!(status_of(&mut host, LogId::FDP_CONFIGURATIONS), NvmeStatus::INVALID_LOG);
    assert_eq!(status_of(&mut host, LogId::ENDURANCE_GROUP), NvmeStatus::INVALID_LOG);
    assert_eq!(host.get_feature(FeatureId::DATA_PLACEMENT).status, NvmeStatus::INVALID_FIELD);
    assert_eq!(status(&mut io, 1, 64).status, NvmeStatus::INVALID_OPCODE);
    assert_eq!(update(&mut io, 1, &[0]), NvmeStatus::INVALID_OPCODE);
    let effects: EffectsLog = host.log(LogId::EFFECTS, 0, 0, 4096, 0).fine().structure();
    assert_eq!(effects.io[usize::from(IoOpcode::IO_MANAGEMENT_SEND.0)].get(), 0);
    assert_eq!(effects.admin[usize::from(AdminOpcode::DIRECTIVE_RECEIVE.0)].get(), 0);
    assert_eq!(write(&mut io, 1, (2, 0), 0, 1), NvmeStatus::INVALID_FIELD, "a directive");
    assert_eq!(host.identify(Cns::ENDURANCE_GROUPS, 0, 0).status, NvmeStatus::INVALID_FIELD);
}

#[test]
fn configuration_and_usage_are_those_of_the_drive() {
    let mut host = host();
    let page = log(&mut host, LogId::FDP_CONFIGURATIONS, 2, 0, 256).fine();
    let header: ConfigurationsHeader = page.structure();
    assert_eq!((header.count.get(), header.size.get()), (0, 16 + 72), "one configuration");
    let config = Configuration::read_from_prefix(&page.data[16..]).unwrap().0;
    assert_eq!(config.attributes, VALID | WRITE_CACHE | 1, "one bit of an identifier is the group");
    assert_eq!((config.groups.get(), config.unit_handles.get(), config.max_ids.get()), (2, 2, 3));
    assert_eq!((config.size.get(), config.unit_size.get()), (72, UNIT * 4096));
    let kinds: Vec<u8> = page.data[80..88].chunks(UnitHandle::SIZE).map(|it| it[0]).collect();
    assert_eq!(kinds, [1, 2], "initially and persistently isolated");
    let page = log(&mut host, LogId::UNIT_HANDLE_USAGE, 2, 0, 24).fine();
    assert_eq!(page.structure::<UsageHeader>().count.get(), 2);
    let usage = page.data[8..].chunks(8).map(|it| UnitHandleUsage::read_from_bytes(it).unwrap());
    assert!(usage.into_iter().all(|usage| usage.attributes == 1));
    for (group, expected) in [(0, NvmeStatus::INVALID_FIELD), (1, NvmeStatus::INVALID_FIELD)] {
        assert_eq!(log(&mut host, LogId::UNIT_HANDLE_USAGE, group, 0, 24).status, expected);
    }
}

#[test]
fn writes_go_to_the_unit_of_their_identifier_and_statistics_count_them() {
    let mut host = host();
    let mut io = host.io(1);
    // The group is the upper bit, the handle the others.
    assert_eq!(units(&mut io), [(0, UNIT), (0x8000, UNIT), (1, UNIT), (0x8001, UNIT)]);
    for (id, slba, blocks) in [(0x8001, 0, 5), (1, 5, 3), (0x8000, 8, 70), (0, 78, 64)] {
        assert_eq!(write(&mut io, 2, (2, id), slba, blocks), NvmeStatus::SUCCESS);
    }
    let left = [(0, UNIT), (0x8000, UNIT - 6), (1, UNIT - 3), (0x8001, UNIT - 5)];
    assert_eq!(units(&mut io), left);
    let mut zeroes = rw(IoOpcode::WRITE_ZEROES, 200, 4);
    (zeroes.nsid, zeroes.control, zeroes.dsm) = (2.into(), (2 << 4).into(), (1 << 16).into());
    io.send(zeroes, &[]).fine();
    assert_eq!(units(&mut io)[2], (1, UNIT - 7), "Write Zeroes has the directive, too");
    let stats: Statistics = log(&mut host, LogId::FDP_STATISTICS, 2, 0, 64).fine().structure();
    assert_eq!((stats.host.get(), stats.media.get()), (146 * 4096, 146 * 4096));
    assert_eq!(stats.erased.get(), 0);
}

#[test]
fn handle_is_updated_for_all_identifiers_or_none() {
    let mut host = host();
    let mut io = host.io(1);
    host.send(event_feature(AdminOpcode::SET_FEATURES, 2, 1, &[0], true), &[0]).fine();
    write(&mut io, 2, (2, 1), 0, 5);
    write(&mut io, 2, (2, 0x8000), 5, 2);
    assert_eq!(update(&mut io, 2, &[1, 7]), NvmeStatus::INVALID_FIELD);
    assert_eq!(units(&mut io)[2], (1, UNIT - 5), "nothing was updated");
    assert_eq!(update(&mut io, 2, &[1, 0x8000]), NvmeStatus::SUCCESS);
    assert!(units(&mut io).iter().all(|(_, available)| *available == UNIT));
    let events = events(&mut host, true);
    assert_eq!(events.len(), 1, "those of handle 0 are not recorded");
    let event = events[0];
    assert_eq!((event.kind, event.id.get(), event.nsid.get()), (EventType::UNIT_NOT_FULL.0, 1, 2));
    assert_eq!(event.flags, ID_VALID | NSID_VALID | LOCATION_VALID);
    assert_eq!((event.group.get(), event.unit_handle), (0, 1));
    assert_eq!(update(&mut io, 1, &[0]), NvmeStatus::FDP_DISABLED, "another namespace");
    assert_eq!(status(&mut io, 1, 64).status, NvmeStatus::FDP_DISABLED);
    assert_eq!(status(&mut io, 2, 16).fine().data.len(), 16, "the header alone");
}

#[test]
fn write_with_an_identifier_that_does_not_exist_is_executed_and_is_an_event() {
    let mut host = host();
    let mut io = host.io(1);
    host.send(event_feature(AdminOpcode::SET_FEATURES, 2, 0, &[3, 0x80], true), &[3, 0x80]).fine();
    assert_eq!(write(&mut io, 2, (2, 0x4002), 0, 3), NvmeStatus::SUCCESS);
    let used: Vec<u64> = units(&mut io).iter().map(|(_, available)| UNIT - available).collect();
    assert_eq!(used[0] + used[1], 3, "handle 0, in a group of the drive's choice");
    let found = events(&mut host, true);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].kind, found[0].id.get()), (EventType::INVALID_ID.0, 0x4002));
    assert_eq!(found[0].flags, ID_VALID | NSID_VALID);
    assert_eq!(events(&mut host, false), []);
    // Streams, and a namespace without data placement.
    assert_eq!(write(&mut io, 2, (1, 0), 0, 1), NvmeStatus::INVALID_FIELD);
    assert_eq!(write(&mut io, 1, (2, 0), 0, 1), NvmeStatus::INVALID_FIELD);
    assert_eq!(write(&mut io, 2, (0, 0x4002), 0, 1), NvmeStatus::SUCCESS, "no directive");
}

#[test]
fn features_say_what_is_enabled_and_what_is_recorded() {
    let mut host = host();
    let of_group = |opcode, group: u32| feature(opcode, FeatureId::DATA_PLACEMENT, group, 0);
    assert_eq!(host.send(of_group(AdminOpcode::GET_FEATURES, 2), &[]).fine().result, 1);
    for (opcode, group, expected) in [
        (AdminOpcode::GET_FEATURES, 1, NvmeStatus::INVALID_FIELD),
        (AdminOpcode::SET_FEATURES, 1, NvmeStatus::INVALID_FIELD),
        (AdminOpcode::SET_FEATURES, 2, NvmeStatus::SEQUENCE),
    ] {
        let mut command = FeatureCommand::from(of_group(opcode, group));
        // As nvme-cli does: to be saved, for all namespaces.
        command.save = if opcode == AdminOpcode::SET_FEATURES { 0x80 } else { 0 };
        command.nsid = u32::MAX.into();
        assert_eq!(host.send(command, &[]).status, expected, "{opcode:?} {group}");
    }
    let get =
        |handle, types: &[u8]| event_feature(AdminOpcode::GET_FEATURES, 2, handle, types, false);
    let ended = host.send(get(1, &[0; 3]), &[]).fine();
    assert_eq!((ended.result, &ended.data[..]), (3, &[0, 0, 3, 0, 0x80, 0][..]));
    let set = |types: &[u8], on| event_feature(AdminOpcode::SET_FEATURES, 2, 1, types, on);
    host.send(set(&[0x80, 0], true), &[0x80, 0]).fine();
    host.send(set(&[0], false), &[0]).fine();
    assert_eq!(host.send(get(1, &[0; 3]), &[]).fine().data, [0, 0, 3, 0, 0x80, 1]);
    assert_eq!(host.send(get(0, &[0; 3]), &[]).fine().data, [0, 0, 3, 0, 0x80, 0]);
    for (sqe, data, expected) in [
        (set(&[1], true), &[1][..], NvmeStatus::INVALID_FIELD),
        (set(&[0, 3], true), &[0][..], NvmeStatus::SGL_LENGTH),
        (get(2, &[0]), &[][..], NvmeStatus::INVALID_FIELD),
        (
            event_feature(AdminOpcode::GET_FEATURES, 1, 0, &[0], false),
            &[][..],
            NvmeStatus::FDP_DISABLED,
        ),
        (
            event_feature(AdminOpcode::GET_FEATURES, 9, 0, &[0], false),
            &[][..],
            NvmeStatus::INVALID_NAMESPACE,
        ),
    ] {
        assert_eq!(host.send(sqe, data).status, expected);
    }
}

#[test]
fn directive_receive_says_which_directives_a_namespace_has() {
    let mut host = host();
    let mut directive = |opcode: AdminOpcode, nsid: u32, operation, len: u32| {
        let mut command = DirectiveCommand::zeroed();
        command.opcode = opcode.0;
        command.flags = 0x40;
        command.nsid = nsid.into();
        command.operation = operation;
        command.numd = (len / 4 - 1).into();
        command.dptr = Sgl::transport(len);
        host.send(Sqe::read_from_bytes(command.as_bytes()).unwrap(), &[])
    };
    for (nsid, bits) in [(1, [1, 1, 0]), (2, [0b101, 0b101, 0b100])] {
        let data = directive(AdminOpcode::DIRECTIVE_RECEIVE, nsid, RETURN_PARAMETERS, 96).fine();
        assert_eq!([0, 32, 64].map(|at| data.data[at]), bits);
    }
    for (opcode, nsid, operation, expected) in [
        (AdminOpcode::DIRECTIVE_RECEIVE, 9, RETURN_PARAMETERS, NvmeStatus::INVALID_NAMESPACE),
        (AdminOpcode::DIRECTIVE_RECEIVE, 2, 9, NvmeStatus::INVALID_FIELD),
        (AdminOpcode::DIRECTIVE_SEND, 2, RETURN_PARAMETERS, NvmeStatus::INVALID_FIELD),
    ] {
        assert_eq!(directive(opcode, nsid, operation, 96).status, expected);
    }
}

#[test]
fn namespaces_that_share_a_drive_are_one_endurance_group_with_handles_of_their_own() {
    let mut host = host_of_parts();
    for (nsid, group) in [(2, 2), (3, 3), (5, 3)] {
        let id: IdentifyNamespace = host.identify(Cns::NAMESPACE, nsid, 0).fine().structure();
        assert_eq!(id.endurance_group.get(), group);
    }
    let groups = host.identify(Cns::ENDURANCE_GROUPS, 0, 0).fine();
    assert_eq!(groups.data[..8], [2, 0, 2, 0, 3, 0, 0, 0]);
    let mut io = host.io(1);
    // Each has its own handle 0, in two groups.
    for (nsid, handle) in [(3, 1), (5, 0)] {
        let ended = status(&mut io, nsid, 16 + 2 * 32).fine();
        assert_eq!(ended.structure::<StatusHeader>().count.get(), 2);
        let statuses = ended.data[16..].chunks_exact(32);
        let ids = statuses.map(|it| {
            let status = UnitHandleStatus::read_from_bytes(it).unwrap();
            (status.id.get(), status.unit_handle.get())
        });
        assert_eq!(ids.collect::<Vec<_>>(), [(0, handle), (0x8000, handle)]);
    }
    host.send(event_feature(AdminOpcode::SET_FEATURES, 3, 0, &[0], true), &[0]).fine();
    host.send(event_feature(AdminOpcode::SET_FEATURES, 5, 0, &[0, 3], true), &[0, 3]).fine();
    assert_eq!(write(&mut io, 3, (2, 0), 0, 3), NvmeStatus::SUCCESS);
    assert_eq!(write(&mut io, 5, (2, 0x8000), 0, 1), NvmeStatus::SUCCESS);
    // An identifier that only the whole drive has.
    assert_eq!(write(&mut io, 5, (2, 1), 1, 1), NvmeStatus::SUCCESS);
    assert_eq!(update(&mut io, 3, &[0]), NvmeStatus::SUCCESS);
    assert_eq!(update(&mut io, 3, &[1]), NvmeStatus::INVALID_FIELD);
    let page = log(&mut host, LogId::FDP_EVENTS, 3, 1, 4096).fine();
    let count = page.structure::<EventsHeader>().count.get() as usize;
    let events = page.data[64..].chunks_exact(64).take(count);
    let events = events.map(|event| Event::read_from_bytes(event).unwrap());
    let events: Vec<_> = events.map(|it| (it.kind, it.nsid.get(), it.unit_handle)).collect();
    assert_eq!(events, [(EventType::INVALID_ID.0, 5, 0), (EventType::UNIT_NOT_FULL.0, 3, 1)]);
    let statistics = log(&mut host, LogId::FDP_STATISTICS, 3, 0, 64).fine();
    assert_eq!(statistics.structure::<Statistics>().host.get(), 5 * 4096);
    let usage = log(&mut host, LogId::UNIT_HANDLE_USAGE, 3, 0, 24).fine();
    assert_eq!([8, 16].map(|at| usage.data[at]), [1, 1], "both are used");
    let endurance = log(&mut host, LogId::ENDURANCE_GROUP, 3, 0, 512).fine();
    assert_eq!(endurance.structure::<EnduranceGroupLog>().capacity.get(), 16 << 20);
    let header = std::mem::size_of::<ConfigurationsHeader>();
    let config = log(&mut host, LogId::FDP_CONFIGURATIONS, 3, 0, 512).fine();
    let config = Configuration::read_from_prefix(&config.data[header..]).unwrap().0;
    assert_eq!((config.namespaces.get(), config.max_ids.get()), (2, 1));
    assert_eq!(log(&mut host, LogId::FDP_STATISTICS, 5, 0, 64).status, NvmeStatus::INVALID_FIELD);
}
