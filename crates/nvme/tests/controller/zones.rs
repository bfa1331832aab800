//! Zone management: every action in every condition, reports, limits.
use crate::support::{
    CAPACITY, Ended, Host, Io, ZONE, ZONES, namespace, null, received, rw, zone_receive, zone_send,
};
use std::sync::Arc;
use zonal_blk::ZoneCondition::{
    self, Closed, Empty, ExplicitOpen, Full, ImplicitOpen, Offline, ReadOnly,
};
use zonal_blk::{Bytes, Device, Nanos, Queue, QueueOptions, ZoneNo};
use zonal_crash::{RecordDevice, Recorder};
use zonal_device::control::DeviceControl;
use zonal_device::device_spec;
use zonal_device::power::PowerDevice;
use zonal_device::{NullConfig, ZnsConfig, ZnsDevice};
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{Namespace, Subsystem};
use zonal_nvme::wire::admin::notice;
use zonal_nvme::wire::identify::{IdentifyNamespace, ZnsNamespace};
use zonal_nvme::wire::opcode::{Cns, FeatureId, IoOpcode, LogId};
use zonal_nvme::wire::zone::{ChangedZoneList, NO_WRITE_POINTER, attribute};
use zonal_nvme::wire::{Sgl, Sqe};

const SECOND: u64 = 1_000_000_000;
const BLOCK: [u8; 4096] = [1; 4096];
const CLOSE: u8 = 1;
const FINISH: u8 = 2;
const OPEN: u8 = 3;
const RESET: u8 = 4;
const OFFLINE: u8 = 5;
const SET_EXTENSION: u8 = 0x10;
const ZRWA_FLUSH: u8 = 0x11;
const ALL: u8 = 1;
/// ZRWAA.
const ZRWA: u8 = 2;

const CONDITIONS: [ZoneCondition; 7] =
    [Empty, ImplicitOpen, ExplicitOpen, Closed, Full, ReadOnly, Offline];

/// Brings zone `zone` into a condition, with one block written where that is possible.
fn prepare(host: &Host, io: &mut Io, zone: u64, cond: ZoneCondition) {
    let slba = zone * ZONE;
    let mut manage = |action| assert_eq!(io.manage(slba, action, 0), NvmeStatus::SUCCESS);
    match cond {
        Empty => return,
        ExplicitOpen => manage(OPEN),
        Full => return manage(FINISH),
        _ => {}
    }
    io.write(slba, &BLOCK).fine();
    match cond {
        Closed => assert_eq!(io.manage(slba, CLOSE, 0), NvmeStatus::SUCCESS),
        ReadOnly | Offline => {
            let zone = ZoneNo(zone as u32);
            host.device.set_condition(zone, cond).expect("the null device can");
            // Hosts look at the zone after such an event, and so does the block layer.
            io.queue_sees();
        }
        _ => {}
    }
    assert_eq!(io.zone(zone).condition(), Some(cond));
}

impl Io {
    /// Reports all zones.
    fn queue_sees(&mut self) {
        self.report(0, 0, true, ZONES as usize);
    }

    fn condition(&mut self, zone: u64) -> ZoneCondition {
        self.zone(zone).condition().expect("a condition")
    }
}

#[test]
fn every_action_in_every_condition() {
    use NvmeStatus as S;
    let ok = S::SUCCESS;
    let transition = S::ZONE_TRANSITION;
    let field = S::INVALID_FIELD;
    /// By condition, as in CONDITIONS: the status and the next condition.
    type Ends = [(NvmeStatus, ZoneCondition); 7];
    let table: [(&str, u8, Ends); 7] = [
        (
            "close",
            CLOSE,
            [
                (transition, Empty),
                (ok, Closed),
                (ok, Closed),
                (ok, Closed),
                (transition, Full),
                (transition, ReadOnly),
                (transition, Offline),
            ],
        ),
        (
            "finish",
            FINISH,
            [
                (ok, Full),
                (ok, Full),
                (ok, Full),
                (ok, Full),
                (ok, Full),
                (transition, ReadOnly),
                (transition, Offline),
            ],
        ),
        (
            "open",
            OPEN,
            [
                (ok, ExplicitOpen),
                (ok, ExplicitOpen),
                (ok, ExplicitOpen),
                (ok, ExplicitOpen),
                (transition, Full),
                (transition, ReadOnly),
                (transition, Offline),
            ],
        ),
        (
            "reset",
            RESET,
            [
                (ok, Empty),
                (ok, Empty),
                (ok, Empty),
                (ok, Empty),
                (ok, Empty),
                (transition, ReadOnly),
                (transition, Offline),
            ],
        ),
        (
            "offline",
            OFFLINE,
            [
                (transition, Empty),
                (transition, ImplicitOpen),
                (transition, ExplicitOpen),
                (transition, Closed),
                (transition, Full),
                (ok, Offline),
                (ok, Offline),
            ],
        ),
        ("set extension", SET_EXTENSION, CONDITIONS.map(|cond| (field, cond))),
        ("ZRWA flush", ZRWA_FLUSH, CONDITIONS.map(|cond| (field, cond))),
    ];
    for (name, action, ends) in table {
        for (cond, expected) in CONDITIONS.into_iter().zip(ends) {
            let host = Host::new(&null());
            let mut io = host.io(1);
            prepare(&host, &mut io, 2, cond);
            let found = (io.manage(2 * ZONE, action, 0), io.condition(2));
            assert_eq!(found, expected, "{name} of a zone that is {cond:?}");
        }
    }
}

