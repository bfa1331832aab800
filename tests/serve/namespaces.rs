//! `zonal serve` with several namespaces, and what they count: over NVMe/TCP and for a guest.
use super::{SMALL, Server, fine, ran};
use crate::client::wait;
use crate::guest::{DATA, Guest, command, transfer};
use rustix::process::Signal;
use std::path::Path;
use tempfile::TempDir;
use zerocopy::FromBytes;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::log::SmartLog;
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, Csi, IoOpcode, LogId};
use zonal_nvme::wire::pcie::prp_pointer;
use zonal_nvme::wire::{Cqe, Sqe};

const OK: NvmeStatus = NvmeStatus::SUCCESS;
const FLASH: &str = "ssd:size=16M,overprovision=60%,dies=4,channels=2,block=96K,buffer=16M,fdp_handles=2,\
                     memory=true";
const PLAIN: &str = "null:zoned=false,size=4M,lba=4096,memory=true";

/// A directory, and paths in it.
fn place<const N: usize>(names: [&str; N]) -> (TempDir, [String; N]) {
    let dir = tempfile::tempdir().expect("a directory");
    let paths = names.map(|name| dir.path().join(name).display().to_string());
    (dir, paths)
}

/// The numbers of the namespaces that a guest finds, of a command set or of all.
fn listed(guest: &mut Guest, cns: Cns, csi: Csi) -> Vec<u32> {
    let mut identify = command(AdminOpcode::IDENTIFY.0, 0);
    (identify.cdw10, identify.cdw11) = (u32::from(cns.0).into(), (u32::from(csi.0) << 24).into());
    identify.dptr = prp_pointer([DATA, 0]);
    assert_eq!(guest.admin(identify).status(), OK);
    let list = guest.memory.get(DATA, 4096);
    let numbers = list.chunks(4).map(|nsid| u32::from_le_bytes(nsid.try_into().expect("4 bytes")));
    numbers.take_while(|&nsid| nsid > 0).collect()
}

