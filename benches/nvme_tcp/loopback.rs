//! Our target under our initiator, in this process.
use super::ROUND;
use super::loads::{Order, Row};
use super::measured::{Counts, Measured, Threads};
use std::hint::spin_loop;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use zonal_backend::nvme_tcp::NvmeTcpDevice;
use zonal_blk::{
    Bio, Buf, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector, Status,
};
use zonal_device::device_spec;
use zonal_frontend::nvme_tcp::{Server, ServerConfig};
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};
use zonal_os::poll::WaitPolicy;
use zonal_os::poll::socket::{End, SocketCalls};

const NQN: &str = "nqn.2026-11.org.example:bench";

/// Both ends.
struct Loopback {
    channels: Vec<Channel>,
    _server: Server,
}

fn loopback(&Row { order, waiting, queues, digests, limits, .. }: &Row) -> Loopback {
    let device = device_spec::parse(order.device()).expect("a spec");
    let device: Arc<dyn Device> = device_spec::build(&device).expect("a device");
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(device, options).expect("a queue");
    let subsystem = Subsystem::new(SubsystemConfig {
        nqn: NQN.to_owned(),
        serial: "1".to_owned(),
        model: "Zonal".to_owned(),
        firmware: "0".to_owned(),
    });
    if let Some((mdts, in_capsule)) = limits {
        subsystem.limit_transfers(mdts, in_capsule);
    }
    let namespace = Namespace::new(queue, [1; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    let config = ServerConfig { waiting, ..ServerConfig::default() };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(address, subsystem, config).expect("a free port");
    let options = if digests { "?hdgst&ddgst" } else { "" };
    let address = format!("nvme-tcp://{}/{NQN}{options}", server.address());
    let device = NvmeTcpDevice::connect(&address.parse().expect("an address"), queues);
    let queue = Queue::attach(Arc::new(device.expect("a device")), QueueOptions::default());
    let queue = queue.expect("a queue");
    let channels = (0..queues).map(|_| queue.channel().expect("a hardware queue")).collect();
    Loopback { channels, _server: server }
}

/// Measures a row for the time of a round.
pub fn round(row: &Row) -> Measured {
    let calls = || [End::Host, End::Target].map(SocketCalls::of_closed);
    let [host, target] = calls();
    let (count, mut measured) = load(row, |spent, _| spent < ROUND);
    let [host_after, target_after] = calls();
    let of_io = |after: u64, before: u64| (after - before) as f64 / count as f64;
    let empty = host.empty + target.empty;
    measured.counts = Counts {
        host_sends: of_io(host_after.sends, host.sends),
        target_sends: of_io(target_after.sends, target.sends),
        empty: of_io(host_after.empty + target_after.empty, empty),
        ..measured.counts
    };
    measured
}

/// Loads both ends for as long as `go_on` says, from the time and the I/Os so far. Returns the number of
/// I/Os too.
pub fn load(row: &Row, go_on: impl Fn(Duration, u64) -> bool) -> (u64, Measured) {
    let mut loopback = loopback(row);
    let channels = &mut loopback.channels[..];
    let sectors = row.len / 512;
    let len = u64::from(sectors);
    let limits = channels[0].queue().limits();
    let (capacity, zone) = (limits.capacity.0, limits.zone_size.0);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    // Submitted so far, all and by place in the queue.
    let (mut all, mut by_place) = (0, vec![0; row.depth]);
    let mut submit = |channel: &mut Channel, place: u64, buf: Buf| {
        // Xorshift: the order needs to be no better.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let sector = match row.order {
            Order::Random => seed % (capacity / len) * len,
            Order::Sequential | Order::Bare => all % (capacity / len) * len,
            Order::Zones if row.op == Op::ZoneAppend => place * zone,
            Order::Zones => place * zone + by_place[place as usize] * len,
        };
        all += 1;
        by_place[place as usize] += 1;
        let bio = Bio::new(row.op, Sector(sector), sectors, place);
        channel.submit(Nanos(0), Bio { buf: Some(buf), ..bio });
    };
    for place in 0..row.depth {
        let channel = &mut channels[place % usize::from(row.queues)];
        submit(channel, place as u64, Buf::zeroed(row.len as usize));
    }
    let mut done: Vec<Completion> = Vec::new();
    let (begin, threads, mut count) = (Instant::now(), Threads::now(), 0_u64);
    while go_on(begin.elapsed(), count) {
        let mut polled = 0;
        for channel in &mut *channels {
            polled += channel.poll(Nanos(0), &mut done);
            while let Some(completion) = done.pop() {
                assert_eq!(completion.status, Status::Ok);
                count += 1;
                let buf = completion.buf.expect("the buffer comes back");
                submit(channel, completion.user_data, buf);
                if row.single {
                    channel.poll(Nanos(0), &mut done);
                }
            }
        }
        if polled == 0 {
            pause(row.waiting);
        }
    }
    let measured = Measured::new(count, row.depth, begin.elapsed(), threads);
    for channel in channels {
        while channel.outstanding() > 0 {
            channel.poll(Nanos(0), &mut done);
        }
    }
    (count, measured)
}

/// Between polls of the host: yields as the threads of jobs do, unless the row's ends spin.
pub fn pause(waiting: WaitPolicy) {
    if waiting == WaitPolicy::Spin { spin_loop() } else { thread::yield_now() }
}
