//! The control socket and the metrics of `zonal serve`.
use super::hostile::{Client, Connect, Target};
use super::{SMALL, Server, fine, ran};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::admin::{FeatureCommand, event, notice};
use zonal_nvme::wire::opcode::{AdminOpcode, FeatureId};

/// A server with a control socket and metrics.
struct ControlledServer {
    server: Server,
    _dir: TempDir,
    socket: PathBuf,
    metrics: String,
}

impl ControlledServer {
    fn start(device: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("ctl");
        let path = socket.to_str().expect("UTF-8");
        let exports = ["--nvme-tcp", "127.0.0.1:0", "--ctl", path, "--metrics", "127.0.0.1:0"];
        let mut server = Server::start(&[&[device][..], &exports].concat());
        assert_eq!(server.line(), format!("ctl {path}"));
        let metrics = server.line();
        ControlledServer { server, _dir: dir, socket, metrics }
    }

    fn args<'a>(&'a self, command: &'a str) -> Vec<&'a str> {
        let socket = self.socket.to_str().expect("UTF-8");
        ["ctl", "--json", socket].into_iter().chain(command.split(' ')).collect()
    }

    fn ask(&self, command: &str) -> Value {
        serde_json::from_str(&fine(&self.args(command))).expect("JSON")
    }

    /// The error message of a command.
    fn refusal(&self, command: &str) -> String {
        let (code, out, err) = ran(&self.args(command));
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        err
    }

    fn job<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let device = self.server.address.as_str();
        [&["run", "--device", device, "--eta", "never", "--name=w", "--zonemode=zbd"][..], more]
            .concat()
    }

    /// The value of the first sample that starts with `prefix`.
    fn metric(&self, prefix: &str) -> f64 {
        let text = self.metrics_page();
        let sample = text.lines().find(|line| line.starts_with(prefix));
        let value = sample.and_then(|line| line.rsplit(' ').next());
        value.unwrap_or_else(|| panic!("no {prefix} in\n{text}")).parse().expect("a number")
    }

    /// The page of metrics, with its header.
    fn metrics_page(&self) -> String {
        let address = self.metrics.strip_prefix("http://").expect("a URL");
        let (address, path) = address.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(address).expect("the server listens");
        let request = format!("GET /{path} HTTP/1.1\r\nHost: zonal\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("UTF-8");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        text
    }
}

#[test]
fn a_group_that_is_named_may_use_the_control_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("ctl");
    let path = socket.to_str().expect("UTF-8");
    let own = rustix::process::getegid().as_raw().to_string();
    let serve = [SMALL, "--nvme-tcp", "127.0.0.1:0", "--ctl", path, "--ctl-group"];
    let mut server = Server::start(&[&serve[..], &[&own]].concat());
    assert_eq!(server.line(), format!("ctl {path}"));
    assert_eq!(socket.metadata().expect("a socket").permissions().mode() & 0o777, 0o660);
    fine(&["ctl", path, "status"]);
    drop(server);
    let (code, _, err) = ran(&[&["serve"], &serve[..], &["no such group"]].concat());
    assert!(code == 2 && err.contains("there is no such group"), "{code}: {err}");
    let (code, _, err) = ran(&[&["serve"], &serve[..], &["4294967295"]].concat());
    assert_eq!(
        (code, &*err),
        (2, "zonal: --ctl-group: found 4294967295, expected the number of a group\n")
    );
}

#[test]
fn requests_and_zones_are_counted() {
    let server = ControlledServer::start(SMALL);
    fine(&server.job(&["--rw=write", "--bs=64k", "--size=8M", "--io_size=1M"]));
    let stat = server.ask("stat");
    assert_eq!(stat["sectors_written"], 2048);
    assert_eq!(stat["failures"], 0);
    assert_eq!(server.metric("zonal_bytes_total{") as u64, 0, "nothing was read");
    let open = "zonal_zones{device=\"null\",condition=\"implicit-open\"}";
    assert_eq!(server.metric(open) as u64, 1, "768 KiB of 1 MiB are in a full zone");
    assert_eq!(server.ask("plugs").as_array().map(Vec::len), Some(1));
    assert_eq!(server.ask("status")["devices"][0]["live_plugs"], 1);
}

