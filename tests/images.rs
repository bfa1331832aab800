//! Images created, written, reported and checked, each by another process.
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

struct TestDir(TempDir);

impl TestDir {
    fn new() -> Self {
        TestDir(TempDir::new().expect("a directory"))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
        command.args(args).current_dir(self.0.path());
        command
    }

    /// Exit code, standard output, standard error.
    fn ran(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.command(args).output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        let code = output.status.code().expect("the program was not killed");
        (code, text(output.stdout), text(output.stderr))
    }

    #[track_caller]
    fn fine(&self, args: &[&str]) -> String {
        let (code, out, err) = self.ran(args);
        assert_eq!(code, 0, "{out}{err}");
        out
    }

    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let (code, out, err) = self.ran(args);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        err
    }

    fn create(&self, name: &str) {
        let profile = "null:zones=16,zone_size=1M,zone_capacity=768K,max_open=4,lba=4096";
        self.fine(&["create", name, "--profile", profile]);
    }
}

/// Bytes allocated to a file.
fn space(path: &Path) -> u64 {
    std::fs::metadata(path).expect("the file is there").blocks() * 512
}

/// Fills two zones.
const JOB: [&str; 7] = [
    "--name=a",
    "--rw=write",
    "--bs=64k",
    "--zonemode=zbd",
    "--size=2m",
    "--io_size=1536k",
    "--iodepth=4",
];

#[test]
fn data_and_zones_persist_between_processes() {
    let dir = TestDir::new();
    dir.create("a.img");
    let run = [&["run", "--device", "a.img"][..], &JOB, &["--verify=crc32c"]].concat();
    dir.fine(&run);
    let report = dir.fine(&["zone", "report", "--filter", "full", "a.img"]);
    assert_eq!(report.lines().count(), 2, "{report}");
    let read = ["run", "--device", "a.img", "--name=b", "--rw=read", "--bs=64k", "--size=1m"];
    dir.fine(&read);
    dir.fine(&["zone", "reset", "-c", "1", "a.img"]);
    let report = dir.fine(&["zone", "report", "--filter", "full", "a.img"]);
    assert_eq!(report.lines().count(), 1, "{report}");
    let check = dir.fine(&["check", "a.img"]);
    assert!(check.contains("14 empty") || check.contains("15 empty"), "{check}");
    let by_job = [&["run", "--filename=image:a.img"][..], &JOB].concat();
    dir.fine(&by_job);
}

#[test]
fn large_image_is_sparse_and_a_reset_frees_space() {
    let dir = TestDir::new();
    dir.fine(&["create", "big.img", "--profile", "smr-30t"]);
    let path = dir.path("big.img");
    let empty = space(&path);
    assert!(empty < 32 << 20, "{empty} bytes of metadata for 111,760 zones");
    let report = dir.fine(&["zone", "report", "-c", "2", "big.img"]);
    assert_eq!(report.lines().count(), 2, "{report}");
    let write = ["run", "--device", "big.img", "--name=a", "--rw=write", "--bs=1m", "--io_size=8m"];
    dir.fine(&[&write[..], &["--zonemode=zbd"]].concat());
    let written = space(&path);
    assert!((empty + (8 << 20)..empty + (10 << 20)).contains(&written), "{empty}, {written}");
    dir.fine(&["zone", "reset", "-c", "4", "big.img"]);
    assert!(space(&path) < empty + (1 << 20), "{empty}, {}", space(&path));
}

#[test]
fn image_is_locked_while_it_is_served() {
    let dir = TestDir::new();
    dir.create("a.img");
    let mut serve = dir.command(&["serve", "a.img", "--nvme-tcp", "127.0.0.1:0"]);
    let mut child = serve.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("nvme-tcp://"), "{line}");
    let refused = dir.refused(&["zone", "report", "a.img"]);
    let by_host = dir.ran(&["zone", "report", "-c", "1", line.trim_end()]);
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    assert_eq!(refused, "zonal: image a.img: another process has the image open\n");
    assert_eq!(by_host.0, 0, "{}", by_host.2);
    dir.fine(&["zone", "report", "a.img"]);
}

