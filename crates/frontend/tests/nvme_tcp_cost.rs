//! The memory that a connection can make the target allocate, and connections when there is none. A
//! single test, since the allocator counts for all threads; the hosts are streams with bytes made before,
//! so that they allocate nothing.
#[path = "../../../tests/hostile/mod.rs"]
mod hostile;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "nvme_tcp/support.rs"]
mod support;

use hostile::{Client, Connect, Target, connect_pdu, is};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use support::{HOST, NQN, Served, patient};
use zonal_backend::nvme_tcp::load_secrets;
use zonal_blk::{Bio, Buf, Completion, Nanos, Op, Queue, QueueOptions, Sector, Status};
use zonal_device::device_spec;
use zonal_nvme::NvmeStatus;
use zonal_nvme::tcp::{Format, Initialize, Payload, Pdu, encode};
use zonal_nvme::wire::auth::AuthCommand;
use zonal_nvme::wire::io::RwCommand;
use zonal_nvme::wire::opcode::{FABRICS, FabricsType, IoOpcode};
use zonal_nvme::wire::zone::{SELECT_ALL, SendAction, ZoneSend};
use zonal_nvme::wire::{Sgl, Sqe};

/// Counts bytes, and has no memory for allocations from a length on.
struct Counter {
    bytes: AtomicUsize,
    peak: AtomicUsize,
    too_long: AtomicUsize,
}

#[global_allocator]
static MEMORY: Counter = Counter {
    bytes: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
    too_long: AtomicUsize::new(usize::MAX),
};

// SAFETY: memory is that of the system's allocator, or null, which means that there is none.
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= self.too_long.load(Relaxed) {
            return std::ptr::null_mut();
        }
        let bytes = self.bytes.fetch_add(layout.size(), Relaxed) + layout.size();
        self.peak.fetch_max(bytes, Relaxed);
        // SAFETY: the caller's promises are those that this function asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.bytes.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as in `alloc`; the memory came from there.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Bytes in use when nothing changes any more.