#[test]
fn the_screen_of_top_agrees_with_the_statistics() {
    let server = ControlledServer::start(SMALL);
    fine(&server.job(&["--rw=write", "--bs=64k", "--size=8M", "--io_size=1M"]));
    let socket = server.socket.to_str().expect("UTF-8");
    let screen = fine(&["top", socket, "--once"]);
    let lines: Vec<&str> = screen.lines().collect();
    assert_eq!(lines.len(), 24, "{screen}");
    assert!(lines[0].starts_with("none  zone_write plug  null:"), "{screen}");
    assert!(
        lines[6].starts_with("16 zones: open 1 of 4, active 1 of no limit, full 1"),
        "{screen}"
    );
    assert_eq!(lines[7], "#o..............", "{screen}");
    let view = server.ask("view 1 1 2");
    assert_eq!(
        (&view["zones"]["conditions"], &view["zones"]["filled"]),
        (&"o.".into(), &vec![33, 0].into())
    );
    let (code, out, err) = ran(&["top", socket]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("not a terminal") && err.contains("--once"), "{err}");
    let (code, _, err) = ran(&["top", socket, "--device", "2", "--once"]);
    assert_eq!(code, 2);
    assert!(err.contains("device 2: expected 1 to 1"), "{err}");
}

#[test]
fn top_ends_with_its_terminal_also_if_it_ignores_sighup() {
    let server = ControlledServer::start(SMALL);
    let (socket, dir) = (server.socket.to_str().expect("UTF-8"), server.socket.parent());
    let code = dir.expect("a directory").join("code");
    let top = format!("timeout --foreground 60 {} top {socket}", env!("CARGO_BIN_EXE_zonal"));
    let ignores = format!("trap '' HUP; stty rows 24 cols 80; {top}; echo $? >{}", code.display());
    let mut script = Command::new("script");
    script.args(["-qec", &ignores, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = script.spawn().expect("script of util-linux");
    let mut screen = terminal.stdout.take().expect("a pipe");
    let (mut shown, mut bytes) = (String::new(), [0; 4096]);
    while !shown.contains("zones:") {
        let read = screen.read(&mut bytes).expect("it is shown");
        assert!(read > 0, "{shown}");
        shown += &String::from_utf8_lossy(&bytes[..read]);
    }
    terminal.kill().expect("it runs");
    terminal.wait().expect("it ends");
    let begin = Instant::now();
    let ended = loop {
        match fs::read_to_string(&code) {
            Ok(code) if code.ends_with('\n') => break code,
            _ => thread::sleep(Duration::from_millis(20)),
        }
        assert!(begin.elapsed() < Duration::from_secs(90), "not even timeout ended it");
    };
    // A panic has 101, what timeout ends 124.
    assert_eq!(ended, "2\n");
}

#[test]
fn attributes_change_while_a_job_writes() {
    let server = ControlledServer::start(SMALL);
    let job = server.job(&[
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=16",
        "--numjobs=2",
        "--size=16M",
        "--io_size=64M",
        "--output-format=json",
    ]);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| fine(&job));
        let changes = [
            ("scheduler", "mq-deadline"),
            ("zone_write", "lock"),
            ("zone_write", "qd1"),
            ("scheduler", "bfq"),
            ("zoned_qd1_writes", "0"),
            ("max_sectors_kb", "4"),
            ("nr_requests", "2"),
            ("scheduler", "kyber"),
        ];
        for (name, value) in changes {
            assert_eq!(server.ask(&format!("set {name} {value}")), Value::Null);
            assert_eq!(server.ask(&format!("get {name}")), value);
        }
        let report: Value = serde_json::from_str(&running.join().expect("it ends")).expect("JSON");
        let written: u64 = (report["jobs"].as_array().expect("jobs").iter())
            .map(|job| job["write"]["io_bytes"].as_u64().expect("a number"))
            .sum();
        assert_eq!(written, 128 << 20);
    });
    assert_eq!(server.ask("stat")["failures"], 0);
}

