//! The commands in flight, by tag.
use zonal_blk::Tag;

/// A table with a slot for each tag of a hardware queue. The layer chooses the tag; the number of a value in
/// a [`Slab`](zonal_blk::Slab) is chosen by the table.
pub(super) struct TagTable<T> {
    slots: Vec<Option<T>>,
    len: usize,
}

impl<T> TagTable<T> {
    /// A table for tags below `depth`.
    pub fn new(depth: u16) -> Self {
        TagTable { slots: (0..depth).map(|_| None).collect(), len: 0 }
    }

    /// How many tags there are.
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// # Panics
    /// If the tag is in use, or is none of the queue.
    pub fn insert(&mut self, tag: Tag, value: T) {
        let before = self.slots[usize::from(tag.0)].replace(value);
        assert!(before.is_none(), "tag {} is in use", tag.0);
        self.len += 1;
    }

    pub fn remove(&mut self, tag: Tag) -> Option<T> {
        let value = self.slots.get_mut(usize::from(tag.0))?.take()?;
        self.len -= 1;
        Some(value)
    }

    pub fn get_mut(&mut self, tag: Tag) -> Option<&mut T> {
        self.slots.get_mut(usize::from(tag.0))?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Empties the table.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.len = 0;
        self.slots.iter_mut().filter_map(Option::take)
    }
}
