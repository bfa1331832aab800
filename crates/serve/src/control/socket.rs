//! The control socket, which only its owner can open, or a group too.
//!
//! A request is a line `{"device":1,"command":["get","scheduler"]}`, its response a line
//! `{"ok":VALUE}` or `{"error":TEXT}`. Clients that send overlong lines, or nothing for a time, are
//! disconnected.
use super::command::Command;
use super::manager::DeviceManager;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use zonal_os::poll::retry;
use zonal_os::unix_socket::BoundSocket;

/// Longest line of a request, in bytes.
const MAX_LINE: u64 = 64 << 10;
/// Most connections at a time.
const MAX_CONNECTIONS: usize = 16;
/// How long no client is accepted after an error.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Longest line of a response, in bytes.
const MAX_REPLY: u64 = 64 << 20;
/// How long a client may be silent.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client waits for the response: longer than any command takes.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A control socket. Dropping it stops the server and removes the socket.
pub struct ControlServer {
    socket: Arc<BoundSocket>,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens at `path`, for the own user and the members of `group`. A socket without a server is replaced.
    ///
    /// # Errors
    /// The path is in use, the socket cannot be created, or the own user may not give it to the group.
    pub fn start(path: &Path, group: Option<u32>, manager: Arc<DeviceManager>) -> io::Result<Self> {
        let socket = Arc::new(BoundSocket::for_group(path, group)?);
        let stopping = Arc::new(AtomicBool::new(false));
        let (ours, stop) = (Arc::clone(&socket), Arc::clone(&stopping));
        let accept = move || accept(&ours, &manager, &stop);
        let acceptor = thread::Builder::new().name("control".to_owned()).spawn(accept)?;
        Ok(ControlServer { socket, stopping, acceptor: Some(acceptor) })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.socket.stop();
        if let Some(acceptor) = self.acceptor.take() {
            // One that panicked has said so.
            let _ = acceptor.join();
        }
    }
}

/// The next client; `None` when the server ends. Out of file descriptors, it tries again now and then.
fn next_client(socket: &BoundSocket, stopping: &AtomicBool) -> Option<UnixStream> {
    let mut warned = false;
    let accepted = retry(RETRY_INTERVAL, Duration::MAX, || {
        let error = match socket.accept() {
            _ if stopping.load(Ordering::Acquire) => return Some(None),
            Ok(stream) => return Some(Some(stream)),
            Err(error) => error,
        };
        if !std::mem::replace(&mut warned, true) {
            tracing::warn!("{}: cannot accept a client: {error}", socket.path.display());
        }
        None
    });
    accepted.flatten()
}

fn accept(socket: &BoundSocket, manager: &Arc<DeviceManager>, stopping: &AtomicBool) {
    let connections = Arc::new(AtomicUsize::new(0));
    while let Some(mut stream) = next_client(socket, stopping) {
        if connections.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
            connections.fetch_sub(1, Ordering::AcqRel);
            // Without waiting for one that does not read.
            let _ = stream.set_nonblocking(true);
            let _ = reply(
                &mut stream,
                &json!({"error": format!("more than {MAX_CONNECTIONS} connections")}),
            );
            continue;
        }
        let (manager, counted) = (Arc::clone(manager), Arc::clone(&connections));
        let serve = move || {
            // The client sees that the connection is closed.
            let _ = serve(stream, &manager);
            counted.fetch_sub(1, Ordering::AcqRel);
        };
        if thread::Builder::new().name("control".to_owned()).spawn(serve).is_err() {
            connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn serve(stream: UnixStream, manager: &DeviceManager) -> io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut replies = stream.try_clone()?;
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if (&mut lines).take(MAX_LINE).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let whole = line.ends_with('\n');
        let response = match whole.then(|| execute(&line, manager)) {
            Some(Ok(value)) => json!({ "ok": value }),
            Some(Err(error)) => json!({ "error": error }),
            None => json!({ "error": "found no end of the line, expected one" }),
        };
        reply(&mut replies, &response)?;
        if !whole {
            return Ok(());
        }
    }
}