#[test]
fn io_fails_by_rule_until_rules_are_cleared() {
    let server = ControlledServer::start(SMALL);
    server.ask("fault add fail=write,status=medium");
    let job = server.job(&["--rw=write", "--bs=4k", "--size=1M", "--io_size=4k"]);
    assert_eq!(ran(&job).0, 1);
    assert_eq!(server.ask("fault")[0], "fail=write,status=medium: 1 commands");
    assert!(server.metric("zonal_request_failures_total") >= 1.0);
    assert_eq!(server.ask("fault clear"), 1);
    fine(&job);
}

#[test]
fn zones_become_read_only_and_usable_again() {
    let server = ControlledServer::start(SMALL);
    let job = server.job(&["--rw=write", "--bs=4k", "--offset=3M", "--size=1M", "--io_size=4k"]);
    let zones = |condition| {
        server.metric(&format!("zonal_zones{{device=\"null\",condition=\"{condition}\"}}"))
    };
    assert_eq!(server.ask("zone 2-3 read-only"), 2);
    assert_eq!(zones("read-only") as u64, 2);
    assert_eq!(server.ask("zone 3 mend"), 1);
    assert_eq!(zones("read-only") as u64, 1);
    fine(&job);
    assert_eq!(zones("implicit-open") as u64, 1);
}

#[test]
fn revalidation_forgets_what_was_known_of_zones_that_were_formatted() {
    let server = ControlledServer::start(SMALL);
    let write = ["--rw=write", "--bs=4k", "--offset=3M", "--size=1M", "--io_size=4k"];
    fine(&server.job(&write));
    let plugs = || server.ask("plugs").as_array().map(Vec::len);
    // The device empties the zone, and the queue is not told.
    server.ask("zone 3 offline");
    server.ask("zone 3 mend");
    assert_eq!(plugs(), Some(1));
    assert_eq!(server.ask("revalidate").to_string(), server.ask("get nr_zones").as_str().unwrap());
    assert_eq!(plugs(), Some(0));
    fine(&server.job(&write));
    let regular = ControlledServer::start("null:zoned=false,size=1M");
    assert!(regular.refusal("revalidate").contains("has none to read anew"));
}

#[test]
fn disk_that_loses_a_head_in_use_loses_the_zones_on_its_surface() {
    const DISK: &str = "hdd:recording=smr,zones=16,zone_size=1M,heads=4,max_open=8";
    let server = ControlledServer::start(DISK);
    let offsets: Vec<String> = (0..6).map(|zone| format!("--offset={zone}M")).collect();
    let job = |zone: usize| {
        server.job(&["--rw=write", "--bs=4k", &offsets[zone], "--size=1M", "--io_size=64k"])
    };
    fine(&job(1));
    fine(&job(2));
    assert_eq!(server.ask("depopulate 1 offline"), 4);
    assert_eq!(server.ask("depopulate 3 read-only"), 4);
    let zones = |condition| {
        server.metric(&format!("zonal_zones{{device=\"hdd\",condition=\"{condition}\"}}"))
    };
    assert_eq!((zones("offline") as u64, zones("read-only") as u64), (4, 4));
    for (zone, expected) in [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0), (5, 1)] {
        assert_eq!(ran(&job(zone)).0, expected, "zone {zone}");
    }
    assert!(server.refusal("depopulate 4 offline").contains("the device has 4 heads, from 0"));
    let flash = ControlledServer::start(SMALL);
    assert!(flash.refusal("depopulate 0 offline").contains("no heads with zones of their own"));
}

#[test]
fn disk_that_is_formatted_without_a_head_has_fewer_zones_and_hosts_are_told() {
    let server =
        ControlledServer::start("hdd:recording=smr,zones=16,zone_size=1M,heads=4,max_open=8");
    let write = |offset: &'static str| {
        let options = ["--rw=write", "--bs=4k", offset, "--size=1M", "--io_size=64k"];
        ran(&server.job(&options)).0
    };
    assert_eq!(write("--offset=3M"), 0);
    let mut host = Watching::new(&server, notice::NAMESPACE_ATTRIBUTE);
    assert_eq!(server.ask("depopulate 1 format"), 12);
    assert_eq!(host.event(), event::NAMESPACE_ATTRIBUTE);
    assert_eq!(server.ask("get nr_zones"), "12");
    assert_eq!(write("--offset=3M"), 0, "the zone is empty again");
    assert_eq!(write("--offset=12M"), 2, "the zone is gone");
    assert_eq!(server.ask("depopulate 2 format"), 8);
    assert!(server.refusal("depopulate 2 format").contains("the device has 2 heads, from 0"));
    assert_eq!(server.ask("depopulate 1 format"), 4);
    let last = server.refusal("depopulate 0 format");
    assert!(last.contains("without it no sequential zone is left"), "{last}");
}

