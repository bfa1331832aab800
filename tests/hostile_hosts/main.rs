//! `zonal serve --nvme-tcp` and hosts that misbehave: they keep nobody out, and leave nothing behind.
mod costs;
#[path = "../hostile/mod.rs"]
mod hostile;
mod server;
mod soak;

use hostile::attacks::{ATTACKS, Hoard, Victim};
use hostile::local::{self, Ended, LOCAL_ATTACKS, LocalHoard};
use hostile::single::{self, SINGLE_ATTACKS, SingleHoard};
use hostile::{Answers, Client, Connect, Target, is};
use server::{HOST, NULL, Privileged, Server, wait_until};
use zonal_nvme::NvmeStatus;
use zonal_nvme::tcp::FatalError;
use zonal_nvme::wire::Sgl;
use zonal_nvme::wire::fabrics::DISCOVERY_NQN;
use zonal_nvme::wire::io::RwCommand;
use zonal_nvme::wire::opcode::IoOpcode;

/// Connects an admin queue and an I/O queue, and reads a block.
fn connect_and_read(target: &Target) -> (Client, Client) {
    let (admin, mut queue) = target.queues(HOST).expect("connected");
    let mut read = RwCommand::zeroed();
    (read.opcode, read.nsid) = (IoOpcode::READ.0, 1.into());
    read.dptr = Sgl::transport(4096);
    let cqe = queue.command(read.into(), &[]).expect("an answer");
    assert!(cqe.status().is_success(), "{:?}", cqe.status());
    assert_eq!(queue.answers.data, 4096);
    (queue, admin)
}

/// What a server uses stays the same over many reconnects.
fn reconnects_leave_nothing_behind(server: &Server, cycles: u32) {
    let idle = server.idle_usage().threads;
    let run = |cycles| {
        for _ in 0..cycles {
            drop(connect_and_read(&server.target));
            // A hardware queue goes to the next I/O queue when the thread of the last has ended. Until then
            // the next would make another one.
            wait_until("the threads of both queues have ended", || server.threads() == idle);
        }
    };
    // What is allocated once is.
    run(200);
    let first = server.idle_usage();
    run(cycles / 4);
    let second = server.usage();
    run(cycles / 2);
    let third = server.usage();
    run(cycles / 4);
    let last = server.idle_usage();
    println!("{cycles} cycles: at first {first:?}, at last {last:?}");
    assert_eq!(last.descriptors, first.descriptors, "descriptors are not closed");
    assert_eq!((last.threads, first.threads), (idle, idle), "threads do not end");
    let grown = last.resident_kib.saturating_sub(first.resident_kib);
    assert!(grown < 2048, "{grown} KiB more after {cycles} cycles");
    // Time of the processor, which other processes do not use up.
    let (early, late) = (second.ticks - first.ticks, last.ticks - third.ticks);
    println!("{early} ticks for the first quarter, {late} for the last");
    assert!(late <= 2 * early + 20, "a connection costs {late} ticks now, {early} before");
}

/// Sixteen zones, for an image.
const ZONED: &str = "null:zones=16,zone_size=1M,lba=4096,max_open=4";

/// How often to reconnect: by default so often that a leak of a descriptor or of 1 KiB shows.
fn cycles(default: u32) -> u32 {
    let set = std::env::var("ZONAL_RECONNECTS").ok();
    set.map_or(default, |count| count.parse().expect("ZONAL_RECONNECTS is a number"))
}

fn count_open(clients: Vec<Client>) -> usize {
    clients.into_iter().filter_map(|mut client| client.is_open().then_some(())).count()
}

#[test]
fn reconnects_to_a_null_device_leave_nothing_behind() {
    reconnects_leave_nothing_behind(&Server::start(&[NULL]), cycles(4000));
}

#[test]
fn reconnects_to_an_image_leave_nothing_behind() {
    reconnects_leave_nothing_behind(&Server::on_image(ZONED, &[]), cycles(2000));
}

