//! Random numbers that are the same on every platform and in every version: xoshiro256++ (Blackman
//! and Vigna, "Scrambled linear pseudorandom number generators", 2021), seeded through splitmix64 as
//! its authors advise.

/// A xoshiro256++ generator.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A generator with this seed. Neighbouring seeds yield unrelated sequences.
    pub fn new(mut seed: u64) -> Self {
        Rng(std::array::from_fn(|_| splitmix64(&mut seed)))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.next()) * u128::from(bound);
        u64::try_from(scaled >> 64).expect("the upper half of 128 bits")
    }
}

/// A hash of a number (one step of splitmix64): different numbers have different hashes.
pub fn mix(mut number: u64) -> u64 {
    splitmix64(&mut number)
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_outputs_are_those_of_the_published_generators() {
        let mut rng = Rng([1, 2, 3, 4]);
        let first: Vec<u64> = (0..5).map(|_| rng.next()).collect();
        let published =
            [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205];
        assert_eq!(first, published);
        assert_eq!(splitmix64(&mut 1234567), 6457827717110365317);
    }

    #[test]
    fn numbers_stay_below_the_bound() {
        let mut rng = Rng::new(7);
        assert!((0..1000).all(|_| rng.below(10) < 10));
        assert_eq!(rng.below(0), 0);
    }
}
