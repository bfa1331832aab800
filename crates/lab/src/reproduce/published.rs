//! The published figures, built in from `data/published.csv`.
use anyhow::{Context, Result, ensure};
use std::fmt;
use std::sync::LazyLock;

const TEXT: &str = include_str!("../../data/published.csv");

/// The columns of the file.
pub const COLUMNS: [&str; 9] =
    ["table", "device", "config", "scheduler", "workload", "metric", "unit", "value", "source"];

/// A publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its title or subject.
    pub title: &'static str,
    /// The list or lists, and the date.
    pub place: &'static str,
    /// Where it can be read; `None` where no address is known.
    pub link: Option<&'static str>,
}

/// The publications, by the titles in the column `source`.
const SOURCES: [Source; 9] = [
    Source {
        title: "[PATCH v6 00/28] Zone write plugging",
        place: "linux-block and linux-nvme, 5 April 2024, performance evaluation",
        link: Some(
            "https://lore.kernel.org/linux-block/20240405044207.1123462-1-dlemoal@kernel.org/",
        ),
    },
    Source {
        title: "[PATCH 0/8] Improve zoned (SMR) HDD write throughput",
        place: "linux-block, 21 February 2026",
        link: Some(
            "https://lore.kernel.org/linux-block/20260221004411.548482-9-dlemoal@kernel.org/T/",
        ),
    },
    Source {
        title: "[LSF/MM/BPF TOPIC] Improving Zoned Storage Support",
        place: "linux-block, 17 January 2024",
        link: Some(
            "https://lore.kernel.org/linux-block/5b3e6a01-1039-4b68-8f02-386f3cc9ddd1@acm.org/T/",
        ),
    },
    Source {
        title: "NCQ vs UFS/ZFS benchmark [Was: Re: FreeBSD 8.0 Performance (at Phoronix)]",
        place: "FreeBSD lists, 3 December 2009",
        link: None,
    },
    Source {
        title: "[PATCH v3 3/4] nvme: move ns id info to struct nvme_ns_head",
        place: "linux-nvme, 7 December 2023",
        link: Some(
            "https://lore.kernel.org/linux-nvme/xpbwa63z7w6fa7mykmhhd56vdm3746y2x7vvtp5xj2st5aupvz@4rrj7gxzu66c/",
        ),
    },
    Source {
        title: "stonet-research/NVMeBenchmarks",
        place: "data set, MIT licence, of IEEE CLUSTER 2023",
        link: Some("https://github.com/stonet-research/NVMeBenchmarks"),
    },
    Source {
        title: "stonet-research/systor-confznsplusplus-artifact",
        place: "artefact, MIT licence, SYSTOR 2024",
        link: Some("https://github.com/stonet-research/systor-confznsplusplus-artifact"),
    },
    Source {
        title: "Analytic Models of SSD Write Performance",
        place: "P. Desnoyers, ACM Transactions on Storage 10(2), 2014; values of its formulas",
        link: None,
    },
    Source {
        title: "Towards Efficient Flash Caches with Emerging NVMe Flexible Data Placement SSDs",
        place: "EuroSys 2025",
        link: Some("https://arxiv.org/abs/2503.11665"),
    },
];

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title, self.place)?;
        self.link.map_or(Ok(()), |link| write!(f, "\n        {link}"))
    }
}

/// One published figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its fields in the file, in the order of `COLUMNS`.
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

    /// The device, as the publication names it.
    pub fn device(&self) -> &str {
        self.field("device")
    }

    /// The value as text; `withheld` for one that is kept back to test predictions.
    pub fn text(&self) -> &str {
        self.field("value")
    }

    /// The value; `None` if it is withheld.
    pub fn value(&self) -> Option<f64> {
        self.text().parse().ok()
    }

    /// Where it was published.
    pub fn source(&self) -> Option<&'static Source> {
        SOURCES.iter().find(|source| source.title == self.field("source"))
    }

    /// The unit of the value.
    pub fn unit(&self) -> &str {
        self.field("unit")
    }

    /// Whether this is the figure of `key`.
    pub fn matches(&self, key: &Key) -> bool {
        self.field("device") == key.device
            && self.field("config") == key.config
            && self.field("scheduler") == key.scheduler
            && self.field("workload") == key.workload
    }
}

/// Identifies a figure among those of a table in the same unit.
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
    LazyLock::new(|| parse(TEXT).expect("the built-in file is well formed"));

/// The figures of a table, in the order of the file.
pub fn figures_of(table: &str) -> Vec<Figure> {
    FIGURES.iter().filter(|figure| figure.table() == table).cloned().collect()
}

/// Parses figures from CSV.
pub fn parse(text: &str) -> Result<Vec<Figure>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().context("line 1")?;
    ensure!(header == COLUMNS.as_slice(), "line 1: expected the columns {}", COLUMNS.join(","));
    let figure = |record: csv::Result<csv::StringRecord>| {
        let fields: Vec<String> = record?.iter().map(str::to_owned).collect();
        let fields = fields.try_into().ok().context("expected nine fields")?;
        Ok(Figure { fields })
    };
    reader.records().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_figure_is_read() {
        assert_eq!(figures_of("zwp-null_blk").len(), 24);
        assert_eq!(figures_of("mq-deadline-scaling").len(), 6);
        assert_eq!(figures_of("no-such-table"), []);
        let device = "null_blk zoned, 4096 zones x 256 MB, 128 max open";
        let key = Key { device, config: "ZWP", scheduler: "none", workload: "rndw4K16".to_owned() };
        let figures = figures_of("zwp-null_blk");
        let figure = figures.iter().find(|figure| figure.matches(&key)).expect("it was published");
        assert_eq!(figure.value(), Some(344.0));
    }

    #[test]
    fn key_and_unit_of_a_figure_are_unique() {
        let [.., metric, unit, value, source] = COLUMNS;
        assert_eq!([metric, unit, value, source], ["metric", "unit", "value", "source"]);
        let keys = FIGURES.iter().map(|figure| (&figure.fields[..5], figure.unit()));
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        let same = keys.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(same, None);
    }

    #[test]
    fn source_of_every_figure_is_known() {
        let unknown = FIGURES.iter().find(|figure| figure.source().is_none());
        assert_eq!(unknown, None);
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
