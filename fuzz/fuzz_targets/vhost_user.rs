//! A hostile virtual machine, monitor and guest: messages, memory tables, rings, chains of descriptors and
//! records of requests in flight as the input has them. The server neither panics nor loops, its replies
//! are whole, and the next client finds a device that works.
#![no_main]
mod guest;

use guest::{FILES, Input, PAGE, PAGES, connection, next_client, receive, resize, send, write};
use libfuzzer_sys::fuzz_target;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use zerocopy::IntoBytes;
use zonal_blk::{Nanos, Queue, QueueOptions};
use zonal_device::device_spec;
use zonal_frontend::vhost_user::Stepped;

/// Guest memory has a page for each ring of 64 entries: descriptors, available and used ring; then headers
/// of requests, their status, requests in flight, indirect tables; the rest is data.
const RINGS: u16 = 2;
const ENTRIES: u16 = 64;
const AVAIL: u64 = 0x400;
const USED: u64 = 0x600;
const HEADERS: u64 = 4 * PAGE;
const STATUS: u64 = 5 * PAGE;
const INFLIGHT: u64 = 6 * PAGE;
const DATA: u64 = 16 * PAGE;
/// The client's address of the guest's first byte.
const USER: u64 = 0x7000_0000;
const DEVICES: [&str; 2] = [
    "null:zones=8,conventional=2,zone_size=64K,lba=4K,max_open=2,max_active=3,memory=true",
    "null:zoned=false,size=1M,lba=512,memory=true,latency=3us",
];

const NEXT: u16 = 1;
const WRITE: u16 = 2;

/// A descriptor: address, length, flags. The descriptors of a request follow one another.
type Link = (u64, u32, u16);

/// A machine: the server, and the monitor's end of the socket.
struct Machine {
    server: Stepped,
    socket: UnixStream,
    received: Vec<u8>,
    now: Nanos,
    tails: [u16; RINGS as usize],
}

impl Machine {
    fn new(device: u8) -> Self {
        let device = device_spec::parse(DEVICES[usize::from(device) % 2]).expect("a spec");
        let device = device_spec::build(&device).expect("a device");
        let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
        let queue = Arc::new(Queue::attach(device, options).expect("a queue"));
        let mut server = Stepped::new(&queue, RINGS).expect("a device of virtio");
        let socket = connect(&mut server).expect("the first client");
        Machine { server, socket, received: Vec::new(), now: Nanos(0), tails: Default::default() }
    }

    /// Polls until there is nothing to do, for some time, and checks the replies.
    fn step(&mut self) {
        for _ in 0..16 {
            self.now += Nanos(100);
            if !self.server.poll(self.now) {
                break;
            }
        }
        receive(&self.socket, &mut self.received);
        while let Some(header) = self.received.first_chunk::<12>() {
            let number = |at| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
            let (flags, len) = (number(4), 12 + number(8) as usize);
            assert!(flags == 0b101 && len < 1 << 12, "{header:?}");
            if self.received.len() < len {
                break;
            }
            self.received.drain(..len);
        }
    }

    fn send_raw(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        send(&self.socket, bytes, fds);
        self.step();
    }

