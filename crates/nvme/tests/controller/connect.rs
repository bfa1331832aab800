//! Connect, and why it is refused.
use crate::support::{
    Ended, HOST_NQN, Host, NOW, NQN, config, connect_command, connect_data, null, queue_of,
};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Sector, ZoneNo};
use zonal_device::NullConfig;
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{
    AddNamespaceError, ConnectedQueue, Namespace, NamespaceError, Subsystem, Target,
};
use zonal_nvme::wire::fabrics::{CNTLID_ANY, ConnectCommand, DISCOVERY_NQN, Property};
use zonal_nvme::wire::identify::IdentifyController;
use zonal_nvme::wire::log::{DiscoveryEntry, DiscoveryHeader};
use zonal_nvme::wire::opcode::{Cns, FeatureId, LogId};
use zonal_nvme::wire::{Sqe, terminated, text};

/// The status and the parameter of a refused Connect.
fn refused(target: &Target, sqe: &Sqe, data: &[u8]) -> (NvmeStatus, u64) {
    let Err(answer) = target.connect(NOW, sqe, data) else { panic!("connected") };
    let ended = Ended::of(answer);
    (ended.status, ended.result)
}

#[test]
fn connect_reports_the_invalid_parameter() {
    let host = Host::new(&null());
    let target = &host.target;
    let parameter = |place| (NvmeStatus::CONNECT_PARAMETERS, place);
    let data = |cntlid| connect_data(cntlid, NQN);
    let admin = connect_command(0, 31, 0);

    let wrong = connect_data(CNTLID_ANY, "nqn.2026-11.org.example:none");
    assert_eq!(refused(target, &admin, wrong.as_bytes()), parameter(0x1_0100));
    let named = |len: usize| format!("nqn.{}", "a".repeat(len - 4));
    let mut unterminated = data(CNTLID_ANY);
    unterminated.hostnqn.fill(b'a');
    unterminated.hostnqn[..4].copy_from_slice(b"nqn.");
    assert_eq!(refused(target, &admin, unterminated.as_bytes()), parameter(0x1_0200));
    for name in ["nqn.", "host", "nqn.a b", "nqn.a\n", "nqn.\u{e9}", &named(224)] {
        let mut nameless = data(CNTLID_ANY);
        nameless.hostnqn = terminated(name);
        assert_eq!(refused(target, &admin, nameless.as_bytes()), parameter(0x1_0200), "{name:?}");
    }
    let mut longest = data(CNTLID_ANY);
    longest.hostnqn = terminated(&named(223));
    assert!(target.connect(NOW, &admin, longest.as_bytes()).is_ok());
    assert_eq!(refused(target, &admin, data(1).as_bytes()), parameter(0x1_0010));
    let short = data(CNTLID_ANY);
    assert_eq!(refused(target, &admin, &short.as_bytes()[1..]).0, NvmeStatus::SGL_LENGTH);
    for sqsize in [0, 1024, 0xffff] {
        let sqe = connect_command(0, sqsize, 0);
        assert_eq!(refused(target, &sqe, data(CNTLID_ANY).as_bytes()), parameter(44));
    }
    let mut format = ConnectCommand::from(admin);
    format.record_format = 1.into();
    let found = refused(target, &format.into(), data(CNTLID_ANY).as_bytes());
    assert_eq!(found.0, NvmeStatus::INCOMPATIBLE_FORMAT);
    assert_eq!(refused(target, &Sqe::new(6, 0, 0), &[]).0, NvmeStatus::SEQUENCE);
}

/// The Connect command and its data as a host lays them out in bytes: those that are not zero.
fn bytes_of_connect(sqe: &[(usize, &[u8])], data: &[(usize, &[u8])]) -> (Sqe, Vec<u8>) {
    let (mut command, mut bytes) = ([0; 64], vec![0; 1024]);
    sqe.iter().for_each(|(at, part)| command[*at..at + part.len()].copy_from_slice(part));
    data.iter().for_each(|(at, part)| bytes[*at..at + part.len()].copy_from_slice(part));
    (Sqe::read_from_bytes(&command).unwrap(), bytes)
}

