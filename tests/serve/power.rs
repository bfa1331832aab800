//! `zonal ctl power-cut`: what a served device loses, and that it can be used afterwards.
use super::{Server, fine, ran};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const SPEC: &str = "null:zones=4,zone_size=64K,lba=4K";

struct Rig {
    server: Server,
    dir: TempDir,
}

impl Rig {
    /// A device in memory, or in an image, with a write cache.
    fn start(in_image: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let device = if in_image {
            fine(&["create", &path("d.img"), "--profile", SPEC]);
            path("d.img")
        } else {
            format!("{SPEC},memory=true")
        };
        let exports = ["--nvme-tcp", "127.0.0.1:0", "--write-cache", "1M", "--ctl", &path("ctl")];
        let mut server = Server::start(&[&[&*device][..], &exports].concat());
        server.line();
        Rig { server, dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn ctl(&self, command: &[&str]) -> (i32, String, String) {
        ran(&[&["ctl", "--json", &self.path("ctl")], command].concat())
    }

    fn cut(&self, options: &[&str]) -> Value {
        let (code, out, err) = self.ctl(&[&["power-cut"], options].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        serde_json::from_str(&out).expect("JSON")
    }

    /// Writes to a zone; its exit code.
    fn write(&self, zone: u32, kib: u32, more: &[&str]) -> i32 {
        let (offset, size) = (format!("--offset={}k", zone * 64), format!("--size={kib}k"));
        let job = ["--name=w", "--rw=write", "--bs=8k", "--verify=crc32c", "--do_verify=0"];
        let run = ["run", "--device", &self.server.address, "--eta=never", &offset, &size];
        ran(&[&run[..], &job, more].concat()).0
    }

    /// Writes without a flush: the host's shutdown commits what was answered, where it can.
    fn write_unflushed(&self, zone: u32, kib: u32) {
        assert_eq!(self.ctl(&["fault", "add", "fail=flush"]).0, 0);
        assert_eq!(self.write(zone, kib, &[]), 0);
        assert_eq!(self.ctl(&["fault", "clear"]).1.trim(), "1");
    }

    /// The write pointers, in KiB from the starts of the zones.
    fn written(&self) -> Vec<u64> {
        let report = fine(&["zone", "report", &self.server.address]);
        let wptr = |line: &str| {
            let (_, wptr) = line.split_once("wptr 0x").unwrap_or_else(|| panic!("{line}"));
            let digits = wptr.split(|c: char| !c.is_ascii_hexdigit()).next().expect("a number");
            u64::from_str_radix(digits, 16).expect("hexadecimal") / 2
        };
        report.lines().map(wptr).collect()
    }
}

#[test]
fn device_loses_what_was_not_flushed_and_goes_on() {
    for in_image in [false, true] {
        let rig = Rig::start(in_image);
        assert_eq!(rig.write(0, 24, &["--end_fsync=1"]), 0);
        rig.write_unflushed(1, 16);
        let lost = rig.cut(&["--image", &rig.path("left.img")]);
        assert_eq!(
            lost["not_durable"][0], "zone 1: kept 0 blocks of 4, of which 0 were durable",
            "{lost}"
        );
        assert_eq!(rig.written(), [24, 0, 0, 0]);
        let left = fine(&["check", "--data", &rig.path("left.img")]);
        assert!(left.contains("1 closed, 24576 bytes written"), "{left}");
        rig.write_unflushed(1, 32);
        let lost = rig.cut(&["--keep", "random", "--seed", "3"]);
        let kept = rig.written()[1];
        let fate = lost["not_durable"][0].as_str().expect("a line");
        assert!(fate.starts_with(&format!("zone 1: kept {} blocks of 8,", kept / 4)), "{fate}");
        assert_eq!(rig.server.end(Signal::TERM).0, Some(0));
        if in_image {
            let image = rig.dir.path().join("d.img").display().to_string();
            let checked = fine(&["check", "--data", &image]);
            let bytes = (24 + kept) * 1024;
            assert!(checked.contains(&format!("{bytes} bytes written")), "{checked}");
        }
    }
}

#[test]
fn hosts_that_shut_down_lose_nothing() {
    let rig = Rig::start(true);
    assert_eq!(rig.write(1, 16, &[]), 0);
    let lost = rig.cut(&[]);
    assert!(lost["not_durable"].as_array().is_none_or(Vec::is_empty), "{lost}");
    assert_eq!(rig.written(), [0, 16, 0, 0]);
}

#[test]
fn power_fails_at_a_moment_and_the_commands_then_fail() {
    let rig = Rig::start(true);
    let (code, out, _) = rig.ctl(&["power-cut", "--in-write"]);
    assert_eq!((code, out.trim()), (0, "\"the power fails at that moment\""));
    assert_ne!(rig.write(2, 16, &[]), 0);
    let torn = rig.written();
    assert_eq!(torn, [0, 0, 4, 0], "one block of two");
    rig.cut(&["--after", "2"]);
    rig.write(1, 16, &[]);
    assert_eq!(rig.written(), [0, 0, 4, 0]);
    rig.cut(&["--at-mark", "synced"]);
    rig.write_unflushed(3, 8);
    assert_eq!(rig.ctl(&["mark", "synced"]).0, 0);
    assert_eq!(rig.written(), [0, 0, 4, 0]);
    rig.cut(&["--after", "1000"]);
    assert_eq!(rig.ctl(&["power-cut", "cancel"]).0, 0);
    let (code, _, err) = rig.ctl(&["power-cut", "cancel"]);
    assert_eq!(code, 2);
    assert!(err.contains("found none that waits"), "{err}");
}

#[test]
fn power_cuts_that_cannot_be_are_refused() {
    let rig = Rig::start(false);
    std::fs::write(rig.dir.path().join("there"), "x").expect("a file");
    let (code, _, err) = rig.ctl(&["power-cut", "--image", &rig.path("there")]);
    assert_eq!(code, 2);
    assert!(err.contains("the file exists; expected a new one"), "{err}");
    let (code, _, err) = rig.ctl(&["power-cut", "--keep", "most"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("power-cut: found `--keep most`, expected [--keep none|random|all-but-one]"),
        "{err}"
    );
    let refused = |args: &[&str]| {
        let (code, _, err) = ran(&[&["serve"], args, &["--nvme-tcp", "127.0.0.1:0"]].concat());
        assert_eq!(code, 2, "{err}");
        err
    };
    assert!(refused(&[SPEC, "--write-cache", "1M"]).contains("--ctl"));
    let socket = rig.path("other");
    let recorded = ["--record", &rig.path("log"), "--write-cache", "1M", "--ctl", &socket];
    assert!(refused(&[&[SPEC][..], &recorded].concat()).contains("cannot be used with"));
    let plain = Server::start(&[SPEC, "--nvme-tcp", "127.0.0.1:0", "--ctl", &socket]);
    let (code, _, err) = ran(&["ctl", &socket, "power-cut"]);
    assert_eq!(code, 2);
    assert!(err.contains("`zonal serve --write-cache SIZE` gives it one"), "{err}");
    drop(plain);
}
