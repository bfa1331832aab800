//! Options for verification, durability and error handling.
use std::str::FromStr;

/// Verification method (`verify=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyMethod {
    /// The header alone.
    Meta,
    /// A header with a checksum of the data after it.
    Checksum(Checksum),
    /// The bytes of `verify_pattern`, without a header.
    Pattern,
    /// Blocks are read, not verified.
    Null,
}

impl VerifyMethod {
    /// Whether blocks begin with a header.
    pub const fn has_header(self) -> bool {
        matches!(self, VerifyMethod::Meta | VerifyMethod::Checksum(_))
    }

    /// fio's name.
    pub const fn name(self) -> &'static str {
        match self {
            VerifyMethod::Meta => "meta",
            VerifyMethod::Checksum(sum) => sum.name(),
            VerifyMethod::Pattern => "pattern",
            VerifyMethod::Null => "null",
        }
    }
}

/// Checksums of `verify=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// MD5 (RFC 1321).
    Md5,
    /// Jones' polynomial of 64 bits.
    Crc64,
    /// The polynomial of IEEE 802.3.
    Crc32,
    /// Castagnoli's polynomial.
    Crc32c,
    /// The polynomial of IBM, as in ARC.
    Crc16,
    /// The polynomial of 7 bits of MMC cards.
    Crc7,
    /// SHA-1 (FIPS 180-4).
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// SHA3-224 (FIPS 202).
    Sha3_224,
    /// SHA3-256 (FIPS 202).
    Sha3_256,
    /// SHA3-384 (FIPS 202).
    Sha3_384,
    /// SHA3-512 (FIPS 202).
    Sha3_512,
    /// XXH32.
    Xxhash,
}

impl Checksum {
    /// fio's name.
    pub const fn name(self) -> &'static str {
        match self {
            Checksum::Md5 => "md5",
            Checksum::Crc64 => "crc64",
            Checksum::Crc32 => "crc32",
            Checksum::Crc32c => "crc32c",
            Checksum::Crc16 => "crc16",
            Checksum::Crc7 => "crc7",
            Checksum::Sha1 => "sha1",
            Checksum::Sha256 => "sha256",
            Checksum::Sha512 => "sha512",
            Checksum::Sha3_224 => "sha3-224",
            Checksum::Sha3_256 => "sha3-256",
            Checksum::Sha3_384 => "sha3-384",
            Checksum::Sha3_512 => "sha3-512",
            Checksum::Xxhash => "xxhash",
        }
    }
}

/// Trims of blocks that are to be verified (`trim_percentage`, ...).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimOptions {
    /// `trim_percentage=`: the percentage of writes whose blocks are trimmed.
    pub percentage: u8,
    /// `trim_backlog=`: writes between batches of trims; 0 for no trims.
    pub backlog: u32,
    /// `trim_backlog_batch=`: trims in a batch; 0 for `backlog`.
    pub batch: u32,
    /// `trim_verify_zero=`: trimmed blocks are read back and have to be zero.
    pub zero: bool,
}

/// The `verify` options.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyOptions {
    /// `verify=`; `None` for no verification.
    pub method: Option<VerifyMethod>,
    /// `do_verify=`: read back what was written.
    pub do_verify: bool,
    /// `verify_interval=`: bytes per header; those of the I/O if not set.
    pub interval: Option<u32>,
    /// `verify_offset=`: offset of the header in each interval.
    pub offset: u32,
    /// `verify_pattern=`: fill pattern; random bytes if not set.
    pub pattern: Option<FillPattern>,
    /// `verify_pattern_interval=`: the pattern starts anew, with the offset there, after this many
    /// bytes; 0 for once in each I/O.
    pub pattern_interval: u32,
    /// `verify_backlog=`: writes between batches of verification; 0 for none before the end.
    pub backlog: u32,
    /// `verify_backlog_batch=`: blocks to verify in a batch; 0 for `backlog`.
    pub backlog_batch: u32,
    /// `verify_fatal=`: the first mismatch ends the job, whatever `continue_on_error` says.
    pub fatal: bool,
    /// `verify_dump=`: keep the received and the expected data.
    pub dump: bool,
    /// `verify_write_sequence=`: whether a header has to have the number of the write; it has to if
    /// not set.
    pub write_sequence: Option<bool>,
    /// `verify_header_seed=`: the same for the seed of the write.
    pub header_seed: Option<bool>,
    /// Trims of blocks that are to be verified.
    pub trim: TrimOptions,
    /// `verify_only=`: write nothing, verify what the job would have written.
    pub only: bool,
    /// `verify_state_save=`: write to a file which writes completed, and which are durable.
    pub state_save: bool,
    /// `verify_state_load=`: verify what such a file says.
    pub state_load: bool,
    /// `verify_policy=fsynced`: of that only what is durable.
    pub fsynced: bool,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            method: None,
            do_verify: true,
            interval: None,
            offset: 0,
            pattern: None,
            pattern_interval: 0,
            backlog: 0,
            backlog_batch: 0,
            fatal: false,
            dump: false,
            trim: TrimOptions { percentage: 0, backlog: 0, batch: 0, zero: true },
            write_sequence: None,
            header_seed: None,
            only: false,
            state_save: false,
            state_load: false,
            fsynced: false,
        }
    }
}

impl VerifyOptions {
    /// Whether the job needs a device that stores data.
    pub fn needs_data(&self) -> bool {
        !matches!(self.method, None | Some(VerifyMethod::Null))
    }
}

