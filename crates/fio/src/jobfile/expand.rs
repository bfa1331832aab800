//! Variables and keywords in values.
//!
//! Takes a value as written; gives it with `${NAME}` replaced by the environment (nothing if it has
//! no such variable) and with fio's `$pagesize`, `$mb_memory` and `$ncpus` replaced by numbers.
//! `$jobname`, `$jobnum` and `$filenum` stay: fio expands them in `filename_format` only.
use super::environment::Environment;
use crate::options::{ExprError, evaluate_plain};

/// A keyword and the number that it stands for.
type Keyword = (&'static str, fn(&dyn Environment) -> u64);

/// Replaces `${NAME}`. An opening without an end stays as it is.
pub(super) fn variables(value: &str, source: &dyn Environment) -> String {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, tail)) = after.split_once('}') else {
            break;
        };
        expanded.push_str(before);
        expanded.push_str(&source.variable(name).unwrap_or_default());
        rest = tail;
    }
    expanded.push_str(rest);
    expanded
}

/// Replaces keywords. As in fio, arithmetic with a keyword needs no parentheses: `2*$pagesize`.
pub(super) fn keywords(value: &str, source: &dyn Environment) -> Result<String, ExprError> {
    if !value.contains('$') {
        return Ok(value.to_owned());
    }
    let mut expanded = value.to_owned();
    for (keyword, number) in KEYWORDS {
        if expanded.contains(keyword) {
            expanded = expanded.replace(keyword, &number(source).to_string());
        }
    }
    let plain = |c: char| c.is_ascii_digit() || c == ' ' || OPERATORS.contains(c);
    let arithmetic = expanded != value
        && expanded.starts_with(|c: char| c.is_ascii_digit())
        && expanded.contains(|c| OPERATORS.contains(c))
        && expanded.chars().all(plain);
    if arithmetic {
        evaluate_plain(&expanded).map(|number| number.to_string())
    } else {
        Ok(expanded)
    }
}

const KEYWORDS: [Keyword; 3] = [
    ("$pagesize", |source| source.page_size()),
    ("$mb_memory", |source| source.mb_memory()),
    ("$ncpus", |source| source.cpus()),
];

const OPERATORS: &str = "+-*/";

#[cfg(test)]
mod tests {
    use super::super::environment::MemoryEnvironment;
    use super::*;

    #[test]
    fn variables_are_replaced_and_unknown_ones_are_nothing() {
        let source =
            MemoryEnvironment::default().with_variable("SIZE", "8k").with_variable("X", "${SIZE}");
        assert_eq!(variables("${SIZE}", &source), "8k");
        assert_eq!(variables("a${SIZE}b${NONE}c${SIZE}", &source), "a8kbc8k");
        assert_eq!(variables("${SIZE", &source), "${SIZE");
        assert_eq!(variables("$SIZE", &source), "$SIZE");
        assert_eq!(variables("${X}", &source), "${SIZE}", "what was put in is not looked at again");
    }

    #[test]
    fn keywords_become_numbers() {
        let source = MemoryEnvironment::default();
        for (value, expanded) in [
            ("$pagesize", "4096"),
            ("$mb_memorym", "1024m"),
            ("$ncpus", "4"),
            ("2*$pagesize", "8192"),
            ("$pagesize*2", "8192"),
            ("($pagesize+4)", "(4096+4)"),
            ("foo$pagesize", "foo4096"),
            ("$pagesize,8k", "4096,8k"),
            ("4*1024", "4*1024"),
            ("$jobname.$jobnum", "$jobname.$jobnum"),
        ] {
            assert_eq!(keywords(value, &source).as_deref(), Ok(expanded), "{value}");
        }
        assert_eq!(keywords("$ncpus/0", &source), Err(ExprError::DivisionByZero));
    }
}
