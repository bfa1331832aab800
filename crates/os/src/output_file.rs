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
/// As [`open`].
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Opens a file. Nothing is waited for, and what was opened is what was looked at.
///
/// # Errors
/// It cannot be created or opened, or is a FIFO or a socket.
pub fn open(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let no_reader = Some(rustix::io::Errno::NXIO.raw_os_error());
    let file = options.clone().custom_flags(flags).open(&path).map_err(|error| {
        match error.raw_os_error() {
            // The path says which of them it is, unless it is something else by now.
            number if number == no_reader => {
                refuse_fifo(path.as_ref()).err().unwrap_or_else(|| refused("a FIFO or a socket"))
            }
            _ => error,
        }
    })?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(refused("a FIFO"));
    }
    // What is no file on a disk, such as a terminal, may be waited for.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Refuses a path that [`open`] would refuse, before the time to open it has come.
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
    use crate::text_file;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

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
        open(OpenOptions::new().read(true), &path).expect_err("nobody writes to it");
        drop(reader.expect("the FIFO"));
        refuse_fifo(&directory.path().join("new")).expect("there is nothing yet");
        for name in ["new", "new", "/dev/null"] {
            let mut file = create(directory.path().join(name)).expect("a file");
            file.write_all(b"text").expect("room");
        }
        assert_eq!(std::fs::read(directory.path().join("new")).expect("a file"), b"text");
    }

    #[test]
    fn file_that_becomes_a_fifo_while_it_is_opened_is_not_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::fs::write(path("next"), "text").expect("a file");
                    std::fs::rename(path("next"), path("file")).expect("a name");
                    let mode = Mode::RUSR | Mode::WUSR;
                    mknodat(CWD, path("next"), FileType::Fifo, mode, 0).expect("a FIFO");
                    std::fs::rename(path("next"), path("file")).expect("a name");
                }
            });
            let (done, opened) = channel();
            let path = path("file");
            // It is not waited for when it hangs.
            std::thread::spawn(move || {
                (0..20_000).for_each(|_| drop((create(&path), text_file::read(&path))));
                done.send(()).expect("the test waits");
            });
            let in_time = opened.recv_timeout(Duration::from_secs(120));
            ended.store(true, Ordering::Relaxed);
            in_time.expect("open(2) waits for nobody");
        });
    }
}
