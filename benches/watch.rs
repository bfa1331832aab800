//! The cost of showing devices: `--web`, `--top` and `--record-view` of a run, and a served device with
//! a page or `zonal top` in front of it.
//!
//! `cargo bench --bench watch`. Times are of processors, not of a clock. Jobs of 4 KiB writes on the
//! zoned null device in real time, where nothing but the program takes time, are taken in turn with
//! and without; each row has the median of the ratios of the pairs. `zonal top` gets a terminal from
//! `script` of util-linux.
#[path = "support/start.rs"]
mod start;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PAIRS: usize = 7;
const IOS: u32 = 2_000_000;
/// How long a served device is watched.
const WATCHED: Duration = Duration::from_secs(10);
/// Ticks a second of the times in `/proc`.
const TICKS: f64 = 100.0;
/// Fields of `/proc/PID/stat` after the name: user and system time, and those of children waited for.
const OWN: [usize; 2] = [11, 12];
const CHILDREN: [usize; 2] = [13, 14];

fn main() {
    if !start::measures() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    println!("{:<46} processor time against none of these", "a run");
    for (name, options, how) in [
        ("the same again", &[][..], How::Alone),
        ("--web, nobody looks", &["--web=127.0.0.1:0"], How::Alone),
        ("--web, a page looks", &["--web=127.0.0.1:0"], How::Looked),
        ("--top", &["--top"], How::Terminal),
        ("--record-view", &["--record-view=view"], How::Alone),
    ] {
        let pair = |_| run(dir.path(), options, how) / run(dir.path(), &[], How::Alone);
        let mut ratios: Vec<f64> = (0..PAIRS).map(pair).collect();
        ratios.sort_by(f64::total_cmp);
        let (low, median, high) = (ratios[0], ratios[PAIRS / 2], ratios[PAIRS - 1]);
        println!("{name:<46} {median:.2} ({low:.2} to {high:.2})");
    }
    for device in ["zns-1t", "smr-30t"] {
        served(dir.path(), device);
    }
}

/// How a run is started.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Alone,
    /// With a page in front of it.
    Looked,
    /// In a terminal.
    Terminal,
}

/// The processor time of a job, in seconds.
fn run(dir: &Path, options: &[&str], how: How) -> f64 {
    let device = "null:zones=4096,zone_size=256M,max_open=128,lba=4096";
    let mut words = vec![env!("CARGO_BIN_EXE_zonal").to_owned(), "run".to_owned()];
    words.extend([format!("--device={device}"), format!("--number_ios={IOS}")]);
    let job = "--name=a --rw=write --zonemode=zbd --bs=4k --iodepth=16 --eta=never --output=report";
    words.extend(job.split(' ').chain(options.iter().copied()).map(str::to_owned));
    let before = processor_time("self", CHILDREN);
    let mut child = match how {
        How::Terminal => terminal(&words.join(" ")),
        _ => Command::new(&words[0]),
    };
    if how != How::Terminal {
        child.args(&words[1..]).stdout(Stdio::null());
    }
    let mut child = child.current_dir(dir).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut log = BufReader::new(child.stderr.take().expect("a pipe"));
    if how == How::Looked {
        let mut line = String::new();
        while !line.contains("http://") {
            line.clear();
            assert!(log.read_line(&mut line).expect("text") > 0, "no address");
        }
        look(&line[line.find("http://").expect("an address")..]);
    }
    // Somebody has to read it.
    log.read_to_end(&mut Vec::new()).expect("its messages");
    assert!(child.wait().expect("it ends").success());
    processor_time("self", CHILDREN) - before
}

/// A command in a terminal of 80 columns.
fn terminal(command: &str) -> Command {
    let mut script = Command::new("script");
    let sized = format!("stty rows 24 cols 80; exec {command}");
    // Keys would come from there; at its end there is no terminal any more.
    script.args(["-qec", &sized, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::null());
    script
}

/// Reads the frames of a page, on a thread, until there are no more.
fn look(url: &str) {
    let address = url["http://".len()..].trim().trim_end_matches('/').to_owned();
    let mut stream = TcpStream::connect(&address).expect("it listens");
    write!(stream, "GET /frames HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
    thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
}

/// Prints which part of a processor a served device without I/O takes, and `zonal top`.
fn served(dir: &Path, device: &str) {
    let mut serve = Command::new(env!("CARGO_BIN_EXE_zonal"));
    serve.args(["serve", device, "--nvme-tcp=127.0.0.1:0", "--web=127.0.0.1:0", "--ctl=ctl"]);
    let mut serve = serve.current_dir(dir).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut places = BufReader::new(serve.stdout.take().expect("a pipe")).lines();
    let place = places.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("http")));
    let url = place.expect("an address").expect("text");
    println!("{:<46} of a processor", format!("\nserved without I/O: {device}"));
    let during = |pid: u32| {
        let (before, started) = (processor_time(&pid.to_string(), OWN), Instant::now());
        thread::sleep(WATCHED);
        let time = processor_time(&pid.to_string(), OWN) - before;
        format!("{:.1} %", time / started.elapsed().as_secs_f64() * 100.0)
    };
    println!("{:<46} {}", "nobody looks", during(serve.id()));
    let mut top = terminal(&format!("{} top ctl", env!("CARGO_BIN_EXE_zonal")));
    let mut top = top.current_dir(dir).spawn().expect("script starts");
    let pid = program_in(&top);
    let screen = thread::spawn(move || during(pid));
    println!("{:<46} {}", "zonal top looks: the server", during(serve.id()));
    println!("{:<46} {}", "zonal top itself", screen.join().expect("measured"));
    top.kill().expect("it runs");
    top.wait().expect("it ends");
    look(&url);
    println!("{:<46} {}", "a page looks", during(serve.id()));
    serve.kill().expect("it runs");
    serve.wait().expect("it ends");
    let _ = fs::remove_file(dir.join("ctl"));
}

/// The program that a `script` runs, once it does.
fn program_in(script: &Child) -> u32 {
    let id = script.id();
    loop {
        thread::sleep(Duration::from_millis(100));
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let pid = children.expect("it runs").trim().parse().unwrap_or(0);
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.trim() == "zonal" {
            return pid;
        }
    }
}

/// Seconds that a process has had of processors.
fn processor_time(process: &str, fields: [usize; 2]) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let (_, behind_name) = stat.rsplit_once(") ").expect("a name");
    let words: Vec<&str> = behind_name.split(' ').collect();
    fields.iter().map(|&at| words[at].parse::<f64>().expect("ticks")).sum::<f64>() / TICKS
}
