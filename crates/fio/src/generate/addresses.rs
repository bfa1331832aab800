//! Lengths and offsets of jobs with several block sizes, offsets that are not uniformly distributed,
//! or a stride (`zonemode=strided`). Jobs without any of these have [`Linear`](super::linear).
use super::distribution::BlockPicker;
use super::linear::{Ends, Order, after, runs_wrap};
use super::random_map::RandomMap;
use super::{Io, Region, op_of};
use crate::job::{BlockSizes, DataDir, Distribution, Job, ZoneMode};
use crate::mistake::mistake;
use crate::rng::Rng;
use std::ops::Range;
use zonal_blk::BioFlags;

/// Lengths to draw before the smallest is taken, where only short ones fit.
const ATTEMPTS: u32 = 16;

pub(super) struct Addresses {
    region: Region,
    random: bool,
    /// As [`Job::rw_modifier`].
    modifier: i64,
    ends: Ends,
    /// As [`runs_wrap`].
    wraps: bool,
    /// Blocks are moved to where their zones have room, or let end there.
    in_zones: bool,
    identical: bool,
    lengths: Lengths,
    dirs: [Direction; 3],
    /// I/Os left in the run that started at a random offset.
    run: i64,
    /// Which blocks of the smallest size have been visited; `None` if offsets may repeat.
    map: Option<RandomMap>,
    map_unit: u64,
    /// With `random_generator=lfsr`, the order of the blocks of the smallest size, of which there is no map:
    /// as in fio, longer ones overlap.
    order: Option<Order>,
    /// Each block has been visited.
    is_exhausted: bool,
    stride: Option<Stride>,
    rng: Rng,
}

/// State of a direction.
struct Direction {
    /// The next sequential offset, from the start of the region or of the stride's zone.
    position: u64,
    last: u64,
    align: u64,
    percentage_random: u64,
    /// As in fio, there is none to draw where less than its alignment is left for it, unless by a distribution.
    has_blocks: bool,
    picker: BlockPicker,
    /// Blocks of the map that the last I/O has visited.
    visited: Range<u64>,
}

impl Direction {
    /// As in fio, an identical block is the first one then.
    fn rewind(&mut self) {
        (self.position, self.last) = (0, 0);
    }
}

/// The zones of `zonemode=strided`.
struct Stride {
    /// Bytes to transfer in a zone.
    zonesize: u64,
    /// Bytes from the start of a zone to that of the next.
    step: u64,
    /// Bytes of a zone.
    range: u64,
    /// Start of the zone, from that of the region.
    start: u64,
    /// From the start of the region to the end of the device: as in fio, zones are not only in the region,
    /// whose length is the amount of I/O.
    len: u64,
    done: u64,
}

/// Where blocks can be: in the region, or in a zone of a stride.
struct Window {
    /// From the start of the region.
    start: u64,
    /// Blocks begin before this, from the start of the window.
    begins: u64,
    /// Blocks end here, or before.
    ends: u64,
}

impl Addresses {
    /// Whether the job needs this generator.
    pub(super) fn needed(job: &Job) -> bool {
        let dirs = DataDir::ALL.into_iter().filter(|&dir| job.uses(dir));
        let mut sizes: Vec<u64> =
            dirs.clone().flat_map(|dir| [job.bs[dir as usize], job.min_bs(dir)]).collect();
        sizes.dedup();
        let address = &job.address;
        let varies = |dir: DataDir| {
            let at = dir as usize;
            address.distribution[at] != Distribution::Uniform
                || address.percentage_random[at] != 100
        };
        let is_special =
            address.identical || !job.is_aligned_to_blocks() || dirs.into_iter().any(varies);
        job.zonemode == ZoneMode::Strided || sizes.len() > 1 || job.random && is_special
    }

