//! The size of a translation layer and its use of streams, and the rules that make sure that it can
//! always collect.
use crate::config::option_words;

/// The most streams.
const MAX_STREAMS: usize = 1 << 12;

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

/// The data with which collected data of a stream may share a superblock, if these are kept apart from
/// the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Collected data of all streams of this kind.
    #[default]
    Initial,
    /// Collected data of its own stream alone.
    Persistent,
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
    /// The host's streams, each with a superblock of its own that it fills.
    pub streams: Vec<Isolation>,
    /// Collected pages go to superblocks of their own, not to those that the host fills.
    pub separate: bool,
    /// Which superblock is collected next.
    pub policy: Policy,
    /// The collection begins with fewer free superblocks than this: 2 at least, of which the host
    /// takes all but one.
    pub low: u32,
    /// The collection ends with this many free superblocks.
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
    /// Superblocks that are filled at the same time: one for each stream, and those for collected data.
    pub fn frontiers(&self) -> u16 {
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

    /// The frontier for collected data of a stream. After the frontiers of the streams comes the one that
    /// initially isolated streams share, then one for each persistently isolated stream.
    pub(super) fn frontier_of_collected(&self, stream: u16) -> u16 {
        if !self.separate {
            return stream;
        }
        let streams = self.streams.len();
        let at = usize::from(stream);
        let shared = usize::from(self.persistent_before(streams) < streams);
        let place = match self.streams[at] {
            Isolation::Initial => streams,
            Isolation::Persistent => streams + shared + self.persistent_before(at),
        };
        u16::try_from(place).expect("there are few streams")
    }

    /// Bits of a place that say which page of its superblock it is.
    pub(super) fn slot_bits(&self) -> u32 {
        u32::BITS - (self.superblock_pages - 1).leading_zeros()
    }

    /// The fewest superblocks with which the layer can always collect: if all that are closed were
    /// full of valid pages, there would be more of these than logical pages.
    pub fn min_superblocks(&self) -> u64 {
        let data = u64::from(self.logical_pages) / u64::from(self.superblock_pages.max(1));
        data + u64::from(self.frontiers()) + u64::from(self.high) + 1
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
