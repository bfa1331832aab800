//! A table of zones that takes memory only where zones have been used: drives have a hundred thousand
//! of them, and most runs touch few.
use std::sync::OnceLock;

/// Entries that are made together: a page of one cache line each.
const CHUNK: usize = 64;

/// A table with a fixed number of entries, made when they or their neighbours are first used.
#[derive(Debug)]
pub struct LazyTable<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
    len: usize,
}

impl<T> LazyTable<T> {
    /// A table of `len` entries, none of which exists yet.
    pub fn new(len: usize) -> Self {
        LazyTable { chunks: (0..len.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(), len }
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
    /// If the index is beyond the table.
    #[inline(always)]
    pub fn get(&self, index: usize, make: impl FnMut(usize) -> T) -> &T {
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

    /// The entries that exist, with their indices, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let made = (0..).step_by(CHUNK).zip(&self.chunks);
        made.flat_map(|(first, chunk)| (first..).zip(chunk.get().into_iter().flatten()))
    }

    #[cold]
    #[inline(never)]
    fn make(&self, chunk: usize, make: impl FnMut(usize) -> T) -> &[T] {
        let first = chunk * CHUNK;
        let end = self.len.min(first + CHUNK);
        self.chunks[chunk].get_or_init(|| (first..end).map(make).collect())
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
        assert!(made.into_iter().eq((CHUNK..2 * CHUNK).chain(3 * CHUNK..3 * CHUNK + 5)));
        assert_eq!((table.peek(CHUNK + 1), table.peek(0)), (Some(&((CHUNK + 1) * 10)), None));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn an_entry_beyond_the_last_panics() {
        LazyTable::new(5).get(5, |index| index);
    }
}
