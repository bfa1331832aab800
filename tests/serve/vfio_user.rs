//! `zonal serve --vfio-user`, with a virtual machine monitor and its guest in this process.
use super::{SMALL, Server, fine, ran};
use crate::client::Client;
use crate::guest::{DATA, Guest, command, transfer};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::opcode::{AdminOpcode, IoOpcode};
use zonal_nvme::wire::pcie::prp_pointer;

const OK: NvmeStatus = NvmeStatus::SUCCESS;

/// A directory, and the path of a socket in it.
fn place() -> (TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("vm.sock").to_str().expect("UTF-8").to_owned();
    (dir, socket)
}

/// Writes blocks from the start of a zone on, through queues of its own, and flushes.
fn write(guest: &mut Guest, qid: u16, slba: u64, blocks: u8) {
    let mut queue = guest.create(qid);
    for block in 0..blocks {
        guest.memory.put(DATA, &[block ^ 0x5a; 4096]);
        let write = transfer(IoOpcode::WRITE, slba + u64::from(block), 1, [DATA, 0]);
        assert_eq!(guest.io(&mut queue, write).status(), OK);
    }
    assert_eq!(guest.io(&mut queue, command(IoOpcode::FLUSH.0, 1)).status(), OK);
}

/// Reads what [`write`] wrote.
fn check(guest: &mut Guest, qid: u16, slba: u64, blocks: u8) {
    let mut queue = guest.create(qid);
    for block in 0..blocks {
        let read = transfer(IoOpcode::READ, slba + u64::from(block), 1, [DATA, 0]);
        assert_eq!(guest.io(&mut queue, read).status(), OK);
        assert!(guest.memory.get(DATA, 4096) == [block ^ 0x5a; 4096], "block {block}");
    }
}

fn identify(guest: &mut Guest) -> Vec<u8> {
    let mut identify = command(AdminOpcode::IDENTIFY.0, 0);
    (identify.cdw10, identify.dptr) = (1.into(), prp_pointer([DATA, 0]));
    assert_eq!(guest.admin(identify).status(), OK);
    guest.memory.get(DATA, 4096)
}

#[test]
fn virtual_machine_and_nvme_tcp_hosts_have_the_same_namespaces() {
    let (_dir, socket) = place();
    let serial = ["--serial", "VM1", "--io-queues", "3", "--poll"];
    let exports = ["--nvme-tcp", "127.0.0.1:0", "--vfio-user", &socket];
    let mut server = Server::start(&[&[SMALL, SMALL][..], &exports, &serial].concat());
    assert_eq!(server.line(), format!("vfio-user {socket}"));
    let mode = fs::metadata(&socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the user may open it");
    let mut guest = Guest::start(Path::new(&socket));
    let id = identify(&mut guest);
    assert_eq!((&id[4..9], &id[24..35]), (&b"VM1  "[..], &b"Zonal null "[..]));
    assert_eq!(id[76], 0b10, "there may be other controllers");
    let mut queues = command(AdminOpcode::SET_FEATURES.0, 0);
    (queues.cdw10, queues.cdw11) = (7.into(), 0x1f_001f.into());
    assert_eq!(guest.admin(queues).result(), 0x2_0002, "three of each, counted from 0");
    (1..=3).for_each(|qid| write(&mut guest, qid, u64::from(qid) * 256, 8));
    // The same zones, from outside.
    let zones = fine(&["zone", "report", "-c", "2", &server.address]);
    assert!(zones.lines().nth(1).is_some_and(|zone| zone.contains("wptr 0x000040")), "{zones}");
    let (code, out, err) = server.end(Signal::TERM);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
    assert!(guest.client.is_closed());
    assert!(!Path::new(&socket).exists(), "it is removed");
}

#[test]
fn late_completions_of_a_virtual_machine_s_drive_are_counted() {
    let (dir, socket) = place();
    let ctl = dir.path().join("ctl").to_str().expect("UTF-8").to_owned();
    let timed = format!("{SMALL},latency=50us");
    let server = Server::start(&[&timed, "--vfio-user", &socket, "--ctl", &ctl]);
    let mut guest = Guest::start(Path::new(&socket));
    write(&mut guest, 1, 0, 8);
    let stat: serde_json::Value =
        serde_json::from_str(&fine(&["ctl", "--json", &ctl, "stat"])).expect("JSON");
    let counted = |name: &str| stat[name].as_u64().expect("a number");
    let (completions, late) = (counted("model_completions"), counted("model_late_completions"));
    assert!(completions >= 8 && late <= completions, "{stat}");
    let metrics = fine(&["ctl", &ctl, "metrics"]);
    let late = format!("zonal_model_late_completions_total{{device=\"null\"}} {late}\n");
    assert!(metrics.contains(&late), "{metrics}");
    let (code, _, err) = server.end(Signal::TERM);
    // With the flush at the end.
    let completions = completions + 1;
    let said = format!("late_completions: device={timed}, completions={completions}, late=");
    assert!(code == Some(0) && err.contains(&said), "{err}");
}

#[test]
fn server_after_one_that_was_killed_has_its_socket_and_its_data() {
    let (dir, socket) = place();
    let image = dir.path().join("disk.img").display().to_string();
    fine(&["create", &image, "--profile", "null:zones=16,zone_size=1M,max_open=4,lba=4096"]);
    let start = || Server::start(&[&image, "--vfio-user", &socket]);
    let server = start();
    let mut guest = Guest::start(Path::new(&socket));
    assert_eq!(identify(&mut guest)[76], 0, "the only controller");
    write(&mut guest, 1, 512, 16);
    server.end(Signal::KILL);
    assert!(guest.client.is_closed());
    assert!(Path::new(&socket).exists(), "nobody has removed it");
    let server = start();
    let mut guest = Guest::start(Path::new(&socket));
    check(&mut guest, 1, 512, 16);
    drop(guest);
    assert_eq!(server.end(Signal::INT).0, Some(0));
}

#[test]
fn path_that_is_in_use_is_refused() {
    let (dir, socket) = place();
    let refused = |path: &str, why: &str| {
        let (code, out, err) = ran(&["serve", SMALL, "--vfio-user", path]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(&format!("--vfio-user {path}")) && err.contains(why), "{err}");
    };
    let server = Server::start(&[SMALL, "--vfio-user", &socket]);
    refused(&socket, "another server listens there");
    let mut client = Client::negotiated(Path::new(&socket));
    assert_eq!(client.register(0x1c), 0, "the server is as it was");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let file = dir.path().join("file");
    fs::write(&file, "mine").expect("a file");
    refused(file.to_str().expect("UTF-8"), "found a file that is no socket");
    assert_eq!(fs::read(&file).expect("it is still there"), b"mine");
    refused("nowhere/vm.sock", "No such file");
    refused(&format!("/tmp/{}", "long".repeat(40)), "path must be shorter");
}
