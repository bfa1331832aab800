//! NVMe/TCP over the loopback: our target under our initiator, on a null device that takes no time
//! and keeps no data. A thread polls the initiator; each of its queues has a connection, with a thread
//! of the target's at the other end.
//!
//! The rows `write 4k` and `append 4k` have a device with zones, each place in the queue a zone of
//! its own, so that no write waits for another; what an append costs beside a write is printed too.
//! The rows `bare socket` are no NVMe but the same bytes over a socket, by threads that wait as ours
//! do and do nothing else: what the loopback costs by itself, and the bound of what any initiator and
//! target reach that send and receive with these calls. The share of it that the rows of 1 MiB reach
//! is printed at the end. In rows with `spin` both ends poll without a pause, as SPDK
//! does, on whose rates on a machine of this kind the last columns are based; in those with `--poll`
//! the target does, with sched_yield(2) between polls. In rows with `1 by 1` the host sends each command
//! by itself: how a batch forms then depends on the target. In rows with `mdts 128k` the target takes no
//! longer commands, as SPDK's, so that each I/O is eight; in those with `capsule` it takes 4 KiB in a
//! capsule (SPDK; ours and Linux 16 KiB), or nothing, so that a write waits for its R2T.
//!
//! CPU is the processor time of both ends for an I/O. The batches are I/Os for each send(2) of the
//! host and of the target, of the median round; `empty` are calls of recv(2), for each I/O, that find
//! nothing, and `switch` the context switches.
//!
//! `cargo bench --bench nvme_tcp`; words after `--` choose the rows whose names contain one. Rounds
//! are taken in turn; a row shows its best round, and the median of all. The machine's mood changes
//! the figures of all rows: to compare two versions, `--before PROGRAM` runs another build of this
//! benchmark in turn with this one, three times for each row, and prints both and the median ratio of
//! their medians. With `--csv` the medians are printed as rows that `cargo bench --bench peers -- --with FILE`
//! puts beside those of others.
#[path = "support/median.rs"]
mod median;
#[allow(dead_code)]
#[path = "peers/rows.rs"]
mod rows;
#[path = "support/start.rs"]
mod start;

use median::median;
use rustix::net::sockopt::set_tcp_congestion;
use std::hint::spin_loop;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
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
use zonal_os::poll::socket::{End, SocketCalls, pause_for};

const NQN: &str = "nqn.2026-11.org.example:bench";
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(400);

/// How often a row is measured in turn with another build.
const TURNS: usize = 3;

/// The two rows that are compared with each other.
const WRITE: &str = "write 4k qd32";
const APPEND: &str = "append 4k qd32";

/// The bounds of transfers of 1 MiB.
const BARE_READ: &str = "bare socket read 1m qd1";
const BARE_READS: &str = "bare socket read 1m qd8";
const BARE_WRITE: &str = "bare socket write 1m qd1";
const BARE_WRITES: &str = "bare socket write 1m qd8";

/// A load.
struct Row {
    name: &'static str,
    op: Op,
    /// Bytes of an I/O.
    len: u32,
    /// Commands in flight, over all queues.
    depth: usize,
    order: Order,
    /// How the target's threads wait. With [`WaitPolicy::Spin`] the host's does so too.
    waiting: WaitPolicy,
    queues: u16,
    digests: bool,
    /// The target's limits on a command's data: MDTS, and bytes in a capsule.
    limits: Option<(u8, u32)>,
    /// The host sends each command by itself, instead of all that it has.
    single: bool,
    /// KIOPS, measured of SPDK 24.09 on a machine of this kind.
    goal: Option<f64>,
    /// The row of the same bytes over a bare socket.
    bound: Option<&'static str>,
}

impl Row {
    fn new(name: &'static str, op: Op, len: u32, depth: usize, order: Order) -> Self {
        let waiting = WaitPolicy::default();
        Row {
            name,
            op,
            len,
            depth,
            order,
            waiting,
            queues: 1,
            digests: false,
            limits: None,
            single: false,
            goal: None,
            bound: None,
        }
    }

    fn polled(self) -> Self {
        Row { waiting: WaitPolicy::Yield, ..self }
    }

