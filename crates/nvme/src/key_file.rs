//! The common parts of files of secrets and of pre-shared keys: the text form of a key, and lines that
//! begin with the NVMe Qualified Name of a host.
use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

const CHECKSUM: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

/// Why a text is not a key in the form `PREFIX:hh:base64:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFormError {
    /// Not of this form.
    Form,
    /// Not base64.
    Base64,
    /// Not a length of keys, in bytes.
    Length(usize),
    /// The CRC-32 after the key does not match.
    Checksum,
}

/// Decodes `PREFIX:hh:base64:`, where `hashes` knows each hh, and the base64 is of a key of one of these
/// lengths in bytes and of its CRC-32. Returns the hash and the key.
pub(crate) fn decode_key<H>(
    text: &str,
    prefix: &str,
    hashes: impl Fn(&str) -> Option<H>,
    lengths: &[usize],
) -> Result<(H, Zeroizing<Vec<u8>>), KeyFormError> {
    let rest = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':'));
    let (hash, rest) = rest.and_then(|rest| rest.split_once(':')).ok_or(KeyFormError::Form)?;
    let hash = hashes(hash).ok_or(KeyFormError::Form)?;
    let encoded = rest.strip_suffix(':').ok_or(KeyFormError::Form)?;
    let bytes = Base64::decode_vec(encoded).map_err(|_| KeyFormError::Base64)?;
    let bytes = Zeroizing::new(bytes);
    let (key, checksum) = bytes.split_last_chunk::<4>().ok_or(KeyFormError::Length(0))?;
    if !lengths.contains(&key.len()) {
        return Err(KeyFormError::Length(key.len()));
    }
    if CHECKSUM.checksum(key) != u32::from_le_bytes(*checksum) {
        return Err(KeyFormError::Checksum);
    }
    Ok((hash, Zeroizing::new(key.to_vec())))
}

/// The lines of a file, with their numbers and their words, without comments (`#`) and empty lines.
pub(crate) fn lines_of_words(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| (number, line.split_whitespace().collect()))
}

/// Checks the name of a host at the beginning of a line.
///
/// # Errors
/// The text to show for the name. A secret, which begins with one of `secrets`, must not be shown.
pub(crate) fn check_host<'a>(name: &'a str, secrets: &[&str]) -> Result<(), &'a str> {
    if name.starts_with("nqn.") && name.len() <= 223 {
        return Ok(());
    }
    let is_secret = secrets.iter().any(|prefix| name.starts_with(prefix));
    Err(if is_secret { "a secret" } else { name })
}
