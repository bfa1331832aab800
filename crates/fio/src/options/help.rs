//! Help text and documentation, generated from the table of options.
use super::kind::ValueKind;
use super::table::{GROUPS, OptionSpec, supported};
use super::{FioOption, find, unsupported};
use std::fmt::Write;

/// Width of the help text in columns.
const WIDTH: usize = 80;
/// Indentation of an option's description.
const INDENT: usize = 8;

/// A supported option as it is explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionHelp {
    /// The heading that it stands under.
    pub group: &'static str,
    /// fio's name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// The form of its value, such as `size` or `0|1`.
    pub form: String,
    /// Its default; empty for none.
    pub default: &'static str,
    /// Its effect, in one sentence.
    pub help: &'static str,
}

/// The supported options, in the order of [`help_text`].
pub fn all() -> impl Iterator<Item = OptionHelp> {
    GROUPS.iter().flat_map(|(_, group, specs)| {
        specs.iter().map(|spec| {
            let &OptionSpec { name, aliases, default, help, .. } = spec;
            OptionHelp { group, name, aliases, form: form(&spec.kind), default, help }
        })
    })
}

/// The supported options as text, for `--help`.
pub fn help_text() -> String {
    let mut text = String::new();
    for (_, heading, specs) in GROUPS {
        let _ = writeln!(text, "{heading}:");
        for spec in *specs {
            text.push_str(&broken(&synopsis(spec)));
            let mut help = spec.help.to_owned();
            if !spec.default.is_empty() {
                let _ = write!(help, " [default: {}]", spec.default);
            }
            wrap(&mut text, &help);
        }
        text.push('\n');
    }
    text
}

/// The supported and unsupported options as Markdown tables, for the documentation.
pub fn markdown() -> String {
    let mut text = String::new();
    for (_, heading, specs) in GROUPS {
        let _ = writeln!(text, "## {heading}\n\n| Option | Default | Meaning |\n|---|---|---|");
        for spec in *specs {
            let default = if spec.default.is_empty() { "none" } else { spec.default };
            let names: Vec<String> = spec.names().map(|name| format!("`{name}`")).collect();
            let form = form(&spec.kind).replace('|', "\\|");
            let names = names.join(", ");
            let _ = writeln!(text, "| {names} = *{form}* | {default} | {} |", spec.help);
        }
        text.push('\n');
    }
    text.push_str(
        "## Unsupported options of fio\n\n\
         A job with one of these is refused, as it would not run as in fio; with \
         `--allow-unsupported` it runs without it, and says so.\n\n\
         | Option | What happens instead |\n|---|---|\n",
    );
    for (name, instead) in unsupported::changes() {
        let _ = writeln!(text, "| `{name}` | {instead} |");
    }
    text.push_str(
        "\nThese do not affect what is measured; one line lists those that are given:\n\n\
         | Options | Why they have no effect |\n|---|---|\n",
    );
    for (why, names) in unsupported::reasons() {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} | {why} |", names.join(", "));
    }
    text
}

/// A line for each supported option, as fio's `--cmdhelp` prints them.
pub fn list() -> String {
    supported().map(|spec| format!("{:<24}: {}\n", spec.name, spec.help)).collect()
}

/// The text that fio's `--cmdhelp=NAME` prints of an option; `None` for an unknown name.
pub fn describe(name: &str) -> Option<String> {
    let (mut lines, mut last) = (String::new(), "");
    let mut line = |label: &'static str, text: &str| {
        let label = if std::mem::replace(&mut last, label) == label { "" } else { label };
        let _ = writeln!(lines, "{label:>20}: {text}");
    };
    let spec = match find(name)? {
        FioOption::Supported(spec) => spec,
        FioOption::Unsupported(unused) => {
            line(unused.name, "an option of fio that Zonal does not have");
            line("because", unsupported::reason(unused.name));
            return Some(lines);
        }
    };
    line(spec.name, spec.help);
    spec.aliases.iter().for_each(|alias| line("alias", alias));
    line("type", fio_type(&spec.kind));
    line("default", if spec.default.is_empty() { "no default" } else { spec.default });
    match &spec.kind {
        ValueKind::Number { min, max, .. } | ValueKind::Triple { min, max, .. } => {
            line("range", &format!("min={min}, max={max}"));
        }
        ValueKind::Word(words) | ValueKind::Words(words) => {
            let supported = words.iter().filter(|(_, set)| set.is_ok());
            supported.for_each(|(word, _)| line("valid values", word));
        }
        _ => {}
    }
    Some(lines)
}

/// A kind of value in the words of fio's `--cmdhelp`.
fn fio_type(kind: &ValueKind) -> &'static str {
    match kind {
        ValueKind::Flag(_) => "empty or boolean value ([0|1])",
        ValueKind::Bool(_) => "boolean value (opt=1)",
        ValueKind::Seconds(_) | ValueKind::Micros(_) | ValueKind::MicrosTriple(_) => {
            "string with time postfix (opt=10s)"
        }
        ValueKind::Number { .. } | ValueKind::Triple { .. } => "integer value (opt=100)",
        ValueKind::Size(_) | ValueKind::SizeRange(_) | ValueKind::Extent(_) => {
            "string with possible k/m/g postfix (opt=4k)"
        }
        _ => "string (opt=bla)",
    }
}

