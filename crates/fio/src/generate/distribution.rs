//! Distributions of random blocks other than the uniform one (`random_distribution=`).
//!
//! Zipf and self-similar: Gray et al., "Quickly generating billion-record synthetic databases"
//! (SIGMOD 1994), as in fio. Logarithms and powers are those of `libm`: the same on every machine.
use crate::job::Distribution;
use crate::rng::Rng;

/// fio sums at most this many terms of the harmonic series for Zipf's law.
const MAX_TERMS: u64 = 10_000_000;
/// fio's bell curve is the mean of this many uniform numbers.
const BELL_DRAWS: u64 = 12;

/// Draws blocks of a region.
pub(super) enum BlockPicker {
    Uniform(u64),
    Ranked { shape: Shape, spread: Spread },
    Zoned(Vec<AccessZone>),
    Sequence(Sequence),
}

/// The blocks of a sequence, one after another.
pub(super) struct Sequence {
    order: Vec<u64>,
    next: usize,
    /// The block from which those of the order count.
    from: u64,
    /// How far a repetition is from the one before.
    step: u64,
    /// Of the region, after whose end it goes on at the start.
    blocks: u64,
}

impl Sequence {
    fn next(&mut self) -> u64 {
        let block = (self.from + self.order[self.next] % self.blocks) % self.blocks;
        self.next += 1;
        if self.next == self.order.len() {
            (self.next, self.from) = (0, (self.from + self.step) % self.blocks);
        }
        block
    }
}

/// A part of the region and its part of the I/O.
pub(super) struct AccessZone {
    /// Percentage of the I/O that goes to this zone or one before it.
    up_to: u64,
    start: u64,
    blocks: u64,
}

/// How likely the ranks are; rank 0 is the most likely one.
pub(super) enum Shape {
    Zipf(Zipf),
    Pareto { ranks: f64, power: f64 },
    Normal { ranks: u64, width: u64 },
}

pub(super) struct Zipf {
    ranks: f64,
    zeta: f64,
    eta: f64,
    alpha: f64,
    /// Up to here in units of 1 / `zeta` it is rank 1.
    second: f64,
}

impl Zipf {
    fn new(ranks: u64, theta: f64) -> Self {
        let terms = ranks.min(MAX_TERMS);
        let zeta: f64 = (1..=terms).map(|rank| libm::pow(rank as f64, -theta)).sum();
        let second = 1.0 + libm::pow(0.5, theta);
        let ranks = ranks as f64;
        let eta = (1.0 - libm::pow(2.0 / ranks, 1.0 - theta)) / (1.0 - second / zeta);
        Zipf { ranks, zeta, eta, alpha: 1.0 / (1.0 - theta), second }
    }

    fn rank(&self, unit: f64) -> f64 {
        let place = unit * self.zeta;
        if place < 1.0 {
            0.0
        } else if place < self.second {
            1.0
        } else {
            self.ranks * libm::pow(self.eta * unit - self.eta + 1.0, self.alpha)
        }
    }
}

impl Shape {
    fn rank(&self, rng: &mut Rng) -> u64 {
        let (ranks, rank) = match self {
            Shape::Zipf(zipf) => (zipf.ranks, zipf.rank(rng.unit())),
            // As in fio, which leaves out the last rank: of two blocks all I/O goes to one.
            Shape::Pareto { ranks, power } => {
                (*ranks, (ranks - 1.0) * libm::pow(rng.unit(), *power))
            }
            Shape::Normal { ranks, width } => return normal_rank(*ranks, *width, rng),
        };
        // Rounding may reach the end.
        rank.min(ranks - 1.0) as u64
    }
}

/// The middle of the bell curve, rounded up: the most likely of the numbers below `ranks`.
fn middle(ranks: u64) -> u64 {
    ranks.div_ceil(2) % ranks
}

