//! The commands that a Linux host (6.12) sends to a ZNS subsystem, in its order, and the data it needs.
use crate::support::{Ended, Host, NQN, ZONE, ZONES, null, property_command};
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::fabrics::Property;
use zonal_nvme::wire::identify::{
    IdentifyController, IdentifyNamespace, NamespaceList, ZnsController, ZnsNamespace,
};
use zonal_nvme::wire::log::EffectsLog;
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, FabricsType, FeatureId, LogId};
use zonal_nvme::wire::{Sqe, text};

/// A command of the host.
enum Ask {
    Identify(Cns, u32, u8),
    /// Log page, namespace, command set, length.
    Log(LogId, u32, u8, u32),
    /// Feature, value, bytes of data.
    Set(FeatureId, u32, usize),
}
use Ask::{Identify, Log, Set};

fn bytes(ended: &Ended, at: usize) -> &[u8] {
    &ended.data[at..]
}

#[test]
fn linux_host_sequence() {
    type Needs = fn(&Ended) -> bool;
    let table: [(&str, Ask, Needs); 16] = [
        ("controller", Identify(Cns::CONTROLLER, 0, 0), |ended| {
            let id: IdentifyController = ended.structure();
            text(&id.subnqn) == Some(NQN)
                && (id.sqes, id.cqes, id.cntrltype) == (0x66, 0x44, 1)
                && id.ioccsz.get() >= 4 + 8192 / 16
                && id.iorcsz.get() == 1
                && id.kas.get() > 0
                && id.maxcmd.get() >= 128
                && id.sgls.get() & 0b11 == 1
                && id.lpa & 1 << 1 != 0
        }),
        ("effects", Log(LogId::EFFECTS, 0, 0, 4096), |ended| {
            ended.structure::<EffectsLog>().admin[usize::from(AdminOpcode::IDENTIFY.0)].get() & 1
                == 1
        }),
        ("timestamp", Set(FeatureId::TIMESTAMP, 0, 8), |_| true),
        ("host behavior", Set(FeatureId::HOST_BEHAVIOR, 0, 512), |_| true),
        ("health", Log(LogId::SMART, u32::MAX, 0, 512), |ended| ended.data[0] == 0),
        ("queues", Set(FeatureId::NUMBER_OF_QUEUES, 0x0001_0001, 0), |ended| {
            ended.result == 0x0001_0001
        }),
        ("events", Set(FeatureId::ASYNC_EVENT, 0x100, 0), |_| true),
        ("NVM controller", Identify(Cns::CSI_CONTROLLER, 0, 0), |_| true),
        ("list", Identify(Cns::ACTIVE_NAMESPACES, 0, 0), |ended| {
            let list: NamespaceList = ended.structure();
            (list.nsids[0].get(), list.nsids[1].get()) == (1, 0)
        }),
        ("descriptors", Identify(Cns::NAMESPACE_DESCRIPTORS, 1, 0), |ended| {
            // NGUID, UUID, and CSI 2.
            bytes(ended, 0)[..2] == [2, 16]
                && bytes(ended, 20)[..2] == [3, 16]
                && bytes(ended, 40)[..6] == [4, 1, 0, 0, 2, 0]
        }),
        ("namespace", Identify(Cns::NAMESPACE, 1, 0), |ended| {
            let id: IdentifyNamespace = ended.structure();
            id.size.get() == ZONE * ZONES
                && id.lba_formats[0].data_shift == 12
                && (id.format, id.protection, id.formats) == (0, 0, 0)
        }),
        ("ZNS effects", Log(LogId::EFFECTS, 0, 2, 4096), |ended| {
            // Without append a Linux host makes the device read-only.
            let log: EffectsLog = ended.structure();
            [0x00, 0x01, 0x02, 0x79, 0x7a, 0x7d].iter().all(|&op: &usize| log.io[op].get() & 1 == 1)
        }),
        ("namespace, once more", Identify(Cns::NAMESPACE, 1, 0), |_| true),
        ("NVM namespace", Identify(Cns::CSI_NAMESPACE, 1, 0), |_| true),
        ("ZNS controller", Identify(Cns::CSI_CONTROLLER, 0, 2), |ended| {
            ended.structure::<ZnsController>().append_shift > 0
        }),
        ("ZNS namespace", Identify(Cns::CSI_NAMESPACE, 1, 2), |ended| {
            let id: ZnsNamespace = ended.structure();
            id.zone_operation.get() == 0
                && id.formats[0].zone_size.get() == ZONE
                && ZONE.is_power_of_two()
                && (id.max_open.get(), id.max_active.get()) == (1, 2)
        }),
    ];

    let mut host = Host::connected(&null());
    let cap = host.get(Property::CAP);
    assert_eq!(cap >> 37 & 0x41, 0x41, "CSS bits 0 and 6");
    host.set(Property::CC, 0x46_0060);
    assert_eq!(host.get(Property::CAP), cap);
    assert_eq!(host.get(Property::CSTS), 0);
    host.set(Property::CC, 0x46_0061);
    assert_eq!(host.get(Property::CSTS), 1);
    assert_eq!(host.get(Property::VS), 0x1_0400);

    for (what, ask, needs) in table {
        let ended = match ask {
            Identify(cns, nsid, csi) => host.identify(cns, nsid, csi),
            Log(lid, nsid, csi, len) => {
                let ended = host.log(lid, nsid, csi, len, 0);
                assert_eq!(ended.data.len(), len as usize, "{what}");
                ended
            }
            Set(fid, value, len) => host.set_feature(fid, value, &vec![0; len]),
        };
        assert_eq!(ended.status, NvmeStatus::SUCCESS, "{what}");
        assert!(needs(&ended), "{what}: {:?}", &ended.data.get(..64));
    }
    assert_eq!(host.ask_for_event(9), None, "it stays outstanding");
    let mut io = host.io(1);
    let (count, zones) = io.report(0, 0, true, ZONES as usize);
    assert_eq!((count, zones.len()), (ZONES, ZONES as usize));
    io.read(0, 1).fine();
    drop(io);

    // Leaving.
    let leave = property_command(FabricsType::PROPERTY_SET, Property::CC, 0x46_4061);
    let ends: Vec<_> = host.responses(leave, &[]).iter().map(|a| a.cqe.status()).collect();
    assert_eq!(ends, [NvmeStatus::SUCCESS, NvmeStatus::ABORT_REQUESTED], "the event's comes last");
    assert_eq!(host.get(Property::CSTS), 0x9, "ready, shutdown complete");
    assert!(host.admin.is_stopped());
}

