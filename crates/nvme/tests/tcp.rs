//! NVMe/TCP PDUs: to bytes and back in any pieces, and errors.
use proptest::prelude::*;
use zerocopy::FromBytes;
use zonal_nvme::tcp::pdu::PduType;
use zonal_nvme::tcp::{
    DataLimits, Decoder, Digests, FatalError, Format, Initialize, Payload, Pdu, PduError, Role,
    encode,
};
use zonal_nvme::wire::{Cqe, Sqe};

const LIMITS: DataLimits = DataLimits { in_capsule: 16384, data: 65536 };
const BOTH: Digests = Digests { header: true, data: true };

fn bytes_of(pdu: &Pdu, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(pdu, format, &mut bytes);
    bytes
}

fn decoder(sender: Role, format: Format) -> Decoder {
    let mut decoder = Decoder::new(sender, LIMITS);
    decoder.set_format(format);
    decoder
}

fn decode(sender: Role, format: Format, mut bytes: &[u8]) -> Result<Option<Pdu>, PduError> {
    decoder(sender, format).decode(&mut bytes)
}

fn command(data: Vec<u8>) -> Pdu {
    Pdu::Command { sqe: Sqe::new(1, 7, 1), data: data.into() }
}

#[test]
fn bytes_are_those_of_the_specification() {
    let hdgst = Format { digests: Digests { header: true, data: false }, alignment: 0 };
    let initialize =
        Initialize { alignment: 0, digests: BOTH, limit: 4 << 20, ..Initialize::default() };
    let bytes = bytes_of(&Pdu::IcResp(initialize), hdgst);
    assert_eq!(bytes.len(), 128);
    assert_eq!(bytes[..16], [1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 64, 0]);

    let r2t = Pdu::ReadyToTransfer { cid: 0x102, ttag: 3, offset: 4, length: 5 };
    let bytes = bytes_of(&r2t, Format::default());
    assert_eq!(bytes, [9, 0, 24, 0, 24, 0, 0, 0, 2, 1, 3, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    // With a header digest: FLAGS bit 0, four bytes more.
    let bytes = bytes_of(&r2t, hdgst);
    assert_eq!((bytes[1], bytes[4], bytes.len()), (1, 28, 28));
    assert_eq!(bytes[24..], crc_fast::crc32_iscsi(&bytes[..24]).to_le_bytes());

    // Data at a multiple of 128 bytes, with a digest after them.
    let format = Format { digests: BOTH, alignment: 31 };
    let data = Pdu::ControllerData {
        cid: 1,
        offset: 0,
        last: true,
        success: false,
        data: vec![0xab; 10].into(),
    };
    let bytes = bytes_of(&data, format);
    assert_eq!(bytes[..8], [7, 0b111, 24, 128, 142, 0, 0, 0]);
    assert_eq!((bytes[16], bytes[127], bytes[128], bytes[137]), (10, 0, 0xab, 0xab));
    assert_eq!(bytes[138..], crc_fast::crc32_iscsi(&[0xab; 10]).to_le_bytes());

    let in_capsule = bytes_of(&command(vec![1; 512]), Format::default());
    assert_eq!(in_capsule[..8], [4, 0, 72, 72, 0x48, 2, 0, 0]);
}

#[test]
fn invalid_headers_name_field_and_error() {
    let both = Format { digests: BOTH, alignment: 0 };
    let none = Format::default();
    let data = || Pdu::HostData { cid: 1, ttag: 2, offset: 0, last: true, data: vec![1; 8].into() };
    let response = || Pdu::Response(Cqe::zeroed());
    let field = FatalError::HeaderField;
    // PDU, byte to change, its value, format: fatal error, FEI, what.
    let table = [
        (data(), 0, 0x0a, none, field, 0, "PDU type"),
        (data(), 0, 0x07, none, field, 0, "PDU type"),
        (data(), 2, 25, none, field, 2, "HLEN"),
        (data(), 1, 1, none, field, 1, "FLAGS, header digest"),
        (data(), 1, 2, none, field, 1, "FLAGS, data digest"),
        (data(), 3, 20, none, field, 3, "PDO"),
        (data(), 3, 25, none, field, 3, "PDO"),
        (data(), 3, 32, none, field, 4, "PLEN"),
        (data(), 4, 23, none, field, 4, "PLEN"),
        (data(), 4, 24, none, field, 16, "DATAL"),
        (data(), 16, 9, none, field, 16, "DATAL"),
        (data(), 6, 2, none, FatalError::LimitExceeded, 0, "length of the data"),
        (command(vec![1; 8]), 5, 0x41, none, FatalError::LimitExceeded, 0, "length of the data"),
    ];
    for (pdu, at, value, format, fatal, information, what) in table {
        let mut bytes = bytes_of(&pdu, format);
        bytes[at] = value;
        bytes.resize(1 << 18, 0);
        let error = decode(Role::Host, format, &bytes).expect_err(what);
        assert_eq!((error.fatal, error.information, error.what), (fatal, information, what));
        let terminate = error.terminate(Role::Controller);
        let Pdu::Terminate { status, header, .. } = &terminate else { panic!("{terminate:?}") };
        assert_eq!((*status, header[at]), (fatal as u16, value));
    }
    let mut bytes = bytes_of(&response(), both);
    bytes[12] ^= 1;
    let error = decode(Role::Controller, both, &bytes).unwrap_err();
    assert_eq!((error.fatal, error.what), (FatalError::HeaderDigest, "digest"));
    assert_eq!(error.information.to_le_bytes(), bytes[24..28], "FEI is the digest that came");
    let mut bytes = bytes_of(&response(), none);
    bytes[4] = 25;
    bytes.push(0);
    let error = decode(Role::Controller, none, &bytes).unwrap_err();
    assert_eq!((error.what, error.found, error.expected), ("PLEN", 25, 24));
    assert_eq!(error.to_string(), "RESPONSE: PLEN, found 0x19, expected 0x18");
}

#[test]
fn damaged_data_are_flagged_and_the_connection_goes_on() {
    let format = Format { digests: BOTH, alignment: 0 };
    let mut bytes = bytes_of(&command(vec![1; 512]), format);
    let second = bytes_of(&command(vec![2; 512]), format);
    bytes[200] ^= 1;
    bytes.extend_from_slice(&second);
    let (mut decoder, mut input) = (decoder(Role::Host, format), bytes.as_slice());
    let Pdu::Command { data, .. } = decoder.decode(&mut input).unwrap().unwrap() else { panic!() };
    assert!(data.damaged && data.bytes.len() == 512);
    assert_eq!(decoder.decode(&mut input).unwrap(), Some(command(vec![2; 512])));
}

#[test]
fn announced_length_costs_no_memory() {
    // 64 KiB are announced, within the limit; none of them comes.
    let pdu = Pdu::HostData { cid: 1, ttag: 0, offset: 0, last: true, data: vec![0; 65536].into() };
    let bytes = bytes_of(&pdu, Format::default());
    let mut decoder = decoder(Role::Host, Format::default());
    assert_eq!(decoder.decode(&mut &bytes[..24]), Ok(None));
    assert!(format!("{decoder:?}").len() < 1000);
}

fn payload() -> impl Strategy<Value = Payload> {
    prop::collection::vec(any::<u8>(), 1..600).prop_map(Payload::from)
}

fn initialize() -> impl Strategy<Value = Initialize> {
    (any::<u16>(), any::<u8>(), any::<bool>(), any::<bool>(), any::<u32>()).prop_map(
        |(version, alignment, header, data, limit)| Initialize {
            version,
            alignment,
            digests: Digests { header, data },
            limit,
        },
    )
}

fn pdu() -> impl Strategy<Value = Pdu> {
    let sqe = prop::collection::vec(any::<u8>(), 64..=64)
        .prop_map(|bytes| Sqe::read_from_bytes(&bytes).expect("64 bytes"));
    let cqe = prop::collection::vec(any::<u8>(), 16..=16)
        .prop_map(|bytes| Cqe::read_from_bytes(&bytes).expect("16 bytes"));
    let data = prop_oneof![payload(), Just(Payload::default())];
    let header = prop::collection::vec(any::<u8>(), 0..=128);
    let sender = prop::sample::select(vec![Role::Host, Role::Controller]);
    prop_oneof![
        initialize().prop_map(Pdu::IcReq),
        initialize().prop_map(Pdu::IcResp),
        (sender, any::<u16>(), any::<u32>(), header).prop_map(
            |(sender, status, information, header)| Pdu::Terminate {
                sender,
                status,
                information,
                header
            }
        ),
        (sqe, data).prop_map(|(sqe, data)| Pdu::Command { sqe, data }),
        cqe.prop_map(Pdu::Response),
        (any::<u16>(), any::<u16>(), any::<u32>(), any::<bool>(), payload()).prop_map(
            |(cid, ttag, offset, last, data)| Pdu::HostData { cid, ttag, offset, last, data }
        ),
        (any::<u16>(), any::<u32>(), any::<bool>(), any::<bool>(), payload()).prop_map(
            |(cid, offset, last, success, data)| Pdu::ControllerData {
                cid,
                offset,
                last,
                success,
                data
            }
        ),
        (any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>()).prop_map(
            |(cid, ttag, offset, length)| Pdu::ReadyToTransfer { cid, ttag, offset, length }
        ),
    ]
}

fn format() -> impl Strategy<Value = Format> {
    (any::<bool>(), any::<bool>(), 0u8..32).prop_map(|(header, data, alignment)| Format {
        digests: Digests { header, data },
        alignment,
    })
}

proptest! {
    #[test]
    fn pdus_survive_any_cut_of_the_bytes(
        pdus in prop::collection::vec(pdu(), 1..6),
        format in format(),
        pieces in prop::collection::vec(1usize..200, 1..20),
    ) {
        for sender in [Role::Host, Role::Controller] {
            let mut bytes = Vec::new();
            pdus.iter().for_each(|pdu| encode(pdu, format, &mut bytes));
            // Only what this side sends.
            let sent: Vec<Pdu> = pdus
                .iter()
                .filter(|pdu| PduType(bytes_of(pdu, format)[0]).sender() == Some(sender))
                .cloned()
                .collect();
            let mut bytes = Vec::new();
            sent.iter().for_each(|pdu| encode(pdu, format, &mut bytes));

            let mut decoder = decoder(sender, format);
            let (mut came, mut rest) = (Vec::new(), bytes.as_slice());
            for len in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (mut piece, behind) = rest.split_at(rest.len().min(*len));
                rest = behind;
                while let Some(pdu) = decoder.decode(&mut piece)? {
                    came.push(pdu);
                }
                prop_assert!(piece.is_empty());
            }
            prop_assert_eq!(&came, &sent);
            let mut again = Vec::new();
            came.iter().for_each(|pdu| encode(pdu, format, &mut again));
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn decoding_does_not_depend_on_the_pieces(
        start in prop::sample::select(vec![0u8, 1, 2, 3, 4, 5, 6, 7, 9]),
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        format in format(),
        tame: bool,
    ) {
        if tame && bytes.len() > 8 {
            let kind = PduType(start);
            bytes[..5].copy_from_slice(&[start, 0, kind.hlen(), kind.hlen(), kind.hlen() + 4]);
            bytes[5..8].fill(0);
        }
        for sender in [Role::Host, Role::Controller] {
            let run = |piece: usize| {
                let mut decoder = decoder(sender, format);
                let mut came = Vec::new();
                for mut piece in bytes.chunks(piece) {
                    loop {
                        match decoder.decode(&mut piece) {
                            Ok(Some(pdu)) => came.push(pdu),
                            Ok(None) => break,
                            Err(error) => return (came, Some(error)),
                        }
                    }
                }
                (came, None)
            };
            prop_assert_eq!(run(1), run(1000));
        }
    }
}
