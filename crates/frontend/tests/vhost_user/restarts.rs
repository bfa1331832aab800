//! Clients that go and come, and servers that do.
use crate::client::{Client, GET_INFLIGHT_FD, RESET_DEVICE, SET_FEATURES, SET_INFLIGHT_FD};
use crate::guest::{Guest, Request, SIZE};
use crate::guest_memory::wait;
use crate::{OK, Served, UNALIGNED_WP, ZONE, pattern, verify, zoned};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use zonal_blk::{Nanos, Queue};

#[test]
fn next_client_finds_the_device_as_it_was_left() {
    let served = Served::new(&zoned(Nanos(5_000_000)));
    for round in 0..3 {
        let mut guest = Guest::start(served.path(), 0);
        let mut ring = guest.ring(round, 0);
        for slot in 0..8 {
            ring.submit(slot, &Request::read(u64::from(slot) * 8, 4096));
        }
        if round == 1 {
            // One at a time.
            assert!(Client::connect(served.path()).is_closed());
        }
    }
    let mut guest = Guest::start(served.path(), 0);
    verify(&mut guest.ring(0, 0), 5);
}

/// Has a queue hold its bios back for a moment, while `act` happens.
fn while_held<T>(queue: &Queue, act: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(30));
            queue.unfreeze();
        });
        act()
    })
}

#[test]
fn reset_device_forgets_requests_and_begins_anew() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    for round in 0..3 {
        let mut ring = guest.ring(0, 0);
        served.queue.freeze();
        for slot in 0..4 {
            ring.submit(slot, &Request::read(u64::from(slot) * 8, 4096));
        }
        ring.wait_taken();
        while_held(&served.queue, || guest.client.set(RESET_DEVICE, &[], &[]).expect("a reset"));
        let before = guest.memory.get(0, 0x8000);
        thread::sleep(Duration::from_millis(10));
        assert!(guest.memory.get(0, 0x8000) == before, "round {round}: nothing is answered");
        guest.memory.put(0, &[0; 0x8000]);
        let features = guest.features.to_le_bytes();
        guest.client.set(SET_FEATURES, &features, &[]).expect("features");
    }
    verify(&mut guest.ring(0, 0), 5);
}

#[test]
fn server_that_ends_answers_what_is_in_flight() {
    let served = Served::new(&zoned(Nanos(0)));
    let (path, queue) = (served.path().to_owned(), Arc::clone(&served.queue));
    let mut guest = Guest::start(&path, 0);
    let mut ring = guest.ring(0, 0);
    queue.freeze();
    for slot in 0..4 {
        ring.submit(slot, &Request::read(u64::from(slot) * 8, 4096));
    }
    ring.wait_taken();
    while_held(&queue, || drop(served));
    assert!(guest.client.is_closed());
    assert!(!path.exists());
    for _ in 0..4 {
        let (head, len) = ring.take().expect("an answer");
        let answer = ring.answer(head as u16 / 4, &Request::read(0, 4096), len);
        assert_eq!((answer.status, len), (OK, 4097));
    }
}

/// Memory for requests in flight, of a client that keeps it.
fn inflight(client: &mut Client) -> (Vec<u8>, OwnedFd) {
    let asked = [[0; 16].to_vec(), [3, SIZE, 0, 0].map(u16::to_le_bytes).concat()].concat();
    client.send(GET_INFLIGHT_FD, &asked, &[]);
    let (area, fd) = client.receive(GET_INFLIGHT_FD);
    assert_eq!(area.len(), asked.len(), "padding as it was sent");
    (area, fd.expect("a descriptor"))
}

#[test]
fn requests_that_a_killed_server_did_not_answer_are_repeated() {
    let served = Served::new(&zoned(Nanos(0)));
    let mut guest = Guest::start(served.path(), 0);
    let (area, fd) = inflight(&mut guest.client);
    guest.client.set(SET_INFLIGHT_FD, &area, &[fd.as_fd()]).expect("memory");
    let mut ring = guest.ring(0, 0);
    let write = |slot: u16| {
        let sector = if slot == 5 { 4 * ZONE } else { u64::from(slot) * 8 };
        Request::write(sector, &pattern(slot.into(), 4096))
    };
    // One is answered, and the others are in flight when the connection breaks.
    assert_eq!(ring.io(9, &write(9)).status, OK);
    served.queue.freeze();
    for slot in 1..8 {
        ring.submit(slot, &write(slot));
    }
    ring.wait_taken();
    let (memory, avail, used) = (Arc::clone(&guest.memory), ring.avail, ring.used);
    drop(guest);
    let mut guest = while_held(&served.queue, || Guest::with_memory(served.path(), 0, memory));
    guest.client.set(SET_INFLIGHT_FD, &area, &[fd.as_fd()]).expect("memory");
    // What was answered before the server saw that the client was gone is not repeated.
    let mut ring = guest.ring(0, ring.used_index());
    (ring.avail, ring.used) = (avail, used);
    let mut statuses = [None; 8];
    for _ in 1..8 {
        let (head, len) = wait(|| ring.take());
        let slot = head as u16 / 4;
        let status = ring.answer(slot, &write(slot), len).status;
        assert_eq!(statuses[usize::from(slot)].replace(status), None, "once");
    }
    // A write of a sequential zone that was executed cannot be executed again.
    assert!(matches!(statuses[5].take(), Some(OK | UNALIGNED_WP)));
    assert_eq!(statuses.into_iter().flatten().collect::<Vec<_>>(), [OK; 6]);
    assert_eq!(ring.take(), None);
    for slot in 1..8 {
        let Request { sector, out, .. } = write(slot);
        assert!(ring.io(0, &Request::read(sector, 4096)).data == out, "{slot}");
    }
}
