//! Admin commands beyond those that every host sends.
use crate::support::{
    Ended, Host, ZONE, config, feature, namespace, null, property_command, queue_of, received, rw,
    zone_receive,
};
use std::sync::{Arc, Mutex};
use zonal_blk::{Bytes, Nanos, ZoneCondition, ZoneNo};
use zonal_device::NullConfig;
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{Namespace, Response, Subsystem};
use zonal_nvme::wire::admin::{FeatureCommand, IdentifyCommand, LogCommand};
use zonal_nvme::wire::fabrics::Property;
use zonal_nvme::wire::identify::{
    IdentifyController, IndependentNamespace, NamespaceList, ZnsController,
};
use zonal_nvme::wire::log::{ChangedNamespaces, EffectsLog, ErrorEntry, SmartLog};
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, FabricsType, FeatureId, IoOpcode, LogId};
use zonal_nvme::wire::zone::ChangedZoneList;
use zonal_nvme::wire::{Sgl, Sqe};

#[test]
fn commands_before_enable_are_out_of_sequence() {
    let mut host = Host::connected(&null());
    assert_eq!(host.identify(Cns::CONTROLLER, 0, 0).status, NvmeStatus::SEQUENCE);
    host.set(Property::CC, 0x46_0061);
    host.identify(Cns::CONTROLLER, 0, 0).fine();
    host.set(Property::CC, 0x46_0060);
    assert_eq!(host.get(Property::CSTS), 0);
    assert_eq!(host.identify(Cns::CONTROLLER, 0, 0).status, NvmeStatus::SEQUENCE);
}

#[test]
fn unsupported_configuration_is_fatal() {
    for cc in [0x47_0061, 0x36_0061, 0x46_0011, 0x1] {
        let mut host = Host::connected(&null());
        host.set(Property::CC, cc);
        assert_eq!(host.get(Property::CSTS), 0b10, "{cc:#x}");
    }
}

#[test]
fn properties_that_do_not_exist_are_invalid_fields() {
    let mut host = Host::new(&null());
    let get = FabricsType::PROPERTY_GET;
    for command in [
        property_command(get, Property(0x1000), 0),
        property_command(FabricsType::PROPERTY_SET, Property::VS, 1),
        property_command(FabricsType(0x77), Property::VS, 1),
    ] {
        assert_eq!(host.send(command, &[]).status, NvmeStatus::INVALID_FIELD);
    }
    let mut short =
        zonal_nvme::wire::fabrics::PropertyCommand::from(property_command(get, Property::CAP, 0));
    short.attributes = 0;
    assert_eq!(host.send(short, &[]).status, NvmeStatus::INVALID_FIELD);
    assert_eq!(
        host.send(crate::support::connect_command(0, 31, 0), &[]).status,
        NvmeStatus::SEQUENCE
    );
}

#[test]
fn flags_and_data_pointers_are_checked() {
    let mut host = Host::new(&null());
    let identify = |change: fn(&mut IdentifyCommand)| {
        let mut command = IdentifyCommand::zeroed();
        command.opcode = AdminOpcode::IDENTIFY.0;
        (command.flags, command.cns) = (0x40, 1);
        command.dptr = Sgl::transport(4096);
        change(&mut command);
        command
    };
    type Change = fn(&mut IdentifyCommand);
    let table: [(Change, NvmeStatus); 8] = [
        (|_| {}, NvmeStatus::SUCCESS),
        (|c| c.flags = 0, NvmeStatus::INVALID_FIELD),
        (|c| c.flags = 0x41, NvmeStatus::INVALID_FIELD),
        (|c| c.dptr = Sgl::transport(4095), NvmeStatus::SGL_LENGTH),
        (|c| c.dptr.kind = 0x30, NvmeStatus::SGL_TYPE),
        (|c| c.dptr = Sgl::in_capsule(4096), NvmeStatus::SGL_TYPE),
        (
            |c| {
                (c.opcode, c.cns) = (AdminOpcode::SET_FEATURES.0, FeatureId::TIMESTAMP.0);
                (c.dptr.kind, c.dptr.address) = (1, 8.into());
            },
            NvmeStatus::SGL_OFFSET,
        ),
        (|c| c.opcode = 0x7e, NvmeStatus::INVALID_OPCODE),
    ];
    for (change, expected) in table {
        let command = identify(change);
        assert_eq!(host.send(command, &[]).status, expected, "{command:?}");
    }
}

