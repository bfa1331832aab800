//! Runs the commands of a page.
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// How the addresses begin at which the pages have servers.
const ADDRESS: &str = "127.0.0.1:442";

/// A command that runs until it is ended, and what it prints.
struct Server {
    process: Child,
    lines: Receiver<String>,
}

/// A directory with what the commands of a page need, and the programs that still run.
pub struct Shell {
    dir: TempDir,
    /// The loopback address that stands for the one of the pages.
    host: String,
    servers: Vec<Server>,
    /// The exit code of the last command.
    pub code: i32,
}

impl Shell {
    /// A new directory, with a loopback address of its own.
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let program = env::var_os("ZONAL_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_zonal").into());
        let program = fs::canonicalize(program).expect("ZONAL_PROGRAM: a program");
        fs::create_dir(dir.path().join("bin")).expect("a directory");
        symlink(program, dir.path().join("bin/zonal")).expect("a link");
        let dev = env!("CARGO_BIN_EXE_zonal-dev");
        symlink(dev, dir.path().join("bin/zonal-dev")).expect("a link");
        for name in ["examples", "crates"] {
            let target = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
            symlink(target, dir.path().join(name)).expect("a link");
        }
        // Not a free port: it may begin with the digits of a port of the page, and is not reserved.
        static PAGES: AtomicU8 = AtomicU8::new(2);
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = format!("127.{high}.{low}.{}", PAGES.fetch_add(1, Ordering::Relaxed));
        Shell { dir, host, servers: Vec::new(), code: 0 }
    }

    /// What a command prints on standard error and standard output, in the order in which it does; of
    /// one that ends with `&`, its first `lines` lines. `None` if its program is not installed.
    pub fn run(&mut self, command: &str, lines: usize) -> Option<String> {
        let own = command.replace(ADDRESS, &format!("{}:442", self.host));
        if !self.is_installed(&own) {
            return None;
        }
        let out = match own.strip_suffix(" &") {
            Some(server) => self.start(server, lines),
            None if own.starts_with("kill %") => self.end(&own["kill %".len()..]),
            None => {
                let output =
                    self.shell(&format!("exec 2>&1; (exit {}); {own}", self.code)).output();
                let output = output.expect("a shell");
                self.code = output.status.code().expect("it was not killed");
                String::from_utf8(output.stdout).expect("UTF-8")
            }
        };
        Some(without_progress(&out.replace(&format!("{}:442", self.host), ADDRESS)))
    }

    fn start(&mut self, server: &str, lines: usize) -> String {
        let mut shell = self.shell(&format!("exec 2>&1; {server}"));
        let mut process = shell.process_group(0).spawn().expect("a shell");
        let out = BufReader::new(process.stdout.take().expect("a pipe"));
        let (sender, printed) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = out.lines().map(|line| line.expect("UTF-8") + "\n");
            lines.try_for_each(|line| sender.send(line))
        });
        let first = printed.iter().take(lines).collect();
        self.servers.push(Server { process, lines: printed });
        first
    }

    /// Ends the server with this number, from 1 on, as a user does. Returns what the page has not.
    fn end(&mut self, number: &str) -> String {
        let number: usize = number.parse().expect("the number of a server");
        let server = self.servers.get_mut(number - 1).expect("a server of this page");
        let group = Pid::from_child(&server.process);
        kill_process_group(group, Signal::TERM).expect("it runs");
        server.process.wait().expect("it ends");
        // Its shell may have ended before it.
        while test_kill_process_group(group).is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
        self.code = 0;
        server.lines.iter().collect()
    }

    /// What the servers have printed, and the page has not.
    pub fn unread(&self) -> String {
        self.servers.iter().flat_map(|server| server.lines.try_iter()).collect()
    }

    fn shell(&self, command: &str) -> Command {
        let path = env::var("PATH").expect("a PATH");
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.dir.path());
        shell.env("PATH", format!("{}/bin:{path}", self.dir.path().display()));
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        shell
    }

    /// Whether the program of a command can be run. What stands before it sets its environment.
    fn is_installed(&self, command: &str) -> bool {
        let mut words = command.split_whitespace().filter(|word| !word.contains('='));
        let Some(program) = words.next() else { return true };
        let found = self.shell(&format!("command -v {program}")).output();
        found.is_ok_and(|found| found.status.success())
    }
}

/// Without the lines that say, every 30 s, how far a command has got.
fn without_progress(out: &str) -> String {
    let is_progress = |line: &&str| line.contains(" done in ") && line.contains(" s, eta ");
    out.lines().filter(|line| !is_progress(line)).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn progress_is_no_output() {
    let out = "t: 4 of 10 done in 30 s, eta 45 s\na\n\nb done in 3 s\n";
    assert_eq!(without_progress(out), "a\n\nb done in 3 s\n");
}

impl Drop for Shell {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // One that has ended by itself is no concern here.
            let _ = kill_process_group(Pid::from_child(&server.process), Signal::KILL);
            let _ = server.process.wait();
        }
    }
}
