//! Fills the buffers of writes, as `buffer_pattern`, `dedupe_percentage` and the like ask for.
use crate::job::{ContentOptions, Job};
use crate::rng::{Rng, mix};

/// The contents of a clone's writes. Those of its own are numbered: equal numbers are equal contents.
pub(crate) struct Contents {
    options: ContentOptions,
    rng: Rng,
    seed: u64,
    /// Contents so far.
    unique: u64,
    /// The most contents that are repeated, and the seed that clones may share for them.
    working_set: u64,
    set_seed: u64,
    /// One repetition of the pattern; kept for its capacity.
    period: Vec<u8>,
}

impl Contents {
    /// The contents of the writes of a clone whose region has this many bytes; `None` if it does not matter
    /// what they contain.
    pub fn new(job: &Job, region: u64, mut rng: Rng) -> Option<Self> {
        let options = job.contents.clone();
        if !options.is_chosen() {
            return None;
        }
        let bs = job.bs.into_iter().max().unwrap_or(1).max(1);
        let part = options.working_set.map(|percent| region / bs * u64::from(percent) / 100);
        let working_set = part.map_or(u64::MAX, |blocks| blocks.max(1));
        let seed = rng.next();
        let set_seed = if options.shared { job.randseed } else { seed };
        Some(Contents { options, rng, seed, unique: 0, working_set, set_seed, period: Vec::new() })
    }

    /// Fills the buffer of the next write.
    pub fn fill(&mut self, offset: u64, buf: &mut [u8]) {
        let number = self.next_number();
        let is_of_set = self.options.working_set.is_some() && number < self.working_set;
        let seed = if is_of_set { self.set_seed } else { self.seed };
        let mut state = mix(seed ^ mix(number));
        let is_fixed = self.options.zeroes || self.options.pattern.is_some();
        let (percent, chunk) = match (self.options.compressible, self.options.chunk) {
            (None, _) => (if is_fixed { 100 } else { 0 }, buf.len()),
            (Some(percent), 0) => (percent, buf.len()),
            (Some(percent), chunk) => (percent, chunk as usize),
        };
        self.period.clear();
        match &self.options.pattern {
            Some(pattern) => pattern.render(offset, &mut self.period),
            None => self.period.push(0),
        }
        for part in buf.chunks_mut(chunk) {
            let random = part.len() * usize::from(100 - percent) / 100;
            let (random, fixed) = part.split_at_mut(random);
            for word in random.chunks_mut(8) {
                state = mix(state.wrapping_add(1));
                word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
            }
            for piece in fixed.chunks_mut(self.period.len()) {
                piece.copy_from_slice(&self.period[..piece.len()]);
            }
        }
    }

    /// The number of the next write's contents.
    fn next_number(&mut self) -> u64 {
        let repeats = self.unique > 0 && self.rng.below(100) < self.options.repeated.into();
        if !repeats {
            self.unique += 1;
            return self.unique - 1;
        }
        match self.options.working_set {
            Some(_) => self.rng.below(self.working_set.min(self.unique)),
            None => self.unique - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The blocks of writes of 4 KiB in a region of 4 MiB.
    fn blocks(options: ContentOptions, count: usize) -> Vec<Vec<u8>> {
        let job = Job { contents: options, ..Job::default() };
        let mut contents = Contents::new(&job, 4 << 20, Rng::new(1, [0; 4])).expect("some");
        let mut block = || {
            let mut block = vec![7; 4096];
            contents.fill(0, &mut block);
            block
        };
        (0..count).map(|_| block()).collect()
    }

    fn times_by_contents(blocks: &[Vec<u8>]) -> Vec<usize> {
        let mut times: BTreeMap<&[u8], usize> = BTreeMap::new();
        blocks.iter().for_each(|block| *times.entry(block).or_default() += 1);
        times.into_values().collect()
    }

    #[test]
    fn blocks_are_zeroes_a_pattern_or_all_different() {
        let zeroes = blocks(ContentOptions { zeroes: true, ..ContentOptions::default() }, 2);
        assert!(zeroes.iter().flatten().all(|&byte| byte == 0));
        let pattern = "0xabcd01".parse().ok();
        let blocks = |options| blocks(options, 100);
        let of_pattern = blocks(ContentOptions { pattern, ..ContentOptions::default() });
        let expected = [0xab, 0xcd, 0x01].into_iter().cycle();
        assert!(of_pattern[1].iter().zip(expected).all(|(found, wanted)| *found == wanted));
        let refilled = blocks(ContentOptions { refill: true, ..ContentOptions::default() });
        assert_eq!(times_by_contents(&refilled).len(), 100);
    }

    #[test]
    fn a_part_of_each_chunk_is_compressible() {
        for (chunk, zero_at) in [(512, 512), (0, 4096)] {
            let options =
                ContentOptions { compressible: Some(75), chunk, ..ContentOptions::default() };
            for block in blocks(options, 3) {
                for part in block.chunks(zero_at) {
                    let (random, zeroes) = part.split_at(zero_at / 4);
                    assert!(zeroes.iter().all(|&byte| byte == 0), "chunks of {chunk}");
                    assert!(random.iter().filter(|&&byte| byte == 0).count() < zero_at / 40);
                }
            }
        }
    }

    #[test]
    fn a_part_of_the_blocks_has_the_contents_of_an_earlier_one() {
        let repeat = ContentOptions { repeated: 60, ..ContentOptions::default() };
        let unique = times_by_contents(&blocks(repeat.clone(), 1000)).len();
        assert!((340..=460).contains(&unique), "{unique} of 1000 are of their own");
        // One percent of 1024 blocks.
        let of_set = ContentOptions { working_set: Some(1), ..repeat };
        let mut times = times_by_contents(&blocks(of_set, 1000));
        times.sort_unstable();
        let often = times.iter().filter(|&&times| times > 1).count();
        assert_eq!(often, 10, "those of the working set: {times:?}");
        let options =
            ContentOptions { repeated: 50, working_set: Some(1), ..ContentOptions::default() };
        for (shared, common) in [(false, 0), (true, 10)] {
            let clones = [1, 2].map(|clone| {
                let job = Job {
                    contents: ContentOptions { shared, ..options.clone() },
                    ..Job::default()
                };
                let mut contents =
                    Contents::new(&job, 4 << 20, Rng::new(clone, [0; 4])).expect("some");
                let mut block = || {
                    let mut block = vec![0; 64];
                    contents.fill(0, &mut block);
                    block
                };
                (0..200).map(|_| block()).collect::<BTreeSet<_>>()
            });
            assert_eq!(clones[0].intersection(&clones[1]).count(), common);
        }
    }
}