#[test]
fn identify_of_active_inactive_and_invalid_namespaces() {
    let mut host = Host::new(&null());
    let plain = NullConfig { zoned: false, ..null() };
    host.subsystem.add(3, namespace(&plain).1).unwrap();
    // CNS, namespace, command set: status, and whether there is anything but zeroes.
    let (ok, ns, field) =
        (NvmeStatus::SUCCESS, NvmeStatus::INVALID_NAMESPACE, NvmeStatus::INVALID_FIELD);
    for (cns, nsid, csi, status, full) in [
        (Cns::NAMESPACE, 1, 0, ok, true),
        (Cns::NAMESPACE, 2, 0, ok, false),
        (Cns::NAMESPACE, 0, 0, ns, false),
        (Cns::NAMESPACE, u32::MAX, 0, ok, false),
        (Cns::NAMESPACE_DESCRIPTORS, 3, 0, ok, true),
        (Cns::NAMESPACE_DESCRIPTORS, 2, 0, ns, false),
        (Cns::INDEPENDENT_NAMESPACE, 1, 0, ok, true),
        (Cns::INDEPENDENT_NAMESPACE, 2, 0, ok, false),
        (Cns::CSI_NAMESPACE, 1, 0, ok, false),
        (Cns::CSI_NAMESPACE, 1, 2, ok, true),
        (Cns::CSI_NAMESPACE, 3, 0, ok, false),
        (Cns::CSI_NAMESPACE, 3, 2, field, false),
        (Cns::CSI_NAMESPACE, 2, 2, ok, false),
        (Cns::CSI_NAMESPACE, 1, 1, field, false),
        (Cns::CSI_CONTROLLER, 0, 1, field, false),
        (Cns::COMMAND_SETS, 0, 0, ok, true),
        (Cns::ACTIVE_NAMESPACES, u32::MAX, 0, ns, false),
        (Cns(0x55), 0, 0, field, false),
    ] {
        let ended = host.identify(cns, nsid, csi);
        let found = (ended.status, ended.data.iter().any(|&byte| byte != 0));
        assert_eq!(found, (status, full), "{cns:?} {nsid} {csi}");
    }
    let list = |host: &mut Host, cns, after, csi| -> Vec<u32> {
        let list: NamespaceList = host.identify(cns, after, csi).fine().structure();
        list.nsids.iter().map(|nsid| nsid.get()).take_while(|&nsid| nsid > 0).collect()
    };
    assert_eq!(list(&mut host, Cns::ACTIVE_NAMESPACES, 0, 0), [1, 3]);
    assert_eq!(list(&mut host, Cns::ACTIVE_NAMESPACES, 1, 0), [3]);
    assert_eq!(list(&mut host, Cns::CSI_ACTIVE_NAMESPACES, 0, 2), [1]);
    assert_eq!(list(&mut host, Cns::CSI_ACTIVE_NAMESPACES, 0, 0), [3]);
    let id: IndependentNamespace =
        host.identify(Cns::INDEPENDENT_NAMESPACE, 1, 0).fine().structure();
    assert_eq!(id.status, 1);
    // 16 blocks of 4 KiB a zone: appends of up to 2^4 pages.
    let id: ZnsController = host.identify(Cns::CSI_CONTROLLER, 0, 2).fine().structure();
    assert_eq!(id.append_shift, 4);
}

#[test]
fn features_return_what_was_set() {
    let mut host = Host::new(&null());
    let queues = |host: &mut Host| host.get_feature(FeatureId::NUMBER_OF_QUEUES).fine().result;
    assert_eq!(queues(&mut host), 0x007f_007f);
    assert_eq!(
        host.set_feature(FeatureId::NUMBER_OF_QUEUES, 0x0003_0005, &[]).fine().result,
        0x0003_0003
    );
    assert_eq!(queues(&mut host), 0x0003_0003);

    let behavior: Vec<u8> = (0..512).map(|byte| byte as u8).collect();
    host.set_feature(FeatureId::HOST_BEHAVIOR, 0, &behavior).fine();
    assert_eq!(host.get_feature(FeatureId::HOST_BEHAVIOR).fine().data, behavior);

    let millis = 1_700_000_000_000u64;
    host.set_feature(FeatureId::TIMESTAMP, 0, &millis.to_le_bytes()).fine();
    host.now.0 += 1_500_000_000;
    let found = host.get_feature(FeatureId::TIMESTAMP).fine().data;
    assert_eq!(found[..6], (millis + 1500).to_le_bytes()[..6]);
    assert_eq!(found[6..], [2, 0], "set by the host");

    host.set_feature(FeatureId::ASYNC_EVENT, 0x0800_0100, &[]).fine();
    assert_eq!(host.get_feature(FeatureId::ASYNC_EVENT).fine().result, 0x0800_0100);
    assert_eq!(host.get_feature(FeatureId::KEEP_ALIVE_TIMER).fine().result, 5000);
    assert_eq!(host.get_feature(FeatureId::VOLATILE_WRITE_CACHE).fine().result, 1);
}

