//! In steady state the frontends allocate no data buffers. A single test, since the allocator counts
//! the buffers of all threads.
#[path = "../vhost_user/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../vhost_user/guest.rs"]
#[allow(dead_code)]
mod guest;
#[path = "../guest_memory/mod.rs"]
#[allow(dead_code)]
mod guest_memory;
#[allow(dead_code)]
mod pages;

use guest::{Guest, Request, Ring};
use pages::data_buffers;
use zonal_blk::{Queue, QueueOptions};
use zonal_device::device_spec;
use zonal_frontend::vhost_user::{Server, ServerConfig};
use zonal_os::RealClock;
use zonal_os::poll::WaitPolicy;

const WARM_UP: u64 = 20;
const ROUNDS: u64 = 100;
/// Lengths of requests in bytes.
const LENGTHS: [usize; 3] = [4096, 32768, 8192];

/// Requests of each length, read and written.
fn round(ring: &mut Ring, round: u64) {
    for len in LENGTHS {
        for request in [Request::write(0, &vec![round as u8; len]), Request::read(0, len)] {
            let answer = ring.io(0, &request);
            assert_eq!(answer.status, 0, "{request:?}");
        }
    }
}

#[test]
fn requests_of_a_guest_use_the_same_data_buffers_again() {
    for memory in ["true", "false"] {
        let spec = format!("null:zoned=false,size=16M,lba=4096,memory={memory}");
        let spec = device_spec::parse(&spec).expect("a spec");
        let device = device_spec::build(&spec).expect("a device");
        let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
        let queue = Queue::attach(device, options).expect("a queue");
        let dir = tempfile::tempdir().expect("a directory");
        let config = ServerConfig {
            queues: 1,
            serial: "0".to_owned(),
            waiting: WaitPolicy::default(),
            clock: RealClock::start(),
        };
        let server = Server::start(&dir.path().join("socket"), &queue, config).expect("a server");
        let mut guest = Guest::start(server.path(), 0);
        let mut ring = guest.ring(0, 0);
        (0..WARM_UP).for_each(|number| round(&mut ring, number));
        let before = data_buffers();
        assert!(before > 0, "the first ones are allocated");
        (0..ROUNDS).for_each(|number| round(&mut ring, number));
        assert_eq!(data_buffers(), before, "memory={memory}");
    }
}
