//! A hostile virtual machine, monitor and guest: messages, registers, doorbells, queues and memory as the
//! input has them. The server neither panics nor loops, its replies are whole, and the next client finds
//! a controller that works.
#![no_main]
mod guest;

use guest::{FILES, Input, PAGE, PAGES, connection, next_client, receive, resize, send, write};
use libfuzzer_sys::fuzz_target;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Nanos, Queue, QueueOptions};
use zonal_device::device_spec;
use zonal_frontend::vfio_user::Stepped;
use zonal_nvme::controller::{Namespace, Subsystem, SubsystemConfig};
use zonal_nvme::wire::opcode::{AdminOpcode, IoOpcode};
use zonal_nvme::wire::pcie::{CreateCq, CreateSq, prp_pointer};
use zonal_nvme::wire::{Cqe, Sqe};

/// Guest memory has queues of 64 entries, each pair in two pages from the second on; then shadow doorbells
/// and event indices; the rest is data.
const ENTRIES: u16 = 64;
const SHADOW: u64 = 8 * PAGE;
const DATA: u64 = 16 * PAGE;
const DEVICES: [&str; 2] = [
    "null:zones=8,zone_size=64K,zone_capacity=48K,lba=4K,max_open=2,max_active=3,memory=true",
    "null:zoned=false,size=1M,lba=512,memory=true,latency=3us",
];

/// A machine: the server, and the monitor's end of the socket.
struct Machine {
    server: Stepped,
    socket: UnixStream,
    received: Vec<u8>,
    now: Nanos,
    tails: [u16; 4],
}

impl Machine {
    fn new() -> Self {
        let text = |text: &str| text.to_owned();
        let subsystem = Subsystem::new(SubsystemConfig {
            nqn: text("nqn.2026-11.org.example:fuzz"),
            serial: text("1"),
            model: text("fuzz"),
            firmware: text("1"),
        });
        for (nsid, device) in (1..).zip(DEVICES) {
            let device = device_spec::parse(device).expect("a spec");
            let device = device_spec::build(&device).expect("a device");
            let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
            let queue = Queue::attach(device, options).expect("a queue");
            let namespace = Namespace::new(queue, [1; 16]).expect("a namespace");
            subsystem.add(nsid, Arc::new(namespace)).expect("a free identifier");
        }
        let mut server = Stepped::new(Nanos(0), &subsystem, 3).expect("a controller");
        let socket = connect(&mut server).expect("the first client");
        Machine { server, socket, received: Vec::new(), now: Nanos(0), tails: [0; 4] }
    }

    /// Polls until there is nothing to do, for some time, and checks the replies. Returns the last.
    fn step(&mut self) -> Option<Vec<u8>> {
        for _ in 0..16 {
            self.now += Nanos(100);
            if !self.server.poll(self.now) {
                break;
            }
        }
        receive(&self.socket, &mut self.received);
        let mut last = None;
        while let Some(header) = self.received.first_chunk::<16>() {
            let number = |at| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
            let (len, flags) = (number(4) as usize, number(8));
            assert!((16..1 << 15).contains(&len) && flags & !0x20 == 1, "{header:?}");
            if self.received.len() < len {
                break;
            }
            last = Some(self.received.drain(..len).skip(16).collect());
        }
        last
    }

