//! Compares what a command prints with what a page says.

/// A line of a page that stands for any number of lines.
const REST: &str = "…";

/// Which of the lines found each expected line is, `None` for `…`; no list if they are different.
fn matched(
    found: &[&str],
    expected: &[String],
    same: &dyn Fn(&str, &str) -> bool,
) -> Option<Vec<Option<usize>>> {
    let Some((first, rest)) = expected.split_first() else {
        return found.is_empty().then(Vec::new);
    };
    let then = |own: Option<usize>, skipped: usize| {
        let rest = matched(&found[skipped..], rest, same)?;
        let moved = rest.into_iter().map(|at| at.map(|at| at + skipped));
        Some(std::iter::once(own).chain(moved).collect())
    };
    if first == REST {
        return (0..=found.len()).find_map(|skipped| then(None, skipped));
    }
    (!found.is_empty() && same(found[0], first)).then(|| then(Some(0), 1)).flatten()
}

/// Whether a command has printed what a page says.
pub fn is_as_expected(found: &[&str], expected: &[String], numbers_vary: bool) -> bool {
    let same = |a: &str, b: &str| if numbers_vary { masked(a) == masked(b) } else { a == b };
    matched(found, expected, &same).is_some()
}

/// What a page is to say: the lines found, without those that the page leaves out, if it can be told
/// which those are.
pub fn updated(found: &[&str], expected: &[String]) -> Vec<String> {
    let lines = matched(found, expected, &|a, b| masked(a) == masked(b));
    let lines = lines.unwrap_or_else(|| (0..found.len()).map(Some).collect());
    let line = |at: Option<usize>| at.map_or(REST, |at| found[at]).to_owned();
    lines.into_iter().map(line).collect()
}

/// What does not count where numbers vary: units after a number, or as a column's heading, and the
/// words of a date.
const UNITS: [&str; 26] = [
    "k", "M", "G", "B", "KiB", "MiB", "GiB", "kB", "MB", "GB", "ns", "us", "ms", "s", "nsec",
    "usec", "msec", "sec", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "m",
];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A line without its numbers, their signs and units, and its blanks.
fn masked(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if number(rest) > 0 => number(rest),
            c if c.is_ascii_alphabetic() => {
                rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        match token {
            _ if number(rest) > 0 => out.push('#'),
            _ if first.is_whitespace() || UNITS.contains(&token) || MONTHS.contains(&token) => {}
            _ => out.push_str(token),
        }
        rest = after;
    }
    out
}

/// The length of the number that a text begins with: `7`, `-1.5`, `13:22`; 0 if it begins with none.
fn number(text: &str) -> usize {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_inside = |at: usize| is_digit(at) || ".,:".contains(&text[at..=at]) && is_digit(at + 1);
    let begin = usize::from(text.starts_with(['+', '-']));
    if !is_digit(begin) {
        return 0;
    }
    let bytes = text.bytes().take_while(u8::is_ascii).count();
    (begin..bytes).find(|&at| !is_inside(at)).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn dots_stand_for_any_number_of_lines() {
        let expected = owned(&["a", "…", "z"]);
        assert!(is_as_expected(&["a", "b", "c", "z"], &expected, false));
        assert!(is_as_expected(&["a", "z"], &expected, false));
        assert!(!is_as_expected(&["a", "b"], &expected, false));
        assert!(!is_as_expected(&["b", "z"], &expected, false));
        assert!(!is_as_expected(&["a", "z", "b"], &expected, false));
    }

    #[test]
    fn numbers_that_vary_are_not_compared_but_the_words_are() {
        let line = "  write: IOPS=234, BW=235MiB/s (246MB/s)(13.9GiB/60547msec); 0 zone resets";
        let other = "  write: IOPS=2.39M, BW=9565KiB/s (9795kB/s)(1.2MiB/2msec); 12 zone resets";
        assert!(is_as_expected(&[line], &owned(&[other]), true));
        assert!(!is_as_expected(&[line], &owned(&[other]), false));
        assert!(!is_as_expected(&[line], &owned(&[&other.replace("write", "read")]), true));
        assert!(is_as_expected(&["a  +3.1%  b"], &owned(&["a -19.6% b"]), true));
        assert!(!is_as_expected(&["percent=3.1"], &owned(&["percent="]), true));
    }

    #[test]
    fn update_keeps_what_the_page_leaves_out() {
        let expected = owned(&["…", "rate 5 ms", "…"]);
        assert_eq!(updated(&["a", "b", "rate 17 ms", "c"], &expected), ["…", "rate 17 ms", "…"]);
        assert_eq!(updated(&["a", "b"], &expected), ["a", "b"]);
    }
}
