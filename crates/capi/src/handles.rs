//! Numbers for what C holds. A number is never used again, so one that was closed is found out.
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All open handles of a kind.
pub(crate) struct Handles<T> {
    /// What the handles are of.
    what: &'static str,
    open: Mutex<Open<T>>,
}

struct Open<T> {
    last: c_int,
    by_number: BTreeMap<c_int, Arc<T>>,
}

impl<T> Handles<T> {
    pub(crate) const fn new(what: &'static str) -> Self {
        Handles { what, open: Mutex::new(Open { last: 0, by_number: BTreeMap::new() }) }
    }

    fn open(&self) -> MutexGuard<'_, Open<T>> {
        // Nothing panics between two changes of the table.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle for `value`.
    pub(crate) fn add(&self, value: T) -> Result<c_int> {
        let mut open = self.open();
        let number = open.last.checked_add(1);
        let number = number.ok_or_else(|| Error::new(libc::EMFILE, "2^31 handles were used"))?;
        open.last = number;
        open.by_number.insert(number, Arc::new(value));
        Ok(number)
    }

    /// What the handle is of.
    pub(crate) fn get(&self, number: c_int) -> Result<Arc<T>> {
        self.open().by_number.get(&number).cloned().ok_or_else(|| self.unknown(number))
    }

    /// Closes a handle, and gives what it was of.
    pub(crate) fn remove(&self, number: c_int) -> Result<Arc<T>> {
        self.open().by_number.remove(&number).ok_or_else(|| self.unknown(number))
    }

    fn unknown(&self, number: c_int) -> Error {
        let what = self.what;
        Error::new(libc::EBADF, format_args!("{number} is not the handle of an open {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_handles_are_unknown_and_their_numbers_are_not_used_again() {
        static HANDLES: Handles<&str> = Handles::new("thing");
        let first = HANDLES.add("a").expect("a handle");
        let second = HANDLES.add("b").expect("a handle");
        assert!(first > 0 && second > first);
        assert_eq!(*HANDLES.remove(first).expect("it is open"), "a");
        for number in [first, second + 1, -1, 0] {
            assert_eq!(HANDLES.get(number).expect_err("closed").errno(), libc::EBADF);
            assert_eq!(HANDLES.remove(number).expect_err("closed").errno(), libc::EBADF);
        }
        assert!(HANDLES.add("c").expect("a handle") > second);
        assert_eq!(*HANDLES.get(second).expect("it is open"), "b");
    }
}
