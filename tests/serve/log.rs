//! The log of `zonal serve` on standard error: its form, and that nobody has to read it.
use super::hostile::{Connect, Target};
use super::{SMALL, Server, fine, ran, zonal};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server with a log, whose standard error is `err`.
fn server(more: &[&str], err: Stdio) -> Server {
    let mut command = zonal(&["serve", SMALL, "--nvme-tcp", "127.0.0.1:0"]);
    let mut child =
        command.args(more).stdout(Stdio::piped()).stderr(err).spawn().expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut server = Server { child, out, address: String::new() };
    server.address = server.line();
    server
}

/// Makes the server log that connections end, `count` times.
fn disturb(server: &Server, count: usize) {
    let address =
        server.address.strip_prefix("nvme-tcp://").and_then(|rest| rest.split('/').next());
    let address = address.expect("an address");
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).expect("the server listens");
        // It may be closed already.
        let _ = stream.write_all(&[0xff; 128]);
        // The server has closed it, so it has logged why.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

#[test]
fn json_lines_have_time_level_and_message() {
    let server = server(&["--log-format", "json", "--log-level", "debug"], Stdio::piped());
    disturb(&server, 1);
    let (code, _, err) = server.end(Signal::TERM);
    assert_eq!(code, Some(0));
    let lines: Vec<Value> =
        err.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let line = lines.last().expect("a line");
    assert_eq!(line["level"], "debug");
    assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    assert!(line["message"].as_str().is_some_and(|text| text.starts_with("disconnected: ")));
    assert!(line["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{line}");
}

#[test]
fn levels_select_what_is_logged() {
    let lines = |more: &[&str]| {
        let server = server(more, Stdio::piped());
        disturb(&server, 1);
        let (code, _, err) = server.end(Signal::TERM);
        assert_eq!(code, Some(0));
        err
    };
    assert_eq!(lines(&[]), "");
    let verbose = lines(&["--verbose"]);
    assert!(verbose.contains(" DEBUG disconnected: ") && verbose.contains(" peer=\"127.0.0.1:"));
    let (code, _, err) = ran(&["serve", SMALL, "--nvme-tcp", "127.0.0.1:0", "--log-level", "loud"]);
    assert_eq!(code, 2);
    assert!(err.contains("'loud'") && err.contains("debug"), "{err}");
}

#[test]
fn names_that_hosts_send_stay_on_their_line() {
    let server = server(&["--verbose"], Stdio::piped());
    let target = Target::parse(&server.address);
    for name in ["a\x1b[2J\n2026-11-22T00:00:00.000Z ERROR forged", "b\u{202e}desrever"] {
        let hostnqn = &format!("nqn.2026-11.org.example:{name}");
        // Whether they are refused or not, they are logged.
        let _ = target.connected(&Connect { hostnqn, ..Connect::default() });
        let other = Target { nqn: hostnqn.clone(), ..target.clone() };
        let _ = other.connected(&Connect::default());
    }
    let (code, _, err) = server.end(Signal::TERM);
    assert_eq!(code, Some(0));
    assert!(err.lines().count() >= 4 && err.lines().all(|line| line.contains(" DEBUG ")), "{err}");
    let hidden = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
    assert!(!err.contains(hidden), "{err:?}");
}

#[test]
fn messages_that_hosts_cause_are_limited() {
    let begin = Instant::now();
    let server = server(&["--verbose"], Stdio::piped());
    disturb(&server, 300);
    let (code, _, err) = server.end(Signal::TERM);
    assert_eq!(code, Some(0));
    // 100 in 5 s, and a line about the others; two intervals may have begun in less than that.
    let intervals = begin.elapsed().as_secs() / 5 + 2;
    let lines = err.lines().count() as u64;
    assert!((100..=101 * intervals).contains(&lines), "{lines} lines in {intervals} intervals");
}

#[test]
fn server_goes_on_without_anybody_who_reads_its_log() {
    // Closed: each write fails.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let server = server(&["--verbose"], writer.into());
    disturb(&server, 50);
    fine(&["zone", "report", &server.address]);
    let (code, _, _) = server.end_within(PATIENCE, Signal::TERM);
    assert_eq!(code, Some(0));
}

#[test]
fn server_goes_on_while_its_log_is_full() {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let filled = writer.try_clone().expect("a descriptor");
    rustix::io::ioctl_fionbio(&writer, true).expect("a flag");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("a flag");
    let server = server(&["--verbose"], filled.into());
    disturb(&server, 50);
    fine(&["zone", "report", &server.address]);
    let (code, _, _) = server.end_within(PATIENCE, Signal::TERM);
    assert_eq!(code, Some(0));
    drop(reader);
}

#[test]
fn closed_output_is_no_panic() {
    for args in [
        &["devices"][..],
        &[
            "run",
            "--device",
            SMALL,
            "--name=a",
            "--rw=read",
            "--bs=4k",
            "--size=1M",
            "--dump-plugs",
        ],
        &["zone", "report", SMALL],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = zonal(args).stdout(writer).output().expect("it starts");
        let err = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!((output.status.code(), err.as_str()), (Some(128 + 13), ""), "{args:?}");
    }
    // An error that nobody can read.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = zonal(&["zone", "report", "nothing"]).stderr(writer).status().expect("it starts");
    assert_eq!(status.code(), Some(2));
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    let output = zonal(&["devices"]).stdout(full).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let err = BufReader::new(&output.stderr[..]).lines().next().expect("a line").expect("UTF-8");
    assert!(err.contains("No space left on device"), "{err}");
}
