//! NVMe/TCP over the loopback: our target under our initiator, on a null device that takes no time
//! and keeps no data. One connection, a thread at each end.
//!
//! The rows `write 4k` and `append 4k` have a device with zones, each place in the queue a zone of
//! its own, so that no write waits for another; what an append costs beside a write is printed too.
//! The first row is no NVMe but the same bytes over a bare socket, by threads that wait as ours do:
//! what the loopback costs by itself.
//!
//! `cargo bench --bench nvme_tcp`; words after `--` choose the rows whose names contain one. Rounds
//! are taken in turn, the best of each row counts.
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use zonal_blk::{
    Bio, Buf, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector, Status,
};
use zonal_device::device_spec;
use zonal_host::backend::nvme_tcp::NvmeTcpDevice;
use zonal_host::frontend::nvme_tcp::{Server, ServerConfig};
use zonal_host::poll::WaitPolicy;
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};

const NQN: &str = "nqn.2026-11.org.example:bench";
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(400);

/// The two rows that are compared.
const WRITE: &str = "write 4k qd32";
const APPEND: &str = "append 4k qd32";

/// A load.
struct Row {
    name: &'static str,
    op: Op,
    /// Bytes of an I/O.
    len: u32,
    depth: usize,
    order: Order,
    waiting: WaitPolicy,
}

/// Where the I/Os of a row go.
#[derive(Clone, Copy)]
enum Order {
    Random,
    Sequential,
    /// On a device with zones, those of each place in the queue to a zone of its own.
    Zones,
}

impl Order {
    fn device(self) -> &'static str {
        match self {
            Order::Random | Order::Sequential => "null:zoned=false,size=64G,lba=4096",
            Order::Zones => "null:zones=64,zone_size=1G,lba=4096",
        }
    }
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let sleep = WaitPolicy::default();
    let (random, sequential, zones) = (Order::Random, Order::Sequential, Order::Zones);
    for (name, op, len, depth, order, waiting) in [
        ("randread 4k qd1", Op::Read, 4 << 10, 1, random, sleep),
        ("randread 4k qd1 --poll", Op::Read, 4 << 10, 1, random, WaitPolicy::Yield),
        ("randread 4k qd32", Op::Read, 4 << 10, 32, random, sleep),
        ("randread 4k qd128", Op::Read, 4 << 10, 128, random, sleep),
        ("read 1m qd8", Op::Read, 1 << 20, 8, sequential, sleep),
        ("write 1m qd8", Op::Write, 1 << 20, 8, sequential, sleep),
        (WRITE, Op::Write, 4 << 10, 32, zones, sleep),
        (APPEND, Op::ZoneAppend, 4 << 10, 32, zones, sleep),
    ] {
        rows.push(Row { name, op, len, depth, order, waiting });
    }
    rows
}

/// Both ends.
struct Loopback {
    channel: Channel,
    _server: Server,
}

fn loopback(Row { order, waiting, .. }: &Row) -> Loopback {
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
    let namespace = Namespace::new(queue, [1; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    let config = ServerConfig { waiting: *waiting, ..ServerConfig::default() };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(address, subsystem, config).expect("a free port");
    let address = format!("nvme-tcp://{}/{NQN}", server.address());
    let device = NvmeTcpDevice::connect(&address.parse().expect("an address"), 1);
    let queue = Queue::attach(Arc::new(device.expect("a device")), QueueOptions::default());
    let queue = queue.expect("a queue");
    let channel = queue.channel().expect("a hardware queue");
    Loopback { channel, _server: server }
}

/// I/Os a second, and their mean latency.
struct Measured {
    iops: f64,
    mean: Duration,
}

fn round(row: &Row) -> Measured {
    let mut loopback = loopback(row);
    let channel = &mut loopback.channel;
    let sectors = row.len / 512;
    let len = u64::from(sectors);
    let (capacity, zone) =
        (channel.queue().limits().capacity.0, channel.queue().limits().zone_size.0);
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
            Order::Sequential => all % (capacity / len) * len,
            Order::Zones if row.op == Op::ZoneAppend => place * zone,
            Order::Zones => place * zone + by_place[place as usize] * len,
        };
        all += 1;
        by_place[place as usize] += 1;
        let bio = Bio::new(row.op, Sector(sector), sectors, place);
        channel.submit(Nanos(0), Bio { buf: Some(buf), ..bio });
    };
    for place in 0..row.depth {
        submit(channel, place as u64, Buf::zeroed(row.len as usize));
    }
    let mut done: Vec<Completion> = Vec::new();
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < ROUND {
        if channel.poll(Nanos(0), &mut done) == 0 {
            // As the threads of jobs do.
            thread::yield_now();
        }
        for completion in done.drain(..) {
            assert_eq!(completion.status, Status::Ok);
            count += 1;
            let buf = completion.buf.expect("the buffer comes back");
            submit(channel, completion.user_data, buf);
        }
    }
    let spent = begin.elapsed();
    while channel.outstanding() > 0 {
        channel.poll(Nanos(0), &mut done);
    }
    let iops = count as f64 / spent.as_secs_f64();
    // Little's law: as many commands as the depth are in flight all the time.
    Measured { iops, mean: Duration::from_secs_f64(row.depth as f64 / iops) }
}

