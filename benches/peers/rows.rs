//! Figures as rows of CSV, so that those of other tools can be put beside them.
use std::collections::BTreeMap;
use std::fmt;

/// The first line of a file of rows.
pub const HEADER: &str = "work,tool,version,value,unit,spread";
/// The tool that the others are compared with.
pub const OWN: &str = "zonal";

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The operation.
    pub work: String,
    /// By what.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// How much of it, the median; more is better.
    pub value: f64,
    /// Of what.
    pub unit: String,
    /// How far apart the quartiles are, in percent of the median, if that is known.
    pub spread: Option<f64>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { work, tool, version, value, unit, spread } = self;
        let spread = spread.map_or_else(String::new, |spread| format!("{spread:.1}"));
        write!(f, "{work},{tool},{version},{value:.1},{unit},{spread}")
    }
}

impl Row {
    /// The row of what Zonal did in several rounds.
    pub fn of_rates(work: String, rates: impl Iterator<Item = f64>, unit: &str) -> Row {
        let (value, spread) = median_and_spread(rates.collect());
        let (tool, version) = (OWN.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Row { work, tool, version, value, unit: unit.to_owned(), spread: Some(spread) }
    }

    fn parse(line: &str) -> Result<Row, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [work, tool, version, value, unit, spread] = fields[..] else {
            return Err(format!("found {} fields, expected 6: {HEADER}", fields.len()));
        };
        let named = [("work", work), ("tool", tool), ("version", version), ("unit", unit)];
        if let Some((name, _)) = named.iter().find(|(_, text)| text.is_empty()) {
            return Err(format!("found no {name}"));
        }
        let number = |name: &str, text: &str, least: f64| match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= least => Ok(number),
            _ => Err(format!("{name}: found `{text}`, expected a number of at least {least}")),
        };
        Ok(Row {
            value: number("value", value, f64::MIN_POSITIVE)
                .map_err(|_| format!("value: found `{value}`, expected a number above 0"))?,
            spread: match spread {
                "" => None,
                spread => Some(number("spread", spread, 0.0)?),
            },
            work: work.to_owned(),
            tool: tool.to_owned(),
            version: version.to_owned(),
            unit: unit.to_owned(),
        })
    }
}

/// The median, and the distance between the quartiles in percent of it.
pub fn median_and_spread(mut rates: Vec<f64>) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    let at = |part: usize| rates[(rates.len() - 1) * part / 4];
    let median = rates[rates.len() / 2];
    (median, 100.0 * (at(3) - at(1)) / median)
}

/// The rows of a file. Empty lines and those that begin with `#` do not count.
///
/// # Errors
/// The error, with the number of the line.
pub fn parse(name: &str, text: &str) -> Result<Vec<Row>, String> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    match lines.next() {
        Some((_, HEADER)) => {}
        Some((number, found)) => {
            return Err(format!("{name}, line {number}: found `{found}`, expected `{HEADER}`"));
        }
        None => return Err(format!("{name}: found no rows, expected `{HEADER}` first")),
    }
    lines
        .map(|(number, line)| {
            Row::parse(line).map_err(|what| format!("{name}, line {number}: {what}"))
        })
        .collect()
}

/// The figures of each work beside each other, those of [`OWN`] first, and how many times another
/// tool's it reaches.
///
/// # Errors
/// Figures of one work have different units.
pub fn compare(rows: &[Row]) -> Result<String, String> {
    let mut works: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| works.entry(&row.work).or_default().push(row));
    let mut text = format!(
        "{:<36} {:<24} {:>12} {:<6} {:>8} {:>8}\n",
        "work", "tool", "value", "unit", "spread", OWN
    );
    for (work, mut rows) in works {
        rows.sort_by_key(|row| row.tool != OWN);
        if let Some(other) = rows.iter().find(|row| row.unit != rows[0].unit) {
            let (one, two) = (&rows[0].unit, &other.unit);
            return Err(format!("{work}: found figures in {one} and in {two}, expected one unit"));
        }
        let own = rows.iter().find(|row| row.tool == OWN).map(|row| row.value);
        for row in &rows {
            let tool = format!("{} {}", row.tool, row.version);
            let times = match own {
                Some(own) if row.tool != OWN => format!("{:.2} x", own / row.value),
                _ => String::new(),
            };
            let Row { value, unit, .. } = row;
            let spread = row.spread.map_or_else(String::new, |spread| format!("{spread:.1} %"));
            text +=
                &format!("{work:<36} {tool:<24} {value:>12.1} {unit:<6} {spread:>8} {times:>8}\n");
        }
    }
    Ok(text)
}
