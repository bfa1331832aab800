//! Values by small numbers, which are reused. Memory is never returned, so that nothing is allocated
//! in steady state.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Returns the number of the value, which is less than the most values there ever were.
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

    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.slots.get_mut(number)?.as_mut()
    }

    pub fn remove(&mut self, number: usize) -> Option<T> {
        let value = self.slots.get_mut(number)?.take()?;
        self.free.push(number);
        Some(value)
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
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
    }
}