#[test]
fn every_write_in_every_condition() {
    use NvmeStatus as S;
    type Write = fn(&mut Io) -> S;
    let one: Write = |io| io.append(2 * ZONE, &BLOCK).status;
    let table: [(&str, Write, [S; 7]); 5] = [
        (
            "append",
            one,
            [
                S::SUCCESS,
                S::SUCCESS,
                S::SUCCESS,
                S::SUCCESS,
                S::ZONE_FULL,
                S::ZONE_READ_ONLY,
                S::ZONE_OFFLINE,
            ],
        ),
        (
            "write at block 1",
            |io| io.write(2 * ZONE + 1, &BLOCK).status,
            [
                S::ZONE_INVALID_WRITE,
                S::SUCCESS,
                S::SUCCESS,
                S::SUCCESS,
                S::ZONE_FULL,
                S::ZONE_READ_ONLY,
                S::ZONE_OFFLINE,
            ],
        ),
        (
            "write beyond the capacity",
            |io| io.write(2 * ZONE + 1, &BLOCK.repeat(CAPACITY as usize)).status,
            [
                S::ZONE_BOUNDARY,
                S::ZONE_BOUNDARY,
                S::ZONE_BOUNDARY,
                S::ZONE_BOUNDARY,
                S::ZONE_FULL,
                S::ZONE_READ_ONLY,
                S::ZONE_OFFLINE,
            ],
        ),
        (
            "write across the border",
            |io| io.write(3 * ZONE - 1, &BLOCK.repeat(2)).status,
            [S::ZONE_BOUNDARY; 7],
        ),
        (
            "read",
            |io| io.read(2 * ZONE, 1).status,
            [
                S::SUCCESS,
                S::SUCCESS,
                S::SUCCESS,
                S::SUCCESS,
                S::SUCCESS,
                S::SUCCESS,
                S::ZONE_OFFLINE,
            ],
        ),
    ];
    for (name, write, ends) in table {
        for (cond, expected) in CONDITIONS.into_iter().zip(ends) {
            let host = Host::new(&null());
            let mut io = host.io(1);
            prepare(&host, &mut io, 2, cond);
            assert_eq!(write(&mut io), expected, "{name} in a zone that is {cond:?}");
        }
    }
}

/// One zone in each condition but [`Full`], and that in zone 7.
fn zoo() -> (Host, Io) {
    let host = Host::new(&NullConfig { max_open: Some(4), max_active: 7, ..null() });
    let mut io = host.io(1);
    for (zone, cond) in [Closed, ImplicitOpen, ExplicitOpen, Empty, ReadOnly, Offline, Empty, Full]
        .into_iter()
        .enumerate()
    {
        prepare(&host, &mut io, zone as u64, cond);
    }
    (host, io)
}

