//! Files that the user names. None is a FIFO or a socket, whose other end could keep the program waiting;
//! what was opened is looked at, since a name may come to mean another file.
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file with these options.
///
/// # Errors
/// It cannot be opened, or is a FIFO or a socket.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let refused = || {
        let text = "found a FIFO, expected a regular file";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let file = options.clone().custom_flags(flags).open(path).map_err(|error| {
        // A FIFO that nobody reads cannot be opened to write.
        let is_fifo = path.metadata().is_ok_and(|found| found.file_type().is_fifo());
        if is_fifo { refused() } else { error }
    })?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(refused());
    }
    // Accesses to a device wait for it.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Opens a file to read it.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true), path)
}

/// Creates a file, or empties the one that is there.
///
/// # Errors
/// As [`open`].
pub fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

#[cfg(test)]
mod tests {
    use crate::journal::Journal;
    use crate::log::Log;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::path::Path;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn no_file_of_a_crash_check_waits_for_the_other_end_of_a_fifo() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        for refuse in [
            |path: &Path| drop(Log::open(path).err().expect("a FIFO")),
            |path: &Path| drop(Journal::open(path, "run").err().expect("a FIFO")),
            |path: &Path| drop(super::create(path).expect_err("a FIFO")),
            |path: &Path| {
                drop(
                    crate::image::copy_file(path, &path.with_extension("copy"))
                        .expect_err("a FIFO"),
                )
            },
        ] {
            let (done, refused) = channel();
            let path = path.clone();
            std::thread::spawn(move || {
                refuse(&path);
                done.send(()).expect("the test waits");
            });
            refused.recv_timeout(Duration::from_secs(60)).expect("it does not wait");
        }
    }
}