#[test]
fn namespaces_of_different_kinds_have_the_numbers_that_were_chosen() {
    let (_dir, [socket]) = place(["vm.sock"]);
    let chosen = ["--namespace", &format!("7={SMALL}"), "--namespace", &format!("1={PLAIN}")];
    let exports = ["--nvme-tcp", "127.0.0.1:0", "--vfio-user", &socket];
    let mut server = Server::start(&[&[PLAIN][..], &chosen, &exports].concat());
    server.line();
    let mut guest = Guest::start(Path::new(&socket));
    assert_eq!(listed(&mut guest, Cns::ACTIVE_NAMESPACES, Csi::NVM), [1, 2, 7]);
    assert_eq!(listed(&mut guest, Cns::CSI_ACTIVE_NAMESPACES, Csi::NVM), [1, 2]);
    assert_eq!(listed(&mut guest, Cns::CSI_ACTIVE_NAMESPACES, Csi::ZNS), [7]);
    let mut queue = guest.create(1);
    let mut io = |opcode, slba, nsid: u32| -> Cqe {
        guest.io(&mut queue, Sqe { nsid: nsid.into(), ..transfer(opcode, slba, 1, [DATA, 0]) })
    };
    assert_eq!(io(IoOpcode::WRITE, 256, 7).status(), OK, "the start of zone 1");
    assert_eq!(io(IoOpcode::WRITE, 258, 7).status().code(), NvmeStatus::ZONE_INVALID_WRITE);
    assert_eq!(io(IoOpcode::WRITE, 258, 2).status(), OK, "no zones there");
    assert_eq!(io(IoOpcode::ZONE_APPEND, 0, 2).status().code(), NvmeStatus::INVALID_OPCODE);
    assert_eq!(io(IoOpcode::READ, 0, 3).status().code(), NvmeStatus::INVALID_NAMESPACE);
    // The same namespaces, from outside.
    let of = |nsid: u32| format!("{}?nsid={nsid}", server.address);
    let zones = fine(&["zone", "report", "-c", "2", &of(7)]);
    assert!(zones.lines().nth(1).is_some_and(|zone| zone.contains("wptr 0x000008")), "{zones}");
    let job = ["--name=w", "--rw=write", "--bs=4k", "--size=4k", "--verify=crc32c"];
    fine(&[&["run", "--eta=never", "--do_verify=0", "--device", &of(2)][..], &job].concat());
    for (nsid, written) in [(1, false), (2, true)] {
        let read = Sqe { nsid: nsid.into(), ..transfer(IoOpcode::READ, 0, 1, [DATA, 0]) };
        assert_eq!(guest.io(&mut queue, read).status(), OK);
        let zeroes = guest.memory.get(DATA, 4096).iter().all(|&byte| byte == 0);
        assert_eq!(zeroes, !written, "namespace {nsid}");
    }
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn namespaces_that_share_a_drive_have_their_own_data_and_handles() {
    let (_dir, [socket, ctl]) = place(["vm.sock", "ctl"]);
    let parts = ["--namespace", "4=part:rest/1", "--namespace", "2=part:4M/0"];
    let exports = ["--nvme-tcp", "127.0.0.1:0", "--vfio-user", &socket, "--ctl", &ctl];
    let mut server = Server::start(&[&[FLASH][..], &parts, &exports].concat());
    server.line();
    server.line();
    let mut guest = Guest::start(Path::new(&socket));
    assert_eq!(listed(&mut guest, Cns::ACTIVE_NAMESPACES, Csi::NVM), [2, 4]);
    assert_eq!(listed(&mut guest, Cns::ENDURANCE_GROUPS, Csi::NVM)[0] >> 16, 2, "one group");
    for (nsid, size) in [(2, "4m"), (4, "12m")] {
        let device = format!("{}?nsid={nsid}", server.address);
        let job = ["--name=w", "--rw=write", "--bs=64k", "--verify=crc32c", "--size", size];
        fine(&[&["run", "--eta=never", "--device", &device][..], &job].concat());
    }
    let stat = fine(&["ctl", &ctl, "stat"]);
    assert!(stat.contains("16777216"), "both have written to one drive: {stat}");
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

/// Parts of a drive, each with a handle of its own.
const PARTS: [&str; 4] = ["--namespace", "1=part:4M/0", "--namespace", "2=part:rest/1"];

#[test]
fn recording_of_a_drive_has_the_commands_of_all_its_namespaces_at_their_places() {
    let (_dir, [log]) = place(["log"]);
    let exports = ["--nvme-tcp", "127.0.0.1:0", "--record", &log];
    let server = Server::start(&[&[FLASH][..], &PARTS, &exports].concat());
    for nsid in [2, 1] {
        let device = format!("{}?nsid={nsid}", server.address);
        let job = ["--name=w", "--rw=write", "--bs=64k", "--size=64k", "--verify=crc32c"];
        fine(&[&["run", "--eta=never", "--do_verify=0", "--device", &device][..], &job].concat());
    }
    assert_eq!(server.end(Signal::TERM).0, Some(0));
    let events = fine(&["crash", &log, "--events"]);
    let writes: Vec<&str> = events.lines().filter(|line| line.contains(" Write ")).collect();
    assert!(writes.len() == 2, "{events}");
    assert!(writes[0].contains(" sector 8192 64KiB"), "4 MiB from the start: {}", writes[0]);
    assert!(writes[1].contains(" sector 0 64KiB"), "{}", writes[1]);
}

#[test]
fn power_of_a_drive_fails_for_all_of_its_namespaces_at_once() {
    let (dir, [socket, ctl]) = place(["vm.sock", "ctl"]);
    let exports = ["--nvme-tcp", "127.0.0.1:0", "--vfio-user", &socket];
    let power_fails = ["--ctl", &ctl, "--write-cache", "1M"];
    let mut server = Server::start(&[&[FLASH][..], &PARTS, &exports, &power_fails].concat());
    server.line();
    server.line();
    let run = |nsid: u32, rw: &str, more: &[&str]| {
        let device = format!("{}?nsid={nsid}", server.address);
        let job = ["--name=w", rw, "--bs=4k", "--size=64k", "--verify=crc32c"];
        ran(&[&["run", "--eta=never", "--device", &device][..], &job, more].concat()).0
    };
    assert_eq!(run(1, "--rw=write", &["--do_verify=0", "--end_fsync=1"]), 0);
    // The shutdown of a host would commit what it was answered.
    let faults = |what: &[&str]| {
        for device in ["1", "2"] {
            fine(&[&["ctl", &ctl, "--device", device, "fault"], what].concat());
        }
    };
    faults(&["add", "fail=flush"]);
    assert_eq!(run(2, "--rw=write", &["--do_verify=0", "--offset=1m"]), 0);
    assert_eq!(run(1, "--rw=write", &["--do_verify=0", "--offset=1m"]), 0);
    faults(&["clear"]);
    let image = dir.path().join("left.img").display().to_string();
    fine(&["ctl", &ctl, "--device", "2", "power-cut", "--image", &image]);
    assert_eq!(run(1, "--rw=read", &[]), 0, "it was flushed, by whichever namespace");
    assert_ne!(run(1, "--rw=read", &["--offset=1m"]), 0, "lost with the power of the drive");
    assert_ne!(run(2, "--rw=read", &["--offset=1m"]), 0);
    let mut guest = Guest::start(Path::new(&socket));
    assert_eq!(power(&mut guest).0, 2, "one loss of power");
    let left = |offset: &str| {
        let job = ["--name=w", "--rw=read", "--bs=4k", "--size=64k", "--verify=crc32c", offset];
        ran(&[&["run", "--eta=never", "--device", &image][..], &job].concat()).0
    };
    assert_eq!(
        (left("--offset=0"), left("--offset=1m")),
        (0, 1),
        "the image is of the whole drive"
    );
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn wrong_numbers_of_namespaces_are_refused() {
    let tcp = ["--nvme-tcp", "127.0.0.1:0"];
    for (args, expected) in [
        (
            &[SMALL, "--namespace", SMALL][..],
            "found `null:zones`, expected a number from 1 to 1024",
        ),
        (&[SMALL, "--namespace", "2"], "expected N=DEVICE, such as 2=zns-1t"),
        (&[SMALL, "--namespace", "2="], "found no device, expected N=DEVICE"),
        (&[SMALL, "--namespace", "0=null"], "found `0`, expected a number from 1 to 1024"),
        (&[SMALL, "--namespace", "1025=null"], "found `1025`, expected a number"),
        (
            &[SMALL, "--namespace", "3=null", "--namespace", "3=null"],
            "--namespace: found 3 twice, expected another number for each device",
        ),
        (&[SMALL, "--namespace", "2=nil"], "device nil: unknown device"),
        (&[FLASH, "--namespace", "1=part:9X"], "found `9X`, expected SIZE or SIZE/HANDLES"),
        (
            &[FLASH, "--namespace", "3=part:4M/0", "--namespace", "7=part:16M/1"],
            ": found 16MiB, expected at most 12MiB, which the parts before it leave",
        ),
        (&[FLASH, "--namespace", "1=part:4M/2"], "found reclaim unit handle 2, expected 0 to 1"),
        (
            &[FLASH, "--namespace", "1=part:4M"],
            "found no reclaim unit handle, expected at least one",
        ),
        (
            &[SMALL, "--namespace", "1=part:1M"],
            "found a device with 16 zones, expected one without",
        ),
        (
            &["--namespace", "1=part:1M"],
            "found parts of a device, and 0 devices, expected one DEVICE",
        ),
        (
            &[FLASH, "--namespace", "1=part:4M/0", "--namespace", "2=null"],
            "or a number twice, expected a part for each number",
        ),
        (&[], "<DEVICE>"),
    ] {
        let (code, out, err) = ran(&[&["serve"], args, &tcp].concat());
        assert_eq!((code, &*out), (2, ""), "{err}");
        assert!(err.contains(expected), "{expected}: {err}");
    }
    let (code, _, err) = ran(&["serve", SMALL, "--namespace", "2=null", "--ublk"]);
    assert!(code == 2 && err.contains("--vfio-user <SOCKET>"), "{err}");
}

/// The power cycles and the unsafe shutdowns of the SMART log.
fn power(guest: &mut Guest) -> (u128, u128) {
    let mut get = command(AdminOpcode::GET_LOG_PAGE.0, u32::MAX);
    get.cdw10 = (u32::from(LogId::SMART.0) | (512 / 4 - 1) << 16).into();
    get.dptr = prp_pointer([DATA, 0]);
    assert_eq!(guest.admin(get).status(), OK);
    let log = SmartLog::read_from_bytes(&guest.memory.get(DATA, 512)).expect("512 bytes");
    (log.power_cycles.get(), log.unsafe_shutdowns.get())
}

#[test]
fn power_cuts_are_power_cycles_and_unsafe_unless_the_guest_has_shut_down() {
    let (_dir, [socket, ctl]) = place(["vm.sock", "ctl"]);
    let mut server =
        Server::start(&[SMALL, "--vfio-user", &socket, "--ctl", &ctl, "--write-cache", "1M"]);
    server.line();
    let cut = || fine(&["ctl", &ctl, "power-cut"]);
    let mut guest = Guest::start(Path::new(&socket));
    assert_eq!(power(&mut guest), (1, 0));
    cut();
    assert_eq!(power(&mut guest), (2, 1));
    let mut queue = guest.create(1);
    assert_eq!(guest.io(&mut queue, transfer(IoOpcode::WRITE, 0, 1, [DATA, 0])).status(), OK);
    // CC.SHN: a normal shutdown. CSTS.SHST: complete.
    guest.client.set_register(0x14, 0x46_4061);
    wait(|| (guest.client.register(0x1c) & 0b1100 == 0b1000).then_some(()));
    assert_eq!(cut(), "commands_in_flight: 0\nnot_durable:\n", "what was answered is durable");
    guest.disable();
    guest.enable();
    assert_eq!(power(&mut guest), (3, 1));
    assert_eq!(server.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_subsystem_that_is_not_there_is_answered_by_those_that_are() {
    let nqn = "nqn.2026-11.org.example:small";
    let server = Server::start(&[SMALL, "--nvme-tcp", "127.0.0.1:0", "--nqn", nqn]);
    let (target, _) = server.address.rsplit_once('/').expect("a target and a name");
    let refused = |name: &str| {
        let (code, out, err) = ran(&["zone", "report", &format!("{target}/{name}")]);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        err
    };
    let address = target.trim_start_matches("nvme-tcp://");
    let name = "nqn.2026-11.org.example:smal";
    assert_eq!(
        refused(name),
        format!(
            "zonal: device {target}/{name}: {address}: found no subsystem `{name}`, expected {nqn}, \
             did you mean `{nqn}`?\n"
        )
    );
    assert!(refused("nqn.2014-08.org.other:x").ends_with(&format!("expected {nqn}\n")));
}
