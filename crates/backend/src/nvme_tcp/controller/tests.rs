//! A controller of a server here.
use super::*;
use crate::nvme_tcp::scan::scan;
use std::sync::Arc;
use zonal_blk::{Device, Queue, QueueOptions};
use zonal_device::{NullConfig, NullDevice};
use zonal_frontend::nvme_tcp::{Server, ServerConfig};
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};

#[test]
fn controller_is_kept_alive_while_its_queues_are_connected() {
    let device = NullDevice::new(&NullConfig::default()).expect("a device");
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(Arc::new(device) as Arc<dyn Device>, options).expect("a queue");
    let subsystem = Subsystem::new(SubsystemConfig {
        nqn: "nqn.2026-11.org.example:zns".to_owned(),
        serial: "1".to_owned(),
        model: "Zonal".to_owned(),
        firmware: "0".to_owned(),
    });
    let namespace = Namespace::new(queue, [7; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    let anywhere = "127.0.0.1:0".parse().expect("an address");
    let server = Server::start(anywhere, subsystem, ServerConfig::default());
    let server = server.expect("a server");
    let text = format!("nvme-tcp://{}/nqn.2026-11.org.example:zns", server.address());
    let address: Address = text.parse().expect("an address");
    let mut controller = Controller::connect(&address).expect("a controller");
    let due = Instant::now();
    controller.due = due;
    scan(&mut controller, &address, 2).expect("queues");
    assert_ne!(controller.due, due, "Keep Alive was sent");
}
