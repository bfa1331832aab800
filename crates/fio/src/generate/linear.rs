//! Sequential and random offsets in a region (`zonemode=none`).
use super::random_map::RandomMap;
use super::{Io, Region, op_of};
use crate::job::{DataDir, Job, Rw, ZoneMode};
use crate::rng::{BATCH, Permutation, Rng};
use zonal_blk::BioFlags;

pub(super) struct Linear {
    region: Region,
    random: bool,
    /// Random I/O: consecutive I/Os per random offset. Sequential I/O: bytes to skip after each I/O.
    modifier: i64,
    /// By direction, the next sequential offset, from the region's start.
    position: [u64; 3],
    /// The last offset of a block that is not random.
    last: u64,
    ends: Ends,
    /// I/Os left in the run that started at a random offset.
    run: i64,
    /// As [`runs_wrap`].
    wraps: bool,
    rng: Rng,
    visits: Visits,
    /// Each block has been visited.
    is_exhausted: bool,
}

/// Which of the random blocks come again.
enum Visits {
    /// Any.
    Any,
    /// None, in a random order that takes no memory.
    Ordered(Order),
    /// None, as a map of this block size says, in which a block that has been drawn before is replaced by the
    /// next one.
    Mapped(RandomMap, u64),
}

impl Visits {
    /// Those of a job that has blocks of this length in this many bytes.
    fn new(job: &Job, block: u64, bytes: u64, rng: &mut Rng) -> Self {
        let blocks = bytes / block;
        let has_map = job.has_random_map() && !job.address.lfsr;
        let shows_order = job.zonemode == ZoneMode::Zbd || job.rw_modifier > 1;
        if has_map && shows_order && (1..=MAX_MAPPED).contains(&blocks) {
            return Visits::Mapped(RandomMap::new(blocks), block);
        }
        match job.random && (job.address.lfsr || !job.norandommap) {
            true => Visits::Ordered(Order::new(block, bytes, rng)),
            false => Visits::Any,
        }
    }
}

/// Most blocks of a map where it shows which one replaces another: in how full each zone becomes, and in how
/// often a run comes upon the blocks of earlier ones.
const MAX_MAPPED: u64 = 1 << 20;

/// Where a direction of a sequential job starts over alone. Elsewhere the end of one direction is that of
/// the pass.
#[derive(Clone, Copy)]
pub(super) enum Ends {
    /// Nowhere.
    Pass,
    /// At this position, the end of the region and what is skipped: a job that runs for a time, or reads and writes
    /// more than the region.
    At(u64),
    /// Wherever a block does not fit: a job that skips backwards.
    Everywhere,
}

impl Ends {
    pub(super) fn new(job: &Job, region: Region) -> Self {
        let mixed = job.rw == Rw::Mixed;
        let repeats = mixed && region.io_size > region.len();
        let in_time = job.time_based && (mixed || job.zonemode != ZoneMode::Zbd);
        match job.rw_modifier {
            ..0 => Ends::Everywhere,
            // As in fio, where the last block ended counts, not what is skipped after it.
            skip @ 0.. if !job.random && (in_time || repeats) => {
                Ends::At(region.len().saturating_add_signed(skip))
            }
            0.. => Ends::Pass,
        }
    }

    /// Whether a direction starts over alone at this position, where a block fits or not.
    pub(super) fn are_at(self, position: u64, fits: bool) -> bool {
        match self {
            Ends::Pass => false,
            Ends::At(end) => position >= end,
            Ends::Everywhere => !fits,
        }
    }
}

/// Whether the blocks after a random one go on at the start of the region after its end, as those of a sequential
/// job do.
pub(super) fn runs_wrap(job: &Job, region: Region) -> bool {
    job.time_based || job.rw == Rw::Mixed && region.io_size > region.len()
}

pub(super) struct Order {
    permutation: Permutation,
    block: u64,
    blocks: u64,
    next: u64,
    /// The blocks from the last multiple of their number up to `next` on.
    batch: Box<[u64; BATCH]>,
}

impl Order {
    /// The order of the whole blocks in this many bytes, which may have room for none.
    pub(super) fn new(block: u64, bytes: u64, rng: &mut Rng) -> Self {
        let blocks = bytes / block;
        let permutation = Permutation::new(blocks.max(1), rng);
        Order { permutation, block, blocks, next: 0, batch: Box::default() }
    }

    /// Starts a new permutation if blocks have been visited.
    pub(super) fn restart(&mut self, rng: &mut Rng) {
        if std::mem::take(&mut self.next) > 0 {
            self.permutation = Permutation::new(self.blocks.max(1), rng);
        }
    }

    /// Visits all blocks in the same order again.
    pub(super) fn repeat(&mut self) {
        self.next = 0;
    }

