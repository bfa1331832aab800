//! The pages of a closed superblock, packed: sorted, each as its distance from the one before, in
//! Rice code. A distance is written as its quotient by `2^low` in unary and its remainder in binary,
//! with the `low` for which that is shortest if the pages are spread evenly; then no list has more
//! than `low + 3` bits a page.
use super::Page;
use super::bytes::{Input, put32, put64};

/// A packed list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PageList {
    words: Box<[u64]>,
    len: u32,
    low: u8,
}

impl PageList {
    /// Packs pages below `bound`, which are in ascending order without repetition.
    pub(super) fn pack(pages: &[Page], bound: u32) -> Self {
        let Ok(len @ 1..) = u32::try_from(pages.len()) else { return PageList::default() };
        let low = (bound / len).max(1).ilog2();
        // Room for the most that it may need would be too much for most lists.
        let mut bits = Writer::new(pages.len() * (low as usize + 2) / 64 + 1);
        let mut next = 0;
        for &page in pages {
            let distance = page - next;
            next = page + 1;
            bits.rice(distance, low);
        }
        let low = u8::try_from(low).expect("a page has 32 bits");
        PageList { words: bits.finish(), len, low }
    }

    /// The pages, in ascending order.
    pub(super) fn pages(&self) -> impl Iterator<Item = Page> + '_ {
        let low = u32::from(self.low);
        let mut bits = Reader { words: &self.words, at: 0 };
        let mut next = 0;
        (0..self.len).map(move |_| {
            let page = next + bits.rice(low);
            next = page + 1;
            page
        })
    }

    /// Appends the list to `to`, as it is.
    pub(super) fn save(&self, to: &mut Vec<u8>) {
        put32(to, self.len);
        if self.len > 0 {
            put32(to, self.low.into());
            put32(to, u32::try_from(self.words.len()).expect("a list is small"));
            self.words.iter().for_each(|&word| put64(to, word));
        }
    }

    /// Reads what [`PageList::save`] has written.
    pub(super) fn restore(from: &mut Input<'_>) -> Option<Self> {
        let len = from.number32()?;
        if len == 0 {
            return Some(PageList::default());
        }
        let low = u8::try_from(from.below(32)?).ok()?;
        let words = from.number32()?;
        let words: Option<Box<[u64]>> = (0..words).map(|_| from.number64()).collect();
        Some(PageList { words: words?, len, low })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its size in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.words)
    }
}

/// Appends bits, the lowest of a word first.
struct Writer {
    words: Vec<u64>,
    /// The bits after those in `words`, and their number, below 64.
    bits: u64,
    used: u32,
}

impl Writer {
    fn new(words: usize) -> Self {
        Writer { words: Vec::with_capacity(words), bits: 0, used: 0 }
    }

    /// The lowest `len` bits of `value`, at most 63; the others are 0.
    #[inline]
    fn put(&mut self, value: u64, len: u32) {
        self.bits |= value << self.used;
        self.used += len;
        if self.used >= 64 {
            self.words.push(self.bits);
            self.used -= 64;
            // Of `value` this many bits are left.
            self.bits = value >> (len - self.used);
        }
    }

    /// A number: its quotient by `2^low` as that many zeroes and a one, and its remainder.
    #[inline]
    fn rice(&mut self, number: u32, low: u32) {
        let (mut quotient, remainder) = (number >> low, number & ((1 << low) - 1));
        // With one of these the rest is no longer than 31 bits of a quotient, a one and 31 of a remainder.
        while quotient >= 32 {
            self.put(0, 32);
            quotient -= 32;
        }
        self.put((u64::from(remainder) << 1 | 1) << quotient, quotient + 1 + low);
    }

    fn finish(mut self) -> Box<[u64]> {
        if self.used > 0 {
            self.words.push(self.bits);
        }
        self.words.into()
    }
}

struct Reader<'a> {
    words: &'a [u64],
    /// The next bit.
    at: usize,
}

impl Reader<'_> {
    /// The next 64 bits, with zeroes after the last.
    #[inline]
    fn ahead(&self) -> u64 {
        let (word, bit) = (self.at / 64, self.at % 64);
        let here = self.words.get(word).map_or(0, |word| word >> bit);
        let next = self.words.get(word + 1).copied().unwrap_or(0);
        if bit == 0 { here } else { here | next << (64 - bit) }
    }

    /// A number, as [`Writer::rice`] has written it.
    #[inline]
    fn rice(&mut self, low: u32) -> u32 {
        let mut quotient = 0;
        let mut ahead = self.ahead();
        let mut zeroes = ahead.trailing_zeros();
        while zeroes + 1 + low > 64 {
            // The one or a part of the remainder is beyond.
            let skipped = zeroes.min(32);
            quotient += skipped;
            self.at += skipped as usize;
            ahead = self.ahead();
            zeroes = ahead.trailing_zeros();
        }
        self.at += (zeroes + 1 + low) as usize;
        let remainder = ahead >> zeroes >> 1 & ((1 << low) - 1);
        (quotient + zeroes) << low | u32::try_from(remainder).expect("it has no more than 31 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_are_unpacked_as_they_were_packed_and_stay_below_their_bound(
            mut pages in prop::collection::btree_set(0..100_000_u32, 0..300),
            last in prop::option::of(Just(u32::MAX - 2)),
        ) {
            pages.extend(last);
            let pages: Vec<Page> = pages.into_iter().collect();
            let bound = pages.last().map_or(1, |last| last + 1);
            let list = PageList::pack(&pages, bound);
            prop_assert_eq!(list.pages().collect::<Vec<_>>(), &pages[..]);
            let bits = pages.len() * (usize::from(list.low) + 3) + 64;
            prop_assert!(list.memory() * 8 <= bits, "{} bytes for {} bits", list.memory(), bits);
        }
    }

    #[test]
    fn pages_in_a_row_take_a_bit_each() {
        let pages: Vec<Page> = (1000..1640).collect();
        assert_eq!(PageList::pack(&pages, 1640).memory(), 640 * 2 / 8 + 64);
    }
}
