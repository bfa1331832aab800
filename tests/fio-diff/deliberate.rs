//! The deliberate differences. This list may only shrink; docs/jobs.md has it with its reasons.
use crate::case::{Case, Section};
use crate::compare::Difference;
use crate::features::Feature;

/// A difference that is there on purpose.
pub struct Deliberate {
    /// The difference, as docs/jobs.md has it.
    pub what: &'static str,
    /// The reason.
    pub why: &'static str,
    /// Whether a difference of a case is this one.
    pub covers: fn(&Case, &Difference) -> bool,
}

/// The lines of docs/jobs.md.
pub fn table() -> String {
    let row = |entry: &Deliberate| format!("| {} | {} |\n", entry.what, entry.why);
    DELIBERATE.iter().map(row).collect()
}

/// All.
pub const DELIBERATE: &[Deliberate] = &[
    Deliberate {
        what: "the JSON has an additional object `zonal`, and `job_start` and `zone_resets` beside every fio",
        why: "device, clock, policy, seed and errors by status, for which fio has no keys; older versions of \
              fio lack the others",
        covers: |_, found| {
            let is_newer = ["report: /jobs/job_start", "report: /jobs/zone_resets"]
                .contains(&found.feature.as_str());
            (is_newer || found.feature.starts_with("report: /zonal"))
                && found.fio.iter().all(Option::is_none)
        },
    },
    Deliberate {
        what: "a job that did no I/O is an error, such as a reader of empty zones, and so is one that goes \
               on only if it may open a zone",
        why: "its report would look like that of a job that ran to its end",
        covers: |_, found| {
            let ends = ["finds nothing to do", "may write no zone"];
            !is_end(&found.fio, "hangs") && ends.iter().any(|end| is_end(&found.zonal, end))
        },
    },
    Deliberate {
        what: "`blockalign` and `percentage_random` are refused with `zonemode=zbd`",
        why: "writes are at write pointers: fio takes the options and ignores them",
        covers: |case, found| {
            (case.uses("ba") || case.uses("percentage_random")) && is_end(&found.zonal, "refuses")
        },
    },
    Deliberate {
        what: "random offsets follow one another less often",
        why: "fio takes the next free block of its map where the drawn one has been visited; a permutation in \
              constant memory has no neighbours",
        covers: |_, found| found.feature.ends_with("that follow one another"),
    },
    Deliberate {
        what: "a block that is written again while it is verified is expected to hold the last write",
        why: "fio expects the header of an earlier one, and ends with an error",
        covers: |case, found| {
            case.uses("verify")
                && is_end(&found.fio, "fails after I/O")
                && is_end(&found.zonal, "succeeds")
        },
    },
    Deliberate {
        what: "`job_max_open_zones` counts the zones that the job itself has opened",
        why: "fio also subtracts zones that an earlier job left open, when they are full or reset: its count \
              underflows, and the job opens no more zones",
        covers: |case, found| {
            follows_a_writer(case, "job_max_open_zones") && found.feature != "end"
        },
    },
    Deliberate {
        what: "a sequential writer that starts above the first zones, as a limit moved it, ends at the end of \
               the device",
        why: "fio looks at a zone beyond the last one, and goes on at the first zone or not depending on what \
              its memory holds there",
        covers: |case, found| {
            let limited = case.geometry.zones.is_some_and(|zones| zones.max_open > 0)
                || case.uses("max_open_zones");
            let to_end = |section: &Section| {
                section.is_zbd()
                    && section.get("rw").is_some_and(|rw| rw == "write" || rw == "rw")
                    && section.get("size").is_none()
            };
            limited && case.sections.iter().skip(1).any(to_end) && found.feature != "end"
        },
    },
    Deliberate {
        what: "`zone_reset_threshold` counts what earlier jobs have written",
        why: "fio does not count it when it is written, but subtracts it when it is reset: its count \
              underflows, and zones are reset from the start",
        covers: |case, found| {
            follows_a_writer(case, "zone_reset_threshold") && found.feature != "end"
        },
    },
    Deliberate {
        what: "random blocks of several sizes, or of another `blockalign`, lie in the region, and with a map \
               each is visited once",
        why: "fio draws and looks up blocks in units of one size and places them in units of another: blocks \
              come twice, and where one is beyond the end, which may be the first, the job ends with exit \
              code 0",
        covers: |case, found| {
            let is_one = |section: &Section| {
                let distribution = section.get("random_distribution").unwrap_or_default();
                let ranked =
                    ["zipf", "pareto", "normal"].iter().any(|it| distribution.starts_with(it));
                let lfsr = section.get("random_generator") == Some("lfsr");
                let is_random = section.get("rw").is_some_and(|rw| rw.starts_with("rand"));
                let draws = ranked || lfsr || !section.has("norandommap");
                is_random && draws && draws_beyond(section)
            };
            match section_of(case, found) {
                Some(section) => is_one(section),
                // Flushes follow writes.
                None => {
                    let of_all =
                        found.feature.starts_with("zones:") || found.feature.ends_with("flushes");
                    of_all && case.sections.iter().any(is_one)
                }
            }
        },
    },
    Deliberate {
        what: "random I/O of `zonemode=strided` stays in a last zone that the device cuts short",
        why: "fio draws offsets as if the zone were whole, and the job ends at the first one that is beyond \
              the device",
        covers: |case, found| {
            section_of(case, found).is_some_and(|section| {
                let bytes = |name| section.get(name).and_then(|value| value.parse::<u64>().ok());
                let range = bytes("zonerange").or(bytes("zonesize")).unwrap_or(1);
                let step = range + bytes("zoneskip").unwrap_or(0);
                let from = bytes("offset").unwrap_or(0);
                let left = (case.geometry.size - from) % step;
                section.get("zonemode") == Some("strided")
                    && section.get("rw").is_some_and(|rw| rw.starts_with("rand"))
                    && left > 0
                    && left < range
            })
        },
    },
];

