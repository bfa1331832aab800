//! Commands allocate nothing at either end of a connection in steady state.
//!
//! Our target and our initiator over the loopback, on a zoned device that keeps no data. A single
//! test, since the allocator counts the allocations of all threads.
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use zonal_backend::nvme_tcp::NvmeTcpDevice;
use zonal_blk::{
    Bio, Buf, Channel, Completion, Nanos, Op, Queue, QueueOptions, Sector, Status, ZoneNo,
};
use zonal_device::device_spec;
use zonal_frontend::nvme_tcp::{Server, ServerConfig};
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NQN: &str = "nqn.2026-11.org.example:memory";
const DEVICE: &str = "null:zones=16,zone_size=1G,lba=4096";
const NATIVE: &str = "null:zones=16,zone_size=1G,lba=4096,append_max=128K";
const DEPTH: usize = 8;
const WARM_UP: usize = 200;
const COMMANDS: usize = 1000;

/// The host's end; `written` has the sectors written by each slot.
struct Host {
    channel: Channel,
    done: Vec<Completion>,
    written: [u64; DEPTH],
    _server: Server,
}

impl Host {
    fn new(device: &str, options: &str) -> Self {
        let device =
            device_spec::build(&device_spec::parse(device).expect("a spec")).expect("a device");
        let shared = QueueOptions { share_queues: true, ..QueueOptions::default() };
        let queue = Queue::attach(device, shared).expect("a queue");
        let subsystem = Subsystem::new(SubsystemConfig {
            nqn: NQN.to_owned(),
            serial: "1".to_owned(),
            model: "Zonal".to_owned(),
            firmware: "0".to_owned(),
        });
        let namespace = Namespace::new(queue, [1; 16]).expect("a namespace");
        subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start(address, subsystem, ServerConfig::default()).expect("a port");
        let address = format!("nvme-tcp://{}/{NQN}?{options}", server.address());
        let device = NvmeTcpDevice::connect(&address.parse().expect("an address"), 1);
        let device = Arc::new(device.expect("a device"));
        let queue = Queue::attach(device, QueueOptions::default()).expect("a queue");
        let channel = queue.channel().expect("a hardware queue");
        Host { channel, done: Vec::new(), written: [0; DEPTH], _server: server }
    }

    /// Each slot of the queue has a zone of its own, so that no write waits for another.
    fn submit(&mut self, op: Op, place: usize, buf: Buf) {
        let zone = if op == Op::ZoneAppend { DEPTH + place } else { place };
        let mut sector = self.channel.queue().limits().zone_start(ZoneNo(zone as u32));
        let nr_sectors = (buf.len() / 512) as u32;
        if op == Op::Write {
            sector += Sector(self.written[place]);
            self.written[place] += u64::from(nr_sectors);
        }
        let bio = Bio::new(op, sector, nr_sectors, place as u64);
        self.channel.submit(Nanos(0), Bio { buf: Some(buf), ..bio });
    }

    /// Runs `commands` commands with these buffers.
    fn run(&mut self, op: Op, commands: usize, bufs: &mut Vec<Buf>) {
        for (place, buf) in bufs.drain(..).enumerate() {
            self.submit(op, place, buf);
        }
        let mut submitted = DEPTH;
        while self.channel.outstanding() > 0 {
            let mut done = std::mem::take(&mut self.done);
            if self.channel.poll(Nanos(0), &mut done) == 0 {
                std::thread::yield_now();
            }
            for Completion { user_data, status, buf, .. } in done.drain(..) {
                assert_eq!(status, Status::Ok);
                let buf = buf.expect("the buffer comes back");
                if submitted < commands {
                    submitted += 1;
                    self.submit(op, user_data as usize, buf);
                } else {
                    bufs.push(buf);
                }
            }
            self.done = done;
        }
    }
}

#[test]
fn commands_cost_no_allocations_and_connections_leave_nothing_behind() {
    // In the second round all is as it was in the first.
    let (mut before, mut left) = (Region::new(ALLOCATOR), 0);
    for _ in 0..2 {
        before = Region::new(ALLOCATOR);
        // In capsules and asked for; appends that the layer emulates, and the device's own.
        for (device, options) in [(DEVICE, ""), (NATIVE, "hdgst&ddgst")] {
            let mut host = Host::new(device, options);
            let loads = [Op::Write, Op::ZoneAppend, Op::Read]
                .map(|op| [4 << 10, 64 << 10, 20 << 10].map(|len| (op, len)));
            for (op, len) in loads.as_flattened() {
                let mut bufs: Vec<Buf> = (0..DEPTH).map(|_| Buf::zeroed(*len)).collect();
                host.run(*op, WARM_UP, &mut bufs);
                let region = Region::new(ALLOCATOR);
                host.run(*op, COMMANDS, &mut bufs);
                let change = region.change();
                // The controller is kept alive meanwhile.
                let few = change.allocations + change.reallocations < COMMANDS / 50;
                assert!(few, "{op:?} of {len} bytes with {options:?}: {change:?}");
            }
        }
        let change = before.change();
        left = change.bytes_allocated - change.bytes_deallocated;
    }
    assert!(left < 4096, "{left} bytes: {:?}", before.change());
}