/// As in fio: the mean, rounded up, of uniform numbers up to and with `ranks`, whose standard deviation is
/// about `ranks` / 12, to which the deviation adds a uniform part of its width, or as much of that as stays in the
/// region. Ranks count from the middle on and go on at 0 after the last one.
fn normal_rank(ranks: u64, width: u64, rng: &mut Rng) -> u64 {
    let sum: u64 = (0..BELL_DRAWS).map(|_| rng.below(ranks + 1)).sum();
    let mean = sum.div_ceil(BELL_DRAWS);
    let mut added = (width as f64 * rng.unit()) as i64 - (width / 2) as i64;
    let fits = |added: i64| mean.checked_add_signed(added).is_some_and(|number| number < ranks);
    while added != 0 && !fits(added) {
        added /= 2;
    }
    (mean.saturating_add_signed(added) + ranks - middle(ranks)) % ranks
}

/// 2^64 divided by the square of the golden ratio, to the nearest odd number: its multiples are as far apart
/// as those of any number can be (Knuth, The Art of Computer Programming, volume 3, section 6.4).
const GOLDEN: u64 = 0x61c8_8646_80b5_83eb;

/// Scatters ranks over the blocks, so that likely blocks are not neighbours.
pub(super) struct Spread {
    blocks: u64,
    /// The block of rank 0.
    center: u64,
    order: ScatterOrder,
}

/// Where ranks after the first are.
enum ScatterOrder {
    /// At the remainders of multiples of [`GOLDEN`], as in fio: several ranks may have the same block, more
    /// or fewer depending on the number of blocks.
    Hashed,
    /// This many blocks apart, which has no divisor in common with the number of blocks.
    Apart(u64),
    /// Next to each other.
    Ascending,
}

impl Spread {
    fn new(blocks: u64, center: Option<f64>, rng: &mut Rng) -> Self {
        let center = match center {
            Some(center) => (center * blocks as f64) as u64 % blocks,
            None => rng.below(blocks),
        };
        Spread { blocks, center, order: ScatterOrder::Hashed }
    }

    /// Ranks have blocks of their own.
    fn apart(self) -> Self {
        let golden = (self.blocks as f64 * 0.618_033_988_749_895) as u64;
        let is_prime_to = |step: &u64| gcd(*step, self.blocks) == 1;
        let step = (golden.max(1)..).find(is_prime_to).expect("1 + a multiple");
        Spread { order: ScatterOrder::Apart(step), ..self }
    }

