//! Errors as C sees them: -1, `errno` and a text.
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zonal_backend::{image, linux};
use zonal_blk::Status;

/// Why a function failed.
#[derive(Debug)]
pub(crate) struct Error {
    errno: i32,
    text: String,
}

impl Error {
    pub(crate) fn new(errno: i32, text: impl Display) -> Self {
        Error { errno, text: text.to_string() }
    }

    /// An argument is wrong.
    pub(crate) fn invalid(text: impl Display) -> Self {
        Error::new(libc::EINVAL, text)
    }

    /// A command came back with this status.
    pub(crate) fn of(status: Status, what: impl Display) -> Self {
        Error::new(status.errno(), format_args!("{what}: {status}"))
    }

    #[cfg(test)]
    pub(crate) fn errno(&self) -> i32 {
        self.errno
    }
}

/// An error without a number of its own is `EINVAL`, like a device name that nothing can be made of.
impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        let errno = error.chain().find_map(number).unwrap_or(libc::EINVAL);
        Error::new(errno, format_args!("{error:#}"))
    }
}

/// The error number of a cause, if it has one.
fn number(cause: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let of_system = |error: &io::Error| error.raw_os_error();
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return of_system(error);
    }
    if let Some(error) = cause.downcast_ref::<linux::OpenError>() {
        return match error {
            linux::OpenError::Open(error) | linux::OpenError::Ring(error) => of_system(error),
            linux::OpenError::InUse => Some(libc::EBUSY),
            linux::OpenError::NotABlockDevice => Some(libc::ENOTBLK),
            linux::OpenError::Limits(_) => None,
        };
    }
    match cause.downcast_ref::<image::OpenError>()? {
        image::OpenError::Missing => Some(libc::ENOENT),
        image::OpenError::InUse => Some(libc::EBUSY),
        image::OpenError::File(error) => of_system(error),
        _ => None,
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function that C calls. An error, or a panic, becomes -1.
pub(crate) fn guard<T: From<i8>>(body: impl FnOnce() -> Result<T>) -> T {
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error,
        Err(_) => Error::new(libc::EIO, "a bug in libzonal: it panicked"),
    };
    let text = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = text);
    // SAFETY: errno is the calling thread's own.
    unsafe { *libc::__errno_location() = error.errno };
    T::from(-1)
}

/// Why the last function that failed on this thread did so: a sentence that names the device or the
/// argument, what was found and what was expected. Empty if none has failed. Valid until the next call of a
/// function of this library on the thread.
#[unsafe(no_mangle)]
pub extern "C" fn zonal_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> (i32, String) {
        // SAFETY: a string that is valid until the next call.
        let text = unsafe { CStr::from_ptr(zonal_error()) };
        let errno = io::Error::last_os_error().raw_os_error().expect("errno");
        (errno, text.to_str().expect("UTF-8").to_owned())
    }

    #[test]
    fn errors_and_panics_are_minus_one_with_errno_and_a_text() {
        assert_eq!(guard(|| Ok(7_i32)), 7);
        assert_eq!(guard::<i32>(|| Err(Error::of(Status::ZoneOpenResource, "zone 3"))), -1);
        assert_eq!(last(), (libc::ETOOMANYREFS, "zone 3: too many open zones".to_owned()));
        assert_eq!(guard::<i64>(|| panic!("expected by this test")), -1);
        assert_eq!(last(), (libc::EIO, "a bug in libzonal: it panicked".to_owned()));
        assert_eq!(guard::<i32>(|| Err(Error::invalid("a\0b"))), -1);
        assert_eq!(last(), (libc::EINVAL, "a b".to_owned()));
    }

    #[test]
    fn error_of_the_operating_system_keeps_its_number() {
        let missing = io::Error::from_raw_os_error(libc::ENOENT);
        let error = Error::from(anyhow::Error::from(missing).context("device a.img"));
        assert_eq!(error.errno(), libc::ENOENT);
        assert_eq!(Error::from(anyhow::anyhow!("no such option")).errno(), libc::EINVAL);
    }
}
