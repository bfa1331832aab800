//! Files that the program makes: logs, traces, recordings.
//!
//! A FIFO is not one: it would wait for a reader to be opened, and again whenever that is slow.
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Creates a file, or empties the one that is there.
///
/// # Errors
/// It cannot be created or opened, or is a FIFO or a socket.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).custom_flags(flags).open(path);
    let no_reader = Some(rustix::io::Errno::NXIO.raw_os_error());
    let file = opened.map_err(|error| match error.raw_os_error() {
        number if number == no_reader => refused("a FIFO or a socket"),
        _ => error,
    })?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(refused("a FIFO"));
    }
    // What is no file on a disk, such as a terminal, may be waited for.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Refuses a path whose open would wait for another process, for files that are not opened with
/// [`create`].
///
/// # Errors
/// It is a FIFO or a socket.
pub fn refuse_fifo(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path).map(|found| found.file_type()) {
        Ok(kind) if kind.is_fifo() => Err(refused("a FIFO")),
        Ok(kind) if kind.is_socket() => Err(refused("a socket")),
        _ => Ok(()),
    }
}

fn refused(found: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("found {found}, expected a regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Write;

    #[test]
    fn fifos_are_refused_with_and_without_a_reader_and_files_are_made() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        create(&path).expect_err("nobody reads it");
        refuse_fifo(&path).expect_err("nobody reads it");
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let reader = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        create(&path).expect_err("it may stop reading");
        drop(reader.expect("the FIFO"));
        refuse_fifo(&directory.path().join("new")).expect("there is nothing yet");
        for name in ["new", "new", "/dev/null"] {
            let mut file = create(directory.path().join(name)).expect("a file");
            file.write_all(b"text").expect("room");
        }
        assert_eq!(std::fs::read(directory.path().join("new")).expect("a file"), b"text");
    }
}