#[test]
fn nvme_hosts_are_told_of_the_zones_of_a_head_that_is_lost() {
    let server =
        ControlledServer::start("hdd:recording=smr,zones=16,zone_size=1M,heads=4,max_open=8");
    let mut host = Watching::new(&server, notice::ZONE_DESCRIPTOR);
    assert_eq!(server.ask("depopulate 1 offline"), 4);
    assert_eq!(host.event(), event::ZONE_DESCRIPTOR);
}

/// A host that waits for an asynchronous event.
struct Watching {
    admin: Client,
    _io: Client,
}

impl Watching {
    /// Connects, and enables the events of these notices.
    fn new(server: &ControlledServer, notices: u32) -> Self {
        let target = Target::parse(&server.server.address);
        let (mut admin, _io) = target.queues(Connect::default().hostnqn).expect("two queues");
        let mut feature = FeatureCommand::zeroed();
        feature.opcode = AdminOpcode::SET_FEATURES.0;
        (feature.fid, feature.value) = (FeatureId::ASYNC_EVENT.0, notices.into());
        let set = admin.command(feature.into(), &[]).expect("a completion");
        assert_eq!(set.status(), NvmeStatus::SUCCESS);
        let request = admin.capsule(Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0), &[]);
        admin.send(&request).expect("an open connection");
        Watching { admin, _io }
    }

    /// Waits for the event: dword 0 of its completion.
    fn event(&mut self) -> u32 {
        let told = self.admin.response().expect("an event");
        assert_eq!(told.status(), NvmeStatus::SUCCESS);
        told.dw0.get()
    }
}

#[test]
fn marks_go_into_the_log_of_a_device_that_is_recorded() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (log, socket) = (path("log"), path("ctl"));
    let exports = ["--nvme-tcp", "127.0.0.1:0", "--ctl", &socket, "--record", &log];
    let mut server = Server::start(&[&[SMALL][..], &exports].concat());
    server.line();
    let address = server.address.clone();
    let job = ["--name=w", "--rw=write", "--bs=4k", "--size=1M", "--io_size=8k", "--zonemode=zbd"];
    fine(&[&["run", "--device", &address, "--eta=never"][..], &job].concat());
    fine(&["ctl", &socket, "mark", "both", "written"]);
    // A workload of files puts its own, through the same socket.
    let (workloads, folder) = (path("workloads"), path("folder"));
    fine(&["crash", "generate", &workloads]);
    std::fs::create_dir(&folder).expect("space");
    fine(&["crash", "play", &workloads, &folder, "--ctl", &socket]);
    assert_eq!(server.end(Signal::INT).0, Some(0));
    let (code, events, warnings) = ran(&["crash", &log, "--events"]);
    assert_eq!((code, warnings.as_str()), (0, ""), "the log is whole");
    let lines: Vec<&str> = events.lines().collect();
    assert!(lines[0].starts_with("1 start 0 Write zone 0 sector 0 4KiB"), "{events}");
    let mark = |text: &str| lines.iter().position(|line| line.ends_with(text)).expect(text);
    assert!(mark(" mark both written") < mark(" mark w000001 0"), "{events}");
    let [.., mark, flush, ended] = &lines[..] else { panic!("{events}") };
    assert!(mark.contains(" mark w000001 "), "{events}");
    assert!(flush.ends_with(" Flush") && ended.ends_with(": success"), "at the end: {events}");
    let server = ControlledServer::start(SMALL);
    assert!(server.refusal("mark x").contains("mark: the device is not recorded"));
}