    fn spin(self) -> Self {
        Row { waiting: WaitPolicy::Spin, ..self }
    }

    fn queues(self, queues: u16) -> Self {
        Row { queues, ..self }
    }

    fn digests(self) -> Self {
        Row { digests: true, ..self }
    }

    fn limits(self, mdts: u8, in_capsule: u32) -> Self {
        Row { limits: Some((mdts, in_capsule)), ..self }
    }

    fn single(self) -> Self {
        Row { single: true, ..self }
    }

    fn goal(self, kiops: f64) -> Self {
        Row { goal: Some(kiops), ..self }
    }

    fn bound(self, bare: &'static str) -> Self {
        Row { bound: Some(bare), ..self }
    }
}

/// Where the I/Os of a row go.
#[derive(Clone, Copy)]
enum Order {
    Random,
    Sequential,
    /// On a device with zones, those of each place in the queue to a zone of its own.
    Zones,
    /// No device: a [`bare`] socket.
    Bare,
}

impl Order {
    fn device(self) -> &'static str {
        match self {
            Order::Random | Order::Sequential | Order::Bare => "null:zoned=false,size=64G,lba=4096",
            Order::Zones => "null:zones=128,zone_size=1G,lba=4096",
        }
    }
}

fn rows() -> Vec<Row> {
    let read = |name, depth| Row::new(name, Op::Read, 4 << 10, depth, Order::Random);
    let write = |name, op, depth| Row::new(name, op, 4 << 10, depth, Order::Zones);
    let long = |name, op, depth| Row::new(name, op, 1 << 20, depth, Order::Sequential);
    let bare = |name, op, len, depth| Row::new(name, op, len, depth, Order::Bare);
    vec![
        bare("bare socket 4k qd1", Op::Read, 4 << 10, 1),
        bare("bare socket 4k qd1 spin", Op::Read, 4 << 10, 1).spin(),
        read("randread 4k qd1", 1).goal(111.0),
        read("randread 4k qd1 --poll", 1).polled().goal(111.0),
        read("randread 4k qd1 spin", 1).spin().goal(111.0),
        read("randread 4k qd8", 8).goal(410.0),
        read("randread 4k qd8 spin", 8).spin().goal(410.0),
        read("randread 4k qd32", 32).goal(913.0),
        read("randread 4k qd32 spin", 32).spin().goal(913.0),
        read("randread 4k qd32 digests", 32).digests(),
        read("randread 4k qd128", 128).goal(964.0),
        read("randread 4k qd128 spin", 128).spin().goal(964.0),
        read("randread 4k qd128 1 by 1", 128).single(),
        read("randread 4k qd32 4 queues", 32).queues(4).goal(737.0),
        read("randread 4k qd128 4 queues", 128).queues(4).goal(1080.0),
        write("write 4k qd1", Op::Write, 1),
        write(WRITE, Op::Write, 32),
        write(APPEND, Op::ZoneAppend, 32),
        write("write 4k qd128", Op::Write, 128).goal(1065.0),
        write("write 4k qd128 1 by 1", Op::Write, 128).single(),
        write("write 4k qd128 spin", Op::Write, 128).spin().goal(1065.0),
        bare(BARE_READ, Op::Read, 1 << 20, 1),
        long("read 1m qd1", Op::Read, 1).goal(5.24).bound(BARE_READ),
        bare(BARE_READS, Op::Read, 1 << 20, 8),
        long("read 1m qd8", Op::Read, 8).goal(8.01).bound(BARE_READS),
        long("read 1m qd8 digests", Op::Read, 8).digests().bound(BARE_READS),
        bare(BARE_WRITE, Op::Write, 1 << 20, 1),
        long("write 1m qd1", Op::Write, 1).goal(6.01).bound(BARE_WRITE),
        bare(BARE_WRITES, Op::Write, 1 << 20, 8),
        long("write 1m qd8", Op::Write, 8).goal(7.25).bound(BARE_WRITES),
        long("write 1m qd8 digests", Op::Write, 8).digests().bound(BARE_WRITES),
        long("read 1m qd8 mdts 128k", Op::Read, 8).limits(5, 16 << 10).bound(BARE_READS),
        long("write 1m qd8 mdts 128k", Op::Write, 8).limits(5, 16 << 10).bound(BARE_WRITES),
        write("write 4k qd32 capsule 4k", Op::Write, 32).limits(5, 4 << 10),
        write("write 4k qd32 no capsule", Op::Write, 32).limits(5, 0),
    ]
}

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

