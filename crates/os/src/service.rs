//! Tells a service manager how far this process is: sd_notify(3) of systemd, whose units have
//! `Type=notify`.
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable of the environment with the manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// A state that a service manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It serves.
    Ready,
    /// It is about to end.
    Stopping,
}

/// Tells the manager, if there is one.
///
/// # Errors
/// The manager's socket cannot be reached.
pub fn notify(state: State) -> io::Result<()> {
    match std::env::var_os(SOCKET) {
        Some(socket) if !socket.is_empty() => send(&socket, state),
        _ => Ok(()),
    }
}

fn send(socket: &OsStr, state: State) -> io::Result<()> {
    let message: &[u8] = match state {
        State::Ready => b"READY=1",
        State::Stopping => b"STOPPING=1",
    };
    // A name that begins with @ is in the abstract namespace.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive_at_sockets_with_a_path_or_an_abstract_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let name = format!("zonal-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("an address");
        let sockets = [
            (UnixDatagram::bind(&path).expect("a socket"), path.into_os_string()),
            (UnixDatagram::bind_addr(&abstract_name).expect("a socket"), format!("@{name}").into()),
        ];
        for (socket, address) in sockets {
            let mut message = [0; 32];
            for (state, expected) in [(State::Ready, "READY=1"), (State::Stopping, "STOPPING=1")] {
                send(&address, state).expect("the manager is there");
                let len = socket.recv(&mut message).expect("a message");
                assert_eq!(&message[..len], expected.as_bytes());
            }
        }
    }
}
