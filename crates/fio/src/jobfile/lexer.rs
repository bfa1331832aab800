//! Lines of a job file.
//!
//! Takes the text; gives what each line is. fio's rules: `;` and `#` begin a comment wherever they
//! stand, blanks around a line do not count. Blanks around `=` do not count either (fio keeps those
//! after it, and then fails on words and drops the suffixes of numbers).

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// `[name]`
    Section(&'a str),
    /// `include FILE`
    Include(&'a str),
    /// `key=value` or `key`
    Option {
        /// Before `=`.
        key: &'a str,
        /// After it.
        value: Option<&'a str>,
    },
    /// `[` without a name or without an end.
    BadSection(&'a str),
}

/// The lines that are not empty, with their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u32, Line<'_>)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1..).zip(text.lines()).filter_map(|(number, line)| Some((number, line_of(line)?)))
}

fn line_of(line: &str) -> Option<Line<'_>> {
    let end = line.find([';', '#']).unwrap_or(line.len());
    let line = line[..end].trim();
    if line.is_empty() {
        return None;
    }
    if let Some(rest) = line.strip_prefix('[') {
        // A name may hold brackets: the last one ends it.
        let name = rest.strip_suffix(']').filter(|name| !name.trim().is_empty());
        return Some(name.map_or(Line::BadSection(line), Line::Section));
    }
    if let Some(file) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
        return Some(Line::Include(file.trim()));
    }
    Some(match line.split_once('=') {
        Some((key, value)) => Line::Option { key: key.trim_end(), value: Some(value.trim_start()) },
        None => Line::Option { key: line, value: None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<Line<'_>> {
        lines(text).next().map(|(_, line)| line)
    }

    fn option<'a>(key: &'a str, value: Option<&'a str>) -> Option<Line<'a>> {
        Some(Line::Option { key, value })
    }

    #[test]
    fn comments_begin_anywhere() {
        assert_eq!(one("; all of it"), None);
        assert_eq!(one("  # all of it"), None);
        assert_eq!(one("bs=4k ; rest"), option("bs", Some("4k")));
        assert_eq!(one("iodepth=2;x"), option("iodepth", Some("2")));
        assert_eq!(one("filename=a#b;c"), option("filename", Some("a")));
        assert_eq!(one("[a];c"), Some(Line::Section("a")));
    }

    #[test]
    fn blanks_around_lines_and_equals_signs_do_not_count() {
        assert_eq!(one("  rw = read \t"), option("rw", Some("read")));
        assert_eq!(one("\ttime_based\t"), option("time_based", None));
        assert_eq!(one("size="), option("size", Some("")));
        assert_eq!(one("a=b=c"), option("a", Some("b=c")));
        assert_eq!(one("=4"), option("", Some("4")));
    }

    #[test]
    fn section_names_go_to_the_last_bracket() {
        assert_eq!(one("[a b]"), Some(Line::Section("a b")));
        assert_eq!(one("[a]b]"), Some(Line::Section("a]b")));
        assert_eq!(one("[a] trailing"), Some(Line::BadSection("[a] trailing")));
        assert_eq!(one("[a"), Some(Line::BadSection("[a")));
        assert_eq!(one("[]"), Some(Line::BadSection("[]")));
    }

    #[test]
    fn includes_name_a_file() {
        assert_eq!(one("include  a b.fio "), Some(Line::Include("a b.fio")));
        assert_eq!(one("include"), option("include", None));
        assert_eq!(one("includes=1"), option("includes", Some("1")));
    }

    #[test]
    fn lines_are_counted_from_one_whatever_ends_them() {
        let numbers: Vec<u32> =
            lines("\r\n[a]\r\n\r\nbs=4k\r\n").map(|(number, _)| number).collect();
        assert_eq!(numbers, [2, 4]);
        assert_eq!(one("\u{feff}[a]"), Some(Line::Section("a")));
    }
}
