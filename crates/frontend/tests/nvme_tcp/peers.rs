//! Misbehaving peers lose their own connection and no other.
use crate::hostile::{Client, Connect, Target, connect_pdu};
use crate::support::{HOST, NQN, Served, ZONED, patient, pattern, read, report, until, wait_until};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;
use zerocopy::FromBytes;
use zonal_backend::nvme_tcp::{Address, ConnectError, NvmeTcpDevice};
use zonal_blk::{Bio, Buf, Op, Sector, Status};
use zonal_frontend::nvme_tcp::ServerConfig;
use zonal_nvme::NvmeStatus;
use zonal_nvme::tcp::{Digests, FatalError, Pdu, Role};
use zonal_nvme::wire::admin::LogCommand;
use zonal_nvme::wire::fabrics::DISCOVERY_NQN;
use zonal_nvme::wire::log::DiscoveryEntry;
use zonal_nvme::wire::opcode::{AdminOpcode, IoOpcode, LogId};
use zonal_nvme::wire::{Sgl, Sqe, text};

const NONE: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

/// Checks that the server closes the connection without a word after its response to Connect.
#[track_caller]
fn assert_ends_silently(client: &mut Client) {
    let before = client.answers.clone();
    assert!(client.is_closed());
    assert_eq!(client.answers, before);
}

#[test]
fn malformed_bytes_close_their_connection_only() {
    let served = Served::new(ZONED);
    let mut host = served.host("");
    let before = served.server.connections();
    let keep_alive =
        Pdu::Command { sqe: Sqe::new(AdminOpcode::KEEP_ALIVE.0, 1, 0), data: Vec::new().into() };
    for (what, digests, fatal) in [
        ("garbage", NONE, FatalError::HeaderField),
        ("header digest", BOTH, FatalError::HeaderDigest),
        ("length", NONE, FatalError::LimitExceeded),
        ("second ICReq", NONE, FatalError::Sequence),
        ("data for nothing", NONE, FatalError::HeaderField),
    ] {
        let mut raw = served.admin(digests, 0);
        let bytes = match what {
            "garbage" => vec![0xff; 4096],
            "header digest" => {
                let mut bytes = raw.bytes(&keep_alive);
                *bytes.last_mut().unwrap() ^= 1;
                bytes
            }
            "length" => {
                // 4 GiB of data in a capsule.
                let mut bytes = raw.bytes(&connect_pdu(NQN, &Connect::default()));
                bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
                bytes.truncate(72);
                bytes
            }
            "second ICReq" => raw.bytes(&Pdu::IcReq(Default::default())),
            _ => {
                let data = pattern(64, 0).into();
                raw.bytes(&Pdu::HostData { cid: 1, ttag: 1, offset: 0, last: true, data })
            }
        };
        raw.send_bytes(&bytes).unwrap();
        assert!(raw.is_closed(), "{what}");
        assert_eq!(raw.answers.terminations, BTreeMap::from([(fatal as u16, 1)]), "{what}");
        assert_eq!(host.read(0, 8).status, Status::Ok, "{what}");
    }
    for begin in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 128]] {
        let mut stream = served.stream();
        stream.write_all(begin).unwrap();
        // It ends, or says why and ends.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    served.wait_for_connections(before);
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Ok);
}

#[test]
fn wrong_data_digest_fails_the_command_only() {
    let served = Served::new(ZONED);
    let mut raw = served.target().open().unwrap();
    raw.initialize(BOTH).unwrap();
    let mut bytes = raw.bytes(&connect_pdu(NQN, &Connect::default()));
    *bytes.last_mut().unwrap() ^= 1;
    raw.send_bytes(&bytes).unwrap();
    // A connection without a queue is of no use then.
    assert!(raw.is_closed());
    assert_eq!(raw.answers.responses, BTreeMap::from([(NvmeStatus::TRANSPORT.0, 1)]));
}

#[test]
fn silent_host_is_disconnected_after_its_keep_alive_timeout() {
    let served = Served::new(ZONED);
    assert_ends_silently(&mut served.admin(NONE, 100));
    served.wait_for_connections(0);
}