/// A command and a block with its completion, one after the other over a bare socket.
fn bare() -> Measured {
    const COMMAND: usize = 72;
    const ANSWER: usize = 24 + 4096 + 24;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let target = thread::spawn(move || {
        let mut stream = listener.accept().expect("a connection").0;
        ready(&stream);
        while receive(&mut stream, &mut [0; COMMAND]) {
            stream.write_all(&[0; ANSWER]).expect("room in the socket");
        }
    });
    let mut stream = TcpStream::connect(address).expect("it listens");
    ready(&stream);
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < ROUND {
        stream.write_all(&[0; COMMAND]).expect("room in the socket");
        assert!(receive(&mut stream, &mut [0; ANSWER]));
        count += 1;
    }
    let iops = count as f64 / begin.elapsed().as_secs_f64();
    drop(stream);
    target.join().expect("the other end");
    Measured { iops, mean: Duration::from_secs_f64(1.0 / iops) }
}

fn ready(stream: &TcpStream) {
    stream.set_nonblocking(true).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
}

/// Fills the buffer; whether the other side is there.
fn receive(stream: &mut TcpStream, buffer: &mut [u8]) -> bool {
    let mut came = 0;
    while came < buffer.len() {
        match stream.read(&mut buffer[came..]) {
            Ok(0) => return false,
            Ok(len) => came += len,
            Err(_) => thread::yield_now(),
        }
    }
    true
}

fn main() {
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    let chosen = |row: &Row| words.is_empty() || words.iter().any(|word| row.name.contains(word));
    let rows: Vec<Row> = rows().into_iter().filter(chosen).collect();
    let mut best: Vec<Option<Measured>> = rows.iter().map(|_| None).collect();
    let mut bare_best = bare();
    for _ in 0..ROUNDS {
        let measured = bare();
        if measured.iops > bare_best.iops {
            bare_best = measured;
        }
        for (row, best) in rows.iter().zip(&mut best) {
            let measured = round(row);
            if best.as_ref().is_none_or(|best| measured.iops > best.iops) {
                *best = Some(measured);
            }
        }
    }
    println!("{:24} {:>9} {:>9} {:>10}", "", "KIOPS", "MB/s", "mean, us");
    let Measured { iops, mean } = bare_best;
    let (megabytes, mean) = (iops * 4096.0 / 1e6, mean.as_secs_f64() * 1e6);
    println!("{:24} {:9.1} {megabytes:9.0} {mean:10.1}", "bare socket 4k qd1", iops / 1e3);
    for (row, best) in rows.iter().zip(&best) {
        let Some(Measured { iops, mean }) = best else { continue };
        let megabytes = iops * f64::from(row.len) / 1e6;
        let mean = mean.as_secs_f64() * 1e6;
        println!("{:24} {:9.1} {megabytes:9.0} {mean:10.1}", row.name, iops / 1e3);
    }
    let iops = |name: &str| {
        let at = rows.iter().position(|row| row.name == name)?;
        best[at].as_ref().map(|measured| measured.iops)
    };
    if let (Some(write), Some(append)) = (iops(WRITE), iops(APPEND)) {
        println!("an append takes {:.2} of the time of a write", write / append);
    }
}
