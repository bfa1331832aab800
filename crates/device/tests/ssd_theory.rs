//! The translation layer against theory: its write amplification in steady state.
use zonal_device::rng::Rng;
use zonal_device::ssd::closed_forms::{Part, fifo, fifo_of_parts, greedy};
use zonal_device::ssd::translation::{Isolation, Policy, Shape, Translation};

/// Pages of a superblock: few, so that the tests are quick.
const SMALL: u32 = 16;
/// Enough that rounding to whole pages does not matter.
const LARGE: u32 = 64;
const LOGICAL: u32 = 1 << 16;

/// Over-provisioning, as physical for each logical page.
const ALPHAS: [f64; 4] = [1.07, 1.125, 1.28, 1.5];

const HOT: Part = Part { data: 0.2, writes: 0.8 };
const COLD: Part = Part { data: 0.8, writes: 0.2 };

/// A share in thousandths.
fn thousandths(part: f64) -> u64 {
    (part * 1000.0).round() as u64
}

fn layer(alpha: f64, superblock_pages: u32, policy: Policy, streams: usize) -> Translation {
    let pages = u64::from(LOGICAL) * thousandths(alpha) / 1000;
    // Those that stay free hold no data: theory has no such pages.
    let free = 2;
    Translation::new(Shape {
        groups: 1,
        logical_pages: LOGICAL,
        superblocks: u32::try_from(pages / u64::from(superblock_pages)).unwrap() + free,
        superblock_pages,
        streams: vec![Isolation::Persistent; streams],
        separate: false,
        policy,
        low: free,
        high: free,
    })
    .expect("it can collect")
}

/// The write amplification once it no longer changes, of overwrites that `draw` chooses.
fn amplification(mut layer: Translation, mut draw: impl FnMut(&mut Rng) -> (u32, u16)) -> f64 {
    let mut rng = Rng::new(1);
    let streams = layer.shape().streams.len() as u64;
    for page in 0..LOGICAL {
        layer.overwrite(page, u16::try_from(rng.below(streams)).unwrap());
    }
    let mut run = |writes| {
        for _ in 0..writes {
            let (page, stream) = draw(&mut rng);
            layer.overwrite(page, stream);
        }
        layer.counts()
    };
    let warm = run(4 * LOGICAL);
    run(3 * LOGICAL).since(&warm).write_amplification()
}

fn page_of(rng: &mut Rng, from: f64, part: Part) -> u32 {
    let first = (from * f64::from(LOGICAL)) as u32;
    let pages = (part.data * f64::from(LOGICAL)) as u64;
    first + u32::try_from(rng.below(pages)).unwrap()
}

/// A page of the hot or the cold part, and a stream for each part if there are two.
fn hot_and_cold(rng: &mut Rng, streams: u16) -> (u32, u16) {
    if rng.below(1000) < thousandths(HOT.writes) {
        (page_of(rng, 0.0, HOT), 0)
    } else {
        (page_of(rng, HOT.data, COLD), streams - 1)
    }
}

fn uniform(rng: &mut Rng) -> (u32, u16) {
    (u32::try_from(rng.below(LOGICAL.into())).unwrap(), 0)
}

#[track_caller]
fn assert_within(percent: f64, found: f64, expected: f64) {
    let error = (found / expected - 1.0) * 100.0;
    assert!(error.abs() < percent, "found {found:.3}, theory {expected:.3}: {error:+.2} %");
}

#[test]
fn uniform_overwrites_cleaned_in_order_cost_what_the_closed_form_says() {
    for alpha in ALPHAS {
        let found = amplification(layer(alpha, SMALL, Policy::Fifo, 1), uniform);
        assert_within(3.0, found, fifo(alpha));
    }
}

#[test]
fn greedy_cleaning_costs_less_by_what_theory_says_for_the_block_size() {
    for alpha in ALPHAS {
        let found = amplification(layer(alpha, SMALL, Policy::Greedy, 1), uniform);
        assert_within(3.0, found, greedy(alpha, SMALL));
    }
}

#[test]
fn hot_and_cold_data_that_are_mixed_cost_more_than_uniform_ones_as_theory_says() {
    for alpha in ALPHAS {
        let found = amplification(layer(alpha, SMALL, Policy::Fifo, 1), |rng: &mut Rng| {
            hot_and_cold(rng, 1)
        });
        assert_within(3.0, found, fifo_of_parts(alpha, &[HOT, COLD]));
    }
}

/// Each stream has the same share of valid pages in the block that is cleaned, so it costs as much as it
/// would alone.
#[test]
fn hot_and_cold_data_in_streams_of_their_own_cost_what_uniform_ones_do() {
    for alpha in ALPHAS {
        let found = amplification(layer(alpha, LARGE, Policy::Greedy, 2), |rng: &mut Rng| {
            hot_and_cold(rng, 2)
        });
        assert_within(3.0, found, greedy(alpha, LARGE));
    }
}
