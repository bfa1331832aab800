//! Zone management: every action in every condition, reports, limits.
use crate::support::{CAPACITY, Host, Io, ZONE, ZONES, null, zone_receive, zone_send};
use zonal_blk::ZoneCondition::{
    self, Closed, Empty, ExplicitOpen, Full, ImplicitOpen, Offline, ReadOnly,
};
use zonal_blk::ZoneNo;
use zonal_device::NullConfig;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::zone::NO_WRITE_POINTER;

const BLOCK: [u8; 4096] = [1; 4096];
const CLOSE: u8 = 1;
const FINISH: u8 = 2;
const OPEN: u8 = 3;
const RESET: u8 = 4;
const OFFLINE: u8 = 5;
const SET_EXTENSION: u8 = 0x10;
const ZRWA_FLUSH: u8 = 0x11;
const ALL: u8 = 1;

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
