//! The end of `zonal serve` and `zonal run` while a device waits for an hour.
use super::signals::{PATIENCE, end_by_another, send, wait_until};
use super::{SMALL, Server, fine, ran, zonal};
use rustix::process::Signal;
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// Blocks say where they belong, and have a checksum.
const VERIFY: &str = "--verify=crc32c";

/// The image of a server whose reads take an hour, and a reader that waits for one.
struct Stuck {
    reader: Child,
    image: String,
    _dir: TempDir,
}

impl Stuck {
    fn start(more: &[&str]) -> (Server, Self) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name| dir.path().join(name).to_str().expect("UTF-8").to_owned();
        let (image, socket) = (path("disk.img"), path("ctl"));
        fine(&["create", &image, "--profile", "null:zones=16,zone_size=1M,max_open=4,lba=4096"]);
        let exports = ["--nvme-tcp", "127.0.0.1:0", "--ctl", &socket];
        let mut server = Server::start(&[&[image.as_str()][..], &exports, more].concat());
        server.line();
        let write = "--rw=write --bs=4k --size=1M --io_size=64k --zonemode=zbd --end_fsync=1";
        fine(&[job(&server.address, write), vec![VERIFY, "--do_verify=0"]].concat());
        fine(&["ctl", &socket, "fault", "add", "delay=read,time=3600s"]);
        let read = job(&server.address, "--rw=read --bs=4k --size=1M --zonemode=zbd");
        let reader = zonal(&read).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let reader = reader.expect("the program starts");
        let faults = || fine(&["ctl", &socket, "fault"]);
        wait_until("a read that is delayed", || !faults().ends_with(": 0 commands\n"));
        (server, Stuck { reader, image, _dir: dir })
    }

    /// What was flushed is there, and the image is not locked.
    fn expect_state_of_a_power_loss(mut self) {
        self.reader.kill().expect("it runs");
        self.reader.wait().expect("it ends");
        let (code, out, err) = ran(&["check", &self.image]);
        assert_eq!(code, 0, "{out}{err}");
        let zones = fine(&["zone", "report", "-c", "1", &self.image]);
        assert!(zones.contains("wptr 0x000080"), "64 KiB were flushed: {zones}");
        let read = "--rw=read --bs=4k --size=1M --io_size=64k --zonemode=zbd";
        let report = fine(&[job(&self.image, read), vec![VERIFY]].concat());
        assert!(report.contains("issued rwts: total=16,0,0,0"), "{report}");
    }
}

fn job<'a>(device: &'a str, options: &'a str) -> Vec<&'a str> {
    let own = ["run", "--device", device, "--eta", "never", "--name=a"];
    own.into_iter().chain(options.split(' ')).collect()
}

#[test]
fn second_signal_ends_a_server_that_waits_for_its_device() {
    let (mut server, stuck) = Stuck::start(&["--shutdown-timeout", "3600"]);
    send(&server.child, Signal::TERM);
    assert_eq!(end_by_another(&mut server.child, Signal::TERM), Some(128 + 15));
    let (_, _, err) = server.rest();
    assert_eq!(err, "");
    stuck.expect_state_of_a_power_loss();
}

#[test]
fn shutdown_timeout_ends_a_server_that_waits_for_its_device() {
    let (server, stuck) = Stuck::start(&["--shutdown-timeout", "0.5"]);
    let (code, _, err) = server.end_within(PATIENCE, Signal::INT);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("still waiting 0.5 s after an interrupt"), "{err}");
    stuck.expect_state_of_a_power_loss();
}

#[test]
fn second_interrupt_ends_a_run_whose_device_waits() {
    let (server, mut stuck) = Stuck::start(&["--shutdown-timeout", "0.5"]);
    send(&stuck.reader, Signal::INT);
    let code = end_by_another(&mut stuck.reader, Signal::INT);
    assert_eq!(code, Some(128 + 2), "it waits for I/O in flight");
    drop(server);
}

#[test]
fn signal_ends_an_idle_server_at_once() {
    let server = Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0"]);
    let (code, out, err) = server.end_within(PATIENCE, Signal::HUP);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
}

#[test]
fn server_that_cannot_commit_what_it_answered_fails_at_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("ctl").display().to_string();
    let mut server = Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0", "--ctl", &socket]);
    server.line();
    fine(&["ctl", &socket, "fault", "add", "fail=flush"]);
    let (code, _, err) = server.end(Signal::TERM);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("cannot be flushed: Input/output error (os error 5); what was not"),
        "{err}"
    );
}

#[test]
fn a_service_manager_learns_when_the_server_is_ready_and_when_it_ends() {
    use std::os::unix::net::UnixDatagram;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a time");
    let mut command = super::zonal(&["serve", super::SMALL, "--nvme-tcp", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &path).stdout(std::process::Stdio::null());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("it starts");
    let told = || {
        let mut message = [0; 64];
        let len = manager.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..len]).into_owned()
    };
    assert_eq!(told(), "READY=1");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(told(), "STOPPING=1");
    assert!(child.wait().expect("it ends").success());
}
