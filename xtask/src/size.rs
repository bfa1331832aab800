//! How long the documents are, and how often they say what is better said otherwise.
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

/// Lines that are longer have too many thoughts.
const LONGEST_LINE: usize = 600;

/// A phrase: its name, and whether three words begin with it.
type Phrase = (&'static str, fn([&str; 3]) -> bool);

const PHRASES: [Phrase; 5] = [
    ("what is", |[a, b, c]| a == "what" && [b, c].iter().any(|word| is_verb(word))),
    ("has no", |[a, b, _]| ["has", "have", "had"].contains(&a) && ["none", "no"].contains(&b)),
    ("of which", |[a, b, _]| {
        ["in", "of", "at", "by", "to", "from", "on"].contains(&a) && b == "which"
    }),
    ("beside", |[a, ..]| a == "beside"),
    ("goes on", |[a, b, _]| ["goes", "go", "went", "going"].contains(&a) && b == "on"),
];

fn is_verb(word: &str) -> bool {
    ["is", "was", "are", "were"].contains(&word)
}

/// Bytes, long lines and phrases of a text.
fn measure(text: &str) -> [usize; 7] {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.chain(["", ""]).collect();
    let long = text.lines().filter(|line| line.chars().count() > LONGEST_LINE).count();
    let count =
        |(_, begins): &Phrase| words.windows(3).filter(|w| begins([w[0], w[1], w[2]])).count();
    let [a, b, c, d, e] = PHRASES.each_ref().map(count);
    [text.len(), long, a, b, c, d, e]
}

/// The sum of the pages of a folder, each of which `table` gets as a line if `each` is set.
fn folder(root: &Path, name: &str, each: bool, table: &mut String) -> io::Result<[usize; 7]> {
    let entries = fs::read_dir(root.join(name))?.collect::<io::Result<Vec<_>>>()?;
    let mut pages: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    let mut sum = [0; 7];
    for page in pages {
        let figures = measure(&fs::read_to_string(&page)?);
        if each {
            let file = page.file_name().expect("a file").to_string_lossy();
            line(table, &format!("{name}/{file}"), figures);
        }
        sum.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
    }
    Ok(sum)
}

fn line(table: &mut String, name: &str, figures: [usize; 7]) {
    write!(table, "{name:28}").expect("a string");
    figures.iter().for_each(|figure| write!(table, "{figure:>10}").expect("a string"));
    table.push('\n');
}

/// Prints a line for each page of the manual, and the sums of the other documents.
///
/// # Errors
/// A page cannot be read.
pub fn print(root: &Path) -> io::Result<()> {
    let mut table = format!("{:28}{:>10}{:>10}", "", "bytes", "> 600");
    PHRASES.iter().for_each(|(name, _)| write!(table, "{name:>10}").expect("a string"));
    table.push('\n');
    let readme = measure(&fs::read_to_string(root.join("README.md"))?);
    line(&mut table, "README.md", readme);
    let docs = folder(root, "docs", true, &mut table)?;
    line(&mut table, "manual", std::array::from_fn(|at| readme[at] + docs[at]));
    for name in ["reference", "evidence", "tutorials", "decisions", "notes"] {
        let sum = folder(root, &format!("docs/{name}"), false, &mut table)?;
        line(&mut table, name, sum);
    }
    line(&mut table, "CHANGELOG.md", measure(&fs::read_to_string(root.join("CHANGELOG.md"))?));
    print!("{table}");
    Ok(())
}

#[test]
fn phrases_and_long_lines_are_counted() {
    let text =
        "What it was, of which it\nhas none: goes on beside.\n".to_owned() + &"x".repeat(601);
    assert_eq!(measure(&text), [text.len(), 1, 1, 1, 1, 1, 1]);
    assert_eq!(measure("what he has no"), [14, 0, 0, 1, 0, 0, 0]);
}