/// Whether a job with an option runs after one that writes.
fn follows_a_writer(case: &Case, option: &str) -> bool {
    let writes = |section: &Section| section.get("rw").is_some_and(|rw| rw.contains('w'));
    let first = case.sections.iter().skip_while(|section| !writes(section));
    first.skip(1).any(|section| section.get(option).is_some())
}

/// The least block size of each direction, by [`Dir`].
fn least_sizes(section: &Section) -> [u64; 3] {
    let number = |text: &str| text.split([':', '/', '-']).next()?.parse::<u64>().ok();
    let option = ["bssplit", "bsrange", "bs"].into_iter().find_map(|name| section.get(name));
    let sizes: Vec<u64> = match section.get("bssplit") {
        Some(split) => split.split(':').filter_map(number).min().into_iter().collect(),
        None => option.unwrap_or("4096").split(',').filter_map(number).collect(),
    };
    std::array::from_fn(|dir| sizes[dir.min(sizes.len() - 1)])
}

/// Whether blocks of a direction that a job uses begin further apart than the smallest block of all
/// directions, in units of which fio draws.
fn draws_beyond(section: &Section) -> bool {
    let rw = section.get("rw").unwrap_or("read");
    let uses = match rw {
        _ if rw.contains("trimwrite") => [false, true, true],
        _ if rw.contains("rw") => [true, true, false],
        _ => ["read", "write", "trim"].map(|dir| rw.contains(dir)),
    };
    let least = least_sizes(section);
    let align = section.get("ba").and_then(|align| align.parse::<u64>().ok());
    let smallest = least.into_iter().min().unwrap_or_default();
    (0..3).any(|dir| uses[dir] && align.unwrap_or(least[dir]) > smallest)
}

/// The section of a clone's feature.
fn section_of<'a>(case: &'a Case, found: &Difference) -> Option<&'a Section> {
    let (number, _) = found.feature.split_once('.')?;
    case.sections.get(number.parse::<usize>().ok()?)
}

/// Whether a difference is how a program ended, and it ended like this.
fn is_end(seen: &[Option<Feature>], end: &str) -> bool {
    seen.iter().all(|feature| matches!(feature, Some(Feature::Text(text)) if text == end))
}

/// The entry that covers a difference.
pub fn covering(case: &Case, difference: &Difference) -> Option<usize> {
    DELIBERATE.iter().position(|entry| (entry.covers)(case, difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of entries may only become smaller.
    const MOST: usize = 10;

    #[test]
    fn the_list_is_that_of_the_documents_and_does_not_grow() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("docs/jobs.md")).expect("docs/jobs.md");
        let (begin, end) = ("<!-- begin: differences -->\n", "<!-- end: differences -->");
        let listed = page.split(begin).nth(1).and_then(|rest| rest.split(end).next());
        let expected = format!("\n| Zonal | Why |\n|---|---|\n{}\n", table());
        assert_eq!(listed.expect("the marks"), expected);
        assert!(DELIBERATE.len() <= MOST, "{} entries, {MOST} before", DELIBERATE.len());
    }
}