#[test]
fn features_that_cannot_be_set_fail() {
    let mut host = Host::new(&null());
    for (fid, value, len, expected) in [
        (FeatureId::NUMBER_OF_QUEUES, 0xffff, 0, NvmeStatus::INVALID_FIELD),
        (FeatureId::ASYNC_EVENT, 0x8000_0000, 0, NvmeStatus::INVALID_FIELD),
        (FeatureId::TIMESTAMP, 0, 7, NvmeStatus::SGL_LENGTH),
        (FeatureId::HOST_BEHAVIOR, 0, 511, NvmeStatus::SGL_LENGTH),
        (FeatureId::VOLATILE_WRITE_CACHE, 0, 0, NvmeStatus::NOT_CHANGEABLE),
        (FeatureId(0x99), 0, 0, NvmeStatus::INVALID_FIELD),
    ] {
        assert_eq!(host.set_feature(fid, value, &vec![0; len]).status, expected, "{fid:?}");
    }
    let mut save =
        FeatureCommand::from(feature(AdminOpcode::SET_FEATURES, FeatureId::ASYNC_EVENT, 0, 0));
    save.save = 0x80;
    assert_eq!(host.send(save, &[]).status, NvmeStatus::NOT_SAVEABLE);
    for (fid, select, expected) in [
        (FeatureId::ASYNC_EVENT, 3, Ok(4)),
        (FeatureId::VOLATILE_WRITE_CACHE, 3, Ok(0)),
        (FeatureId::ASYNC_EVENT, 2, Err(NvmeStatus::INVALID_FIELD)),
        (FeatureId(0x99), 0, Err(NvmeStatus::INVALID_FIELD)),
    ] {
        let mut get = FeatureCommand::from(feature(AdminOpcode::GET_FEATURES, fid, 0, 4096));
        get.select = select;
        let ended = host.send(get, &[]);
        let found = if ended.status.is_success() { Ok(ended.result) } else { Err(ended.status) };
        assert_eq!(found, expected, "{fid:?} {select}");
    }
}

/// Sets a feature of a namespace, or gets its value.
fn of_namespace(
    host: &mut Host,
    opcode: AdminOpcode,
    fid: FeatureId,
    nsid: u32,
    value: u32,
) -> Ended {
    let mut command = FeatureCommand::from(feature(opcode, fid, value, 0));
    command.nsid = nsid.into();
    host.send(command, &[])
}

#[test]
fn mandatory_features_can_be_set_to_what_the_specification_allows() {
    use FeatureId as F;
    let (ok, field) = (NvmeStatus::SUCCESS, NvmeStatus::INVALID_FIELD);
    // Feature, its value before, a value to set, the status.
    for (fid, before, value, expected) in [
        (F::ARBITRATION, 0, 0xff01_0207, ok),
        (F::ARBITRATION, 0, 0x08, field),
        (F::POWER_MANAGEMENT, 0, 0x20, ok),
        (F::POWER_MANAGEMENT, 0, 0x01, field),
        (F::TEMPERATURE_THRESHOLD, 343, 0x0150, ok),
        (F::TEMPERATURE_THRESHOLD, 343, 0x0001_0150, field),
        (F::TEMPERATURE_THRESHOLD, 343, 0x0020_0150, field),
        (F::WRITE_ATOMICITY, 0, 1, ok),
        (F::WRITE_ATOMICITY, 0, 2, field),
    ] {
        let mut host = Host::new(&null());
        assert_eq!(host.get_feature(fid).fine().result, before, "{fid:?}");
        assert_eq!(host.set_feature(fid, value, &[]).status, expected, "{fid:?} {value:#x}");
        let after = if expected == ok { value.into() } else { before };
        assert_eq!(host.get_feature(fid).fine().result, after, "{fid:?} {value:#x}");
        let set = of_namespace(&mut host, AdminOpcode::SET_FEATURES, fid, 1, value);
        assert_eq!(set.status, NvmeStatus::NOT_NAMESPACE_SPECIFIC, "{fid:?}");
    }
}

#[test]
fn error_recovery_is_a_feature_of_each_namespace() {
    let mut host = Host::new(&null());
    host.subsystem.add(3, namespace(&null()).1).unwrap();
    let mut set = |nsid, value| {
        of_namespace(&mut host, AdminOpcode::SET_FEATURES, FeatureId::ERROR_RECOVERY, nsid, value)
            .status
    };
    assert_eq!(set(u32::MAX, 7), NvmeStatus::SUCCESS, "all namespaces");
    assert_eq!(set(3, 9), NvmeStatus::SUCCESS);
    assert_eq!(set(2, 9), NvmeStatus::INVALID_NAMESPACE);
    assert_eq!(set(1, 1 << 16), NvmeStatus::INVALID_FIELD, "DULBE without NSFEAT bit 2");
    let mut get = |nsid| {
        of_namespace(&mut host, AdminOpcode::GET_FEATURES, FeatureId::ERROR_RECOVERY, nsid, 0)
    };
    assert_eq!((get(1).fine().result, get(3).fine().result), (7, 9));
    assert_eq!(get(u32::MAX).status, NvmeStatus::INVALID_NAMESPACE);
}

