//! TLS with pre-shared keys, at both ends, and peers that get no further than the handshake.
use crate::hostile::Connect;
use crate::peers::discovered;
use crate::support::{HOST, Host, NQN, Served, ZONED, patient, pattern, report, wait_until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use zonal_backend::nvme_tcp::{Address, ConnectError, TlsKeyError, open};
use zonal_backend::nvme_tcp::{load_psks, load_secrets};
use zonal_blk::{Bio, Buf, Clock, Nanos, QueueOptions, Sector, Status};
use zonal_frontend::nvme_tcp::{ServerConfig, TargetTls};
use zonal_nvme::wire::fabrics::DISCOVERY_NQN;
use zonal_nvme::wire::log::{NO_SECURITY, TLS_1_3};
use zonal_os::RealClock;
use zonal_os::secrets::SecretsFileError;
use zonal_os::tls::TlsError;

const SHA256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const SHA384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
const PLAIN: &str = "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
/// Another key than these.
const OTHER: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
/// A host without a key.
const OPEN_HOST: &str = "nqn.2026-11.org.example:open";

/// Files of keys, in a directory that is removed with them.
struct Keys(tempfile::TempDir);

impl Keys {
    fn new() -> Self {
        let keys = Keys(tempfile::tempdir().expect("a directory"));
        for (name, key) in
            [("sha256", SHA256), ("sha384", SHA384), ("plain", PLAIN), ("other", OTHER)]
        {
            keys.write(name, &format!("# of the test\n{HOST} {key}\n"));
        }
        keys
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Options of an address: this host, with this file of keys.
    fn options(&self, name: &str) -> String {
        format!("hostnqn={HOST}&tls&tls_psk={}", self.path(name).display())
    }

    fn config(&self, name: &str, required: bool) -> ServerConfig {
        let psks = load_psks(&self.path(name)).expect("keys");
        let tls = TargetTls::new(psks, NQN, required).expect("TLS");
        ServerConfig { tls: Some(Arc::new(tls)), ..patient() }
    }

    fn served(&self, name: &str, required: bool) -> Served {
        Served::with(ZONED, self.config(name, required))
    }
}

#[track_caller]
fn failed(served: &Served, options: &str) -> ConnectError {
    served.connect(options).map(drop).expect_err("refused")
}

/// Fails unless this host connects without TLS.
#[track_caller]
fn connects_plainly(served: &Served, host: &str) {
    served.connect(&format!("hostnqn={host}")).expect("a connection");
}

/// Transfers of all lengths, in flight together.
fn round_trip(served: &Served, options: &str) {
    let mut host = served.host(options);
    let lens = [8_u32, 24, 40, 256, 8, 8, 32, 1160];
    let starts = lens.iter().scan(0, |next, len| {
        let start = *next;
        *next += u64::from(*len);
        Some(start)
    });
    let starts: Vec<u64> = starts.collect();
    let data = |at: usize| pattern(lens[at] as usize * 512, starts[at]);
    for (at, &start) in starts.iter().enumerate() {
        host.submit(Bio::write(Sector(start), Buf::from(&data(at)[..]), at as u64));
    }
    assert!(host.finish().iter().all(|done| done.status == Status::Ok));
    for _ in 0..3 {
        for (at, &start) in starts.iter().enumerate() {
            host.submit(Bio::read(Sector(start), lens[at], at as u64));
        }
        for (at, done) in host.finish().into_iter().enumerate() {
            assert_eq!(done.status, Status::Ok);
            assert_eq!(done.buf.as_deref(), Some(&data(at)[..]));
        }
    }
    assert_eq!(report(&*host.device), report(&*served.device));
}

#[test]
fn data_are_read_as_written_with_each_cipher_suite_and_identity() {
    let keys = Keys::new();
    for (key, more) in [
        ("sha256", ""),
        ("sha384", ""),
        ("plain", "&tls_identity=1"),
        ("sha256", "&tls_identity=0"),
        ("sha384", "&tls_identity=0&hdgst&ddgst"),
        ("sha256", "&hdgst&ddgst"),
    ] {
        round_trip(&keys.served(key, true), &(keys.options(key) + more));
    }
}

#[test]
fn large_transfers_at_depth_arrive() {
    let keys = Keys::new();
    let served =
        Served::with("null:zoned=false,size=64M,memory=true,lba=4096", keys.config("sha384", true));
    let mut host = served.host(&keys.options("sha384"));
    let len = 1 << 20;
    for at in 0..32_u64 {
        let data = pattern(len, at);
        host.submit(Bio::write(Sector(at * 2048), Buf::from(&data[..]), at));
    }
    assert!(host.finish().iter().all(|done| done.status == Status::Ok));
    for at in 0..32_u64 {
        host.submit(Bio::read(Sector(at * 2048), 2048, at));
    }
    for done in host.finish() {
        assert_eq!(done.buf.as_deref(), Some(&pattern(len, done.user_data)[..]));
    }
}

#[test]
fn connections_authenticate_inside_tls_where_they_must() {
    let keys = Keys::new();
    keys.write("secrets", &format!("{HOST} {SECRET}\n"));
    let auth = load_secrets(&keys.path("secrets")).expect("secrets");
    let served = Served::authenticated(ZONED, keys.config("sha256", true), auth);
    let options = keys.options("sha256");
    assert!(matches!(failed(&served, &options), ConnectError::Authentication(_)));
    let both = format!("{options}&dhchap_secrets={}", keys.path("secrets").display());
    round_trip(&served, &both);
}

#[test]
fn host_without_the_right_key_is_refused_with_the_reason() {
    let keys = Keys::new();
    keys.write("other-host", &format!("{HOST}x {SHA256}\n"));
    keys.write("no-list", "NVMeTLSkey-1:01:secret: nqn.x\n");
    let served = keys.served("sha256", true);
    let refused = |options: &str| match failed(&served, options) {
        ConnectError::Tls { source, .. } => source,
        other => panic!("{other}"),
    };
    // The identity of version 1 has a digest of the key, that of version 0 has not.
    let other = refused(&keys.options("other"));
    assert!(matches!(other, TlsError::IdentityRefused), "{other}");
    let other = refused(&(keys.options("other") + "&tls_identity=0"));
    assert!(matches!(other, TlsError::WrongKey), "{other}");
    let unknown = refused(&keys.options("other-host").replace(HOST, &format!("{HOST}x")));
    assert!(matches!(unknown, TlsError::IdentityRefused), "{unknown}");
    let suite = refused(&keys.options("sha384"));
    assert!(matches!(suite, TlsError::IdentityRefused), "{suite}");
    let error = failed(&served, &keys.options("other-host"));
    assert!(matches!(error, ConnectError::TlsKey(TlsKeyError::NoKey(_))), "{error}");
    let error = failed(&served, &keys.options("no-list"));
    let file = |error| {
        matches!(error, ConnectError::TlsKey(TlsKeyError::File(SecretsFileError::Content { .. })))
    };
    assert!(file(error));
    let error = failed(&served, &keys.options("missing"));
    assert!(error.to_string().contains("missing: cannot read the secrets"), "{error}");
    round_trip(&served, &keys.options("sha256"));
    served.wait_for_connections(0);
}

#[test]
fn target_that_requires_tls_refuses_hosts_without() {
    let keys = Keys::new();
    let served = keys.served("sha256", true);
    for host in [HOST, OPEN_HOST] {
        let error = failed(&served, &format!("hostnqn={host}"));
        assert!(matches!(error, ConnectError::Io { doing: "ICReq", .. }), "{error}");
    }
    let mut stream = served.stream();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("a connection");
    // It is closed, with what was sent unread.
    let _ = stream.read_to_end(&mut Vec::new());
    served.wait_for_connections(0);
}

#[test]
fn target_with_optional_tls_takes_both_and_no_host_that_has_a_key_without_it() {
    let keys = Keys::new();
    let served = keys.served("sha256", false);
    connects_plainly(&served, OPEN_HOST);
    served.connect(&keys.options("sha256")).expect("a connection with TLS");
    let error = failed(&served, &format!("hostnqn={HOST}"));
    assert!(matches!(error, ConnectError::Refused { doing: "Connect", .. }), "{error}");
    let (mut client, _) = served.target().connected(&Connect::default()).expect("a connection");
    assert!(client.enable().is_ok(), "a plain host of any name");
    // Anybody reads the discovery log, also with the name of a host that has a key.
    let mut client = served.target().initialized().expect("a connection");
    let connect = Connect { hostnqn: HOST, ..Connect::default() };
    assert!(client.connect(DISCOVERY_NQN, &connect).expect("an answer").status().is_success());
}

#[test]
fn target_without_tls_refuses_a_handshake() {
    let keys = Keys::new();
    let served = Served::new(ZONED);
    match failed(&served, &keys.options("sha256")) {
        ConnectError::Tls { source: TlsError::NotTls, .. } => {}
        other => panic!("{other}"),
    }
    connects_plainly(&served, HOST);
    served.wait_for_connections(0);
}

#[test]
fn target_that_closes_in_the_handshake_or_is_silent_is_named() {
    let keys = Keys::new();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let text = format!(
        "nvme-tcp://{}/{NQN}?{}",
        listener.local_addr().expect("an address"),
        keys.options("sha256")
    );
    let closes = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a host");
        let _ = stream.read(&mut [0; 4096]);
    });
    let address: Address = text.parse().expect("an address");
    let error = zonal_backend::nvme_tcp::NvmeTcpDevice::connect(&address, 1).map(drop);
    let error = error.expect_err("no target");
    assert!(matches!(error, ConnectError::Tls { source: TlsError::Closed, .. }), "{error}");
    closes.join().expect("no panic");
}

