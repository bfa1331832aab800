//! `zonal serve`, with `zonal run` and `zonal zone` as hosts, and a virtual machine.
#[path = "serve/attacks.rs"]
mod attacks;
#[path = "../crates/frontend/tests/vfio_user/client.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod client;
#[path = "serve/control.rs"]
mod control;
#[path = "../crates/frontend/tests/vfio_user/guest.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod guest;
#[path = "../crates/frontend/tests/guest_memory/mod.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod guest_memory;
#[path = "hostile/mod.rs"]
mod hostile;
#[path = "serve/log.rs"]
mod log;
#[path = "serve/marks.rs"]
mod marks;
#[path = "serve/namespaces.rs"]
mod namespaces;
#[path = "serve/power.rs"]
mod power;
#[path = "serve/shutdown.rs"]
mod shutdown;
#[allow(dead_code, reason = "these tests use a part of it")]
mod signals;
#[path = "serve/tls.rs"]
mod tls;
#[path = "serve/vfio_user.rs"]
mod vfio_user;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Sixteen zones of 1 MiB.
const SMALL: &str = "null:zones=16,zone_size=1M,zone_capacity=768K,max_open=4,lba=4096,memory=true";

fn zonal(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
    command.args(args);
    command
}

/// Runs the program: exit code, standard output, standard error.
fn ran(args: &[&str]) -> (i32, String, String) {
    let output = zonal(args).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    let code = output.status.code().expect("the program was not killed");
    (code, text(output.stdout), text(output.stderr))
}

#[track_caller]
fn fine(args: &[&str]) -> String {
    let (code, out, err) = ran(args);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out
}

/// A server that has printed its address.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut command = zonal(&["serve"]);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut server = Server { child, out, address: String::new() };
        server.address = server.line();
        server
    }

    /// The next line of standard output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// As [`Server::end`], unless the server is still there after `patience`.
    #[track_caller]
    fn end_within(mut self, patience: Duration, signal: Signal) -> (Option<i32>, String, String) {
        self.signal(signal);
        let begin = Instant::now();
        while self.child.try_wait().expect("a child").is_none() {
            assert!(begin.elapsed() < patience, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.rest()
    }

    /// Ends it with a signal: exit code, the rest of standard output, standard error.
    fn end(self, signal: Signal) -> (Option<i32>, String, String) {
        self.signal(signal);
        self.rest()
    }

    fn rest(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).expect("UTF-8");
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut err).expect("UTF-8");
        }
        (self.child.wait().expect("it ends").code(), out, err)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a test that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn jobs_and_zone_commands_run_on_a_served_device() {
    let nqn = "nqn.2026-11.org.example:small";
    let server = Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0", "--nqn", nqn]);
    let address = server.address.clone();
    assert!(address.starts_with("nvme-tcp://127.0.0.1:") && address.ends_with(nqn), "{address}");
    let local = fine(&["zone", "report", SMALL]);
    assert_eq!(fine(&["zone", "report", &address]), local);
    fine(&["zone", "open", "-o", "2048", "-c", "1", &address]);
    let opened = fine(&["zone", "report", SMALL, "--after", "open 2048"]);
    assert_eq!(fine(&["zone", "report", &address]), opened, "the device is the same one");
    fine(&["zone", "reset", &address]);
    // Two jobs, through the zone write plugs of both sides.
    let job = "--rw=randwrite --bs=4k --iodepth=8 --zonemode=zbd --size=12m --io_size=1m";
    let mut args = vec!["run", "--device", &address, "--name=writers", "--numjobs=2"];
    args.extend(job.split(' '));
    let (code, out, err) = ran(&args);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("err= 0"), "{out}");
    let written = fine(&["zone", "report", &address]);
    assert_ne!(written, local, "the jobs have written");
    let (code, out, err) = server.end(Signal::TERM);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
}