#[test]
fn errors_name_the_image() {
    let dir = TestDir::new();
    dir.create("a.img");
    std::fs::write(dir.path("text.img"), "not an image").expect("a file is written");
    for (args, expected) in [
        (&["zone", "report", "no.img"][..], "no such file; `zonal image create` makes one"),
        (&["zone", "report", "text.img"], "image text.img: not an image: found neither copy"),
        (&["check", "text.img"], "image text.img: not an image: found neither copy"),
        (&["zone", "report", "a.img:latency=1ms"], "found option `latency=1ms`, expected latency="),
        (
            &["zone", "report", "a.img:latency=model"],
            "latency=model: the profile has no time in it",
        ),
        (&["create", "a.img", "--profile", "null"], "the file exists"),
        (&["create", "b.img", "--profile", "nul"], "unknown device `nul`"),
        (&["create", "b.img", "--profile", "null", "--zones", "x"], "option `zones`: found `x`"),
        (&["run", "--clock", "virtual", "--device", "a.img", "--name=x"], "found an image"),
    ] {
        let error = dir.refused(args);
        assert!(error.starts_with("zonal: ") && error.contains(expected), "{args:?}: {error}");
    }
    assert!(!dir.path("b.img").exists(), "nothing is left behind");
}

#[test]
fn check_finds_damage_and_repairs_it_from_the_other_copy() {
    let dir = TestDir::new();
    dir.create("a.img");
    let damage = |at: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(dir.path("a.img"));
        file.expect("the image").write_all_at(&[0xff; 64], at).expect("it is written");
    };
    damage(40);
    let (code, out, _) = dir.ran(&["check", "a.img"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("damage: superblock, copy 0 is damaged, at byte 0"), "{out}");
    let repaired = dir.fine(&["check", "--repair", "a.img"]);
    assert!(repaired.starts_with("written again: superblock, copy 0"), "{repaired}");
    dir.fine(&["check", "a.img"]);
    damage(40);
    damage(4096 + 40);
    let (code, out, _) = dir.ran(&["check", "a.img"]);
    assert_eq!((code, out.contains("both copies of the superblock")), (1, true), "{out}");
    assert!(dir.refused(&["zone", "report", "a.img"]).contains("both copies of the superblock"));
}

#[test]
fn damaged_data_fail_reads_and_are_found_by_a_check_of_the_data() {
    let dir = TestDir::new();
    dir.create("a.img");
    dir.fine(
        &[&["run", "--device", "a.img"][..], &JOB, &["--verify=pattern", "--verify_pattern=0x5a"]]
            .concat(),
    );
    let path = dir.path("a.img");
    let bytes = std::fs::read(&path).expect("the image");
    let block = bytes.chunks(4096).position(|block| block.iter().all(|&byte| byte == 0x5a));
    let at = block.expect("the data are in the file") as u64 * 4096;
    let skipped = dir.fine(&["check", "a.img"]);
    assert!(skipped.contains("data: not read; --data compares them"), "{skipped}");
    let check = dir.fine(&["check", "--data", "a.img"]);
    assert!(check.contains("note: 1572864 bytes of data were read and compared"), "{check}");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the image");
    file.write_all_at(&[0x5b], at + 9).expect("it is written");
    dir.fine(&["check", "a.img"]);
    let (code, out, _) = dir.ran(&["check", "--data", "a.img"]);
    let damage = format!("do not match their checksums, at byte {at}");
    assert!(code == 1 && out.contains(&damage), "{code}: {out}");
    let read = ["run", "--device", "a.img", "--name=b", "--rw=read", "--bs=4k", "--size=1536k"];
    let (code, out, err) = dir.ran(&read);
    assert_eq!(code, 1, "a read of the block fails: {out}{err}");
    dir.fine(&["zone", "reset", "a.img"]);
    dir.fine(&["check", "--data", "a.img"]);
}

