//! A script through the kernel, on a disk of the guest that runs this.
//!
//! Each bio has a thread of its own, which waits in a system call until the bio has completed; zone
//! management is a `blkzone` of its own. The next bio is submitted when /proc says that the one before
//! waits in its call. The server is controlled through a serial line to the host (`tests/guest/run`).
use crate::observe::Observed;
use crate::script::{BLOCK, MAX_SECTORS_KB, Pace, Round, Script, Step, ZONE_BLOCKS};
use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{IoSlice, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zonal_blk::{Op, Status};

/// No bio takes as long.
const PATIENCE: Duration = Duration::from_secs(120);
/// Alignment of buffers for direct I/O.
const ALIGNMENT: usize = 4096;
/// The result of zone management that failed, whatever the error.
pub const MANAGEMENT_FAILED: i32 = 5;
/// The errors that are told apart: refused by the kernel itself, and the limits of open and active zones.
const OWN_ERRORS: [i32; 3] = [22, 109, 75];
/// In this many looks a thread is in the same system call: it waits there.
const LOOKS: u32 = 3;

/// A disk of the guest, and the line to the host.
pub struct Disk {
    path: PathBuf,
    file: Arc<File>,
    line: File,
    /// The server's name on the host.
    server: String,
}

/// A step that has been submitted.
enum Submitted {
    Thread(JoinHandle<i32>, Arc<AtomicI32>),
    Child(Child),
}

impl Disk {
    /// Opens a disk, sets its queue up, and opens the line to the host.
    ///
    /// # Errors
    /// The disk or the line cannot be opened, or the queue does not take its settings.
    pub fn open(path: PathBuf, line: &str, server: &str) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
        let file = options.open(&path).with_context(|| path.display().to_string())?;
        let line = OpenOptions::new().read(true).write(true).open(line).context("the line")?;
        let disk = Disk { path, file: Arc::new(file), line, server: server.to_owned() };
        disk.set("max_sectors_kb", &MAX_SECTORS_KB.to_string())?;
        disk.set("scheduler", "none")?;
        Ok(disk)
    }

    fn attribute(&self, name: &str) -> PathBuf {
        let disk = self.path.file_name().unwrap_or_default().to_string_lossy();
        PathBuf::from(format!("/sys/block/{disk}/queue/{name}"))
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.attribute(name);
        fs::write(&path, value).with_context(|| format!("{} = {value}", path.display()))
    }

    fn ask(&mut self, question: &str) -> Result<()> {
        self.line.write_all(format!("{question}\n").as_bytes())?;
        let mut answer = Vec::new();
        loop {
            let mut byte = [0];
            self.line.read_exact(&mut byte)?;
            if byte[0] == b'\n' {
                break;
            }
            answer.push(byte[0]);
        }
        if answer == b"ok" {
            return Ok(());
        }
        bail!("{question}: {}", String::from_utf8_lossy(&answer))
    }

    fn ctl(&mut self, command: &str) -> Result<()> {
        self.ask(&format!("ctl {} {command}", self.server))
    }

    /// Runs a script.
    ///
    /// # Errors
    /// The host does not answer, or a bio does not complete.
    pub fn run(&mut self, script: &Script) -> Result<Vec<Observed>> {
        // A virtio disk counts as rotating, for which QD=1 is the default.
        if script.setup.qd1 || self.attribute("zoned_qd1_writes").exists() {
            self.set("zoned_qd1_writes", if script.setup.qd1 { "1" } else { "0" })?;
        }
        let rounds = script.rounds.iter().enumerate();
        rounds.map(|(at, round)| self.round(at, round)).collect()
    }

    fn round(&mut self, at: usize, round: &Round) -> Result<Observed> {
        self.ctl(&format!("mark round {at}"))?;
        for command in &round.before {
            self.ctl(command)?;
        }
        if round.pace == Pace::Held {
            self.ask(&format!("pause {}", self.server))?;
        }
        let mut submitted = Vec::new();
        let mut results = Vec::new();
        for step in &round.steps {
            let mut next = self.submit(*step)?;
            if round.pace == Pace::OneByOne {
                results.push(end_of(next)?);
            } else {
                wait_until_it_waits(&mut next).with_context(|| step.to_string())?;
                submitted.push(next);
            }
        }
        for command in &round.after {
            self.ctl(command)?;
        }
        if round.pace == Pace::Held {
            self.ask(&format!("continue {}", self.server))?;
        }
        for (step, next) in round.steps.iter().zip(submitted) {
            results.push(end_of(next).with_context(|| step.to_string())?);
        }
        Ok(Observed { results, zones: self.zones()? })
    }

    fn submit(&self, step: Step) -> Result<Submitted> {
        let action = match step {
            Step::Zone(op, zone) => return self.manage(op, Some(zone)),
            Step::ResetAll => return self.manage(Op::ZoneReset, None),
            Step::Deadline(on) => Setting("scheduler", if on { "mq-deadline" } else { "none" }),
            Step::Qd1(on) => Setting("zoned_qd1_writes", if on { "1" } else { "0" }),
            Step::Io { .. } => Setting("", ""),
        };
        let (tid, file) = (Arc::new(AtomicI32::new(0)), Arc::clone(&self.file));
        let (told, path) = (Arc::clone(&tid), self.attribute(action.0));
        let thread = std::thread::spawn(move || {
            told.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
            match step {
                Step::Io { write, at, len, fua } => io(&file, write, at, len, fua),
                _ => errno(fs::write(path, action.1).map(|()| true)),
            }
        });
        Ok(Submitted::Thread(thread, tid))
    }

    fn manage(&self, op: Op, zone: Option<u32>) -> Result<Submitted> {
        let mut command = Command::new("blkzone");
        command.arg(op.info().name);
        if let Some(zone) = zone {
            let sector = u64::from(zone) * ZONE_BLOCKS * BLOCK / 512;
            command.args(["--offset", &sector.to_string(), "--count", "1"]);
        }
        let child = command.arg(&self.path).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Submitted::Child(child.context("blkzone")?))
    }

    /// The zones, by a report of the device, which also tells the kernel of pointers that it lost.
    fn zones(&self) -> Result<Vec<(u8, u64)>> {
        let report = Command::new("blkzone").arg("report").arg(&self.path).output()?;
        let text = String::from_utf8_lossy(&report.stdout);
        let zones = text.lines().map(|line| {
            let after = |word: &str| line.split_once(word).map(|(_, rest)| rest.trim_start());
            let pointer = after("wptr 0x").and_then(|rest| rest.split(' ').next());
            let condition = after("zcond:").and_then(|rest| rest.split('(').next());
            let pointer = u64::from_str_radix(pointer.context("no wptr")?, 16)?;
            let condition = condition.context("no zcond")?.trim().parse()?;
            let written = if Observed::has_pointer(condition) { pointer * 512 / BLOCK } else { 0 };
            Ok((condition, written))
        });
        zones.collect::<Result<_>>().with_context(|| format!("blkzone report: {text}"))
    }
}

