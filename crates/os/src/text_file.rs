//! Small files that people write: job files, device profiles, secrets, measurements.
//!
//! They are regular files of at most [`MAX_LEN`] bytes. A FIFO would wait for a writer, and a device
//! may never end.
use crate::output_file;
use std::fs::{self, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Most bytes of such a file, and of standard input in its place.
pub const MAX_LEN: u64 = 16 << 20;

/// Reads a file.
///
/// # Errors
/// It cannot be read, is not a regular file, or is longer than [`MAX_LEN`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a device may have effects.
    expect_file(fs::metadata(path)?.file_type())?;
    let file = output_file::open(OpenOptions::new().read(true), path)?;
    expect_file(file.metadata()?.file_type())?;
    read_input(file)
}

fn expect_file(kind: FileType) -> io::Result<()> {
    if !kind.is_file() {
        let found = match () {
            () if kind.is_dir() => "a directory",
            () if kind.is_fifo() => "a FIFO",
            () if kind.is_socket() => "a socket",
            () => "a device",
        };
        return Err(invalid(format!("found {found}, expected a regular file")));
    }
    Ok(())
}

/// Most bytes of a TOML file: it takes about fifty times as much memory while it is read.
pub const MAX_TOML_LEN: u64 = 1 << 20;

/// Reads a TOML file.
///
/// # Errors
/// As [`read_string`], with [`MAX_TOML_LEN`] as the limit.
pub fn read_toml(path: &Path) -> io::Result<String> {
    let text = read_string(path)?;
    if text.len() as u64 > MAX_TOML_LEN {
        return Err(invalid(format!("found more than {} MiB, expected less", MAX_TOML_LEN >> 20)));
    }
    Ok(text)
}

/// Reads a file of UTF-8.
///
/// # Errors
/// As [`read`], or it is not UTF-8.
pub fn read_string(path: &Path) -> io::Result<String> {
    utf8(read(path)?)
}

/// The bytes of a file as text.
///
/// # Errors
/// The first line that is not UTF-8.
pub fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        invalid(format!("line {line} is not valid UTF-8"))
    })
}

/// Reads what takes the place of a file, such as standard input, to its end.
///
/// # Errors
/// It cannot be read, or is longer than [`MAX_LEN`].
pub fn read_input(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_LEN + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(invalid(format!("found more than {} MiB, expected less", MAX_LEN >> 20)));
    }
    Ok(bytes)
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_input_is_refused() {
        let error = read_input(io::repeat(b'#')).expect_err("no end");
        assert_eq!(error.to_string(), "found more than 16 MiB, expected less");
        let most = read_input(io::repeat(b'#').take(MAX_LEN)).expect("the most");
        assert_eq!(most.len() as u64, MAX_LEN);
    }

    #[test]
    fn only_regular_files_are_read() {
        for (path, found) in [("/dev/zero", "a device"), ("/", "a directory")] {
            let error = read(Path::new(path)).expect_err(path).to_string();
            assert_eq!(error, format!("found {found}, expected a regular file"));
        }
    }
}
