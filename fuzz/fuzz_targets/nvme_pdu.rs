//! Any bytes as NVMe/TCP PDUs: decoded or refused, never a panic, and the same in one piece as in
//! many. A decoded PDU, encoded again, decodes to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zonal_nvme::tcp::{DataLimits, Decoder, Digests, Format, Pdu, PduError, Role, encode};

const LIMITS: DataLimits = DataLimits { in_capsule: 4096, data: 4096 };

fn decode(
    sender: Role,
    format: Format,
    bytes: &[u8],
    piece: usize,
) -> (Vec<Pdu>, Option<PduError>) {
    let mut decoder = Decoder::new(sender, LIMITS);
    decoder.set_format(format);
    let mut pdus = Vec::new();
    for mut piece in bytes.chunks(piece) {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(pdu)) => pdus.push(pdu),
                Ok(None) => break,
                Err(error) => return (pdus, Some(error)),
            }
        }
    }
    (pdus, None)
}

fuzz_target!(|input: (bool, bool, bool, u8, &[u8])| {
    let (host, header, data, alignment, bytes) = input;
    let sender = if host { Role::Host } else { Role::Controller };
    let format = Format { digests: Digests { header, data }, alignment: alignment % 32 };
    let whole = decode(sender, format, bytes, usize::MAX);
    assert_eq!(whole, decode(sender, format, bytes, 1));
    if let Some(error) = &whole.1 {
        assert!(matches!(error.terminate(sender), Pdu::Terminate { .. }));
    }
    for pdu in whole.0 {
        let mut bytes = Vec::new();
        encode(&pdu, format, &mut bytes);
        let (again, error) = decode(sender, format, &bytes, 7);
        assert!(error.is_none(), "{error:?}");
        let undamaged = |mut pdu: Pdu| {
            if let Pdu::Command { data, .. }
            | Pdu::HostData { data, .. }
            | Pdu::ControllerData { data, .. } = &mut pdu
            {
                data.damaged = false;
            }
            pdu
        };
        assert_eq!(again, [undamaged(pdu)]);
    }
});
