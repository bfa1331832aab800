//! Sorts the keys of a batch without a branch that depends on them: on random sectors the processor
//! would mispredict every third branch of a sort that has some.
//!
//! Networks of compare-exchanges, on two keys at a time. SSE2, which every x86-64 has, finds the lesser
//! of two pairs of floating-point numbers in one instruction, but not of integers that long; numbers
//! that are positive and finite are in the order of their bits.
//!
//! ```text
//!   16 keys, 8 rows of two    each column sorted, then the two columns merged: a run
//!   2 runs                    merged
//! ```
//!
//! The networks are Batcher's (D. Knuth, The Art of Computer Programming, volume 3, section 5.3.4).
//! Their places are literals, so that the rows stay in registers: a pair that is loaded where its
//! halves were just stored one by one waits for both stores.
use wide::f64x2;

/// Set in every key, and the next lower bit in none: as a floating-point number a key is then normal
/// and finite.
pub(super) const KEY: u64 = 1 << 62;

/// Comes after all keys.
const PADDING: u64 = f64::INFINITY.to_bits();

/// Keys of a run, in rows of two.
const RUN: usize = 16;
const ROWS: usize = RUN / 2;

type Row = f64x2;

/// Compares and exchanges rows, both columns together: of each two places the first gets the lesser.
macro_rules! exchange {
    ($rows:expr, $($low:literal $high:literal),+) => {
        $([$rows[$low], $rows[$high]] = ordered($rows[$low], $rows[$high]);)+
    };
}

/// Sorts the first `len` keys. May overwrite some of those after them.
#[inline(always)]
pub(super) fn sort<const N: usize>(keys: &mut [u64; N], len: usize) {
    const { assert!(N >= 2 * RUN) };
    match len {
        4..=RUN => sort_run(padded(&mut keys[..RUN], len)),
        17..=32 => {
            sort_run(&mut keys[..RUN]);
            sort_run(padded(&mut keys[RUN..2 * RUN], len - RUN));
            merge_runs(&mut keys[..2 * RUN]);
        }
        _ => keys[..len].sort_unstable(),
    }
}

#[inline(always)]
fn padded(keys: &mut [u64], len: usize) -> &mut [u64] {
    keys[len..].fill(PADDING);
    keys
}

#[inline(never)]
fn sort_run(keys: &mut [u64]) {
    let keys = &mut keys[..RUN];
    let mut rows: [Row; ROWS] = std::array::from_fn(|i| row(keys[2 * i], keys[2 * i + 1]));
    exchange!(rows, 0 1, 2 3, 4 5, 6 7, 0 2, 1 3, 4 6, 5 7, 1 2, 5 6);
    exchange!(rows, 0 4, 1 5, 2 6, 3 7, 2 4, 3 5, 1 2, 3 4, 5 6);
    // The first column upwards and the second downwards, key by key: the lesser ones are the first
    // column now. Each column falls and rises, or the other way round.
    macro_rules! cross {
        ($($i:literal $j:literal),+) => {$(
            let [a, _] = Row::transpose([rows[$i], rows[$j]]);
            let [_, b] = Row::transpose([rows[$j], rows[$i]]);
            [rows[$i], rows[$j]] = Row::transpose(ordered(a, b));
        )+};
    }
    cross!(0 7, 1 6, 2 5, 3 4);
    store(sort_columns(rows), keys);
}

#[inline(never)]
fn merge_runs(keys: &mut [u64]) {
    let keys = &mut keys[..2 * RUN];
    let mut low: [Row; ROWS] = std::array::from_fn(|i| row(keys[i], keys[ROWS + i]));
    let mut high: [Row; ROWS] = std::array::from_fn(|i| row(keys[RUN + i], keys[RUN + ROWS + i]));
    // In the same way: the lesser ones are the first run now. Then the columns of each.
    macro_rules! cross {
        ($($i:literal $j:literal),+) => {$(
            let [a, b] = Row::transpose([low[$i], low[$j]]);
            let [c, d] = Row::transpose([high[$j], high[$i]]);
            [low[$i], low[$j]] = Row::transpose(ordered(a.fast_min(d), b.fast_min(c)));
            [high[$i], high[$j]] = Row::transpose(ordered(a.fast_max(d), b.fast_max(c)));
        )+};
    }
    cross!(0 7, 1 6, 2 5, 3 4);
    store(sort_columns(low), &mut keys[..RUN]);
    store(sort_columns(high), &mut keys[RUN..]);
}

/// Sorts each column, if it falls and rises or the other way round.
#[inline(always)]
fn sort_columns(mut rows: [Row; ROWS]) -> [Row; ROWS] {
    exchange!(rows, 0 4, 1 5, 2 6, 3 7, 0 2, 1 3, 4 6, 5 7, 0 1, 2 3, 4 5, 6 7);
    rows
}

#[inline(always)]
fn ordered(a: Row, b: Row) -> [Row; 2] {
    [a.fast_min(b), a.fast_max(b)]
}

#[inline(always)]
fn row(a: u64, b: u64) -> Row {
    Row::new([f64::from_bits(a), f64::from_bits(b)])
}

/// Stores the first column, then the second.
#[inline(always)]
fn store(rows: [Row; ROWS], keys: &mut [u64]) {
    let (first, second) = keys.split_at_mut(ROWS);
    for ((row, first), second) in rows.iter().zip(first).zip(second) {
        [*first, *second] = row.to_array().map(f64::to_bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A network that sorts every sequence of zeros and ones sorts everything.
    #[test]
    fn runs_of_two_values_are_sorted() {
        for bits in 0..1u32 << RUN {
            let mut keys: [u64; RUN] = std::array::from_fn(|i| KEY | u64::from(bits >> i & 1));
            sort_run(&mut keys);
            assert!(keys.is_sorted(), "{bits:b}");
            assert_eq!(keys.iter().filter(|&&key| key != KEY).count(), bits.count_ones() as usize);
        }
    }

    #[test]
    fn runs_of_two_values_are_merged() {
        for (ones, others) in (0..=RUN).flat_map(|ones| (0..=RUN).map(move |others| (ones, others)))
        {
            let run = |ones| (0..RUN).map(move |i| KEY | u64::from(i + ones >= RUN));
            let mut keys: Vec<u64> = run(ones).chain(run(others)).collect();
            merge_runs(&mut keys);
            assert!(keys.is_sorted(), "{ones} and {others} ones");
            assert_eq!(keys.iter().filter(|&&key| key != KEY).count(), ones + others);
        }
    }

    proptest! {
        #[test]
        fn keys_are_sorted(
            keys in prop::collection::vec(prop_oneof![0..KEY / 2, 0..100u64], 0..=128)
        ) {
            let mut room = [u64::MAX; 128];
            let mut expected: Vec<u64> = keys.iter().map(|key| key | KEY).collect();
            room[..expected.len()].copy_from_slice(&expected);
            expected.sort_unstable();
            sort(&mut room, expected.len());
            prop_assert_eq!(&room[..expected.len()], expected);
        }
    }
}
