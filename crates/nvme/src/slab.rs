//! Things by number: a small number that is free again when the thing is gone.
//!
//! Takes things; gives each a number. Keeps true: no memory is given back, so that nothing is
//! allocated where as many come as go.

/// Things by number.
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
    /// Takes something in; gives its number, which is less than the most there ever were.
    pub fn insert(&mut self, thing: T) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.slots[number] = Some(thing);
                number
            }
            None => {
                self.slots.push(Some(thing));
                self.slots.len() - 1
            }
        }
    }

    /// What has this number.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.slots.get_mut(number)?.as_mut()
    }

    /// Gives back what has this number.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        let thing = self.slots.get_mut(number)?.take()?;
        self.free.push(number);
        Some(thing)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_small_and_free_again() {
        let mut table = Slab::default();
        assert_eq!(["a", "b", "c"].map(|thing| table.insert(thing)), [0, 1, 2]);
        assert_eq!((table.remove(1), table.remove(1), table.len()), (Some("b"), None, 2));
        assert!([1, 3].iter().all(|&number| table.get_mut(number).is_none()));
        assert_eq!((table.insert("d"), table.len()), (1, 3));
        assert_eq!(table.get_mut(1), Some(&mut "d"));
    }
}
