//! The costs of a host, by name or from a file:
//!
//! ```toml
//! submit = 300        # CPU time of a submission, in nanoseconds
//! complete = 400      # CPU time of a completion
//! wake = 1700         # from the completion by the drive until a waiting thread runs
//! scheduler = 2500    # what an I/O scheduler adds to that
//! ```
use anyhow::{Context, Result, bail};
use std::path::Path;
use toml_edit::DocumentMut;
use zonal_blk::Nanos;
use zonal_os::text_file;
use zonal_sim::HostCost;

/// Longest time of a host: a second.
const MAX: i64 = 1_000_000_000;

/// The costs of a named host, or of one that a file describes.
///
/// # Errors
/// There is no such host or file, or the file is malformed.
pub fn load(name: &str) -> Result<HostCost> {
    if let Some(host) = HostCost::named(name) {
        return Ok(host);
    }
    let known = HostCost::names();
    let text = text_file::read_string(Path::new(name))
        .with_context(|| format!("found `{name}`, expected {known} or a file"))?;
    parse(&text).with_context(|| name.to_owned())
}

fn parse(text: &str) -> Result<HostCost> {
    let document: DocumentMut = text.parse()?;
    let mut host = HostCost::default();
    let keys: [(&str, &mut Nanos); 4] = [
        ("submit", &mut host.submit),
        ("complete", &mut host.complete),
        ("wake", &mut host.wake),
        ("scheduler", &mut host.scheduler),
    ];
    let names = keys.each_ref().map(|(name, _)| *name);
    if let Some((unknown, _)) = document.iter().find(|(key, _)| !names.contains(key)) {
        bail!("unknown key `{unknown}`, expected {}", names.join(", "));
    }
    for (name, nanos) in keys {
        let Some(item) = document.get(name) else { continue };
        let given = item.as_integer().filter(|given| (0..=MAX).contains(given));
        let given = given.with_context(|| {
            format!("{name}: found `{}`, expected 0 to {MAX} nanoseconds", item.to_string().trim())
        })?;
        *nanos = Nanos(u64::try_from(given).expect("checked above"));
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_come_by_name_or_from_a_file() {
        assert_eq!(load("spdk").unwrap().name(), Some("spdk"));
        let host = parse("submit = 300 # ns\nwake = 1_700\n").unwrap();
        let expected = HostCost { submit: Nanos(300), wake: Nanos(1700), ..HostCost::default() };
        assert_eq!(host, expected);
    }

    #[test]
    fn errors_name_the_key_and_what_was_expected() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        let unknown = "unknown key `sumbit`, expected submit, complete, wake, scheduler";
        assert_eq!(error("sumbit = 3"), unknown);
        for (text, found) in [("wake = -1", "-1"), ("wake = \"2us\"", "\"2us\"")] {
            let expected = format!("wake: found `{found}`, expected 0 to 1000000000 nanoseconds");
            assert_eq!(error(text), expected);
        }
        let error = format!("{:#}", load("no-such-host").unwrap_err());
        assert!(error.starts_with(
            "found `no-such-host`, expected spdk, io_uring, io_uring_cmd, libaio or a file"
        ));
    }
}
