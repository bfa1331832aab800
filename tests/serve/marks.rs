//! Marks that a host puts into the log of a recording, over NVMe/TCP.
use super::hostile::{Connect, Target};
use super::{SMALL, Server, fine, ran};
use rustix::process::Signal;
use std::fs;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::opcode::{AdminOpcode, IoOpcode};

/// Sends marks, with a flush after each; the statuses of the marks.
fn marked(options: &[&str], texts: &[&str]) -> (Server, Vec<NvmeStatus>) {
    let server = Server::start(&[&[SMALL, "--nvme-tcp", "127.0.0.1:0"], options].concat());
    let target = Target::parse(&server.address);
    let (mut admin, mut queue) = target.queues(Connect::default().hostnqn).expect("two queues");
    let mut statuses = Vec::new();
    for text in texts {
        let mark = Sqe::new(AdminOpcode::MARK.0, 0, 1);
        let completion = admin.command(mark, text.as_bytes()).expect("a completion");
        statuses.push(completion.status().code());
        let flush = Sqe::new(IoOpcode::FLUSH.0, 0, 1);
        let completion = queue.command(flush, &[]).expect("a completion");
        assert_eq!(completion.status(), NvmeStatus::SUCCESS);
    }
    (server, statuses)
}

#[test]
fn marks_of_a_host_are_in_the_log_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("d.zlog").display().to_string();
    let (server, statuses) = marked(&["--record", &log], &["mkfs done", "fsync 17\0\0", "a\nb"]);
    let bad = NvmeStatus::INVALID_FIELD;
    assert_eq!(statuses, [NvmeStatus::SUCCESS, NvmeStatus::SUCCESS, bad]);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let events = fine(&["crash", &log, "--events"]);
    let words = |line: &str| line.split_once(' ').map_or("", |(_, event)| event).to_owned();
    let events: Vec<String> = events.lines().map(words).collect();
    let expected = ["mark mkfs done", "start 0 Flush", "mark fsync 17", "start 1 Flush"];
    let found: Vec<&String> = events.iter().filter(|event| !event.starts_with("end")).collect();
    assert_eq!(found[..4], expected, "{events:?}");
}

#[test]
fn device_that_is_not_recorded_has_no_such_command() {
    let (server, statuses) = marked(&[], &["synced"]);
    assert_eq!(statuses, [NvmeStatus::INVALID_OPCODE]);
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn refused_server_leaves_an_older_log_and_trace_as_they_were() {
    for option in ["--record", "--trace"] {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("d");
        fs::write(&file, "older").expect("a file");
        let serve = ["serve", SMALL, option, file.to_str().expect("UTF-8")];
        let (code, _, errors) = ran(&[&serve[..], &["--nvme-tcp", "192.0.2.1:4420"]].concat());
        assert_eq!(code, 2, "{option}: {errors}");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "older", "{option}");
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1, "{option}");
    }
}