/// An attribute of the queue, and its value.
#[derive(Clone, Copy)]
struct Setting(&'static str, &'static str);

fn errno(result: std::io::Result<bool>) -> i32 {
    match result {
        Ok(true) => 0,
        // A short write or read.
        Ok(false) => -1,
        Err(error) => match error.raw_os_error().unwrap_or(-1) {
            own if OWN_ERRORS.contains(&own) => own,
            // Over NVMe several statuses of a device have numbers of their own.
            _ => Status::IoError.errno(),
        },
    }
}

fn io(file: &File, write: bool, at: u64, len: u64, fua: bool) -> i32 {
    let len = len as usize;
    let mut memory = vec![(at / BLOCK) as u8; len + ALIGNMENT];
    let begin = memory.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut memory[begin..begin + len];
    let done = match (write, fua) {
        (true, true) => {
            let flags = ReadWriteFlags::DSYNC;
            rustix::io::pwritev2(file, &[IoSlice::new(buffer)], at, flags).map_err(Into::into)
        }
        (true, false) => file.write_at(buffer, at),
        (false, _) => file.read_at(buffer, at),
    };
    errno(done.map(|done| done == len))
}

/// Waits until a step waits in the kernel, or has ended.
fn wait_until_it_waits(step: &mut Submitted) -> Result<()> {
    let begun = Instant::now();
    let (mut last, mut looks) = (String::new(), 0);
    while looks < LOOKS {
        if begun.elapsed() > PATIENCE {
            bail!("it neither waits nor ends");
        }
        let process = match step {
            Submitted::Thread(thread, _) if thread.is_finished() => return Ok(()),
            Submitted::Thread(_, tid) => format!("self/task/{}", tid.load(Ordering::Acquire)),
            Submitted::Child(child) => match child.try_wait()? {
                Some(_) => return Ok(()),
                None => child.id().to_string(),
            },
        };
        let call = fs::read_to_string(format!("/proc/{process}/syscall")).unwrap_or_default();
        // write, ioctl, pread64, pwrite64 and pwritev2
        let waits = matches!(call.split(' ').next(), Some("1" | "16" | "17" | "18" | "328"));
        looks = if waits && call == last { looks + 1 } else { 0 };
        last = call;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The result of a step when it has ended.
fn end_of(step: Submitted) -> Result<i32> {
    let begun = Instant::now();
    let wait = |ended: bool| {
        std::thread::sleep(Duration::from_millis(1));
        if !ended && begun.elapsed() > PATIENCE {
            bail!("it does not end");
        }
        Ok(ended)
    };
    match step {
        Submitted::Thread(thread, _) => {
            while !wait(thread.is_finished())? {}
            Ok(thread.join().expect("the thread does not panic"))
        }
        Submitted::Child(mut child) => loop {
            if let Some(status) = child.try_wait()? {
                return Ok(if status.success() { 0 } else { MANAGEMENT_FAILED });
            }
            wait(false)?;
        },
    }
}
