//! Everything that is compared with a peer, in one run: the block layer alone, `zonal run` on a null device against
//! `fio --ioengine=null`, and on a preallocated image against fio on a file of the same file system that
//! has data.
//! Both programs run the same job in turn; a value is the median of the rounds.
//!
//! `cargo bench --bench peers` prints rows of CSV (`rows.rs`). `-- --with FILE` reads such rows, for
//! instance SPDK's measured on the same machine, and prints a comparison of all; it can be repeated, and
//! rows of `zonal` in a file count like those measured. `--rounds N` sets the rounds (default 7),
//! `--only WORD` measures the works whose names contain a word; `--only none` measures nothing.
//! `ZONAL_BENCH_DIR` sets the directory of the files (default: that for temporary files). Needs fio, but
//! for the block layer.
mod layer;
mod rows;
#[path = "../support/settle.rs"]
mod settle;
#[path = "../support/start.rs"]
mod start;
#[allow(dead_code)]
#[path = "../support/mod.rs"]
mod support;

use rows::{HEADER, OWN, Row};
use settle::settle;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Bytes that a job may write or read: more than it does in its time.
const SIZE: u64 = 2 << 30;
const NULL: &str = "--device=null:zones=64,zone_size=256M";
const IMAGE: &str = "null:zones=8,zone_size=256M,depth=64,lba=4096";

struct Options {
    with: Vec<PathBuf>,
    rounds: usize,
    only: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { with: Vec::new(), rounds: 7, only: None };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word}: found no value"));
        match word.as_str() {
            "--with" => options.with.push(value()?.into()),
            "--only" => options.only = Some(value()?),
            "--rounds" => {
                let text = value()?;
                let rounds = text.parse().ok().filter(|&rounds: &usize| rounds > 0);
                options.rounds = rounds.ok_or_else(|| {
                    format!("--rounds: found `{text}`, expected a number above 0")
                })?;
            }
            _ => return Err(format!("found `{word}`, expected --with, --only or --rounds")),
        }
    }
    Ok(options)
}

/// A job that both programs run.
struct Work {
    name: String,
    job: Vec<String>,
    on_image: bool,
}

fn works() -> Vec<Work> {
    let work = |name: &str, on_image, options: &[&str]| Work {
        name: name.to_owned(),
        job: options.iter().map(|&option| option.to_owned()).collect(),
        on_image,
    };
    let mut all = Vec::new();
    for (rw, name) in
        [("write", "write"), ("randwrite", "random write"), ("randread", "random read")]
    {
        for depth in ["1", "16"] {
            let options = [&format!("--rw={rw}")[..], "--bs=4k", &format!("--iodepth={depth}")];
            all.push(work(&format!("null zoned {name} 4k qd{depth}"), false, &options));
        }
    }
    for (bs, depth, flush) in [
        ("4k", "1", false),
        ("4k", "16", false),
        ("1m", "16", false),
        ("4k", "1", true),
        ("128k", "1", true),
        ("1m", "1", true),
    ] {
        let (bs_option, depth_option) = (format!("--bs={bs}"), format!("--iodepth={depth}"));
        let mut options = vec!["--rw=write", &bs_option, &depth_option];
        options.extend(flush.then_some("--fdatasync=1"));
        let flushed = if flush { " flush" } else { "" };
        all.push(work(&format!("image write {bs} qd{depth}{flushed}"), true, &options));
    }
    all
}

