//! The operations of bios, and what is the same for every bio of one.
use std::fmt;

/// The operation of a bio (`enum req_op`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read `nr_sectors` from `sector`.
    Read,
    /// Write `nr_sectors` at `sector`.
    Write,
    /// Write zeroes without data.
    WriteZeroes,
    /// Write at the zone's write pointer; `sector` is the zone's start. The completion says where
    /// the data landed.
    ZoneAppend,
    /// Make what has completed durable. Carries no data.
    Flush,
    /// The data is no longer needed.
    Discard,
    /// Open the zone that starts at `sector`.
    ZoneOpen,
    /// Close the zone that starts at `sector`.
    ZoneClose,
    /// Move the zone's write pointer to its end.
    ZoneFinish,
    /// Empty the zone that starts at `sector`.
    ZoneReset,
    /// Empty all sequential zones.
    ZoneResetAll,
    /// Open the empty zone that starts at `sector` with a zone random write area (ZRWA; NVMe ZNS 1.1
    /// section 5.7). Fails with [`Status::NoSpace`](crate::Status::NoSpace) if all areas are allocated.
    ZoneOpenZrwa,
    /// Commit what lies in the ZRWA of the zone that starts at `sector` (the explicit ZRWA flush of
    /// NVMe ZNS 1.1): moves the write pointer to `nr_sectors` after the zone's start. Carries no data.
    ZrwaFlush,
}

/// The kind of an operation, for counters and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpClass {
    /// It reads.
    Read,
    /// It writes at a place, or where the write pointer is.
    Write,
    /// It discards.
    Discard,
    /// It makes durable.
    Flush,
    /// It changes the condition or the write pointer of one zone, or of all.
    Zone,
}

/// Where an operation moves data, for schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Nowhere: flushes and zone management. Schedulers dispatch them before all others, in the order
    /// of arrival: they have no place in the order of sectors, and their submitter waits for them.
    None,
    /// From the device.
    Read,
    /// To the device; discards, too.
    Write,
}

/// The properties that are the same for every bio of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpInfo {
    /// Its name in reports.
    pub name: &'static str,
    /// Its class.
    pub class: OpClass,
    /// Where it moves data.
    pub direction: Direction,
    /// Its letters in RWBS of a trace (`blk_fill_rwbs`); `None` for one that has none.
    pub trace: Option<&'static str>,
    /// Whether its bios carry data, in a buffer as long as their range.
    pub has_data: bool,
}

impl Op {
    /// All operations. An operation's place here is its code in logs of the crash lab.
    pub const ALL: [Op; 13] = [
        Op::Read,
        Op::Write,
        Op::WriteZeroes,
        Op::ZoneAppend,
        Op::Flush,
        Op::Discard,
        Op::ZoneOpen,
        Op::ZoneClose,
        Op::ZoneFinish,
        Op::ZoneReset,
        Op::ZoneResetAll,
        Op::ZoneOpenZrwa,
        Op::ZrwaFlush,
    ];

    /// The properties that are the same for every bio of the operation.
    #[inline]
    pub const fn info(self) -> OpInfo {
        use OpClass::{Discard, Flush, Read, Write, Zone};
        let (name, class, trace) = match self {
            Op::Read => ("read", Read, Some("R")),
            Op::Write => ("write", Write, Some("W")),
            Op::WriteZeroes => ("write zeroes", Write, None),
            Op::ZoneAppend => ("append", Write, Some("ZA")),
            Op::Flush => ("flush", Flush, Some("FF")),
            Op::Discard => ("discard", Discard, Some("D")),
            Op::ZoneOpen => ("open", Zone, Some("ZO")),
            Op::ZoneClose => ("close", Zone, Some("ZC")),
            Op::ZoneFinish => ("finish", Zone, Some("ZF")),
            Op::ZoneReset => ("reset", Zone, Some("ZR")),
            Op::ZoneResetAll => ("reset all", Zone, Some("ZRA")),
            Op::ZoneOpenZrwa => ("open with ZRWA", Zone, None),
            Op::ZrwaFlush => ("ZRWA flush", Zone, None),
        };
        let direction = match class {
            Read => Direction::Read,
            Write | Discard => Direction::Write,
            Flush | Zone => Direction::None,
        };
        let has_data = matches!(self, Op::Read | Op::Write | Op::ZoneAppend);
        OpInfo { name, class, direction, trace, has_data }
    }

    /// The operation as a set of one: a bit.
    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// The set of the operations of a class.
    pub(crate) const fn set_of_class(class: OpClass) -> u16 {
        let (mut set, mut at) = (0, 0);
        while at < Op::ALL.len() {
            if Op::ALL[at].info().class as u8 == class as u8 {
                set |= Op::ALL[at].bit();
            }
            at += 1;
        }
        set
    }

    /// The set of the operations of a direction.
    const fn set_of_direction(direction: Direction) -> u16 {
        let (mut set, mut at) = (0, 0);
        while at < Op::ALL.len() {
            if Op::ALL[at].info().direction as u8 == direction as u8 {
                set |= Op::ALL[at].bit();
            }
            at += 1;
        }
        set
    }

    /// Operations that read.
    pub(crate) const READS: u16 = Op::set_of_direction(Direction::Read);
    /// Operations of the direction of writes.
    pub(crate) const WRITES: u16 = Op::set_of_direction(Direction::Write);

    /// Where the operation moves data.
    #[inline]
    pub const fn direction(self) -> Direction {
        if Op::READS & self.bit() != 0 {
            Direction::Read
        } else if Op::WRITES & self.bit() != 0 {
            Direction::Write
        } else {
            Direction::None
        }
    }

    /// Whether the operation moves a write pointer by writing data.
    #[inline]
    pub const fn is_write(self) -> bool {
        const SET: u16 = Op::set_of_class(OpClass::Write);
        SET & self.bit() != 0
    }

    /// Whether the operation has a range of sectors.
    #[inline]
    pub const fn has_range(self) -> bool {
        (Op::READS | Op::WRITES) & self.bit() != 0
    }

    /// Whether the operation manages one zone.
    #[inline]
    pub const fn is_zone_management(self) -> bool {
        const SET: u16 = Op::set_of_class(OpClass::Zone) & !Op::ZoneResetAll.bit();
        SET & self.bit() != 0
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_stand_at_their_codes_and_differ_in_name_and_letters() {
        for (at, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, at, "{op}");
            for other in &Op::ALL[..at] {
                assert_ne!(op.info().name, other.info().name);
                assert!(op.info().trace.is_none() || op.info().trace != other.info().trace);
            }
        }
    }

    #[test]
    fn sets_agree_with_the_table() {
        for op in Op::ALL {
            let info = op.info();
            assert_eq!(op.direction(), info.direction, "{op}");
            assert_eq!(op.is_write(), info.class == OpClass::Write, "{op}");
            assert_eq!(op.has_range(), info.direction != Direction::None, "{op}");
            let one_zone = info.class == OpClass::Zone && op != Op::ZoneResetAll;
            assert_eq!(op.is_zone_management(), one_zone, "{op}");
            assert!(!info.has_data || op.has_range(), "{op}: data are of a range");
        }
    }
}
