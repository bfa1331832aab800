//! Which blocks of a region have been visited: fio's random map, for I/Os of several lengths. (For
//! those of one length a permutation needs no memory.)

use crate::rng::Rng;
use std::ops::Range;

/// A bitmap with summaries: each bit of a level says that 64 bits of the one below are set.
pub(super) struct RandomMap {
    blocks: u64,
    levels: Vec<Vec<u64>>,
}

impl RandomMap {
    pub(super) fn new(blocks: u64) -> Self {
        let mut map = RandomMap { blocks, levels: Vec::new() };
        map.clear();
        map
    }

    /// No block has been visited.
    pub(super) fn clear(&mut self) {
        self.levels.clear();
        let mut bits = self.blocks;
        loop {
            let words = bits.div_ceil(64);
            let mut level = vec![0_u64; usize::try_from(words).expect("a map fits in memory")];
            // What lies beyond the end has been visited.
            if !bits.is_multiple_of(64)
                && let Some(last) = level.last_mut()
            {
                *last = u64::MAX << (bits % 64);
            }
            self.levels.push(level);
            if words <= 1 {
                break;
            }
            bits = words;
        }
    }

    /// The first block from `from` on that has not been visited, from the start if there is none
    /// after it; `None` if all have.
    pub(super) fn next_free(&self, from: u64) -> Option<u64> {
        self.free_from(from).or_else(|| self.free_from(0))
    }

    fn free_from(&self, from: u64) -> Option<u64> {
        let mut at = from;
        let mut level = 0;
        // Up until a word has a clear bit from here on ...
        loop {
            let word = self.levels.get(level)?.get((at / 64) as usize)?;
            let clear = !word & u64::MAX << (at % 64);
            if clear != 0 {
                at = at / 64 * 64 + u64::from(clear.trailing_zeros());
                break;
            }
            at = at / 64 + 1;
            level += 1;
        }
        // ... then down to it.
        for level in self.levels[..level].iter().rev() {
            at = at * 64 + u64::from((!level[at as usize]).trailing_zeros());
        }
        Some(at)
    }

    /// Draws a block and visits it, or the first one after it that has not been visited. `None` if all have.
    pub(super) fn draw(&mut self, rng: &mut Rng) -> Option<u64> {
        let free = self.next_free(rng.below(self.blocks))?;
        self.set(free);
        Some(free)
    }

    /// Marks up to `count` blocks from `from` on as visited, up to the first that has been. Returns
    /// how many were not.
    pub(super) fn visit(&mut self, from: u64, count: u64) -> u64 {
        let end = from.saturating_add(count).min(self.blocks);
        let mut at = from;
        while at < end && self.levels[0][(at / 64) as usize] >> (at % 64) & 1 == 0 {
            self.set(at);
            at += 1;
        }
        at - from
    }

    /// Marks visited blocks as not visited.
    pub(super) fn forget(&mut self, blocks: Range<u64>) {
        for mut at in blocks {
            for level in &mut self.levels {
                level[(at / 64) as usize] &= !(1 << (at % 64));
                at /= 64;
            }
        }
    }

    fn set(&mut self, mut at: u64) {
        for level in &mut self.levels {
            let word = &mut level[(at / 64) as usize];
            *word |= 1 << (at % 64);
            if *word != u64::MAX {
                break;
            }
            at /= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn map_agrees_with_a_list_of_flags() {
        for blocks in [1, 63, 64, 65, 4096, 5000] {
            let mut map = RandomMap::new(blocks);
            let mut flags = vec![false; blocks as usize];
            let mut rng = Rng::new(blocks, [0; 4]);
            while flags.contains(&false) {
                let from = rng.below(blocks);
                let expected = (from..blocks).chain(0..from).find(|&at| !flags[at as usize]);
                let free = map.next_free(from);
                assert_eq!(free, expected, "{blocks} blocks, from {from}");
                let (at, count) = (free.expect("a free block"), 1 + rng.below(5));
                let run = (at..blocks).take(count as usize).take_while(|&it| !flags[it as usize]);
                let run: Vec<u64> = run.collect();
                assert_eq!(map.visit(at, count), run.len() as u64);
                run.iter().for_each(|&it| flags[it as usize] = true);
                if run.len() > 1 && rng.below(2) == 0 {
                    let last = at + run.len() as u64 - 1;
                    map.forget(last..last + 1);
                    flags[last as usize] = false;
                }
            }
            assert_eq!(map.next_free(0), None);
            map.clear();
            assert_eq!(map.next_free(0), Some(0));
        }
    }
}
