//! An NVMe driver of a guest, over vfio-user.
#[path = "../../crates/frontend/tests/vfio_user/client.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod client;
#[path = "../../crates/frontend/tests/vfio_user/guest.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod guest;

use crate::host::{Fua, Host, ShutDown, number, reported};
use crate::model::{Command, SECTOR, Work};
use client::wait;
use guest::{DATA, ENTRIES, Guest, LIST, QueuePair, command};
use std::path::Path;
use zonal_blk::Zone;
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::pcie::prp_pointer;
use zonal_nvme::wire::{Cqe, Sqe};

const PAGE: u64 = 4096;
/// Room for the data of a slot.
const ROOM: u64 = 0x1_0000;
/// Zone Management Send: what to do.
const FINISH: u32 = 2;
const RESET: u32 = 4;
/// An NVMe driver.
pub struct Nvme {
    guest: Guest,
    queue: QueuePair,
    /// Sectors of a logical block.
    unit: u64,
    zones: usize,
    /// The slots of commands, by identifier.
    slots: Vec<usize>,
    next: usize,
    /// How CC.SHN asks for a shutdown: normal or abrupt.
    abrupt: bool,
}

impl Nvme {
    pub fn start(path: &Path, unit: u64, zones: usize, abrupt: bool) -> Self {
        let mut guest = Guest::start(path);
        let queue = guest.create(1);
        let slots = vec![0; usize::from(ENTRIES)];
        Nvme { guest, queue, unit, zones, slots, next: 0, abrupt }
    }

    /// A command on blocks, with data in the place of a slot.
    fn transfer(&self, opcode: IoOpcode, slot: u64, sector: u64, len: u64) -> Sqe {
        let (list, data) = (LIST + slot * PAGE, DATA + slot * ROOM);
        let pages = (len * SECTOR as u64).div_ceil(PAGE);
        let behind: Vec<u8> = (1..pages).flat_map(|at| (data + at * PAGE).to_le_bytes()).collect();
        self.guest.memory.put(list, &behind);
        let second = match pages {
            1 => 0,
            2 => data + PAGE,
            _ => list,
        };
        let blocks = u32::try_from(len / self.unit).expect("a short transfer");
        guest::transfer(opcode, sector / self.unit, blocks, [data, second])
    }

    fn put(&mut self, slot: usize, sqe: &Sqe) {
        self.slots[self.next] = slot;
        self.next = (self.next + 1) % self.slots.len();
        self.queue.put(&self.guest.memory, sqe);
        self.guest.ring_tail(&self.queue);
    }

    fn take(&mut self) -> Option<(usize, Cqe)> {
        let cqe = self.queue.take(&self.guest.memory)?;
        Some((self.slots[usize::from(cqe.cid.get())], cqe))
    }

    fn execute(&mut self, sqe: &Sqe) -> Result<(), String> {
        self.put(0, sqe);
        let (_, cqe) = wait(|| self.take());
        self.guest.ring_head(&self.queue);
        if cqe.status().is_success() { Ok(()) } else { Err(format!("{:?}", cqe.status())) }
    }
}

fn nsid(namespace: usize) -> u32 {
    u32::try_from(namespace + 1).expect("few namespaces")
}

impl Host for Nvme {
    fn fua(&self) -> Fua {
        Fua::OnRequest
    }

    fn submit(&mut self, slot: usize, of: &Command, data: &[u8]) {
        let manage = |sector: u64, action: u32| {
            let slba = u32::try_from(sector / self.unit).expect("a small drive");
            let send = command(IoOpcode::ZONE_MANAGEMENT_SEND.0, 1);
            Sqe { cdw10: slba.into(), cdw13: action.into(), ..send }
        };
        let sqe = match of.work {
            Work::Write { sector, len, fua, .. } => {
                self.guest.memory.put(DATA + slot as u64 * ROOM, data);
                let mut write = self.transfer(IoOpcode::WRITE, slot as u64, sector, len);
                write.cdw12 = (write.cdw12.get() | u32::from(fua) << 30).into();
                write
            }
            Work::Flush => command(IoOpcode::FLUSH.0, 1),
            Work::Reset { sector } => manage(sector, RESET),
            Work::Finish { sector } => manage(sector, FINISH),
        };
        self.put(slot, &Sqe { nsid: nsid(of.namespace).into(), ..sqe });
    }

    fn poll(&mut self, ended: &mut Vec<(usize, bool)>) {
        let before = ended.len();
        self.poll_after_kill(ended);
        if ended.len() > before {
            self.guest.ring_head(&self.queue);
        }
    }

    /// What is in the guest's memory: there is nobody to ring for.
    fn poll_after_kill(&mut self, ended: &mut Vec<(usize, bool)>) {
        while let Some((slot, cqe)) = self.take() {
            ended.push((slot, cqe.status().is_success()));
        }
    }

    fn read(&mut self, namespace: usize, sector: u64, len: u64) -> Result<Vec<u8>, String> {
        let read = self.transfer(IoOpcode::READ, 0, sector, len);
        self.execute(&Sqe { nsid: nsid(namespace).into(), ..read })?;
        Ok(self.guest.memory.get(DATA, len as usize * SECTOR))
    }

    fn zones(&mut self, namespace: usize) -> Vec<Zone> {
        if self.zones == 0 {
            return Vec::new();
        }
        let mut report = command(IoOpcode::ZONE_MANAGEMENT_RECEIVE.0, nsid(namespace));
        (report.cdw12, report.dptr) = ((1024_u32 - 1).into(), prp_pointer([DATA, 0]));
        self.execute(&report).expect("a report");
        let report = self.guest.memory.get(DATA, 64 * (1 + self.zones));
        let descriptors = report[64..].chunks(64);
        let of = |at: &[u8]| {
            let numbers = [number(at, 8), number(at, 16), number(at, 24)];
            reported(self.unit, numbers, at[0], at[1] >> 4)
        };
        descriptors.map(of).collect()
    }

    fn shut_down(&mut self) -> Option<ShutDown> {
        // CC with SHN; then CSTS.SHST says that it is complete.
        let shn = if self.abrupt { 2 } else { 1 };
        self.guest.client.set_register(0x14, 0x46_0061 | shn << 14);
        wait(|| (self.guest.client.register(0x1c) >> 2 & 0b11 == 2).then_some(()));
        Some(ShutDown::Answered)
    }
}
