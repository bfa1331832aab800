//! UUIDs (RFC 9562): random ones, derived ones, and their text.
use std::io;

/// A UUID of random numbers (RFC 9562 section 5.4, version 4).
///
/// # Errors
/// The system has no random numbers.
pub fn random() -> io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    getrandom::fill(&mut uuid)?;
    Ok(of_version(4, uuid))
}

/// A UUID derived from others, in their order (RFC 9562 section 5.8, version 8). Two 64-bit FNV-1a
/// hashes.
pub fn derived(from: &[[u8; 16]]) -> [u8; 16] {
    let hash = |basis: u64| {
        from.as_flattened()
            .iter()
            .fold(basis, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    };
    let first = hash(0xcbf2_9ce4_8422_2325);
    let bits = u128::from(first) << 64 | u128::from(hash(first ^ 0x9e37_79b9_7f4a_7c15));
    of_version(8, bits.to_be_bytes())
}

/// Sets the version and the variant (RFC 9562 section 4).
fn of_version(version: u8, mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[6] = uuid[6] & 0x0f | version << 4;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// A UUID as text (RFC 9562 section 4).
pub fn format(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The UUID of a text of hexadecimal digits in groups of 8, 4, 4, 4 and 12 (RFC 9562 section 4);
/// `None` if it is no such text.
pub fn parse(text: &str) -> Option<[u8; 16]> {
    let lengths = text.split('-').map(str::len);
    if !lengths.eq([8, 4, 4, 4, 12]) {
        return None;
    }
    let digits = text.bytes().filter(|&byte| byte != b'-');
    let mut uuid = [0; 16];
    for (at, digit) in digits.enumerate() {
        let digit = char::from(digit).to_digit(16)?;
        uuid[at / 2] = uuid[at / 2] << 4 | u8::try_from(digit).ok()?;
    }
    Some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn random_uuids_are_of_version_4_and_differ() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_ne!(one, other);
        assert_eq!((one[6] >> 4, one[8] >> 6), (4, 0b10));
    }

    #[test]
    fn uuids_are_digits_in_groups() {
        let text = "01234567-89ab-CDEF-0123-456789abcdef";
        assert_eq!(
            parse(text).map(u128::from_be_bytes),
            Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
        );
        for wrong in [
            "",
            "0123456789abcdef0123456789abcdef",
            "01234567-89ab-cdef-0123-456789abcdeg",
            "01234567-89ab-cdef-0123-456789abcde",
            "0123456-789ab-cdef-0123-456789abcdef",
            "01234567-89ab-cdef-0123-456789abcdef-",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn derived_uuids_depend_on_the_others_and_their_order() {
        let shown = |uuids: &[[u8; 16]]| format(&derived(uuids));
        assert_eq!(shown(&[[1; 16], [2; 16]]), shown(&[[1; 16], [2; 16]]));
        assert_ne!(shown(&[[1; 16], [2; 16]]), shown(&[[2; 16], [1; 16]]));
        let text = shown(&[[1; 16], [2; 16]]);
        assert_eq!((text.len(), &text[14..15]), (36, "8"), "version 8: {text}");
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "the variant: {text}");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[0-9a-f\u{e9}-]{0,40}") {
            let _ = parse(&text);
        }
    }
}