/// Connect of an admin queue as hosts send it, built from its fields and not captured (those that
/// were are in `captured_hosts_attach` of zonal-frontend): what differs is the SGL's address, the size of the queue,
/// the attributes, the Keep Alive Timeout and how they name themselves.
#[test]
fn hosts_of_the_field_connect() {
    let named = HOST_NQN.as_bytes();
    let (in_capsule, any): (&[u8], &[u8]) = (&[0, 4, 0, 0, 0, 0, 0, 1], &[0xff, 0xff]);
    let head: (usize, &[u8]) = (0, &[0x7f, 0x40, 0, 0, 1]);
    for (host, sqsize, attributes, kato, id, name) in [
        // spdk_nvme_perf and others on SPDK, with xNVMe's: no name unless they are told one.
        ("SPDK", 31_u16, 0_u8, 10_000_u32, &[0_u8; 16][..], &b""[..]),
        ("SPDK with a name", 31, 0, 10_000, &[7; 16], named),
        // Linux, for nvme-cli and libnvme.
        ("Linux", 31, 0, 5_000, &[7; 16], named),
        ("Linux with disable_sqflow", 31, 4, 5_000, &[7; 16], named),
        ("Linux for discovery, without Keep Alive", 31, 0, 0, &[7; 16], named),
    ] {
        let target = Host::new(&null()).target;
        let (sqsize, kato) = (sqsize.to_le_bytes(), kato.to_le_bytes());
        let (sqe, data) = bytes_of_connect(
            &[head, (32, in_capsule), (44, &sqsize), (46, &[attributes]), (48, &kato)],
            &[(0, id), (16, any), (256, NQN.as_bytes()), (512, name)],
        );
        assert!(target.connect(NOW, &sqe, &data).is_ok(), "{host}");
    }
}

#[test]
fn io_queue_belongs_to_a_controller_that_is_ready_and_to_its_host() {
    let mut host = Host::connected(&null());
    let target = Arc::clone(&host.target);
    let cntlid = host.admin.cntlid();
    let sqe = connect_command(1, 127, 0);
    let mine = connect_data(cntlid, NQN);
    assert_eq!(refused(&target, &sqe, mine.as_bytes()).0, NvmeStatus::SEQUENCE, "not enabled");
    host.set(Property::CC, 0x46_0061);

    assert_eq!(
        refused(&target, &sqe, connect_data(cntlid + 1, NQN).as_bytes()),
        (NvmeStatus::CONNECT_PARAMETERS, 0x1_0010)
    );
    let mut other = mine;
    other.hostnqn = terminated("nqn.2014-08.org.nvmexpress:uuid:other");
    assert_ne!(text(&other.hostnqn), Some(HOST_NQN));
    assert_eq!(refused(&target, &sqe, other.as_bytes()).0, NvmeStatus::CONNECT_HOST);

    host.set_feature(FeatureId::NUMBER_OF_QUEUES, 0x0001_0001, &[]).fine();
    let queue_id = (NvmeStatus::CONNECT_PARAMETERS, 42);
    assert_eq!(refused(&target, &connect_command(3, 127, 0), mine.as_bytes()), queue_id);
    let first = host.io(1);
    assert_eq!(refused(&target, &sqe, mine.as_bytes()), queue_id, "it is there already");
    let again = host.set_feature(FeatureId::NUMBER_OF_QUEUES, 0x0001_0001, &[]);
    assert_eq!(again.status, NvmeStatus::SEQUENCE, "too late");
    drop(first);
    drop(host.io(1));

    drop(host);
    assert_eq!(refused(&target, &sqe, mine.as_bytes()).0, NvmeStatus::CONNECT_PARAMETERS);
}

#[test]
fn controllers_have_identifiers_of_their_own() {
    let host = Host::new(&null());
    let data = connect_data(CNTLID_ANY, NQN);
    let connect = || match host.target.connect(NOW, &connect_command(0, 31, 0), data.as_bytes()) {
        Ok((ConnectedQueue::Admin(controller), _)) => controller,
        _ => panic!("not connected"),
    };
    let (second, third) = (connect(), connect());
    assert_eq!((host.admin.cntlid(), second.cntlid(), third.cntlid()), (1, 2, 3));
    drop(second);
    assert_eq!(connect().cntlid(), 4, "an identifier is not used again immediately");
}