#[test]
fn select_all_selects_the_zones_that_the_action_applies_to() {
    let before = [Closed, ImplicitOpen, ExplicitOpen, Empty, ReadOnly, Offline, Empty, Full];
    for (action, expected) in [
        (CLOSE, [Closed, Closed, Closed, Empty, ReadOnly, Offline, Empty, Full]),
        (FINISH, [Full, Full, Full, Empty, ReadOnly, Offline, Empty, Full]),
        (OPEN, [ExplicitOpen, ImplicitOpen, ExplicitOpen, Empty, ReadOnly, Offline, Empty, Full]),
        (RESET, [Empty, Empty, Empty, Empty, ReadOnly, Offline, Empty, Empty]),
        (OFFLINE, [Closed, ImplicitOpen, ExplicitOpen, Empty, Offline, Offline, Empty, Full]),
    ] {
        let (_host, mut io) = zoo();
        let conditions = |io: &mut Io| {
            let zones = io.report(0, 0, true, ZONES as usize).1;
            zones.iter().map(|zone| zone.condition().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(conditions(&mut io), before);
        assert_eq!(io.manage(0, action, ALL), NvmeStatus::SUCCESS);
        assert_eq!(conditions(&mut io), expected, "action {action}");
    }
    let (_host, mut io) = zoo();
    assert_eq!(io.manage(0, CLOSE, ALL), NvmeStatus::SUCCESS);
    assert_eq!(io.manage(0, CLOSE, ALL), NvmeStatus::SUCCESS, "nothing to close");
    assert_eq!(io.send(zone_send(0, RESET, ALL), &[]).fine().result, 0);
    assert_eq!(u32::from_le_bytes([RESET, ALL, 0, 0]), 0x104, "as Linux sends it");
}

#[test]
fn select_all_selects_no_zone_of_another_namespace() {
    let host = Host::new(&null());
    host.subsystem.add(2, namespace(&null()).1).unwrap();
    let mut io = host.io(1);
    let mut to = |nsid: u32, sqe: Sqe, data: &[u8]| {
        io.send(Sqe { nsid: nsid.into(), ..sqe }, data).fine();
    };
    for nsid in [1, 2] {
        to(nsid, rw(IoOpcode::WRITE, 0, 1).into(), &BLOCK);
        to(nsid, rw(IoOpcode::WRITE, ZONE, 1).into(), &BLOCK);
    }
    to(1, zone_send(0, RESET, ALL).into(), &[]);
    // Write pointers are where they were, and the other namespace's are where the writes left them.
    to(1, rw(IoOpcode::WRITE, 0, 1).into(), &BLOCK);
    to(1, rw(IoOpcode::WRITE, ZONE, 1).into(), &BLOCK);
    to(2, rw(IoOpcode::WRITE, 1, 1).into(), &BLOCK);
    to(2, rw(IoOpcode::WRITE, ZONE + 1, 1).into(), &BLOCK);
}

#[test]
fn reports_list_what_the_filter_selects() {
    let (_host, mut io) = zoo();
    let wp = |written: u64, zone: u64| zone * ZONE + written;
    for (filter, zones) in [
        (0, vec![0, 1, 2, 3, 4, 5, 6, 7]),
        (1, vec![3, 6]),
        (2, vec![1]),
        (3, vec![2]),
        (4, vec![0]),
        (5, vec![7]),
        (6, vec![4]),
        (7, vec![5]),
    ] {
        let (count, found) = io.report(0, filter, false, 8);
        assert_eq!(count, zones.len() as u64, "filter {filter}");
        let numbers: Vec<u64> = found.iter().map(|zone| zone.slba.get() / ZONE).collect();
        assert_eq!(numbers, zones, "filter {filter}");
        assert!(found.iter().all(|zone| zone.capacity.get() == CAPACITY && zone.zone_type == 2));
    }
    let pointers: Vec<u64> =
        io.report(0, 0, true, 8).1.iter().map(|zone| zone.write_pointer.get()).collect();
    let none = NO_WRITE_POINTER;
    assert_eq!(pointers, [wp(1, 0), wp(1, 1), wp(1, 2), wp(0, 3), none, none, wp(0, 6), none]);
}

#[test]
fn partial_report_counts_what_it_contains() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    for (slba, partial, room, count, listed) in [
        (0, false, 3, 8, 3),
        (0, true, 3, 3, 3),
        (5 * ZONE, false, 8, 3, 3),
        (5 * ZONE + 7, true, 8, 3, 3),
        (0, false, 0, 8, 0),
        (0, true, 0, 0, 0),
    ] {
        let len = 64 + 64 * room;
        let ended = io.send(zone_receive(slba, 0, partial, len), &[]).fine();
        let found = u64::from_le_bytes(ended.data[..8].try_into().unwrap());
        let full = ended.data[64..].chunks(64).filter(|d| d.iter().any(|&byte| byte != 0)).count();
        assert_eq!(
            (found, full, ended.data.len()),
            (count, listed, len),
            "{slba} {partial} {room}"
        );
    }
}

/// The usual device with random write areas of 4 blocks that move by 2, for one zone at a time.
fn with_zrwa() -> NullConfig {
    NullConfig {
        zrwa: Bytes(4 * 4096),
        zrwa_granularity: Bytes(2 * 4096),
        max_zrwa: 1,
        append_max: Bytes(1 << 20),
        ..null()
    }
}

/// The conditions of a zone with a random write area, and what of them a zone without one has.
const ZRWA_CONDITIONS: [(&str, ZoneCondition, bool); 10] = [
    ("opened with a ZRWA", ExplicitOpen, true),
    ("closed, with a ZRWA", Closed, true),
    ("opened by a write, with a ZRWA", ImplicitOpen, true),
    ("empty", Empty, false),
    ("implicitly open", ImplicitOpen, false),
    ("explicitly open", ExplicitOpen, false),
    ("closed", Closed, false),
    ("full", Full, false),
    ("read-only", ReadOnly, false),
    ("offline", Offline, false),
];

/// Brings zone 2 into a condition, with a random write area, in which block 1 is written, or without.
fn prepare_zrwa(host: &Host, io: &mut Io, cond: ZoneCondition, zrwa: bool) {
    let slba = 2 * ZONE;
    if !zrwa {
        return prepare(host, io, 2, cond);
    }
    assert_eq!(io.manage(slba, OPEN, ZRWA), NvmeStatus::SUCCESS);
    io.write(slba + 1, &BLOCK).fine();
    if cond != ExplicitOpen {
        assert_eq!(io.manage(slba, CLOSE, 0), NvmeStatus::SUCCESS);
    }
    if cond == ImplicitOpen {
        io.write(slba + 1, &BLOCK).fine();
    }
    assert_eq!(io.condition(2), cond);
}

#[test]
fn every_action_on_zones_with_and_without_a_zrwa() {
    use NvmeStatus as S;
    let (ok, transition, field) = (S::SUCCESS, S::ZONE_TRANSITION, S::INVALID_FIELD);
    let operation = S::ZONE_INVALID_OPERATION;
    let slba = 2 * ZONE;
    /// The action, its block and options; by condition, as in [`ZRWA_CONDITIONS`]: the status, the next
    /// condition, whether the zone has a ZRWA then, and where its write pointer is.
    type Ends = [(NvmeStatus, ZoneCondition, bool, u64); 10];
    let none = NO_WRITE_POINTER;
    let same = |status: [NvmeStatus; 10]| -> Ends {
        let wp = [0, 0, 0, 0, 1, 1, 1, none, none, none];
        std::array::from_fn(|at| {
            let (_, cond, zrwa) = ZRWA_CONDITIONS[at];
            (status[at], cond, zrwa, wp[at])
        })
    };
    let mut open_zrwa = same([operation; 10]);
    open_zrwa[3] = (ok, ExplicitOpen, true, 0);
    for (at, cond) in [(7, Full), (8, ReadOnly), (9, Offline)] {
        open_zrwa[at] = (transition, cond, false, none);
    }
    let flush_status = |with| {
        let mut status = [operation; 10];
        status[..3].fill(with);
        status[8..].fill(transition);
        status
    };
    let mut flush = same(flush_status(ok));
    for (at, cond) in [(0, ExplicitOpen), (1, ImplicitOpen), (2, ImplicitOpen)] {
        flush[at] = (ok, cond, true, 2);
    }
    let mut close = same([ok, ok, ok, transition, ok, ok, ok, transition, transition, transition]);
    for (at, zrwa) in [(0, true), (1, true), (2, true), (4, false), (5, false), (6, false)] {
        close[at].1 = Closed;
        close[at].2 = zrwa;
    }
    let mut finish = same([transition; 10]);
    finish[..8].fill((ok, Full, false, none));
    let mut reset = same([transition; 10]);
    reset[..8].fill((ok, Empty, false, 0));
    let table: [(&str, u8, u64, u8, Ends); 9] = [
        ("open with a ZRWA", OPEN, slba, ZRWA, open_zrwa),
        ("flush 2 blocks", ZRWA_FLUSH, slba + 1, 0, flush),
        ("flush 1 block", ZRWA_FLUSH, slba, 0, same(flush_status(field))),
        ("flush after the area", ZRWA_FLUSH, slba + 5, 0, same(flush_status(field))),
        ("flush to the zone's end", ZRWA_FLUSH, slba + ZONE - 1, 0, same(flush_status(field))),
        ("flush all", ZRWA_FLUSH, slba + 1, ALL, same([field; 10])),
        ("close", CLOSE, slba, 0, close),
        ("finish", FINISH, slba, 0, finish),
        ("reset", RESET, slba, 0, reset),
    ];
    for (name, action, block, options, ends) in table {
        for ((condition, cond, zrwa), expected) in ZRWA_CONDITIONS.into_iter().zip(ends) {
            let host = Host::new(&with_zrwa());
            let mut io = host.io(1);
            prepare_zrwa(&host, &mut io, cond, zrwa);
            let status = io.manage(block, action, options);
            let zone = io.zone(2);
            let wp = match zone.write_pointer.get() {
                NO_WRITE_POINTER => none,
                wp => wp - slba,
            };
            let has_zrwa = zone.attributes & attribute::ZRWA_VALID != 0;
            let found = (status, zone.condition().unwrap(), has_zrwa, wp);
            assert_eq!(found, expected, "{name} of a zone that is {condition}");
        }
    }
}

#[test]
fn writes_to_a_zrwa_need_no_order_and_move_the_write_pointer_by_granules() {
    use NvmeStatus as S;
    let host = Host::new(&with_zrwa());
    let mut io = host.io(1);
    assert_eq!(io.manage(0, OPEN, ZRWA), S::SUCCESS);
    let block = |tag: u8| [tag; 4096];
    // Block, status, and where the write pointer is then.
    for (tag, at, status, wp) in [
        (1, 3, S::SUCCESS, 0),
        (2, 0, S::SUCCESS, 0),
        (3, 3, S::SUCCESS, 0),
        (4, 4, S::SUCCESS, 2),
        (5, 1, S::ZONE_INVALID_WRITE, 2),
        (6, 10, S::ZONE_INVALID_WRITE, 2),
        (7, 9, S::SUCCESS, 6),
        (8, 12, S::ZONE_BOUNDARY, 6),
        (9, 11, S::SUCCESS, 8),
    ] {
        assert_eq!(io.write(at, &block(tag)).status, status, "block {at}");
        assert_eq!(io.zone(0).write_pointer.get(), wp, "after block {at}");
    }
    for (at, tag) in [(0, 2), (1, 0), (2, 0), (3, 3), (4, 4), (9, 7), (11, 9)] {
        assert_eq!(io.read(at, 1).fine().data, block(tag), "block {at}");
    }
    assert_eq!(io.append(0, &BLOCK).status, S::ZONE_INVALID_OPERATION);
    io.append(ZONE, &BLOCK).fine();
    assert_eq!(io.manage(11, ZRWA_FLUSH, 0), S::SUCCESS, "to the capacity");
    assert_eq!(io.condition(0), Full);
    assert_eq!(io.write(11, &BLOCK).status, S::ZONE_FULL);
    assert_eq!(io.manage(0, RESET, 0), S::SUCCESS);
    assert_eq!(io.write(1, &BLOCK).status, S::ZONE_INVALID_WRITE, "the zone is in order again");
}

#[test]
fn zrwas_are_counted_and_identified() {
    use NvmeStatus as S;
    let mut host = Host::new(&with_zrwa());
    let id: ZnsNamespace = host.identify(Cns::CSI_NAMESPACE, 1, 2).fine().structure();
    assert_eq!(id.optional.get(), 0b11);
    let found = (id.zrwas.get(), id.zrwa_granularity.get(), id.zrwa_size.get(), id.zrwa_capability);
    assert_eq!(found, (0, 2, 4, 1));
    let mut io = host.io(1);
    assert_eq!(io.manage(0, OPEN, ZRWA), S::SUCCESS);
    assert_eq!(io.manage(ZONE, OPEN, ZRWA), S::ZRWA_UNAVAILABLE);
    assert_eq!(io.manage(ZONE, OPEN, 0), S::SUCCESS, "without");
    assert_eq!(io.manage(0, FINISH, 0), S::SUCCESS);
    assert_eq!(io.manage(2 * ZONE, OPEN, ZRWA), S::SUCCESS);
    assert_eq!(io.manage(3 * ZONE, OPEN, ZRWA), S::ZRWA_UNAVAILABLE);
    // The limits on open and active zones hold for them, too.
    assert_eq!(io.manage(2 * ZONE, RESET, 0), S::SUCCESS);
    io.write(2 * ZONE, &BLOCK).fine();
    io.write(3 * ZONE, &BLOCK).fine();
    assert_eq!(io.manage(4 * ZONE, OPEN, ZRWA), S::TOO_MANY_ACTIVE);
}

/// The usual device whose zones have descriptor extensions of 128 bytes, and random write areas.
fn with_extensions() -> NullConfig {
    NullConfig { descriptor_extension: 128, ..with_zrwa() }
}

impl Io {
    fn set_extension(&mut self, slba: u64, options: u8, data: &[u8]) -> NvmeStatus {
        let mut command = zone_send(slba, SET_EXTENSION, options);
        command.dptr = Sgl::transport(data.len() as u32);
        self.send(command, data).status
    }

    /// An extended report from a zone on: the attributes and the first byte of the extension of each
    /// zone that it lists, and the number in its header.
    fn extended_report(&mut self, zone: u64, partial: bool, len: usize) -> (u64, Vec<(u8, u8)>) {
        let mut command = zone_receive(zone * ZONE, 0, partial, len);
        command.action = 1;
        let ended = self.send(command, &[]).fine();
        let count = u64::from_le_bytes(ended.data[..8].try_into().unwrap());
        let listed = ended.data[64..].chunks_exact(64 + 128);
        (count, listed.map(|zone| (zone[2], zone[64 + 127])).collect())
    }
}

#[test]
fn extension_of_an_empty_zone_can_be_set_and_closes_it() {
    use NvmeStatus as S;
    for (cond, expected) in CONDITIONS.into_iter().zip([
        (S::SUCCESS, Closed),
        (S::ZONE_TRANSITION, ImplicitOpen),
        (S::ZONE_TRANSITION, ExplicitOpen),
        (S::ZONE_TRANSITION, Closed),
        (S::ZONE_TRANSITION, Full),
        (S::ZONE_TRANSITION, ReadOnly),
        (S::ZONE_TRANSITION, Offline),
    ]) {
        let host = Host::new(&with_extensions());
        let mut io = host.io(1);
        prepare(&host, &mut io, 2, cond);
        let found = (io.set_extension(2 * ZONE, 0, &[5; 128]), io.condition(2));
        assert_eq!(found, expected, "in a zone that is {cond:?}");
        let set = io.zone(2).attributes & attribute::EXTENSION_VALID != 0;
        assert_eq!(set, expected.0 == S::SUCCESS);
    }
}

#[test]
fn extensions_last_until_their_zone_is_empty_and_are_in_extended_reports() {
    use NvmeStatus as S;
    let mut host = Host::new(&with_extensions());
    let id: ZnsNamespace = host.identify(Cns::CSI_NAMESPACE, 1, 2).fine().structure();
    assert_eq!(id.formats[0].extension, 2);
    let mut io = host.io(1);
    assert_eq!(io.set_extension(ZONE, 0, &[1; 128]), S::SUCCESS);
    assert_eq!(io.set_extension(2 * ZONE, 0, &[2; 128]), S::SUCCESS);
    let set = attribute::EXTENSION_VALID;
    let (count, zones) = io.extended_report(0, false, 64 + 3 * 192);
    assert_eq!((count, zones), (8, vec![(0, 0), (set, 1), (set, 2)]));
    let (count, zones) = io.extended_report(1, true, 64 + 2 * 192 + 188);
    assert_eq!((count, zones), (2, vec![(set, 1), (set, 2)]));
    // Opened and closed without a write, or written and finished, the zone keeps it.
    assert_eq!(io.manage(ZONE, OPEN, 0), S::SUCCESS);
    assert_eq!(io.manage(ZONE, CLOSE, 0), S::SUCCESS);
    assert_eq!(io.condition(1), Closed);
    io.write(2 * ZONE, &BLOCK).fine();
    assert_eq!(io.manage(2 * ZONE, FINISH, 0), S::SUCCESS);
    assert_eq!(io.extended_report(1, true, 64 + 2 * 192).1, [(set, 1), (set, 2)]);
    assert_eq!(io.manage(0, RESET, ALL), S::SUCCESS);
    assert_eq!(io.extended_report(1, true, 64 + 2 * 192).1, [(0, 0); 2]);
    assert_eq!(io.set_extension(ZONE, 0, &[3; 128]), S::SUCCESS, "anew");
}

#[test]
fn extension_needs_an_active_resource_and_can_come_with_a_zrwa() {
    use NvmeStatus as S;
    let host = Host::new(&with_extensions());
    let mut io = host.io(1);
    assert_eq!(io.set_extension(0, ZRWA, &[1; 128]), S::SUCCESS);
    let both = attribute::EXTENSION_VALID | attribute::ZRWA_VALID;
    assert_eq!((io.zone(0).attributes, io.condition(0)), (both, Closed));
    io.write(3, &BLOCK).fine();
    assert_eq!(io.zone(0).write_pointer.get(), 0, "the block layer knows of the area");
    assert_eq!(io.set_extension(ZONE, ZRWA, &[1; 128]), S::ZRWA_UNAVAILABLE);
    for zone in 1..3 {
        assert_eq!(io.set_extension(zone * ZONE, 0, &[1; 128]), S::SUCCESS);
    }
    assert_eq!(io.set_extension(3 * ZONE, 0, &[1; 128]), S::TOO_MANY_ACTIVE);
    assert_eq!(io.condition(3), Empty);
}

#[test]
fn malformed_extensions_are_refused() {
    use NvmeStatus as S;
    let host = Host::new(&with_extensions());
    let mut io = host.io(1);
    for (slba, options, len, expected) in [
        (0, 0, 0, S::SGL_LENGTH),
        (0, 0, 64, S::SGL_LENGTH),
        (0, 0, 4096, S::SGL_LENGTH),
        (1, 0, 128, S::INVALID_FIELD),
        (ZONE * ZONES, 0, 128, S::LBA_RANGE),
        (u64::MAX, 0, 128, S::LBA_RANGE),
        (0, ALL, 128, S::INVALID_FIELD),
        (0, 4, 128, S::INVALID_FIELD),
    ] {
        assert_eq!(io.set_extension(slba, options, &vec![1; len]), expected, "{slba} {len}");
    }
    let mut command = zone_send(0, SET_EXTENSION, 0);
    command.dptr = Sgl::transport(128);
    assert_eq!(io.send(command, &[1; 64]).status, S::DATA_TRANSFER);
    assert!(io.extended_report(0, true, 64 + 8 * 192).1.iter().all(|zone| *zone == (0, 0)));
    let plain = Host::new(&NullConfig { descriptor_extension: 64, ..null() });
    assert_eq!(plain.io(1).set_extension(0, ZRWA, &[1; 64]), S::INVALID_FIELD, "no ZRWA");
}

impl Io {
    /// Sends a command to a device that takes time.
    fn send_timed(&mut self, sqe: impl Into<Sqe>, data: &[u8]) -> Ended {
        let mut responses = Vec::new();
        self.queue.submit(self.now, &sqe.into(), received(data), &mut responses);
        loop {
            self.queue.poll(self.now, &mut responses);
            if let Some(response) = responses.pop() {
                return Ended::of(response);
            }
            let next = self.queue.next_event().at().expect("the device is at work");
            self.now = self.now.max(next);
        }
    }
}

/// A drive that finishes zones, and recommends to finish or reset them.
fn ageing_drive() -> Arc<dyn DeviceControl> {
    let config = ZnsConfig {
        finish_recommended: Nanos(2 * SECOND),
        finish_after: Nanos(5 * SECOND),
        reset_recommended: Nanos(10 * SECOND),
        ..ZnsConfig::default()
    };
    Arc::new(ZnsDevice::new(&config).expect("a device"))
}

#[test]
fn zones_that_age_are_events_with_attributes() {
    zones_that_age_are_announced(ageing_drive());
}

#[test]
fn zones_that_age_are_events_when_the_device_is_recorded() {
    zones_that_age_are_announced(Arc::new(RecordDevice::new(ageing_drive(), Recorder::idle())));
}

#[test]
fn zones_that_age_are_events_with_a_volatile_write_cache() {
    let device = PowerDevice::new(ageing_drive(), 1 << 20).expect("it has a medium");
    zones_that_age_are_announced(Arc::new(device));
}

fn zones_that_age_are_announced(device: Arc<dyn Device>) {
    use NvmeStatus as S;
    let queue =
        Queue::attach(device, QueueOptions::default()).expect("a device that keeps the rules");
    let namespace = Namespace::new(queue, [3; 16]).expect("a namespace");
    let subsystem = Subsystem::new(crate::support::config());
    subsystem.add(1, Arc::new(namespace)).unwrap();
    let mut host = Host::of(subsystem);
    let id: ZnsNamespace = host.identify(Cns::CSI_NAMESPACE, 1, 2).fine().structure();
    assert_eq!((id.zone_operation.get(), id.finish_limit.get()), (2, 3));
    host.set_feature(FeatureId::ASYNC_EVENT, notice::ZONE_DESCRIPTOR, &[]).fine();
    let mut io = host.io(1);
    io.send_timed(rw(IoOpcode::WRITE, 0, 1), &BLOCK).fine();
    assert_eq!(host.ask_for_event(9), None);
    let attributes = |io: &mut Io| {
        let report = io.send_timed(zone_receive(0, 0, true, 128), &[]).fine();
        (report.data[64 + 1] >> 4, report.data[64 + 2])
    };
    let (open, full) = (ImplicitOpen as u8, Full as u8);
    for (bits, cond) in [
        (attribute::FINISH_RECOMMENDED, open),
        (attribute::FINISHED_BY_CONTROLLER, full),
        (attribute::FINISHED_BY_CONTROLLER | attribute::RESET_RECOMMENDED, full),
    ] {
        // Nobody sends anything: the queue says when it has to be polled.
        while host.event(9).is_none() {
            io.now = io.queue.next_event().at().expect("a zone that ages");
            io.queue.poll(io.now, &mut Vec::new());
        }
        let log: ChangedZoneList = host.log(LogId::CHANGED_ZONES, 1, 0, 4096, 0).fine().structure();
        assert_eq!((log.count.get(), log.zones[0].get()), (1, 0));
        assert_eq!(attributes(&mut io), (cond, bits));
        assert_eq!(host.ask_for_event(9), None, "once");
    }
    assert_eq!(io.now.0 / SECOND, 15, "five and ten");
    assert_eq!(io.send_timed(rw(IoOpcode::WRITE, 1, 1), &BLOCK).status, S::ZONE_FULL);
    io.send_timed(zone_send(0, RESET, 0), &[]).fine();
    assert_eq!(attributes(&mut io), (Empty as u8, 0));
    assert_eq!(io.queue.next_event().at(), None, "no zone ages");
}

#[test]
fn blocks_of_a_namespace_are_as_large_as_the_granularity() {
    let disk = "hdd:recording=smr,zones=4,zone_size=1M,max_open=0,lba=512,write_granularity=4K";
    let disk = device_spec::build(&device_spec::parse(disk).expect("a spec")).expect("a disk");
    let queue =
        Queue::attach(disk, QueueOptions::default()).expect("a device that keeps the rules");
    let subsystem = Subsystem::new(crate::support::config());
    let namespace = Namespace::new(queue, [3; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).unwrap();
    let mut host = Host::of(subsystem);
    let id: IdentifyNamespace = host.identify(Cns::NAMESPACE, 1, 0).fine().structure();
    assert_eq!((id.lba_formats[0].data_shift, id.size.get()), (12, 4 * 256));
    let mut io = host.io(1);
    io.send_timed(rw(IoOpcode::WRITE, 256, 1), &BLOCK).fine();
    let report = io.send_timed(zone_receive(256, 0, true, 128), &[]).fine();
    assert_eq!(report.data[64 + 24..64 + 32], 257_u64.to_le_bytes(), "the write pointer");
}

#[test]
fn options_of_zone_management_that_mean_nothing_are_refused() {
    use NvmeStatus as S;
    let host = Host::new(&with_zrwa());
    let mut io = host.io(1);
    for action in [CLOSE, FINISH, RESET] {
        assert_eq!(io.manage(0, action, ZRWA), S::INVALID_FIELD, "ZRWAA with action {action}");
    }
    assert_eq!(io.manage(0, OPEN, 4), S::INVALID_FIELD);
    assert_eq!(io.manage(0, OPEN, ZRWA | ALL), S::ZONE_INVALID_OPERATION);
    assert_eq!(io.manage(0, ZRWA_FLUSH, ZRWA), S::INVALID_FIELD);
    for lba in [ZONE * ZONES, u64::MAX, u64::MAX - 1] {
        assert_eq!(io.manage(lba, ZRWA_FLUSH, 0), S::LBA_RANGE);
    }
}

#[test]
fn management_of_no_zone_is_refused() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    let end = ZONE * ZONES;
    assert_eq!(io.manage(1, OPEN, 0), NvmeStatus::INVALID_FIELD);
    assert_eq!(io.manage(end, OPEN, 0), NvmeStatus::LBA_RANGE);
    assert_eq!(io.manage(u64::MAX, OFFLINE, 0), NvmeStatus::LBA_RANGE);
    assert_eq!(io.manage(0, 0, 0), NvmeStatus::INVALID_FIELD);
    assert_eq!(io.manage(0, OPEN, 2), NvmeStatus::INVALID_FIELD, "no ZRWA to allocate");
    let receive = |slba, filter, len| zone_receive(slba, filter, false, len);
    for (command, expected) in [
        (receive(end, 0, 128), NvmeStatus::LBA_RANGE),
        (receive(0, 8, 128), NvmeStatus::INVALID_FIELD),
        (receive(0, 0, 60), NvmeStatus::INVALID_FIELD),
    ] {
        assert_eq!(io.send(command, &[]).status, expected);
    }
    let mut extended = receive(0, 0, 128);
    extended.action = 1;
    assert_eq!(io.send(extended, &[]).status, NvmeStatus::INVALID_FIELD);
}

#[test]
fn reports_are_as_long_as_mdts_allows() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    let mdts = 1 << 20;
    let report = |len| zone_receive(0, 0, false, len);
    assert_eq!(io.send(report(mdts), &[]).fine().data.len(), mdts);
    assert_eq!(io.send(report(mdts + 4), &[]).status, NvmeStatus::INVALID_FIELD);
    let mut longest = report(128);
    longest.ndw = u32::MAX.into();
    assert_eq!(io.send(longest, &[]).status, NvmeStatus::INVALID_FIELD);
    host.subsystem.limit_transfers(5, 4096);
    let mut io = host.io(2);
    assert_eq!(io.send(report(32 * 4096), &[]).fine().data.len(), 32 * 4096);
    assert_eq!(io.send(report(32 * 4096 + 4), &[]).status, NvmeStatus::INVALID_FIELD);
}

