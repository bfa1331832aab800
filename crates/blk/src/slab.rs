//! Values by small numbers, which are reused. Memory is never returned, so that nothing is allocated
//! in steady state.
use std::ops::{Index, IndexMut};

/// A table of values by small numbers.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds a value. Returns its number, which is less than the most values there ever were.
    #[inline]
    pub fn insert(&mut self, value: T) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.slots[number] = Some(value);
                number
            }
            None => {
                self.slots.push(Some(value));
                self.slots.len() - 1
            }
        }
    }

    /// The value of a number, if there is one.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        self.slots.get(number)?.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.slots.get_mut(number)?.as_mut()
    }

    /// Takes out the value of a number, which is free then.
    #[inline]
    pub fn remove(&mut self, number: usize) -> Option<T> {
        let value = self.slots.get_mut(number)?.take()?;
        self.free.push(number);
        Some(value)
    }

    /// The values that there are, by ascending numbers.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The value of a number, which must have one.
impl<T> Index<usize> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        self.get(number).expect("a number that has a value")
    }
}

/// The same, to be changed.
impl<T> IndexMut<usize> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.get_mut(number).expect("a number that has a value")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_small_and_reused() {
        let mut slab = Slab::default();
        assert_eq!(["a", "b", "c"].map(|value| slab.insert(value)), [0, 1, 2]);
        assert_eq!((slab.remove(1), slab.remove(1), slab.len()), (Some("b"), None, 2));
        assert!([1, 3].iter().all(|&number| slab.get_mut(number).is_none()));
        assert_eq!((slab.insert("d"), slab.len()), (1, 3));
        assert_eq!(slab.get_mut(1), Some(&mut "d"));
        slab[2] = "e";
        assert_eq!((slab.get(2), slab[1]), (Some(&"e"), "d"));
        slab.remove(0);
        assert!(slab.iter().eq(&["d", "e"]));
    }

    #[test]
    #[should_panic(expected = "a number that has a value")]
    fn number_without_a_value_is_a_mistake() {
        let mut slab = Slab::default();
        let number = slab.insert(());
        slab.remove(number);
        slab[number] = ();
    }
}