    pub(super) fn new(job: &Job, region: Region, mut rng: Rng, lengths: Rng) -> Self {
        let address = &job.address;
        let stride = (job.zonemode == ZoneMode::Strided).then(|| Stride::new(job, region));
        let window = region.window(job);
        let dirs = DataDir::ALL.map(|dir| {
            let at = dir as usize;
            let align = address.align[at].unwrap_or(job.min_bs(dir));
            let blocks = region.blocks(job, dir);
            let uniform = Distribution::Uniform;
            let distribution =
                if job.random && job.uses(dir) { &address.distribution[at] } else { &uniform };
            Direction {
                position: 0,
                last: 0,
                align,
                percentage_random: address.percentage_random[at].into(),
                has_blocks: *distribution != uniform || window >= align,
                picker: BlockPicker::new(distribution, blocks, align, &mut rng)
                    .strided(address.sequence_stride),
                visited: 0..0,
            }
        });
        let used = || DataDir::ALL.into_iter().filter(|&dir| job.uses(dir));
        let map_unit = used().map(|dir| job.min_bs(dir)).min().expect("a direction");
        // Blocks may end beyond the zone of a stride.
        let longest = used().map(|dir| job.bs[dir as usize]).max().expect("a direction");
        let mapped = if stride.is_some() { window.saturating_add(longest) } else { window };
        let in_order =
            job.random && job.address.lfsr && job.is_uniform() && job.is_aligned_to_blocks();
        let has_map = job.has_random_map() && !in_order;
        Addresses {
            region,
            random: job.random,
            modifier: job.rw_modifier,
            ends: Ends::new(job, region),
            wraps: runs_wrap(job, region),
            in_zones: job.zonemode == ZoneMode::Zbd && !job.reads_anywhere(),
            identical: address.identical,
            lengths: Lengths::new(job, region.lba, lengths),
            dirs,
            run: 0,
            order: in_order.then(|| Order::new(map_unit, window, &mut rng)),
            map: has_map.then(|| RandomMap::new((mapped / map_unit).max(1))),
            map_unit,
            is_exhausted: false,
            stride,
            rng,
        }
    }

    /// Leaves out the map of visited blocks if it would have more than `most` of them.
    pub(super) fn limit_map(&mut self, most: u64) {
        if self.region.len() / self.map_unit > most {
            self.map = None;
        }
    }

    /// The next I/O; `None` at the end of the region, or when each block has been visited.
    pub(super) fn next(&mut self, dir: DataDir) -> Option<Io> {
        let Window { start, ends, .. } = self.window(dir);
        let (at, picked) = self.place(dir)?;
        let mut len = self.lengths.next(dir, ends.saturating_sub(at));
        // As in fio: what follows a random block is not in the map, and one size is never cut.
        if let Some(map) = self.map.as_mut().filter(|_| picked) {
            let first = at / self.map_unit;
            let blocks = map.visit(first, len.div_ceil(self.map_unit));
            self.dirs[dir as usize].visited = first..first + blocks;
            if blocks > 0 && self.lengths.varies(dir) {
                len = len.min(blocks * self.map_unit);
            }
        }
        self.dirs[dir as usize].last = at;
        self.moved(dir, at + len);
        if let Some(stride) = &mut self.stride
            && (stride.transferred(len) || stride.is_done_again())
        {
            self.dirs.iter_mut().for_each(Direction::rewind);
            if let Some(map) = &mut self.map {
                map.clear();
            }
            // As in fio, it is the same in all zones.
            if let Some(order) = &mut self.order {
                order.repeat();
            }
        }
        let offset = self.region.start + start + at;
        Some(Io { op: op_of(dir), dir, offset, len, zone: None, flags: BioFlags::NONE })
    }

    /// The last I/O of a direction ended here, from the start of the region or of the stride's zone.
    pub(super) fn moved(&mut self, dir: DataDir, end: u64) {
        let skip = self.skip();
        self.dirs[dir as usize].position = match &self.stride {
            Some(stride) if end >= stride.range => 0,
            Some(stride) => {
                end.checked_add_signed(skip).unwrap_or(stride.range.saturating_add_signed(skip))
            }
            None => after(end, skip, self.region),
        };
    }

    /// The next sequential offset of a direction, from the start of the region or of the stride's zone.
    pub(super) fn position(&self, dir: DataDir) -> u64 {
        self.dirs[dir as usize].position
    }

    /// The last I/O of a direction is shorter than it was drawn: what it leaves out is still to be visited.
    pub(super) fn shortened(&mut self, dir: DataDir, len: u64) {
        let visited = &mut self.dirs[dir as usize].visited;
        let end = visited.end.min(visited.start + len.div_ceil(self.map_unit));
        if let Some(map) = &mut self.map {
            map.forget(end..visited.end);
        }
        visited.end = end;
    }