#[test]
fn connections_in_the_name_of_a_host_do_not_count_against_it() {
    let server = Server::authenticating();
    let fake = Connect { hostnqn: HOST, ..Connect::default() };
    let fakes: Vec<Client> = (0..128)
        .map(|_| {
            let (client, cqe) = server.target.connected(&fake).expect("an answer");
            assert!(cqe.status().is_success(), "it may try to authenticate: {:?}", cqe.status());
            client
        })
        .collect();
    server.assert_serves("&dhchap_secrets=secrets");
    // Others made room: the host did not wait for them to time out.
    let open = count_open(fakes);
    assert!((1..=32).contains(&open), "{open} are open");
}

#[test]
fn host_without_a_name_is_served_where_no_list_asks_for_one() {
    let nameless = Connect { hostnqn: "", ..Connect::default() };
    let open = Server::start(&[NULL]);
    let (_admin, mut queue) = open.target.queues("").expect("two queues");
    let mut read = RwCommand::zeroed();
    (read.opcode, read.nsid) = (IoOpcode::READ.0, 1.into());
    read.dptr = Sgl::transport(4096);
    assert!(queue.command(read.into(), &[]).expect("an answer").status().is_success());
    let malformed = Connect { hostnqn: "host", ..Connect::default() };
    let (_client, cqe) = open.target.connected(&malformed).expect("an answer");
    assert!(is(&cqe, NvmeStatus::CONNECT_PARAMETERS), "{:?}", cqe.status());
    for server in [Server::start(&[NULL, "--allow-host", HOST]), Server::authenticating()] {
        let (_client, cqe) = server.target.connected(&nameless).expect("an answer");
        assert!(is(&cqe, NvmeStatus::CONNECT_HOST), "{:?}", cqe.status());
    }
}

#[test]
fn idle_connections_keep_nobody_out() {
    let server = Server::start(&[NULL]);
    let silent: Vec<_> = (0..254).map(|_| server.target.open().expect("a connection")).collect();
    server.assert_serves("");
    let open = count_open(silent);
    assert!((1..=64).contains(&open), "{open} are open");
    let _mute: Vec<_> = (0..254).map(|_| server.target.initialized().expect("ICResp")).collect();
    server.assert_serves("");
    let discovery = || {
        let mut client = server.target.initialized().expect("ICResp");
        let cqe = client.connect(DISCOVERY_NQN, &Connect::default()).expect("an answer");
        assert!(cqe.status().is_success(), "{:?}", cqe.status());
        client
    };
    let _discovering: Vec<_> = (0..254).map(|_| discovery()).collect();
    server.assert_serves("");
}

#[test]
fn busy_server_lets_hosts_try_again() {
    let server = Server::start(&[NULL, "--max-host-connections", "1"]);
    let (_first, cqe) = server.target.connected(&Connect::default()).expect("an answer");
    assert!(cqe.status().is_success());
    let (mut second, cqe) = server.target.connected(&Connect::default()).expect("an answer");
    assert!(is(&cqe, NvmeStatus::CONTROLLER_BUSY));
    assert_eq!(cqe.status().0 & NvmeStatus::DO_NOT_RETRY, 0, "no Do Not Retry");
    assert!(second.is_closed());
}

/// What a server answers to each of [`ATTACKS`]: how many responses of which status, R2Ts, and termination
/// requests with which Fatal Error Status.
type Answered = (&'static [(NvmeStatus, u64)], u64, &'static [(FatalError, u64)]);

const OK: NvmeStatus = NvmeStatus(0);

