//! Options for the lengths and offsets of I/Os.
use super::StreamOptions;

/// The block sizes of one direction. The largest is in [`Job::bs`](super::Job::bs).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BlockSizes {
    /// One size (`bs=`).
    #[default]
    Fixed,
    /// Multiples of `min`, equally likely, and the largest (`bsrange=`).
    Range {
        /// The smallest size in bytes.
        min: u64,
    },
    /// Sizes in bytes, each with its percentage of the I/Os; the last one has the rest as well
    /// (`bssplit=`).
    Split(Vec<(u64, u8)>),
}

impl BlockSizes {
    /// The smallest size in bytes if `largest` is the largest.
    pub fn min(&self, largest: u64) -> u64 {
        match self {
            BlockSizes::Fixed => largest,
            BlockSizes::Range { min } => *min,
            BlockSizes::Split(sizes) => {
                sizes.iter().map(|(size, _)| *size).min().unwrap_or(largest)
            }
        }
    }
}

/// How random offsets are distributed (`random_distribution=`).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// All offsets are equally likely.
    #[default]
    Uniform,
    /// The offset of rank r has a probability in proportion to 1 / r^theta.
    Zipf {
        /// The exponent.
        theta: f64,
        /// Where the most likely offset lies, as a fraction of the region; random if not set.
        center: Option<f64>,
    },
    /// Self-similar: a fraction `skew` of the offsets has a fraction 1 - `skew` of the I/O.
    Pareto {
        /// The fraction.
        skew: f64,
        /// As for `Zipf`.
        center: Option<f64>,
    },
    /// A bell curve over the ranks.
    Normal {
        /// Its deviation in percent of the region.
        deviation: f64,
        /// As for `Zipf`.
        center: Option<f64>,
    },
    /// Percentages of the I/O, each with the percentage of the region that it goes to, one after
    /// another.
    Zoned(Vec<(u8, u8)>),
    /// Percentages of the I/O, each with the bytes that it goes to, one after another.
    ZonedAbs(Vec<(u8, u64)>),
    /// These blocks, in this order, again and again.
    Sequence(Vec<u64>),
}

/// Options for lengths, offsets and where on the medium writes are placed.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressOptions {
    /// Block sizes by [`DataDir`](super::DataDir).
    pub sizes: [BlockSizes; 3],
    /// `blockalign=`: alignment of random offsets in bytes by direction; the smallest block size if
    /// not set.
    pub align: [Option<u64>; 3],
    /// `random_distribution=` by direction.
    pub distribution: [Distribution; 3],
    /// `random_sequence_stride=`: each repetition of a sequence is that of the blocks after those of the
    /// one before.
    pub sequence_stride: bool,
    /// `percentage_random=` by direction: the part of a random job's I/O that is random; the rest
    /// follows the I/O before it.
    pub percentage_random: [u8; 3],
    /// `rw_sequencer=identical`: I/Os after a random offset repeat it instead of following it.
    pub identical: bool,
    /// `offset_align=`: alignment in bytes of an offset in percent; 0 for the smallest block size.
    pub offset_align: u64,
    /// `bs_unaligned=`: the sizes of a range are any number of logical blocks, not multiples of the
    /// smallest.
    pub unaligned: bool,
    /// `bs_is_seq_rand=`: the block size of reads is that of sequential I/O, the one of writes that of
    /// random I/O.
    pub seq_rand: bool,
    /// `random_generator=lfsr`: each block is visited once in a pass, also with `norandommap`, if there
    /// is one block size.
    pub lfsr: bool,
    /// Bytes of a zone with `zonemode=strided` (`zonerange=`); `zonesize` if not set.
    pub zonerange: Option<u64>,
    /// Bytes between zones (`zoneskip=`), with `zonemode=strided`.
    pub zoneskip: u64,
    /// The engine has a queue: as in fio, passes of sequential jobs that read and write then begin at the
    /// start, and elsewhere where the one before ended.
    pub restarts: bool,
    /// Where writes are placed (`dataplacement`, `plids`, ...).
    pub streams: StreamOptions,
}

impl Default for AddressOptions {
    fn default() -> Self {
        AddressOptions {
            sizes: Default::default(),
            align: [None; 3],
            distribution: Default::default(),
            sequence_stride: false,
            percentage_random: [100; 3],
            identical: false,
            offset_align: 0,
            unaligned: false,
            seq_rand: false,
            lfsr: false,
            zonerange: None,
            zoneskip: 0,
            restarts: false,
            streams: StreamOptions::default(),
        }
    }
}
