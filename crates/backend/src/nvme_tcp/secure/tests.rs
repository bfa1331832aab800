//! Keys of one host and subsystem, used by another.
use super::*;
use crate::nvme_tcp::queue_connection::{ConnectParams, QueueConnection};
use std::net::TcpStream;
use std::sync::Arc;
use zonal_frontend::nvme_tcp::{Server, ServerConfig, TargetTls};
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{Subsystem, SubsystemConfig};
use zonal_nvme::wire::fabrics::{CNTLID_ANY, DISCOVERY_NQN};
use zonal_os::poll::socket::End;

const SUBSYSTEM: &str = "nqn.2026-11.org.example:zns";
const HOST: &str = "nqn.2026-11.org.example:host";
const OTHER: &str = "nqn.2026-11.org.example:other";
const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

/// Connects with the key of one host for one subsystem, as another host to another subsystem.
fn connect(server: &Server, key_of: (&str, &str), names: (&str, &str), file: &str) -> u16 {
    let address = |(host, nqn): (&str, &str)| -> Address {
        let text =
            format!("nvme-tcp://{}/{nqn}?hostnqn={host}&tls&tls_psk={file}", server.address());
        text.parse().expect("an address")
    };
    let stream = TcpStream::connect(server.address()).expect("it listens");
    let mut socket = Socket::new(stream, End::Host).expect("a socket");
    let with_key = address(key_of);
    let options = with_key.tls.as_ref().expect("TLS");
    secure(&mut socket, &with_key, options).expect("a known key");
    let queue = ConnectParams { cntlid: CNTLID_ANY, qid: 0, sqsize: 31, kato: 0 };
    match QueueConnection::over(socket, &address(names), &queue) {
        Ok(_) => 0,
        Err(ConnectError::Refused { status, .. }) => status.code().0,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn connect_has_the_names_of_the_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("keys");
    std::fs::write(&file, format!("{HOST} {KEY}\n{OTHER} {KEY}\n")).expect("a file");
    let subsystem = Subsystem::new(SubsystemConfig {
        nqn: SUBSYSTEM.to_owned(),
        serial: "1".to_owned(),
        model: "Zonal".to_owned(),
        firmware: "0".to_owned(),
    });
    let tls = TargetTls::new(load_psks(&file).expect("keys"), SUBSYSTEM, true).expect("TLS");
    let config = ServerConfig { tls: Some(Arc::new(tls)), ..ServerConfig::default() };
    let anywhere = "127.0.0.1:0".parse().expect("an address");
    let server = Server::start(anywhere, subsystem, config).expect("a server");
    let file = file.display().to_string();
    let connect = |key_of, names| connect(&server, key_of, names, &file);
    let refused = NvmeStatus::CONNECT_HOST.code().0;
    let (io, discovery) = ((HOST, SUBSYSTEM), (HOST, DISCOVERY_NQN));
    assert_eq!(connect(io, io), 0);
    assert_eq!(connect(discovery, discovery), 0);
    assert_eq!(connect(io, (OTHER, SUBSYSTEM)), refused);
    assert_eq!(connect(io, discovery), refused);
    assert_eq!(connect(discovery, io), refused);
}
