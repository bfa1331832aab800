//! A driver of virtio-blk in a guest, over vhost-user.
#[path = "../../crates/frontend/tests/vhost_user/client.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod client;
#[path = "../../crates/frontend/tests/vhost_user/guest.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod guest;

use crate::host::{DEPTH, Fua, Host, ShutDown, number, reported};
use crate::model::{Command, SECTOR, Work};
use guest::{Guest, Request, Ring};
use std::path::Path;
use zonal_blk::Zone;

/// A driver of virtio-blk.
pub struct Virtio {
    guest: Guest,
    ring: Ring,
    requests: Vec<Request>,
    zones: usize,
    places: u64,
}

/// The driver flushes: otherwise each write is durable when it is answered.
const FLUSH: u64 = 1 << 9;
const OK: u8 = 0;

impl Virtio {
    pub fn start(path: &Path, flushes: bool, zones: usize, places: u64) -> Self {
        let without = if flushes { 0 } else { FLUSH };
        let mut guest = Guest::start(path, without);
        let ring = guest.ring(0, 0);
        let requests = vec![Request::new(0, 0); DEPTH];
        Virtio { guest, ring, requests, zones, places }
    }
}

impl Host for Virtio {
    fn fua(&self) -> Fua {
        if self.guest.features & FLUSH == 0 { Fua::Always } else { Fua::Never }
    }

    fn submit(&mut self, slot: usize, command: &Command, data: &[u8]) {
        self.requests[slot] = match command.work {
            Work::Write { sector, .. } => Request::write(sector, data),
            Work::Flush => Request::new(4, 0),
            Work::Finish { sector } => Request::new(22, sector),
            Work::Reset { sector } => Request::new(24, sector),
        };
        self.ring.submit(u16::try_from(slot).expect("a slot"), &self.requests[slot]);
    }

    fn poll(&mut self, ended: &mut Vec<(usize, bool)>) {
        while let Some((head, len)) = self.ring.take() {
            // A slot has four descriptors.
            let slot = u16::try_from(head / 4).expect("a slot");
            let answer = self.ring.answer(slot, &self.requests[usize::from(slot)], len);
            ended.push((slot.into(), answer.status == OK));
        }
    }

    fn read(&mut self, _: usize, sector: u64, len: u64) -> Result<Vec<u8>, String> {
        let answer = self.ring.io(0, &Request::read(sector, len as usize * SECTOR));
        if answer.status == OK { Ok(answer.data) } else { Err(format!("status {}", answer.status)) }
    }

    fn zones(&mut self, _: usize) -> Vec<Zone> {
        if self.zones == 0 {
            return Vec::new();
        }
        let room = 64 * (1 + self.zones);
        let answer = self.ring.io(0, &Request { room, ..Request::new(16, self.places) });
        assert_eq!(answer.status, OK, "a report");
        let of = |at: &[u8]| {
            let numbers = [number(at, 0), number(at, 8), number(at, 16)];
            reported(1, numbers, at[24], at[25])
        };
        answer.data[64..].chunks(64).map(of).collect()
    }

    /// The ring is stopped, as by a monitor whose guest goes down.
    fn shut_down(&mut self) -> Option<ShutDown> {
        let ring = client::state(0, 0);
        self.guest.client.call(client::GET_VRING_BASE, &ring);
        Some(ShutDown::Answered)
    }
}
