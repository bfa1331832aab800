//! A hostile NVMe/TCP target, for the initiator's connection: PDUs in any order with any values, and any
//! bytes, from a target that reads what it likes. The host does not panic, a command completes once, and
//! what waits to be sent is bounded by the commands in flight.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_blk::{Buf, Outgoing};
use zonal_nvme::NvmeStatus;
use zonal_nvme::tcp::{
    Digests, Format, HostConfig, HostConnection, HostEvent, Initialize, Pdu, encode,
};
use zonal_nvme::wire::{Cqe, Sqe};

/// Commands in flight, and the longest data of one: more than fits a capsule, and than is copied.
const CIDS: u16 = 4;
const MAX_LEN: u32 = 40 << 10;
/// Bytes of a command with its data in PDUs of the shortest length that a target may ask for.
const MAX_COMMAND: usize = 72 + (MAX_LEN as usize) + (MAX_LEN as usize / 4096 + 1) * 28;
/// ICReq or a termination request.
const MAX_OTHER: usize = 256;

/// A step of the target, or of the host's: 12 bytes of the input.
struct Step {
    kind: u8,
    cid: u16,
    flags: u8,
    offset: u32,
    length: u32,
}

impl Step {
    fn next(input: &mut &[u8]) -> Option<Self> {
        let (step, rest) = input.split_first_chunk::<12>()?;
        *input = rest;
        let number = |at| u32::from_le_bytes([step[at], step[at + 1], step[at + 2], step[at + 3]]);
        let cid = u16::from_le_bytes([step[1], step[2]]);
        Some(Step { kind: step[0], cid, flags: step[3], offset: number(4), length: number(8) })
    }
}

struct Host {
    connection: HostConnection,
    format: Format,
    in_flight: [bool; CIDS as usize],
}

impl Host {
    fn new(first: &Step) -> Self {
        let digests = Digests { header: first.flags & 1 != 0, data: first.flags & 2 != 0 };
        let config = HostConfig { digests, ..HostConfig::default() };
        let mut connection = HostConnection::new(config);
        connection.take_unsent();
        let mut host =
            Host { connection, format: Format::default(), in_flight: [false; CIDS as usize] };
        let limit = first.length.max(4096);
        host.receive(&Pdu::IcResp(Initialize { digests, limit, ..Initialize::default() }));
        host.format.digests = digests;
        host
    }

    fn receive(&mut self, pdu: &Pdu) {
        let mut bytes = Vec::new();
        encode(pdu, self.format, &mut bytes);
        self.receive_bytes(&bytes);
    }

    fn receive_bytes(&mut self, bytes: &[u8]) {
        let mut events = Vec::new();
        self.connection.receive(bytes, &mut events);
        for event in events {
            let HostEvent::Completed { cqe, data } = event else { continue };
            let place = &mut self.in_flight[usize::from(cqe.cid.get())];
            assert!(std::mem::take(place), "completed, and not in flight");
            assert!(data.received <= data.buf.as_ref().map_or(0, Buf::len));
        }
    }

    fn submit(&mut self, step: &Step) {
        let cid = step.cid % CIDS;
        let len = (step.length % (MAX_LEN + 1)) as usize;
        // A write or a read.
        let opcode = if step.flags & 1 == 0 { 1 } else { 2 };
        let buf = (len > 0).then(|| Buf::zeroed(len));
        let submitted = self.connection.submit(Sqe::new(opcode, cid, 1), buf).is_ok();
        let place = &mut self.in_flight[usize::from(cid)];
        assert!(!submitted || !*place, "two commands with one identifier");
        *place |= submitted;
    }

    fn step(&mut self, step: &Step, input: &mut &[u8]) {
        let Step { kind, cid, flags, offset, length } = *step;
        match kind % 7 {
            0 => self.submit(step),
            1 => self.receive(&Pdu::ReadyToTransfer { cid, ttag: 1, offset, length }),
            2 => self.receive(&Pdu::Response(Cqe::new(cid, NvmeStatus::SUCCESS))),
            3 => {
                let data = vec![1; (length % (MAX_LEN + 1)) as usize].into();
                let (last, success) = (flags & 1 != 0, flags & 2 != 0);
                self.receive(&Pdu::ControllerData { cid, offset, last, success, data });
            }
            4 => {
                let (bytes, rest) = input.split_at(input.len().min(length as usize % 256));
                *input = rest;
                self.receive_bytes(bytes);
            }
            5 => {
                self.connection.sent(self.connection.unsent().min(length as usize));
                self.receive_bytes(&[]);
            }
            _ => {
                self.connection.take_unsent();
                self.receive_bytes(&[]);
            }
        }
    }

    fn check(&self) {
        let in_flight = self.in_flight.iter().filter(|is| **is).count();
        assert_eq!(self.connection.outstanding(), in_flight);
        let (unsent, most) = (self.connection.unsent(), in_flight * MAX_COMMAND + MAX_OTHER);
        assert!(unsent <= most, "{unsent} bytes wait to be sent, with {in_flight} commands");
    }
}

fuzz_target!(|input: &[u8]| {
    let mut input = input;
    let Some(first) = Step::next(&mut input) else { return };
    let mut host = Host::new(&first);
    while let Some(step) = Step::next(&mut input) {
        host.step(&step, &mut input);
        host.check();
        if host.connection.close_reason().is_some() {
            break;
        }
    }
    let left = host.in_flight.iter().filter(|is| **is).count();
    assert!(host.connection.into_buffers().count() <= left);
});