    /// The offset of the next block not yet visited; `None` after the last one.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.next == self.blocks {
            return None;
        }
        let at = (self.next % BATCH as u64) as usize;
        if at == 0 {
            let left = usize::try_from(self.blocks - self.next).unwrap_or(BATCH);
            self.permutation.get_all(self.next, &mut self.batch[..left.min(BATCH)]);
        }
        self.next += 1;
        Some(self.batch[at] * self.block)
    }
}

/// The next sequential offset after a block that ends at `end`, from the start of the region. As in fio, a
/// job that goes backwards starts over at the end of the region. One that skips what is left of the device
/// starts over where the region's offset, counted from the start of the region, is; it is at its end if
/// nothing is left.
pub(super) fn after(end: u64, skip: i64, region: Region) -> u64 {
    let device = region.limit;
    match end.checked_add_signed(skip) {
        None => region.len().saturating_add_signed(skip),
        Some(next) if skip > 0 && next >= device && region.start + end < device => region.start,
        Some(next) => next,
    }
}

impl Linear {
    pub(super) fn new(job: &Job, region: Region, mut rng: Rng) -> Self {
        let used = DataDir::ALL.into_iter().filter(|&dir| job.uses(dir));
        let block = used.map(|dir| job.bs[dir as usize]).max().expect("a direction");
        Linear {
            region,
            random: job.random,
            modifier: job.rw_modifier,
            position: [0; 3],
            last: match job.random {
                // As in fio, a block that follows another may end beyond the region.
                true if job.zonemode != ZoneMode::Zbd => {
                    (region.len() - 1).min((region.limit - region.start).saturating_sub(block))
                }
                // As in fio: where a zone has no room for a write, it is tried all the same.
                true => region.len() - 1,
                false if job.zonemode == ZoneMode::Zbd && !job.reads_anywhere() => region.len() - 1,
                // As in fio, a block that begins in the region may end beyond it.
                false => {
                    (region.len() - 1).min((region.limit - region.start).saturating_sub(block))
                }
            },
            ends: Ends::new(job, region),
            run: 0,
            wraps: runs_wrap(job, region),
            visits: Visits::new(job, block, region.len(), &mut rng),
            is_exhausted: false,
            rng,
        }
    }

    /// The next I/O; `None` at the end of the region, or when each block has been visited.
    #[inline]
    pub(super) fn next(&mut self, dir: DataDir, len: u64) -> Option<Io> {
        let at = if !self.random {
            self.sequential(dir)?
        } else {
            match self.run {
                0 => self.random(len)?,
                _ => match self.sequential(dir) {
                    Some(at) => at,
                    None => self.past_the_end(dir, len)?,
                },
            }
        };
        if self.random {
            self.run = if self.run == 0 { self.modifier.max(1) } else { self.run } - 1;
        }
        let skip = if self.random { 0 } else { self.modifier };
        self.position[dir as usize] = after(at + len, skip, self.region);
        let offset = self.region.start + at;
        Some(Io { op: op_of(dir), dir, offset, len, zone: None, flags: BioFlags::NONE })
    }

    /// Whether there is no next I/O as each block has been visited.
    pub(super) fn has_visited_all(&self) -> bool {
        self.is_exhausted
    }

    #[inline]
    fn random(&mut self, len: u64) -> Option<u64> {
        let drawn = match &mut self.visits {
            Visits::Ordered(order) => order.next(),
            Visits::Any => Some(self.rng.below(self.region.len() / len) * len),
            Visits::Mapped(map, block) => map.draw(&mut self.rng).map(|at| at * *block),
        };
        let Some(at) = drawn else {
            self.is_exhausted = true;
            return None;
        };
        // A longer block than the map's.
        Some(if at + len > self.region.len() { 0 } else { at })
    }

    /// A run is past the end of the region. As in fio, that ends the pass, or the run goes on at the start of the
    /// region, or at the end of the device anywhere.
    #[cold]
    fn past_the_end(&mut self, dir: DataDir, len: u64) -> Option<u64> {
        let device = self.region.limit - self.region.start;
        match self.position[dir as usize] {
            at if self.wraps && at >= self.region.len() => Some(0),
            at if at < device => {
                self.run -= 1;
                None
            }
            _ => self.random(len),
        }
    }

    #[inline]
    fn sequential(&self, dir: DataDir) -> Option<u64> {
        let at = self.position[dir as usize];
        if at <= self.last { Some(at) } else { self.ends.are_at(at, false).then_some(0) }
    }

    /// The next sequential offset of a direction, from the region's start.
    pub(super) fn position(&self, dir: DataDir) -> u64 {
        self.position[dir as usize]
    }

    /// The last I/O of a direction was moved and ended here, from the region's start.
    pub(super) fn moved(&mut self, dir: DataDir, end: u64) {
        let skip = if self.random { 0 } else { self.modifier };
        self.position[dir as usize] = after(end, skip, self.region);
    }