#[test]
fn temperature_beyond_a_threshold_is_a_critical_warning_and_an_event() {
    // The temperature is 293 K. THSEL is bit 20: under. TMPSEL is in bits 19:16: all.
    for threshold in [293, 1 << 20 | 293, 0xf << 16 | 293] {
        let mut host = Host::new(&null());
        host.set_feature(FeatureId::ASYNC_EVENT, 0x02, &[]).fine();
        host.set_feature(FeatureId::TEMPERATURE_THRESHOLD, threshold, &[]).fine();
        assert_eq!(host.ask_for_event(7), Some((NvmeStatus::SUCCESS, 0x02_0101)));
        let log: SmartLog = host.log(LogId::SMART, 0, 0, 512, 0).fine().structure();
        assert_eq!(log.critical_warning, 1 << 1);
        let calm = threshold & !0xffff | if threshold >> 20 == 0 { 294 } else { 292 };
        host.set_feature(FeatureId::TEMPERATURE_THRESHOLD, calm, &[]).fine();
        let log: SmartLog = host.log(LogId::SMART, 0, 0, 512, 0).fine().structure();
        assert_eq!(log.critical_warning, 0);
        assert_eq!(host.ask_for_event(8), None);
    }
}

#[test]
fn keep_alive_timeout_is_rounded_up_to_seconds() {
    let mut host = Host::new(&null());
    let id: IdentifyController = host.identify(Cns::CONTROLLER, 0, 0).fine().structure();
    assert_eq!(id.kas.get(), 10, "in units of 100 ms");
    for (asked, rounded) in [(1, 1000), (1000, 1000), (1001, 2000), (u32::MAX, u32::MAX), (0, 0)] {
        host.set_feature(FeatureId::KEEP_ALIVE_TIMER, asked, &[]).fine();
        let found = host.get_feature(FeatureId::KEEP_ALIVE_TIMER).fine().result;
        assert_eq!(found, u64::from(rounded));
    }
}

#[test]
fn failed_commands_say_that_the_error_log_has_more() {
    let mut host = Host::new(&null());
    let more = |answer: &Response| answer.cqe.status().0 & NvmeStatus::MORE != 0;
    let failed = host.responses(Sqe::new(0x7e, 3, 0), &[]);
    assert!(more(&failed[0]), "an admin command");
    let mut io = host.io(1);
    let mut responses = Vec::new();
    io.queue.submit(io.now, &Sqe::new(0x7c, 4, 1), None, &mut responses);
    let invalid = rw(IoOpcode::WRITE, 1, 1);
    io.queue.submit(io.now, &invalid.into(), received(&[0; 4096]), &mut responses);
    io.queue.poll(io.now, &mut responses);
    assert!(responses.len() == 2 && responses.iter().all(more), "I/O commands");
    let fine = host.responses(Sqe::new(AdminOpcode::KEEP_ALIVE.0, 5, 0), &[]);
    assert!(!more(&fine[0]));
    let log: SmartLog = host.log(LogId::SMART, 0, 0, 512, 0).fine().structure();
    assert_eq!(log.error_entries.get(), 3);
}

#[test]
fn smart_log_is_that_of_the_controller() {
    let mut host = Host::new(&null());
    let id: IdentifyController = host.identify(Cns::CONTROLLER, 0, 0).fine().structure();
    assert_eq!(id.lpa & 1, 0, "none of a namespace");
    for (nsid, expected) in [
        (0, NvmeStatus::SUCCESS),
        (u32::MAX, NvmeStatus::SUCCESS),
        (1, NvmeStatus::INVALID_FIELD),
        (7, NvmeStatus::INVALID_FIELD),
    ] {
        assert_eq!(host.log(LogId::SMART, nsid, 0, 512, 0).status, expected, "{nsid}");
    }
}

