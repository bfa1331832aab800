//! Import circles between the files of a crate: files that cannot be read, tested or moved one without
//! the other.
//!
//! File `a` imports file `b` if a path in `a`, in a `use` or in code, leads to an item of `b`. A path
//! that leads to a re-export leads on to the file that defines the item. A module may use the modules
//! inside it, which are its parts, and these may use what it defines: imports of a module's file from
//! its own parts count, those in the other direction do not. Tests do not count.
//!
//! `circles.txt` has the circles that there are, one a line; the list may only shrink.
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// A path, or the name of a module from the root of its crate.
type Names = Vec<String>;

/// One file: which module it is and what it says.
struct Module {
    file: String,
    tokens: Vec<String>,
    /// The modules that it declares as files.
    parts: BTreeSet<String>,
    /// What it re-exports, by the name under which it does.
    exports: BTreeMap<String, Names>,
    /// What its paths lead to, with how many inline modules are around each.
    paths: Vec<(usize, Names)>,
}

/// Files that import each other, by the first of them.
pub fn circles(files: &[(String, String)], root: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let modules = modules(files, root);
    let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, module) in &modules {
        for (inline, path) in &module.paths {
            let Some(target) = resolve(&modules, name, *inline, path, 0) else { continue };
            let is_part = target.len() > name.len() && target.starts_with(name);
            if target != *name && !is_part {
                let used = modules[&target].file.as_str();
                imports.entry(&module.file).or_default().insert(used);
            }
        }
    }
    let mut found: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reached(&imports, file))).collect();
    for file in imports.keys() {
        let known = found.iter().any(|(circle, _)| circle.iter().any(|known| known == file));
        if known || !reached[file].contains(file) {
            continue;
        }
        let is_in = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(file));
        let circle: Vec<&str> = reached[file].iter().filter(is_in).copied().collect();
        let edges = circle.iter().flat_map(|user| {
            let used = imports[user].iter().filter(|used| circle.contains(used));
            used.map(move |used| format!("{user} imports {used}"))
        });
        found.push((circle.iter().map(|&file| file.to_owned()).collect(), edges.collect()));
    }
    found
}

/// Circles that are not in the list, and lines of the list that are no circle any more.
pub fn faults(files: &[(String, String)], roots: &[String], list: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut left: BTreeSet<&str> =
        list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    for root in roots {
        for (circle, edges) in circles(files, root) {
            let line = circle.join(" ");
            if !left.remove(line.as_str()) {
                faults.push(format!("{line}: import each other:\n    {}", edges.join("\n    ")));
            }
        }
    }
    let stale = |line| format!("tests/tidy/circles.txt: {line}: no circle any more");
    faults.extend(left.into_iter().map(stale));
    faults
}

/// All files that a file imports, directly or not.
fn reached<'a>(imports: &BTreeMap<&str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> = vec![from];
    while let Some(file) = waiting.pop() {
        for &used in imports.get(file).into_iter().flatten() {
            if found.insert(used) {
                waiting.push(used);
            }
        }
    }
    found
}

fn modules(files: &[(String, String)], root: &str) -> BTreeMap<Names, Module> {
    let texts: BTreeMap<&str, &str> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let mut found = BTreeMap::new();
    let mut waiting = vec![(Names::new(), root.to_owned())];
    while let Some((name, file)) = waiting.pop() {
        let Some(text) = texts.get(file.as_str()) else { continue };
        let stream: TokenStream = text.parse().expect("a source file consists of tokens");
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let (folder, stem) = file.trim_end_matches(".rs").rsplit_once('/').unwrap_or(("", &file));
        let own = if name.is_empty() || stem == "mod" { folder } else { &file[..file.len() - 3] };
        let mut parts = BTreeSet::new();
        for window in tokens.windows(3).filter(|window| window[0] == "mod" && window[2] == ";") {
            let part = &window[1];
            let places = [format!("{own}/{part}.rs"), format!("{own}/{part}/mod.rs")];
            if let Some(place) = places.into_iter().find(|place| texts.contains_key(place.as_str()))
            {
                parts.insert(part.clone());
                waiting.push(([&name[..], std::slice::from_ref(part)].concat(), place));
            }
        }
        let mut module =
            Module { file, tokens, parts, exports: BTreeMap::new(), paths: Vec::new() };
        module.read();
        found.insert(name, module);
    }
    found
}

/// The tokens of a file but for its tests, `::` as one.
fn flatten(stream: TokenStream, into: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut rest = &tokens[..];
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (
                TokenTree::Punct(hash),
                [TokenTree::Punct(inner), TokenTree::Group(_), after @ ..],
            ) if (hash.as_char(), inner.as_char()) == ('#', '!') => {
                rest = after;
            }
            (TokenTree::Punct(hash), [TokenTree::Group(attribute), after @ ..])
                if hash.as_char() == '#' =>
            {
                rest = after;
                if is_test(attribute.stream()) {
                    let end = rest.iter().position(ends_item).unwrap_or(rest.len() - 1);
                    rest = &rest[end + 1..];
                }
            }
            (TokenTree::Punct(colon), [TokenTree::Punct(second), after @ ..])
                if (colon.as_char(), second.as_char()) == (':', ':')
                    && colon.spacing() == Spacing::Joint =>
            {
                into.push("::".to_owned());
                rest = after;
            }
            (TokenTree::Group(group), _) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    _ => ("(", ")"),
                };
                into.push(open.to_owned());
                flatten(group.stream(), into);
                into.push(close.to_owned());
            }
            (token, _) => into.push(token.to_string()),
        }
    }
}