    fn block(&self, rank: u64) -> u64 {
        let place = match self.order {
            ScatterOrder::Hashed => u128::from(rank.wrapping_mul(GOLDEN)),
            ScatterOrder::Apart(step) => u128::from(rank) * u128::from(step),
            ScatterOrder::Ascending => u128::from(rank),
        } + u128::from(self.center);
        match u64::try_from(place) {
            Ok(place) => place % self.blocks,
            Err(_) => (place % u128::from(self.blocks)) as u64,
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl BlockPicker {
    /// Draws among `blocks`, each `unit` bytes after the one before.
    pub(super) fn new(distribution: &Distribution, blocks: u64, unit: u64, rng: &mut Rng) -> Self {
        let ranks = blocks as f64;
        let mut ranked = |shape, center| {
            let spread = Spread::new(blocks, center, rng);
            let is_bell = matches!(shape, Shape::Normal { .. });
            let spread = if is_bell { spread.apart() } else { spread };
            BlockPicker::Ranked { shape, spread }
        };
        match *distribution {
            Distribution::Sequence(ref order) => {
                let order = order.clone();
                BlockPicker::Sequence(Sequence { order, next: 0, from: 0, step: 0, blocks })
            }
            Distribution::Uniform => BlockPicker::Uniform(blocks),
            // As in fio: the start of each zone and its length are whole blocks, each rounded down.
            Distribution::Zoned(ref zones) => {
                let part = |percent: u64| (u128::from(blocks) * u128::from(percent) / 100) as u64;
                let places = zones.iter().scan(0, |sum, &(io, percent)| {
                    let start = part(*sum);
                    *sum += u64::from(percent);
                    Some((io, start, part(percent.into())))
                });
                Self::zoned(places, blocks)
            }
            Distribution::ZonedAbs(ref zones) => {
                let places = zones.iter().scan(0_u64, |sum, &(io, bytes)| {
                    let start = *sum / unit;
                    *sum = sum.saturating_add(bytes);
                    Some((io, start, *sum / unit - start))
                });
                Self::zoned(places, blocks)
            }
            Distribution::Zipf { theta, center } => {
                ranked(Shape::Zipf(Zipf::new(blocks, theta)), center)
            }
            Distribution::Pareto { skew, center } => {
                let power = libm::log(skew) / libm::log(1.0 - skew);
                ranked(Shape::Pareto { ranks, power }, center)
            }
            Distribution::Normal { deviation, center } => {
                let width = libm::ceil(ranks * deviation / 100.0) as u64;
                let shape = Shape::Normal { ranks: blocks, width: width.min(blocks / 2) };
                ranked(shape, center)
            }
        }
    }

    /// The same with the likely blocks next to each other: around the middle for a bell curve, otherwise
    /// from a random block on.
    pub(super) fn not_scattered(distribution: &Distribution, blocks: u64, rng: &mut Rng) -> Self {
        match Self::new(distribution, blocks, 1, rng) {
            BlockPicker::Ranked { shape, .. } => {
                let center = match shape {
                    Shape::Normal { .. } => middle(blocks),
                    _ => rng.below(blocks),
                };
                let spread = Spread { blocks, center, order: ScatterOrder::Ascending };
                BlockPicker::Ranked { shape, spread }
            }
            other => other,
        }
    }

    /// The same, but each repetition of a sequence begins after the last block of the one before.
    pub(super) fn strided(mut self, is_strided: bool) -> Self {
        if let BlockPicker::Sequence(sequence) = &mut self {
            let last = sequence.order.iter().max().expect("a sequence has a block");
            sequence.step = if is_strided { last % sequence.blocks + 1 } else { 0 };
        }
        self
    }

    /// I/O that no zone is for goes anywhere; a zone that lies beyond the end has the last block.
    fn zoned(places: impl Iterator<Item = (u8, u64, u64)>, blocks: u64) -> Self {
        let mut up_to = 0;
        let mut zones: Vec<AccessZone> = places
            .map(|(io, start, wanted)| {
                up_to += u64::from(io);
                let start = start.min(blocks - 1);
                let end = start.saturating_add(wanted).min(blocks);
                AccessZone { up_to, start, blocks: end.saturating_sub(start).max(1) }
            })
            .collect();
        zones.push(AccessZone { up_to: 100, start: 0, blocks });
        BlockPicker::Zoned(zones)
    }

    /// The next block.
    pub(super) fn next(&mut self, rng: &mut Rng) -> u64 {
        match self {
            BlockPicker::Sequence(sequence) => sequence.next(),
            BlockPicker::Uniform(blocks) => rng.below(*blocks),
            BlockPicker::Ranked { shape, spread } => spread.block(shape.rank(rng)),
            BlockPicker::Zoned(zones) => {
                let percent = rng.below(100);
                let zone = zones.iter().find(|zone| percent < zone.up_to).expect("100 is the last");
                zone.start + rng.below(zone.blocks)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    fn counts(distribution: &Distribution, blocks: u64) -> Vec<usize> {
        let mut rng = Rng::new(3, [0; 4]);
        let mut picker = BlockPicker::new(distribution, blocks, 4096, &mut rng);
        let mut counts = vec![0; blocks as usize];
        (0..DRAWS).for_each(|_| counts[picker.next(&mut rng) as usize] += 1);
        counts
    }

    /// Pearson's statistic of observed counts, divided by the degrees of freedom: about 1 if they
    /// follow the probabilities, with cells of less than five expected joined.
    fn chi_squared(counts: &[usize], probability: impl Fn(usize) -> f64) -> f64 {
        let (mut sum, mut cells) = (0.0, 0);
        let (mut seen, mut expected) = (0.0, 0.0);
        for (rank, &count) in counts.iter().enumerate() {
            seen += count as f64;
            expected += probability(rank) * DRAWS as f64;
            if expected >= 5.0 {
                sum += (seen - expected) * (seen - expected) / expected;
                cells += 1;
                (seen, expected) = (0.0, 0.0);
            }
        }
        sum / f64::from(cells - 1)
    }

    /// By rank, from rank 0 at `center`, where each rank has a block of its own: a power of two of them.
    fn by_rank(distribution: &Distribution, blocks: u64) -> Vec<usize> {
        let counts = counts(distribution, blocks);
        let spread = Spread::new(blocks, Some(0.0), &mut Rng::new(1, [0; 4]));
        (0..blocks).map(|rank| counts[spread.block(rank) as usize]).collect()
    }

    #[test]
    fn zones_of_less_than_a_block_begin_where_they_do_in_fio() {
        // fio 3.41: `--rw=randwrite --bs=12k --size=32k --random_distribution=zoned:30/10:70/90`.
        let zoned = Distribution::Zoned(vec![(30, 10), (70, 90)]);
        assert_eq!(counts(&zoned, 2), [DRAWS, 0]);
        let absolute = Distribution::ZonedAbs(vec![(30, 4096), (70, 4096)]);
        let counts = counts(&absolute, 2);
        assert!(counts[0].abs_diff(DRAWS * 3 / 10) < DRAWS / 100, "{counts:?}");
    }

    #[test]
    fn ranks_have_the_blocks_that_they_have_in_fio() {
        // fio 3.41: `--rw=randread --bs=4k --size=4036k --norandommap --random_distribution=zipf:1.2:0`,
        // and with `--size=4000k`: the most frequent blocks, and how many there are.
        let of_ranks = |blocks, count| {
            let spread = Spread::new(blocks, Some(0.0), &mut Rng::new(1, [0; 4]));
            (0..count).map(|rank| spread.block(rank)).collect::<Vec<_>>()
        };
        assert_eq!(of_ranks(1009, 10), [0, 913, 817, 337, 241, 145, 674, 578, 98, 2]);
        let distinct = |blocks| {
            let mut seen = of_ranks(blocks, blocks);
            seen.sort_unstable();
            seen.dedup();
            seen.len()
        };
        assert_eq!([1009, 1000, 1024].map(distinct), [839, 308, 1024]);
    }

    #[test]
    fn few_blocks_have_the_shares_that_they_have_in_fio() {
        // fio 3.41: `--ioengine=null --rw=randread --bs=4k --size=8k --io_size=80000k --norandommap
        // --random_distribution=zipf:1.2`, and so on, the most frequent blocks first.
        let zipf = |theta| Distribution::Zipf { theta, center: None };
        let pareto = |skew| Distribution::Pareto { skew, center: None };
        let normal = Distribution::Normal { deviation: 0.0, center: None };
        for (distribution, blocks, shares) in [
            (zipf(0.5), 1, &[1.0][..]),
            (zipf(0.5), 2, &[0.585, 0.415]),
            (zipf(1.2), 2, &[0.694, 0.306]),
            (zipf(1.2), 5, &[0.493, 0.230, 0.210, 0.067, 0.0]),
            (pareto(0.2), 2, &[1.0, 0.0]),
            (pareto(0.9), 3, &[1.0, 0.0, 0.0]),
            (pareto(0.2), 5, &[0.824, 0.094, 0.082, 0.0, 0.0]),
            (normal.clone(), 1, &[1.0]),
            (normal.clone(), 2, &[0.577, 0.423]),
            (normal, 7, &[0.548, 0.229, 0.202, 0.012, 0.010]),
        ] {
            let mut counts = counts(&distribution, blocks);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            for (at, share) in shares.iter().enumerate() {
                let ours = counts[at] as f64 / DRAWS as f64;
                assert!((ours - share).abs() < 0.01, "{blocks} blocks, {at}: {ours}, fio {share}");
            }
        }
    }

    #[test]
    fn a_bell_curve_with_a_deviation_stays_in_the_region_however_small_that_is() {
        // fio 3.41 goes on for ever where the mean is the number of blocks, as it often is of two.
        for blocks in 1..8 {
            let with = |deviation| Distribution::Normal { deviation, center: Some(0.0) };
            assert_eq!(counts(&with(20.0), blocks).iter().sum::<usize>(), DRAWS);
            let counts = counts(&with(0.0), blocks);
            assert_eq!(counts.iter().max(), Some(&counts[0]), "{counts:?}");
        }
    }

    #[test]
    fn every_rank_of_a_bell_curve_has_a_block_of_its_own() {
        for blocks in [3, 10, 1000, 4096, 30_030] {
            let spread = Spread::new(blocks, None, &mut Rng::new(1, [0; 4])).apart();
            let mut seen: Vec<u64> = (0..blocks).map(|rank| spread.block(rank)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..blocks));
        }
    }

    #[test]
    fn sequences_repeat_at_their_place_or_one_after_another() {
        let picked = |is_strided: bool, blocks: u64, count: usize| {
            let mut rng = Rng::new(1, [0; 4]);
            let sequence = Distribution::Sequence(vec![2, 0, 1]);
            let picker = BlockPicker::new(&sequence, blocks, 4096, &mut rng);
            let mut picker = picker.strided(is_strided);
            (0..count).map(|_| picker.next(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(picked(false, 100, 6), [2, 0, 1, 2, 0, 1]);
        assert_eq!(picked(true, 100, 6), [2, 0, 1, 5, 3, 4]);
        assert_eq!(picked(true, 4, 6), [2, 0, 1, 1, 3, 0], "on at the start after the end");
    }

    #[test]
    fn zipf_follows_the_published_formula() {
        for theta in [0.5, 0.9, 1.2] {
            let blocks = 1024;
            let ranks = by_rank(&Distribution::Zipf { theta, center: Some(0.0) }, blocks);
            let zipf = Zipf::new(blocks, theta);
            // The probability of a rank is the length of the units that give it.
            let unit_of = |rank: f64| {
                (libm::pow(rank / zipf.ranks, 1.0 / zipf.alpha) - 1.0 + zipf.eta) / zipf.eta
            };
            let probability = |rank: usize| match rank {
                0 => 1.0 / zipf.zeta,
                1 => (zipf.second - 1.0) / zipf.zeta,
                2 => unit_of(3.0) - zipf.second / zipf.zeta,
                rank => unit_of(rank as f64 + 1.0) - unit_of(rank as f64),
            };
            let statistic = chi_squared(&ranks, probability);
            assert!((0.8..1.2).contains(&statistic), "theta={theta}: {statistic}");
            let exact = |rank: usize| libm::pow(rank as f64 + 1.0, -theta) / zipf.zeta;
            let error = ranks[0] as f64 / DRAWS as f64 / exact(0) - 1.0;
            assert!(error.abs() < 0.05, "theta={theta}: rank 0 is off by {error}");
        }
    }

    #[test]
    fn pareto_gives_a_fraction_of_the_blocks_the_rest_of_the_io() {
        let (blocks, skew) = (1024, 0.2);
        let ranks = by_rank(&Distribution::Pareto { skew, center: Some(0.0) }, blocks);
        let part = |rank: usize| libm::pow(rank as f64 / 1023.0, libm::log(0.8) / libm::log(0.2));
        let statistic = chi_squared(&ranks[..1023], |rank| part(rank + 1) - part(rank));
        assert!((0.8..1.2).contains(&statistic), "{statistic}");
        assert_eq!(ranks[1023], 0, "the last one has none");
        let top: usize = ranks[..205].iter().sum();
        let share = top as f64 / DRAWS as f64;
        assert!((0.79..0.81).contains(&share), "{share}");
    }

    /// Counts of fio 3.33, highest first, every 40th of the 1009 blocks, a prime number, so that fio's
    /// hash has a block for nearly every rank:
    /// `fio --name=n --ioengine=null --thread --write_iolog=log --rw=randread --bs=4k --size=4036k
    /// --io_size=2000m --random_distribution=normal:D:0`.
    const FIO_NORMAL: [(f64, &[f64]); 2] = [
        (0.0, &[2522.0, 2305.0, 2154.0, 1910.0, 1564.0, 1184.0, 896.0, 622.0, 421.0, 252.0]),
        (30.0, &[1655.0, 1545.0, 1504.0, 1450.0, 1353.0, 1222.0, 1100.0, 916.0, 780.0, 622.0]),
    ];
    const FIO_DRAWS: f64 = 512_000.0;

    #[test]
    fn normal_has_the_bell_curve_of_fio() {
        for (deviation, recorded) in FIO_NORMAL {
            let mut counts = counts(&Distribution::Normal { deviation, center: None }, 1009);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            for (at, fio) in recorded.iter().enumerate() {
                let [ours, fios] = [counts[at * 40] as f64 / DRAWS as f64, fio / FIO_DRAWS];
                // Four standard deviations of either count, and of the choice of the rank.
                let margin = 0.06 * fios + 4.0 * (fios / DRAWS as f64).sqrt() + 2e-4;
                assert!((ours - fios).abs() < margin, "{deviation}, {at}: {ours} and {fios}");
            }
        }
    }

    #[test]
    fn zones_have_their_part_of_the_io_and_of_the_region() {
        let zoned = Distribution::Zoned(vec![(50, 5), (30, 15), (20, 80)]);
        let absolute = Distribution::ZonedAbs(vec![(50, 50 << 12), (30, 150 << 12), (20, 1 << 30)]);
        for distribution in [zoned, absolute] {
            let statistic = chi_squared(&counts(&distribution, 1000), |block| match block {
                0..50 => 0.5 / 50.0,
                50..200 => 0.3 / 150.0,
                _ => 0.2 / 800.0,
            });
            assert!((0.8..1.2).contains(&statistic), "{statistic}");
        }
    }

    #[test]
    fn zones_in_percent_are_whole_blocks() {
        // fio 3.41: `--size=44k --bs=4k --norandommap --random_distribution=zoned:60/10:30/20:10/70`.
        let counts = counts(&Distribution::Zoned(vec![(60, 10), (30, 20), (10, 70)]), 11);
        let parts = [&counts[..1], &counts[1..3], &counts[3..10], &counts[10..]];
        let shares = parts.map(|part| (part.iter().sum::<usize>() * 100).div_ceil(DRAWS));
        assert!((58..=62).contains(&shares[0]) && (28..=32).contains(&shares[1]), "{counts:?}");
        assert_eq!(shares[3], 0, "{counts:?}");
    }

    #[test]
    fn zones_begin_and_end_at_whole_blocks() {
        let visited = |distribution: &Distribution, blocks| {
            let counts = counts(distribution, blocks);
            (0..counts.len()).filter(|&at| counts[at] > 0).collect::<Vec<_>>()
        };
        // fio 3.41: as above, with --size=68k: no zone has the fifth block, nor the last one.
        let percent = Distribution::Zoned(vec![(60, 10), (30, 20), (10, 70)]);
        assert!(visited(&percent, 17).into_iter().eq((0..4).chain(5..16)));
        // --random_distribution=zoned_abs:50/10k:30/10k:20/10k: the third zone has the blocks 5 and 6.
        let zones = [(50, 10 << 10), (30, 10 << 10), (20, 10 << 10)];
        let absolute = Distribution::ZonedAbs(zones.to_vec());
        assert!(visited(&absolute, 256).into_iter().eq(0..7));
    }

    #[test]
    fn zones_beyond_the_end_and_io_without_a_zone_stay_in_the_region() {
        let beyond = Distribution::ZonedAbs(vec![(50, 4 << 12), (20, 100 << 12), (10, 1 << 30)]);
        let counts = counts(&beyond, 10);
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    }
}
