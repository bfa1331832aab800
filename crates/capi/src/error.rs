//! Errors as C sees them: -1, `errno` and a text.
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::io;
use std::iter::successors;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zonal_backend::linux::passthrough::NodeError;
use zonal_backend::{OpenError, StackError, image, linux};
use zonal_blk::Status;
use zonal_serve::ServeError;

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

/// An error and its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// An error without a number of its own is `EINVAL`, like a device name that nothing can be made of.
impl From<StackError> for Error {
    fn from(error: StackError) -> Self {
        let errno = match &error {
            StackError::Open { source, .. } => number(source),
            StackError::Flush { error, .. } => Some(error.raw_os_error().unwrap_or(libc::EIO)),
            _ => None,
        };
        Error::new(errno.unwrap_or(libc::EINVAL), chain(&error))
    }
}

impl From<image::OpenError> for Error {
    fn from(error: image::OpenError) -> Self {
        let error = OpenError::Image(error);
        Error::new(number(&error).unwrap_or(libc::EINVAL), chain(&error))
    }
}

impl From<ServeError> for Error {
    fn from(error: ServeError) -> Self {
        let errno = match error {
            ServeError::Stack(error) | ServeError::Flush(error) => return error.into(),
            ServeError::Busy(_) => Some(libc::ETIMEDOUT),
            ref error => of_system(error),
        };
        Error::new(errno.unwrap_or(libc::EINVAL), chain(&error))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::new(error.raw_os_error().unwrap_or(libc::EIO), error)
    }
}

/// The error number of what a device cannot be opened for, if it has one.
fn number(error: &OpenError) -> Option<i32> {
    match error {
        OpenError::Image(image::OpenError::Missing) => Some(libc::ENOENT),
        OpenError::Image(image::OpenError::Exists) => Some(libc::EEXIST),
        OpenError::Image(image::OpenError::InUse) => Some(libc::EBUSY),
        OpenError::Linux(linux::OpenError::InUse(_)) | OpenError::Node(NodeError::InUse { .. }) => {
            Some(libc::EBUSY)
        }
        OpenError::Linux(linux::OpenError::Forbidden(_))
        | OpenError::Node(NodeError::Forbidden(_)) => Some(libc::EACCES),
        OpenError::Linux(linux::OpenError::NotABlockDevice) => Some(libc::ENOTBLK),
        OpenError::Linux(linux::OpenError::Open(error) | linux::OpenError::Ring(error))
        | OpenError::Image(image::OpenError::File(error)) => error.raw_os_error(),
        other => of_system(other),
    }
}

/// The number of the first cause that is an error of the operating system.
fn of_system(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut causes = successors(Some(error), |error| error.source());
    causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error())
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
        let errno = |name: &str| {
            let opened = zonal_backend::Stack::open(name);
            Error::from(opened.err().expect("it cannot be opened")).errno()
        };
        assert_eq!(errno("/nowhere/disk.img"), libc::ENOENT);
        assert_eq!(errno("/dev/nowhere"), libc::ENOENT);
        assert_eq!(errno("/nowhere/drive.toml"), libc::ENOENT);
        assert_eq!(errno("no such device"), libc::EINVAL);
    }
}
