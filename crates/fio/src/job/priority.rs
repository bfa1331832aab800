//! Priorities of single I/Os (`cmdprio_*`).

/// Part of the I/Os of a size, and their priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrioShare {
    /// The size in bytes.
    pub size: u64,
    /// The percentage of the I/Os of that size.
    pub percent: u8,
    /// Class and level; those of `cmdprio_class` and `cmdprio` if not set.
    pub prio: Option<(u8, u8)>,
}

/// Which reads and writes have a priority of their own; the first element is for reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandPrioOptions {
    /// `cmdprio_percentage=`: percentages of the I/Os.
    pub percentage: [u8; 2],
    /// `cmdprio_bssplit=`: percentages by size.
    pub shares: [Vec<PrioShare>; 2],
    /// `cmdprio_class=`: the class, in the numbers of the kernel.
    pub class: [u8; 2],
    /// `cmdprio=`: the level in the class.
    pub level: [u8; 2],
}

impl Default for CommandPrioOptions {
    /// None has; if one had, its class would be real time.
    fn default() -> Self {
        CommandPrioOptions {
            percentage: [0; 2],
            shares: Default::default(),
            class: [1; 2],
            level: [0; 2],
        }
    }
}

impl CommandPrioOptions {
    /// Whether any I/O has a priority of its own.
    pub fn is_used(&self) -> bool {
        self.percentage != [0; 2] || self.shares.iter().any(|shares| !shares.is_empty())
    }
}
