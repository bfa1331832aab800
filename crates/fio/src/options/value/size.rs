//! Sizes in bytes, percents and zones.
//!
//! fio's suffixes, as fio 3.33 reads them: with `kb_base=1024`, `k`, `kb` and `ki` are 1024 and
//! `kib` is 1000; with `kb_base=1000`, `k`, `kb` and `ki` are 1000 and `kib` is 1024. (fio's manual
//! gives `ki` the meaning of `kib`; fio itself does not.)
use super::expr::{ExprError, Units, evaluate};
use crate::job::Extent;

const PREFIXES: &str = "kmgtp";

/// Reads bytes. `kb_base` is 1024 or 1000.
pub(crate) fn read(text: &str, kb_base: u32) -> Result<u64, ExprError> {
    evaluate(text, &Units { factor: &|suffix| factor(suffix, kb_base), bare: 1 })
}

/// Reads bytes, percents (`50%`) or zones (`8z`).
pub(crate) fn read_extent(text: &str, kb_base: u32) -> Result<Extent, ExprError> {
    let plain = |number: &str| evaluate(number, &Units { factor: &|_| None, bare: 1 });
    if let Some(number) = text.strip_suffix('%') {
        let percent = plain(number)?;
        return u8::try_from(percent)
            .ok()
            .filter(|percent| *percent <= 100)
            .map(Extent::Percent)
            .ok_or(ExprError::AboveWhole);
    }
    if let Some(number) = text.strip_suffix('z') {
        return plain(number).map(Extent::Zones);
    }
    read(text, kb_base).map(Extent::Bytes)
}

/// What a suffix in lower case multiplies by.
fn factor(suffix: &str, kb_base: u32) -> Option<u64> {
    if suffix == "b" {
        return Some(1);
    }
    let mut letters = suffix.chars();
    let exponent = u32::try_from(PREFIXES.find(letters.next()?)?).ok()? + 1;
    let base = match letters.as_str() {
        "" | "b" | "i" => kb_base,
        "ib" => 2024 - kb_base,
        _ => return None,
    };
    Some(u64::from(base).pow(exponent))
}

/// Renders bytes with the greatest suffix that leaves a whole number, as `kb_base=1024` reads it.
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes;
    let mut suffix = String::new();
    for prefix in PREFIXES.chars() {
        if value == 0 || !value.is_multiple_of(1024) {
            break;
        }
        value /= 1024;
        suffix = prefix.to_string();
    }
    format!("{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `fio --debug=parse --parse-only --bs=...` (3.33) read, with each `kb_base`.
    const FIO: &[(&str, u64, u64)] = &[
        ("4096", 4096, 4096),
        ("4b", 4, 4),
        ("4B", 4, 4),
        ("010", 10, 10),
        ("0x10", 16, 16),
        ("4k", 4096, 4000),
        ("4K", 4096, 4000),
        ("4kb", 4096, 4000),
        ("4KB", 4096, 4000),
        ("4ki", 4096, 4000),
        ("4kib", 4000, 4096),
        ("4KiB", 4000, 4096),
        ("4m", 4 << 20, 4_000_000),
        ("4mi", 4 << 20, 4_000_000),
        ("4mib", 4_000_000, 4 << 20),
        ("4g", 4 << 30, 4_000_000_000),
        ("4gib", 4_000_000_000, 4 << 30),
        ("4t", 4 << 40, 4_000_000_000_000),
        ("4tib", 4_000_000_000_000, 4 << 40),
        ("4p", 4 << 50, 4_000_000_000_000_000),
        ("4pib", 4_000_000_000_000_000, 4 << 50),
    ];

    #[test]
    fn suffixes_mean_what_they_mean_to_fio() {
        for &(text, base_1024, base_1000) in FIO {
            assert_eq!(read(text, 1024), Ok(base_1024), "{text} with kb_base=1024");
            assert_eq!(read(text, 1000), Ok(base_1000), "{text} with kb_base=1000");
        }
    }

    #[test]
    fn arithmetic_needs_parentheses() {
        assert_eq!(read("(4*1024)", 1024), Ok(4096));
        assert_eq!(read("(4k*2)", 1024), Ok(8192));
        assert_eq!(read("(4+4)k", 1024), Ok(8192));
        assert_eq!(read("4k*2", 1024), Err(ExprError::Bare));
        assert_eq!(read("4*1024", 1024), Err(ExprError::Bare));
        assert_eq!(read("4k-8k", 1024), Err(ExprError::Bare));
    }

    #[test]
    fn what_follows_a_number_must_be_a_suffix() {
        for text in ["4x", "4kx", "4.5k", "4 k", "4e", "4z", "10%", "k", "", "+4", "0x10k", "-1"] {
            assert_eq!(read(text, 1024), Err(ExprError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn sizes_beyond_64_bits_are_too_great() {
        assert_eq!(read("18446744073709551615", 1024), Ok(u64::MAX));
        for text in ["18446744073709551616", "99999999999999999999999999999999999999999", "16384p"]
        {
            assert_eq!(read(text, 1024), Err(ExprError::TooGreat), "{text}");
        }
    }

    #[test]
    fn extents_may_be_percents_and_zones() {
        assert_eq!(read_extent("4k", 1024), Ok(Extent::Bytes(4096)));
        assert_eq!(read_extent("0%", 1024), Ok(Extent::Percent(0)));
        assert_eq!(read_extent("100%", 1024), Ok(Extent::Percent(100)));
        assert_eq!(read_extent("8z", 1024), Ok(Extent::Zones(8)));
        assert_eq!(read_extent("(10%3)", 1024), Ok(Extent::Bytes(1)));
        assert_eq!(read_extent("101%", 1024), Err(ExprError::AboveWhole));
        for text in ["1k%", "1kz", "z", "%", "1.5%", "10%%", "8Z"] {
            assert_eq!(read_extent(text, 1024), Err(ExprError::Malformed), "{text}");
        }
    }

    #[test]
    fn rendered_sizes_use_the_greatest_whole_suffix() {
        for (bytes, text) in [(0, "0"), (512, "512"), (4096, "4k"), (3 << 20, "3m"), (1536, "1536")]
        {
            assert_eq!(format_size(bytes), text);
        }
        assert_eq!(format_size(2048 << 50), "2048p");
    }
}