#[test]
fn refused_commands_give_the_reason() {
    let server = ControlledServer::start(SMALL);
    assert!(server.refusal("zone 16 offline").contains("the device has 16 zones, from 0"));
    for wrong in ["0", "1025", "all"] {
        let refusal = server.refusal(&format!("set nr_requests {wrong}"));
        assert!(
            refusal.contains(&format!("found `{wrong}`, expected 1 to 1024 requests")),
            "{refusal}"
        );
    }
    for wrong in ["0", "1025", "99999999999"] {
        let refusal = server.refusal(&format!("set max_sectors_kb {wrong}"));
        let expected = "expected a multiple of 4 KiB, up to 1024";
        assert!(refusal.contains(&format!("found `{wrong}`, {expected}")), "{refusal}");
    }
    assert!(server.refusal("set zone_write lock").contains("needs the scheduler mq-deadline"));
    assert!(server.refusal("set nr_zones 3").contains("cannot be changed"));
    assert!(server.refusal("fault add fail=trim").contains("fail=trim"));
    let (code, _, err) = ran(&["ctl", "/nowhere/ctl", "status"]);
    assert_eq!(code, 2);
    assert!(err.contains("/nowhere/ctl"), "{err}");
}

#[test]
fn only_the_owner_can_open_the_socket_and_it_is_removed() {
    let server = ControlledServer::start(SMALL);
    let mode = server.socket.metadata().expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = ["serve", SMALL, "--nvme-tcp", "127.0.0.1:0", "--ctl"];
    let again = [&again[..], &[server.socket.to_str().expect("UTF-8")]].concat();
    let (code, _, err) = ran(&again);
    assert_eq!(code, 2);
    assert!(err.contains("another server listens there"), "{err}");
    let ControlledServer { server, socket, _dir, .. } = server;
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    assert!(!socket.exists());
}

#[test]
fn malformed_requests_do_not_disturb_other_clients() {
    let server = ControlledServer::start(SMALL);
    let mut stream = UnixStream::connect(&server.socket).expect("the server listens");
    stream.write_all(b"\xff\xfe\n").expect("it takes bytes");
    let mut answer = String::new();
    // Either a response or the end of the connection, immediately.
    let _ = stream.read_to_string(&mut answer);
    let mut stream = UnixStream::connect(&server.socket).expect("the server listens");
    stream.write_all(&vec![b'x'; 70_000]).expect("it takes bytes");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.contains("expected"), "{answer}");
    assert_eq!(server.ask("get nr_requests"), "1024");
}

#[test]
fn request_that_has_no_end_within_64_kib_is_refused() {
    let server = ControlledServer::start(SMALL);
    let mut stream = UnixStream::connect(&server.socket).expect("the server listens");
    stream.write_all(&vec![b'x'; 64 << 10]).expect("it takes bytes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    assert_eq!(answer, "{\"error\":\"found no end of the line, expected one\"}\n");
}

#[test]
fn seventeenth_connection_is_told_so_and_closed() {
    let server = ControlledServer::start(SMALL);
    let connect = || UnixStream::connect(&server.socket).expect("the server listens");
    let silent: Vec<_> = (0..16).map(|_| connect()).collect();
    let mut answer = String::new();
    connect().read_to_string(&mut answer).expect("an answer, and the end");
    assert_eq!(answer, "{\"error\":\"more than 16 connections\"}\n");
    drop(silent);
    // Their threads end a moment later.
    let asked = || {
        let mut stream = connect();
        stream.write_all(b"{\"command\":[\"get\",\"nr_requests\"]}\n")?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    while !asked().is_ok_and(|answer| answer == "{\"ok\":\"1024\"}\n") {
        std::thread::yield_now();
    }
}

#[test]
fn an_image_is_scrubbed_while_it_is_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.img");
    let image = path.to_str().expect("UTF-8");
    fine(&["create", image, "--profile", "null:zones=16,zone_size=1M,lba=4096"]);
    let server = ControlledServer::start(image);
    fine(&server.job(&[
        "--rw=write",
        "--bs=64k",
        "--size=8M",
        "--verify=pattern",
        "--verify_pattern=0x5a",
    ]));
    assert_eq!(server.ask("scrub")["state"], "idle");
    fine(&server.args("scrub start 1"));
    assert!(server.refusal("scrub start").contains("one is running; stop it first"));
    assert_eq!(server.ask("scrub stop")["state"], "stopped");
    let scrubbed = || {
        fine(&server.args("scrub start 1000"));
        loop {
            let status = server.ask("scrub status");
            if status["state"] == "finished" {
                return status;
            }
        }
    };
    let status = scrubbed();
    assert_eq!(
        (status["bytes"].as_u64(), status["damaged_blocks"].as_u64()),
        (Some(8 << 20), Some(0))
    );
    let bytes = std::fs::read(image).expect("the image");
    let block = bytes.chunks(4096).position(|block| block.iter().all(|&byte| byte == 0x5a));
    let file = std::fs::OpenOptions::new().write(true).open(image).expect("the image");
    let at = block.expect("the data are in the file") as u64 * 4096;
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x5b], at).expect("it is written");
    let status = scrubbed();
    assert_eq!(status["damaged_blocks"], 1);
    assert_eq!(status["damaged_sectors"], serde_json::json!([0]));
}

