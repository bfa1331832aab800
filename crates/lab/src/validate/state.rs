//! Predictions in a file: a line of JSON for each load, appended when it is done. The first line says
//! what they are of; with another device, run time or seed the file is refused. A load whose options
//! have changed is another load. A last line that was cut off is dropped.
use crate::measurements::{Figures, Load, Predicted, RunOptions};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use zonal_device::device_spec::DeviceSpec;

/// The predictions of a file.
pub(super) struct StateFile {
    known: BTreeMap<String, Predicted>,
    file: Option<Mutex<File>>,
}

/// The settings that predictions depend on, beside the load.
fn head(spec: &DeviceSpec, options: &RunOptions) -> Value {
    json!({
        "zonal": env!("CARGO_PKG_VERSION"),
        "spec": format!("{spec:?}"),
        "costs": options.costs.map(|costs| costs.to_string()),
        "seconds": options.seconds,
        "seed": options.seed,
    })
}

/// The key of a load.
fn key(load: &Load) -> String {
    format!("{load:?}")
}

impl StateFile {
    /// No file: nothing is known, nothing is kept.
    pub fn none() -> Self {
        StateFile { known: BTreeMap::new(), file: None }
    }

    /// Opens a file, or creates it.
    pub fn open(path: &Path, spec: &DeviceSpec, options: &RunOptions) -> Result<Self> {
        let mut opened = OpenOptions::new();
        opened.read(true).write(true).create(true).truncate(false);
        let mut file = zonal_os::output_file::open(&opened, path)?;
        let mut text = String::new();
        file.read_to_string(&mut text).context("cannot read")?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = (1..).zip(text[..whole].lines());
        let head = head(spec, options);
        let mut known = BTreeMap::new();
        if let Some((_, line)) = lines.next() {
            let found: Value = serde_json::from_str(line).unwrap_or_default();
            ensure!(
                found["spec"].is_string(),
                "line 1: expected a file that `zonal validate --resume` wrote, or none"
            );
            for (what, expected) in head.as_object().into_iter().flatten() {
                let found = &found[what];
                ensure!(
                    found == expected,
                    "it was begun with another `{what}`: found {found}, expected {expected}; \
                     remove it or name another file"
                );
            }
        }
        for (number, line) in lines {
            let (key, predicted) = serde_json::from_str(line)
                .ok()
                .and_then(|value: Value| decode(&value))
                .with_context(|| format!("line {number}: expected the figures of a load"))?;
            known.insert(key, predicted);
        }
        // What follows overwrites a line that was cut off.
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        if whole == 0 {
            writeln!(file, "{head}").context("cannot write")?;
        }
        Ok(StateFile { known, file: Some(Mutex::new(file)) })
    }

    /// The prediction for a load, if there is one.
    pub fn get(&self, load: &Load) -> Option<Predicted> {
        self.known.get(&key(load)).cloned()
    }

    /// Appends what is known of a load.
    pub fn keep(&self, load: &Load, predicted: &Predicted) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let line = format!("{}\n", encode(load, predicted));
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).context("--resume: cannot write")
    }
}

/// Numbers are kept as the bits of a double, which are read back as they were.
fn encode(load: &Load, predicted: &Predicted) -> Value {
    let bits = |figures: &Figures| -> Vec<u64> {
        let Figures { iops, bytes, mean, percentiles } = figures;
        [iops, bytes, mean].into_iter().chain(percentiles).map(|value| value.to_bits()).collect()
    };
    let all = |figures: &[Figures]| figures.iter().map(bits).collect::<Vec<Vec<u64>>>();
    let (figures, jobs) = (all(&predicted.figures), all(&predicted.jobs));
    json!({ "load": key(load), "figures": figures, "jobs": jobs })
}

fn decode(value: &Value) -> Option<(String, Predicted)> {
    let all = |name: &str| -> Option<Vec<Figures>> {
        value[name].as_array()?.iter().map(decode_figures).collect()
    };
    let figures = all("figures")?.try_into().ok()?;
    Some((value["load"].as_str()?.to_owned(), Predicted { figures, jobs: all("jobs")? }))
}

fn decode_figures(line: &Value) -> Option<Figures> {
    let line = line.as_array()?.iter().map(|bits| Some(f64::from_bits(bits.as_u64()?)));
    let line: Vec<f64> = line.collect::<Option<_>>()?;
    let (&[iops, bytes, mean], percentiles) = line.split_first_chunk()?;
    let percentiles = percentiles.try_into().ok()?;
    Some(Figures { iops, bytes, mean, percentiles })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cells, options};
    use super::super::validate;
    use std::fs;

    const CELLS: &str = "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
        io,spdk,4096,append:write,4096,2,8,iops,143000,1/s\n\
        io,spdk,4096,append:write,8192,2,8,iops,113000,1/s\n";

    #[test]
    fn finished_loads_are_kept_and_a_torn_line_is_run_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let mut options = options(None);
        let once = validate(cells(CELLS), &options, &()).unwrap();
        options.resume = Some(path.clone());
        assert_eq!(validate(cells(CELLS), &options, &()).unwrap().resumed, 0);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        let again = validate(cells(CELLS), &options, &()).unwrap();
        assert_eq!(again.resumed, 1);
        assert_eq!(again.loads, once.loads, "to the bit");
        let read = fs::read_to_string(&path).unwrap();
        assert_eq!(read.len(), text.len());
        let other = cells(&CELLS.replace(",8192,", ",16384,"));
        assert_eq!(validate(other, &options, &()).unwrap().resumed, 1, "another load");
    }

    #[test]
    fn file_of_another_validation_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(None);
        options.resume = Some(dir.path().join("state"));
        validate(cells(CELLS), &options, &()).unwrap();
        let refused = |change: &dyn Fn(&mut super::RunOptions)| {
            let mut options = options.clone();
            change(&mut options.run);
            format!("{:#}", validate(cells(CELLS), &options, &()).err().unwrap())
        };
        let device = refused(&|run| run.device = "zn540:buffer=12M".to_owned());
        assert!(device.contains("state: it was begun with another `spec`: found "), "{device}");
        let seed = refused(&|run| run.seed = 7);
        assert!(seed.contains("another `seed`: found 0, expected 7; remove it"), "{seed}");
        let path = options.resume.as_ref().unwrap();
        fs::write(path, "set,driver\n").unwrap();
        let other = refused(&|_| ());
        assert!(other.contains("line 1: expected a file that `zonal validate"), "{other}");
    }
}
