//! A published table: cells that can be measured, each with the value that it is compared with.
use super::published::{Figure, Source};
use super::settings::MeasureSettings;
use crate::executor::ClockKind;
use crate::experiment::{RunLength, Unit};
use serde::Deserialize;
use zonal_blk::ZoneWrite;

/// A published table and how to measure it again.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name: that of its file without the extension.
    pub name: String,
    /// One line that says what it shows.
    pub about: String,
    /// Where its figures were published.
    pub source: Option<Source>,
    /// How it is printed.
    pub layout: Layout,
    /// In [`Layout::Curves`], the option that varies from column to column.
    pub axis: String,
    /// The part that can be compared with the publication.
    pub comparability: Comparability,
    /// How it is measured by default.
    pub settings: MeasureSettings,
    /// The bases of the percentages; each cell has a base or none for each of them.
    pub comparisons: Vec<Comparison>,
    /// The cells in the order in which they are printed.
    pub cells: Vec<Cell>,
    /// The picture of a disk's head at a zone border.
    pub crossings: Crossings,
    /// The parameters of the models that were adjusted to published figures.
    pub parameters: FreeParameters,
    /// Remarks below it.
    pub remarks: Vec<Remark>,
}

/// Cells of rotating disks whose head is plotted while it crosses a zone border.
#[derive(Clone, Debug, Default)]
pub struct Crossings {
    /// The title of the picture.
    pub title: String,
    /// The cells, one curve each; none if there is no such picture.
    pub cells: Vec<usize>,
}

/// A remark below a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Remark {
    /// A sentence.
    Text(String),
    /// In which columns the row of this name is slower than the one that it is compared with.
    Slower {
        /// The row.
        slower: String,
    },
    /// The least of the last comparison, which is one of the scheduler of this name with none.
    Least {
        /// The scheduler.
        least: String,
    },
}

/// The part of a table that can be compared with the publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Comparability {
    /// The ratios between cells: the figures are those of another machine.
    Ratios,
    /// Each figure: the device is a model of the published one.
    Figures,
}

/// The use of a published figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureUse {
    /// Nothing: the measured figure is a prediction.
    #[default]
    Prediction,
    /// A parameter was adjusted to it.
    Calibration,
    /// A parameter was computed from it, so that the measured figure cannot differ.
    Identity,
}

impl FigureUse {
    /// As JSON and CSV name it.
    pub fn name(self) -> &'static str {
        match self {
            FigureUse::Prediction => "prediction",
            FigureUse::Calibration => "calibration",
            FigureUse::Identity => "identity",
        }
    }

    /// The text after a published figure.
    pub fn mark(self) -> &'static str {
        match self {
            FigureUse::Prediction => "",
            FigureUse::Calibration => " c",
            FigureUse::Identity => " i",
        }
    }
}

/// The parameters of a table's models that were adjusted to published figures, of this table or of
/// others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeParameters {
    /// Their names.
    pub names: Vec<String>,
    /// Those that no cell of the table depends on: ten per cent more or less change no figure by
    /// more than one per cent.
    pub inert: Vec<String>,
}

/// How a table is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Rows and columns of cells, the published figure above the measured one.
    Grid,
    /// One row per cell, the published figure beside the measured one.
    List,
    /// A list in which the table's rows are curves and its columns points at equal distances.
    Curves,
}

/// A percentage that is printed with a figure.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Heading of a column, and text of the note below the table.
    pub heading: String,
    /// How it is computed.
    pub kind: PercentKind,
}

/// How a percentage is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PercentKind {
    /// How much more or less than the base: `+12.3%`.
    Change,
    /// Part of the base: `78%`.
    Share,
}

/// One cell.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Heading of its row.
    pub row: String,
    /// Heading of its column, in a [`Layout::Grid`] and in [`Layout::Curves`].
    pub column: String,
    /// The published figure; `None` for a cell that only serves as a base of others.
    pub figure: Option<Figure>,
    /// The use of that figure.
    pub figure_use: FigureUse,
    /// The unit of its figure.
    pub unit: Unit,
    /// How it is measured.
    pub setup: Setup,
    /// The value that it is compared with, by [`Table::comparisons`].
    pub bases: Vec<Option<Base>>,
}

/// The cell that another is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Base {
    /// The index of another cell of the table.
    pub cell: usize,
    /// A factor by which that cell's figure is multiplied.
    pub times: f64,
}

/// How a cell is measured: the arguments of `zonal run`, without the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The scheduler.
    pub scheduler: String,
    /// The zone-write policy; `None` for the device's default.
    pub zone_write: Option<ZoneWrite>,
    /// Options of the jobs; each names its device.
    pub jobs: Vec<String>,
}