/// `cfg(test)`, also with other conditions.
fn is_test(attribute: TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text.starts_with("cfg(test)") || text.starts_with("cfg(all(test,")
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    }
}

impl Module {
    /// Finds the paths in the tokens.
    fn read(&mut self) {
        let tokens = std::mem::take(&mut self.tokens);
        let (mut depth, mut inline) = (0, Vec::new());
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let before = at.checked_sub(1).map_or("", |before| tokens[before].as_str());
            match token.as_str() {
                "{" => {
                    depth += 1;
                    let is_module = at.checked_sub(2).is_some_and(|word| tokens[word] == "mod");
                    if is_module {
                        inline.push(depth);
                    }
                }
                "}" => {
                    inline.pop_if(|module| *module == depth);
                    depth -= 1;
                }
                "use" if tokens[at + 1] != "<" => {
                    let mut leaves = Vec::new();
                    at = tree(&tokens, at + 1, &[], &mut leaves);
                    for (path, name) in leaves {
                        if matches!(before, "pub" | ")") && inline.is_empty() {
                            self.exports.insert(name, path);
                        } else {
                            self.paths.push((inline.len(), path));
                        }
                    }
                    continue;
                }
                _ if before != "::" && tokens.get(at + 1).is_some_and(|next| next == "::") => {
                    let mut path = vec![token.clone()];
                    while let (Some("::"), Some(name)) =
                        (tokens.get(at + 1).map(String::as_str), tokens.get(at + 2))
                    {
                        path.push(name.clone());
                        at += 2;
                    }
                    self.paths.push((inline.len(), path));
                }
                _ => {}
            }
            at += 1;
        }
    }
}

/// Reads `a::{b, c as d}` from `at` on: adds each path with its name, and returns where it ends.
fn tree(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    found: &mut Vec<(Names, String)>,
) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens[at].as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = tree(tokens, at, &path, found);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "self" if !path.is_empty() => at += 1,
            "as" => {
                found.push((path, tokens[at + 1].clone()));
                return at + 2;
            }
            "," | ";" | "}" => {
                let name = path.last().cloned().unwrap_or_default();
                found.push((path, name));
                return at;
            }
            name => {
                path.push(name.to_owned());
                at += 1;
            }
        }
    }
}

/// The module that defines what a path in module `from` leads to; `None` outside the crate.
fn resolve(
    modules: &BTreeMap<Names, Module>,
    from: &[String],
    inline: usize,
    path: &[String],
    depth: usize,
) -> Option<Names> {
    let supers = path.iter().take_while(|name| *name == "super").count();
    let (mut module, mut rest) = match path.first()?.as_str() {
        "crate" => (Names::new(), &path[1..]),
        "super" => {
            let up = supers.saturating_sub(inline);
            (from[..from.len().checked_sub(up)?].to_vec(), &path[supers..])
        }
        "self" => (from.to_vec(), &path[1..]),
        name if modules.get(from)?.parts.contains(name) => (from.to_vec(), path),
        _ => return None,
    };
    while let [name, after @ ..] = rest {
        let here = modules.get(&module)?;
        if here.parts.contains(name) {
            module.push(name.clone());
        } else if let Some(exported) = here.exports.get(name).filter(|_| depth < 16) {
            let whole = [exported, after].concat();
            return resolve(modules, &module, 0, &whole, depth + 1).or(Some(module));
        } else {
            break;
        }
        rest = after;
    }
    Some(module)
}

mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("src/{path}"), (*text).to_owned())).collect();
        circles(&files, "src/lib.rs").into_iter().map(|(circle, _)| circle.join(" ")).collect()
    }

    #[test]
    fn files_that_import_each_other_are_found_through_re_exports() {
        let root = ("lib.rs", "mod a; mod b; mod c;");
        let a = ("a.rs", "//! First.\nuse crate::b::{self, B as Other};");
        let b = ("b/mod.rs", "mod inner; pub use inner::B;");
        let circle =
            [root, a, b, ("b/inner.rs", "fn f(_: crate::c::C) {}"), ("c.rs", "use super::a;")];
        assert_eq!(found(&circle), ["src/a.rs src/b/inner.rs src/c.rs"]);
        let line = [root, a, b, ("b/inner.rs", "pub struct B;"), ("c.rs", "use super::a;")];
        assert!(found(&line).is_empty());
    }

    #[test]
    fn modules_and_their_parts_tests_and_words_are_not_circles() {
        let root = ("lib.rs", "mod a; mod b;");
        for (a, b) in [
            ("mod part; use part::P; pub struct A;", "use crate::a;"),
            ("#[cfg(test)] mod tests { use crate::b; }", "use crate::a;"),
            ("#[cfg(all(test, not(loom)))] use crate::b;", "use crate::a;"),
            ("mod inline { use super::A; } // crate::b::B", "use crate::a;"),
            ("use std::b; fn f() { \"crate::b\"; }", "use crate::a;"),
        ] {
            let part = ("a/part.rs", "use super::A; pub struct P;");
            assert!(found(&[root, ("a.rs", a), ("b.rs", b), part]).is_empty(), "{a}");
        }
    }

    #[test]
    fn list_may_only_shrink() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [
            file("src/lib.rs", "mod a; mod b;"),
            file("src/a.rs", "use crate::b;"),
            file("src/b.rs", "use crate::a;"),
        ];
        let check = |list: &str| faults(&files, &["src/lib.rs".to_owned()], list).len();
        assert_eq!(check("# Why.\nsrc/a.rs src/b.rs\n"), 0);
        assert_eq!(check(""), 1);
        assert_eq!(check("src/a.rs src/b.rs\nsrc/c.rs src/d.rs\n"), 1);
    }
}