/// When writes are made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncOptions {
    /// `fsync=`: writes between flushes; 0 for none.
    pub fsync: u32,
    /// `fdatasync=`: same as `fsync`; a device has one kind of flush.
    pub fdatasync: u32,
    /// `end_fsync=`: a flush after the last write.
    pub end_fsync: bool,
    /// `fsync_on_close=`: a flush when the device is closed, which is after the last write.
    pub on_close: bool,
    /// `end_syncfs=`: the same as `end_fsync`.
    pub end_syncfs: bool,
    /// `sync=`: writes are issued with FUA.
    pub sync: bool,
    /// `writefua=`: the same, as the engines for commands have it.
    pub fua: bool,
    /// `write_barrier=`: every Nth write is issued with PREFLUSH and FUA; 0 for none.
    pub barrier: u32,
}

impl SyncOptions {
    /// Whether each write is issued with FUA.
    pub fn is_fua(&self) -> bool {
        self.sync || self.fua
    }
}

/// The kind of an error, for `continue_on_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorKind {
    /// A read failed.
    Read = 0,
    /// A write, or anything else than a read, failed.
    Write = 1,
    /// The data read is not the data written.
    Verify = 2,
}

/// Which errors do not end the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorOptions {
    /// `continue_on_error=`, by [`ErrorKind`].
    pub continue_on_error: [bool; 3],
    /// `ignore_error=`, by [`ErrorKind`]: the non-fatal error numbers, instead of fio's two.
    pub ignored: [Vec<i32>; 3],
    /// `error_dump=`: print each failed I/O.
    pub dump: bool,
}

/// The errors that are not fatal by default: EIO and EILSEQ.
const NON_FATAL_ERRNOS: [i32; 2] = [5, 84];

impl ErrorOptions {
    /// Whether the job has `continue_on_error`: reports then count its errors.
    pub fn goes_on(&self) -> bool {
        self.continue_on_error != [false; 3]
    }

    /// Whether the job continues after an error with this number.
    pub fn is_non_fatal(&self, kind: ErrorKind, errno: i32) -> bool {
        let ignored = &self.ignored[kind as usize];
        if ignored.is_empty() {
            self.continue_on_error[kind as usize] && NON_FATAL_ERRNOS.contains(&errno)
        } else {
            ignored.contains(&errno)
        }
    }
}

/// Longest pattern in bytes, as in fio.
const MAX_LEN: usize = 512;

/// A fill pattern (`verify_pattern=`): `0x` and hexadecimal digits, decimal numbers, quoted strings
/// and `%o`, one after another.
///
/// As in fio 3.33, a number stands for the bytes of a 32-bit integer, lowest first, without its
/// high-order zeros; `%o` stands for the I/O's offset in 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillPattern {
    bytes: Vec<u8>,
    /// Where the I/O's offset goes.
    offsets: Vec<usize>,
}

/// The text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsePatternError;

impl FromStr for FillPattern {
    type Err = ParsePatternError;

    fn from_str(text: &str) -> Result<Self, ParsePatternError> {
        let mut pattern = FillPattern { bytes: Vec::new(), offsets: Vec::new() };
        let mut rest = text;
        while !rest.is_empty() {
            rest = pattern.parse_next(rest).ok_or(ParsePatternError)?;
        }
        let fits = (1..=MAX_LEN).contains(&pattern.bytes.len());
        if fits { Ok(pattern) } else { Err(ParsePatternError) }
    }
}

impl FillPattern {
    /// Parses the first element of the text; returns the rest.
    fn parse_next<'a>(&mut self, text: &'a str) -> Option<&'a str> {
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
            // With an odd number of digits the first one is a byte of its own.
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

    /// Writes one repetition of the pattern, for an I/O at this offset, to `to`.
    pub(crate) fn render(&self, offset: u64, to: &mut Vec<u8>) {
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

    #[test]
    fn only_eio_and_eilseq_are_non_fatal_unless_errors_are_listed() {
        let mut errors =
            ErrorOptions { continue_on_error: [true, false, true], ..Default::default() };
        assert!(
            errors.is_non_fatal(ErrorKind::Read, 5) && !errors.is_non_fatal(ErrorKind::Read, 28)
        );
        assert!(
            !errors.is_non_fatal(ErrorKind::Write, 5) && errors.is_non_fatal(ErrorKind::Verify, 84)
        );
        errors.ignored[ErrorKind::Write as usize] = vec![28];
        errors.ignored[ErrorKind::Read as usize] = vec![28];
        assert!(
            errors.is_non_fatal(ErrorKind::Write, 28) && !errors.is_non_fatal(ErrorKind::Read, 5)
        );
    }

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        text.parse::<FillPattern>().ok()?.render(0x1000, &mut bytes);
        Some(bytes)
    }

    #[test]
    fn fill_patterns_have_the_bytes_that_fio_writes() {
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
    fn other_texts_are_not_fill_patterns() {
        for text in ["", "0x", "abc", "\"abc", "\"\"", "4294967296", "%p", "'file'", "1 2", "-"] {
            assert_eq!(bytes(text), None, "{text}");
        }
        assert_eq!(bytes(&"%o".repeat(64)).map(|bytes| bytes.len()), Some(512));
        assert_eq!(bytes(&"%o".repeat(65)), None);
    }
}
