//! Files that the user names. None is a FIFO, whose other end could keep the program waiting.
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

pub use zonal_os::output_file::{create, open};

/// Opens a file to read it.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true), path)
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