#[test]
fn adding_or_removing_a_namespace_is_an_event() {
    let mut host = Host::new(&null());
    host.set_feature(FeatureId::ASYNC_EVENT, 0x100, &[]).fine();
    assert_eq!(host.ask_for_event(7), None);
    host.subsystem.add(5, namespace(&null()).1).unwrap();
    assert_eq!(host.event(7), Some((NvmeStatus::SUCCESS, 0x04_0002)));
    host.subsystem.remove(5);
    assert_eq!(host.ask_for_event(8), None, "masked until the log is read");
    let log: ChangedNamespaces =
        host.log(LogId::CHANGED_NAMESPACES, 0, 0, 4096, 0).fine().structure();
    assert_eq!((log.nsids[0].get(), log.nsids[1].get()), (5, 0));
    host.subsystem.remove(1);
    assert_eq!(host.event(8), Some((NvmeStatus::SUCCESS, 0x04_0002)));
}

#[test]
fn changed_zone_is_an_event_of_its_namespace() {
    let mut host = Host::new(&null());
    host.set_feature(FeatureId::ASYNC_EVENT, 0x0800_0000, &[]).fine();
    host.subsystem.zone_changed(1, ZoneNo(3));
    assert_eq!(host.ask_for_event(7), Some((NvmeStatus::SUCCESS, 0x1_00bf_ef02)));
    let log: ChangedZoneList = host.log(LogId::CHANGED_ZONES, 1, 0, 4096, 0).fine().structure();
    assert_eq!((log.count.get(), log.zones[0].get()), (1, 3 * ZONE));
    let log: ChangedZoneList = host.log(LogId::CHANGED_ZONES, 1, 0, 4096, 0).fine().structure();
    assert_eq!(log.count.get(), 0);
    assert_eq!(host.log(LogId::CHANGED_ZONES, 2, 0, 4096, 0).status, NvmeStatus::INVALID_NAMESPACE);
}

#[test]
fn zone_that_somebody_makes_read_only_is_an_event_before_any_command_fails() {
    let mut host = Host::new(&null());
    host.set_feature(FeatureId::ASYNC_EVENT, 0x0800_0000, &[]).fine();
    assert_eq!(host.ask_for_event(0), None);
    let mut io = host.io(1);
    let changes = [ZoneCondition::ReadOnly, ZoneCondition::Empty, ZoneCondition::Offline];
    for (cid, to) in (0..).zip(changes) {
        host.device.set_condition(ZoneNo(2), to).expect("a zone");
        host.subsystem.condition_changed(1, ZoneNo(2));
        assert!(host.event(cid).is_some(), "{to:?}");
        let log: ChangedZoneList = host.log(LogId::CHANGED_ZONES, 1, 0, 4096, 0).fine().structure();
        assert_eq!((log.count.get(), log.zones[0].get()), (1, 2 * ZONE), "{to:?}");
        let written = io.write(2 * ZONE, &[0; 4096]).status;
        assert_eq!(written.is_success(), to == ZoneCondition::Empty, "{to:?}");
        assert_eq!(host.ask_for_event(cid + 1), None, "{to:?}: hosts know already");
    }
}

#[test]
fn write_to_a_read_only_zone_is_an_event_once() {
    let mut host = Host::new(&null());
    host.set_feature(FeatureId::ASYNC_EVENT, 0x0800_0000, &[]).fine();
    assert_eq!(host.ask_for_event(7), None);
    let mut io = host.io(1);
    for zone in [2, 3] {
        host.device.set_condition(ZoneNo(zone), ZoneCondition::ReadOnly).expect("it can");
    }
    assert_eq!(host.event(7), None, "nobody has looked");
    assert_eq!(io.write(3 * ZONE, &[0; 4096]).status, NvmeStatus::ZONE_READ_ONLY);
    assert_eq!(host.event(7), Some((NvmeStatus::SUCCESS, 0x1_00bf_ef02)));
    let log: ChangedZoneList = host.log(LogId::CHANGED_ZONES, 1, 0, 4096, 0).fine().structure();
    assert_eq!((log.count.get(), log.zones[0].get()), (1, 3 * ZONE));
    assert_eq!(io.write(3 * ZONE, &[0; 4096]).status, NvmeStatus::ZONE_READ_ONLY);
    assert_eq!(host.ask_for_event(8), None, "reported already");
    let flush = Sqe { cdw10: u32::MAX.into(), ..Sqe::new(IoOpcode::FLUSH.0, 1, 1) };
    io.send(flush, &[]).fine();
}

#[test]
fn asynchronous_event_requests_are_limited_and_can_be_aborted() {
    let mut host = Host::new(&null());
    (0..4).for_each(|cid| assert_eq!(host.ask_for_event(cid), None));
    assert_eq!(host.ask_for_event(4), Some((NvmeStatus::EVENT_LIMIT, 0)));
    let abort = |what: u32| {
        let mut sqe = Sqe::new(AdminOpcode::ABORT.0, 20, 0);
        sqe.cdw10 = what.into();
        sqe
    };
    let responses = host.responses(abort(2 << 16), &[]);
    let ends: Vec<_> = responses.iter().map(|a| (a.cqe.cid.get(), a.cqe.status())).collect();
    assert_eq!(ends, [(20, NvmeStatus::SUCCESS), (2, NvmeStatus::ABORT_REQUESTED)]);
    assert_eq!(responses[0].cqe.result(), 0, "it was aborted");
    assert_eq!(host.send(abort(2 << 16), &[]).fine().result, 1, "it is no longer there");
    assert_eq!(host.send(abort(1 << 16 | 1), &[]).fine().result, 1, "of an I/O queue");
}

