//! Sockets at a path, which only their owner can open.
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A listening socket. Dropping it removes it.
#[derive(Debug)]
pub struct BoundSocket {
    /// The socket.
    pub listener: UnixListener,
    /// Where it is.
    pub path: PathBuf,
}

impl BoundSocket {
    /// Listens at `path`. A socket without a server is replaced.
    ///
    /// # Errors
    /// The path is in use, or the socket cannot be created.
    pub fn new(path: &Path) -> io::Result<Self> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(ErrorKind::AddrInUse, "another server listens there"));
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file")),
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        let bound = BoundSocket { listener, path: path.to_owned() };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(bound)
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = fs::remove_file(&self.path);
    }
}