    fn send(&mut self, request: u32, body: &[u8], fds: &[BorrowedFd<'_>]) {
        let size = u32::try_from(body.len()).expect("short");
        self.send_raw(&[[request, 1, size].as_bytes(), body].concat(), fds);
    }

    /// SET_MEM_TABLE, with regions of this many pages from this one on, in the guest and in the file.
    fn share(&mut self, regions: &[[u8; 3]], fds: &[BorrowedFd<'_>]) {
        let mut body = [u32::try_from(regions.len()).expect("few"), 0].as_bytes().to_vec();
        body.extend(regions.iter().flat_map(|&region| self.region(region)));
        self.send(5, &body, fds);
    }

    fn region(&self, region: [u8; 3]) -> Vec<u8> {
        let [guest, count, from] = region.map(|number| u64::from(number) * PAGE);
        [guest, count, guest + USER, from].as_bytes().to_vec()
    }

    fn start(&mut self, ring: u16) {
        let index = u32::from(ring);
        let number = |number: u16| [index, number.into()].as_bytes().to_vec();
        let at = USER + u64::from(ring) * PAGE;
        self.tails[usize::from(ring)] = 0;
        self.send(8, &number(ENTRIES), &[]);
        self.send(10, &number(0), &[]);
        let addresses = [at, at + USED, at + AVAIL, 0];
        self.send(9, &[number(0), addresses.as_bytes().to_vec()].concat(), &[]);
        let event = FILES.fds[1].as_fd();
        self.send(13, &u64::from(ring).to_le_bytes(), &[event]);
        self.send(12, &u64::from(ring).to_le_bytes(), &[event]);
        self.send(18, &number(1), &[]);
    }

    /// A guest that knows how: up to the level, features are negotiated, memory is shared, rings started,
    /// with a record of requests in flight.
    fn set_up(&mut self, level: u8, features: u64) {
        resize(PAGES);
        // All of the protocol that there are, less or more.
        self.send(16, &0xb209_u64.to_le_bytes(), &[]);
        self.send(3, &[], &[]);
        // VERSION_1, PROTOCOL_FEATURES, SEG_MAX, BLK_SIZE, FLUSH, WRITE_ZEROES.
        self.send(2, &(1 << 32 | 1 << 30 | 0x4244 | features).to_le_bytes(), &[]);
        if level > 0 {
            self.share(&[[0, 32, 0]], &[FILES.fds[0].as_fd()]);
        }
        if level > 2 {
            self.set_inflight(ENTRIES);
        }
        if level > 1 {
            (0..RINGS).for_each(|ring| self.start(ring));
        }
    }

    /// SET_INFLIGHT_FD, of memory that the guest can write.
    fn set_inflight(&mut self, entries: u16) {
        let area = [[2 * PAGE, INFLIGHT].as_bytes(), [RINGS, entries].as_bytes()].concat();
        self.send(32, &area, &[FILES.fds[0].as_fd()]);
    }

    /// Makes a chain available, in a ring as [`Machine::start`] has it.
    fn offer(&mut self, ring: u16, links: &[Link]) {
        let at = u64::from(ring) * PAGE;
        let tail = &mut self.tails[usize::from(ring)];
        let slot = *tail % ENTRIES;
        let head = slot * 4 % ENTRIES;
        for ((address, len, flags), index) in links.iter().zip(head..) {
            let index = index % ENTRIES;
            let last = u16::try_from(links.len()).expect("few") + head == index + 1;
            let flags = if last { *flags } else { *flags | NEXT };
            let tail = [flags, (index + 1) % ENTRIES];
            let bytes = [&address.to_le_bytes(), &len.to_le_bytes()[..], tail.as_bytes()].concat();
            write(at + u64::from(index) * 16, &bytes);
        }
        write(at + AVAIL + 4 + u64::from(slot) * 2, &head.to_le_bytes());
        *tail = tail.wrapping_add(1);
        write(at + AVAIL + 2, &tail.to_le_bytes());
        self.step();
    }

    /// Offers a request, whose data are read or written by the device.
    fn request(&mut self, ring: u16, kind: u32, sector: u64, data: &[Link]) {
        let slot = u64::from(self.tails[usize::from(ring)] % ENTRIES + ring * ENTRIES);
        write(HEADERS + slot * 16, &[[kind, 0].as_bytes(), &sector.to_le_bytes()].concat());
        let mut links = vec![(HEADERS + slot * 16, 16, 0)];
        links.extend_from_slice(data);
        links.push((STATUS + slot, 1, WRITE));
        self.offer(ring, &links);
    }

    /// The next client.
    fn reconnect(&mut self) {
        self.server.disconnect();
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
                let [request, flags] = input.take();
                let (fds, body) = (input.fds(), input.bytes());
                let size = u32::try_from(body.len()).expect("short");
                let header = [u32::from(request % 48), u32::from(flags & 15 | 1), size];
                self.send_raw(&[header.as_bytes(), &body].concat(), &fds);
            }
            1 => self.send_raw(&input.bytes(), &[]),
            2 => {
                let at = u64::from(input.short()) * 2 % (PAGES * PAGE);
                write(at, &input.bytes());
                self.step();
            }
            3..8 => self.act_request(input),
            8 => self.act_chain(input),
            9 => {
                self.now += Nanos(u64::from(input.byte()) * 1000);
                self.step();
                self.server.sleep();
            }
            10 => {
                let (count, fds) = (usize::from(input.byte() % 9), input.fds());
                let regions: Vec<_> = (0..count).map(|_| input.take()).collect();
                self.share(&regions, &fds);
            }
            11 => {
                let (remove, region) = (input.byte() & 1, self.region(input.take()));
                let fds = input.fds();
                self.send(37 + u32::from(remove), &[&[0; 8][..], &region].concat(), &fds);
            }
            12 => self.act_ring(input),
            13 => {
                resize(u64::from(input.byte()).min(2 * PAGES));
                self.step();
            }
            14 => {
                if input.byte() & 1 == 0 {
                    self.reconnect();
                }
                self.set_up(input.byte() % 4, u64::from(input.short()) << 16);
            }
            _ => {
                let entries = u16::from(input.byte());
                write(INFLIGHT, &input.bytes());
                self.set_inflight(entries);
            }
        }
    }

