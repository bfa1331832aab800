//! Limits on connections.
use crate::support::{HOST, Served, ZONED, patient, report};
use zonal_backend::nvme_tcp::ConnectError;
use zonal_blk::Device;
use zonal_frontend::nvme_tcp::ServerConfig;

#[test]
fn only_allowed_hosts_connect() {
    let allowed_hosts = vec![HOST.to_owned()];
    let served = Served::with(ZONED, ServerConfig { allowed_hosts, ..patient() });
    let error = served.connect("").err().expect("refused");
    assert!(matches!(error, ConnectError::Refused { doing: "Connect", .. }), "{error}");
    assert!(error.to_string().contains("CONNECT_HOST") || error.to_string().contains("4184"));
    let other = format!("hostnqn={HOST}x");
    assert!(served.connect(&other).is_err());
    served.connect(&format!("hostnqn={HOST}")).expect("allowed");
}

/// A target refuses a report that is longer than a transfer may be.
#[test]
fn reports_are_requested_in_parts_that_the_target_transfers() {
    let served = Served::new("null:zones=3000,zone_size=1M,lba=4096");
    served.subsystem.limit_transfers(2, 4096);
    let device = served.connect("").expect("zones are read while connecting");
    assert_eq!(device.limits().max_sectors, 32);
    assert_eq!(report(&device), report(&*served.device));
}

/// docs/security.md has these numbers.
#[test]
fn limits_are_those_of_the_documents() {
    let config = ServerConfig::default();
    assert_eq!((config.max_connections, config.max_host_connections), (256, 128));
    assert_eq!((config.max_pending, config.max_unauthenticated, config.io_queues), (64, 32, 32));
    let seconds = [
        config.init_timeout,
        config.handshake_timeout,
        config.peer_timeout,
        config.auth_timeout,
        config.discovery_timeout,
    ];
    assert_eq!(seconds.map(|time| time.as_secs()), [5, 10, 10, 30, 30]);
}

#[test]
fn connections_are_limited_in_total_and_per_host() {
    // Admin, two queues and one for reports.
    let config = ServerConfig { max_connections: 5, ..patient() };
    let served = Served::with(ZONED, config);
    let first = served.connect("").expect("four of five");
    assert!(served.connect("hostnqn=nqn.other").is_err(), "one is left");
    drop(first);
    served.wait_for_connections(0);
    served.connect("").expect("they are free again");

    let config = ServerConfig { max_host_connections: 5, ..patient() };
    let served = Served::with(ZONED, config);
    let first = served.connect("").expect("four of five");
    let error = served.connect("").err().expect("one is left to this host");
    assert!(error.to_string().contains("Connect"), "{error}");
    let _second = served.connect("hostnqn=nqn.other").expect("another host has its own");
    drop(first);
}

#[test]
fn queues_of_a_controller_are_limited() {
    let config = ServerConfig { io_queues: 2, ..patient() };
    let served = Served::with(ZONED, config);
    assert_eq!(served.connect("").unwrap().limits().nr_queues, 1, "and one for reports");
    let served = Served::with(ZONED, ServerConfig { io_queues: 1, ..patient() });
    let error = served.connect("").err().expect("none is left for reports");
    assert!(matches!(error, ConnectError::Queues(1)), "{error}");
}
