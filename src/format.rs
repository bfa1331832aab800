//! `--format`: a result as text, as JSON, as CSV or as a page. `docs/reference/output.md` has the fields.
use crate::terminal::stdout;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::io::Write;
use zonal_lab::page;
use zonal_lab::table::Table;

/// `--format`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people
    #[default]
    Text,
    /// Everything, for programs
    Json,
    /// Rows under a line of headings
    Csv,
    /// A page for a browser
    Html,
}

/// The options of a command that prints a result.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct FormatArgs {
    /// How the result is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The same as --format=json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl FormatArgs {
    /// The choice of JSON.
    pub fn json() -> Self {
        FormatArgs { format: Format::Text, json: true }
    }

    /// The format that was chosen.
    pub fn get(self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// A result in all formats, each of which is made when it is chosen.
pub struct Forms<T, J, C, H> {
    pub text: T,
    pub json: J,
    pub csv: C,
    /// The page, without the command that made it.
    pub html: H,
}

impl<T, J, C, H> Forms<T, J, C, H>
where
    T: FnOnce() -> String,
    J: FnOnce() -> String,
    C: FnOnce() -> String,
    H: FnOnce() -> Result<String>,
{
    /// Prints the result.
    ///
    /// # Errors
    /// The page cannot be made, or standard output cannot be written.
    pub fn print(self, format: FormatArgs) -> Result<()> {
        let text = match format.get() {
            Format::Text => (self.text)(),
            Format::Json => (self.json)(),
            Format::Csv => (self.csv)(),
            Format::Html => page::with_command(&(self.html)()?, std::env::args().skip(1)),
        };
        stdout().write_all(text.as_bytes())?;
        Ok(())
    }
}

/// Prints a result that is text for people and a JSON value for programs; its rows, and a page with them
/// under `title`, are those of the value.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(
    format: FormatArgs,
    title: &str,
    text: impl FnOnce() -> String,
    json: &Value,
) -> Result<()> {
    Forms {
        text,
        json: || pretty(json),
        csv: || Table::of_json(json).csv(),
        html: || Ok(page_of(title, &Table::of_json(json))),
    }
    .print(format)
}

/// A value as it is printed.
pub fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A page with a table.
pub fn page_of(title: &str, table: &Table) -> String {
    let mut out = page::begin(title);
    table.html(&mut out, usize::MAX);
    out + page::END
}