#[test]
fn discovery_log_lists_subsystems_and_its_change_is_an_event() {
    let entry = |name: &str| {
        let mut entry = DiscoveryEntry::zeroed();
        (entry.transport, entry.family, entry.subsystem_type) = (3, 1, 2);
        entry.cntlid = CNTLID_ANY.into();
        entry.subnqn = terminated(name);
        entry
    };
    let subsystem = Subsystem::discovery(config(), vec![entry(NQN)]);
    let mut host = Host::new(&null());
    let target = Target::new(vec![Arc::clone(&subsystem)], Arc::default());
    let data = connect_data(CNTLID_ANY, DISCOVERY_NQN);
    let connected = target.connect(NOW, &connect_command(0, 31, 0), data.as_bytes());
    let Ok((ConnectedQueue::Admin(admin), _)) = connected else { panic!("not connected") };
    host.admin = *admin;
    host.set(Property::CC, 0x46_0001);

    let id: IdentifyController = host.identify(Cns::CONTROLLER, 0, 0).fine().structure();
    assert_eq!((id.cntrltype, text(&id.subnqn)), (2, Some(DISCOVERY_NQN)));
    assert_eq!(id.mdts, 2, "16 KiB for whoever asks");
    host.log(LogId::DISCOVERY, 0, 0, 16 << 10, 0).fine();
    let longer = host.log(LogId::DISCOVERY, 0, 0, (16 << 10) + 4, 0);
    assert_eq!(longer.status, NvmeStatus::INVALID_FIELD);
    host.set_feature(FeatureId::ASYNC_EVENT, 0x8000_0000, &[]).fine();
    let header: DiscoveryHeader = host.log(LogId::DISCOVERY, 0, 0, 1024, 0).fine().structure();
    assert_eq!((header.generation.get(), header.count.get()), (1, 1));
    assert_eq!(host.log(LogId::DISCOVERY, 0, 0, 20, 0).fine().data.len(), 20);
    let found: DiscoveryEntry = host.log(LogId::DISCOVERY, 0, 0, 1024, 1024).fine().structure();
    assert_eq!(found, entry(NQN));

    assert_eq!(host.ask_for_event(5), None);
    subsystem.set_discovery(vec![entry(NQN), entry("nqn.2026-11.org.example:b")]);
    assert_eq!(host.event(5), Some((NvmeStatus::SUCCESS, 0x70_f002)));
    let header: DiscoveryHeader = host.log(LogId::DISCOVERY, 0, 0, 1024, 0).fine().structure();
    assert_eq!((header.generation.get(), header.count.get()), (2, 2));

    assert_eq!(host.identify(Cns::NAMESPACE, 1, 0).status, NvmeStatus::INVALID_FIELD);
    assert_eq!(host.log(LogId::SMART, 0, 0, 512, 0).status, NvmeStatus::INVALID_LOG);
    let io = connect_command(1, 127, 0);
    let data = connect_data(host.admin.cntlid(), DISCOVERY_NQN);
    assert_eq!(refused(&target, &io, data.as_bytes()).0, NvmeStatus::CONNECT_PARAMETERS);
}

#[test]
fn devices_that_zns_cannot_describe_are_refused() {
    let of = |config: NullConfig| Namespace::new(queue_of(&config).1, [0; 16]).err();
    assert_eq!(
        of(NullConfig { conventional: 1, ..null() }),
        Some(NamespaceError::Conventional(ZoneNo(0)))
    );
    assert_eq!(of(NullConfig { zoned: false, ..null() }), None);
    assert_eq!(
        of(NullConfig { lba: 512, append_max: zonal_blk::Bytes(512), ..null() }),
        Some(NamespaceError::Append(1))
    );
    assert_eq!(
        NamespaceError::LastZone { capacity: Sector(9), zone_size: Sector(8) }.to_string(),
        "9 sectors are not a whole number of zones of 8 sectors"
    );
}

#[test]
fn namespace_identifiers_are_used_once() {
    let host = Host::new(&null());
    let again = |nsid| host.subsystem.add(nsid, crate::support::namespace(&null()).1);
    assert_eq!(again(1), Err(AddNamespaceError::NsidInUse(1)));
    assert_eq!(again(0), Err(AddNamespaceError::Identifier(0)));
    assert_eq!(again(1025), Err(AddNamespaceError::Identifier(1025)));
    assert_eq!(again(2), Ok(()));
    assert!(host.subsystem.remove(3).is_none());
    assert!(host.subsystem.remove(2).is_some());
}

#[test]
fn queues_can_be_moved_to_threads() {
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    sent::<zonal_nvme::controller::Controller>();
    sent::<zonal_nvme::controller::IoQueue>();
    shared::<Target>();
    shared::<Subsystem>();
}
