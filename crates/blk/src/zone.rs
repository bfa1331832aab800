//! Zones as a device reports them: kind, condition, write pointer.
use crate::units::Sector;
use std::fmt;

/// How many zones readers of a whole device ask for at a time, which bounds the memory for a report.
pub const REPORT_BATCH: usize = 4096;

/// How a zone may be written (ZBC-2 zone type; `enum blk_zone_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneKind {
    /// Random writes; no write pointer.
    Conventional,
    /// Writes at the write pointer only.
    SequentialRequired,
}

/// The condition of a zone (NVMe ZNS 1.1 section 2.1.1, ZBC-2 section 4.4; `enum blk_zone_cond`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ZoneCondition {
    /// A conventional zone has no write pointer and no other condition.
    NotWritePointer = 0x0,
    /// Nothing written since the last reset.
    Empty = 0x1,
    /// Opened by a write.
    ImplicitOpen = 0x2,
    /// Opened by an open command.
    ExplicitOpen = 0x3,
    /// Partially written, holds no open resource.
    Closed = 0x4,
    /// Can be read, not written or reset.
    ReadOnly = 0xd,
    /// Written to its capacity, or finished.
    Full = 0xe,
    /// Can be neither read nor written.
    Offline = 0xf,
}

impl ZoneCondition {
    /// All conditions.
    pub const ALL: [ZoneCondition; 8] = [
        ZoneCondition::NotWritePointer,
        ZoneCondition::Empty,
        ZoneCondition::ImplicitOpen,
        ZoneCondition::ExplicitOpen,
        ZoneCondition::Closed,
        ZoneCondition::Full,
        ZoneCondition::ReadOnly,
        ZoneCondition::Offline,
    ];

    /// The condition as every report names it: the states of ZBC-2.
    pub const fn long(self) -> &'static str {
        self.names().0
    }

    /// The condition in the two letters of blkzone(8).
    pub const fn short(self) -> &'static str {
        self.names().1
    }

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            ZoneCondition::NotWritePointer => ("not-write-pointer", "nw"),
            ZoneCondition::Empty => ("empty", "em"),
            ZoneCondition::ImplicitOpen => ("implicit-open", "oi"),
            ZoneCondition::ExplicitOpen => ("explicit-open", "oe"),
            ZoneCondition::Closed => ("closed", "cl"),
            ZoneCondition::ReadOnly => ("read-only", "ro"),
            ZoneCondition::Full => ("full", "fu"),
            ZoneCondition::Offline => ("offline", "of"),
        }
    }

    /// Whether the zone holds one of the device's open resources.
    pub const fn is_open(self) -> bool {
        matches!(self, ZoneCondition::ImplicitOpen | ZoneCondition::ExplicitOpen)
    }

    /// Whether the zone holds one of the device's active resources.
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, ZoneCondition::Closed)
    }
}

impl fmt::Display for ZoneCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.long())
    }
}

/// One zone of a report (`struct blk_zone`). Positions are absolute, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The zone's first sector.
    pub start: Sector,
    /// Distance to the next zone's start.
    pub len: Sector,
    /// Sectors that can be written, from the start; at most `len`.
    pub capacity: Sector,
    /// Where the next write must begin. Meaningless for a conventional, full, read-only or offline
    /// zone.
    pub wp: Sector,
    /// How the zone may be written.
    pub kind: ZoneKind,
    /// The zone's condition.
    pub cond: ZoneCondition,
    /// Other attributes that the device reports.
    pub attributes: ZoneAttributes,
}

/// Attributes of a zone (NVMe ZNS 1.1 section 3.4.2.2.3, Zone Attributes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ZoneAttributes(u8);

impl ZoneAttributes {
    /// None, which is all that devices without the ZNS Command Set have.
    pub const NONE: ZoneAttributes = ZoneAttributes(0);
    /// The device has finished the zone on its own (ZFC).
    pub const FINISHED_BY_DEVICE: ZoneAttributes = ZoneAttributes(1);
    /// The device recommends to finish the zone (FZR).
    pub const FINISH_RECOMMENDED: ZoneAttributes = ZoneAttributes(1 << 1);
    /// The device recommends to reset the zone (RZR).
    pub const RESET_RECOMMENDED: ZoneAttributes = ZoneAttributes(1 << 2);
    /// The zone has a random write area (ZRWAV).
    pub const ZRWA: ZoneAttributes = ZoneAttributes(1 << 3);
    /// The zone has a descriptor extension (ZDEV).
    pub const EXTENSION: ZoneAttributes = ZoneAttributes(1 << 7);

    /// Whether all of `other` are set.
    pub const fn contains(self, other: ZoneAttributes) -> bool {
        self.0 & other.0 == other.0
    }

    /// The attributes as the field ZA has them.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The attributes of the field ZA; reserved bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        ZoneAttributes(bits & 0x8f)
    }
}

impl std::ops::BitOr for ZoneAttributes {
    type Output = ZoneAttributes;
    fn bitor(self, rhs: ZoneAttributes) -> ZoneAttributes {
        ZoneAttributes(self.0 | rhs.0)
    }
}

impl Zone {
    /// The first sector that cannot be written because it lies beyond the capacity.
    pub fn writable_end(&self) -> Sector {
        self.start + self.capacity
    }

    /// Whether the zone has a random write area.
    pub fn has_zrwa(&self) -> bool {
        self.attributes.contains(ZoneAttributes::ZRWA)
    }
}