fn reply(stream: &mut UnixStream, response: &Value) -> io::Result<()> {
    stream.write_all(format!("{response}\n").as_bytes())
}

/// Executes a request, which is JSON.
///
/// # Errors
/// The request is malformed or was refused.
pub(crate) fn execute(line: &str, manager: &DeviceManager) -> Result<Value, String> {
    const EXPECTED: &str = r#"expected {"device":1,"command":["status"]}"#;
    let request: Value =
        serde_json::from_str(line).map_err(|error| format!("{error}, {EXPECTED}"))?;
    let words = request.get("command").and_then(Value::as_array);
    let words: Option<Vec<String>> =
        words.and_then(|words| words.iter().map(|word| word.as_str().map(str::to_owned)).collect());
    let words = words.ok_or_else(|| format!("no command, {EXPECTED}"))?;
    let device = match request.get("device") {
        None => Some(1),
        Some(device) => device.as_u64().and_then(|device| usize::try_from(device).ok()),
    };
    let device = device.ok_or_else(|| format!("no number of a device, {EXPECTED}"))?;
    let command = Command::parse(&words).map_err(|error| error.to_string())?;
    manager.execute(device, command)
}

/// A connection to a control socket.
pub struct ControlClient {
    replies: BufReader<UnixStream>,
}

impl ControlClient {
    /// Connects to the server at `path`.
    ///
    /// # Errors
    /// There is no server.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        Ok(ControlClient { replies: BufReader::new(stream) })
    }

    /// Has a command executed on a device, counted from 1. The outer error is the socket's, the inner
    /// the server's.
    ///
    /// # Errors
    /// The server is gone, or the response is not JSON.
    pub fn send(&mut self, device: usize, words: &[String]) -> io::Result<Result<Value, String>> {
        let request = json!({ "device": device, "command": words });
        self.replies.get_ref().write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        if (&mut self.replies).take(MAX_REPLY).read_line(&mut line)? == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server has ended"));
        }
        if !line.ends_with('\n') {
            let text =
                format!("found no end of the response in {} bytes, expected one", line.len());
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let response: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
        Ok(match response.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
            None => Ok(response.get("ok").cloned().unwrap_or_default()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn server_whose_path_was_taken_over_ends_and_leaves_the_successor() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ctl");
        let manager = || Arc::new(DeviceManager::new(Vec::new(), Vec::new()));
        let first = ControlServer::start(&path, None, manager()).expect("a server");
        std::fs::remove_file(&path).expect("it is there");
        let second = ControlServer::start(&path, None, manager()).expect("another server");
        drop(first);
        let mut client = ControlClient::connect(&path).expect("the successor listens");
        client.send(1, &["status".to_owned()]).expect("an answer").expect_err("no device");
        drop(second);
    }

    #[test]
    fn response_without_end_is_not_read_to_the_end_of_memory() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ctl");
        let listener = UnixListener::bind(&path).expect("a socket");
        let hostile = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let piece = vec![b'x'; 1 << 20];
            // Until the client has had enough.
            (0..).take_while(|_| stream.write_all(&piece).is_ok()).count()
        });
        let mut client = ControlClient::connect(&path).expect("a server");
        let error = client.send(1, &["status".to_owned()]).expect_err("no end");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        drop(client);
        assert!(hostile.join().expect("it ends") < 100);
    }

    fn error(line: &str) -> String {
        let manager = DeviceManager::new(Vec::new(), Vec::new());
        execute(line, &manager).expect_err(line)
    }

    #[test]
    fn errors_name_what_is_wrong_with_a_request() {
        assert!(error("hello").ends_with(r#"expected {"device":1,"command":["status"]}"#));
        assert!(error(r#"{"command":[1]}"#).starts_with("no command"));
        assert!(
            error(r#"{"device":-1,"command":["status"]}"#).starts_with("no number of a device")
        );
        assert!(error(r#"{"command":["jump"]}"#).starts_with("command `jump`"));
        assert_eq!(error(r#"{"command":["status"]}"#), "device 1: expected 1 to 0");
    }
}
