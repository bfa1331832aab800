//! Groups of users.
use rustix::net::sockopt::socket_peercred;
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The longest entry of a group that is read, in bytes: names of all members are in it.
const MAX_ENTRY: usize = 1 << 20;

/// The number of the group of this name, wherever the system has its groups; `None` if there is none.
///
/// # Errors
/// The groups cannot be read.
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let mut entry = vec![0_u8; 1 << 10];
    loop {
        // SAFETY: a group is numbers and pointers, of which none is followed.
        let mut group: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (at, len) = (entry.as_mut_ptr().cast(), entry.len());
        // SAFETY: a string, a group, `len` bytes for what it points to, and a pointer, which all outlive the call.
        match unsafe { libc::getgrnam_r(name.as_ptr(), &raw mut group, at, len, &raw mut found) } {
            0 => return Ok((!found.is_null()).then_some(group.gr_gid)),
            libc::ERANGE if len < MAX_ENTRY => entry.resize(2 * len, 0),
            // Some systems say so of a name that is not there.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Whether the process that connected was in a group then.
///
/// # Errors
/// The system does not say.
pub fn is_member(client: &UnixStream, group: u32) -> io::Result<bool> {
    Ok(socket_peercred(client)?.gid.as_raw() == group || peer_groups(client)?.contains(&group))
}

/// The supplementary groups of the process that connected.
fn peer_groups(client: &UnixStream) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 64];
    loop {
        let size = size_of_val(&groups[..]);
        let mut len = libc::socklen_t::try_from(size).expect("fewer than 2^30 groups");
        let (option, at) = (libc::SO_PEERGROUPS, groups.as_mut_ptr().cast());
        // SAFETY: `groups` has `len` bytes, and both outlive the call.
        let done = unsafe {
            libc::getsockopt(client.as_raw_fd(), libc::SOL_SOCKET, option, at, &raw mut len)
        };
        let count = len as usize / size_of::<u32>();
        if done == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // Too many for the room: `len` is what it takes.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_numbers() {
        let text = std::fs::read_to_string("/etc/group").expect("groups");
        let root =
            text.lines().find_map(|line| line.strip_prefix("root:x:")).expect("root's group");
        let root = root.split(':').next().and_then(|number| number.parse().ok());
        assert_eq!(group_id("root").expect("groups"), root);
        assert_eq!(group_id("no such group").expect("groups"), None);
        assert_eq!(group_id("a\0b").expect("groups"), None);
    }

    #[test]
    fn who_connects_is_in_its_own_groups() {
        let (client, _server) = UnixStream::pair().expect("two sockets");
        let own = rustix::process::getegid().as_raw();
        assert!(is_member(&client, own).expect("it is said"));
        for group in rustix::process::getgroups().expect("groups") {
            assert!(is_member(&client, group.as_raw()).expect("it is said"));
        }
        assert!(!is_member(&client, u32::MAX - 7).expect("it is said"));
    }
}
