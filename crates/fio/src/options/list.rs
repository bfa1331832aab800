//! Values with several parts: one for each direction, lists of CPUs and of errors, `rw=`.
use super::number::{ExprError, parse_number, parse_size};
use super::value::ValueError;
use crate::job::Rw;

/// Parses up to three comma-separated values, for reads, writes and trims. The last value also
/// holds for the directions after it unless a comma follows: `8k,32k` is 32k for trims, `8k,32k,`
/// leaves trims unchanged, as does an empty value. Returns `None` if there is no value or a fourth
/// one.
pub(super) fn parse_triple<T, E>(
    text: &str,
    parse_one: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<[Option<T>; 3]>, E> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 3 || parts.iter().all(|part| part.is_empty()) {
        return Ok(None);
    }
    let mut values = [None, None, None];
    for (direction, value) in values.iter_mut().enumerate() {
        let part = parts[direction.min(parts.len() - 1)];
        if !part.is_empty() {
            *value = Some(parse_one(part)?);
        }
    }
    Ok(Some(values))
}

/// The highest CPU number: more than any machine has, few enough to list.
const MAX_CPU: usize = 65_535;

/// Parses a list of CPUs such as `0,2-5`, in ascending order, each once; empty for `all`. They need not
/// exist on this machine: the job may be for another one, or for a simulated one.
pub(super) fn parse_cpus(text: &str) -> Result<Vec<usize>, ExprError> {
    if text.trim() == "all" {
        return Ok(Vec::new());
    }
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (cpu(first)?, cpu(last)?);
        if first > last {
            return Err(ExprError::Malformed);
        }
        cpus.extend(first..=last);
        // Overlapping ranges must not add up: `0-65535` a thousand times is still one list.
        cpus.sort_unstable();
        cpus.dedup();
    }
    Ok(cpus)
}

fn cpu(text: &str) -> Result<usize, ExprError> {
    let text = text.trim();
    let number = text.parse().ok().filter(|_| text.starts_with(|c: char| c.is_ascii_digit()));
    number.filter(|cpu| *cpu <= MAX_CPU).ok_or(ExprError::Malformed)
}

/// The most indices in a list, as in fio.
const MAX_INDICES: usize = 128;

/// Parses a list of indices such as `0,2-5`, up to 128 of them from 0 to 65535. As in fio they are sorted,
/// and one that is there twice counts twice.
pub(super) fn parse_indices(text: &str) -> Result<Vec<u16>, ExprError> {
    let mut indices = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = cpu(first)?..=cpu(last)?;
        if range.is_empty() || range.end() - range.start() >= MAX_INDICES {
            return Err(ExprError::Malformed);
        }
        indices.extend(range.filter_map(|index| u16::try_from(index).ok()));
        if indices.len() > MAX_INDICES {
            return Err(ExprError::Malformed);
        }
    }
    indices.sort_unstable();
    Ok(indices)
}

/// The errors that an I/O can complete with.
const ERRNOS: [(&str, i32); 12] = [
    ("EIO", 5),
    ("EAGAIN", 11),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ENOSPC", 28),
    ("ENODATA", 61),
    ("EOVERFLOW", 75),
    ("EILSEQ", 84),
    ("EOPNOTSUPP", 95),
    ("ENOTSUP", 95),
    ("ETOOMANYREFS", 109),
    ("ETIMEDOUT", 110),
];
/// The highest error number of Linux.
const MAX_ERRNO: i32 = 4095;

/// Parses error lists such as `EIO:28,ENOSPC`: up to three comma-separated lists, for reads, writes
/// and verification, each of colon-separated names or numbers.
pub(super) fn parse_errnos(text: &str) -> Result<[Vec<i32>; 3], ExprError> {
    let mut lists: [Vec<i32>; 3] = Default::default();
    let mut errnos = lists.iter_mut();
    for list in text.split(',') {
        let errnos = errnos.next().ok_or(ExprError::Malformed)?;
        for name in list.split(':').map(str::trim).filter(|_| !list.trim().is_empty()) {
            let known = ERRNOS.iter().find(|(known, _)| *known == name).map(|&(_, errno)| errno);
            let errno = known.or_else(|| name.parse().ok());
            let valid = errno.filter(|errno| (1..=MAX_ERRNO).contains(errno));
            errnos.push(valid.ok_or(ExprError::Malformed)?);
        }
    }
    Ok(lists)
}

/// The value of `rw=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwPattern {
    /// Directions.
    pub rw: Rw,
    /// Whether offsets are random.
    pub random: bool,
    /// As [`Job::rw_modifier`](crate::job::Job::rw_modifier).
    pub modifier: i64,
}

