//! `zonal serve --fuse` from outside, with the programs that everybody has.
//!
//! Needs /dev/fuse and the right to mount: `cargo test --features fuse --test serve_fuse`.
#![cfg(feature = "fuse")]
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Sixteen zones of 1 MiB.
const SMALL: &str = "null:zones=16,zone_size=1M,zone_capacity=768K,max_open=3,lba=4096,memory=true";
/// The same, with conventional zones.
const MIXED: &str = "null:zones=16,zone_size=1M,zone_capacity=768K,conventional=4,max_open=3,\
                     lba=4096,memory=true";

fn zonal(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
    command.args(args);
    command
}

/// A server that is ready.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    places: Vec<String>,
    dir: TempDir,
}

impl Server {
    fn start(device: &str, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_str().expect("UTF-8");
        let mut command = zonal(&["serve", device, "--fuse", path]);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let count = 1 + args.iter().filter(|arg| ["--nvme-tcp", "--ctl"].contains(arg)).count();
        let mut places = Vec::new();
        for _ in 0..count {
            let mut line = String::new();
            out.read_line(&mut line).expect("a line");
            places.push(line.trim_end().to_owned());
        }
        assert!(places.contains(&path.to_owned()), "{places:?}");
        Server { child, out, places, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a shell's words in the directory: exit code and all output.
    fn sh(&self, words: &str) -> (i32, String) {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("cd \"$0\"; exec 2>&1; {words}")]).arg(self.dir.path());
        let output = command.env("LC_ALL", "C").output().expect("a shell");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        (output.status.code().expect("it was not killed"), text)
    }

    #[track_caller]
    fn fine(&self, words: &str) -> String {
        let (code, text) = self.sh(words);
        assert_eq!(code, 0, "{words}: {text}");
        text
    }

    #[track_caller]
    fn fails(&self, words: &str, expected: &str) {
        let (code, text) = self.sh(words);
        assert!(code != 0 && text.contains(expected), "{words}: exit code {code}: {text}");
    }

    fn size(&self, name: &str) -> u64 {
        fs::metadata(self.path(name)).expect("it is there").len()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits for its end: exit code, standard error.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut err = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("UTF-8");
        let mut out = String::new();
        self.out.read_to_string(&mut out).expect("UTF-8");
        assert_eq!(out, "", "one line for each export");
        (self.child.wait().expect("it ends").code(), err)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ =
            Command::new("umount").arg("-l").arg(self.dir.path()).stderr(Stdio::null()).status();
    }
}

fn is_mounted(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("a list");
    mounts.split_whitespace().any(|word| Path::new(word) == dir)
}

#[test]
fn files_are_used_with_the_programs_that_everybody_has() {
    let mut server = Server::start(MIXED, &["--fuse-options", "uid=1,gid=2,perm=604"]);
    let data = server.dir.path().with_extension("data");
    server.fine(&format!("head -c 98304 /dev/urandom > {}", data.display()));
    let data = data.to_str().expect("UTF-8");
    assert_eq!(server.fine("ls"), "cnv\nseq\n");
    assert_eq!(server.fine("ls seq | wc -l").trim(), "12");
    assert_eq!(
        server.fine("stat -c '%s %b %a %u %g %o' seq/0 cnv/0"),
        "0 1536 604 1 2 4096\n1048576 2048 604 1 2 4096\n"
    );
    assert_eq!(server.fine("echo $(stat -c %i . cnv seq cnv/0 seq/0)"), "17 18 19 1 5\n");
    assert_eq!(server.fine("echo $(ls -ia seq | head -n 3)"), "19 . 17 .. 5 0\n");
    server.fine(&format!("dd if={data} of=seq/0 bs=16K oflag=direct conv=notrunc"));
    assert_eq!(server.size("seq/0"), 98304);
    server.fine(&format!("cmp {data} seq/0 && cat seq/0 | cmp - {data} && cp seq/0 {data}.copy"));
    server.fine(&format!("cmp {data} {data}.copy; rm {data}.copy"));
    server.fine(&format!("dd if={data} of=seq/0 bs=4K count=3 oflag=direct,append conv=notrunc"));
    assert_eq!(server.size("seq/0"), 98304 + 12288);
    let once = format!("dd if={data} bs=4K count=1 conv=notrunc");
    server.fails(&format!("{once} of=seq/0 oflag=direct"), "Invalid argument");
    server.fails(&format!("{once} of=seq/0"), "Input/output error");
    server.fails(&format!("{once} of=seq/0 bs=512 seek=216 oflag=direct"), "Invalid argument");
    server.fails(&format!("{once} of=cnv/0 seek=256"), "File too large");
    server.fine(&format!("dd if={data} of=cnv/1 bs=777 seek=3 conv=notrunc,fsync"));
    server.fine(&format!("tail -c +2332 cnv/1 | head -c 98304 | cmp - {data}"));
    server.fails("truncate -s 4096 seq/0", "Operation not permitted");
    server.fine("truncate -s 786432 seq/0");
    assert_eq!(server.size("seq/0"), 786_432);
    server.fails(&format!("{once} of=seq/0 seek=192 oflag=direct"), "File too large");
    server.fine(": > seq/0");
    assert_eq!(server.size("seq/0"), 0);
    for (words, expected) in [
        ("mkdir x", "Operation not permitted"),
        ("rmdir seq", "Operation not permitted"),
        ("rm -f seq/0", "Operation not permitted"),
        ("mv seq/0 seq/x", "Operation not permitted"),
        ("ln -s seq x", "Operation not permitted"),
        ("ln seq/0 seq/x", "Operation not permitted"),
        ("mkfifo x", "Operation not permitted"),
        (": > seq/x", "Permission denied"),
        (": > cnv/0", "Operation not permitted"),
        ("chmod u+w seq", "Operation not permitted"),
        ("fallocate -l 4096 seq/1", "not supported"),
    ] {
        server.fails(words, expected);
    }
    server.fine("chmod 600 seq/1 && chown 3:4 seq/1 && touch -d @5 seq/1 && chmod 500 seq");
    assert_eq!(server.fine("stat -c '%a %u %g %Y' seq/1"), "600 3 4 5\n");
    assert_eq!(server.fine("stat -f -c '%S %b %c %d' ."), "4096 3328 18 0\n");
    server.fine("sync -f seq/0");
    server.signal(Signal::TERM);
    assert_eq!(server.end(), (Some(0), String::new()));
    assert!(!is_mounted(server.dir.path()));
    fs::remove_file(data).expect("it is there");
}