#[test]
fn limits_have_statuses_of_their_own() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    for zone in 0..2 {
        assert_eq!(io.manage(zone * ZONE, OPEN, 0), NvmeStatus::SUCCESS);
    }
    assert_eq!(io.manage(2 * ZONE, OPEN, 0), NvmeStatus::TOO_MANY_OPEN);
    assert_eq!(io.write(2 * ZONE, &BLOCK).status, NvmeStatus::TOO_MANY_OPEN);
    for zone in 0..2 {
        io.write(zone * ZONE, &BLOCK).fine();
        assert_eq!(io.manage(zone * ZONE, CLOSE, 0), NvmeStatus::SUCCESS);
    }
    assert_eq!(io.manage(2 * ZONE, OPEN, 0), NvmeStatus::SUCCESS);
    assert_eq!(io.manage(3 * ZONE, OPEN, 0), NvmeStatus::TOO_MANY_ACTIVE);
    assert_eq!(io.append(3 * ZONE, &BLOCK).status, NvmeStatus::TOO_MANY_ACTIVE);
}

#[test]
fn offline_zone_fails_without_support_of_the_device() {
    let host = Host::new(&null());
    let (device, queue) = crate::support::queue_of(&null());
    let namespace = zonal_nvme::controller::Namespace::new(queue, [1; 16]).unwrap();
    host.subsystem.add(2, std::sync::Arc::new(namespace)).unwrap();
    device.set_condition(ZoneNo(0), ReadOnly).unwrap();
    let mut command = zone_send(0, OFFLINE, 0);
    command.nsid = 2.into();
    assert_eq!(host.io(1).send(command, &[]).status, NvmeStatus::ZONE_TRANSITION);
}