const RW_NAMES: &[(&str, (Rw, bool))] = &[
    ("read", (Rw::Read, false)),
    ("write", (Rw::Write, false)),
    ("trim", (Rw::Trim, false)),
    ("rw", (Rw::Mixed, false)),
    ("readwrite", (Rw::Mixed, false)),
    ("randread", (Rw::Read, true)),
    ("randwrite", (Rw::Write, true)),
    ("randtrim", (Rw::Trim, true)),
    ("randrw", (Rw::Mixed, true)),
    ("trimwrite", (Rw::TrimWrite, false)),
    ("randtrimwrite", (Rw::TrimWrite, true)),
];

/// Parses an I/O pattern such as `randread:8`. The modifier is a number of I/Os if the pattern is
/// random, else a size, which may be negative.
pub(super) fn parse_rw(text: &str, kb_base: u32) -> Result<RwPattern, ValueError> {
    let (word, modifier) = match text.split_once(':') {
        Some((word, modifier)) => (word, Some(modifier)),
        None => (text, None),
    };
    let found = text.to_owned();
    let (rw, random) = match RW_NAMES.iter().find(|(known, _)| *known == word) {
        Some((_, pattern)) => *pattern,
        None => {
            let expected = RW_NAMES.iter().map(|(word, _)| *word).collect();
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
    i64::try_from(parse_number(text).ok()?).ok()
}

fn step(text: &str, kb_base: u32) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text),
    };
    i64::try_from(parse_size(text, kb_base).ok()?).ok().map(|size| sign * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Option<[Option<u64>; 3]> {
        parse_triple(text, str::parse).expect("digits")
    }

    #[test]
    fn a_value_without_comma_holds_for_the_directions_after_it() {
        assert_eq!(digits("1"), Some([Some(1), Some(1), Some(1)]));
        assert_eq!(digits("1,2"), Some([Some(1), Some(2), Some(2)]));
        assert_eq!(digits("1,2,3"), Some([Some(1), Some(2), Some(3)]));
        assert_eq!(digits(",2"), Some([None, Some(2), Some(2)]));
    }

    #[test]
    fn empty_values_leave_the_direction_unchanged() {
        assert_eq!(digits("1,"), Some([Some(1), None, None]));
        assert_eq!(digits("1,2,"), Some([Some(1), Some(2), None]));
        assert_eq!(digits(",2,"), Some([None, Some(2), None]));
        assert_eq!(digits("1,,3"), Some([Some(1), None, Some(3)]));
    }

    #[test]
    fn no_value_and_a_fourth_value_are_rejected() {
        assert_eq!(digits(","), None);
        assert_eq!(digits("1,2,3,4"), None);
    }

    #[test]
    fn numbers_and_ranges_make_one_ascending_list() {
        assert_eq!(parse_cpus("0"), Ok(vec![0]));
        assert_eq!(parse_cpus("1-4"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(parse_cpus("5,0,8-10,9"), Ok(vec![0, 5, 8, 9, 10]));
        assert_eq!(parse_cpus("1 - 2, 3"), Ok(vec![1, 2, 3]));
        assert_eq!(parse_cpus(" all "), Ok(Vec::new()));
    }

    #[test]
    fn reversed_ranges_and_other_texts_are_errors() {
        for text in ["3-1", "x", "", "1,", "1-2-3", "-1", "+1", "all,1", "0:1", "1-99999999999"] {
            assert_eq!(parse_cpus(text), Err(ExprError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn errors_are_for_reads_writes_and_verification() {
        assert_eq!(parse_errnos("EAGAIN,ENOSPC:122"), Ok([vec![11], vec![28, 122], vec![]]));
        assert_eq!(parse_errnos(",,EILSEQ"), Ok([vec![], vec![], vec![84]]));
        assert_eq!(parse_errnos("5"), Ok([vec![5], vec![], vec![]]));
    }

    #[test]
    fn unknown_error_names_and_a_fourth_list_are_rejected() {
        for text in ["EWHAT", "0", "-5", "4096", "5:", "1,2,3,4", "5;6"] {
            assert_eq!(parse_errnos(text), Err(ExprError::Malformed), "{text:?}");
        }
    }

    fn read(text: &str) -> RwPattern {
        parse_rw(text, 1024).expect(text)
    }

    #[test]
    fn rw_gives_directions_and_order() {
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
            let error = parse_rw(text, 1024).expect_err(text);
            assert!(matches!(error, ValueError::Malformed { .. }), "{text}: {error}");
        }
    }
}
