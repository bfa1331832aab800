//! How an I/O ended.
use std::io;

/// The outcome of a bio, with the meanings of the Linux kernel's `BLK_STS_*` codes
/// (include/linux/blk_types.h, 6.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Status {
    /// Done as asked.
    #[default]
    #[error("success")]
    Ok,
    /// The device or the layer does not do this operation (`BLK_STS_NOTSUPP`, `EOPNOTSUPP`).
    #[error("operation not supported")]
    NotSupported,
    /// The device did not answer in time (`BLK_STS_TIMEOUT`, `ETIMEDOUT`).
    #[error("timeout")]
    Timeout,
    /// The way to the device failed, and whether it did the command is not known
    /// (`BLK_STS_TRANSPORT`, `ENOLINK`).
    #[error("transport error")]
    Transport,
    /// The device has no space for the write (`BLK_STS_NOSPC`, `ENOSPC`).
    #[error("no space")]
    NoSpace,
    /// The medium cannot be read or written here (`BLK_STS_MEDIUM`, `ENODATA`).
    #[error("medium error")]
    Medium,
    /// Data did not match its protection information, or what a job wrote (`BLK_STS_PROTECTION`,
    /// `EILSEQ`).
    #[error("data mismatch")]
    Protection,
    /// Any other failure, a write that is not at the write pointer among them (`BLK_STS_IOERR`,
    /// `EIO`).
    #[error("I/O error")]
    IoError,
    /// The bio would have had to wait and must not, as when there is no memory to split it
    /// (`BLK_STS_AGAIN`, `EAGAIN`).
    #[error("would block")]
    Again,
    /// The write needs one more open zone than the device allows (`BLK_STS_ZONE_OPEN_RESOURCE`,
    /// `ETOOMANYREFS`).
    #[error("too many open zones")]
    ZoneOpenResource,
    /// The write needs one more active zone than the device allows
    /// (`BLK_STS_ZONE_ACTIVE_RESOURCE`, `EOVERFLOW`).
    #[error("too many active zones")]
    ZoneActiveResource,
    /// The device or the zone is offline (`BLK_STS_OFFLINE`, `ENODEV`).
    #[error("offline")]
    Offline,
    /// The bio itself is wrong: unaligned, empty or beyond the capacity (`BLK_STS_INVAL`,
    /// `EINVAL`).
    #[error("invalid request")]
    Invalid,
}

impl Status {
    /// The Linux error number that a system call would return for this status, 0 for success.
    pub const fn errno(self) -> i32 {
        match self {
            Status::Ok => 0,
            Status::NotSupported => 95,
            Status::Timeout => 110,
            Status::Transport => 67,
            Status::NoSpace => 28,
            Status::Medium => 61,
            Status::Protection => 84,
            Status::IoError => 5,
            Status::Again => 11,
            Status::ZoneOpenResource => 109,
            Status::ZoneActiveResource => 75,
            Status::Offline => 19,
            Status::Invalid => 22,
        }
    }
    /// The status for a Linux error number: the inverse of [`Status::errno`], and the same status for
    /// numbers that mean the same. [`Status::IoError`] for any other.
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            // EDQUOT, EFBIG
            122 | 27 => return Status::NoSpace,
            // ENXIO
            6 => return Status::Offline,
            // ENOTTY
            25 => return Status::NotSupported,
            _ => {}
        }
        let known = [
            Status::NotSupported,
            Status::Timeout,
            Status::Transport,
            Status::NoSpace,
            Status::Medium,
            Status::Protection,
            Status::Again,
            Status::ZoneOpenResource,
            Status::ZoneActiveResource,
            Status::Offline,
            Status::Invalid,
        ];
        known.into_iter().find(|status| status.errno() == errno).unwrap_or(Status::IoError)
    }
}

impl From<io::Error> for Status {
    fn from(error: io::Error) -> Self {
        match (error.raw_os_error(), error.kind()) {
            (Some(errno), _) => Status::from_errno(errno),
            (None, io::ErrorKind::StorageFull) => Status::NoSpace,
            (None, _) => Status::IoError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_have_the_status_that_they_are_the_errno_of() {
        for (errno, expected) in [
            (5, Status::IoError),
            (28, Status::NoSpace),
            (122, Status::NoSpace),
            (109, Status::ZoneOpenResource),
            (75, Status::ZoneActiveResource),
            (67, Status::Transport),
            (19, Status::Offline),
            (6, Status::Offline),
            (9, Status::IoError),
        ] {
            assert_eq!(Status::from(io::Error::from_raw_os_error(errno)), expected, "{errno}");
        }
        assert_eq!(Status::from(io::Error::from(io::ErrorKind::StorageFull)), Status::NoSpace);
    }
}