impl Setup {
    /// The command that measures such a cell for as long as a round.
    pub fn command(&self, settings: &MeasureSettings) -> String {
        let mut command = "zonal run".to_owned();
        if settings.clock == ClockKind::Virtual {
            command += &format!(" --clock virtual --io-cost {}", settings.costs_argument());
        }
        if settings.seed != 0 {
            command += &format!(" --seed {}", settings.seed);
        }
        command += &format!(" --scheduler {}", self.scheduler);
        if let Some(policy) = self.zone_write {
            command += &format!(" --zone-write {}", policy.name());
        }
        command += " --group_reporting";
        if let Some(RunLength { ramp, measured }) = settings.round() {
            let micros = |seconds: f64| (seconds * 1e6).round();
            let (ramp, measured) = (micros(ramp), micros(measured));
            command += &format!(" --time_based --ramp_time={ramp}us --runtime={measured}us");
        }
        command + " " + &self.jobs.join(" ")
    }
}

impl Table {
    /// The table with some of its cells only.
    pub fn with_cells(mut self, is_kept: impl Fn(usize) -> bool) -> Self {
        let kept: Vec<usize> = (0..self.cells.len()).filter(|&at| is_kept(at)).collect();
        let moved = |at: usize| kept.binary_search(&at).ok();
        for base in self.cells.iter_mut().flat_map(|cell| &mut cell.bases) {
            *base = base.and_then(|base| Some(Base { cell: moved(base.cell)?, ..base }));
        }
        self.crossings.cells = self.crossings.cells.iter().filter_map(|&at| moved(at)).collect();
        let cells = self.cells.into_iter().enumerate().filter(|&(at, _)| is_kept(at));
        self.cells = cells.map(|(_, cell)| cell).collect();
        self
    }

    /// Whether a cell is measured on a device of this profile.
    pub fn is_on(&self, profile: &str) -> bool {
        let is_its = |option: &String| {
            let device = option.strip_prefix("--filename=");
            device.and_then(|device| device.split(':').next()) == Some(profile)
        };
        self.cells.iter().any(|cell| cell.setup.jobs.iter().any(is_its))
    }

    /// The published figures of the table.
    pub fn figures(&self) -> Vec<Figure> {
        self.cells.iter().filter_map(|cell| cell.figure.clone()).collect()
    }

    /// The cell of a published figure.
    pub fn cell_of(&self, figure: &Figure) -> Option<usize> {
        self.cells.iter().position(|cell| cell.figure.as_ref() == Some(figure))
    }

    /// The headings of rows or columns, in the order of their first cells.
    pub fn headings(&self, of: impl Fn(&Cell) -> &str) -> Vec<&str> {
        let mut seen = Vec::new();
        for heading in self.cells.iter().map(of) {
            if !seen.contains(&heading) {
                seen.push(heading);
            }
        }
        seen
    }

    /// The name of a cell in a sentence.
    pub fn name_of(&self, cell: usize) -> String {
        let Cell { row, column, .. } = &self.cells[cell];
        match self.layout {
            Layout::Grid => format!("{row} {column}"),
            Layout::List => row.trim().to_owned(),
            Layout::Curves => format!("{row}, {} {column}", self.axis),
        }
    }

    /// The cell in a row and a column.
    pub fn at(&self, row: &str, column: &str) -> Option<usize> {
        self.cells.iter().position(|cell| cell.row == row && cell.column == column)
    }
}

impl PercentKind {
    /// A ratio as text.
    pub fn format(self, ratio: f64) -> String {
        let percent = ratio * 100.0;
        match self {
            PercentKind::Change => format!("{:+.1}%", percent - 100.0),
            PercentKind::Share => format!("{percent:.0}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_sim::CostModel;

    #[test]
    fn percentages_are_changes_or_shares() {
        assert_eq!(PercentKind::Change.format(344.0 / 424.0), "-18.9%");
        assert_eq!(PercentKind::Change.format(2639.0 / 940.0), "+180.7%");
        assert_eq!(PercentKind::Change.format(1.0), "+0.0%");
        assert_eq!(PercentKind::Share.format(3.9 / 5.0), "78%");
    }

    #[test]
    fn units_are_those_of_the_published_figures() {
        assert_eq!(Unit::MegabytesPerSecond.of(1000.0, 4_096_000.0, 1.0), 4.096);
        assert_eq!(Unit::Kiops.of(1500.0, 0.0, 1.0), 1.5);
        assert_eq!(Unit::Miops.of(1_500_000.0, 0.0, 1.0), 1.5);
    }

    #[test]
    fn command_contains_the_whole_setup_of_a_cell() {
        let setup = Setup {
            scheduler: "mq-deadline".to_owned(),
            zone_write: Some(ZoneWrite::Lock),
            jobs: vec!["--name=a".to_owned(), "--bs=4k".to_owned()],
        };
        let settings =
            MeasureSettings { rounds: 2, seconds: Some(1.0), ..MeasureSettings::real_time() };
        let expected = "--scheduler mq-deadline --zone-write lock --group_reporting --time_based \
                        --ramp_time=50000us --runtime=450000us --name=a --bs=4k";
        assert_eq!(setup.command(&settings), format!("zonal run {expected}"));
        let simulated = MeasureSettings { clock: ClockKind::Virtual, seed: 3, ..settings };
        assert_eq!(
            setup.command(&simulated),
            format!("zonal run --clock virtual --io-cost 1000 --seed 3 {expected}")
        );
        let published = MeasureSettings { costs: CostModel::Published, ..simulated };
        assert!(setup.command(&published).contains(" --io-cost published "));
    }
}