#[test]
fn log_pages_are_read_in_pieces() {
    let mut host = Host::new(&null());
    let whole = host.log(LogId::EFFECTS, 0, 2, 4096, 0).fine().data;
    let part = host.log(LogId::EFFECTS, 0, 2, 512, 1024).fine().data;
    assert_eq!(part, whole[1024..1536]);
    assert_eq!(host.log(LogId::EFFECTS, 0, 2, 512, 3840).fine().data[256..], [0; 256]);
    assert_eq!(host.log(LogId::EFFECTS, 0, 2, 512, 4100).status, NvmeStatus::INVALID_FIELD);
    assert_eq!(host.log(LogId::EFFECTS, 0, 2, 512, 2).status, NvmeStatus::INVALID_FIELD);
    assert_eq!(host.log(LogId::EFFECTS, 0, 1, 512, 0).status, NvmeStatus::INVALID_FIELD);
    assert_eq!(host.log(LogId(0x0d), 0, 0, 512, 0).status, NvmeStatus::INVALID_LOG);
    let supported = host.log(LogId::SUPPORTED, 0, 0, 1024, 0).fine().data;
    assert_eq!((supported[0xbf * 4], supported[0x70 * 4], supported[0x0d * 4]), (1, 0, 0));
    assert_eq!(host.log(LogId::FIRMWARE, 0, 0, 512, 0).fine().data[8..11], *b"0.1");
    let mut huge = LogCommand::zeroed();
    (huge.opcode, huge.flags, huge.lid) = (AdminOpcode::GET_LOG_PAGE.0, 0x40, 2);
    huge.numdu = u16::MAX.into();
    assert_eq!(host.send(huge, &[]).status, NvmeStatus::INVALID_FIELD);
}

/// Admin commands of the specification that are not offered: Firmware Commit and Download, Device
/// Self-test, namespace and virtualization management, directives, MI, Format NVM, Security, Sanitize,
/// Get LBA Status.
const NOT_OFFERED: [u8; 16] = [
    0x0d, 0x10, 0x11, 0x14, 0x15, 0x19, 0x1a, 0x1c, 0x1d, 0x1e, 0x20, 0x80, 0x81, 0x82, 0x84, 0x86,
];

/// Device Self-test, Telemetry (of the host, of the controller), Endurance Group Information,
/// Predictable Latency (two), Persistent Event, LBA Status, Endurance Group Event, Reservation,
/// Sanitize Status.
const LOGS_NOT_OFFERED: [u8; 11] =
    [0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0d, 0x0e, 0x0f, 0x80, 0x81];

#[test]
fn what_is_not_offered_is_refused_and_identified_as_missing() {
    let mut host = Host::new(&null());
    let effects: EffectsLog = host.log(LogId::EFFECTS, 0, 2, 4096, 0).fine().structure();
    for opcode in NOT_OFFERED {
        for nsid in [0, 1, u32::MAX] {
            let mut sqe = Sqe::new(opcode, 5, nsid);
            sqe.flags = 0x40;
            let status = host.send(sqe, &[]).status;
            assert_eq!(status, NvmeStatus::INVALID_OPCODE, "opcode {opcode:#x}");
        }
        assert_eq!(effects.admin[usize::from(opcode)].get(), 0, "opcode {opcode:#x}");
    }
    let supported = host.log(LogId::SUPPORTED, 0, 0, 1024, 0).fine().data;
    for lid in LOGS_NOT_OFFERED {
        let status = host.log(LogId(lid), 0, 0, 512, 0).status;
        assert_eq!(
            (status, supported[usize::from(lid) * 4]),
            (NvmeStatus::INVALID_LOG, 0),
            "{lid}"
        );
    }
    let id: IdentifyController = host.identify(Cns::CONTROLLER, 0, 0).fine().structure();
    assert_eq!(id.oacs.get(), 0, "no Format NVM, firmware, self-test or directives");
    assert_eq!((id.sanicap.get(), id.fna), (0, 0));
    assert_eq!(id.lpa & 0b1111_1000, 0, "no telemetry (bit 3), no persistent event log (bit 4)");
    assert_eq!(id.frmw, 0b11, "one slot, which cannot be written");
    assert_eq!((id.endgidmax.get(), id.nsetidmax.get(), id.edstt.get()), (0, 0, 0));
    let firmware = host.log(LogId::FIRMWARE, 0, 0, 512, 0).fine().data;
    assert_eq!((firmware[0], &firmware[8..16]), (1, &b"0.1     "[..]), "slot 1 is active");
    assert!(firmware[16..].iter().all(|&byte| byte == 0), "no other has a revision");
}

