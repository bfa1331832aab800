//! Numbers for what C holds. A number is never used again, so one that was closed is found out; one of
//! the parent of this process is, too.
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zonal_os::fork::{Forked, OfProcess};

/// All open handles of a kind.
pub(crate) struct Handles<T> {
    /// The kind of object that the handles are of.
    what: &'static str,
    open: Mutex<Open<T>>,
}

struct Open<T> {
    last: c_int,
    by_number: BTreeMap<c_int, OfProcess<Arc<T>>>,
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
        open.by_number.insert(number, OfProcess::new(Arc::new(value)));
        Ok(number)
    }

    /// The object of a handle.
    pub(crate) fn get(&self, number: c_int) -> Result<Arc<T>> {
        let open = self.open();
        let found = open.by_number.get(&number).ok_or_else(|| self.unknown(number))?;
        found.get().cloned().map_err(|forked| self.forked(number, forked))
    }

    /// Closes a handle, and gives what it was of.
    pub(crate) fn remove(&self, number: c_int) -> Result<Arc<T>> {
        let value = self.get(number)?;
        self.open().by_number.remove(&number).ok_or_else(|| self.unknown(number))?;
        Ok(value)
    }

    fn forked(&self, number: c_int, forked: Forked) -> Error {
        Error::new(libc::EPERM, format_args!("{} {number}: {forked}", self.what))
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

    #[test]
    fn handles_of_a_parent_are_refused_in_its_child() {
        static HANDLES: Handles<&str> = Handles::new("thing");
        let ours = HANDLES.add("a").expect("a handle");
        // SAFETY: the child uses a table that no other thread uses, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_refused =
                |result: Result<Arc<&str>>| result.is_err_and(|error| error.errno() == libc::EPERM);
            let good = is_refused(HANDLES.get(ours))
                && is_refused(HANDLES.remove(ours))
                && HANDLES.add("b").is_ok_and(|number| HANDLES.remove(number).is_ok());
            // SAFETY: ends the child without what the parent registered for its end.
            unsafe { libc::_exit(c_int::from(!good)) };
        }
        let mut status = 0;
        // SAFETY: a child of this process, and room for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child used what it must not, or could not open");
        assert_eq!(*HANDLES.get(ours).expect("it is the parent's"), "a");
    }
}
