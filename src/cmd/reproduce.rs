//! `zonal reproduce`.
use crate::args::{ClockArg, seconds};
use crate::format::{Format, FormatArgs};
use crate::interrupt::{exit_code, set_on_interrupt};
use crate::terminal::{StepBar, stdout};
use anyhow::{Context, Result};
use clap::Args;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use zonal_lab::chart::Plot;
use zonal_lab::page;
use zonal_lab::reproduce::{self, Bench, MeasureSettings, MeasuredTable, Table};
use zonal_sim::CostModel;

/// Options of `zonal reproduce`.
#[derive(Args, Debug)]
#[command(after_help = format!("Tables:\n{}", reproduce::list()))]
pub struct ReproduceArgs {
    /// The tables, or files of tables; all if none is named
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
    #[command(flatten)]
    pub format: FormatArgs,
    /// Write each plot to a file of its own in this directory, which is created if necessary
    #[arg(long, value_name = "DIR", conflicts_with = "commands")]
    pub plot: Option<PathBuf>,
    /// Real threads and real time, or discrete events in virtual time [default: virtual for models
    /// of drives, else real]
    #[arg(long, value_enum)]
    pub clock: Option<ClockArg>,
    /// Time to measure each cell for, over all rounds, in seconds of that clock [default: the
    /// table's own]. Ignored for jobs that run until they are done
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// How often each cell is measured, each time with another seed; the median counts [default:
    /// the table's own]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=101))]
    pub rounds: Option<u32>,
    /// Print the `zonal run` command that measures each cell, and measure nothing
    #[arg(long)]
    pub commands: bool,
    /// Random seed of the jobs and of the devices; in virtual time the same seed
    /// gives the same output to the byte
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Virtual time that an I/O costs the thread that does it, in nanoseconds; `published` for what
    /// it cost the machine of the published zone write plugging tables, by scheduler and length
    /// [default: the table's own]
    #[arg(long, value_name = "NS")]
    pub io_cost: Option<CostModel>,
}

/// Measures tables and prints them, each as soon as it is done if the format allows that. After an
/// interrupt what was measured by then is printed.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let tables = selected(&args.tables)?;
    let mut out = stdout();
    if args.commands {
        for table in &tables {
            let commands = reproduce::commands(table, &settings(table, args));
            out.write_all(commands.as_bytes())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(dir) = &args.plot {
        prepare(dir)?;
    }
    let bar = StepBar::new("{prefix} [{bar:24}] {pos}/{len} eta {eta} {msg}");
    let stop = Arc::default();
    set_on_interrupt(&stop)?;
    let mut bench = Bench::new(Arc::clone(&stop), &bar);
    let mut is_interrupted = false;
    let mut done: Vec<MeasuredTable> = Vec::with_capacity(tables.len());
    for table in tables {
        let settings = settings(&table, args);
        let measured = bench.measure(table, settings)?;
        if let Some(dir) = &args.plot {
            write_plots(dir, &reproduce::plots(&measured)?)?;
        }
        let first = done.is_empty();
        let piece = match args.format.get() {
            Format::Text if first => reproduce::text(&measured),
            Format::Text => format!("\n{}", reproduce::text(&measured)),
            Format::Csv if first => reproduce::csv_header() + &reproduce::csv_lines(&measured),
            Format::Csv => reproduce::csv_lines(&measured),
            Format::Json | Format::Html => String::new(),
        };
        out.write_all(piece.as_bytes())?;
        out.flush()?;
        is_interrupted = measured.interrupted.is_some();
        done.push(measured);
        if is_interrupted {
            break;
        }
    }
    let rest = match args.format.get() {
        Format::Text if done.len() > 1 && !is_interrupted => {
            format!("\n{}", reproduce::overview(&done))
        }
        Format::Text | Format::Csv => String::new(),
        Format::Json => reproduce::json(&done),
        Format::Html => page::with_command(&reproduce::html_page(&done)?, std::env::args().skip(1)),
    };
    out.write_all(rest.as_bytes())?;
    Ok(is_interrupted.then(exit_code).flatten().unwrap_or(ExitCode::SUCCESS))
}

/// The tables of these names or files; all if there are none.
fn selected(names: &[String]) -> Result<Vec<Table>> {
    if names.is_empty() {
        return Ok(reproduce::tables().to_vec());
    }
    let find = |name: &String| {
        if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
            return reproduce::read(Path::new(name));
        }
        let tables = reproduce::tables();
        tables.iter().find(|table| table.name == *name).cloned().with_context(|| {
            let near =
                zonal_blk::did_you_mean(name, tables.iter().map(|table| table.name.as_str()));
            format!("no table is called `{name}`{near}\nTables:\n{}", reproduce::list())
        })
    };
    names.iter().map(find).collect()
}

/// How a table is measured: its own settings, overridden by the arguments. Jobs that run until they
/// are done have no time limit.
fn settings(table: &Table, args: &ReproduceArgs) -> MeasureSettings {
    let default = table.settings;
    MeasureSettings {
        clock: args.clock.map_or(default.clock, Into::into),
        rounds: args.rounds.unwrap_or(default.rounds),
        seconds: default.seconds.map(|seconds| args.time.unwrap_or(seconds)),
        seed: args.seed,
        costs: args.io_cost.unwrap_or(default.costs),
    }
}

/// Creates the directory for plots if need be, and checks that it is writable.
pub fn prepare(dir: &Path) -> Result<()> {
    let probe = dir.join(".zonal-plot");
    fs::create_dir_all(dir)
        .and_then(|()| fs::write(&probe, ""))
        .and_then(|()| fs::remove_file(&probe))
        .with_context(|| format!("--plot {}: cannot write there", dir.display()))
}

/// Writes each plot to a file of its own, atomically.
pub fn write_plots(dir: &Path, plots: &[Plot]) -> Result<()> {
    for plot in plots {
        let path = dir.join(format!("{}.svg", plot.name));
        let part = path.with_extension("svg.part");
        fs::write(&part, plot.standalone()?)
            .and_then(|()| fs::rename(&part, &path))
            .with_context(|| format!("--plot: {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_lab::chart::Chart;

    #[test]
    fn plots_are_written_to_files_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        prepare(&inner).unwrap();
        let chart = Chart::scatter("iops", "1/s", [("a", vec![(1.0, 2.0)])]).unwrap();
        let plot = Plot { name: "x".to_owned(), chart };
        write_plots(&inner, &[plot]).unwrap();
        let names = fs::read_dir(&inner).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["x.svg"]);
    }

    #[test]
    fn directory_that_cannot_be_written_to_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = format!("{:#}", prepare(&file).unwrap_err());
        assert!(error.starts_with(&format!("--plot {}: ", file.display())), "{error}");
    }
}
