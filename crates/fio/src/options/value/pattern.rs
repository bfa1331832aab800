//! I/O patterns, as `randread:8`.
use super::super::kind::ValueError;
use super::{number, size};
use crate::job::Rw;

/// What `rw=` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwPattern {
    /// Kind of I/O.
    pub rw: Rw,
    /// Whether offsets are random.
    pub random: bool,
    /// As [`Job::rw_modifier`](crate::job::Job::rw_modifier).
    pub modifier: i64,
}

const WORDS: &[(&str, Option<(Rw, bool)>)] = &[
    ("read", Some((Rw::Read, false))),
    ("write", Some((Rw::Write, false))),
    ("trim", Some((Rw::Trim, false))),
    ("rw", Some((Rw::Mixed, false))),
    ("readwrite", Some((Rw::Mixed, false))),
    ("randread", Some((Rw::Read, true))),
    ("randwrite", Some((Rw::Write, true))),
    ("randtrim", Some((Rw::Trim, true))),
    ("randrw", Some((Rw::Mixed, true))),
    ("trimwrite", None),
    ("randtrimwrite", None),
];

/// Reads a pattern. The modifier counts I/Os if the pattern is random, else it is a size, which may
/// be negative.
pub(crate) fn read_pattern(text: &str, kb_base: u32) -> Result<RwPattern, ValueError> {
    let (word, modifier) = match text.split_once(':') {
        Some((word, modifier)) => (word, Some(modifier)),
        None => (text, None),
    };
    let found = text.to_owned();
    let (rw, random) = match WORDS.iter().find(|(known, _)| *known == word) {
        Some((_, Some(pattern))) => *pattern,
        Some((_, None)) => {
            let why = "trims cannot be paired with writes; use separate jobs";
            return Err(ValueError::Unsupported { found, why });
        }
        None => {
            let expected =
                WORDS.iter().filter(|(_, p)| p.is_some()).map(|(word, _)| *word).collect();
            return Err(ValueError::NotOneOf { expected, found });
        }
    };
    let modifier = match modifier {
        None => 0,
        Some(text) if random => {
            let expected = "a count of I/Os after the colon";
            count(text).ok_or(ValueError::Malformed { expected, found })?
        }
        Some(text) => {
            let expected = "a size such as 4k after the colon";
            step(text, kb_base).ok_or(ValueError::Malformed { expected, found })?
        }
    };
    Ok(RwPattern { rw, random, modifier })
}

fn count(text: &str) -> Option<i64> {
    i64::try_from(number::read(text).ok()?).ok()
}

fn step(text: &str, kb_base: u32) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text),
    };
    i64::try_from(size::read(text, kb_base).ok()?).ok().map(|size| sign * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RwPattern {
        read_pattern(text, 1024).expect(text)
    }

    #[test]
    fn words_say_direction_and_order() {
        assert_eq!(read("read"), RwPattern { rw: Rw::Read, random: false, modifier: 0 });
        assert_eq!(read("randrw"), RwPattern { rw: Rw::Mixed, random: true, modifier: 0 });
        assert_eq!(read("readwrite"), read("rw"));
    }

    #[test]
    fn modifiers_count_random_ios_and_measure_sequential_steps() {
        assert_eq!(read("randread:8").modifier, 8);
        assert_eq!(read("randread:0").modifier, 0);
        assert_eq!(read("write:4k").modifier, 4096);
        assert_eq!(read("write:-4k").modifier, -4096);
    }

    #[test]
    fn modifiers_of_the_wrong_kind_are_errors() {
        for text in
            ["randread:x", "randread:4k", "randread:-3", "randread:", "write:x", "write:--4"]
        {
            let error = read_pattern(text, 1024).expect_err(text);
            assert!(matches!(error, ValueError::Malformed { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn trimwrite_is_known_but_not_supported() {
        let error = read_pattern("randtrimwrite", 1024).expect_err("not supported");
        assert!(matches!(error, ValueError::Unsupported { .. }), "{error}");
    }
}
