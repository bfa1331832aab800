//! Random numbers, the same on every machine and in every version.
use crate::mistake::mistake;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers: Xoshiro256++ (Blackman and Vigna), seeded by SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// A stream determined by `seed` and all of `stream` (the job's own seed, job, clone, purpose).
    pub fn new(seed: u64, stream: [u64; 4]) -> Self {
        let mixed = stream.iter().fold(mix(seed), |state, &part| mix(state ^ mix(part)));
        Rng(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `limit`, which must not be 0. Fixed-point multiplication (Lemire 2019); the
    /// bias is below `limit` / 2^64.
    pub fn below(&mut self, limit: u64) -> u64 {
        debug_assert!(limit > 0);
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// The same number as a `u32`.
    #[inline]
    pub(crate) fn below_u32(&mut self, limit: u32) -> u32 {
        self.below(limit.into()) as u32
    }
}

/// SplitMix64's finaliser (Steele, Lea and Flood 2014).
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Numbers of a permutation that are computed together.
pub const BATCH: usize = 16;

/// A random permutation of the numbers below `len` in constant memory: a Feistel network over the
/// next power of four, applied again to results that are too large. Replaces fio's random map, which
/// has a bit for each block.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// A permutation chosen by `rng`.
    pub fn new(len: u64, rng: &mut Rng) -> Self {
        assert!(len > 0, "a permutation of nothing");
        let bits = u64::BITS - (len - 1).leading_zeros();
        let keys = std::array::from_fn(|_| rng.0.next_u64());
        Permutation { len, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// The numbers from the `first`-th on, at most [`BATCH`]. How often the network is applied to one is as
    /// good as random, so that the processor cannot begin the next before it knows; together, their
    /// computations overlap.
    pub fn get_all(&self, first: u64, numbers: &mut [u64]) {
        debug_assert!(first + numbers.len() as u64 <= self.len);
        for (index, number) in (first..).zip(numbers.iter_mut()) {
            let index = if mistake!(BlocksRepeat) { index / 2 * 2 } else { index };
            *number = self.apply(index);
        }
        let mut places: [usize; BATCH] = std::array::from_fn(|place| place);
        let mut left = numbers.len();
        while left > 0 {
            let mut beyond = 0;
            for at in 0..left {
                // Without a branch: this, too, is as good as random.
                places[beyond] = places[at];
                beyond += usize::from(numbers[places[at]] >= self.len);
            }
            left = beyond;
            places[..left].iter().for_each(|&place| numbers[place] = self.apply(numbers[place]));
        }
    }

    #[inline]
    fn apply(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_pinned_algorithm() {
        let mut rng = Rng(Xoshiro256PlusPlus::seed_from_u64(0));
        let first: Vec<u64> = (0..3).map(|_| rng.0.next_u64()).collect();
        // The reference implementation's first outputs for this SplitMix64 seed.
        assert_eq!(first, [5987356902031041503, 7051070477665621255, 6633766593972829180]);
    }

    #[test]
    fn streams_differ_and_are_reproducible() {
        let draw = |seed, stream| Rng::new(seed, stream).below(u64::MAX);
        assert_eq!(draw(1, [0, 0, 0, 0]), draw(1, [0, 0, 0, 0]));
        assert_ne!(draw(1, [0, 0, 0, 0]), draw(1, [0, 1, 0, 0]));
        assert_ne!(draw(1, [0, 1, 0, 0]), draw(1, [1, 0, 0, 0]));
        assert_ne!(draw(1, [0, 0, 0, 0]), draw(2, [0, 0, 0, 0]));
    }

    /// The definition: the network is applied until the number is one of the permutation.
    fn one_by_one(order: &Permutation, index: u64) -> u64 {
        let mut number = order.apply(index);
        while number >= order.len {
            number = order.apply(number);
        }
        number
    }

    #[test]
    fn permutation_visits_each_number_once() {
        for len in [1, 2, 3, 100, 1000, 4096, 5000] {
            let order = Permutation::new(len, &mut Rng::new(7, [len, 0, 0, 0]));
            let mut seen: Vec<u64> = (0..len).collect();
            for (at, numbers) in seen.chunks_mut(BATCH).enumerate() {
                order.get_all((at * BATCH) as u64, numbers);
            }
            for (index, &number) in (0..).zip(&seen) {
                assert_eq!(number, one_by_one(&order, index), "number {index} of {len}");
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..len), "{len} numbers");
        }
    }
}
