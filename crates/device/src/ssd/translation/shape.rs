//! The size of a translation layer and its use of streams, and the rules that make sure that it can
//! always collect.
use crate::config::option_words;
pub use zonal_blk::Isolation;

/// The most streams.
const MAX_STREAMS: usize = 1 << 8;
/// The most groups.
const MAX_GROUPS: u64 = 1 << 6;

option_words! {
    /// Which superblock is collected next.
    pub enum Policy {
    /// The one with the fewest valid pages.
    Greedy = "greedy",
    /// The one with the largest `age * (1 - u) / (1 + u)`, where `u` is the share of valid pages and the
    /// age counts pages written since it was closed (Rosenblum and Ousterhout, "The Design and
    /// Implementation of a Log-Structured File System", 1992).
    CostBenefit = "cost-benefit",
    /// The one that was closed first.
    Fifo = "fifo",
    }
}

/// The shape of a translation layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pages that the host sees.
    pub logical_pages: u32,
    /// Superblocks of the drive.
    pub superblocks: u32,
    /// Pages of a superblock.
    pub superblock_pages: u32,
    /// The groups of superblocks, of which each has those with its number modulo the number of groups. Data
    /// are collected in their group.
    pub groups: u16,
    /// The host's streams, each with a superblock of its own in each group that it fills. Collected data of
    /// a stream share superblocks with others of the same group as its isolation says, if they are kept
    /// apart from the host's.
    pub streams: Vec<Isolation>,
    /// Collected pages go to superblocks of their own, not to those that the host fills.
    pub separate: bool,
    /// Which superblock is collected next.
    pub policy: Policy,
    /// The collection begins with fewer free superblocks in a group than this: 2 at least, of which the
    /// host takes all but one.
    pub low: u32,
    /// The collection ends with this many free superblocks in each group.
    pub high: u32,
}

/// A shape that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A number is out of its range.
    #[error("{what}: found {found}, expected {expected}")]
    Range {
        /// Its name.
        what: &'static str,
        /// Its value.
        found: u64,
        /// Its range.
        expected: String,
    },
    /// There is too little beside the logical pages to collect anything.
    #[error(
        "{superblocks} superblocks of {pages} pages for {logical} logical pages: expected at least \
         {needed}, so that beside the data there are {open} to be filled, {free} free, and pages to \
         collect"
    )]
    NoRoom {
        /// Superblocks that there are.
        superblocks: u32,
        /// Pages of each.
        pages: u32,
        /// Logical pages.
        logical: u32,
        /// Superblocks that are needed.
        needed: u64,
        /// Those that are filled at the same time.
        open: u16,
        /// Those that are to be free.
        free: u32,
    },
}

impl Shape {
    /// Superblocks that are filled at the same time: in each group one for each stream, and those for
    /// collected data.
    pub fn frontiers(&self) -> u16 {
        self.groups * self.group_frontiers()
    }

    /// The same in one group.
    fn group_frontiers(&self) -> u16 {
        let streams = self.streams.len();
        let persistent = self.persistent_before(streams);
        let shared = usize::from(persistent < streams);
        let all = if self.separate { streams + shared + persistent } else { streams };
        u16::try_from(all).expect("there are few streams")
    }

    fn persistent_before(&self, stream: usize) -> usize {
        let streams = self.streams[..stream].iter();
        streams.filter(|&&isolation| isolation == Isolation::Persistent).count()
    }

    /// The frontier of a stream in a group: those of a group are in a row.
    pub fn frontier(&self, stream: u16, group: u16) -> u16 {
        group * self.group_frontiers() + stream
    }

    /// The stream, if a frontier is one of the host's, and the group.
    pub fn stream_of(&self, frontier: u16) -> (Option<u16>, u16) {
        let (group, number) =
            (frontier / self.group_frontiers(), frontier % self.group_frontiers());
        let is_of_host = usize::from(number) < self.streams.len();
        (is_of_host.then_some(number), group)
    }

    /// The group of a superblock.
    #[inline]
    pub fn group_of(&self, superblock: u32) -> usize {
        if self.groups == 1 { 0 } else { (superblock % u32::from(self.groups)) as usize }
    }

    /// The frontier for collected data of the stream that has a frontier. In each group there is one that
    /// initially isolated streams share, after those of the streams, then one for each persistently
    /// isolated stream.
    pub(super) fn frontier_of_collected(&self, frontier: u16) -> u16 {
        if !self.separate {
            return frontier;
        }
        let (stream, group) = self.stream_of(frontier);
        let at = usize::from(stream.expect("data are collected for a stream of the host"));
        let streams = self.streams.len();
        let shared = usize::from(self.persistent_before(streams) < streams);
        let place = match self.streams[at] {
            Isolation::Initial => streams,
            Isolation::Persistent => streams + shared + self.persistent_before(at),
        };
        self.frontier(u16::try_from(place).expect("there are few streams"), group)
    }

    /// The pages that a group may hold so that it can always collect, whatever is on them.
    pub(super) fn group_limit(&self, group: u16) -> u64 {
        let groups = u32::from(self.groups);
        let superblocks =
            self.superblocks / groups + u32::from(u32::from(group) < self.superblocks % groups);
        let others = u32::from(self.group_frontiers()) + self.high + 1;
        u64::from(superblocks.saturating_sub(others)) * u64::from(self.superblock_pages)
    }

    /// Bits of a place that say which page of its superblock it is.
    pub(super) fn slot_bits(&self) -> u32 {
        u32::BITS - (self.superblock_pages - 1).leading_zeros()
    }

    /// The fewest superblocks with which the layer can always collect: if all that are closed were
    /// full of valid pages, there would be more of these than logical pages. With several groups, one of
    /// them has to have room for another superblock of data beyond those that its streams fill.
    pub fn min_superblocks(&self) -> u64 {
        let data = u64::from(self.logical_pages) / u64::from(self.superblock_pages.max(1));
        let groups = u64::from(self.groups);
        let beside = u64::from(self.frontiers()) + groups * (u64::from(self.high) + 1);
        let streams = self.streams.len() as u64;
        data + beside + if groups > 1 { groups * (streams + 1) + 1 } else { 0 }
    }

    /// Checks the rules.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn validate(&self) -> Result<(), ShapeError> {
        let range = |what, found: u64, from: u64, to: u64| {
            let expected = || format!("{from} to {to}");
            let fits = (from..=to).contains(&found);
            if fits { Ok(()) } else { Err(ShapeError::Range { what, found, expected: expected() }) }
        };
        range("logical pages", self.logical_pages.into(), 1, (u32::MAX - 1).into())?;
        // Where the host's data share superblocks with collected ones, a group cannot tell what it has
        // room for.
        let most = if self.separate { MAX_GROUPS } else { 1 };
        range("groups", self.groups.into(), 1, most)?;
        range("streams", self.streams.len() as u64, 1, MAX_STREAMS as u64)?;
        range("pages of a superblock", self.superblock_pages.into(), 2, 1 << 30)?;
        let most = u64::from(u32::MAX >> self.slot_bits());
        range("superblocks", self.superblocks.into(), 1, most)?;
        range("lower watermark", self.low.into(), 2, self.superblocks.into())?;
        range("upper watermark", self.high.into(), self.low.into(), self.superblocks.into())?;
        let needed = self.min_superblocks();
        if u64::from(self.superblocks) < needed {
            return Err(ShapeError::NoRoom {
                superblocks: self.superblocks,
                pages: self.superblock_pages,
                logical: self.logical_pages,
                needed,
                open: self.frontiers(),
                free: self.high,
            });
        }
        Ok(())
    }
}
