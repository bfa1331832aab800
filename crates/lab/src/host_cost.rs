//! The costs of a host, by name or from a file:
//!
//! ```toml
//! submit = 300        # CPU time of a submission, in nanoseconds
//! complete = 400      # CPU time of a completion
//! wake = 1700         # from the completion by the drive until a waiting thread runs
//! scheduler = 2500    # what an I/O scheduler adds to that
//! rouse = 95000       # what the first I/O after a second without one takes longer
//! page = 450          # CPU time and latency of each 4 KiB, in buffers that are not registered
//! processors = 20     # for threads that poll; 0 for any number
//! threads = 2         # that poll, of each job
//! ```
use anyhow::{Context, Result, bail};
use std::path::Path;
use toml_edit::DocumentMut;
use zonal_blk::Nanos;
use zonal_os::text_file;
use zonal_sim::HostCost;

/// Longest time of a host: a second.
const MAX: i64 = 1_000_000_000;
/// The most processors of a host.
const MAX_PROCESSORS: i64 = 1 << 16;
/// The most threads of a job that poll.
const MAX_THREADS: i64 = 16;

/// The costs of a named host, or of one that a file describes.
///
/// # Errors
/// There is no such host or file, or the file is malformed.
pub fn load(name: &str) -> Result<HostCost> {
    if let Some(host) = HostCost::named(name) {
        return Ok(host);
    }
    let known = HostCost::names();
    let text = text_file::read_string(Path::new(name)).with_context(|| {
        let hint = zonal_blk::did_you_mean_of(name, &known);
        format!("found `{name}`, expected {known} or a file{hint}")
    })?;
    parse(&text).with_context(|| name.to_owned())
}

fn parse(text: &str) -> Result<HostCost> {
    let document: DocumentMut = text.parse()?;
    let mut host = HostCost::default();
    let keys =
        ["submit", "complete", "wake", "scheduler", "rouse", "page", "processors", "threads"];
    if let Some((unknown, _)) = document.iter().find(|(key, _)| !keys.contains(key)) {
        let hint = zonal_blk::did_you_mean(unknown, keys);
        bail!("unknown key `{unknown}`, expected {}{hint}", keys.join(", "));
    }
    let number = |name: &str, least: i64, most: i64, unit: &str| {
        let Some(item) = document.get(name) else { return Ok(None) };
        let given = item.as_integer().filter(|given| (least..=most).contains(given));
        let found = || {
            let found = item.to_string();
            format!("{name}: found `{}`, expected {least} to {most}{unit}", found.trim())
        };
        given.map(Some).with_context(found)
    };
    for (name, nanos) in [
        ("submit", &mut host.submit),
        ("complete", &mut host.complete),
        ("wake", &mut host.wake),
        ("scheduler", &mut host.scheduler),
        ("rouse", &mut host.rouse),
        ("page", &mut host.page),
    ] {
        if let Some(given) = number(name, 0, MAX, " nanoseconds")? {
            *nanos = Nanos(given.unsigned_abs());
        }
    }
    for (name, least, most, count) in [
        ("processors", 0, MAX_PROCESSORS, &mut host.processors),
        ("threads", 1, MAX_THREADS, &mut host.threads),
    ] {
        if let Some(given) = number(name, least, most, "")? {
            *count = u32::try_from(given).expect("checked above");
        }
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_come_by_name_or_from_a_file() {
        assert_eq!(load("spdk").unwrap().name(), Some("spdk"));
        let host =
            parse("submit = 300 # ns\nwake = 1_700\npage = 450\nprocessors = 4\nthreads = 2\n")
                .unwrap();
        let (submit, wake, page, none) = (Nanos(300), Nanos(1700), Nanos(450), HostCost::default());
        let expected = HostCost { submit, wake, page, processors: 4, threads: 2, ..none };
        assert_eq!(host, expected);
    }

    #[test]
    fn errors_name_the_key_and_what_was_expected() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        let unknown = "unknown key `sumbit`, expected submit, complete, wake, scheduler, \
                       rouse, page, processors, threads, did you mean `submit`?";
        assert_eq!(error("sumbit = 3"), unknown);
        let threads = "threads: found `0`, expected 1 to 16";
        assert_eq!(error("threads = 0"), threads);
        for (text, found) in [("wake = -1", "-1"), ("wake = \"2us\"", "\"2us\"")] {
            let expected = format!("wake: found `{found}`, expected 0 to 1000000000 nanoseconds");
            assert_eq!(error(text), expected);
        }
        let error = format!("{:#}", load("no-such-host").unwrap_err());
        assert!(error.starts_with(
            "found `no-such-host`, expected spdk, io_uring, io_uring_cmd, libaio or a file"
        ));
        let error = format!("{:#}", load("spkd").unwrap_err());
        assert!(error.contains("or a file, did you mean `spdk`?"), "{error}");
    }
}