#[test]
fn connection_without_connect_is_closed() {
    let peer_timeout = Duration::from_secs(1);
    let served = Served::with(ZONED, ServerConfig { peer_timeout, ..patient() });
    let mut silent = served.stream();
    let mut half = served.stream();
    half.write_all(&[0, 0, 128]).unwrap();
    let mut initialized = until(|| served.target().initialized().ok());
    assert_eq!(silent.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(half.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_ends_silently(&mut initialized);
    served.wait_for_connections(0);
}

#[test]
fn host_that_takes_no_data_is_disconnected_and_costs_little() {
    let peer_timeout = Duration::from_secs(1);
    let served = Served::with(ZONED, ServerConfig { peer_timeout, ..patient() });
    let host = until(|| served.connect("").ok());
    let before = served.server.connections();
    let (admin, mut slow) = until(|| served.target().queues(HOST).ok());
    // 32 reads of 1 MiB, of which the socket's buffers take some.
    let reads: Vec<u8> = (0..32).flat_map(|cid| slow.bytes(&read(cid, 256))).collect();
    slow.send_bytes(&reads).unwrap();
    served.wait_for_connections(before + 1);
    drop((admin, host));
    served.wait_for_connections(0);
}

#[test]
fn io_queues_are_closed_with_the_admin_queue() {
    let served = Served::new(ZONED);
    let (admin, mut queue) = served.target().queues(HOST).unwrap();
    drop(admin);
    assert_ends_silently(&mut queue);
    served.wait_for_connections(0);
}

#[test]
fn host_that_disconnects_with_io_in_flight_blocks_no_zone() {
    let served =
        Served::new("null:zones=16,zone_size=1M,memory=true,lba=4096,latency=300us,jitter=300us");
    let mut host = served.host("");
    let connections = served.server.connections();
    let append = || {
        let bio = Bio::write(Sector(0), Buf::from(&pattern(4096, 0)[..]), 0);
        Bio { op: Op::ZoneAppend, ..bio }
    };
    for _ in 0..6 {
        let (_admin, mut queue) = served.target().queues(HOST).unwrap();
        let appends: Vec<u8> = (0..16)
            .flat_map(|cid| {
                let mut sqe = Sqe::new(IoOpcode::ZONE_APPEND.0, cid, 1);
                sqe.flags = 0x40;
                sqe.dptr = Sgl::in_capsule(4096);
                queue.bytes(&Pdu::Command { sqe, data: vec![1; 4096].into() })
            })
            .collect();
        queue.send_bytes(&appends).unwrap();
        // The plug of the zone has writes of both.
        (0..4).for_each(|_| host.submit(append()));
        drop(queue);
        assert!(host.finish().iter().all(|done| done.status == Status::Ok));
    }
    served.wait_for_connections(connections);
    let before = report(&*served.device)[0].wp;
    let appended = host.one(append());
    assert_eq!(appended.status, Status::Ok);
    assert!(appended.sector >= before, "appends of hosts that are gone may be in flight");
}

/// The only entry of the discovery log at an address.
pub fn discovered(address: SocketAddr) -> DiscoveryEntry {
    discovered_by(&Connect::default(), address)
}

fn discovered_by(host: &Connect, address: SocketAddr) -> DiscoveryEntry {
    let target = Target { address, nqn: DISCOVERY_NQN.to_owned() };
    let (mut raw, cqe) = target.connected(host).unwrap();
    assert!(cqe.status().is_success(), "{:?}", cqe.status());
    raw.enable().unwrap();
    let mut log = LogCommand::zeroed();
    (log.opcode, log.flags) = (AdminOpcode::GET_LOG_PAGE.0, 0x40);
    (log.lid, log.numdl) = (LogId::DISCOVERY.0, (2048 / 4 - 1).into());
    log.dptr = Sgl::transport(2048);
    raw.send(&Pdu::Command { sqe: log.into(), data: Vec::new().into() }).unwrap();
    let Ok(Pdu::ControllerData { data, .. }) = raw.receive() else { panic!("no data") };
    assert_eq!(data.bytes[8], 1, "one entry");
    DiscoveryEntry::read_from_bytes(&data.bytes[1024..]).unwrap()
}

#[test]
fn discovery_log_has_the_address_of_the_subsystem() {
    let served = Served::new(ZONED);
    // One of several, and one for IPv6 that is reached over IPv4.
    let other = served.another();
    let any = served.another_at("[::]:0".parse().unwrap());
    let over_ipv4 = SocketAddr::from((Ipv4Addr::LOCALHOST, any.address().port()));
    for address in [served.server.address(), other.address(), over_ipv4] {
        let entry = discovered(address);
        assert_eq!((entry.transport, entry.family, entry.subsystem_type), (3, 1, 2));
        let (ip, port) = (text(&entry.address).unwrap(), text(&entry.service).unwrap());
        assert_eq!(format!("{ip}:{port}"), address.to_string());
        assert_eq!(text(&entry.subnqn), Some(NQN));
    }
}

#[test]
fn anybody_reads_the_discovery_log_also_a_host_that_is_not_allowed() {
    let allowed_hosts = vec![HOST.to_owned()];
    let served = Served::with(ZONED, ServerConfig { allowed_hosts, ..patient() });
    let (_, cqe) = served.target().connected(&Connect::default()).unwrap();
    assert_eq!(cqe.status().code(), NvmeStatus::CONNECT_HOST);
    assert_eq!(text(&discovered(served.server.address()).subnqn), Some(NQN));
}

/// SPDK's tools have no name unless they are told one.
#[test]
fn host_without_a_name_reads_the_discovery_log() {
    let allowed_hosts = vec![HOST.to_owned()];
    let listed = ServerConfig { allowed_hosts, ..patient() };
    for config in [patient(), listed] {
        let served = Served::with(ZONED, config);
        let nameless = Connect { hostnqn: "", host_id: [0; 16], ..Connect::default() };
        let entry = discovered_by(&nameless, served.server.address());
        assert_eq!(text(&entry.subnqn), Some(NQN));
        let target = Target { nqn: DISCOVERY_NQN.to_owned(), ..served.target() };
        let malformed = Connect { hostnqn: "host", ..Connect::default() };
        let (_, cqe) = target.connected(&malformed).unwrap();
        assert_eq!(cqe.status().code(), NvmeStatus::CONNECT_PARAMETERS);
    }
}

#[test]
fn termination_by_the_host_is_reported() {
    let served = Served::new(ZONED);
    let mut raw = served.admin(NONE, 0);
    let (sender, header) = (Role::Host, vec![0; 8]);
    raw.send(&Pdu::Terminate { sender, status: 1, information: 0, header }).unwrap();
    assert_ends_silently(&mut raw);
    served.wait_for_connections(0);
}

/// A target that accepts and then does this.
fn odd_target(act: impl FnOnce(std::net::TcpStream) + Send + 'static) -> ConnectError {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = std::thread::spawn(move || act(listener.accept().unwrap().0));
    let address: Address = format!("nvme-tcp://{address}/nqn.a").parse().unwrap();
    let error = NvmeTcpDevice::connect(&address, 1).err().expect("no device");
    target.join().unwrap();
    error
}

#[test]
fn misbehaving_target_is_an_error() {
    let error = odd_target(drop);
    assert!(matches!(error, ConnectError::Io { doing: "ICReq", .. }), "{error}");
    let error = odd_target(|mut stream| {
        stream.write_all(&[0xff; 64]).unwrap();
        // Until the host closes.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert!(matches!(error, ConnectError::Protocol { doing: "ICReq", .. }), "{error}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address: Address = format!("nvme-tcp://{nobody}/nqn.a").parse().unwrap();
    let error = NvmeTcpDevice::connect(&address, 1).err().expect("nobody listens");
    assert!(matches!(error, ConnectError::Connect { .. }), "{error}");
    let served = Served::new(ZONED);
    let text = format!("nvme-tcp://{}/nqn.other", served.server.address());
    let error = NvmeTcpDevice::connect(&text.parse().unwrap(), 1).err().expect("another name");
    let found = format!("{}: found no subsystem `nqn.other`", served.server.address());
    assert_eq!(error.to_string(), format!("{found}, expected {NQN}"));
    let error = served.connect("nsid=7").err().expect("no such namespace");
    assert_eq!(error.to_string(), "found no namespace 7, expected one of [1]");
    wait_until(|| served.server.connections() == 0);
}
