//! `zonal serve` from outside, with `zonal run` and `zonal zone` as its hosts.
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

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

/// A server that is ready.
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
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        Server { child, out, address: line.trim_end().to_owned() }
    }

    fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().expect("a shell");
        assert!(status.success());
    }

    /// Ends it: exit code, what more there was on standard output, standard error.
    fn end(mut self, signal: &str) -> (Option<i32>, String, String) {
        self.signal(signal);
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).expect("UTF-8");
        self.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("UTF-8");
        (self.child.wait().expect("it ends").code(), out, err)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
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
    // Two jobs, with the plugs of both sides between them and the zones.
    let job = "--rw=randwrite --bs=4k --iodepth=8 --zonemode=zbd --size=12m --io_size=1m";
    let mut args = vec!["run", "--device", &address, "--name=writers", "--numjobs=2"];
    args.extend(job.split(' '));
    let (code, out, err) = ran(&args);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("err= 0"), "{out}");
    let written = fine(&["zone", "report", &address]);
    assert_ne!(written, local, "zones were written");
    let (code, out, err) = server.end("TERM");
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
}

#[test]
fn name_and_identity_are_the_same_each_time() {
    let name = |signal| {
        let server = Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0"]);
        let name = server.address.rsplit('/').next().expect("a name").to_owned();
        assert_eq!(server.end(signal).0, Some(0));
        name
    };
    let first = name("INT");
    assert!(first.starts_with("nqn.2014-08.org.nvmexpress:uuid:"), "{first}");
    assert_eq!(name("TERM"), first);
}

#[test]
fn run_ends_with_an_error_when_its_server_does() {
    let server = Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0"]);
    let job = "--name=reader --rw=randread --bs=4k --iodepth=4 --time_based --runtime=600";
    let mut args = vec!["run", "--device", &server.address];
    args.extend(job.split(' '));
    let run = zonal(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut run = run.expect("the program starts");
    // What is announced before the jobs begin.
    let mut out = BufReader::new(run.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    server.end("KILL");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("UTF-8");
    assert_eq!(run.wait().expect("it ends").code(), Some(1), "{rest}");
    assert!(rest.contains("err="), "{rest}");
}

#[test]
fn what_is_open_to_others_is_said() {
    let server = Server::start(&["null:zones=4", "--nvme-tcp", "0.0.0.0:0"]);
    let (code, _, err) = server.end("TERM");
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
        (served(SMALL, &["--allow-host", "x"]), "--allow-host: found `x`, expected nqn."),
        (served(SMALL, &["--scheduler", "fifo"]), "--scheduler"),
        (served(SMALL, &["--max-connections", "0"]), "--max-connections 0: expected 1 or more"),
        (served(SMALL, &["--io-queues", "129"]), "--io-queues"),
        (served(SMALL, &["--ublk=x"]), "--ublk"),
        (served(SMALL, &["--ublk", "--ublk-depth", "4097"]), "--ublk-depth"),
        (served(SMALL, &["--ublk=1048576"]), "ublk device 1048576: expected a number below"),
        (served(SMALL, &["--ublk", "--recover"]), "expected --ublk=ID"),
        (
            ran(&["serve", "null:zone_size=3M", "--ublk"]),
            "zones of 6144 sectors, expected a power of two",
        ),
        (served("null:zones=8,conventional=2", &[]), "zone 0 is conventional"),
        (served(remote, &[]), "found a device of another program"),
        (ran(&["zone", "report", "nvme-tcp://here"]), "expected nvme-tcp://HOST:PORT/NQN"),
        (ran(&["zone", "report", remote]), "cannot connect to 127.0.0.1:1"),
        (
            ran(&["run", "--clock", "virtual", "--device", remote, "--name=a", "--rw=read"]),
            "found a device of another program",
        ),
    ] {
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected), "{expected}: {err}");
    }
}
