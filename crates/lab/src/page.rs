//! Self-contained HTML pages: well-formed XML without references, and with one script, which copies
//! the command. Colours follow the reader's preference for light or dark.
use std::fmt::Write;

/// One look for all pages. The colours of series are those of [`chart`](crate::chart).
const STYLE: &str = include_str!("page.css");

/// The start of a page, with its first heading.
pub fn begin(title: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\" />\n\
         <meta name=\"viewport\" content=\"width=device-width\" />\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n"
    )
}

/// The end of a page, with the version.
pub const END: &str =
    concat!("<footer><p>zonal ", env!("CARGO_PKG_VERSION"), "</p>\n</footer>\n</body>\n</html>\n");

/// Copies the command. Without a clipboard the text can be selected.
const COPY: &str = "<script>\
document.querySelector('.copy').addEventListener('click', function (event) {\
event.preventDefault();\
navigator.clipboard.writeText(document.querySelector('.command code').textContent);\
event.target.textContent = 'copied';\
});</script>\n";

/// A page that ends with the command that made it, and a button that copies it.
pub fn with_command(page: &str, arguments: impl Iterator<Item = String>) -> String {
    let quoted = |word: String| shlex::try_quote(&word).map_or(word.clone(), Into::into);
    let words: Vec<String> =
        std::iter::once("zonal".to_owned()).chain(arguments.map(quoted)).collect();
    let command = escaped(&words.join(" "));
    let line = format!(
        "<p class=\"command\"><code>{command}</code> <button class=\"copy\" type=\"button\">copy</button></p>\n{COPY}"
    );
    format!("{}{line}{END}", page.strip_suffix(END).unwrap_or(page))
}

/// A paragraph for each line.
pub fn paragraphs<T: AsRef<str>>(out: &mut String, lines: impl IntoIterator<Item = T>) {
    for line in lines {
        let _ = writeln!(out, "<p>{}</p>", escaped(line.as_ref()));
    }
}

/// The end of a figure: its data as a table after it.
pub fn end_figure(out: &mut String, data: &str) {
    let _ = writeln!(out, "<details><summary>Data</summary>\n{data}</details>\n</figure>");
}

/// Names of the colours `series0` and so on, as a list.
pub fn legend(out: &mut String, names: impl Iterator<Item = String>) {
    *out += "<ul class=\"legend\">";
    for (colour, name) in names.enumerate() {
        let _ = write!(
            out,
            "<li><svg width=\"12\" height=\"12\"><rect class=\"series{colour}\" width=\"12\" \
             height=\"12\" /></svg> {}</li>",
            escaped(&name)
        );
    }
    *out += "</ul>";
}

/// Text escaped for use between tags and in attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