    fn send_raw(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Option<Vec<u8>> {
        send(&self.socket, bytes, fds);
        self.step()
    }

    fn send(&mut self, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) -> Option<Vec<u8>> {
        let size = 16 + u32::try_from(body.len()).expect("short");
        let (command, size) = (command.to_le_bytes(), size.to_le_bytes());
        self.send_raw(&[&[1, 0], &command[..], &size, &[0; 8], body].concat(), fds)
    }

    fn map(&mut self, page: u64, count: u64, from: u64, flags: u32, fds: &[BorrowedFd<'_>]) {
        let numbers = [from, page, count].map(|number| (number * PAGE).to_le_bytes());
        self.send(2, &[[32, flags].as_bytes(), numbers.as_bytes()].concat(), fds);
    }

    fn write_region(&mut self, region: u32, offset: u64, data: &[u8]) {
        let len = u32::try_from(data.len()).expect("short");
        let access = [offset.to_le_bytes().as_slice(), [region, len].as_bytes()].concat();
        self.send(10, &[&access, data].concat(), &[]);
    }

    fn register(&mut self, offset: u64) -> Option<u32> {
        let access = [offset.to_le_bytes().as_slice(), [0_u32, 4].as_bytes()].concat();
        let reply = self.send(9, &access, &[])?;
        u32::read_from_bytes(reply.get(16..)?).ok()
    }

    /// Puts a command into a queue, and rings.
    fn submit(&mut self, qid: u16, sqe: &Sqe) {
        let tail = &mut self.tails[usize::from(qid)];
        let cid = if sqe.cid.get() == 0 { *tail } else { sqe.cid.get() };
        let sqe = Sqe { cid: cid.into(), ..*sqe };
        write(queue(qid) + u64::from(*tail) * 64, sqe.as_bytes());
        *tail = (*tail + 1) % ENTRIES;
        let (tail, qid) = (*tail, u64::from(qid));
        write(SHADOW + qid * 8, &u32::from(tail).to_le_bytes());
        self.write_region(0, 0x1000 + qid * 8, &u32::from(tail).to_le_bytes());
    }

    /// A guest that knows how: up to the level, its memory is mapped, the controller enabled, two pairs
    /// of queues created, doorbells in memory.
    fn set_up(&mut self, level: u8) {
        resize(PAGES);
        self.send(
            1,
            &[&[0, 0, 1, 0], br#"{"capabilities":{"write_multiple":true}}"#.as_slice()].concat(),
            &[],
        );
        if level > 0 {
            self.map(0, PAGES, 0, 3, &[FILES.fds[0].as_fd()]);
        }
        if level > 1 {
            self.tails = [0; 4];
            self.write_region(0, 0x14, &0x46_0060_u32.to_le_bytes());
            let size = u32::from(ENTRIES) - 1;
            self.write_region(0, 0x24, &(size << 16 | size).to_le_bytes());
            self.write_region(0, 0x28, &queue(0).to_le_bytes());
            self.write_region(0, 0x30, &(queue(0) + PAGE).to_le_bytes());
            self.write_region(0, 0x14, &0x46_0061_u32.to_le_bytes());
        }
        if level > 2 {
            (1..3).for_each(|qid| self.create(qid));
        }
        if level > 3 {
            let mut config = Sqe::new(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0, 0);
            (config.flags, config.dptr) = (0, prp_pointer([SHADOW, SHADOW + PAGE]));
            self.submit(0, &config);
        }
    }

    fn create(&mut self, qid: u16) {
        let mut create = CreateCq::zeroed();
        (create.opcode, create.flags_11) = (AdminOpcode::CREATE_CQ.0, 3.into());
        (create.qid, create.vector, create.size) = (qid.into(), qid.into(), (ENTRIES - 1).into());
        create.address = (queue(qid) + PAGE).into();
        self.submit(0, &create.into());
        let mut create = CreateSq::zeroed();
        (create.opcode, create.flags_11) = (AdminOpcode::CREATE_SQ.0, 1.into());
        (create.qid, create.cqid, create.size) = (qid.into(), qid.into(), (ENTRIES - 1).into());
        create.address = queue(qid).into();
        self.submit(0, &create.into());
    }

    /// The next client.
    fn reconnect(&mut self) {
        self.server.disconnect(self.now);
        self.socket = next_client(|| {
            self.now += Nanos(1_000_000);
            self.server.poll(self.now);
            connect(&mut self.server)
        });
        self.received.clear();
    }

    fn act(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0 => {
                let (command, fds, body) = (input.byte().into(), input.fds(), input.bytes());
                drop(self.send(command, &body, &fds));
            }
            1 => drop(self.send_raw(&input.bytes(), &[])),
            2 => {
                let (region, offset) = (u32::from(input.byte()), u64::from(input.short()));
                let data = input.bytes();
                self.write_region(if region == 1 { 7 } else { region & !1 }, offset, &data);
            }
            3 => {
                let at = u64::from(input.short()) * 4 % (PAGES * PAGE);
                write(at, &input.bytes());
            }
            4..8 => self.act_command(input),
            8 => {
                let (at, value) = (u64::from(input.byte()) * 4, u32::from(input.short()));
                self.write_region(0, 0x1000 + at, &value.to_le_bytes());
            }
            9 => {
                self.now += Nanos(u64::from(input.byte()) * 1000);
                self.step();
                self.server.sleep();
            }
            10 => {
                let [page, count, from, flags] = input.take();
                let fds = input.fds();
                self.map(page.into(), count.into(), from.into(), flags.into(), &fds);
            }
            11 => {
                let [page, count, flags] = input.take();
                let numbers = [page, count].map(|number| (u64::from(number) * PAGE).to_le_bytes());
                let body = [[24, u32::from(flags)].as_bytes(), numbers.as_bytes()].concat();
                self.send(3, &body, &[]);
            }
            12 => {
                let fields = input.take::<4>().map(u32::from);
                let fds = input.fds();
                let body = [[20].as_bytes(), fields.as_bytes(), &input.bytes()].concat();
                self.send(8, &body, &fds);
            }
            13 => {
                let pages = u64::from(input.byte()).min(2 * PAGES);
                resize(pages);
                self.step();
            }
            14 => {
                self.reconnect();
                self.set_up(input.byte() % 5);
            }
            _ => drop(self.send(13, &[], &[])),
        }
    }

    /// A command whose data pointer is often in memory.
    fn act_command(&mut self, input: &mut Input<'_>) {
        let [qid, opcode, flags, nsid, wild] = input.take();
        let pointer = if wild & 1 == 0 {
            [(); 2].map(|()| u64::from(input.short()) * 4 % (PAGES * PAGE))
        } else {
            [(); 2].map(|()| u64::from_le_bytes(input.take()))
        };
        let mut sqe = Sqe::new(opcode, 0, u32::from(nsid % 4));
        (sqe.flags, sqe.dptr) = (flags, prp_pointer(pointer));
        if wild & 2 != 0 {
            sqe.cid = input.short().into();
        }
        (sqe.cdw10, sqe.cdw11) = (u32::from(input.short()).into(), u32::from(input.byte()).into());
        (sqe.cdw12, sqe.cdw13) = (u32::from(input.short()).into(), u32::from(input.byte()).into());
        self.submit(u16::from(qid % 4), &sqe);
    }
}

/// Where the submission queue is; its completion queue is in the next page.
fn queue(qid: u16) -> u64 {
    u64::from(qid * 2) * PAGE
}

fn connect(server: &mut Stepped) -> Option<UnixStream> {
    let (ours, theirs) = connection();
    server.connect(theirs).then_some(ours)
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    resize(0);
    let mut machine = Machine::new();
    machine.set_up(input.byte() % 5);
    while !input.0.is_empty() {
        machine.act(&mut input);
    }
    // Whatever was, the next client has what it should.
    machine.reconnect();
    resize(0);
    machine.set_up(3);
    assert_eq!(machine.register(0x1c), Some(1), "the controller is ready");
    let mut read = Sqe::new(IoOpcode::READ.0, 0, 1);
    (read.flags, read.dptr) = (0, prp_pointer([DATA, 0]));
    machine.submit(1, &read);
    let mut cqe = [0; 16];
    FILES.memory.read_exact_at(&mut cqe, queue(1) + PAGE).expect("memory");
    let cqe = Cqe::read_from_bytes(&cqe).expect("16 bytes");
    assert!(cqe.status().is_success() && cqe.status.get() & 1 == 1, "{cqe:?}");
});
