//! What hosts of others have sent, to the byte, as they discovered and attached. `tests/guest/run
//! transcripts` captures it. Those of `hosts_of_the_field_connect` in zonal-nvme are built.
use crate::hostile::{Client, Connect, Target, connect_pdu};
use crate::support::{NQN, Served, ZONED};
use std::collections::BTreeMap;
use zonal_nvme::tcp::Pdu;
use zonal_nvme::wire::opcode::AdminOpcode;

/// The length of ICReq, and where the name of the subsystem is after it: in the data of Connect.
const IC_REQ: usize = 128;
const SUBNQN: std::ops::Range<usize> = IC_REQ + 72 + 256..IC_REQ + 72 + 512;

/// Attaching: the commands of the admin queue. The first was captured up to a Set Features, the others
/// until the host had its disk.
const ATTACHED: [(&str, &str); 1] = [("Linux 6.12", include_str!("transcripts/linux-6.12.txt"))];

/// The bytes of lines of hexadecimal digits; those that begin with # say where they are from.
fn bytes_of(transcript: &str) -> Vec<u8> {
    let lines = transcript.lines().filter(|line| !line.starts_with('#'));
    let digits: Vec<u8> = lines.flat_map(str::bytes).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The PDUs of a host.
fn pdus(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut pdus = Vec::new();
    while !bytes.is_empty() {
        let len = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let (pdu, rest) = bytes.split_at(len);
        pdus.push(pdu);
        bytes = rest;
    }
    pdus
}

/// Sends what a host has sent, each command when the one before is answered. Returns the number of
/// responses of each status.
fn replay(target: &Target, bytes: &[u8]) -> BTreeMap<u16, u64> {
    let mut client = target.open().unwrap();
    for pdu in pdus(bytes) {
        client.send_bytes(pdu).unwrap();
        let opcode = pdu[8];
        let is_command = pdu[0] == 4;
        // Asynchronous events are for later.
        if is_command && opcode != AdminOpcode::ASYNC_EVENT_REQUEST.0 {
            client.response().unwrap();
        } else if !is_command {
            assert!(matches!(client.receive().unwrap(), Pdu::IcResp(_)));
        }
    }
    client.answers.responses
}

#[test]
fn captured_hosts_attach() {
    for (host, transcript) in ATTACHED {
        let served = Served::new(ZONED);
        let mut bytes = bytes_of(transcript);
        let ours = {
            let client: Client = served.target().open().unwrap();
            client.bytes(&connect_pdu(NQN, &Connect::default()))
        };
        bytes[SUBNQN].copy_from_slice(&ours[72 + 256..72 + 512]);
        let responses = replay(&served.target(), &bytes);
        assert_eq!(responses.keys().collect::<Vec<_>>(), [&0], "{host}: {responses:x?}");
    }
}