#[test]
fn handshakes_that_never_end_are_ended() {
    let keys = Keys::new();
    let short = Duration::from_millis(50);
    let config = ServerConfig {
        handshake_timeout: short,
        init_timeout: short,
        ..keys.config("sha256", false)
    };
    let served = Served::with(ZONED, config);
    // The first bytes of a record, a record of 16 KiB without its end, and nothing at all.
    let long = [&[0x16, 3, 1, 0x40, 0][..], &[1; 1000]].concat();
    for begin in [&[0x16][..], &[0x16, 3, 1], &long, &[]] {
        let mut stream = served.stream();
        stream.write_all(begin).expect("a connection");
        let mut answer = Vec::new();
        // Closed with or without what was sent unread.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    served.wait_for_connections(0);
}

#[test]
fn garbage_in_place_of_a_handshake_closes_its_connection_only() {
    let keys = Keys::new();
    let served = keys.served("sha256", true);
    let mut host = served.host(&keys.options("sha256"));
    let before = served.server.connections();
    let garbage = pattern(64 << 10, 7);
    let client_hello = |len: u8| [0x16, 3, 1, 0, len + 4, 1, 0, 0, len];
    for begin in [
        [&[0x16][..], &garbage].concat(),
        [&[0x16, 3, 3, 0xff, 0xff][..], &garbage].concat(),
        [&client_hello(40)[..], &garbage[..40]].concat(),
        [&[0x15, 3, 3, 0, 2, 2, 40][..]].concat(),
        [&[0x17, 3, 3, 0, 32][..], &garbage[..32]].concat(),
    ] {
        let mut stream = served.stream();
        // The server may have closed before all is written.
        let _ = stream.write_all(&begin);
        let _ = stream.read_to_end(&mut Vec::new());
        assert_eq!(host.read(0, 8).status, Status::Ok);
    }
    served.wait_for_connections(before);
}

#[test]
fn handshakes_make_room_for_each_other() {
    let keys = Keys::new();
    let config = ServerConfig { max_pending: 4, ..keys.config("sha256", true) };
    let served = Served::with(ZONED, config);
    let waiting: Vec<_> = (0..32)
        .map(|_| {
            let mut stream = served.stream();
            stream.write_all(&[0x16, 3, 1]).expect("a connection");
            stream
        })
        .collect();
    wait_until(|| served.server.connections() == 4);
    drop(waiting);
    served.connect(&keys.options("sha256")).expect("a connection");
    served.wait_for_connections(0);
}

#[test]
fn path_with_tls_is_connected_again() {
    let keys = Keys::new();
    let served = keys.served("sha384", true);
    let first = served.another();
    let port = first.address().port();
    let options =
        format!("{}&reconnect_delay=1&ctrl_loss_tmo=600&quiesce=0", keys.options("sha384"));
    let address: Address =
        format!("nvme-tcp://{}/{NQN}?{options}", first.address()).parse().expect("an address");
    let heard = Arc::new(Mutex::new(Vec::<String>::new()));
    let hears = Arc::clone(&heard);
    let notify: zonal_os::Notify =
        Arc::new(move |what| hears.lock().unwrap().push(what.to_owned()));
    let device = open(&address, 1, &notify).expect("a path").0;
    let mut host = Host::over(device as _, QueueOptions::default());
    assert_eq!(host.write(0, &pattern(4096, 0)).status, Status::Ok);
    drop(first);
    wait_until(|| {
        host.channel.poll(Nanos(0), &mut host.done);
        heard.lock().unwrap().iter().any(|said| said.contains("lost: "))
    });
    host.submit(Bio::write(Sector(8), Buf::from(&pattern(4096, 1)[..]), 1));
    let _again = served.another_on(port);
    let clock = RealClock::start();
    wait_until(|| {
        host.channel.poll(clock.now(), &mut host.done);
        host.channel.outstanding() == 0
    });
    assert_eq!(host.finish()[0].status, Status::Ok);
}

#[test]
fn discovery_log_says_whether_the_target_has_tls() {
    let keys = Keys::new();
    let entry = |served: &Served| {
        let entry = discovered(served.server.address());
        (entry.requirements, entry.specific[0])
    };
    assert_eq!(entry(&Served::new(ZONED)), (2, NO_SECURITY));
    assert_eq!(entry(&keys.served("sha256", false)), (2, TLS_1_3));
}
