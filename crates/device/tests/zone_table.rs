//! Every condition of a zone, every command, with and without room for one more open zone: the
//! condition and the status that follow, as a table to read and compare.
use std::fmt::Write;
use zonal_blk::{
    Sector, Status, Zone, ZoneAttributes, ZoneCondition, ZoneExtensions, ZoneNo, ZrwaLimits,
};
use zonal_device::{ZoneLayout, Zones};

const ZONES: u32 = 8;
const SIZE: u64 = 16;
const CAPACITY: u64 = 12;
const WRITTEN: u32 = 4;
/// Sectors of a random write area.
const AREA: u32 = 4;
const CONVENTIONAL: ZoneNo = ZoneNo(0);
const TARGET: ZoneNo = ZoneNo(1);
/// The zones that take up resources beside the target.
const OTHERS: std::ops::Range<u32> = 2..ZONES;
const MAX_OPEN: u32 = 2;
const MAX_ACTIVE: u32 = 4;

/// The state of the other zones.
#[derive(Clone, Copy)]
enum Around {
    /// The device has no limits.
    NoLimits,
    /// Nothing.
    Room,
    /// All open resources, which a command can free.
    Implicit,
    /// All open resources, which no command can free.
    Explicit,
    /// All active resources, with room to open a zone that is active.
    Closed,
    /// All open and all active resources.
    Both,
}

const AROUND: [(&str, Around); 6] = [
    ("no limits", Around::NoLimits),
    ("room", Around::Room),
    ("implicit at limit", Around::Implicit),
    ("explicit at limit", Around::Explicit),
    ("active at limit", Around::Closed),
    ("both at limit", Around::Both),
];

type Prepare = fn(&Zones, ZoneNo);
type Command = fn(&Zones, ZoneNo) -> Result<(), Status>;

fn write(zones: &Zones, zone: ZoneNo, at: u64, len: u32) -> Result<(), Status> {
    zones.write(zone, Sector(u64::from(zone.0) * SIZE + at), len, || {})
}

fn write_at_wp(zones: &Zones, zone: ZoneNo, len: u32) -> Result<(), Status> {
    write(zones, zone, wp(zones, zone), len)
}

fn report(zones: &Zones, zone: ZoneNo) -> Zone {
    let mut report = Vec::new();
    zones.report(zone, 1, &mut report).unwrap();
    report[0]
}

fn commit(zones: &Zones, zone: ZoneNo, len: u64) -> Result<(), Status> {
    zones.commit(zone, Sector(wp(zones, zone) + len)).map(|_| ())
}

/// The write pointer from the zone's start; 0 where there is none, reported as the zone's end.
fn wp(zones: &Zones, zone: ZoneNo) -> u64 {
    let zone = report(zones, zone);
    (zone.wp - zone.start).0 % SIZE
}

const CONDITIONS: [(&str, ZoneNo, Prepare); 17] = [
    ("Conventional", CONVENTIONAL, |_, _| {}),
    ("Empty", TARGET, |_, _| {}),
    ("ImplicitOpen", TARGET, |zones, zone| {
        write(zones, zone, 0, WRITTEN).unwrap();
    }),
    ("ExplicitOpen, not written", TARGET, |zones, zone| {
        zones.open(zone).unwrap();
    }),
    ("ExplicitOpen, written", TARGET, |zones, zone| {
        zones.open(zone).unwrap();
        write(zones, zone, 0, WRITTEN).unwrap();
    }),
    ("Closed", TARGET, |zones, zone| {
        write(zones, zone, 0, WRITTEN).unwrap();
        zones.close(zone).unwrap();
    }),
    ("ZRWA, not written", TARGET, |zones, zone| {
        zones.open_zrwa(zone).unwrap();
    }),
    ("ZRWA, written", TARGET, |zones, zone| {
        zones.open_zrwa(zone).unwrap();
        write(zones, zone, 2, WRITTEN).unwrap();
    }),
    ("ZRWA, closed", TARGET, |zones, zone| {
        zones.open_zrwa(zone).unwrap();
        write(zones, zone, 2, WRITTEN).unwrap();
        zones.close(zone).unwrap();
    }),
    ("ZRWA, closed, at 0", TARGET, |zones, zone| {
        zones.open_zrwa(zone).unwrap();
        zones.close(zone).unwrap();
    }),
    ("extension set", TARGET, |zones, zone| {
        zones.set(zone, &[1; 64], false).unwrap();
    }),
    ("extension set, opened", TARGET, |zones, zone| {
        zones.set(zone, &[1; 64], false).unwrap();
        zones.open(zone).unwrap();
    }),
    ("Full", TARGET, |zones, zone| {
        zones.finish(zone).unwrap();
    }),
    ("ReadOnly", TARGET, |zones, zone| {
        write(zones, zone, 0, WRITTEN).unwrap();
        fail(zones, zone, ZoneCondition::ReadOnly);
    }),
    ("Offline", TARGET, |zones, zone| {
        fail(zones, zone, ZoneCondition::Offline);
    }),
    ("Conventional, ReadOnly", CONVENTIONAL, |zones, zone| {
        fail(zones, zone, ZoneCondition::ReadOnly);
    }),
    ("Conventional, Offline", CONVENTIONAL, |zones, zone| {
        fail(zones, zone, ZoneCondition::Offline);
    }),
];

fn fail(zones: &Zones, zone: ZoneNo, cond: ZoneCondition) {
    zones.set_condition(zone, cond, || {}).unwrap();
}

