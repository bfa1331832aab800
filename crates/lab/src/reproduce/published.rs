//! Published figures, and where they were published.
use serde::Deserialize;
use std::fmt;

/// The columns of a figure in CSV.
pub const COLUMNS: [&str; 9] =
    ["table", "device", "config", "scheduler", "workload", "metric", "unit", "value", "source"];

/// A publication.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its title or subject.
    pub title: String,
    /// The list or lists, and the date.
    pub place: String,
    /// Where it can be read; `None` where no address is known.
    pub link: Option<String>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title, self.place)?;
        self.link.as_ref().map_or(Ok(()), |link| write!(f, "\n        {link}"))
    }
}

/// One published figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its fields, in the order of `COLUMNS`.
    pub fields: [String; 9],
}

impl Figure {
    /// The device, as the publication names it.
    pub fn device(&self) -> &str {
        &self.fields[1]
    }

    /// The value as text; `withheld` for one that is kept back to test predictions.
    pub fn text(&self) -> &str {
        &self.fields[7]
    }

    /// The value; `None` if it is withheld.
    pub fn value(&self) -> Option<f64> {
        self.text().parse().ok()
    }
}
