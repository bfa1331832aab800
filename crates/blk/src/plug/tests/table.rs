//! Every state of a zone, every operation, every outcome: the state and the status that follow, as
//! a table to read and compare. `INSTA_UPDATE=always cargo test -p zonal-blk table` writes it anew.
use crate::op::Op;
use crate::plug::PlugInfo;
use crate::status::Status;
use crate::testing::{End, Rig, Setup, ZONE, move_to};
use crate::units::{Sector, ZoneNo};
use crate::zone::{Zone, ZoneCondition, ZoneKind};
use std::fmt::Write;

/// How a zone is brought into its state; the table's zone is the second.
type Prepare = fn(&mut Rig);

const START: u64 = ZONE;
const CAPACITY: u64 = 48;

fn set(rig: &mut Rig, change: fn(&mut Zone)) {
    rig.device.set_zone(1, change);
    rig.queue.freeze();
    rig.queue.set_zone_write(crate::ZoneWrite::Plug).unwrap();
    rig.queue.unfreeze();
}

const STATES: [(&str, Prepare); 15] = [
    ("conventional", |rig| {
        set(rig, |zone| {
            (zone.kind, zone.cond) = (ZoneKind::Conventional, ZoneCondition::NotWritePointer);
            zone.capacity = zone.len;
        });
    }),
    ("empty", |_| {}),
    ("active", |rig| set(rig, |zone| move_to(zone, 8))),
    ("full", |rig| set(rig, |zone| move_to(zone, CAPACITY))),
    ("read-only", |rig| set(rig, |zone| zone.cond = ZoneCondition::ReadOnly)),
    ("offline", |rig| set(rig, |zone| zone.cond = ZoneCondition::Offline)),
    ("write in flight", |rig| _ = rig.write(START, 8)),
    ("last write in flight", |rig| _ = rig.write(START, 48)),
    ("write in flight, one waits", |rig| {
        rig.write(START, 8);
        rig.write(START + 8, 8);
    }),
    ("being reset", |rig| {
        set(rig, |zone| move_to(zone, 8));
        rig.reset(1);
    }),
    ("being finished", |rig| {
        set(rig, |zone| move_to(zone, 8));
        rig.finish(1);
    }),
    ("write and reset in flight", |rig| {
        rig.write(START, 8);
        rig.reset(1);
    }),
    ("pointer unknown", |rig| {
        rig.write(START, 8);
        rig.device.refuse_reports(true);
        rig.end_on(0, End::Torn(4));
        rig.device.refuse_reports(false);
    }),
    ("appended natively", |rig| {
        rig.append(1, 8);
        rig.drain();
    }),
    ("native append in flight", |rig| _ = rig.append(1, 8)),
];

/// Stands for all sectors up to the end of the zone.
const ALL: u32 = u32::MAX;

const OPERATIONS: [(&str, Op, Option<u32>); 9] = [
    ("write at the pointer", Op::Write, Some(4)),
    ("write off the pointer", Op::Write, None),
    ("write zeroes", Op::WriteZeroes, Some(4)),
    ("write beyond the capacity", Op::Write, Some(ALL)),
    ("zone append", Op::ZoneAppend, Some(4)),
    ("read", Op::Read, Some(4)),
    ("reset", Op::ZoneReset, Some(0)),
    ("finish", Op::ZoneFinish, Some(0)),
    ("reset all", Op::ZoneResetAll, Some(0)),
];

/// The write pointer of the device after all that is in flight has been executed.
fn pointer(rig: &Rig) -> u64 {
    let plug = rig.queue.dump_plugs(true).into_iter().find(|plug| plug.zone == ZoneNo(1));
    let device = rig.device.zones.lock().unwrap()[1];
    match plug {
        Some(plug) if plug.flags.plugged => plug.wp_offset.0,
        _ if device.kind == ZoneKind::Conventional => 0,
        _ => (device.wp - device.start).0,
    }
}

/// Flags, pointer and references of the zone's plug, or that it has none.
fn seen(rig: &Rig) -> String {
    let mut plugs = rig.queue.dump_plugs(true).into_iter();
    match plugs.find(|plug| plug.zone == ZoneNo(1)) {
        Some(PlugInfo { phase, wp_offset, flags, references, waiting, .. }) => {
            format!("{phase:?} wp {wp_offset} {flags} ref {references} waiting {waiting}")
        }
        None => format!("{:?} no plug", rig.known(1).0),
    }
}

fn row(prepare: Prepare, op: Op, len: Option<u32>, append: bool, outcome: Status) -> String {
    let setup = if append { Setup::new().native_append() } else { Setup::new() };
    let mut rig = setup
        .zones(|zones| zones.iter_mut().for_each(|zone| zone.capacity = Sector(CAPACITY)))
        .build();
    prepare(&mut rig);
    let before = rig.device.in_flight(0);
    let (at, len) = match (op, len) {
        (Op::ZoneAppend, Some(len)) => (START, len),
        (Op::ZoneReset | Op::ZoneFinish, _) => (START, 0),
        (Op::ZoneResetAll, _) => (0, 0),
        (_, None) => (START + pointer(&rig) + 2, 4),
        (_, Some(ALL)) => (START + pointer(&rig), (ZONE - pointer(&rig)) as u32),
        (_, Some(len)) => (START + pointer(&rig), len),
    };
    let id = rig.submit(op, at, len);
    let at_once: Vec<_> = rig.poll();
    let own = |ended: &[(u64, Status)]| ended.iter().find(|&&(i, _)| i == id).map(|&(_, s)| s);
    let others = |ended: &[(u64, Status)]| ended.iter().filter(|&&(i, _)| i != id).count();
    let mut said = match own(&at_once) {
        Some(status) => format!("{status:?} at once"),
        None if rig.device.in_flight(0) > before => {
            rig.device.end_nth(
                0,
                rig.device.in_flight(0) - 1,
                match outcome {
                    Status::Ok => End::ByZoneRules,
                    status => End::Forced(status),
                },
            );
            let ended = rig.poll();
            let aborted = others(&ended);
            let status = own(&ended).expect("it has just ended");
            format!("{status:?}{}", if aborted > 0 { ", aborts" } else { "" })
        }
        None => "waits".to_owned(),
    };
    if others(&at_once) > 0 {
        said += ", aborts";
    }
    let row = format!("{said:<20} {}", seen(&rig));
    rig.drain();
    row
}

#[test]
fn every_operation_in_every_state_has_the_outcome_of_the_table() {
    let mut table = String::new();
    for (state, prepare) in STATES {
        let append = state.contains("native");
        writeln!(table, "{state}").unwrap();
        for (name, op, len) in OPERATIONS {
            let ok = row(prepare, op, len, append, Status::Ok);
            let fails = row(prepare, op, len, append, Status::IoError);
            let both = ok == fails;
            writeln!(table, "  {name:<26} {:<6} {ok}", if both { "" } else { "ok" }).unwrap();
            if !both {
                writeln!(table, "  {name:<26} fails  {fails}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}