fn settled() -> usize {
    let mut last = MEMORY.bytes.load(Relaxed);
    let mut unchanged = 0;
    while unchanged < 10 {
        std::thread::sleep(Duration::from_millis(10));
        let now = MEMORY.bytes.load(Relaxed);
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
    last
}

fn bytes(pdus: &[Pdu]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pdus.iter().for_each(|pdu| encode(pdu, Format::default(), &mut bytes));
    bytes
}

/// The cost of each of some connections that send `bytes` and then read `answer` bytes.
fn cost(served: &Served, bytes: &[u8], answer: usize) -> usize {
    const CONNECTIONS: usize = 16;
    let mut room = vec![0; answer];
    let mut streams: Vec<TcpStream> = Vec::with_capacity(CONNECTIONS);
    let before = settled();
    for _ in 0..CONNECTIONS {
        let mut stream = served.stream();
        stream.write_all(bytes).expect("the server receives");
        stream.read_exact(&mut room).expect("the server answers");
        streams.push(stream);
    }
    let cost = (settled() - before) / CONNECTIONS;
    assert_eq!(served.server.connections(), CONNECTIONS, "all are open");
    drop(streams);
    served.wait_for_connections(0);
    cost
}

/// PDUs of which the last is not complete.
fn all_but_the_last_byte(pdus: &[Pdu]) -> Vec<u8> {
    let mut bytes = bytes(pdus);
    bytes.pop();
    bytes
}

fn connections_cost_little_before_authentication() {
    let dir = tempfile::tempdir().expect("a directory");
    let secrets = dir.path().join("secrets");
    let secret = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    std::fs::write(&secrets, format!("{HOST} {secret}\n")).expect("a file");
    let auth = load_secrets(&secrets).expect("secrets");
    let served = Served::authenticated(support::ZONED, patient(), auth);
    let initialize = Pdu::IcReq(Initialize::default());
    let connect = connect_pdu(NQN, &Connect { hostnqn: HOST, ..Connect::default() });
    // For what is allocated once.
    cost(&served, &bytes(&[initialize.clone(), connect.clone()]), 128 + 24);

    let silent = cost(&served, &[], 0);
    let longest = Pdu::Command { sqe: Sqe::new(FABRICS, 1, 1), data: vec![0; 8192].into() };
    let unfinished = all_but_the_last_byte(&[initialize.clone(), longest]);
    let unfinished = cost(&served, &unfinished, 128);
    let unauthenticated = bytes(&[initialize.clone(), connect.clone()]);
    let unauthenticated = cost(&served, &unauthenticated, 128 + 24);
    let mut send = AuthCommand::zeroed();
    (send.opcode, send.flags) = (FABRICS, 0x40);
    send.fctype = FabricsType::AUTH_SEND.0;
    let message = Pdu::Command { sqe: send.into(), data: vec![0; 8192].into() };
    let message = all_but_the_last_byte(&[initialize, connect, message]);
    let message = cost(&served, &message, 128 + 24);
    println!(
        "bytes: {silent} silent, {unfinished} before the end of Connect, {unauthenticated} \
              after Connect, {message} during authentication"
    );
    assert!(silent <= 16 << 10 && unfinished <= 16 << 10, "before Connect");
    assert!(unauthenticated <= 64 << 10 && message <= 64 << 10, "before authentication");
}

/// Sends commands together and returns the peak of memory until all have completed.
fn peak(queue: &mut Client, commands: &[Sqe]) -> usize {
    let mut bytes = Vec::new();
    for command in commands {
        let pdu = queue.capsule(*command, &[]);
        bytes.extend(queue.bytes(&pdu));
    }
    let before = settled();
    MEMORY.peak.store(before, Relaxed);
    queue.send_bytes(&bytes).expect("the server receives");
    for _ in commands {
        let cqe = queue.response().expect("an answer");
        assert!(cqe.status().is_success(), "{:?}", cqe.status());
    }
    MEMORY.peak.load(Relaxed) - before
}

fn rw(opcode: IoOpcode, slba: u64, blocks: u32) -> RwCommand {
    let mut command = RwCommand::zeroed();
    (command.opcode, command.nsid, command.slba) = (opcode.0, 1.into(), slba.into());
    command.nlb = u16::try_from(blocks - 1).expect("at most 65,536").into();
    command.dptr = Sgl::transport(if opcode == IoOpcode::READ { blocks * 4096 } else { 0 });
    command
}

fn long_commands_use_no_more_than_the_bound_of_a_connection(target: &Target) {
    let (_admin, mut queue) = target.queues(HOST).expect("connected");
    let verify = [rw(IoOpcode::VERIFY, 0, 65_536).into(); 8];
    let verify = peak(&mut queue, &verify);
    let zeroes: Vec<Sqe> =
        (0..4).map(|zone| rw(IoOpcode::WRITE_ZEROES, zone * 65_536, 65_536).into()).collect();
    let zeroes = peak(&mut queue, &zeroes);
    let mut all = ZoneSend::zeroed();
    (all.opcode, all.nsid) = (IoOpcode::ZONE_MANAGEMENT_SEND.0, 1.into());
    (all.action, all.options) = (SendAction::FINISH.0, SELECT_ALL);
    let all = peak(&mut queue, &[all.into()]);
    println!("bytes: {verify} for Verify, {zeroes} for Write Zeroes, {all} for Select All");
    assert!(verify < 24 << 20 && zeroes < 24 << 20 && all < 4 << 20);
}

fn command_without_memory_fails_and_the_next_does_not(target: &Target) {
    let (_admin, mut queue) = target.queues(HOST).expect("connected");
    let read = rw(IoOpcode::READ, 0, 256);
    let mut write = Sqe::from(rw(IoOpcode::WRITE, 1 << 20, 256));
    write.dptr = Sgl::transport(1 << 20);
    MEMORY.too_long.store(1 << 20, Relaxed);
    let cqe = queue.command(read.into(), &[]).expect("an answer");
    assert!(is(&cqe, NvmeStatus::INTERNAL), "{:?}", cqe.status());
    for expected in [NvmeStatus::INTERNAL, NvmeStatus::SUCCESS] {
        let pdu = queue.capsule(write, &[]);
        queue.send(&pdu).expect("the server receives");
        let Ok(Pdu::ReadyToTransfer { cid, ttag, .. }) = queue.receive() else { panic!("no R2T") };
        for piece in 0..256 {
            let (offset, data) = (piece * 4096, Payload::from(vec![0; 4096]));
            let last = piece == 255;
            queue.send(&Pdu::HostData { cid, ttag, offset, last, data }).expect("it receives");
        }
        let cqe = queue.response().expect("an answer");
        assert!(is(&cqe, expected), "{:?}", cqe.status());
        MEMORY.too_long.store(usize::MAX, Relaxed);
    }
    let cqe = queue.command(read.into(), &[]).expect("an answer");
    assert!(cqe.status().is_success());
}

fn bio_without_memory_for_its_parts_fails_and_the_next_does_not() {
    let spec = device_spec::parse("null:zones=4,zone_size=16M,max_io=1M").expect("a spec");
    let device = device_spec::build(&spec).expect("a device");
    let queue = Queue::attach(device, QueueOptions::default()).expect("a queue");
    let mut channel = queue.channel().expect("a channel");
    let mut run = |bio| {
        channel.submit(Nanos(0), bio);
        let mut done = Vec::new();
        while done.is_empty() {
            channel.poll(Nanos(0), &mut done);
        }
        let Completion { status, buf, .. } = done.remove(0);
        (status, buf)
    };
    let buf = Some(Buf::zeroed(2 << 20));
    MEMORY.too_long.store(1 << 20, Relaxed);
    // Parts that end at pages have pieces of the buffer, and need no memory.
    let (status, buf) = run(Bio { buf, ..Bio::new(Op::Write, Sector(0), 2 << 11, 0) });
    assert_eq!(status, Status::Ok);
    let across = |buf| Bio { buf, ..Bio::new(Op::Read, Sector((16 << 11) - 1), 2 << 11, 0) };
    let (status, buf) = run(across(buf));
    assert_eq!(status, Status::Again);
    MEMORY.too_long.store(usize::MAX, Relaxed);
    assert_eq!(run(across(buf)).0, Status::Ok);
}

#[test]
fn memory_that_a_host_can_use_is_bounded() {
    connections_cost_little_before_authentication();
    let served = Served::new("null:zones=16,zone_size=1G,lba=4096,max_open=0");
    let target = Target { address: served.server.address(), nqn: NQN.to_owned() };
    long_commands_use_no_more_than_the_bound_of_a_connection(&target);
    command_without_memory_fails_and_the_next_does_not(&target);
    bio_without_memory_for_its_parts_fails_and_the_next_does_not();
}