    /// Starts at the begin of the region again.
    pub(super) fn rewind(&mut self) {
        (self.position, self.is_exhausted) = ([0; 3], false);
        match &mut self.visits {
            Visits::Any => {}
            Visits::Ordered(order) => order.restart(&mut self.rng),
            Visits::Mapped(map, _) => map.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const REGION: Region = Region {
        start: 8192,
        end: 8192 + 64 * 4096,
        size: 64 * 4096,
        io_size: 0,
        lba: 512,
        limit: 8192 + 64 * 4096,
    };

    fn linear(random: bool, rw_modifier: i64, norandommap: bool) -> Linear {
        let job = Job { random, rw_modifier, norandommap, bs: [4096; 3], ..Job::default() };
        Linear::new(&job, REGION, Rng::new(1, [0; 4]))
    }

    fn blocks(linear: &mut Linear, count: usize) -> Vec<u64> {
        let mut next = || {
            linear.next(DataDir::Read, 4096).unwrap_or_else(|| {
                linear.rewind();
                linear.next(DataDir::Read, 4096).expect("the region holds a block")
            })
        };
        (0..count).map(|_| (next().offset - REGION.start) / 4096).collect()
    }

    #[test]
    fn sequential_offsets_begin_again_after_the_end_of_the_region() {
        let seen = blocks(&mut linear(false, 0, false), 130);
        assert!(seen.into_iter().eq((0..64).chain(0..64).chain(0..2)));
    }

    #[test]
    fn the_modifier_is_skipped_after_each_sequential_io() {
        assert_eq!(blocks(&mut linear(false, 8192, false), 4), [0, 3, 6, 9]);
    }

    #[test]
    fn negative_modifier_goes_backwards_from_the_end_again_and_again() {
        // fio 3.33 with --rw=read:-8k --bs=4k.
        let pass = || (0..63).rev();
        let expected = [0].into_iter().chain(pass()).chain(pass());
        assert!(blocks(&mut linear(false, -8192, false), 127).into_iter().eq(expected));
    }

    #[test]
    fn random_map_visits_each_block_once_per_pass() {
        let mut linear = linear(true, 0, false);
        for _pass in 0..3 {
            let mut seen = blocks(&mut linear, 64);
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..64));
        }
    }

    #[test]
    fn a_map_in_zones_replaces_a_block_that_has_been_drawn_by_the_next_one() {
        let job = Job { random: true, zonemode: ZoneMode::Zbd, ..Job::default() };
        let follow = |job: &Job| {
            let mut linear = Linear::new(job, REGION, Rng::new(1, [0; 4]));
            let mut follow = 0;
            for _pass in 0..100 {
                let seen = blocks(&mut linear, 64);
                assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 64, "each comes once");
                follow += seen.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            }
            follow
        };
        // fio 3.41 with --rw=randread --bs=4k --size=256k --loops=300: 4.8 of 63 in the mean.
        let (zones, none) = (follow(&job), follow(&Job { zonemode: ZoneMode::None, ..job }));
        assert!((420..=540).contains(&zones), "{zones}");
        assert!((70..=130).contains(&none), "a permutation: {none}");
    }

    #[test]
    fn runs_come_upon_the_blocks_of_earlier_ones_as_often_as_with_a_map_of_bits() {
        // fio 3.41 with --rw=randwrite:2 --bs=16k --size=4432k: 191 to 198 of 277 blocks differ.
        let job = Job { random: true, rw_modifier: 2, bs: [4096; 3], ..Job::default() };
        let end = REGION.start + 277 * 4096;
        let region = Region { end, size: 277 * 4096, limit: end, ..REGION };
        let distinct = |seed| {
            let mut linear = Linear::new(&job, region, Rng::new(seed, [0; 4]));
            blocks(&mut linear, 277).into_iter().collect::<BTreeSet<_>>().len()
        };
        let mean = (0..100).map(distinct).sum::<usize>() / 100;
        assert!((190..=200).contains(&mean), "{mean}");
    }

    #[test]
    fn lfsr_visits_each_block_once_without_a_map() {
        let bs = [4096; 3];
        let mut job = Job { random: true, norandommap: true, bs, ..Job::default() };
        job.address.lfsr = true;
        let mut seen = blocks(&mut Linear::new(&job, REGION, Rng::new(1, [0; 4])), 64);
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..64));
    }

    #[test]
    fn the_modifier_is_the_length_of_runs_at_random_offsets() {
        let seen = blocks(&mut linear(true, 4, true), 32);
        for run in seen.chunks(4) {
            for pair in run.windows(2) {
                assert_eq!(pair[1], (pair[0] + 1) % 64);
            }
        }
    }
}
