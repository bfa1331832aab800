//! Runs the program in a directory of its own.
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A directory to run the program in.
pub struct TestDir(TempDir);

/// What a run left behind.
#[derive(Debug)]
pub struct RunOutput {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl TestDir {
    /// An empty directory.
    pub fn new() -> Self {
        TestDir(TempDir::new().expect("a temporary directory"))
    }

    /// Adds a file.
    pub fn with(self, name: &str, text: &str) -> Self {
        std::fs::write(self.path().join(name), text).expect("a file is written");
        self
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The text of a file.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).expect("a file is read")
    }

    /// A command that runs the program here.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_zonal"), args)
    }

    fn command_of(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        // The user's own configuration is not that of the tests.
        command.args(args).current_dir(self.path()).env("ZONAL_CONFIG", "");
        command
    }

    /// Runs `zonal` with these arguments.
    pub fn zonal(&self, args: &[&str]) -> RunOutput {
        let output = self.command(args).output();
        RunOutput::from(output.expect("the program starts"))
    }

    /// Runs `zonal-dev` with these arguments.
    pub fn zonal_dev(&self, args: &[&str]) -> RunOutput {
        let output = self.command_of(env!("CARGO_BIN_EXE_zonal-dev"), args).output();
        RunOutput::from(output.expect("the program starts"))
    }

    /// Runs `zonal` with something on its standard input.
    pub fn zonal_fed(&self, args: &[&str], input: &str) -> RunOutput {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        stdin.write_all(input.as_bytes()).expect("the program reads its input");
        drop(stdin);
        RunOutput::from(child.wait_with_output().expect("the program ends"))
    }
}

impl From<Output> for RunOutput {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        // On a loaded machine a run may take so long that it tells how far it is.
        let is_progress = |line: &str| {
            line.starts_with("Jobs: ") || line.contains(" done in ") && line.contains(", eta ")
        };
        let err = text(output.stderr);
        let err = err.split_inclusive('\n').filter(|line| !is_progress(line)).collect();
        RunOutput {
            code: output.status.code().expect("the program was not killed"),
            out: text(output.stdout),
            err,
        }
    }
}

impl RunOutput {
    /// Standard output of a run that succeeds without messages.
    #[track_caller]
    pub fn expect_ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }
}

/// Runs `zonal` with the arguments `first` and then `args`, where it needs no files: exit code, standard
/// output, standard error.
pub fn run(first: &[&str], args: &[&str]) -> (i32, String, String) {
    let RunOutput { code, out, err } = zonal(&[first, args].concat());
    (code, out, err)
}

/// Runs `zonal` where it needs no files.
pub fn zonal(args: &[&str]) -> RunOutput {
    TestDir::new().zonal(args)
}

/// A file of the repository.
pub fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// An example, as an argument.
pub fn example(name: &str) -> String {
    let path = repository("examples").join(name);
    path.to_str().expect("the repository's path is UTF-8").to_owned()
}
