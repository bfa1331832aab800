//! Manual pages of the C library, one for each function, from the comments of the header.
use std::fs;
use std::io;
use std::path::Path;

/// A function of the header.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its prototype, perhaps in several lines.
    pub prototype: String,
    /// The lines of its comment; an empty one separates paragraphs.
    pub comment: Vec<String>,
}

/// The functions of a header that have a comment.
pub fn functions(header: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    let mut rest = header;
    while let Some((_, from)) = rest.split_once("/**\n") {
        let Some((comment, after)) = from.split_once("*/\n") else { break };
        rest = after;
        let Some((prototype, _)) = after.split_once(";\n") else { break };
        let name = prototype.split_once('(').and_then(|(before, _)| {
            let word = before.rsplit([' ', '*']).next()?;
            word.starts_with("zonal_").then_some(word)
        });
        // Structures and enumerations have braces, constants a directive.
        let is_function = !prototype.contains(['{', '#']) && prototype.ends_with(')');
        if let Some(name) = name.filter(|_| is_function) {
            functions.push(Function {
                name: name.to_owned(),
                prototype: format!("{prototype};"),
                comment: comment.lines().filter_map(text_of).map(str::to_owned).collect(),
            });
        }
    }
    functions
}

/// The text of a line of a comment; `None` for the end of the comment.
fn text_of(line: &str) -> Option<&str> {
    let text = line.trim().strip_prefix('*')?;
    Some(text.trim())
}

/// Writes the pages of all functions of a header.
///
/// # Errors
/// A file cannot be written.
pub fn write(header: &str, folder: &Path, version: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let functions = functions(header);
    for function in &functions {
        let page = page(function, &functions, version);
        fs::write(folder.join(format!("{}.3", function.name)), page)?;
    }
    Ok(())
}

/// The page of a function.
fn page(function: &Function, all: &[Function], version: &str) -> String {
    let Function { name, prototype, comment } = function;
    let comment: Vec<String> = comment.iter().map(|line| roff(line)).collect();
    let about = comment.split(String::is_empty).next().unwrap_or_default().join(" ");
    let end = [". ", ": "].into_iter().filter_map(|end| about.find(end)).min();
    let about = &about[..end.unwrap_or(about.len())];
    let mut page = format!(
        ".TH {} 3 \"\" \"libzonal {version}\" \"Library Functions Manual\"\n.SH NAME\n{name} \\- {}\n\
         .SH SYNOPSIS\n.nf\n#include <zonal.h>\n\n{}\n.fi\n.SH DESCRIPTION\n",
        name.to_uppercase(),
        about.trim_end_matches('.'),
        roff(prototype)
    );
    for line in &comment {
        match (line.is_empty(), HEADINGS.iter().find(|(_, heading)| line == heading)) {
            (true, _) => page += ".PP\n",
            (false, Some((_, heading))) => {
                page += &format!(".SH {}\n", heading.trim_end_matches(':').to_uppercase());
            }
            (false, None) => page += &format!("{line}\n"),
        }
    }
    // A heading begins a paragraph by itself.
    while let Some((before, after)) = page.split_once(".PP\n.SH") {
        page = format!("{before}.SH{after}");
    }
    let page = HEADINGS.iter().fold(page, |page, (_, heading)| {
        let heading = format!(".SH {}\n", heading.trim_end_matches(':').to_uppercase());
        page.replace(&format!("{heading}.PP\n"), &heading)
    });
    let others = all.iter().filter(|other| other.name != *name);
    let others: Vec<String> = others
        .map(|other| format!(".BR {} (3)", other.name))
        .chain([".BR zonal (1)".into()])
        .collect();
    page + ".SH SEE ALSO\n" + &others.join(",\n") + "\n"
}

/// The headings of comments in the sources, and in the header.
pub const HEADINGS: [(&str, &str); 2] = [("# Safety", "Requirements:"), ("# Errors", "Errors:")];

/// Text as roff takes it.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "");
    text.lines()
        .map(
            |line| {
                if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
            },
        )
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/**\n * A flag.\n */\n#define ZONAL_FUA 1\n\n/**\n * A command.\n */\n\
        struct zonal_io {\n  uint64_t offset;\n};\n\n/**\n * Opens a device, `null` or a file. Waits for it.\n \
        *\n * Requirements:\n *\n * `name` is a string.\n */\nint zonal_open(const char *name,\n               \
        int flags);\n\n/**\n * Closes it.\n */\nvoid zonal_close(int device);\n";

    #[test]
    fn functions_of_a_header_are_found_with_their_comments() {
        let found = functions(HEADER);
        let names: Vec<&str> = found.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["zonal_open", "zonal_close"]);
        assert!(found[0].prototype.ends_with("int flags);"), "{found:?}");
        assert_eq!(found[1].comment, ["Closes it."]);
    }

    #[test]
    fn page_has_name_synopsis_description_requirements_and_others() {
        let all = functions(HEADER);
        let page = page(&all[0], &all, "0.2.0");
        for part in [
            ".SH NAME\nzonal_open \\- Opens a device, null or a file\n",
            "#include <zonal.h>\n\nint zonal_open(const char *name,\n",
            ".SH DESCRIPTION\nOpens a device, null or a file. Waits for it.\n.SH REQUIREMENTS\nname is a string.\n",
            ".SH SEE ALSO\n.BR zonal_close (3),\n.BR zonal (1)\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