#[test]
fn a_device_without_checksums_is_not_scrubbed() {
    let server = ControlledServer::start(SMALL);
    assert!(server.refusal("scrub start").contains("the device has no checksums of its data"));
}

#[test]
fn the_dashboard_asks_for_metrics_that_a_server_has() {
    let server =
        ControlledServer::start("hdd:recording=smr,zones=16,zone_size=1M,heads=4,max_open=8");
    fine(&server.job(&["--rw=write", "--bs=4k", "--size=1M", "--io_size=64k"]));
    let page = server.metrics_page();
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/grafana.json"))
            .expect("the dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let is_name = |word: &&str| word.starts_with("zonal_") || word.starts_with("process_");
    let mut names = 0;
    for target in targets {
        let expr = target["expr"].as_str().expect("an expression");
        let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(is_name) {
            assert!(page.contains(&format!("\n{name}")), "{name} of {expr} in {page}");
            names += 1;
        }
    }
    assert!(names >= 10, "{text}");
}

#[test]
fn commands_say_what_there_is_and_refuse_zones_and_names_that_there_are_not() {
    let server = ControlledServer::start(SMALL);
    let methods = server.ask("methods");
    let methods = methods.as_array().expect("a list");
    assert!(methods.iter().any(|name| name == "power-cut"), "{methods:?}");
    let socket = server.socket.to_str().expect("UTF-8");
    let at_end = fine(&["ctl", socket, "methods", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&at_end).expect("JSON"), Value::from(methods.clone()));
    // Without a server.
    let help = fine(&["ctl", "no-such-socket", "help"]);
    for method in methods {
        let method = method.as_str().expect("a name");
        assert!(help.lines().any(|line| line.trim_start().starts_with(method)), "{method}: {help}");
    }
    for (command, refusal) in [
        ("fault add fail=read,zone=99", "zone 99: the device has "),
        ("fault add delay=read,time=1ms,zone=3-99", "zone 99: the device has "),
        ("get schedular", "no attribute `schedular`, did you mean `scheduler`?"),
        ("set nr_request 4", "no attribute `nr_request`, did you mean `nr_requests`?"),
        ("set zone_write plgu", "expected plug, qd1, lock or off, did you mean `plug`?"),
        ("set scheduler deadline", "mq-deadline"),
    ] {
        assert!(
            server.refusal(command).contains(refusal),
            "{command}: {}",
            server.refusal(command)
        );
    }
    assert_eq!(server.ask("fault list").as_array().map(Vec::len), Some(0));
}

/// A value for what the help of `zonal ctl` writes in capitals; none for what may be any text.
fn value_for(placeholder: &str) -> Option<&'static str> {
    Some(match placeholder {
        "ATTRIBUTE" => "nr_requests",
        "FIRST-LAST" => "0-1",
        "ADDRESS:PORT" => "127.0.0.1:4420",
        "KIND" => "write",
        "STATUS" => "medium",
        "TIME" => "20ms",
        "SIZE" => "4K",
        "FIRST" | "PER_CELL" | "CELLS" | "VALUE" | "HEAD" | "N" | "WRITES" | "MIB_PER_SECOND" => {
            "1"
        }
        "IMAGE" | "TEXT" => return None,
        _ => panic!("{placeholder}: say what stands for it"),
    })
}

