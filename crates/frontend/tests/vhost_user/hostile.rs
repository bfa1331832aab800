//! Clients and guests that break rules: they get errors, and the server goes on.
use crate::client::{
    ADD_MEM_REG, Client, GET_CONFIG, GET_FEATURES, GET_INFLIGHT_FD, GET_PROTOCOL_FEATURES,
    GET_VRING_BASE, INDIRECT, REM_MEM_REG, SET_FEATURES, SET_INFLIGHT_FD, SET_MEM_TABLE,
    SET_PROTOCOL_FEATURES, SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_CALL, SET_VRING_ENABLE,
    SET_VRING_KICK, SET_VRING_NUM, USER, mem_table, state, vring_addr,
};
use crate::guest::{Guest, MEMORY, NEXT, Request, Ring, SIZE, TABLE, WRITE};
use crate::guest_memory::{Memory, wait, wait_signal};
use crate::held_reads::HeldReads;
use crate::{IO_ERROR, OK, Served, zoned};
use rustix::fs::ftruncate;
use std::os::fd::AsFd;
use std::sync::Arc;
use zonal_blk::{Bytes, Nanos};
use zonal_device::{NullConfig, NullDevice};

/// The server serves an honest client.
#[track_caller]
fn check(served: &Served) {
    let mut guest = Guest::start(served.path(), 0);
    let mut ring = guest.ring(0, 0);
    assert_eq!(ring.io(0, &Request::read(0, 4096)).status, OK);
}

#[test]
fn messages_that_are_wrong_are_refused() {
    let served = Served::new(&zoned(Nanos(0)));
    let (mut client, features) = Client::negotiated(served.path(), 0);
    let u64s = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let memory = Memory::new(MEMORY);
    for (request, body) in [
        (0, vec![]),
        (6, u64s(&[0])),
        (99, vec![]),
        (u32::MAX, vec![]),
        (SET_FEATURES, u64s(&[u64::MAX])),
        (SET_FEATURES, u64s(&[features | 1 << 34])),
        (SET_FEATURES, vec![]),
        (SET_FEATURES, vec![0; 9]),
        (SET_VRING_NUM, state(3, 64)),
        (SET_VRING_NUM, state(u32::MAX, 64)),
        (SET_VRING_NUM, state(0, 0)),
        (SET_VRING_NUM, state(0, 63)),
        (SET_VRING_NUM, state(0, 2048)),
        (SET_VRING_NUM, state(0, 65536)),
        (SET_VRING_NUM, vec![0; 7]),
        (SET_VRING_BASE, state(0, 65536)),
        (SET_VRING_ENABLE, state(7, 1)),
        (SET_VRING_ADDR, vring_addr(9, [USER; 3])),
        (SET_VRING_ADDR, vec![0; 39]),
        (SET_VRING_KICK, u64s(&[0])),
        (SET_VRING_KICK, u64s(&[0x100])),
        (SET_VRING_KICK, u64s(&[0xff])),
        (SET_VRING_CALL, vec![0; 4]),
        (SET_MEM_TABLE, vec![]),
        (SET_MEM_TABLE, mem_table(&[(0, 4096, USER, 0)])),
        (SET_MEM_TABLE, [u32::MAX, 0].map(u32::to_le_bytes).concat()),
        (SET_MEM_TABLE, [9_u32, 0].map(u32::to_le_bytes).concat()),
        (ADD_MEM_REG, vec![0; 40]),
        (REM_MEM_REG, vec![0; 40]),
        (SET_INFLIGHT_FD, vec![0; 24]),
    ] {
        assert_eq!(client.set(request, &body, &[]), Err(1), "{request} {body:?}");
    }
    // Descriptors that are not what they should be, or should not be there.
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    let pipe = pipe.as_fd();
    let file = memory.file.as_fd();
    for (request, body, fds) in [
        (SET_VRING_KICK, u64s(&[0]), vec![pipe]),
        (SET_VRING_CALL, u64s(&[0]), vec![file]),
        (SET_VRING_CALL, u64s(&[0x100]), vec![file]),
        (SET_FEATURES, u64s(&[0]), vec![pipe]),
        (SET_MEM_TABLE, mem_table(&[(0, 4096, USER, 0)]), vec![pipe]),
        (SET_MEM_TABLE, mem_table(&[(0, 4096, USER, 0)]), vec![file, file]),
        (SET_MEM_TABLE, mem_table(&[(0, 4097, USER, 0)]), vec![file]),
        (SET_MEM_TABLE, mem_table(&[(0, 1 << 40, USER, 0)]), vec![file]),
        (SET_MEM_TABLE, mem_table(&[(u64::MAX - 4095, 8192, USER, 0)]), vec![file]),
        (SET_MEM_TABLE, mem_table(&[(0, 8192, USER, 0), (4096, 4096, 0, 0)]), vec![file, file]),
        (SET_INFLIGHT_FD, u64s(&[4096, 0, 0]), vec![file]),
        (SET_INFLIGHT_FD, u64s(&[u64::MAX, 0, 3 | 64 << 16]), vec![file]),
    ] {
        assert_eq!(client.set(request, &body, &fds), Err(1), "{request} {body:?}");
    }
    drop(client);
    check(&served);
}