#[test]
fn image_without_checksums_is_made_on_request_and_says_so() {
    let dir = TestDir::new();
    let profile = "null:zones=16,zone_size=1M";
    dir.fine(&["create", "off.img", "--profile", profile, "--checksums", "off"]);
    let check = dir.fine(&["check", "--data", "off.img"]);
    assert!(check.contains("data were not checked: the image has no checksums"), "{check}");
    let error = dir.refused(&["create", "x.img", "--profile", profile, "--checksums", "yes"]);
    assert!(error.contains("invalid value 'yes'") && error.contains("on, off"), "{error}");
}

#[test]
fn preallocated_image_keeps_its_space_when_its_zones_are_reset() {
    use std::os::unix::fs::MetadataExt;
    let dir = TestDir::new();
    dir.fine(&["create", "a.img", "--profile", "null:zones=4,zone_size=4M", "--preallocate"]);
    let space = || dir.path("a.img").metadata().expect("a file").blocks() * 512;
    let before = space();
    assert!(before >= 16 << 20, "{before}");
    dir.fine(&[
        "run",
        "--device",
        "a.img",
        "--name=a",
        "--rw=write",
        "--bs=64k",
        "--zonemode=zbd",
        "--size=16m",
        "--verify=crc32c",
        "--fdatasync=4",
    ]);
    dir.fine(&["zone", "reset", "a.img"]);
    dir.fine(&["check", "--data", "--repair", "a.img"]);
    assert_eq!(space(), before);
}

#[test]
fn image_is_readable_by_its_owner_only() {
    let dir = TestDir::new();
    dir.create("a.img");
    let mode = std::fs::metadata(dir.path("a.img")).expect("the image").mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn image_has_the_latencies_of_its_model_on_request() {
    let dir = TestDir::new();
    let profile = "null:zones=4,zone_size=1M,latency=5ms";
    dir.fine(&["create", "slow.img", "--profile", profile]);
    let job = ["--name=a", "--rw=write", "--bs=4k", "--zonemode=zbd", "--io_size=16k"];
    let json = |device: &str| {
        let args = [&["run", "--output-format=json", "--device", device][..], &job].concat();
        let report: serde_json::Value =
            serde_json::from_str(&dir.fine(&args)).expect("a JSON report");
        report["jobs"][0]["write"]["runtime"].as_u64().expect("milliseconds")
    };
    // Four writes of 5 ms, one after the other; real time adds to the model's.
    assert!(json("slow.img:latency=model") >= 19);
    let drive = ["create", "zns.img", "--profile", "zns-1t", "--zones", "20"];
    dir.fine(&drive);
    let args = [&["run", "--device", "zns.img:latency=model"][..], &job].concat();
    let out = dir.fine(&args);
    assert!(out.contains("latencies of zns"), "{out}");
    let disk = ["create", "smr.img", "--profile", "smr-30t", "--zones", "200"];
    dir.fine(&disk);
    dir.fine(&[&["run", "--device", "smr.img:latency=model"][..], &job].concat());
}

#[test]
fn an_interrupt_during_the_creation_of_an_image_removes_it() {
    let dir = TestDir::new();
    let profile = "null:zones=8,zone_size=32M";
    let mut child = dir
        .command(&["create", "a.img", "--profile", profile, "--preallocate"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    while !dir.path("a.img").exists() && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it is not waited for");
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        // The image was complete already.
        Some(0) => drop(dir.fine(&["zone", "report", "a.img"])),
        code => {
            assert_eq!(code, Some(128 + 15), "{error}");
            assert!(error.contains("interrupted, and the file was removed"), "{error}");
            assert!(!dir.path("a.img").exists());
        }
    }
}

#[test]
fn file_that_may_not_grow_is_an_error_and_ends_no_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("disk.img");
    let limited =
        "ulimit -f 64 && exec \"$0\" create \"$1\" --profile null:zones=16,zone_size=1M,lba=4096";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_zonal")]).arg(&image);
    let output = shell.output().expect("a shell");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("File too large"), "{output:?}");
}