/// A synopsis as indented lines, broken between the words of a long list.
fn broken(synopsis: &str) -> String {
    let (mut text, mut column) = ("  ".to_owned(), 2);
    for word in synopsis.split_inclusive('|') {
        if column + word.len() > WIDTH {
            text.push('\n');
            text.push_str(&" ".repeat(INDENT));
            column = INDENT;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
    text
}

fn synopsis(spec: &OptionSpec) -> String {
    let names: Vec<&str> = spec.names().collect();
    let form = form(&spec.kind);
    match spec.kind {
        ValueKind::Flag(_) | ValueKind::OptionalText(_) => {
            format!("{}[={form}]", names.join(", "))
        }
        _ => format!("{}={form}", names.join(", ")),
    }
}

fn form(kind: &ValueKind) -> String {
    match kind {
        ValueKind::Flag(_) | ValueKind::Bool(_) => "0|1".to_owned(),
        ValueKind::Number { .. } => "number".to_owned(),
        ValueKind::Size(_) => "size".to_owned(),
        ValueKind::Triple { .. } => "size[,size][,size]".to_owned(),
        ValueKind::SizeRange(_) => "size[-size]".to_owned(),
        ValueKind::Ranges(_) => "size[-size][,...]".to_owned(),
        ValueKind::Splits(_) => "size[/N%][:...][,...]".to_owned(),
        ValueKind::PrioShares(_) => "size/N%[/class/level][:...][,...]".to_owned(),
        ValueKind::Distribution(_) => "name[:...]".to_owned(),
        ValueKind::Extent(_) => "size|N%|Nz".to_owned(),
        ValueKind::Seconds(_) | ValueKind::Micros(_) => "time".to_owned(),
        ValueKind::SecondsRange(_) => "time[-time]".to_owned(),
        ValueKind::FileService(_) => {
            "roundrobin|sequential|random|zipf|pareto|normal[:number]".to_owned()
        }
        ValueKind::MicrosTriple(_) => "time[,time][,time]".to_owned(),
        ValueKind::Percentage(_) => "percentage".to_owned(),
        ValueKind::Percentiles(_) => "percentage[:...]".to_owned(),
        ValueKind::Criterion(_) => "name:limit".to_owned(),
        ValueKind::Word(words) => {
            let supported = words.iter().filter(|(_, set)| set.is_ok()).map(|(word, _)| *word);
            supported.collect::<Vec<_>>().join("|")
        }
        ValueKind::Words(words) => {
            format!("list of {}", words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join("|"))
        }
        ValueKind::Pattern(_) => "pattern[:number]".to_owned(),
        ValueKind::Cpus(_) | ValueKind::Indices(_) => "list".to_owned(),
        ValueKind::Fraction(_) => "0...1".to_owned(),
        ValueKind::FillPattern(_) => "bytes".to_owned(),
        ValueKind::Errors(_) => "list[,list][,list]".to_owned(),
        ValueKind::Text(_) | ValueKind::OptionalText(_) => "text".to_owned(),
    }
}

fn wrap(text: &mut String, help: &str) {
    let mut column = 0;
    for word in help.split_whitespace() {
        if column > 0 && column + 1 + word.len() > WIDTH {
            text.push('\n');
            column = 0;
        }
        if column == 0 {
            text.push_str(&" ".repeat(INDENT));
            column = INDENT;
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_option_and_alias_within_its_width() {
        let help = help_text();
        for name in supported().flat_map(OptionSpec::names) {
            assert!(help.contains(name), "{name}");
        }
        for line in help.lines() {
            assert!(line.len() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn descriptions_have_the_lines_of_fio() {
        let iodepth = "             iodepth: I/Os in flight per clone.\n\
                       \u{20}               type: integer value (opt=100)\n\
                       \u{20}            default: 1\n\
                       \u{20}              range: min=1, max=1048576\n";
        assert_eq!(describe("iodepth").as_deref(), Some(iodepth));
        let zonemode = describe("zonemode").expect("an option");
        assert!(zonemode.contains("        valid values: none\n                    : zbd\n"));
        assert!(describe("readwrite").expect("an alias").contains("alias: readwrite\n"));
        assert_eq!(describe("iodeph"), None);
        assert_eq!(list().lines().count(), supported().count());
    }

    #[test]
    fn markdown_tables_have_three_columns() {
        let markdown = markdown();
        let tables = markdown.split("## Unsupported options").next().expect("tables");
        for line in tables.lines().filter(|line| line.starts_with("| `")) {
            assert_eq!(line.replace("\\|", "").matches('|').count(), 4, "{line}");
        }
    }
}
