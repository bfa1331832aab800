//! Which files the crates consist of.
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// `mod a { mod b; }`: the names down to the module, and the paths that attributes give its file.
type Declaration = (Vec<String>, Vec<String>);

/// The modules of a file that are files of their own.
fn declarations(text: &str) -> Vec<Declaration> {
    let tokens: TokenStream = text.parse().expect("a source file consists of tokens");
    let mut found = Vec::new();
    walk(tokens, &[], &mut found);
    found
}

fn walk(tokens: TokenStream, outer: &[String], found: &mut Vec<Declaration>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut paths = Vec::new();
    let mut rest = &tokens[..];
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (TokenTree::Punct(hash), [TokenTree::Group(attribute), after @ ..])
                if hash.as_char() == '#' =>
            {
                given_paths(attribute.stream(), &mut paths);
                rest = after;
            }
            (TokenTree::Ident(word), [TokenTree::Ident(name), next, after @ ..])
                if *word == "mod" =>
            {
                let inner: Vec<String> = outer.iter().cloned().chain([name.to_string()]).collect();
                match next {
                    TokenTree::Group(body) => walk(body.stream(), &inner, found),
                    _ => found.push((inner, std::mem::take(&mut paths))),
                }
                rest = after;
            }
            (TokenTree::Group(group), _) => {
                walk(group.stream(), outer, found);
                if group.delimiter() == Delimiter::Brace {
                    paths.clear();
                }
            }
            (TokenTree::Punct(end), _) if end.as_char() == ';' => paths.clear(),
            _ => {}
        }
    }
}

/// The paths in `path = "…"` and `cfg_attr(…, path = "…")`.
fn given_paths(attribute: TokenStream, found: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = attribute.into_iter().collect();
    for window in tokens.windows(3) {
        if let [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(path)] = window
            && *name == "path"
        {
            found.push(path.to_string().trim_matches('"').to_owned());
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            given_paths(group.stream(), found);
        }
    }
}

/// A path from the root, of one that is given from a folder.
fn resolved(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Files that no crate root reaches by `mod`.
pub fn orphans(files: &[(String, String)], roots: &[String]) -> Vec<String> {
    let mut left: BTreeSet<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let mut waiting: Vec<(String, bool)> = roots.iter().map(|root| (root.clone(), true)).collect();
    while let Some((path, root)) = waiting.pop() {
        left.remove(path.as_str());
        let Some((_, text)) = files.iter().find(|(name, _)| *name == path) else { continue };
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
        let stem = file.trim_end_matches(".rs");
        let own =
            if root || stem == "mod" { folder.to_owned() } else { format!("{folder}/{stem}") };
        for (names, given) in declarations(text) {
            let module = format!("{own}/{}", names.join("/"));
            let by_place = [format!("{module}.rs"), format!("{module}/mod.rs")];
            let given = given.into_iter().map(|path| resolved(folder, &path));
            let candidates = given.chain(by_place);
            let reached = candidates.filter(|name| left.contains(name.as_str()));
            waiting.extend(reached.map(|name| (name, false)));
        }
    }
    left.into_iter().map(|path| format!("{path}: no crate has this file")).collect()
}

mod tests {
    use super::*;

    #[test]
    fn file_that_no_module_declares_is_found() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [
            file(
                "src/lib.rs",
                "mod a;\nmod b { mod c; }\n#[cfg_attr(x, path = \"other/d.rs\")]\nmod d;\n",
            ),
            file(
                "src/a.rs",
                "#[cfg(test)]\nmod tests;\n// mod gone;\n#[path = \"../shared/mod.rs\"]\nmod shared;\n",
            ),
            file("shared/mod.rs", ""),
            file("src/a/tests.rs", ""),
            file("src/b/c/mod.rs", "cfg! { mod deep; }"),
            file("src/b/c/deep.rs", ""),
            file("src/other/d.rs", ""),
        ];
        let roots = ["src/lib.rs".to_owned()];
        assert!(orphans(&files, &roots).is_empty(), "{:?}", orphans(&files, &roots));
        let gone = [&files[..], &[file("src/gone.rs", "")]].concat();
        assert_eq!(orphans(&gone, &roots), ["src/gone.rs: no crate has this file"]);
    }
}