/// A word of a command, as the help shows it: what is right, and wrong words, each with the one that was meant.
fn word_and_wrong_ones(shown: &str) -> (String, Vec<(String, Option<String>)>) {
    if shown.contains(['=', ',']) {
        let mut right: Vec<String> = Vec::new();
        let mut wrong = Vec::new();
        for part in shown.split(',') {
            let (name, value) = part.split_once('=').expect("NAME=VALUE");
            let (value, others) = word_and_wrong_ones(value);
            let rule = |last: String| [&right[..], &[last]].concat().join(",");
            let misspelt = format!("{name}s");
            wrong.push((rule(format!("{misspelt}={value}")), Some(name.to_owned())));
            wrong.extend(
                others.into_iter().map(|(bad, near)| (rule(format!("{name}={bad}")), near)),
            );
            right.push(format!("{name}={value}"));
        }
        return (right.join(","), wrong);
    }
    if shown.chars().any(|c| c.is_ascii_uppercase()) {
        let wrong = value_for(shown).map(|_| ("?!".to_owned(), None));
        return (value_for(shown).unwrap_or("x").to_owned(), wrong.into_iter().collect());
    }
    let words: Vec<&str> = shown.split('|').collect();
    // Two letters in each other's place; in a word of three that is another word.
    let swapped = |word: &&str| {
        let (rest, last) = word.split_at(word.len() - 2);
        let bad: String = rest.chars().chain(last.chars().rev()).collect();
        let bad = if bad == *word { format!("{word}x") } else { bad };
        (bad, Some((*word).to_owned()))
    };
    (words[0].to_owned(), words.iter().filter(|word| word.len() > 3).map(swapped).collect())
}

#[test]
fn each_wrong_word_of_each_command_is_named_with_what_was_expected() {
    let server = ControlledServer::start(SMALL);
    let socket = server.socket.to_str().expect("UTF-8");
    let help = fine(&["ctl", socket, "help"]);
    let commands = help.lines().filter_map(|line| line.strip_prefix("  "));
    let commands = commands.filter(|line| !line.starts_with([' ']) && !line.starts_with("mark"));
    let (mut tried, mut faults) = (0, Vec::new());
    for line in commands {
        let shown = line.split("  ").next().expect("a command").replace(['[', ']'], "");
        let words = shown.split(' ').filter(|word| !matches!(*word, "..." | "|"));
        let words: Vec<_> = words.map(word_and_wrong_ones).collect();
        for (at, (bad, near)) in
            words.iter().enumerate().flat_map(|(at, word)| word.1.iter().map(move |bad| (at, bad)))
        {
            let mut command: Vec<&str> = words.iter().map(|(right, _)| right.as_str()).collect();
            command[at] = bad;
            let (code, out, err) = ran(&[&["ctl", socket][..], &command].concat());
            let found = bad.rsplit(',').next().expect("a part");
            let expected = match near {
                Some(near) => err.contains(&format!("did you mean `{near}`?")),
                None => err.contains("expected"),
            };
            tried += 1;
            if code != 2 || !out.is_empty() || !err.contains(found) || !expected {
                faults.push(format!("{}: {code} {out}{err}", command.join(" ")));
            }
        }
    }
    fine(&["ctl", socket, "set", "scheduler", "mq-deadline"]);
    let attributes = server.ask("get");
    for name in attributes.as_object().expect("attributes").keys() {
        let err = server.refusal(&format!("set {name} ?!"));
        tried += 1;
        let attribute = name.rsplit('.').next().expect("a name");
        if !err.contains(attribute) || !err.contains("expected") {
            faults.push(format!("set {name} ?!: {err}"));
        }
    }
    assert!(tried > 70, "only {tried} were tried");
    assert!(faults.is_empty(), "{} of {tried}:\n{}", faults.len(), faults.join(""));
    assert_eq!(server.ask("fault list").as_array().map(Vec::len), Some(0));
}
