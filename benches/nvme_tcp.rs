//! NVMe/TCP over the loopback: our target under our initiator, on a null device that takes no time
//! and keeps no data. One connection, a thread at each end.
//!
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
use zonal_device::spec;
use zonal_host::nvme_tcp::{NvmeTcpDevice, Server, ServerConfig, Waiting};
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};

const NQN: &str = "nqn.2026-11.org.example:bench";
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(400);

/// A load.
struct Row {
    name: &'static str,
    op: Op,
    /// Bytes of an I/O.
    len: u32,
    depth: usize,
    random: bool,
    waiting: Waiting,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let sleep = Waiting::default();
    for (name, op, len, depth, random, waiting) in [
        ("randread 4k qd1", Op::Read, 4 << 10, 1, true, sleep),
        ("randread 4k qd1 --poll", Op::Read, 4 << 10, 1, true, Waiting::Poll),
        ("randread 4k qd32", Op::Read, 4 << 10, 32, true, sleep),
        ("randread 4k qd128", Op::Read, 4 << 10, 128, true, sleep),
        ("read 1m qd8", Op::Read, 1 << 20, 8, false, sleep),
        ("write 1m qd8", Op::Write, 1 << 20, 8, false, sleep),
    ] {
        rows.push(Row { name, op, len, depth, random, waiting });
    }
    rows
}

/// Both ends.
struct Loopback {
    channel: Channel,
    capacity: u64,
    _server: Server,
}

fn loopback(waiting: Waiting) -> Loopback {
    let device = spec::parse("null:zoned=false,size=64G,lba=4096").expect("a spec");
    let device: Arc<dyn Device> = spec::build(&device).expect("a device");
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
    let config = ServerConfig { waiting, ..ServerConfig::default() };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(address, subsystem, config).expect("a free port");
    let address = format!("nvme-tcp://{}/{NQN}", server.address());
    let device = NvmeTcpDevice::connect(&address.parse().expect("an address"), 1);
    let queue = Queue::attach(Arc::new(device.expect("a device")), QueueOptions::default());
    let queue = queue.expect("a queue");
    let capacity = queue.limits().capacity.0;
    let channel = queue.channel().expect("a hardware queue");
    Loopback { channel, capacity, _server: server }
}

/// I/Os a second, and their mean latency.
struct Measured {
    iops: f64,
    mean: Duration,
}

fn round(row: &Row) -> Measured {
    let mut loopback = loopback(row.waiting);
    let sectors = row.len / 512;
    let places = loopback.capacity / u64::from(sectors);
    let (mut seed, mut next) = (0x9e37_79b9_7f4a_7c15_u64, 0_u64);
    let mut submit = |channel: &mut Channel, buf: Buf| {
        // Xorshift: the order needs to be no better.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        next += 1;
        let place = if row.random { seed } else { next } % places;
        let bio = Bio::new(row.op, Sector(place * u64::from(sectors)), sectors, 0);
        channel.submit(Nanos(0), Bio { buf: Some(buf), ..bio });
    };
    let channel = &mut loopback.channel;
    for _ in 0..row.depth {
        submit(channel, Buf::zeroed(row.len as usize));
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
            submit(channel, completion.buf.expect("the buffer comes back"));
        }
    }
    let spent = begin.elapsed();
    while channel.outstanding() > 0 {
        channel.poll(Nanos(0), &mut done);
    }
    let iops = count as f64 / spent.as_secs_f64();
    // Little's law: as many as the depth are on their way all the time.
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
}
