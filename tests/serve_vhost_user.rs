//! `zonal serve --vhost-user`, with a virtual machine monitor and its guest in this process.
#[path = "../crates/frontend/tests/vhost_user/client.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod client;
#[path = "../crates/frontend/tests/vhost_user/guest.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod guest;
#[path = "../crates/frontend/tests/guest_memory/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod guest_memory;

use client::{Client, GET_QUEUE_NUM};
use guest::{Guest, Request, Ring};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Four conventional zones of 1 MiB, and twelve sequential ones.
const SMR: &str = "null:zones=16,conventional=4,zone_size=1M,max_open=4,lba=4096";

/// A server that has printed where it is.
struct Server(Child);

impl Server {
    fn start(socket: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
        command.arg("serve").args(args).arg("--vhost-user").arg(socket);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, format!("vhost-user {}\n", socket.display()));
        Server(child)
    }

    /// Signals the server. Returns its exit code and its messages.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
        let mut text = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut text).expect("UTF-8");
        (self.0.wait().expect("a child").code(), text)
    }
}

/// Runs the program with arguments that are wrong, and returns what it says.
fn refused(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
    let output = command.args(args).output().expect("the program starts");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    String::from_utf8(output.stderr).expect("UTF-8")
}

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("vm.sock");
    (dir, socket)
}

/// Writes blocks at a sector and flushes, or reads and compares them.
fn blocks(ring: &mut Ring, sector: u64, write: bool) {
    for block in 0..8 {
        let (at, data) = (sector + 8 * u64::from(block), vec![block ^ 0x5a; 4096]);
        let request = if write { Request::write(at, &data) } else { Request::read(at, 4096) };
        let answer = ring.io(0, &request);
        assert!(answer.status == 0 && (write || answer.data == data), "block {block}");
    }
    assert_eq!(ring.io(0, &Request::new(4, 0)).status, 0);
}

#[test]
fn virtual_machine_has_an_smr_disk() {
    let (_dir, socket) = place();
    let memory = format!("{SMR},memory=true");
    let server = Server::start(
        &socket,
        &[&memory, "--vhost-user-queues", "2", "--serial", "SMR7", "--poll"],
    );
    let mut guest = Guest::start(&socket, 0);
    assert_eq!(guest.client.number(GET_QUEUE_NUM), 2);
    let (mut first, mut second) = (guest.ring(0, 0), guest.ring(1, 0));
    let id = first.io(0, &Request { room: 20, ..Request::new(8, 0) });
    assert!(id.data.starts_with(b"SMR7\0"));
    blocks(&mut first, 0, true);
    blocks(&mut second, 4 * 2048, true);
    blocks(&mut second, 0, false);
    blocks(&mut first, 4 * 2048, false);
    let misplaced = first.io(0, &Request::write(4 * 2048, &[0; 4096]));
    assert_eq!(misplaced.status, 4, "not at the write pointer");
    let (code, log) = server.end(Signal::TERM);
    assert_eq!((code, log.lines().count()), (Some(0), 1), "{log}");
    assert!(log.contains("a write must begin at the write pointer"), "{log}");
    assert!(guest.client.is_closed());
    assert!(!socket.exists(), "it is removed");
}

#[test]
fn late_completions_of_a_virtual_machine_s_disk_are_counted() {
    let (dir, socket) = place();
    let ctl = dir.path().join("ctl").display().to_string();
    let timed = format!("{SMR},memory=true,latency=50us");
    let server = Server::start(&socket, &[&timed, "--ctl", &ctl]);
    let mut guest = Guest::start(&socket, 0);
    blocks(&mut guest.ring(0, 0), 5 * 2048, true);
    let mut stat = Command::new(env!("CARGO_BIN_EXE_zonal"));
    let output = stat.args(["ctl", &ctl, "stat"]).output().expect("the program starts");
    let stat = String::from_utf8(output.stdout).expect("UTF-8");
    let counted = |name: &str| -> u64 {
        let line = stat.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {stat}")).parse().expect("a number")
    };
    let completions = counted("model_completions: ");
    assert!(completions >= 8 && counted("model_late_completions: ") <= completions, "{stat}");
    let (code, log) = server.end(Signal::TERM);
    // The end of a server flushes its device, so that a few more commands have completed.
    let said = format!("late_completions: device={timed}, completions=");
    let all = log.split_once(&said).and_then(|(_, rest)| rest.split_once(", late="));
    let all = all.and_then(|(number, _)| number.parse::<u64>().ok());
    assert!(code == Some(0) && all.is_some_and(|all| all >= completions), "{log}");
}

#[test]
fn server_after_one_that_was_killed_has_its_socket_and_its_data() {
    let (dir, socket) = place();
    let image = dir.path().join("disk.img").display().to_string();
    let mut create = Command::new(env!("CARGO_BIN_EXE_zonal"));
    assert!(
        create.args(["create", &image, "--profile", SMR]).status().expect("it starts").success()
    );
    let server = Server::start(&socket, &[&image]);
    let mut guest = Guest::start(&socket, 0);
    blocks(&mut guest.ring(0, 0), 5 * 2048, true);
    server.end(Signal::KILL);
    assert!(guest.client.is_closed());
    assert!(socket.exists(), "nobody has removed it");
    let server = Server::start(&socket, &[&image]);
    let mut guest = Guest::start(&socket, 0);
    blocks(&mut guest.ring(0, 0), 5 * 2048, false);
    drop(guest);
    assert_eq!(server.end(Signal::INT).0, Some(0));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let (_dir, socket) = place();
    let path = socket.to_str().expect("UTF-8");
    let off = refused(&["serve", SMR, "--vhost-user", path, "--zone-write", "off"]);
    assert!(off.contains("--vhost-user") && off.contains("no zone append"), "{off}");
    let two = refused(&["serve", SMR, SMR, "--vhost-user", path]);
    assert!(two.contains("--vhost-user: found 2 devices, expected one"), "{two}");
    let alone = refused(&["serve", SMR, "--ublk", "--vhost-user-queues", "2"]);
    assert!(alone.contains("--vhost-user <SOCKET>"), "{alone}");
    for queues in ["0", "257", "x"] {
        let wrong = refused(&["serve", SMR, "--vhost-user", path, "--vhost-user-queues", queues]);
        assert!(wrong.contains("--vhost-user-queues"), "{wrong}");
    }
    let server = Server::start(&socket, &[SMR]);
    let used = refused(&["serve", SMR, "--vhost-user", path]);
    assert!(used.contains("another server listens there"), "{used}");
    Client::negotiated(&socket, 0);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}