    /// Whether there is no next I/O as each block has been visited.
    pub(super) fn has_visited_all(&self) -> bool {
        self.is_exhausted
    }

    /// The bytes that sequential jobs skip after each I/O.
    fn skip(&self) -> i64 {
        if self.random { 0 } else { self.modifier }
    }

    /// Starts at the begin of the region again.
    pub(super) fn rewind(&mut self) {
        self.is_exhausted = false;
        self.dirs.iter_mut().for_each(Direction::rewind);
        if let Some(stride) = &mut self.stride {
            (stride.start, stride.done) = (0, 0);
        }
        if let Some(map) = &mut self.map {
            map.clear();
        }
        if let Some(order) = &mut self.order {
            order.restart(&mut self.rng);
        }
    }

    /// From the start of the region to the end of the device.
    fn whole(&self) -> u64 {
        self.region.limit - self.region.start
    }

    /// Where blocks of a direction are now.
    fn window(&self, dir: DataDir) -> Window {
        let whole = self.whole();
        let (start, begins) = match &self.stride {
            None => (0, self.region.len()),
            // As in fio: what is skipped may lead out of the zone, whose first block is the next one then.
            Some(stride) => (stride.start, stride.range.saturating_add_signed(self.skip().max(0))),
        };
        let ends = if self.lengths.varies(dir) {
            // As in fio: blocks of several sizes end in the region, whether in their zone or not.
            self.region.len().saturating_sub(start)
        } else if self.random {
            begins.min(whole - start)
        } else {
            whole - start
        };
        Window { start, begins, ends }
    }

    /// Where the next I/O begins, from the start of the window, and whether that is a random block; `None`
    /// at the end.
    fn place(&mut self, dir: DataDir) -> Option<(u64, bool)> {
        let Window { start, begins, ends } = self.window(dir);
        let min = self.lengths.min[dir as usize];
        let strided = self.stride.is_some();
        let room = self.whole() - start;
        let drawn = begins.min(if strided { room } else { ends });
        let (at, picked) = self.start(dir, drawn)?;
        // As in fio: a zone may be longer than the region, or end beyond it. There the job ends.
        let is_beyond = |at: u64| picked && at + min > ends && at + min <= room;
        if strided && (at >= self.region.len() || is_beyond(at)) {
            return None;
        }
        // As in fio: a block that follows another may end beyond its zone, and beyond the region.
        let is_free = !picked && !self.lengths.varies(dir);
        let ends = if is_free { room } else { ends };
        // As in fio: where a zone has no room for a write, it is tried all the same.
        let is_tried = is_free && self.in_zones;
        let fits = |at: u64| at < begins && (is_tried || at + min <= ends);
        if self.random {
            // As in fio: the end of the region ends the pass; at the end of the device another block is drawn.
            if !picked && !fits(at) && self.stride.is_none() && at < self.whole() {
                return None;
            }
            let (at, picked) =
                if fits(at) || picked { (at, picked) } else { self.random(dir, drawn)? };
            let at = if fits(at) { at } else { 0 };
            // No room even there: the zone begins where the region has ended.
            return (ends >= min).then_some((at, picked));
        }
        let at = if self.ends.are_at(start + at, fits(at)) { 0 } else { at };
        fits(at).then_some((at, false))
    }

    /// Where the next I/O begins if it fits there, and whether that is a random block.
    fn start(&mut self, dir: DataDir, window: u64) -> Option<(u64, bool)> {
        if !self.random {
            return Some((self.following(dir), false));
        }
        let state = &self.dirs[dir as usize];
        if self.run > 0 {
            self.run -= 1;
            return Some((if self.identical { state.last } else { self.following(dir) }, false));
        }
        self.run = (self.modifier - 1).max(0);
        if state.percentage_random < 100 && self.rng.below(100) >= state.percentage_random {
            return Some((self.following(dir), false));
        }
        self.random(dir, window)
    }

    /// Where the block after the last one of a direction begins. As in fio, a job that starts over at the end of the
    /// region does so wherever a zone of its stride is then: in a zone beyond the region, after each block.
    fn following(&self, dir: DataDir) -> u64 {
        let at = self.dirs[dir as usize].position;
        let from_region = at + self.stride.as_ref().map_or(0, |stride| stride.start);
        let starts_over = if self.random {
            self.wraps && from_region >= self.region.len()
        } else {
            self.ends.are_at(from_region, true)
        };
        if starts_over { 0 } else { at }
    }