/// The result of a round.
#[derive(Clone, Copy)]
struct Measured {
    iops: f64,
    /// Mean latency in seconds.
    mean: f64,
    /// Seconds of processor time of an I/O at both ends.
    cpu: f64,
    counts: Counts,
}

/// For an I/O.
#[derive(Clone, Copy, Default)]
struct Counts {
    host_sends: f64,
    target_sends: f64,
    /// Calls that found nothing to receive, at both ends.
    empty: f64,
    /// Context switches.
    switches: f64,
}

impl Measured {
    fn new(count: u64, depth: usize, spent: Duration, begin: Threads) -> Self {
        let Threads { cpu, switches } = Threads::now();
        let (ios, iops) = (count as f64, count as f64 / spent.as_secs_f64());
        // A thread that has ended meanwhile no longer counts.
        let switches = switches.saturating_sub(begin.switches) as f64 / ios;
        let cpu = cpu.saturating_sub(begin.cpu).as_secs_f64() / ios;
        // Little's law: as many commands as the depth are in flight all the time.
        let mean = depth as f64 / iops;
        Measured { iops, mean, cpu, counts: Counts { switches, ..Counts::default() } }
    }
}

/// Of the threads of this process so far.
#[derive(Clone, Copy)]
struct Threads {
    /// Processor time.
    cpu: Duration,
    /// Context switches.
    switches: u64,
}

impl Threads {
    fn now() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
        let of_task = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
            // Time on a processor, time in its queue, and how often it got one.
            let cpu: u64 = numbers.next().unwrap_or(0);
            (cpu, numbers.nth(1).unwrap_or(0))
        };
        let (nanos, switches) = tasks
            .map(|task| of_task(task.expect("a thread").path()))
            .fold((0, 0), |sum, task| (sum.0 + task.0, sum.1 + task.1));
        Threads { cpu: Duration::from_nanos(nanos), switches }
    }
}