#[test]
fn one_write_pointer_is_shared_with_hosts_over_the_network() {
    let mut server = Server::start(SMALL, &["--nvme-tcp", "127.0.0.1:0"]);
    let found = server.places.iter().find(|place| place.starts_with("nvme-tcp://"));
    let address = found.expect("two exports").clone();
    let run = |args: &[&str]| {
        let output = zonal(args).output().expect("the program starts");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let file = fs::File::open(server.path("seq/0")).expect("it is there");
    let job = ["run", "--device", &address, "--name=a", "--rw=write", "--bs=4k", "--size=64k"];
    run(&job);
    assert_eq!(server.size("seq/0"), 64 << 10);
    assert_eq!(file.metadata().expect("it is open").len(), 64 << 10, "also when it was open");
    server.fine("dd if=/dev/zero of=seq/0 bs=32K count=1 oflag=direct,append conv=notrunc");
    assert!(run(&["zone", "report", "-c", "1", &address]).contains("wptr 0x0000c0"), "192 sectors");
    run(&["zone", "finish", "-o", "0", "-c", "1", &address]);
    assert_eq!(server.size("seq/0"), 768 << 10);
    run(&["zone", "reset", &address]);
    assert_eq!(server.size("seq/0"), 0);
    server.fine("dd if=/dev/zero of=seq/0 bs=4K count=1 oflag=direct,append conv=notrunc");
    assert_eq!(server.size("seq/0"), 4096);
    drop(file);
    server.signal(Signal::INT);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn zones_that_may_be_open_are_counted_with_explicit_open() {
    let run = tempfile::tempdir().expect("a directory");
    let socket = run.path().join("ctl").display().to_string();
    let mut server =
        Server::start(SMALL, &["--fuse-options", "explicit-open", "--ctl", socket.as_str()]);
    let metrics = format!("{} ctl {socket} metrics", env!("CARGO_BIN_EXE_zonal"));
    let metrics = format!("{metrics} | sed -n 's/^zonal_files_open_for_writing.* //p'");
    let open = "exec 5>>seq/0 6>>seq/1 7>>seq/2 8>>seq/0 9<seq/3";
    assert_eq!(server.fine(&format!("{open}; {metrics}")), "3\n");
    server.fails("exec 5>>seq/0 6>>seq/1 7>>seq/2; exec 8>>seq/3", "busy");
    server.fine("exec 5>>seq/1 6>>seq/2 7>>seq/3");
    server.signal(Signal::INT);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn fuse_has_the_threads_that_it_was_given_and_128_requests_in_the_background() {
    let server = Server::start(SMALL, &["--fuse-threads", "3"]);
    let names = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", server.child.id())).expect("it runs");
        let name = |task: std::io::Result<fs::DirEntry>| {
            fs::read_to_string(task.expect("a thread").path().join("comm")).expect("its name")
        };
        let mut names: Vec<_> = tasks.map(name).collect();
        names.retain(|name| ["fuse\n", "zonefs\n"].contains(&name.as_str()));
        names.sort_unstable();
        names
    };
    let expected = ["fuse\n", "zonefs\n", "zonefs\n", "zonefs\n"];
    // A thread gives itself its name.
    let begun = Instant::now();
    while names() != expected && begun.elapsed() < Duration::from_secs(60) {
        std::thread::yield_now();
    }
    server.fine("for zone in 0 1 2; do truncate -s 786432 seq/$zone; done");
    server.fine("for n in 0 1 2 3 4 5 6 7; do cat seq/0 seq/1 seq/2 >/dev/null & done; wait");
    assert_eq!(names(), expected);
    let control = tempfile::tempdir().expect("a directory");
    let mounted =
        Command::new("mount").args(["-t", "fusectl", "none"]).arg(control.path()).status();
    assert!(mounted.expect("mount").success());
    let device = fs::metadata(server.dir.path()).expect("it is there").dev();
    let limit = control.path().join(rustix::fs::minor(device).to_string()).join("max_background");
    let limit = fs::read_to_string(limit);
    let unmounted = Command::new("umount").arg(control.path()).status();
    assert!(unmounted.expect("umount").success());
    assert_eq!(limit.expect("a connection"), "128\n");
}

#[test]
fn synchronous_writes_survive_a_loss_of_power() {
    let place = tempfile::tempdir().expect("a directory");
    let ctl = place.path().join("ctl").display().to_string();
    let server = Server::start(MIXED, &["--ctl", &ctl, "--write-cache", "1M"]);
    // By a flush of the whole device.
    server.fine("printf 1 | dd of=cnv/0 oflag=dsync conv=notrunc");
    for (file, flags) in [("seq/0", "direct,dsync"), ("seq/1", "direct"), ("seq/2", "direct,sync")]
    {
        server.fine(&format!("dd if=/dev/zero of={file} bs=4K count=2 oflag={flags} conv=notrunc"));
    }
    assert!(zonal(&["ctl", &ctl, "power-cut"]).status().expect("it starts").success());
    assert_eq!(["seq/0", "seq/1", "seq/2"].map(|file| server.size(file)), [8192, 0, 8192]);
    assert_eq!(server.fine("dd if=cnv/0 bs=4K count=1 iflag=direct status=none | head -c 1"), "1");
}

#[test]
fn server_ends_when_somebody_unmounts_it() {
    let mut server = Server::start(SMALL, &[]);
    server.fine("cd /; umount \"$0\"");
    let dir = server.dir.path().display().to_string();
    let (code, err) = server.end();
    assert_eq!(code, Some(0));
    assert!(err.ends_with(&format!(" INFO  {dir} was unmounted\n")), "{err}");
}

#[test]
fn directory_that_is_in_use_is_detached() {
    let mut server = Server::start(SMALL, &[]);
    let file = fs::File::open(server.path("seq/0")).expect("it is there");
    server.signal(Signal::INT);
    let (code, err) = server.end();
    assert_eq!(code, Some(0));
    assert!(err.contains("busy") && err.contains("detached"), "{err}");
    assert!(!is_mounted(server.dir.path()));
    assert!(file.metadata().is_err(), "nobody answers");
}

#[test]
fn what_is_in_the_way_is_said() {
    let mut server = Server::start(SMALL, &[]);
    let dir = server.dir.path().to_str().expect("UTF-8").to_owned();
    let ran = |args: &[&str]| {
        let output = zonal(&["serve"]).args(args).output().expect("the program starts");
        let err = String::from_utf8(output.stderr).expect("UTF-8");
        (output.status.code(), err)
    };
    let fuse = ["--fuse", dir.as_str()];
    let (code, err) = ran(&[&[SMALL][..], &fuse].concat());
    assert!(code == Some(2) && err.contains("mounted here already"), "{err}");
    server.signal(Signal::KILL);
    assert_eq!(server.child.wait().expect("it ends").code(), None);
    let (code, err) = ran(&[&[SMALL][..], &fuse].concat());
    assert!(code == Some(2) && err.contains("whose server is gone; `umount"), "{err}");
    server.fine("umount \"$0\"");
    for (args, expected) in [
        (&["null:zones=4", "--fuse", "/nowhere"][..], "--fuse: /nowhere: No such file"),
        (&["null:zones=4", "--fuse", "/proc/version"], "expected a directory"),
        (&["null:zoned=false", "--fuse", &dir], "the device has no zones"),
        (&[SMALL, "--fuse", &dir, "--fuse-options", "errors=no"], "--fuse-options: option"),
        (&[SMALL, "--fuse", &dir, "--fuse-threads", "0"], "--fuse-threads"),
        (&[SMALL, "--nvme-tcp", "127.0.0.1:0", "--fuse-options", "aggr_cnv"], "--fuse"),
    ] {
        let (code, err) = ran(args);
        assert!(code == Some(2) && err.contains(expected), "{expected}: {err}");
    }
}
