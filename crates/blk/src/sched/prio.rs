//! I/O priorities: a class and, within it, a level.

/// The class of an I/O priority (`IOPRIO_CLASS_*`, Linux 6.12 include/uapi/linux/ioprio.h). A bio
/// without a class counts as best effort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PrioClass {
    /// Served before all others.
    Realtime,
    /// What I/O is unless somebody says otherwise.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prio {
    /// The class.
    pub class: PrioClass,
    level: u8,
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

    /// A priority; levels go from 0, the most urgent, to [`Prio::MAX_LEVEL`], and what lies beyond
    /// counts as the latter.
    pub const fn new(class: PrioClass, level: u8) -> Self {
        let level = if level > Prio::MAX_LEVEL { Prio::MAX_LEVEL } else { level };
        Prio { class, level }
    }

    /// The level within the class, 0 the most urgent.
    pub const fn level(self) -> u8 {
        self.level
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
