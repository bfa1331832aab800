//! What hosts of others have sent, to the byte, as they attached: captured on the wire, the first
//! commands of the admin queue. Those of `hosts_of_the_field_connect` in zonal-nvme are built.
use crate::hostile::{Client, Connect, connect_pdu};
use crate::support::{NQN, Served, ZONED};
use std::collections::BTreeMap;
use zonal_nvme::tcp::Pdu;
use zonal_nvme::wire::opcode::AdminOpcode;

/// The length of ICReq, and where the name of the subsystem is after it: in the data of Connect.
const IC_REQ: usize = 128;
const SUBNQN: std::ops::Range<usize> = IC_REQ + 72 + 256..IC_REQ + 72 + 512;

/// The bytes of lines of hexadecimal digits; those that begin with # say where they are from.
fn bytes_of(transcript: &str) -> Vec<u8> {
    let lines = transcript.lines().filter(|line| !line.starts_with('#'));
    let digits: Vec<u8> = lines.flat_map(str::bytes).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The opcodes of the commands after ICReq.
fn opcodes(bytes: &[u8]) -> Vec<u8> {
    let (mut at, mut opcodes) = (IC_REQ, Vec::new());
    while at < bytes.len() {
        opcodes.push(bytes[at + 8]);
        at += u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
    }
    opcodes
}

#[test]
fn captured_hosts_attach() {
    for (host, transcript) in [("Linux 6.12", include_str!("transcripts/linux-6.12.txt"))] {
        let served = Served::new(ZONED);
        let mut bytes = bytes_of(transcript);
        let ours = {
            let client: Client = served.target().open().unwrap();
            client.bytes(&connect_pdu(NQN, &Connect::default()))
        };
        bytes[SUBNQN].copy_from_slice(&ours[72 + 256..72 + 512]);
        let commands = opcodes(&bytes);
        // Asynchronous events are for later.
        let answered =
            commands.iter().filter(|opcode| **opcode != AdminOpcode::ASYNC_EVENT_REQUEST.0).count();
        let mut client = served.target().open().unwrap();
        client.send_bytes(&bytes).unwrap();
        let mut left = answered;
        while left > 0 {
            left -= usize::from(matches!(client.receive().unwrap(), Pdu::Response(_)));
        }
        let expected = BTreeMap::from([(0, answered as u64)]);
        assert_eq!(client.answers.responses, expected, "{host}: {commands:x?}");
    }
}