#[test]
fn rings_at_addresses_where_none_can_be_are_refused() {
    let served = Served::new(&zoned(Nanos(0)));
    let (mut client, _) = Client::negotiated(served.path(), 0);
    client.share(&Memory::new(MEMORY));
    client.state(SET_VRING_NUM, 0, SIZE.into()).expect("a size");
    let end = USER + MEMORY as u64;
    for parts in [
        [0; 3],
        [USER + 1, USER, USER],
        [USER, USER + 2, USER],
        [USER, USER, USER + 1],
        [end; 3],
        [USER, end, USER],
        [u64::MAX - 15; 3],
    ] {
        client.set(SET_VRING_ADDR, &vring_addr(0, parts), &[]).expect("not looked at");
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
        let event = event.expect("an eventfd");
        assert_eq!(client.set(SET_VRING_KICK, &[0; 8], &[event.as_fd()]), Err(1), "{parts:x?}");
    }
    assert_eq!(client.call(GET_VRING_BASE, &state(0, 0))[4..], [0; 4]);
    drop(client);
    check(&served);
}

#[test]
fn clients_without_manners_are_disconnected() {
    let served = Served::new(&zoned(Nanos(0)));
    let header =
        |request: u32, flags: u32, size: u32| [request, flags, size].map(u32::to_le_bytes).concat();
    for wrong in [
        header(GET_FEATURES, 0, 0),
        header(GET_FEATURES, 2, 0),
        header(GET_FEATURES, 5, 0),
        [header(GET_FEATURES, 1, 4097), vec![0; 4097]].concat(),
        header(GET_FEATURES, 1, u32::MAX),
        // Nobody would hear that it was refused.
        header(99, 1, 0),
        [header(SET_PROTOCOL_FEATURES, 1, 8), vec![0xff; 8]].concat(),
        [header(SET_VRING_NUM, 1, 8), state(3, 64)].concat(),
        // These have replies of their own.
        [header(GET_CONFIG, 1, 12), [0_u32, 257, 0].map(u32::to_le_bytes).concat()].concat(),
        [header(GET_CONFIG, 9, 12), [u32::MAX, 8, 0].map(u32::to_le_bytes).concat()].concat(),
        [header(GET_VRING_BASE, 1, 8), state(3, 0)].concat(),
        [header(GET_INFLIGHT_FD, 1, 20), vec![0; 20]].concat(),
        header(GET_INFLIGHT_FD, 1, 0),
    ] {
        let mut client = Client::connect(served.path());
        client.send_raw(&wrong, &[]);
        assert!(client.is_closed(), "{wrong:?}");
    }
    let (mut client, _) = Client::negotiated(served.path(), 0);
    assert_eq!(client.set(99, &[0; 4096], &[]), Err(1), "the longest message is answered");
    drop(client);
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    let mut client = Client::connect(served.path());
    client.send(GET_PROTOCOL_FEATURES, &[], &[pipe.as_fd(); 9]);
    assert!(client.is_closed(), "too many descriptors");
    // One that stops within a message, and goes.
    let client = Client::connect(served.path());
    client.send_raw(&[1, 0, 0], &[pipe.as_fd()]);
    drop(client);
    check(&served);
}