fn round(row: &Row) -> Measured {
    if matches!(row.order, Order::Bare) {
        return bare(row);
    }
    let calls = || [End::Host, End::Target].map(SocketCalls::of_closed);
    let [host, target] = calls();
    let (count, mut measured) = load(row);
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

/// Returns the number of I/Os too.
fn load(row: &Row) -> (u64, Measured) {
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
    while begin.elapsed() < ROUND {
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
fn pause(waiting: WaitPolicy) {
    if waiting == WaitPolicy::Spin { spin_loop() } else { thread::yield_now() }
}

/// Commands and their answers over a bare socket: the data follow the commands of writes, and are in
/// the answers to reads.
fn bare(row: &Row) -> Measured {
    const COMMAND: usize = 72;
    const FRAMING: usize = 24;
    let (len, waiting) = (row.len as usize, row.waiting);
    let (command, answer) = match row.op {
        Op::Write => (COMMAND + len, FRAMING),
        _ => (COMMAND, FRAMING + len + FRAMING),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let target = thread::spawn(move || {
        let mut stream = listener.accept().expect("a connection").0;
        ready(&stream);
        let (mut command, answer) = (vec![0; command], vec![0; answer]);
        while receive(&mut stream, &mut command, waiting) && send(&mut stream, &answer, waiting) {}
    });
    let mut stream = TcpStream::connect(address).expect("it listens");
    ready(&stream);
    let (command, mut answer) = (vec![0; command], vec![0; answer]);
    let (begin, threads, mut sent, mut count) = (Instant::now(), Threads::now(), 0_u64, 0_u64);
    while begin.elapsed() < ROUND {
        while sent < count + row.depth as u64 {
            assert!(send(&mut stream, &command, waiting), "the other end has gone");
            sent += 1;
        }
        assert!(receive(&mut stream, &mut answer, waiting), "the other end has gone");
        count += 1;
    }
    let measured = Measured::new(count, row.depth, begin.elapsed(), threads);
    while count < sent && receive(&mut stream, &mut answer, waiting) {
        count += 1;
    }
    drop(stream);
    target.join().expect("the other end");
    let counts = Counts { host_sends: 1.0, target_sends: 1.0, ..measured.counts };
    Measured { counts, ..measured }
}

/// Sends the bytes; whether the other side is there.
fn send(stream: &mut TcpStream, bytes: &[u8], waiting: WaitPolicy) -> bool {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(len) => sent += len,
            Err(error) if would_block(&error) => pause(waiting),
            Err(_) => return false,
        }
    }
    true
}

fn ready(stream: &TcpStream) {
    stream.set_nonblocking(true).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    // As the sockets of both ends: others may be paced.
    set_tcp_congestion(stream, "reno").expect("Reno is always available");
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

/// Fills the buffer; whether the other side is there.
fn receive(stream: &mut TcpStream, buffer: &mut [u8], waiting: WaitPolicy) -> bool {
    let mut came = 0;
    while came < buffer.len() {
        match stream.read(&mut buffer[came..]) {
            Ok(0) => return false,
            Ok(len) => came += len,
            // As long as a socket of ours leaves the sender alone.
            Err(error) if would_block(&error) => match pause_for(buffer.len() - came) {
                Some(time) => {
                    let begin = Instant::now();
                    while begin.elapsed() < time {
                        spin_loop();
                    }
                }
                None => pause(waiting),
            },
            Err(_) => return false,
        }
    }
    true
}

/// The rounds of a row, the best first.
fn print_row(row: &Row, rounds: &[Measured]) {
    let (Measured { iops, mean, cpu, .. }, median) = (rounds[0], rounds[rounds.len() / 2]);
    let Counts { host_sends, target_sends, empty, switches } = median.counts;
    let megabytes = iops * f64::from(row.len) / 1e6;
    let (mean, cpu) = (mean * 1e6, cpu * 1e6);
    let goal = row
        .goal
        .map_or_else(String::new, |goal| format!("{goal:8.1} {:4.0} %", iops / 1e3 / goal * 100.0));
    println!(
        "{:NAME$} {:8.1} {:8.1} {megabytes:7.0} {mean:9.1} {cpu:8.1} {:6.1} {:6.1} {empty:6.2} \
         {switches:6.3} {goal}",
        row.name,
        iops / 1e3,
        median.iops / 1e3,
        1.0 / host_sends,
        1.0 / target_sends,
    );
}

/// Width of a row's name.
const NAME: usize = 26;

/// Best and median KIOPS of a row, as another build of this program prints them, if it has that row.
fn run_before(program: &str, row: &Row) -> Option<[f64; 2]> {
    let output = Command::new(program).args(["--bench", row.name]).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let columns = text.lines().next().unwrap_or_default().split_whitespace();
    assert!(columns.take(2).eq(["KIOPS", "median"]), "{program}: its columns are others");
    let rates = |line: &str| {
        let (name, numbers) = line.split_at_checked(NAME)?;
        let mut numbers = numbers.split_whitespace().map_while(|word| word.parse().ok());
        (name.trim() == row.name).then_some([numbers.next()?, numbers.next()?])
    };
    text.lines().find_map(rates)
}

/// A row beside that of another build.
#[derive(Default)]
struct Turns {
    /// Best and median KIOPS of the other build in each turn.
    before: Vec<[f64; 2]>,
    /// Our median of each turn by theirs, which follows immediately.
    ratios: Vec<f64>,
}

impl Turns {
    /// Measures a row in turn with another build.
    fn take(&mut self, row: &Row, program: &str) -> Vec<Measured> {
        let rounds: Vec<Measured> = (0..ROUNDS).map(|_| round(row)).collect();
        if let Some(before) = run_before(program, row) {
            let ours = median(rounds.iter().map(|round| round.iops / 1e3));
            self.ratios.push(ours / before[1]);
            self.before.push(before);
        }
        rounds
    }
}

fn print_beside(row: &Row, rounds: &[Measured], turns: &Turns) {
    let ours = [rounds[0].iops, rounds[rounds.len() / 2].iops].map(|iops| iops / 1e3);
    print!("{:NAME$} {:8.1} {:8.1}", row.name, ours[0], ours[1]);
    if !turns.before.is_empty() {
        let best = turns.before.iter().map(|rates| rates[0]).fold(0.0, f64::max);
        let theirs = median(turns.before.iter().map(|rates| rates[1]));
        let ratio = median(turns.ratios.iter().copied());
        print!(" {best:8.1} {theirs:8.1} {ratio:6.2}");
    }
    println!();
}

fn main() {
    if !start::measures() {
        return;
    }
    let mut words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    let before = words.iter().position(|word| word == "--before").map(|at| {
        assert!(at + 1 < words.len(), "--before: expected the path of a program");
        words.drain(at..at + 2).nth(1).expect("just seen")
    });
    let csv = words.iter().position(|word| word == "--csv").map(|at| words.remove(at)).is_some();
    let chosen = |row: &Row| words.is_empty() || words.iter().any(|word| row.name.contains(word));
    let rows: Vec<Row> = rows().into_iter().filter(chosen).collect();
    let mut rounds: Vec<Vec<Measured>> = rows.iter().map(|_| Vec::new()).collect();
    let mut turns: Vec<Turns> = rows.iter().map(|_| Turns::default()).collect();
    if let Some(program) = &before {
        for _ in 0..TURNS {
            for ((row, rounds), turns) in rows.iter().zip(&mut rounds).zip(&mut turns) {
                rounds.extend(turns.take(row, program));
            }
        }
    } else {
        for _ in 0..ROUNDS {
            rows.iter().zip(&mut rounds).for_each(|(row, rounds)| rounds.push(round(row)));
        }
    }
    for rounds in &mut rounds {
        rounds.sort_by(|one, other| other.iops.total_cmp(&one.iops));
    }
    if csv {
        print_csv(&rows, &rounds);
        return;
    }
    println!(
        "{:NAME$} {:>8} {:>8} {:>7} {:>9} {:>8} {:>6} {:>6} {:>6} {:>6} {:>8}",
        "",
        "KIOPS",
        "median",
        "MB/s",
        "mean, us",
        "CPU, us",
        "host",
        "target",
        "empty",
        "switch",
        "SPDK"
    );
    for (row, rounds) in rows.iter().zip(&rounds) {
        print_row(row, rounds);
    }
    if before.is_some() {
        println!(
            "\n{:NAME$} {:>8} {:>8} {:>8} {:>8} {:>6}",
            "beside --before", "KIOPS", "median", "KIOPS", "median", "ratio"
        );
        for ((row, rounds), turns) in rows.iter().zip(&rounds).zip(&turns) {
            print_beside(row, rounds, turns);
        }
    }
    print_shares(&rows, &rounds);
}

fn print_csv(rows: &[Row], rounds: &[Vec<Measured>]) {
    println!("{}", rows::HEADER);
    for (row, rounds) in rows.iter().zip(rounds) {
        let (scale, unit) =
            if row.len < 1 << 20 { (1.0, "IOPS") } else { (row.len as f64 / 1e6, "MB/s") };
        let work = format!("nvme/tcp {}", row.name);
        println!(
            "{}",
            rows::Row::of_rates(work, rounds.iter().map(|round| round.iops * scale), unit)
        );
    }
}

/// How much of their bounds rows reach, and what an append costs.
fn print_shares(rows: &[Row], rounds: &[Vec<Measured>]) {
    let iops = |name: &str| {
        let at = rows.iter().position(|row| row.name == name)?;
        Some(rounds[at][0].iops)
    };
    let of_bound = |row: &Row| row.bound.and_then(iops);
    for row in rows {
        if let (Some(reached), Some(bound)) = (iops(row.name), of_bound(row)) {
            println!("{:NAME$} {:3.0} % of the bare socket", row.name, reached / bound * 100.0);
        }
    }
    if let (Some(write), Some(append)) = (iops(WRITE), iops(APPEND)) {
        println!("an append takes {:.2} of the time of a write", write / append);
    }
}
