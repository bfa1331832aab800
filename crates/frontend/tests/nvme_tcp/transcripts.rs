//! The bytes that hosts of others have sent, as they discovered and attached. `tests/guest/run
//! transcripts` captures them. Those of `hosts_of_the_field_connect` in zonal-nvme are built.
use crate::hostile::{Client, Connect, Target, connect_pdu};
use crate::support::{NQN, Served, ZONED};
use zonal_nvme::NvmeStatus;
use zonal_nvme::tcp::Pdu;
use zonal_nvme::wire::opcode::AdminOpcode;

/// The type of a PDU with a command.
const COMMAND: u8 = 4;
/// The length of ICReq, and where the name of the subsystem is after it: in the data of Connect.
const IC_REQ: usize = 128;
const SUBNQN: std::ops::Range<usize> = IC_REQ + 72 + 256..IC_REQ + 72 + 512;

/// Attaching: the commands of the admin queue, up to the shutdown.
const ATTACHED: [(&str, &str); 3] = [
    ("Linux 6.1", include_str!("transcripts/linux-6.1.txt")),
    ("Linux 6.12", include_str!("transcripts/linux-6.12.txt")),
    ("Linux 7.3", include_str!("transcripts/linux-7.3.txt")),
];
/// Discovery, with the shutdown.
const DISCOVERED: [(&str, &str); 3] = [
    ("Linux 6.1", include_str!("transcripts/linux-6.1-discovery.txt")),
    ("Linux 6.12", include_str!("transcripts/linux-6.12-discovery.txt")),
    ("Linux 7.3", include_str!("transcripts/linux-7.3-discovery.txt")),
];

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

/// Sends what a host has sent, each command when the one before is answered. Returns the opcodes and
/// statuses of commands that were refused; asynchronous events are for later, or aborted.
fn replay(host: &str, target: &Target, bytes: &[u8]) -> (Client, Vec<(u8, u16)>) {
    let mut client = target.open().unwrap();
    let mut refused = Vec::new();
    for pdu in pdus(bytes) {
        client.send_bytes(pdu).unwrap();
        if pdu[0] != COMMAND {
            assert!(matches!(client.receive().unwrap(), Pdu::IcResp(_)), "{host}");
            continue;
        }
        let (opcode, cid) = (pdu[8], u16::from_le_bytes(pdu[10..12].try_into().unwrap()));
        if opcode == AdminOpcode::ASYNC_EVENT_REQUEST.0 {
            continue;
        }
        let mut responses = std::iter::repeat_with(|| client.response().unwrap());
        let cqe = responses.find(|cqe| cqe.cid.get() == cid).expect("without end");
        if !cqe.status().is_success() {
            refused.push((opcode, cqe.status().code().0));
        }
    }
    (client, refused)
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
        assert_eq!(replay(host, &served.target(), &bytes).1, [], "{host}");
    }
}

#[test]
fn captured_hosts_discover() {
    for (host, transcript) in DISCOVERED {
        let served = Served::new(ZONED);
        let (client, refused) = replay(host, &served.target(), &bytes_of(transcript));
        // Linux asks for the log of the commands' effects, which a controller for discovery has not, and
        // does without.
        let effects = (AdminOpcode::GET_LOG_PAGE.0, NvmeStatus::INVALID_LOG.code().0);
        assert_eq!(refused, [effects], "{host}");
        // Identify, and the log with one entry.
        assert!(client.answers.data >= 4096 + 2048, "{host}: {}", client.answers.data);
    }
}
