//! Sorts the pages of a superblock: by digits, which takes a fraction of the steps that comparisons take.
use super::Page;

/// Most bits of a digit.
const DIGIT: u32 = 11;
/// Fewer pages are sorted by comparisons.
const FEW: usize = 256;

/// Sorts pages below `bound`. `scratch` is for its capacity, which becomes that of the pages.
pub(super) fn sort(pages: &mut Vec<Page>, scratch: &mut Vec<Page>, bound: u32) {
    if pages.len() < FEW {
        return pages.sort_unstable();
    }
    scratch.resize(pages.len(), 0);
    let bits = u32::BITS - (bound - 1).leading_zeros();
    let width = bits.div_ceil(bits.div_ceil(DIGIT).max(1)).max(1);
    let mut all = [0_u32; 1 << DIGIT];
    for shift in (0..bits).step_by(width as usize) {
        let digit = |page: Page| (page >> shift) as usize & ((1 << width) - 1);
        let places = &mut all[..1 << width];
        places.fill(0);
        pages.iter().for_each(|&page| places[digit(page)] += 1);
        let mut sum = 0;
        for place in &mut *places {
            sum += std::mem::replace(place, sum);
        }
        for &page in &*pages {
            let place = &mut places[digit(page)];
            scratch[*place as usize] = page;
            *place += 1;
        }
        std::mem::swap(pages, scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_are_sorted_as_by_comparisons(
            mut pages in prop::collection::vec(any::<u32>(), 0..600),
            shift in 0..32_u32,
        ) {
            pages.iter_mut().for_each(|page| *page >>= shift);
            let bound = pages.iter().max().map_or(1, |most| most.saturating_add(1));
            let mut expected = pages.clone();
            expected.sort_unstable();
            sort(&mut pages, &mut Vec::new(), bound);
            prop_assert_eq!(pages, expected);
        }
    }
}