const COMMANDS: [(&str, Command); 18] = [
    ("read", |zones, zone| zones.check_read(zone)),
    ("write at wp", |zones, zone| write_at_wp(zones, zone, 1)),
    ("write 1 before wp", |zones, zone| write(zones, zone, (wp(zones, zone) + SIZE - 1) % SIZE, 1)),
    ("write 1 after wp", |zones, zone| write(zones, zone, wp(zones, zone) + 1, 1)),
    ("write up to capacity", |zones, zone| {
        let room = CAPACITY.saturating_sub(wp(zones, zone));
        write_at_wp(zones, zone, room as u32)
    }),
    ("write beyond capacity", |zones, zone| {
        let room = CAPACITY.saturating_sub(wp(zones, zone));
        write_at_wp(zones, zone, room as u32 + 1)
    }),
    ("append", |zones, zone| zones.append(zone, 1, |_| {})),
    ("write after an area", |zones, zone| write(zones, zone, wp(zones, zone) + 4, 1)),
    ("write 1 too far", |zones, zone| write(zones, zone, wp(zones, zone) + 8, 1)),
    ("open", |zones, zone| zones.open(zone)),
    ("open with ZRWA", |zones, zone| zones.open_zrwa(zone)),
    ("commit 2", |zones, zone| commit(zones, zone, 2)),
    ("commit 3", |zones, zone| commit(zones, zone, 3)),
    ("set extension", |zones, zone| zones.set(zone, &[2; 64], false)),
    ("close", |zones, zone| zones.close(zone)),
    ("finish", |zones, zone| zones.finish(zone)),
    ("reset", |zones, zone| zones.reset(zone, || {})),
    ("reset all", |zones, _| {
        zones.reset_all(|_| {});
        Ok(())
    }),
];

/// A device whose target zone is prepared and whose other zones hold what they should.
fn set_up(around: Around, zone: ZoneNo, prepare: Prepare) -> Zones {
    let limited = !matches!(around, Around::NoLimits);
    let zones = Zones::new(&ZoneLayout {
        nr_zones: ZONES,
        zone_size: Sector(SIZE),
        zone_capacity: Sector(CAPACITY),
        conventional: 1,
        max_open: if limited { MAX_OPEN } else { 0 },
        max_active: if limited { MAX_ACTIVE } else { 0 },
        zrwa: ZrwaLimits { size: AREA, granularity: 2, max: 1 },
        extension: 64,
    });
    prepare(&zones, zone);
    let mut others = OTHERS.map(ZoneNo);
    let mut next = || others.next().expect("enough other zones");
    if matches!(around, Around::Closed | Around::Both) {
        let open =
            if matches!(around, Around::Both) { MAX_OPEN - zones.in_use().open() } else { 0 };
        while zones.in_use().active() + open < MAX_ACTIVE {
            let zone = next();
            write(&zones, zone, 0, 1).unwrap();
            zones.close(zone).unwrap();
        }
    }
    while matches!(around, Around::Implicit | Around::Both) && zones.in_use().open() < MAX_OPEN {
        write(&zones, next(), 0, 1).unwrap();
    }
    while matches!(around, Around::Explicit) && zones.in_use().open() < MAX_OPEN {
        zones.open(next()).unwrap();
    }
    zones
}

/// The outcome for the target; `*` says that another zone was closed for it.
fn outcome(around: Around, zone: ZoneNo, prepare: Prepare, command: Command) -> String {
    let zones = set_up(around, zone, prepare);
    let before = (report(&zones, zone), zones.in_use());
    let closed_others = || {
        let closed = |&zone: &u32| report(&zones, ZoneNo(zone)).cond == ZoneCondition::Closed;
        OTHERS.filter(closed).count()
    };
    let closed_before = closed_others();
    match command(&zones, zone) {
        Ok(()) => {
            let star = if closed_others() > closed_before { "*" } else { "" };
            let after = report(&zones, zone);
            let wp = match (after.wp - after.start).0 {
                SIZE => "end".to_owned(),
                wp => wp.to_string(),
            };
            let area = if after.has_zrwa() { " ZRWA" } else { "" };
            assert_eq!(zones.zrwas_in_use(), u32::from(after.has_zrwa()));
            let set = after.attributes.contains(ZoneAttributes::EXTENSION);
            let mut extension = [9; 64];
            zones.get(zone, &mut extension);
            assert_eq!(extension != [0; 64], set, "it lasts as long as its attribute");
            let set = if set { " ext" } else { "" };
            format!("{:?} {wp}{area}{set}{star}", after.cond)
        }
        Err(status) => {
            let after = (report(&zones, zone), zones.in_use());
            assert_eq!(after, before, "a command that fails changes nothing");
            format!("! {status:?}")
        }
    }
}

#[test]
fn every_command_in_every_condition_has_the_outcome_of_the_table() {
    let mut table = String::from(
        "After a command: the zone's condition and write pointer, or ! and the status it failed\n\
         with; * if another zone was closed for it. Written zones have 4 of 12 sectors; the zones\n\
         are 16 sectors apart. A single outcome holds whatever the other zones hold.\n",
    );
    for (name, zone, prepare) in CONDITIONS {
        let mut line = format!("\n{name:<26}");
        for (around, _) in AROUND {
            write!(line, "{around:<22}").unwrap();
        }
        writeln!(table, "{}", line.trim_end()).unwrap();
        for (command_name, command) in COMMANDS {
            let mut line = format!("  {command_name:<24}");
            let outcomes = AROUND.map(|(_, around)| outcome(around, zone, prepare, command));
            let same = outcomes.iter().all(|outcome| *outcome == outcomes[0]);
            for outcome in &outcomes[..if same { 1 } else { outcomes.len() }] {
                write!(line, "{outcome:<22}").unwrap();
            }
            writeln!(table, "{}", line.trim_end()).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
