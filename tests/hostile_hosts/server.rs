//! `zonal serve` in a process of its own.
use crate::hostile::Target;
use crate::hostile::local::LocalVictim;
use crate::hostile::single::SingleVictim;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const NULL: &str = "null:zones=16,zone_size=1M,lba=4096,max_open=4,memory=true";
/// The name of the honest host.
pub const HOST: &str = "nqn.2026-11.org.example:honest";
const SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
/// How long what must happen may take.
const LONG: Duration = Duration::from_secs(30);

/// A server of its own process, with at most 256 file descriptors.
pub struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    pub target: Target,
    dir: TempDir,
    /// Where it has mounted the zones as files.
    files: Option<PathBuf>,
}

/// The exports to serve among those that this machine, or this user, may not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Privileged {
    /// Files, with /dev/fuse.
    pub files: bool,
    /// A block device, with the ublk driver.
    pub block: bool,
}

/// What a process uses.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub resident_kib: u64,
    pub descriptors: usize,
    pub mappings: usize,
    pub threads: usize,
    /// Ticks of the processor, of 10 ms.
    pub ticks: u64,
}

impl Server {
    /// `options` are those of `zonal serve`, devices among them.
    pub fn start(options: &[&str]) -> Self {
        Server::start_in(tempfile::tempdir().expect("a directory"), options)
    }

    fn start_in(dir: TempDir, options: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 256 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_zonal")]);
        command.args(["serve", "--nvme-tcp", "127.0.0.1:0"]).args(options);
        let mut child = command.current_dir(dir.path()).stdout(Stdio::piped()).spawn();
        let out = child.as_mut().expect("the program starts").stdout.take().expect("a pipe");
        let (mut out, mut line) = (BufReader::new(out), String::new());
        out.read_line(&mut line).expect("a line");
        let target = Target::parse(line.trim_end());
        Server { child: child.expect("it has started"), out, target, dir, files: None }
    }

