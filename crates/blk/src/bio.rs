//! Bios, which are submitted to the block layer, and the completions that come back.
use crate::buf::Buf;
use crate::op::Op;
use crate::status::Status;
use crate::units::Sector;

/// Modifiers of a bio (`enum req_flag_bits`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BioFlags(u8);

impl BioFlags {
    /// No modifier.
    pub const NONE: BioFlags = BioFlags(0);
    /// The write is durable when it completes.
    pub const FUA: BioFlags = BioFlags(1);
    /// Flush the volatile cache before this write.
    pub const PREFLUSH: BioFlags = BioFlags(1 << 1);
    /// Do not merge this bio with others.
    pub const NOMERGE: BioFlags = BioFlags(1 << 2);
    /// Nobody waits for this write, as with write-back of cached pages (the kernel marks the others,
    /// `REQ_SYNC`). Schedulers may defer it.
    pub const ASYNC: BioFlags = BioFlags(1 << 3);

    /// Whether all of `other` are set.
    pub const fn contains(self, other: BioFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a bio with these flags is never merged with another, as the kernel's `REQ_NOMERGE_FLAGS`.
    pub(crate) const fn forbid_merges(self) -> bool {
        self.0 & (BioFlags::NOMERGE.0 | BioFlags::FUA.0 | BioFlags::PREFLUSH.0) != 0
    }
}

impl std::ops::BitOr for BioFlags {
    type Output = BioFlags;
    fn bitor(self, rhs: BioFlags) -> BioFlags {
        BioFlags(self.0 | rhs.0)
    }
}

/// The class of an I/O priority (`IOPRIO_CLASS_*`, Linux 6.12 include/uapi/linux/ioprio.h). A bio
/// without a class counts as best effort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PrioClass {
    /// Served before all others.
    Realtime,
    /// The class of I/O that has no other.
    #[default]
    BestEffort,
    /// Served when the other classes have nothing.
    Idle,
}

impl PrioClass {
    /// All classes, the most urgent first.
    pub const ALL: [PrioClass; 3] = [PrioClass::Realtime, PrioClass::BestEffort, PrioClass::Idle];

    /// The class's place in a table of classes.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The class's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            PrioClass::Realtime => "rt",
            PrioClass::BestEffort => "be",
            PrioClass::Idle => "idle",
        }
    }
}

/// An I/O priority: what `ioprio_set(2)` gives a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prio(u8);

impl std::fmt::Debug for Prio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prio").field("class", &self.class()).field("level", &self.level()).finish()
    }
}

impl Default for Prio {
    /// Best effort at the middle level, as a process that never asked has.
    fn default() -> Self {
        Prio::new(PrioClass::BestEffort, 4)
    }
}

impl Prio {
    /// The least urgent level.
    pub const MAX_LEVEL: u8 = 7;
    /// Where the class begins: above the bits of the level. A byte in all leaves a bio one for its
    /// write stream.
    const CLASS_SHIFT: u8 = 3;

    /// A priority; levels go from 0, the most urgent, to [`Prio::MAX_LEVEL`], and what lies beyond
    /// counts as the latter.
    pub const fn new(class: PrioClass, level: u8) -> Self {
        let level = if level > Prio::MAX_LEVEL { Prio::MAX_LEVEL } else { level };
        Prio((class as u8) << Prio::CLASS_SHIFT | level)
    }

    /// The class.
    pub const fn class(self) -> PrioClass {
        match self.0 >> Prio::CLASS_SHIFT {
            0 => PrioClass::Realtime,
            1 => PrioClass::BestEffort,
            _ => PrioClass::Idle,
        }
    }

    /// The level within the class, 0 the most urgent.
    pub const fn level(self) -> u8 {
        self.0 & Prio::MAX_LEVEL
    }

    /// The priority with the kernel's class number (fio's `prioclass`): 0 none, 1 real time, 2 best
    /// effort, 3 idle. `None` for another number.
    pub const fn from_ioprio(class: u8, level: u8) -> Option<Self> {
        let class = match class {
            0 | 2 => PrioClass::BestEffort,
            1 => PrioClass::Realtime,
            3 => PrioClass::Idle,
            _ => return None,
        };
        Some(Prio::new(class, level))
    }
}

/// A block I/O.
#[derive(Debug)]
pub struct Bio {
    /// The operation.
    pub op: Op,
    /// Its modifiers.
    pub flags: BioFlags,
    /// Its priority, for schedulers that go by it.
    pub prio: Prio,
    /// Where a write is to be placed (the kernel's `bi_write_stream`): the placement identifier of this
    /// number, counted from 1, of a device that has them ([`Device::placement`](crate::Device::placement));
    /// 0 leaves it to the device. Devices without data placement ignore it.
    pub stream: u8,
    /// First sector; for zone append and zone management the zone's start.
    pub sector: Sector,
    /// Length in 512-byte sectors; 0 where the operation has no range, but for [`Op::ZrwaFlush`].
    pub nr_sectors: u32,
    /// Returned with the completion; opaque to the layer.
    pub user_data: u64,
    /// Data to write, or room for data to read. `None` on devices that keep no data.
    pub buf: Option<Buf>,
}

impl Bio {
    /// A bio without data, for devices that keep none.
    pub fn new(op: Op, sector: Sector, nr_sectors: u32, user_data: u64) -> Self {
        Bio {
            op,
            flags: BioFlags::NONE,
            prio: Prio::default(),
            stream: 0,
            sector,
            nr_sectors,
            user_data,
            buf: None,
        }
    }

    /// A write of the whole of `buf`.
    ///
    /// # Panics
    /// If the buffer has 2^32 sectors or more.
    pub fn write(sector: Sector, buf: Buf, user_data: u64) -> Self {
        let nr_sectors = u32::try_from(buf.len() / 512).expect("a bio is shorter than 2 TiB");
        Bio { buf: Some(buf), ..Bio::new(Op::Write, sector, nr_sectors, user_data) }
    }

    /// A read into a new buffer.
    pub fn read(sector: Sector, nr_sectors: u32, user_data: u64) -> Self {
        let buf = Some(Buf::zeroed(nr_sectors as usize * 512));
        Bio { buf, ..Bio::new(Op::Read, sector, nr_sectors, user_data) }
    }

    /// The first sector after the bio's range.
    pub fn end(&self) -> Sector {
        self.sector + Sector(u64::from(self.nr_sectors))
    }
}

/// How a bio completed.
#[derive(Debug)]
pub struct Completion {
    /// The bio's `user_data`.
    pub user_data: u64,
    /// The result.
    pub status: Status,
    /// It failed because of its zone's condition or write pointer when it was executed, or because
    /// the bio itself is wrong: the medium is not at fault. Not every device knows.
    pub refused: bool,
    /// The bio's first sector; for a zone append, where the data landed.
    pub sector: Sector,
    /// The bio's buffer.
    pub buf: Option<Buf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_keeps_its_class_and_its_level_in_a_byte() {
        for class in PrioClass::ALL {
            for level in 0..=Prio::MAX_LEVEL {
                let prio = Prio::new(class, level);
                assert_eq!((prio.class(), prio.level()), (class, level));
            }
            assert_eq!(Prio::new(class, 200).level(), Prio::MAX_LEVEL);
        }
        assert_eq!(size_of::<Prio>(), 1, "the byte beside it is the write stream");
    }
}
