//! Bytes that are written over and over (`verify_pattern=`).
//!
//! Takes text as fio's: `0x` and hexadecimal digits, decimal numbers, strings in quotes and `%o`,
//! one after another; gives bytes. Keeps true: as fio 3.33, a number has the bytes of a 32-bit
//! integer, lowest first, without the zeros at its end; `%o` is the I/O's offset in 8 bytes.
use std::str::FromStr;

/// Longest pattern, fio's own limit.
const MAX_LEN: usize = 512;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillPattern {
    bytes: Vec<u8>,
    /// Where the I/O's offset stands.
    offsets: Vec<usize>,
}

/// The text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsePatternError;

impl FromStr for FillPattern {
    type Err = ParsePatternError;

    fn from_str(text: &str) -> Result<Self, ParsePatternError> {
        let mut pattern = FillPattern { bytes: Vec::new(), offsets: Vec::new() };
        let mut rest = text;
        while !rest.is_empty() {
            rest = pattern.take(rest).ok_or(ParsePatternError)?;
        }
        let fits = (1..=MAX_LEN).contains(&pattern.bytes.len());
        if fits { Ok(pattern) } else { Err(ParsePatternError) }
    }
}

impl FillPattern {
    /// Takes the first part of a text; gives the rest.
    fn take<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        if let Some(rest) = text.strip_prefix("%o") {
            self.offsets.push(self.bytes.len());
            self.bytes.extend([0; 8]);
            return Some(rest);
        }
        if let Some(quoted) = text.strip_prefix('"') {
            let (string, rest) = quoted.split_once('"')?;
            self.bytes.extend(string.bytes());
            return (!string.is_empty()).then_some(rest);
        }
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        if let Some(digits) = hex {
            let len = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
            let (digits, rest) = digits.split_at(len);
            // Of an odd number the first stands alone.
            let (first, pairs) = digits.split_at(len % 2);
            let pairs = pairs.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap_or(""));
            for byte in Some(first).filter(|first| !first.is_empty()).into_iter().chain(pairs) {
                self.bytes.push(u8::from_str_radix(byte, 16).ok()?);
            }
            return (len > 0).then_some(rest);
        }
        let is_part = |(at, c): &(usize, char)| c.is_ascii_digit() || *at == 0 && *c == '-';
        let len = text.char_indices().take_while(is_part).count();
        let (number, rest) = text.split_at(len);
        let bytes = number.parse::<i32>().ok()?.to_le_bytes();
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(1, |last| last + 1);
        self.bytes.extend(&bytes[..used]);
        Some(rest)
    }

    /// The pattern once, for an I/O at this offset, into `to`.
    pub(super) fn render(&self, offset: u64, to: &mut Vec<u8>) {
        to.clear();
        to.extend_from_slice(&self.bytes);
        for &at in &self.offsets {
            to[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        text.parse::<FillPattern>().ok()?.render(0x1000, &mut bytes);
        Some(bytes)
    }

    #[test]
    fn patterns_have_the_bytes_that_fio_writes() {
        let cases: [(&str, &[u8]); 11] = [
            ("12", &[12]),
            ("0", &[0]),
            ("256", &[0, 1]),
            ("65535", &[255, 255]),
            ("70000", &[0x70, 0x11, 1]),
            ("-12", &[0xf4, 0xff, 0xff, 0xff]),
            ("0x1", &[1]),
            ("0x123", &[1, 0x23]),
            ("0xdeadbeef", &[0xde, 0xad, 0xbe, 0xef]),
            ("\"abc\"-12", b"abc\xf4\xff\xff\xff"),
            ("0xff%o\"abcd\"-12", b"\xff\0\x10\0\0\0\0\0\0abcd\xf4\xff\xff\xff"),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_patterns() {
        for text in ["", "0x", "abc", "\"abc", "\"\"", "4294967296", "%p", "'file'", "1 2", "-"] {
            assert_eq!(bytes(text), None, "{text}");
        }
        assert_eq!(bytes(&"%o".repeat(64)).map(|bytes| bytes.len()), Some(512));
        assert_eq!(bytes(&"%o".repeat(65)), None);
    }
}