/// The rate of a job: a field of fio's terse format 3, those of reads and writes added.
fn rate(command: &mut Command, field: usize) -> Result<f64, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("3;"));
    let fields: Vec<&str> = line.map_or(Vec::new(), |line| line.split(';').collect());
    // Reads have fields 6 to 46, writes the next 41.
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    match (number(field), number(field + 41)) {
        (Some(reads), Some(writes)) if reads + writes > 0.0 => Ok(reads + writes),
        _ => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Where the files are.
struct Place(tempfile::TempDir);

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// fio's file with data, which is made once and stays.
    fn data(&self) -> Result<PathBuf, String> {
        let path = self.path("data.dat");
        if !path.exists() {
            let write = || -> std::io::Result<()> {
                let mut file = File::create(&path)?;
                let data = vec![0x5a; 1 << 20];
                (0..SIZE >> 20).try_for_each(|_| file.write_all(&data))?;
                file.sync_all()
            };
            write().map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(path)
    }

    /// fio's file for the null engine, which only has to be long.
    fn sparse(&self) -> Result<PathBuf, String> {
        let path = self.path("sparse.dat");
        let set_len = File::create(&path).and_then(|file| file.set_len(16 << 30));
        set_len.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

fn zonal() -> Command {
    Command::new(env!("CARGO_BIN_EXE_zonal"))
}

/// An image whose space is written already, as that of fio's file is, with empty zones. It is made once
/// and stays.
fn image(path: &Path) -> Result<(), String> {
    let mut command = zonal();
    if path.exists() {
        command.args(["zone", "reset"]).arg(path);
    } else {
        command.arg("create").arg(path).args(["--profile", IMAGE, "--preallocate"]);
    }
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn zonal_rate(work: &Work, place: &Place) -> Result<f64, String> {
    let mut command = zonal();
    command.arg("run");
    if work.on_image {
        let path = place.path("peer.img");
        image(&path)?;
        settle(place.0.path());
        command.arg("--device").arg(path).arg(format!("--size={SIZE}")).arg("--runtime=1");
    } else {
        // Reads read what the jobs before have written.
        let device = if work.name.contains("read") {
            [NULL, ",written=100%"].concat()
        } else {
            NULL.to_owned()
        };
        command.arg(device).args(["--time_based", "--runtime=1"]);
    }
    command.args(["--name=peer", "--zonemode=zbd", "--minimal", "--eta=never"]).args(&work.job);
    rate(&mut command, if work.on_image { 6 } else { 7 })
}

fn fio_rate(work: &Work, place: &Place) -> Result<f64, String> {
    let mut command = Command::new("fio");
    command.args(["--name=peer", "--output-format=terse", "--terse-version=3", "--runtime=1"]);
    if work.on_image {
        command.arg(format!("--filename={}", place.data()?.display()));
        settle(place.0.path());
        command.args(["--ioengine=io_uring", "--direct=1"]).arg(format!("--size={SIZE}"));
    } else {
        command.arg(format!("--filename={}", place.sparse()?.display()));
        command.args(["--ioengine=null", "--time_based", "--size=16G"]);
        if !work.name.contains("read") {
            command.args(["--zonemode=zbd", "--zonesize=256M", "--zonecapacity=256M"]);
        }
    }
    rate(command.args(&work.job), if work.on_image { 6 } else { 7 })
}

/// The row of a tool's rates.
fn row(work: &Work, tool: &str, version: &str, rates: Vec<f64>) -> Row {
    let (median, spread) = rows::median_and_spread(rates);
    // The terse format has KiB a second.
    let (scale, unit) = if work.on_image { (1024.0 / 1e6, "MB/s") } else { (1.0, "IOPS") };
    Row {
        work: work.name.clone(),
        tool: tool.to_owned(),
        version: version.to_owned(),
        value: median * scale,
        unit: unit.to_owned(),
        spread: Some(spread),
    }
}

fn measure(options: &Options) -> Result<Vec<Row>, String> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|word| name.contains(word));
    let mut rows = layer::measure(options.rounds, wanted);
    let works: Vec<Work> = works().into_iter().filter(|work| wanted(&work.name)).collect();
    if works.is_empty() {
        return Ok(rows);
    }
    let fio = Command::new("fio").arg("--version").output();
    let fio = fio.map_err(|error| format!("fio: {error}; it has to be installed"))?;
    let fio = String::from_utf8_lossy(&fio.stdout).trim().trim_start_matches("fio-").to_owned();
    let base = std::env::var_os("ZONAL_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let place = Place(tempfile::tempdir_in(&base).map_err(|e| format!("{}: {e}", base.display()))?);
    for work in &works {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..options.rounds {
            // Each comes first every other time.
            if round % 2 == 1 {
                theirs.push(fio_rate(work, &place)?);
            }
            ours.push(zonal_rate(work, &place)?);
            if round % 2 == 0 {
                theirs.push(fio_rate(work, &place)?);
            }
        }
        rows.push(row(work, OWN, env!("CARGO_PKG_VERSION"), ours));
        rows.push(row(work, "fio", &fio, theirs));
    }
    Ok(rows)
}

fn run() -> Result<(), String> {
    let options = options()?;
    let mut others = Vec::new();
    for path in &options.with {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        others.extend(rows::parse(&name, &text)?);
    }
    let mut rows = measure(&options)?;
    if options.with.is_empty() {
        println!("{HEADER}");
        rows.iter().for_each(|row| println!("{row}"));
        return Ok(());
    }
    rows.extend(others);
    print!("{}", rows::compare(&rows)?);
    Ok(())
}

fn main() -> ExitCode {
    if !start::measures() {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::from(2)
        }
    }
}