#[test]
fn the_io_of_hosts_is_traced_until_the_server_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = dir.path().join("trace.json").display().to_string();
    let traced = ["--nvme-tcp", "127.0.0.1:0", "--trace", &trace, "--trace-size", "1M"];
    let server = Server::start(&[&[SMALL][..], &traced].concat());
    let job = "--rw=write --bs=4k --iodepth=4 --zonemode=zbd --size=1m --number_ios=50 --nomerges";
    let own = ["run", "--device", &server.address, "--eta", "never", "--name=a"];
    fine(&own.into_iter().chain(job.split(' ')).collect::<Vec<_>>());
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let events = whole["traceEvents"].as_array().expect("events");
    // On the tracks of a channel, of a hardware queue and of the zone.
    let write = |event: &&serde_json::Value| event["name"] == "write" && event["ph"] == "X";
    assert_eq!(events.iter().filter(write).count(), 3 * 50);
    let (code, _, err) = ran(&["serve", SMALL, "--nvme-tcp", "127.0.0.1:0", "--trace-size", "1M"]);
    assert_eq!(code, 2);
    assert!(err.contains("--trace"), "{err}");
}

/// The NQN of a server, which is then ended.
fn served_nqn(args: &[&str], signal: Signal) -> String {
    let server = Server::start(&[&["--nvme-tcp", "127.0.0.1:0"], args].concat());
    let nqn = server.address.rsplit('/').next().expect("a name").to_owned();
    assert_eq!(server.end(signal).0, Some(0));
    nqn
}

#[test]
fn image_keeps_its_identity_and_memory_has_a_new_one_each_time() {
    let uuid = "nqn.2014-08.org.nvmexpress:uuid:";
    let memory = served_nqn(&[SMALL], Signal::INT);
    assert!(memory.starts_with(uuid), "{memory}");
    assert_ne!(served_nqn(&[SMALL], Signal::TERM), memory);
    let directory = tempfile::tempdir().expect("a directory");
    let image = directory.path().join("a.img").display().to_string();
    let size = "zones=16,zone_size=1M,max_open=4,lba=4096";
    let made = fine(&["create", &image, "--profile", &format!("null:{size}")]);
    let kept = served_nqn(&[&image], Signal::INT);
    assert!(made.contains(kept.strip_prefix(uuid).expect("a UUID")), "{made} {kept}");
    assert_eq!(served_nqn(&[&image], Signal::TERM), kept);
    let chosen = "01234567-89ab-4def-8123-456789abcdef";
    assert_eq!(served_nqn(&[SMALL, "--uuid", chosen], Signal::TERM), format!("{uuid}{chosen}"));
}

#[test]
fn servers_of_the_same_spec_are_not_paths_of_one_namespace() {
    let nqn = "nqn.2026-11.org.example:same";
    let start = |more: &[&str]| {
        let args = [SMALL, "--nvme-tcp", "127.0.0.1:0", "--nqn", nqn];
        Server::start(&[&args, more].concat())
    };
    let both = |one: &Server, other: &Server| {
        let port = |server: &Server| {
            let rest = server.address.strip_prefix("nvme-tcp://").expect("an address");
            rest.split('/').next().expect("host and port").to_owned()
        };
        format!("nvme-tcp://{},{}/{nqn}", port(one), port(other))
    };
    for (chosen, differs) in [(&[][..], "serial number"), (&["--serial", "A1"], "NGUID")] {
        let (one, other) = (start(chosen), start(chosen));
        let (code, _, err) = ran(&["zone", "report", &both(&one, &other)]);
        assert_eq!(code, 2);
        assert!(err.contains(&format!("{differs}: found")), "{err}");
    }
    // Who chooses equal identifiers for different devices is found out by their zones.
    let chosen = ["--uuid", "01234567-89ab-4def-8123-456789abcdef", "--serial", "A1"];
    let (one, other) = (start(&chosen), start(&chosen));
    fine(&["zone", "open", "-o", "2048", "-c", "1", &one.address]);
    let (code, _, err) = ran(&["zone", "report", &both(&one, &other)]);
    assert_eq!(code, 2);
    assert!(err.contains("zone 1: found Empty"), "{err}");
}

