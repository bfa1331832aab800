//! What a table is: cells that can be measured, and what each is compared with.
use super::how::MeasureSettings;
use super::measured::Measured;
use super::published::{self, Figure, Key};
use crate::cli::ClockKind;
use crate::experiment::RunLength;
pub use crate::experiment::Unit;
use zonal_blk::{Nanos, ZoneWrite};
use zonal_sim::CostModel;

/// A published table and how to make it again.
pub struct Table {
    /// Its name in the column `table` of the published figures.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// How it is printed.
    pub layout: Layout,
    /// What can be compared with the publication.
    pub claim: Claim,
    /// How it is measured unless somebody wants it otherwise.
    pub method: Method,
    /// What the percentages are of; each cell has a base for each of them or none.
    pub comparisons: &'static [Comparison],
    /// The cells in the order in which they are printed.
    pub cells: Vec<Cell>,
    /// Cells of rotating disks whose head is plotted while it crosses a zone border.
    pub crossings: Vec<usize>,
    /// What the results mean, computed from them.
    pub remarks: fn(&Measured) -> Vec<String>,
}

/// What of a table can be compared with the publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// How cells compare with one another: the figures are those of another machine.
    Percentages,
    /// Each figure: the device is a model of the published one.
    Figures,
}

/// How a table is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Method {
    /// The clock. In virtual time cells are independent of one another and of the machine.
    pub clock: ClockKind,
    /// Times that each cell is measured, with a seed each.
    pub rounds: u32,
    /// Seconds of that clock for each cell, over all rounds; `None` for jobs that run to their end.
    pub seconds: Option<f64>,
    /// What I/Os cost their threads in virtual time.
    pub costs: CostModel,
}

/// A thread's time for an I/O where nothing is known about the machine: 1 us.
pub const ANY_MACHINE: CostModel = CostModel::Flat(Nanos(1000));

/// How a table is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Rows and columns of cells, the published figure above ours.
    Grid,
    /// A row for each cell, the published figure beside ours.
    List,
    /// The same, where the rows of a table are curves and its columns the points, evenly apart.
    Curves {
        /// What changes from column to column.
        axis: &'static str,
    },
}

/// A percentage that is printed with a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Heading of a column, or what the note below the table says.
    pub heading: &'static str,
    /// How it is computed.
    pub style: Style,
}

/// How a percentage is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// How much more or less than the base: `+12.3%`.
    Change,
    /// Part of the base: `78%`.
    Share,
}

/// One cell.
pub struct Cell {
    /// Heading of its row.
    pub row: String,
    /// Heading of its column, in a [`Layout::Grid`] and in [`Layout::Curves`].
    pub column: String,
    /// The published figure; `None` for a cell that is only there to compare with.
    pub published: Option<Key>,
    /// What it is measured in.
    pub unit: Unit,
    /// How it is measured.
    pub setup: Setup,
    /// What it is compared with, by [`Table::comparisons`].
    pub bases: Vec<Option<Base>>,
}

/// What a cell is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Base {
    /// The place of another cell of the table.
    pub cell: usize,
    /// So many times what that cell shows.
    pub times: f64,
}

/// How a cell is measured: what `zonal run` would be given, but for the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The scheduler.
    pub scheduler: &'static str,
    /// The zone-write policy; `None` for what suits the device.
    pub zone_write: Option<ZoneWrite>,
    /// Options of the jobs; each names its device.
    pub jobs: Vec<String>,
}

impl Setup {
    /// The command that measures such a cell for as long as a round does.
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
    /// A table of a model of the published device: its figures are what to compare, and there are
    /// no remarks.
    pub fn of_model(
        name: &'static str,
        about: &'static str,
        layout: Layout,
        method: Method,
        cells: Vec<Cell>,
    ) -> Self {
        Table {
            name,
            about,
            layout,
            claim: Claim::Figures,
            method,
            comparisons: &[],
            cells,
            crossings: Vec::new(),
            remarks: |_| Vec::new(),
        }
    }

    /// The published figures of the table.
    pub fn figures(&self) -> Vec<Figure> {
        published::of(self.name)
    }

    /// The cell of a published figure.
    pub fn cell_of(&self, figure: &Figure) -> Option<usize> {
        let shows = |cell: &Cell| {
            let unit = cell.unit.name() == figure.unit();
            unit && cell.published.as_ref().is_some_and(|key| figure.is(key))
        };
        self.cells.iter().position(shows)
    }

    /// The headings of rows or columns, in the order in which cells first have them.
    pub fn headings(&self, of: impl Fn(&Cell) -> &str) -> Vec<&str> {
        let mut seen = Vec::new();
        for heading in self.cells.iter().map(of) {
            if !seen.contains(&heading) {
                seen.push(heading);
            }
        }
        seen
    }

    /// What a cell is called in a sentence.
    pub fn name_of(&self, cell: usize) -> String {
        let Cell { row, column, .. } = &self.cells[cell];
        match self.layout {
            Layout::Grid => format!("{row} {column}"),
            Layout::List => row.trim().to_owned(),
            Layout::Curves { axis } => format!("{row}, {axis} {column}"),
        }
    }

    /// The cell in a row and a column.
    pub fn at(&self, row: &str, column: &str) -> Option<usize> {
        self.cells.iter().position(|cell| cell.row == row && cell.column == column)
    }
}

impl Style {
    /// A ratio as it is printed.
    pub fn show(self, ratio: f64) -> String {
        let percent = ratio * 100.0;
        match self {
            Style::Change => format!("{:+.1}%", percent - 100.0),
            Style::Share => format!("{percent:.0}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_changes_or_shares() {
        assert_eq!(Style::Change.show(344.0 / 424.0), "-18.9%");
        assert_eq!(Style::Change.show(2639.0 / 940.0), "+180.7%");
        assert_eq!(Style::Change.show(1.0), "+0.0%");
        assert_eq!(Style::Share.show(3.9 / 5.0), "78%");
    }

    #[test]
    fn units_are_those_of_the_published_figures() {
        assert_eq!(Unit::MegabytesPerSecond.of(1000.0, 4_096_000.0), 4.096);
        assert_eq!(Unit::Kiops.of(1500.0, 0.0), 1.5);
        assert_eq!(Unit::Miops.of(1_500_000.0, 0.0), 1.5);
    }

    #[test]
    fn command_says_all_that_a_cell_is() {
        let setup = Setup {
            scheduler: "mq-deadline",
            zone_write: Some(ZoneWrite::Lock),
            jobs: vec!["--name=a".to_owned(), "--bs=4k".to_owned()],
        };
        let settings = MeasureSettings {
            clock: ClockKind::Real,
            rounds: 2,
            seconds: Some(1.0),
            seed: 0,
            costs: ANY_MACHINE,
        };
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