const ANSWERED: [Answered; ATTACKS.len()] = [
    (&[], 0, &[]),
    (&[], 0, &[]),
    (&[], 0, &[]),
    (&[], 0, &[(FatalError::HeaderField, 1)]),
    (&[], 0, &[(FatalError::LimitExceeded, 1)]),
    (&[(NvmeStatus::CONNECT_PARAMETERS, 1)], 0, &[]),
    (&[], 0, &[]),
    // Connect, and the controller enabled.
    (&[(OK, 2)], 0, &[]),
    (&[], 0, &[]),
    // That, and Connect of an I/O queue.
    (&[(OK, 3)], 1, &[]),
    (&[(OK, 3)], 0, &[]),
    // Zone actions, too; the device is shorter than the other two commands.
    (&[(OK, 7), (NvmeStatus::LBA_RANGE, 2)], 0, &[]),
];

#[test]
fn hostile_hosts_are_answered_as_specified_and_disturb_nobody() {
    let server = Server::start(&[NULL]);
    let victim = Victim { target: server.target.clone(), hostnqn: HOST.to_owned(), nsid: 1 };
    let mut hoards = Vec::new();
    for ((name, attack), (responses, r2ts, terminations)) in ATTACKS.into_iter().zip(ANSWERED) {
        let mut hoard = Hoard::default();
        attack(&victim, &mut hoard).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = Answers {
            responses: responses.iter().map(|(status, count)| (status.code().0, *count)).collect(),
            r2ts,
            data: 0,
            terminations: terminations.iter().map(|(why, count)| (*why as u16, *count)).collect(),
        };
        assert_eq!(hoard.answers, expected, "{name}");
        server.assert_serves("");
        // Connections stay open beside the next attack.
        hoards.push(hoard);
    }
}

#[test]
fn clients_of_shared_exports_end_as_specified_and_disturb_nobody() {
    let (server, victim) = Server::with_shared_exports(ZONED, &[]);
    let huge = local::without_huge_pages();
    let (served, disconnected) = (Ended::Served, Ended::Disconnected);
    let ends = [huge, disconnected, served, served, served, served, disconnected, served];
    for _ in 0..3 {
        let mut hoard = LocalHoard::default();
        for ((name, attack), end) in LOCAL_ATTACKS.into_iter().zip(ends) {
            let ended = Ended::of(attack(&victim, &mut hoard));
            assert_eq!(ended.expect(name), end, "{name}");
            server.assert_serves("");
            assert!(local::serves_metrics(&victim).expect(name), "{name}");
            server.assert_answers_control(&victim);
            // A client that hides its own end keeps the virtual machine for a while.
            wait_until("a monitor is served", || local::is_served(&victim));
        }
    }
    leaves_no_mappings(&server, || {
        let _ = LOCAL_ATTACKS[0].1(&victim, &mut LocalHoard::default());
        wait_until("a monitor is served", || local::is_served(&victim));
    });
}

#[test]
fn clients_of_single_exports_end_as_specified_and_disturb_nobody() {
    let (server, victim) = Server::with_single_exports(Privileged::default());
    for _ in 0..3 {
        for (name, attack) in SINGLE_ATTACKS {
            let ended = Ended::of(attack(&victim, &mut SingleHoard::default()));
            let end = match name {
                "virtio: part of a huge page" => local::without_huge_pages(),
                "virtio: garbage" | "virtio: memory that is truncated" => Ended::Disconnected,
                _ => Ended::Served,
            };
            assert_eq!(ended.expect(name), end, "{name}");
            server.assert_serves("");
            wait_until("a monitor is served", || single::is_served(&victim));
        }
    }
    let (_, huge_pages) = SINGLE_ATTACKS[2];
    leaves_no_mappings(&server, || {
        let _ = huge_pages(&victim, &mut SingleHoard::default());
        wait_until("a monitor is served", || single::is_served(&victim));
    });
}

/// Repeats an attack with parts of huge pages, and fails if mappings remain.
#[track_caller]
fn leaves_no_mappings(server: &Server, mut attack: impl FnMut()) {
    let mappings = server.idle_usage().mappings;
    (0..100).for_each(|_| attack());
    let grown = server.idle_usage().mappings.saturating_sub(mappings);
    assert!(grown < 50, "{grown} mappings more after 100 clients with a part of a huge page");
}