#[test]
fn shutdown_and_disable_abort_asynchronous_event_requests() {
    for cc in [0x46_4061, 0x46_0060] {
        let mut host = Host::new(&null());
        assert_eq!(host.ask_for_event(9), None);
        let set = property_command(FabricsType::PROPERTY_SET, Property::CC, cc);
        let mut responses = host.responses(set, &[]);
        assert_eq!(responses.len(), 2, "that of the property, and that of the request");
        let request = responses.pop().unwrap();
        assert_eq!(request.cqe.cid.get(), 9);
        assert_eq!(request.cqe.status(), NvmeStatus::ABORT_REQUESTED);
        assert_eq!(host.event(9), None);
    }
}

#[test]
fn controller_expires_without_keep_alive() {
    const MS: u64 = 1_000_000;
    let mut host = Host::new(&null());
    let begin = host.now.0;
    let at = |ms: u64| zonal_blk::Nanos(begin + ms * MS);
    assert_eq!(host.admin.next_event(), Some(at(5000)));
    assert!(!host.admin.is_expired(at(4999)));
    assert!(host.admin.is_expired(at(5000)));
    host.now = at(2500);
    host.send(Sqe::new(AdminOpcode::KEEP_ALIVE.0, 3, 0), &[]).fine();
    assert!(!host.admin.is_expired(at(7499)));
    assert!(host.admin.is_expired(at(7500)));
    host.set_feature(FeatureId::KEEP_ALIVE_TIMER, 0, &[]).fine();
    assert_eq!(host.admin.next_event(), None);
}

#[test]
fn traffic_keeps_a_host_alive_and_silence_does_not() {
    let mut host = Host::new(&null());
    let id: IdentifyController = host.identify(Cns::CONTROLLER, 0, 0).fine().structure();
    assert_eq!(id.ctratt.get() & 1 << 6, 1 << 6, "TBKAS");
    let begin = host.now;
    let at = |seconds: u64| zonal_blk::Nanos(begin.0 + seconds * 1_000_000_000);
    let mut io = host.io(1);
    // No Keep Alive: a read in each interval of 5 s, then an admin command.
    for interval in 1..4 {
        io.read(0, 1).fine();
        host.now = at(interval * 5);
        assert_eq!(host.event(9), None);
        assert!(!host.admin.is_expired(host.now), "interval {interval}");
        assert_eq!(host.admin.next_event(), Some(at(interval * 5 + 5)));
    }
    host.now = at(18);
    host.identify(Cns::CONTROLLER, 0, 0).fine();
    assert_eq!(host.admin.next_event(), Some(at(23)));
    host.now = at(23);
    assert_eq!(host.event(9), None);
    assert!(host.admin.is_expired(host.now), "neither");
}