    /// On an image like this device, and others, with all exports that several devices can have.
    pub fn with_shared_exports(profile: &str, others: &[&str]) -> (Self, LocalVictim) {
        let exports = ["--vfio-user", "vm", "--ctl", "ctl"];
        let pages = ["--web", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let mut server = Server::on_image(profile, &[others, &exports, &pages].concat());
        let places = server.places(4);
        let urls = places.iter().filter_map(|line| line.strip_prefix("http://"));
        let (metrics, web): (Vec<_>, Vec<_>) = urls.partition(|url| url.ends_with("/metrics"));
        let address = |urls: &[&str]| {
            let url = urls.first().expect("one of each");
            url.split('/').next().expect("an address").to_owned()
        };
        let path = |name| server.dir.path().join(name);
        let victim = LocalVictim {
            vfio_user: path("vm"),
            control: path("ctl"),
            web: address(&web),
            metrics: address(&metrics),
        };
        (server, victim)
    }

    /// On an image of 96 zones of 1 MiB, with the exports of one device: virtio, and those of `exports`
    /// that need privileges.
    pub fn with_single_exports(exports: Privileged) -> (Self, SingleVictim) {
        let profile = "null:zones=96,zone_size=1M,lba=4096,max_open=16";
        let mut options = vec!["--vhost-user", "vm"];
        options.extend(exports.files.then_some(["--fuse", "files"]).into_iter().flatten());
        options.extend(exports.block.then_some("--ublk"));
        let mut server = Server::on_image(profile, &options);
        let places = server.places(1 + usize::from(exports.files) + usize::from(exports.block));
        server.files = exports.files.then(|| server.dir.path().join("files"));
        let block = places.iter().find(|place| place.starts_with("/dev/ublkb")).map(PathBuf::from);
        assert_eq!(block.is_some(), exports.block, "{places:?}");
        let victim = SingleVictim {
            vhost_user: server.dir.path().join("vm"),
            files: server.files.clone(),
            block,
            zones: 64..96,
            zone_size: 1 << 20,
        };
        (server, victim)
    }

    /// On a device without descriptors of its own, with a disk of `queues` rings over vhost-user.
    pub fn with_rings(queues: u16) -> (Self, SingleVictim) {
        let queues = queues.to_string();
        let mut server =
            Server::start(&[NULL, "--vhost-user", "vm", "--vhost-user-queues", &queues]);
        server.places(1);
        let vhost_user = server.dir.path().join("vm");
        let victim =
            SingleVictim { vhost_user, files: None, block: None, zones: 0..16, zone_size: 1 << 20 };
        (server, victim)
    }

    /// The next lines of its output, one for each export.
    fn places(&mut self, count: usize) -> Vec<String> {
        let next = |_| {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).expect("a line") > 0, "it has ended");
            line.trim_end().to_owned()
        };
        (0..count).map(next).collect()
    }

    /// On an image like this device, and others.
    pub fn on_image(profile: &str, others: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
        command.args(["create", "disk.img", "--profile", profile]).current_dir(dir.path());
        assert!(command.status().expect("the program starts").success());
        std::fs::create_dir(dir.path().join("files")).expect("a directory");
        Server::start_in(dir, &[&["disk.img"], others].concat())
    }

    /// With hosts that have to authenticate; HOST can.
    pub fn authenticating() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secrets");
        std::fs::write(&path, format!("{HOST} {SECRET}\n")).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("permissions");
        Server::start_in(dir, &[NULL, "--dhchap-secrets", "secrets"])
    }

    /// The program, in the server's directory.
    pub fn zonal(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
        command.current_dir(self.dir.path());
        command
    }

    /// The address of the device for the honest host.
    pub fn device(&self, options: &str) -> String {
        let Target { address, nqn } = &self.target;
        format!("nvme-tcp://{address}/{nqn}?hostnqn={HOST}{options}")
    }

    /// Asks for a zone report as the honest host.
    #[track_caller]
    pub fn assert_serves(&self, options: &str) {
        let mut command = self.zonal();
        let output = command.args(["zone", "report", &self.device(options)]).output();
        let output = output.expect("the program starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the honest host is refused: {error}");
    }

    /// Asks for statistics over the control socket.
    #[track_caller]
    pub fn assert_answers_control(&self, victim: &LocalVictim) {
        let output = self.zonal().arg("ctl").arg(&victim.control).arg("stat").output();
        let output = output.expect("the program starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the control socket does not answer: {error}");
    }

    pub fn usage(&self) -> Usage {
        let process = format!("/proc/{}", self.child.id());
        let read = |file| std::fs::read_to_string(format!("{process}/{file}")).expect("it runs");
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|value| value.trim().strip_suffix(" kB"));
        // Fields 14 and 15, after the name in parentheses, which is field 2.
        let stat = read("stat");
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        let fields = fields.split(' ').skip(11).take(2);
        Usage {
            resident_kib: resident.expect("VmRSS").parse().expect("a number"),
            descriptors: std::fs::read_dir(format!("{process}/fd")).expect("it runs").count(),
            mappings: read("maps").lines().count(),
            threads: self.threads(),
            ticks: fields.map(|ticks| ticks.parse::<u64>().expect("a number")).sum(),
        }
    }

    /// Its threads now.
    pub fn threads(&self) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        tasks.expect("it runs").count()
    }

    /// What the server uses when its connections have ended.
    pub fn idle_usage(&self) -> Usage {
        let (mut last, mut unchanged) = (self.usage(), 0);
        wait_until("the server is idle", || {
            let now = self.usage();
            unchanged = if now.descriptors == last.descriptors { unchanged + 1 } else { 0 };
            last = now;
            unchanged == 20
        });
        last
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(files) = &self.files {
            let _ = Command::new("umount").arg("-l").arg(files).status();
        }
    }
}

/// Waits for what must happen soon.
#[track_caller]
pub fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let (begin, mut pause) = (Instant::now(), Duration::from_micros(100));
    while !reached() {
        assert!(begin.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(10));
    }
}
