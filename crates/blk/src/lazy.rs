//! A table of zones that takes memory only where zones have been used: drives have a hundred thousand
//! of them, and most runs touch few.
use once_cell::race::OnceBox;

/// Entries that are made together: a page of one cache line each.
const CHUNK: usize = 64;

/// A table with a fixed number of entries, made when they or their neighbours are first used. It takes
/// eight bytes for 64 entries that have not been: a pointer, whose load also says whether they exist.
///
/// Two threads that need the same entries at the same time both make them, and those of one are dropped.
#[derive(Debug)]
pub struct LazyTable<T> {
    chunks: Box<[OnceBox<[T; CHUNK]>]>,
    len: usize,
}

impl<T> LazyTable<T> {
    /// A table of `len` entries, none of which exists yet.
    pub fn new(len: usize) -> Self {
        LazyTable { chunks: (0..len.div_ceil(CHUNK)).map(|_| OnceBox::new()).collect(), len }
    }

    /// The number of entries, made or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// An entry, which `make` makes from its index if it does not exist.
    ///
    /// # Panics
    /// If the index is beyond the table; in a release build, if it is beyond the next multiple of 64.
    #[inline(always)]
    pub fn get(&self, index: usize, make: impl FnMut(usize) -> T) -> &T {
        debug_assert!(index < self.len, "entry {index} of a table of {}", self.len);
        let chunk = &self.chunks[index / CHUNK];
        let entries = match chunk.get() {
            Some(entries) => entries,
            None => self.make(index / CHUNK, make),
        };
        &entries[index % CHUNK]
    }

    /// An entry, if it exists.
    ///
    /// # Panics
    /// If the index is beyond the table.
    #[inline]
    pub fn peek(&self, index: usize) -> Option<&T> {
        assert!(index < self.len, "entry {index} of a table of {}", self.len);
        self.chunks[index / CHUNK].get().map(|entries| &entries[index % CHUNK])
    }

    /// How many entries from `index` on do not exist, up to the first that does.
    pub fn missing_from(&self, index: usize, max: usize) -> usize {
        let end = self.len.min(index.saturating_add(max));
        let mut at = index;
        while at < end && self.chunks[at / CHUNK].get().is_none() {
            at = (at / CHUNK + 1) * CHUNK;
        }
        at.min(end).saturating_sub(index)
    }

    /// The entries that exist, with their indices, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let made = (0..).step_by(CHUNK).zip(&self.chunks);
        let all = made.flat_map(|(first, chunk)| (first..).zip(chunk.get().into_iter().flatten()));
        all.take_while(|&(index, _)| index < self.len)
    }

    #[cold]
    #[inline(never)]
    fn make(&self, chunk: usize, mut make: impl FnMut(usize) -> T) -> &[T; CHUNK] {
        let first = chunk * CHUNK;
        self.chunks[chunk].get_or_init(|| {
            // What lies beyond the last entry is never looked at.
            let make = |index: usize| make(index.min(self.len - 1));
            let entries: Box<[T]> = (first..first + CHUNK).map(make).collect();
            entries.try_into().unwrap_or_else(|_| unreachable!("{CHUNK} entries were made"))
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn entries_are_made_with_their_neighbours_and_once() {
        let table = LazyTable::new(3 * CHUNK + 5);
        assert!(table.peek(CHUNK).is_none());
        assert_eq!(table.get(CHUNK + 3, |index| index * 10), &((CHUNK + 3) * 10));
        assert_eq!(table.get(3 * CHUNK + 4, |index| index), &(3 * CHUNK + 4));
        assert_eq!(table.get(CHUNK, |_| 0), &(CHUNK * 10), "it was there");
        let made: Vec<usize> = table.iter().map(|(index, _)| index).collect();
        assert_eq!(made.last(), Some(&(3 * CHUNK + 4)), "no entry beyond the table is shown");
        assert!(made.into_iter().eq((CHUNK..2 * CHUNK).chain(3 * CHUNK..3 * CHUNK + 5)));
        assert_eq!((table.peek(CHUNK + 1), table.peek(0)), (Some(&((CHUNK + 1) * 10)), None));
    }

    #[test]
    fn entries_that_are_missing_are_counted_up_to_the_first_that_exists() {
        let table = LazyTable::new(4 * CHUNK + 5);
        table.get(2 * CHUNK + 1, |index| index);
        let missing = |from, max| table.missing_from(from, max);
        assert_eq!((missing(0, usize::MAX), missing(3, 10)), (2 * CHUNK, 10));
        assert_eq!((missing(2 * CHUNK, 7), missing(3 * CHUNK - 1, 7)), (0, 0));
        assert_eq!((missing(4 * CHUNK, 1000), missing(4 * CHUNK + 5, 1)), (5, 0));
    }

    #[test]
    #[should_panic]
    fn an_entry_beyond_the_last_panics() {
        LazyTable::new(5).get(CHUNK, |index| index);
    }
}
