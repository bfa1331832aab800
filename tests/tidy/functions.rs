//! How long functions are.
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// Lines that a function may have, from `fn` to its closing brace.
const MAX_LINES: usize = 70;

/// A function with a body, also one in a macro's arguments.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// With the type or trait that it belongs to: `Channel::submit`.
    pub name: String,
    /// Where it begins.
    pub line: usize,
    /// From `fn` to the closing brace.
    pub lines: usize,
}

/// All functions of a file.
pub fn functions(text: &str) -> Vec<Function> {
    let tokens: TokenStream = text.parse().expect("a source file consists of tokens");
    let mut found = Vec::new();
    walk(tokens, None, &mut found);
    found
}

fn walk(tokens: TokenStream, owner: Option<&str>, found: &mut Vec<Function>) {
    let mut rest = &tokens.into_iter().collect::<Vec<_>>()[..];
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            TokenTree::Ident(word) if *word == "impl" || *word == "trait" => {
                if let Some(at) = body(rest)
                    && let TokenTree::Group(members) = &rest[at]
                {
                    let owner = owner_name(&rest[..at]);
                    walk(members.stream(), owner.as_deref(), found);
                    rest = &rest[at + 1..];
                }
            }
            TokenTree::Ident(word) if *word == "fn" => {
                let Some(TokenTree::Ident(name)) = rest.first() else { continue };
                if let Some(at) = body(rest)
                    && let TokenTree::Group(block) = &rest[at]
                {
                    let line = word.span().start().line;
                    let lines = block.span_close().end().line - line + 1;
                    let name = owner.map_or(name.to_string(), |owner| format!("{owner}::{name}"));
                    found.push(Function { name, line, lines });
                    walk(block.stream(), None, found);
                    rest = &rest[at + 1..];
                }
            }
            TokenTree::Group(group) => walk(group.stream(), owner, found),
            _ => {}
        }
    }
}

/// Where the braces are that follow a signature, unless it ends in a semicolon.
fn body(tokens: &[TokenTree]) -> Option<usize> {
    let at = tokens.iter().position(|token| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    })?;
    matches!(tokens[at], TokenTree::Group(_)).then_some(at)
}

/// The type of `impl<T> Trait for module::Type<T> where …`, the trait of `trait Trait: …`.
fn owner_name(header: &[TokenTree]) -> Option<String> {
    let (mut depth, mut name, mut before) = (0, None, ' ');
    for token in header {
        match token {
            TokenTree::Punct(punct) => {
                match punct.as_char() {
                    '<' => depth += 1,
                    '>' if before != '-' => depth -= 1,
                    // The bounds of a trait; the colons of a path come in twos.
                    ':' if depth == 0 && punct.spacing() == Spacing::Alone && before != ':' => {
                        break;
                    }
                    _ => {}
                }
                before = punct.as_char();
                continue;
            }
            TokenTree::Ident(word) if depth == 0 && *word == "where" => break,
            TokenTree::Ident(word) if depth == 0 => name = Some(word.to_string()),
            _ => {}
        }
        before = ' ';
    }
    name
}

/// Checks all files against the list of exceptions: one a line, with length, folder of the package
/// (`.` for the program) and name. Entries go when they are not needed any more; none grows.
pub fn too_long(files: &[(String, String)], exceptions: &str) -> Vec<String> {
    let mut allowed: BTreeMap<(String, String), BTreeSet<(usize, usize)>> = BTreeMap::new();
    for (number, line) in exceptions.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split(' ');
        let entry = (|| {
            let lines = words.next()?.parse().ok()?;
            Some((lines, words.next()?.to_owned(), words.next()?.to_owned()))
        })();
        let (lines, package, name) = entry.expect("LINES PACKAGE FUNCTION");
        allowed.entry((package, name)).or_default().insert((lines, number));
    }
    let mut faults = Vec::new();
    for (path, text) in files {
        let long = functions(text).into_iter().filter(|function| function.lines > MAX_LINES);
        for Function { name, line, lines } in long {
            let key = (package(path), name);
            let entries = allowed.get_mut(&key);
            let (package, name) = &key;
            let Some(entry) = entries.and_then(BTreeSet::pop_first) else {
                faults.push(format!(
                    "{path}:{line}: {name} has {lines} lines, expected at most {MAX_LINES}"
                ));
                continue;
            };
            if lines > entry.0 {
                let listed = entry.0;
                faults.push(format!(
                    "{path}:{line}: {name} of {package} has grown from {listed} to {lines} lines"
                ));
            }
        }
    }
    let stale = allowed.into_iter().flat_map(|((package, name), entries)| {
        entries.into_iter().map(move |(lines, _)| {
            format!(
                "tests/tidy/long_functions.txt: take out \"{lines} {package} {name}\": it is gone \
                 or short enough"
            )
        })
    });
    faults.extend(stale);
    faults
}

fn package(path: &str) -> String {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, ..] => format!("crates/{name}"),
        ["fuzz" | "xtask", ..] => path.split('/').next().unwrap_or_default().to_owned(),
        _ => ".".to_owned(),
    }
}

mod tests {
    use super::*;

    fn function(name: &str, line: usize, lines: usize) -> Function {
        Function { name: name.to_owned(), line, lines }
    }

    #[test]
    fn functions_are_found_with_their_owner_and_length() {
        let text = "//! fn doc() {}\nfn one() { \"fn no() {\" ; }\nimpl<T: Fn() -> u8> fmt::Display \
                    for a::B<T>\nwhere T: X {\n  fn two(\n  ) -> impl Y {\n    fn inner() {}\n  \
                    }\n}\ntrait C: D { fn none(); fn three() {}\n}\nm! { fn four() {\n} }\n";
        let expected = [
            function("one", 2, 1),
            function("B::two", 5, 4),
            function("inner", 7, 1),
            function("C::three", 10, 1),
            function("four", 12, 2),
        ];
        assert_eq!(functions(text), expected);
    }

    fn file(lines: usize) -> (String, String) {
        let text = format!("fn f() {{\n{}}}\n", "x;\n".repeat(lines - 2));
        ("crates/blk/src/x.rs".to_owned(), text)
    }

    #[test]
    fn long_function_is_found() {
        assert!(too_long(&[file(MAX_LINES)], "").is_empty());
        assert_eq!(too_long(&[file(MAX_LINES + 1)], "").len(), 1);
        assert_eq!(too_long(&[file(MAX_LINES + 1)], "71 crates/nvme f\n").len(), 2);
    }

    #[test]
    fn exception_must_be_needed_and_must_not_grow() {
        let listed = "# LINES PACKAGE FUNCTION\n80 crates/blk f\n";
        assert!(too_long(&[file(80)], listed).is_empty());
        assert!(too_long(&[file(75)], listed).is_empty());
        assert_eq!(too_long(&[file(81)], listed).len(), 1, "it has grown");
        assert_eq!(too_long(&[file(70)], listed).len(), 1, "it is short enough");
        assert_eq!(too_long(&[], listed).len(), 1, "it is gone");
        assert_eq!(too_long(&[file(80), file(80)], listed).len(), 1, "an entry is for one");
    }
}