/// A guest's attack: its name, and how it uses its ring.
type Attack = (&'static str, fn(&mut Ring));

#[test]
fn rings_that_are_broken_are_stopped_and_the_others_go_on() {
    let attacks: [Attack; 13] = [
        ("the index jumps", |ring| ring.jump(SIZE + 1)),
        ("the index goes back", |ring| ring.jump(u16::MAX)),
        ("no such descriptor", |ring| ring.offer(SIZE)),
        ("a loop", |ring| {
            ring.describe(0, ring.place(0), 16, NEXT, 1);
            ring.describe(1, ring.place(0), 16, NEXT, 0);
            ring.offer(0);
        }),
        ("a next that is not there", |ring| {
            ring.describe(0, ring.place(0), 16, NEXT, 9999);
            ring.offer(0);
        }),
        ("no header", |ring| {
            ring.describe(0, ring.place(0), 15, NEXT, 1);
            ring.describe(1, ring.place(0), 512, WRITE, 0);
            ring.offer(0);
        }),
        ("a header outside memory", |ring| {
            ring.describe(0, u64::MAX - 7, 16, NEXT, 1);
            ring.describe(1, ring.place(0), 512, WRITE, 0);
            ring.offer(0);
        }),
        ("no status", |ring| {
            ring.describe(0, ring.place(0), 528, 0, 0);
            ring.offer(0);
        }),
        ("a status outside memory", |ring| {
            ring.describe(0, ring.place(0), 16, NEXT, 1);
            ring.describe(1, MEMORY as u64, 513, WRITE, 0);
            ring.offer(0);
        }),
        ("a table of the wrong length", |ring| {
            ring.describe(0, ring.place(0), 17, TABLE, 0);
            ring.offer(0);
        }),
        ("an endless table", |ring| {
            ring.describe(0, 0, u32::MAX - 15, TABLE, 0);
            ring.offer(0);
        }),
        ("a table outside memory", |ring| {
            ring.describe(0, u64::MAX - 15, 64, TABLE, 0);
            ring.offer(0);
        }),
        ("a table in a table", |ring| {
            ring.describe(0, ring.place(0), 32, TABLE, 0);
            ring.describe_at(ring.place(0), 0, ring.place(0), 32, TABLE, 0);
            ring.offer(0);
        }),
    ];
    let served = Served::new(&zoned(Nanos(0)));
    for (what, attack) in attacks {
        let mut guest = Guest::start(served.path(), 0);
        let (mut ring, mut other) = (guest.ring(0, 0), guest.ring(1, 0));
        attack(&mut ring);
        wait_signal(&ring.error);
        assert_eq!(ring.take(), None, "{what}");
        assert_eq!(other.io(0, &Request::read(0, 4096)).status, OK, "{what}");
        // The ring can be set up anew.
        guest.client.call(GET_VRING_BASE, &state(0, 0));
        guest.memory.put(0, &[0; 0x2_0000]);
        let mut ring = guest.ring(0, 0);
        assert_eq!(ring.io(1, &Request::read(0, 4096)).status, OK, "{what}");
    }
    check(&served);
}

#[test]
fn tables_that_were_not_negotiated_break_the_ring() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), INDIRECT);
    let mut ring = guest.ring(0, 0);
    ring.describe(0, ring.place(0), 32, TABLE, 0);
    ring.offer(0);
    wait_signal(&ring.error);
}

#[test]
fn data_outside_memory_and_data_without_end_are_io_errors() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    let mut ring = guest.ring(0, 0);
    let place = ring.place(0);
    for (kind, address, len) in [
        (0_u32, u64::MAX - 4095, 4096),
        (0, MEMORY as u64, 4096),
        (0, MEMORY as u64 - 512, 4096),
        (0, 0x40_0000, u32::MAX),
        (0, 0x40_0000, 1 << 30),
        (1, u64::MAX - 4095, 4096),
        (1, MEMORY as u64 - 512, 4096),
        (1, 0x40_0000, 1 << 30),
        (16, MEMORY as u64 - 64, 4096),
        (8, u64::MAX - 8, 20),
        (13, u64::MAX - 8, 16),
    ] {
        guest.memory.put(place, &[kind.to_le_bytes().to_vec(), vec![0; 12]].concat());
        guest.memory.put(place + 32, &[0xff]);
        let flags = if matches!(kind, 1 | 13) { 0 } else { WRITE };
        ring.describe(0, place, 16, NEXT, 1);
        ring.describe(1, address, len, flags | NEXT, 2);
        ring.describe(2, place + 32, 1, WRITE, 0);
        ring.offer(0);
        let answer = wait(|| ring.take());
        // Of what the device may write, only the status was, which is all of it for some.
        let len = u32::from(flags == 0);
        assert_eq!((answer, guest.memory.get(place + 32, 1)[0]), ((0, len), IO_ERROR), "{kind}");
    }
    drop(guest);
    check(&served);
}

#[test]
fn data_in_flight_of_a_ring_are_64_mib_and_a_request() {
    const LEN: u64 = 126 << 16;
    const DATA: u64 = 16 << 20;
    let plain = NullConfig { zoned: false, size: Bytes(16 << 20), ..NullConfig::default() };
    let reads = HeldReads::new(Arc::new(NullDevice::new(&plain).expect("a device")));
    let served = Served::over(reads.clone());
    let mut guest = Guest::with_memory(served.path(), 0, Arc::new(Memory::new(32 << 20)));
    let mut ring = guest.ring(0, 0);
    let place = ring.place(0);
    ring.describe(0, place, 16, NEXT, 1);
    ring.describe(1, DATA, LEN as u32 + 1, WRITE, 0);
    // The same chain, which the ring of zeroes has everywhere.
    ring.jump(16);
    wait(|| (reads.most_held() >= 64 << 20).then_some(()));
    reads.release();
    for _ in 0..16 {
        assert_eq!(wait(|| ring.take()), (0, LEN as u32 + 1));
    }
    assert!(reads.most_held() < (64 << 20) + LEN, "{}", reads.most_held());
}

#[test]
fn client_that_takes_its_memory_away_is_disconnected() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    let mut ring = guest.ring(0, 0);
    assert_eq!(ring.io(0, &Request::read(0, 4096)).status, OK);
    ftruncate(&guest.memory.file, 0).expect("it is the client's");
    rustix::io::write(&ring.kick, &1_u64.to_ne_bytes()).expect("an eventfd");
    assert!(guest.client.is_closed());
    drop(guest);
    check(&served);
}