    /// A random block that has not been visited; `None` if there is none.
    fn random(&mut self, dir: DataDir, window: u64) -> Option<(u64, bool)> {
        let drawn = self.draw(dir, window);
        self.is_exhausted = drawn.is_none();
        drawn
    }

    fn draw(&mut self, dir: DataDir, window: u64) -> Option<(u64, bool)> {
        let state = &mut self.dirs[dir as usize];
        if !state.has_blocks {
            return None;
        }
        if let Some(order) = &mut self.order {
            return Some((order.next()? / state.align * state.align, true));
        }
        let at = state.picker.next(&mut self.rng) * state.align;
        let Some(map) = &mut self.map else { return Some((at, true)) };
        let block = at / self.map_unit;
        let in_window = |block: &u64| block * self.map_unit + self.map_unit <= window;
        let free = map.next_free(block).filter(in_window);
        let free = free.or_else(|| map.next_free(0).filter(in_window))?;
        let aligned = free * self.map_unit / state.align * state.align;
        Some((if free == block { at } else { aligned }, true))
    }
}

impl Stride {
    fn new(job: &Job, region: Region) -> Self {
        let len = region.limit - region.start;
        let zonesize = job.zonesize.unwrap_or(region.len());
        let range = region.window(job);
        let step = range.saturating_add(job.address.zoneskip);
        Stride { zonesize, step, range, start: 0, len, done: 0 }
    }

    /// Whether as much as the zone holds has been done once more.
    fn is_done_again(&self) -> bool {
        self.done.is_multiple_of(self.range)
    }

    /// Counts an I/O; returns whether the next one is in the next zone.
    fn transferred(&mut self, len: u64) -> bool {
        self.done += len;
        let over = self.done >= self.zonesize;
        if over {
            self.done = 0;
            let next = self.start.saturating_add(self.step);
            self.start = if next >= self.len { 0 } else { next };
        }
        over
    }
}

/// Draws lengths.
pub(super) struct Lengths {
    sizes: [BlockSizes; 3],
    min: [u64; 3],
    max: [u64; 3],
    /// Of what sizes of a range are multiples if not of the smallest.
    unit: Option<u64>,
    rng: Rng,
}

impl Lengths {
    /// `lba` is the length of a logical block.
    pub(super) fn new(job: &Job, lba: u64, rng: Rng) -> Self {
        let min = DataDir::ALL.map(|dir| job.min_bs(dir));
        let unit = job.address.unaligned.then_some(lba);
        Lengths { sizes: job.address.sizes.clone(), min, max: job.bs, unit, rng }
    }

    /// Whether a direction has several lengths.
    fn varies(&self, dir: DataDir) -> bool {
        self.sizes[dir as usize] != BlockSizes::Fixed
    }

    /// The next length, at most `room` unless even the smallest is longer.
    pub(super) fn next(&mut self, dir: DataDir, room: u64) -> u64 {
        for _ in 0..ATTEMPTS {
            let len = self.draw(dir as usize);
            if len <= room {
                return len;
            }
        }
        self.min[dir as usize]
    }

    fn draw(&mut self, dir: usize) -> u64 {
        let max = self.max[dir];
        match (&self.sizes[dir], self.unit) {
            (BlockSizes::Fixed, _) => max,
            (BlockSizes::Range { min }, Some(unit)) => {
                min + self.rng.below((max - min) / unit + 1) * unit
            }
            // As in fio: anything from min up to min + max, rounded down to a multiple of min.
            (BlockSizes::Range { min }, None) if mistake!(RangeShort) => *min,
            (BlockSizes::Range { min }, None) => ((min + self.rng.below(max)) / min * min).min(max),
            (BlockSizes::Split(sizes), _) => {
                let drawn = self.rng.below(100);
                let mut percent = if mistake!(FirstSizeOnly) { 0 } else { drawn };
                for &(size, share) in sizes {
                    match percent.checked_sub(share.into()) {
                        Some(rest) => percent = rest,
                        None => return size,
                    }
                }
                sizes.last().map_or(max, |&(size, _)| size)
            }
        }
    }
}

#[cfg(test)]
mod tests;