    /// A request that is often sound.
    fn act_request(&mut self, input: &mut Input<'_>) {
        let [kind, ring, sector, shape] = input.take();
        let data: Vec<Link> = (0..shape % 4)
            .map(|_| {
                let [page, len, flags] = input.take();
                let wild = if flags & 4 == 0 { 0 } else { u64::from(len) << 20 };
                let address = DATA + u64::from(page % 20) * PAGE + wild;
                let len = if flags & 8 == 0 { u32::from(len % 17) * 512 } else { u32::from(len) };
                (address, len, u16::from(flags) & WRITE)
            })
            .collect();
        if shape & 4 != 0 {
            write(DATA, &input.bytes());
        }
        let sector =
            if shape & 8 == 0 { u64::from(sector) * 8 } else { u64::MAX - u64::from(sector) };
        self.request(u16::from(ring) % RINGS, u32::from(kind % 32), sector, &data);
    }

    /// Any descriptors, which may be indirect.
    fn act_chain(&mut self, input: &mut Input<'_>) {
        let [ring, count] = input.take();
        let links: Vec<Link> = (0..count % 8)
            .map(|_| {
                (
                    u64::from(input.short()) * 4,
                    u32::from(input.short()),
                    u16::from(input.byte() % 8),
                )
            })
            .collect();
        self.offer(u16::from(ring) % RINGS, &links);
    }

    /// A ring is moved, stopped, enabled and so on.
    fn act_ring(&mut self, input: &mut Input<'_>) {
        let [what, ring] = input.take();
        let (index, number) = (u32::from(ring % 3), u32::from(input.short()));
        let fds = input.fds();
        match what % 8 {
            0 => self.start(u16::from(ring) % RINGS),
            1 => {
                let addresses = [(); 3].map(|()| USER + u64::from(input.short()) * 2);
                let body = [[index, 0].as_bytes(), addresses.as_bytes(), &[0; 8]].concat();
                self.send(9, &body, &[]);
            }
            2 => self.send(8, [index, number].as_bytes(), &[]),
            3 => self.send(10, [index, number].as_bytes(), &[]),
            4 => self.send(11, [index, 0].as_bytes(), &[]),
            5 => self.send(18, [index, number % 2].as_bytes(), &[]),
            kind => {
                let kick_or_call = 6 + u32::from(kind);
                let word = u64::from(index) | u64::from(number & 1) << 8;
                self.send(kick_or_call, &word.to_le_bytes(), &fds);
            }
        }
    }
}

fn connect(server: &mut Stepped) -> Option<UnixStream> {
    let (ours, theirs) = connection();
    server.connect(theirs).then_some(ours)
}

fn status() -> u8 {
    let mut status = [0xff];
    FILES.memory.read_exact_at(&mut status, STATUS).expect("memory");
    status[0]
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    resize(0);
    let mut machine = Machine::new(input.byte());
    machine.set_up(input.byte() % 4, u64::from(input.short()) << 16);
    while !input.0.is_empty() {
        machine.act(&mut input);
    }
    // Whatever was, the next client has what it should.
    machine.reconnect();
    resize(0);
    machine.set_up(2, 0);
    write(STATUS, &[0xff]);
    machine.request(0, 0, 0, &[(DATA, 4096, WRITE)]);
    machine.now += Nanos(1_000_000);
    machine.step();
    assert_eq!(status(), 0, "the device reads");
});