#[test]
fn devices_are_the_namespaces_of_one_subsystem() {
    let disk = "null:zoned=false,size=1M,memory=true";
    let server = Server::start(&[SMALL, SMALL, disk, "--nvme-tcp", "127.0.0.1:0"]);
    let of = |nsid| format!("{}?nsid={nsid}", server.address);
    let local = fine(&["zone", "report", SMALL]);
    fine(&["zone", "open", "-o", "2048", "-c", "1", &of(2)]);
    assert_eq!(fine(&["zone", "report", &server.address]), local, "the first, without nsid");
    assert_eq!(fine(&["zone", "report", &of(1)]), local);
    assert_ne!(fine(&["zone", "report", &of(2)]), local, "each has its own zones");
    let job = "--name=reader --rw=randread --bs=4k --size=1m --iodepth=4";
    let third = of(3);
    let mut args = vec!["run", "--device", &third];
    args.extend(job.split(' '));
    assert!(fine(&args).contains("err= 0"));
    let (code, _, err) = ran(&["zone", "report", &of(4)]);
    assert_eq!(code, 2);
    assert!(err.contains("found no namespace 4, expected one of [1, 2, 3]"), "{err}");
}

#[test]
fn hosts_with_a_secret_connect_and_others_do_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("permissions");
        path.display().to_string()
    };
    let host = "nqn.2026-11.org.example:host";
    let secret = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    let other = "DHHC-1:00:2wKd3YDIcRMN/rCJa/k60E8xBQMw+2D9UnigSQ6YFkEHV3Yy:";
    let secrets = file("secrets", &format!("{host} {secret} {other}\n"));
    let wrong = file("wrong", &format!("{host} {other}\n"));
    let mut args = vec![SMALL, "--nvme-tcp", "127.0.0.1:0", "--dhchap-secrets", &secrets];
    args.extend(["--dhchap-hash", "sha512", "--dhchap-dhgroup", "ffdhe3072,null"]);
    let server = Server::start(&args);
    let with = |file: &str| format!("{}?hostnqn={host}&dhchap_secrets={file}", server.address);
    let local = fine(&["zone", "report", SMALL]);
    assert_eq!(fine(&["zone", "report", &with(&secrets)]), local);
    for (address, expected) in [
        (server.address.clone(), "CONNECT_HOST"),
        (format!("{}?hostnqn={host}", server.address), "expected dhchap_secrets=FILE"),
        (with(&wrong), "a secret is not the right one"),
        (with("nowhere"), "nowhere: cannot read the secrets"),
    ] {
        let (code, out, err) = ran(&["zone", "report", &address]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected) || err.contains("0x4184"), "{expected}: {err}");
        assert!(!err.contains("DHHC"), "{err}");
    }
    let (code, _, err) = server.end(Signal::TERM);
    assert_eq!((code, err.as_str()), (Some(0), ""));
}

#[test]
fn server_warns_of_secrets_that_others_can_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("secrets").display().to_string();
    let secret = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    std::fs::write(&path, format!("nqn.a {secret}\n")).expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&path, mode).expect("permissions");
    let server = Server::start(&[SMALL, "--nvme-tcp", "0.0.0.0:0", "--dhchap-secrets", &path]);
    let (code, _, err) = server.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(err.contains("others on this machine can read the secrets"), "{err}");
    assert!(err.contains("hosts authenticate, but there is no encryption"), "{err}");
}

