//! What a job's options say of its data: how it is checked, when it is made durable, and which
//! errors it survives.
use super::checksum::Checksum;
use super::pattern::FillPattern;

/// How data is checked (`verify=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyMethod {
    /// The header alone.
    Meta,
    /// A header with a checksum of what follows it.
    Checksum(Checksum),
    /// The bytes of `verify_pattern`, without a header.
    Pattern,
    /// What is read is not looked at.
    Null,
}

impl VerifyMethod {
    /// fio's name.
    pub const fn name(self) -> &'static str {
        match self {
            VerifyMethod::Meta => "meta",
            VerifyMethod::Checksum(sum) => sum.name(),
            VerifyMethod::Pattern => "pattern",
            VerifyMethod::Null => "null",
        }
    }
}

/// The options that begin with `verify`.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyOptions {
    /// `verify=`; `None` for no checks.
    pub method: Option<VerifyMethod>,
    /// `do_verify=`: read back what was written.
    pub do_verify: bool,
    /// `verify_interval=`: bytes that have a header of their own; those of the I/O if not given.
    pub interval: Option<u32>,
    /// `verify_offset=`: where in them the header lies.
    pub offset: u32,
    /// `verify_pattern=`: what is written instead of random bytes.
    pub pattern: Option<FillPattern>,
    /// `verify_backlog=`: writes after which some are checked; 0 for none before the end.
    pub backlog: u32,
    /// `verify_backlog_batch=`: how many; 0 for as many as `backlog`.
    pub backlog_batch: u32,
    /// `verify_fatal=`: the first mismatch ends the job, whatever `continue_on_error` says.
    pub fatal: bool,
    /// `verify_dump=`: keep what was read and what was expected.
    pub dump: bool,
    /// `verify_only=`: write nothing, check what the job would have written.
    pub only: bool,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            method: None,
            do_verify: true,
            interval: None,
            offset: 0,
            pattern: None,
            backlog: 0,
            backlog_batch: 0,
            fatal: false,
            dump: false,
            only: false,
        }
    }
}

impl VerifyOptions {
    /// Whether the job's device has to keep data.
    pub fn needs_data(&self) -> bool {
        !matches!(self.method, None | Some(VerifyMethod::Null))
    }
}

/// When what was written is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncOptions {
    /// `fsync=`: writes between flushes; 0 for none.
    pub fsync: u32,
    /// `fdatasync=`: the same. A device knows one kind of flush.
    pub fdatasync: u32,
    /// `end_fsync=`: a flush when all is written.
    pub end_fsync: bool,
    /// `fsync_on_close=`: a flush when the device is closed, which is then.
    pub on_close: bool,
    /// `sync=`: each write is durable when it completes.
    pub sync: bool,
    /// `write_barrier=`: each so-manieth write comes after a flush and is durable itself; 0 for
    /// none.
    pub barrier: u32,
}

/// What an error is of, for `continue_on_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorKind {
    /// A read failed.
    Read = 0,
    /// A write, or anything else that is no read, failed.
    Write = 1,
    /// What was read is not what was written.
    Verify = 2,
}

/// Which errors a job survives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorOptions {
    /// `continue_on_error=`, by [`ErrorKind`].
    pub continue_on_error: [bool; 3],
    /// `ignore_error=`, by [`ErrorKind`]: the error numbers that count as survivable instead of
    /// fio's two.
    pub ignored: [Vec<i32>; 3],
    /// `error_dump=`: tell of each failed I/O.
    pub dump: bool,
}

/// The errors that fio survives unless told which: EIO and EILSEQ.
const NON_FATAL_ERRNOS: [i32; 2] = [5, 84];

impl ErrorOptions {
    /// Whether the job goes on after an error with this number.
    pub fn is_non_fatal(&self, kind: ErrorKind, errno: i32) -> bool {
        let ignored = &self.ignored[kind as usize];
        if ignored.is_empty() {
            self.continue_on_error[kind as usize] && NON_FATAL_ERRNOS.contains(&errno)
        } else {
            ignored.contains(&errno)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_io_errors_and_mismatches_are_survived_unless_errors_are_named() {
        let mut errors =
            ErrorOptions { continue_on_error: [true, false, true], ..Default::default() };
        assert!(
            errors.is_non_fatal(ErrorKind::Read, 5) && !errors.is_non_fatal(ErrorKind::Read, 28)
        );
        assert!(
            !errors.is_non_fatal(ErrorKind::Write, 5) && errors.is_non_fatal(ErrorKind::Verify, 84)
        );
        errors.ignored[ErrorKind::Write as usize] = vec![28];
        errors.ignored[ErrorKind::Read as usize] = vec![28];
        assert!(
            errors.is_non_fatal(ErrorKind::Write, 28) && !errors.is_non_fatal(ErrorKind::Read, 5)
        );
    }
}
