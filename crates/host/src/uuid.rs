//! UUIDs (RFC 9562) of what has no identity of its own.
use std::io;

/// A UUID of random numbers (RFC 9562 section 5.4, version 4).
///
/// # Errors
/// The system has no random numbers.
pub fn random() -> io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    let filled = rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())?;
    if filled < uuid.len() {
        return Err(io::Error::other("too few random numbers"));
    }
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
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

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[0-9a-f\u{e9}-]{0,40}") {
            let _ = parse(&text);
        }
    }
}
