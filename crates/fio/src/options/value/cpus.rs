//! Lists of CPUs, as `0,2-5`.
use super::expr::ExprError;

/// The greatest CPU number: more than any machine has, few enough to list.
const MAX_CPU: usize = 65_535;

/// Reads numbers and ranges between commas; gives them in ascending order, each once. Whether this
/// machine has such CPUs is not asked: a job for another machine, or a simulated one, may name them.
pub(crate) fn read(text: &str) -> Result<Vec<usize>, ExprError> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (cpu(first)?, cpu(last)?);
        if first > last {
            return Err(ExprError::Malformed);
        }
        cpus.extend(first..=last);
        // Overlapping ranges must not pile up: `0-65535` a thousand times is still one list.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_make_one_ascending_list() {
        assert_eq!(read("0"), Ok(vec![0]));
        assert_eq!(read("1-4"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(read("5,0,8-10,9"), Ok(vec![0, 5, 8, 9, 10]));
        assert_eq!(read("1 - 2, 3"), Ok(vec![1, 2, 3]));
    }

    #[test]
    fn ranges_backwards_and_other_texts_are_errors() {
        for text in ["3-1", "x", "", "1,", "1-2-3", "-1", "+1", "all", "0:1", "1-99999999999"] {
            assert_eq!(read(text), Err(ExprError::Malformed), "{text:?}");
        }
    }
}
