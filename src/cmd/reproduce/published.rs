//! The published figures, as the program carries them.
use anyhow::{Context, Result};
use std::sync::LazyLock;

/// `src/data/published.csv`.
const TEXT: &str = include_str!("../../data/published.csv");

/// The columns of the file.
pub const COLUMNS: [&str; 9] =
    ["table", "device", "config", "scheduler", "workload", "metric", "unit", "value", "source"];

/// One published figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The fields as they stand in the file, by [`COLUMNS`].
    pub fields: [String; 9],
}

impl Figure {
    fn field(&self, column: &str) -> &str {
        let at = COLUMNS.iter().position(|known| *known == column);
        &self.fields[at.expect("the column is one of the file's")]
    }

    /// The table it belongs to.
    pub fn table(&self) -> &str {
        self.field("table")
    }

    /// The device, in the words of the publication.
    pub fn device(&self) -> &str {
        self.field("device")
    }

    /// The value as written; `withheld` for one that is kept back to test predictions.
    pub fn text(&self) -> &str {
        self.field("value")
    }

    /// The value; `None` if it is withheld.
    pub fn value(&self) -> Option<f64> {
        self.text().parse().ok()
    }

    /// What the value is in.
    pub fn unit(&self) -> &str {
        self.field("unit")
    }

    /// Whether this is the figure of a device, a configuration, a scheduler and a workload.
    pub fn is(&self, key: &Key) -> bool {
        self.field("device") == key.device
            && self.field("config") == key.config
            && self.field("scheduler") == key.scheduler
            && self.field("workload") == key.workload
    }
}

/// What tells the figures of a table in one unit apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Column `device`.
    pub device: &'static str,
    /// Column `config`.
    pub config: &'static str,
    /// Column `scheduler`.
    pub scheduler: &'static str,
    /// Column `workload`.
    pub workload: String,
}

static FIGURES: LazyLock<Vec<Figure>> =
    LazyLock::new(|| parse(TEXT).expect("the file that was built in is well formed"));

/// The figures of a table, in the order of the file.
pub fn of(table: &str) -> Vec<Figure> {
    FIGURES.iter().filter(|figure| figure.table() == table).cloned().collect()
}

/// Reads figures.
pub fn parse(text: &str) -> Result<Vec<Figure>> {
    let mut lines = text.lines();
    let header = lines.next().map(fields).unwrap_or_default();
    anyhow::ensure!(header == COLUMNS, "expected the columns {}", COLUMNS.join(","));
    let figure = |(number, line)| {
        let fields = fields(line).try_into().ok();
        let fields = fields.with_context(|| format!("line {number}: expected nine fields"))?;
        Ok(Figure { fields })
    };
    (2..).zip(lines).map(figure).collect()
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let field = fields.last_mut().expect("there is always a field");
        match c {
            // Twice within quotes it stands for itself.
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields
}

/// A field as it stands in a line of CSV.
pub fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_that_was_built_in_is_read() {
        assert_eq!(of("zwp-null_blk").len(), 24);
        assert_eq!(of("mq-deadline-scaling").len(), 6);
        assert_eq!(of("no-such-table"), []);
        let device = "null_blk zoned, 4096 zones x 256 MB, 128 max open";
        let key = Key { device, config: "ZWP", scheduler: "none", workload: "rndw4K16".to_owned() };
        let figures = of("zwp-null_blk");
        let figure = figures.iter().find(|figure| figure.is(&key)).expect("it was published");
        assert_eq!(figure.value(), Some(344.0));
    }

    #[test]
    fn what_identifies_a_figure_is_in_the_file_once() {
        let [.., metric, unit, value, source] = COLUMNS;
        assert_eq!([metric, unit, value, source], ["metric", "unit", "value", "source"]);
        let keys = FIGURES.iter().map(|figure| (&figure.fields[..5], figure.unit()));
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        let same = keys.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(same, None);
    }

    #[test]
    fn fields_with_commas_and_quotes_go_there_and_back() {
        let line = "a,\"b, c\",\"say \"\"d\"\"\",,e";
        let read = fields(line);
        assert_eq!(read, ["a", "b, c", "say \"d\"", "", "e"]);
        let written: Vec<String> = read.iter().map(|field| quoted(field)).collect();
        assert_eq!(written.join(","), line);
    }

    #[test]
    fn withheld_figures_have_no_value() {
        let text = format!("{}\nt,d,c,s,w,iops,KIOPS,withheld,x\n", COLUMNS.join(","));
        let figures = parse(&text).unwrap();
        assert_eq!((figures[0].value(), figures[0].text()), (None, "withheld"));
        assert!(parse("a,b\n").is_err());
        assert!(parse(&format!("{}\n1,2\n", COLUMNS.join(","))).is_err());
    }
}
