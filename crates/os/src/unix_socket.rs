//! Sockets at a path, which only their owner can open, or a group too.
use crate::group::is_member;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, chmodat, chownat, fchmod, open};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen,
    shutdown, socket_with,
};
use rustix::process::geteuid;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A listening socket. Dropping it removes it.
#[derive(Debug)]
pub struct BoundSocket {
    /// The socket.
    pub listener: UnixListener,
    /// Where it is.
    pub path: PathBuf,
    /// Device and inode of the socket at the path.
    place: (u64, u64),
    /// The group whose members may connect, too.
    group: Option<u32>,
}

impl BoundSocket {
    /// Listens at `path`, for the own user. A socket without a server is replaced.
    ///
    /// # Errors
    /// The path is in use, or the socket cannot be created.
    pub fn new(path: &Path) -> io::Result<Self> {
        Self::for_group(path, None)
    }

    /// The same for the own user and the members of a group.
    ///
    /// # Errors
    /// The same; or the own user may not give a file to the group.
    pub fn for_group(path: &Path, group: Option<u32>) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path).map_err(|error| match error {
            Errno::NAMETOOLONG => io::Error::new(
                ErrorKind::InvalidInput,
                format!("path must be shorter than 108 bytes, found {}", path.as_os_str().len()),
            ),
            error => error.into(),
        })?;
        match connect(new_socket(SocketFlags::NONBLOCK)?, &address) {
            // With EAGAIN there is a server with more clients than it has accepted.
            Ok(()) | Err(Errno::AGAIN) => {
                return Err(io::Error::new(ErrorKind::AddrInUse, "another server listens there"));
            }
            Err(_) => {}
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
            Ok(_) => {
                return Err(io::Error::new(
                    ErrorKind::AlreadyExists,
                    "found a file that is no socket, expected a new name",
                ));
            }
            Err(_) => {}
        }
        let socket = new_socket(SocketFlags::empty())?;
        // Linux gives the file the mode of the socket: nobody can open it in between.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &address)?;
        let place = place(&fs::symlink_metadata(path)?);
        let bound = BoundSocket { listener: socket.into(), path: path.to_owned(), place, group };
        if let Some(group) = group {
            bound.give_to(group)?;
        }
        listen(&bound.listener, BACKLOG)?;
        Ok(bound)
    }

    /// Lets members of a group open the socket.
    fn give_to(&self, group: u32) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open(&self.path, flags, Mode::empty())?;
        // By the descriptor: another file may have been put at the path.
        if place(&fs::metadata(own_path(&file))?) != self.place {
            return Err(io::Error::other("another file was put there"));
        }
        chownat(&file, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?;
        // The group first, so that no other group can open it in between.
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
        Ok(chmodat(CWD, own_path(&file), mode, AtFlags::empty())?)
    }

    /// The next client. One that [`BoundSocket::admit`] refuses is turned away.
    ///
    /// # Errors
    /// The errors of accept and of [`BoundSocket::admit`].
    pub fn accept(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.listener.accept()?;
        self.admit(&stream)?;
        Ok(stream)
    }

    /// Refuses a client of another user than the server's, root and the one that the socket belongs to, and
    /// not in the group of the socket, whatever let it connect.
    ///
    /// # Errors
    /// `PermissionDenied` for another user.
    pub fn admit(&self, client: &UnixStream) -> io::Result<()> {
        let user = socket_peercred(client)?.uid.as_raw();
        let owner =
            fs::symlink_metadata(&self.path).ok().filter(|found| place(found) == self.place);
        let is_in_group = self.group.map_or(Ok(false), |group| is_member(client, group))?;
        if !is_in_group && !is_admitted(user, geteuid().as_raw(), owner.map(|found| found.uid())) {
            let group =
                self.group.map_or(String::new(), |group| format!(", a member of group {group}"));
            let text =
                format!("user {user} connected, expected the owner of the socket{group} or root");
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        Ok(())
    }

    /// Makes [`BoundSocket::accept`] return errors from now on, where it waits too.
    pub fn stop(&self) {
        // It can fail for a socket that does not listen only.
        let _ = shutdown(&self.listener, Shutdown::Both);
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // Somebody may have removed it already, and another server may have put its own there.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| place(&found) == self.place) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn new_socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None)
}

/// The path of an open file itself.
fn own_path(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn place(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn is_admitted(user: u32, server: u32, owner: Option<u32>) -> bool {
    user == 0 || user == server || owner == Some(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn nobody_else_can_ever_open_a_socket() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let seen = scope.spawn(|| {
                let mut seen = 0;
                while !ended.load(Ordering::Relaxed) {
                    seen |= fs::symlink_metadata(&path).map_or(0, |found| found.mode() & 0o077);
                }
                seen
            });
            (0..2000).for_each(|_| drop(BoundSocket::new(&path).expect("a socket")));
            ended.store(true, Ordering::Relaxed);
            assert_eq!(seen.join().expect("it ends"), 0, "permissions of others");
        });
    }

    #[test]
    fn other_users_are_turned_away() {
        assert!(is_admitted(0, 1000, None) && is_admitted(1000, 1000, None));
        assert!(is_admitted(64055, 0, Some(64055)), "chown gave it to them");
        assert!(!is_admitted(1001, 1000, Some(1000)) && !is_admitted(1001, 0, None));
        let directory = tempfile::tempdir().expect("a directory");
        let socket = BoundSocket::new(&directory.path().join("s")).expect("a socket");
        let _client = UnixStream::connect(&socket.path).expect("a server");
        socket.accept().expect("the same user");
    }

    #[test]
    fn a_group_can_open_a_socket_that_is_for_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let own = rustix::process::getegid().as_raw();
        for (group, mode) in [(None, 0o600), (Some(own), 0o660)] {
            let socket = BoundSocket::for_group(&path, group).expect("a socket");
            let found = fs::symlink_metadata(&path).expect("a socket");
            assert_eq!((found.mode() & 0o777, found.gid()), (mode, own));
            let _client = UnixStream::connect(&socket.path).expect("a server");
            socket.accept().expect("the same user");
        }
    }

    #[test]
    fn socket_of_a_successor_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let first = BoundSocket::new(&path).expect("a socket");
        fs::remove_file(&path).expect("it is there");
        let second = BoundSocket::new(&path).expect("a socket");
        drop(first);
        UnixStream::connect(&path).expect("the successor listens");
        drop(second);
        assert!(!path.exists(), "its own is removed");
    }

    #[test]
    fn server_that_accepts_nobody_is_a_server() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let socket = BoundSocket::new(&path).expect("a socket");
        listen(&socket.listener, 0).expect("a socket");
        let _waiting = UnixStream::connect(&path).expect("room for one");
        let (done, ended) = mpsc::channel();
        thread::spawn(move || done.send(BoundSocket::new(&path).err()));
        let second = ended.recv_timeout(Duration::from_secs(60)).expect("nobody waits for room");
        assert_eq!(second.expect("there is a server").kind(), ErrorKind::AddrInUse);
    }
}
