//! `zonal serve` in a process of its own, which is killed.
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server.
pub struct Server {
    child: Child,
    /// Where its standard error goes.
    messages: PathBuf,
}

impl Server {
    fn spawn(args: &[String], messages: &Path, stdout: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zonal"));
        command.arg("serve").args(args).stdin(Stdio::null()).stdout(stdout);
        command.stderr(File::create(messages).expect("a file"));
        let child = command.spawn().expect("the program starts");
        Server { child, messages: messages.to_owned() }
    }

    /// Starts a server. Returns it with the place that it prints first.
    ///
    /// # Errors
    /// What it says if it ends instead.
    pub fn start(args: &[String], messages: &Path) -> Result<(Self, String), String> {
        let mut server = Server::spawn(args, messages, Stdio::piped());
        let mut line = String::new();
        let out = server.child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("UTF-8");
        if line.is_empty() {
            let code = server.wait();
            return Err(format!("it does not start: {code:?}, {}", server.said()));
        }
        Ok((server, line.trim_end().to_owned()))
    }

    /// Starts a server and kills it while it opens its device, probably.
    pub fn start_and_kill(args: &[String], messages: &Path, after: Duration) {
        let mut server = Server::spawn(args, messages, Stdio::null());
        std::thread::sleep(after);
        server.kill();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is not waited for");
        self.wait();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is not waited for");
    }

    /// Its exit code, if no signal has ended it.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("a child").code()
    }

    /// Its messages.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.messages).expect("a file")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a test that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