#[test]
fn run_fails_when_its_server_is_killed() {
    let server = Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0"]);
    let job = "--name=reader --rw=randread --bs=4k --iodepth=4 --time_based --runtime=600";
    let device = format!("{}?ctrl_loss_tmo=0", server.address);
    let mut args = vec!["run", "--device", &device];
    args.extend(job.split(' '));
    let run = zonal(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut run = run.expect("the program starts");
    // The line that is printed before the jobs start.
    let mut out = BufReader::new(run.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    server.end(Signal::KILL);
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("UTF-8");
    assert_eq!(run.wait().expect("it ends").code(), Some(1), "{rest}");
    assert!(rest.contains("err="), "{rest}");
}

#[test]
fn server_warns_of_an_address_that_others_can_reach() {
    let server = Server::start(&["null:zones=4", "--nvme-tcp", "0.0.0.0:0"]);
    let (code, _, err) = server.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(err.contains("no authentication and no encryption"), "{err}");
    assert!(err.contains("keeps no data"), "{err}");
}

#[test]
fn wrong_arguments_name_the_option() {
    let served = |device, more: &[&str]| {
        let mut args = vec!["serve", device, "--nvme-tcp", "127.0.0.1:0"];
        args.extend(more);
        ran(&args)
    };
    let ran = |args: &[&str]| ran(args);
    let remote = "nvme-tcp://127.0.0.1:1/nqn.a";
    for ((code, out, err), expected) in [
        (ran(&["serve", SMALL]), "--nvme-tcp"),
        (ran(&["serve", SMALL, "--nvme-tcp", "here"]), "--nvme-tcp"),
        (served("nil", &[]), "device nil: unknown device"),
        (served(SMALL, &["--nqn", "zns"]), "--nqn: found `zns`, expected nqn."),
        (served(SMALL, &["--serial", "a b"]), "--serial: found `a b`, expected 1 to 20 printable"),
        (served(SMALL, &["--serial", ""]), "--serial: found ``, expected 1 to 20 printable"),
        (served(SMALL, &["--uuid", "1"]), "--uuid: found `1`, expected hexadecimal digits"),
        (
            served(SMALL, &["--uuid", "00000000-0000-0000-0000-000000000000"]),
            "expected hexadecimal digits that are not all 0",
        ),
        (
            served(SMALL, &[SMALL, "--uuid", "01234567-89ab-4def-8123-456789abcdef"]),
            "--uuid: found 1 for 2 devices, expected one for each",
        ),
        (served(SMALL, &["--allow-host", "x"]), "--allow-host: found `x`, expected nqn."),
        (served(SMALL, &["--scheduler", "fifo"]), "--scheduler"),
        (served(SMALL, &["--max-connections", "0"]), "--max-connections 0: expected 1 or more"),
        (served(SMALL, &["--io-queues", "129"]), "--io-queues"),
        (served(SMALL, &["--dhchap-secrets", "nowhere"]), "nowhere: cannot read the secrets"),
        (
            served(SMALL, &["--dhchap-secrets", "Cargo.toml"]),
            "Cargo.toml is not a list of secrets: line 1",
        ),
        (served(SMALL, &["--dhchap-hash", "sha256"]), "--dhchap-secrets"),
        (
            served(SMALL, &["--dhchap-secrets", "a", "--dhchap-hash", "md5"]),
            "found `md5`, expected",
        ),
        (ran(&["serve", SMALL, "--ublk", "--allow-host", "nqn.a"]), "--nvme-tcp <HOST:PORT>"),
        (ran(&["serve", SMALL, "--vfio-user=a", "--dhchap-secrets=b"]), "--nvme-tcp <HOST:PORT>"),
        (ran(&["serve", SMALL, "--ublk", "--io-queues=4"]), "--vfio-user <SOCKET>"),
        (ran(&["serve", "null:zones=8,conventional=2", "--vfio-user=a"]), "zone 0 is conventional"),
        (served(SMALL, &["--ublk=x"]), "--ublk"),
        (served(SMALL, &["--ublk", "--ublk-depth", "4097"]), "--ublk-depth"),
        (served(SMALL, &["--ublk=1048576"]), "ublk device 1048576: expected a number below"),
        (served(SMALL, &["--ublk", "--recover"]), "expected --ublk=ID"),
        (
            ran(&["serve", "null:zone_size=3M", "--ublk"]),
            "zones of 6144 sectors, expected a power of two",
        ),
        (
            served("null:zones=8,conventional=2", &[]),
            "only; --vhost-user and --ublk export devices with conventional zones",
        ),
        (served(remote, &[]), "cannot connect to 127.0.0.1:1"),
        (ran(&["zone", "report", "nvme-tcp://here"]), "expected nvme-tcp://HOST:PORT[,"),
        (ran(&["zone", "report", remote]), "cannot connect to 127.0.0.1:1"),
        (
            ran(&["run", "--clock", "virtual", "--device", remote, "--name=a", "--rw=read"]),
            "or a device of another program",
        ),
    ] {
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected), "{expected}: {err}");
        assert!(!err.contains("keeps no data"), "nothing is served yet: {err}");
    }
}