#[test]
fn namespaces_of_both_command_sets_share_a_subsystem() {
    let host = Host::new(&null());
    let plain = NullConfig { zoned: false, size: Bytes(1 << 20), ..null() };
    host.subsystem.add(2, namespace(&plain).1).unwrap();
    let small =
        NullConfig { zones: 3, zone_size: Bytes(8 * 512), lba: 512, zone_capacity: None, ..null() };
    host.subsystem.add(3, namespace(&small).1).unwrap();
    let mut io = host.io(1);
    let mut send =
        |nsid: u32, sqe: Sqe, data: &[u8]| io.send(Sqe { nsid: nsid.into(), ..sqe }, data);
    let write = |slba, bytes: usize, blocks| {
        let mut command = rw(IoOpcode::WRITE, slba, blocks);
        command.dptr = Sgl::transport(bytes as u32);
        Sqe::from(command)
    };
    let read =
        |slba, bytes: usize, blocks| Sqe { opcode: IoOpcode::READ.0, ..write(slba, bytes, blocks) };
    assert_eq!(send(1, write(1, 4096, 1), &[1; 4096]).status, NvmeStatus::ZONE_INVALID_WRITE);
    send(1, write(0, 4096, 1), &[1; 4096]).fine();
    send(2, write(1, 4096, 1), &[2; 4096]).fine();
    send(3, write(0, 512, 1), &[3; 512]).fine();
    assert_eq!(send(1, read(0, 4096, 1), &[]).fine().data, [1; 4096]);
    assert_eq!(send(2, read(1, 4096, 1), &[]).fine().data, [2; 4096]);
    assert_eq!(send(3, read(0, 512, 1), &[]).fine().data, [3; 512]);
    let report = Sqe::from(zone_receive(0, 0, false, 64 + 64));
    for (nsid, zones) in [(1, Some(8)), (2, None), (3, Some(3))] {
        let ended = send(nsid, report, &[]);
        let found = ended
            .status
            .is_success()
            .then(|| u64::from_le_bytes(ended.data[..8].try_into().unwrap()));
        assert_eq!(found, zones, "namespace {nsid}");
    }
    assert_eq!(
        send(2, report, &[]).status,
        NvmeStatus::INVALID_OPCODE,
        "the NVM Command Set has no zones"
    );
    send(u32::MAX, Sqe::new(IoOpcode::FLUSH.0, 7, u32::MAX), &[]);
}

#[test]
fn smart_and_error_logs_count_commands() {
    let mut host = Host::new(&null());
    let mut io = host.io(1);
    io.write(0, &[1; 8192]).fine();
    io.read(0, 1).fine();
    assert_eq!(io.write(0, &[1; 4096]).status, NvmeStatus::ZONE_INVALID_WRITE);
    let log: SmartLog = host.log(LogId::SMART, u32::MAX, 0, 512, 0).fine().structure();
    assert_eq!((log.reads.get(), log.writes.get()), (1, 1));
    assert_eq!((log.units_read.get(), log.units_written.get()), (1, 1));
    assert_eq!(log.error_entries.get(), 1);
    let entry: ErrorEntry = host.log(LogId::ERROR, 0, 0, 64, 0).fine().structure();
    assert_eq!((entry.count.get(), entry.sqid.get(), entry.nsid.get()), (1, 1, 1));
    let status = NvmeStatus(entry.status.get() >> 1);
    assert_eq!(status, NvmeStatus::ZONE_INVALID_WRITE.do_not_retry().with_more());
    assert_eq!(log.media_errors.get(), 0, "the host's mistake");
    assert_eq!(rw(IoOpcode::WRITE, 0, 1).blocks(), 1);
}

#[test]
fn smart_log_counts_data_units_of_commands_that_read_the_medium() {
    let mut host = Host::new(&null());
    let mut io = host.io(1);
    // 64 sectors of 512 bytes each time; a unit is 1000.
    let data = vec![0; 8 * 4096];
    io.append(0, &data).fine();
    let mut counts = |opcode, data: &[u8]| {
        let before: SmartLog = host.log(LogId::SMART, 0, 0, 512, 0).fine().structure();
        for _ in 0..16 {
            io.send(rw(opcode, 0, 8), data).fine();
        }
        let after: SmartLog = host.log(LogId::SMART, 0, 0, 512, 0).fine().structure();
        assert_eq!((after.writes.get(), after.units_written.get()), (1, 1), "the append");
        (after.units_read.get() - before.units_read.get(), after.reads.get() - before.reads.get())
    };
    // 1024, 2048 and 3072 sectors.
    assert_eq!(counts(IoOpcode::READ, &[]), (2, 16));
    assert_eq!(counts(IoOpcode::COMPARE, &data), (1, 16));
    assert_eq!(counts(IoOpcode::VERIFY, &[]), (1, 0));
}

