//! `zonal run` on a served device with several paths, one of which is lost.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const SMALL: &str = "null:zones=16,zone_size=1M,max_open=4,lba=4096,memory=true";
const NQN: &str = "nqn.2026-11.org.example:paths";

fn zonal(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
    command.args(args);
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the program writes UTF-8")
}

/// `zonal serve` at two addresses, with a control socket.
struct Server {
    child: Child,
    dir: TempDir,
    addresses: Vec<SocketAddr>,
}

impl Server {
    fn start() -> Self {
        let any = "127.0.0.1:0";
        let dir = TempDir::new().expect("a temporary directory");
        let mut command =
            zonal(&["serve", SMALL, "--nvme-tcp", any, "--nvme-tcp", any, "--nqn", NQN]);
        command.arg("--ctl").arg(dir.path().join("ctl"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let rest = line.trim_end().strip_prefix("nvme-tcp://").expect("an address");
        let (paths, nqn) = rest.split_once('/').expect("a name");
        assert_eq!(nqn, NQN);
        let addresses = paths.split(',').map(|path| path.parse().expect("an address")).collect();
        Server { child, dir, addresses }
    }

    /// Runs `zonal ctl`. Returns what it prints.
    fn ctl(&self, command: &str) -> String {
        let socket = self.dir.path().join("ctl");
        let mut ctl = zonal(&["ctl", socket.to_str().expect("UTF-8")]);
        let output = ctl.args(command.split(' ')).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A TCP proxy that disconnects after a number of bytes.
struct Proxy {
    address: SocketAddr,
    carried: Arc<AtomicU64>,
}

impl Proxy {
    fn to(target: SocketAddr, max_bytes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let carried = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&carried);
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        // The threads end with the process.
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.expect("a connection");
                if counter.load(Ordering::Acquire) >= max_bytes {
                    continue;
                }
                let far = TcpStream::connect(target).expect("the server listens");
                let again = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                open.lock().expect("lock").extend([again(&near), again(&far)]);
                for (mut from, mut to) in [(again(&near), again(&far)), (far, near)] {
                    let (counter, open) = (Arc::clone(&counter), Arc::clone(&open));
                    thread::spawn(move || {
                        let mut bytes = [0; 16384];
                        while let Ok(len @ 1..) = from.read(&mut bytes) {
                            let before = counter.fetch_add(len as u64, Ordering::AcqRel);
                            if before >= max_bytes || to.write_all(&bytes[..len]).is_err() {
                                break;
                            }
                        }
                        // All connections of the path end together.
                        for stream in open.lock().expect("lock").drain(..) {
                            let _ = stream.shutdown(Shutdown::Both);
                        }
                    });
                }
            }
        });
        Proxy { address, carried }
    }
}

/// Fills the zones.
fn run(device: &str) -> Output {
    let write = "--name=writers --rw=write --bs=16k --iodepth=8 --zonemode=zbd --size=16m";
    let mut args = vec!["run", "--device", device];
    args.extend(write.split(' '));
    zonal(&args).output().expect("the program starts")
}

/// The zones, as text.
fn report(device: &str) -> String {
    let output = zonal(&["zone", "report", device]).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn run_continues_on_the_other_path_when_one_is_lost() {
    let written = |policy: &str, cut: bool| {
        let server = Server::start();
        let [a, b] = [server.addresses[0], server.addresses[1]];
        // In the middle of 16 MiB of writes.
        let max_bytes = if cut { 1 << 20 } else { u64::MAX };
        let proxy = Proxy::to(a, max_bytes);
        let options = format!("iopolicy={policy}&reconnect_delay=1&ctrl_loss_tmo=1");
        let device = format!("nvme-tcp://{},{b}/{NQN}?{options}", proxy.address);
        let output = run(&device);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        assert!(out.contains("err= 0"), "{out}");
        assert_eq!(err.contains("lost: "), cut, "{err}");
        assert!(proxy.carried.load(Ordering::Acquire) > 1 << 20, "it was used");
        report(&format!("nvme-tcp://{b}/{NQN}"))
    };
    for policy in ["numa", "round-robin", "queue-depth"] {
        assert_eq!(written(policy, true), written(policy, false), "{policy}");
    }
}

#[test]
fn run_continues_on_the_other_path_while_one_is_inaccessible() {
    for policy in ["numa", "round-robin", "queue-depth"] {
        let server = Server::start();
        let [a, b] = [server.addresses[0], server.addresses[1]];
        let device = format!("nvme-tcp://{a},{b}/{NQN}?iopolicy={policy}&reconnect_delay=1");
        let alternate = || {
            for (to_leave, to_use) in [(b, a), (a, b), (b, a)] {
                server.ctl(&format!("ana {to_use} optimized"));
                thread::sleep(Duration::from_millis(800));
                server.ctl(&format!("ana {to_leave} inaccessible"));
            }
        };
        let write = "--name=w --rw=write --bs=16k --iodepth=8 --zonemode=zbd --size=16m \
                     --rate=6m --verify=crc32c";
        let output = thread::scope(|scope| {
            let alternating = scope.spawn(alternate);
            let mut run = zonal(&["run", "--device", &device]);
            let output = run.args(write.split(' ')).output().expect("the program starts");
            alternating.join().expect("no panic");
            output
        });
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        assert!(out.contains("err= 0"), "{out}");
    }
}

#[test]
fn path_whose_namespace_is_inaccessible_is_left_until_it_is_not() {
    let server = Server::start();
    let [a, b] = [server.addresses[0], server.addresses[1]];
    server.ctl(&format!("ana {a} inaccessible"));
    assert_eq!(server.ctl("ana"), format!("{a}: inaccessible\n{b}: optimized\n"));
    let output = run(&format!("nvme-tcp://{a},{b}/{NQN}"));
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains(&format!("{a}: not connected: ")), "{err}");
    assert!(err.contains("the target answered ANA_INACCESSIBLE"), "{err}");
    let alone =
        zonal(&["zone", "report", &format!("nvme-tcp://{a}/{NQN}?ctrl_loss_tmo=1")]).output();
    let alone = alone.expect("the program starts");
    assert_eq!(alone.status.code(), Some(2), "{}", text(&alone.stderr));
    server.ctl(&format!("ana {a} non-optimized"));
    report(&format!("nvme-tcp://{a}/{NQN}"));
}

#[test]
fn run_fails_when_its_only_path_stays_lost() {
    let server = Server::start();
    let proxy = Proxy::to(server.addresses[0], 1 << 20);
    let options = "reconnect_delay=1&ctrl_loss_tmo=3";
    let output = run(&format!("nvme-tcp://{}/{NQN}?{options}", proxy.address));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("err=67 (transport error)"), "{out}");
    assert!(err.contains("lost: ") && err.contains("cannot connect again"), "{err}");
}

#[test]
fn errors_name_paths_and_options() {
    let server = Server::start();
    let [a, b] = [server.addresses[0], server.addresses[1]];
    for (device, expected) in [
        (format!("nvme-tcp://{a},{a}/{NQN}"), "expected each path once".to_owned()),
        (format!("nvme-tcp://{a},/{NQN}"), "host and port: found ``".to_owned()),
        (format!("nvme-tcp://{a},{b}/{NQN}?iopolicy=x"), "iopolicy: found `x`".to_owned()),
        (format!("nvme-tcp://{a},{b}/{NQN}?nsid=7"), "found no namespace 7".to_owned()),
    ] {
        let output = run(&device);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(&expected), "{expected}: {err}");
    }
}