#[test]
fn smart_log_counts_hours_and_losses_of_power() {
    let mut host = Host::new(&null());
    let counts = |host: &mut Host| {
        let log: SmartLog = host.log(LogId::SMART, 0, 0, 512, 0).fine().structure();
        (log.power_cycles.get(), log.unsafe_shutdowns.get(), log.hours.get())
    };
    assert_eq!(counts(&mut host), (1, 0, 0));
    host.now = Nanos(3 * 3_600_000_000_000 - 1);
    assert_eq!(counts(&mut host).2, 2, "whole hours");
    host.now = Nanos(3 * 3_600_000_000_000);
    host.subsystem.power_lost();
    assert_eq!(counts(&mut host), (2, 1, 3), "the controller was enabled");
    host.set(Property::CC, 0x46_4061);
    host.subsystem.power_lost();
    host.set(Property::CC, 0x46_0060);
    host.set(Property::CC, 0x46_0061);
    assert_eq!(counts(&mut host), (3, 1, 3), "it had been shut down");
}

#[test]
fn controllers_have_other_identifiers_after_each_loss_of_power_and_the_same_after_a_kill() {
    let host = Host::new(&null());
    let after = |history: (u64, u64, u64)| {
        host.subsystem.set_power_history(history.0, history.1, history.2);
        let mut next = Host::of(Arc::clone(&host.subsystem));
        let log: SmartLog = next.log(LogId::SMART, 0, 0, 512, 0).fine().structure();
        (log.power_cycles.get(), log.unsafe_shutdowns.get(), next.admin.cntlid())
    };
    assert_eq!(after((0, 0, 0)), (1, 0, 2), "the first host is connected");
    assert_eq!(after((1, 1, 0)), (2, 1, 2));
    assert_eq!(after((2, 2, 1)), (3, 2, 257));
    assert_eq!(after((999, 500, 254)), (1000, 500, 65025));
    assert_eq!(after((1000, 501, 255)), (1001, 501, 2));
}

#[test]
fn mark_is_put_into_the_log_of_its_namespace() {
    let mark = |nsid: u32, text: &[u8]| {
        let mut sqe = Sqe::new(AdminOpcode::MARK.0, 1, nsid);
        sqe.dptr = Sgl::in_capsule(u32::try_from(text.len()).expect("short"));
        (sqe, text.to_vec())
    };
    let effects = |host: &mut Host| -> u32 {
        let log: EffectsLog = host.log(LogId::EFFECTS, 0, 2, 4096, 0).fine().structure();
        log.admin[usize::from(AdminOpcode::MARK.0)].get()
    };
    let mut without = Host::new(&null());
    let (sqe, text) = mark(1, b"synced");
    assert_eq!(without.send(sqe, &text).status, NvmeStatus::INVALID_OPCODE);
    assert_eq!(effects(&mut without), 0);

    let put = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&put);
    let namespace = Namespace::new(queue_of(&null()).1, [7; 16]).expect("a namespace");
    let namespace = namespace.with_marks(Arc::new(move |text: &str| {
        log.lock().expect("a lock").push(text.to_owned());
    }));
    let subsystem = Subsystem::new(config());
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    let mut host = Host::of(subsystem);
    assert_eq!(effects(&mut host), 1, "supported, and without an effect");
    let longest = "x".repeat(4096);
    let good: [&[u8]; 3] = [b"synced\n", b"fsync 17 returned\0\0\0", longest.as_bytes()];
    for text in good {
        let (sqe, text) = mark(1, text);
        host.send(sqe, &text).fine();
    }
    let too_long = [b'x'; 4097];
    let bad: [&[u8]; 5] = [b"", b"\0synced", b"a\nb", b"\xff", &too_long];
    for text in bad {
        let (sqe, text) = mark(1, text);
        assert_eq!(host.send(sqe, &text).status, NvmeStatus::INVALID_FIELD);
    }
    let (sqe, text) = mark(2, b"synced");
    assert_eq!(host.send(sqe, &text).status, NvmeStatus::INVALID_NAMESPACE);
    assert_eq!(*put.lock().expect("a lock"), ["synced", "fsync 17 returned", &longest]);
}
