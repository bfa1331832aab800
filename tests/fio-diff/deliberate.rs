//! The deliberate differences. This list may only shrink; docs/evidence/jobs.md has it with its reasons.
use crate::case::{Case, Section};
use crate::compare::Difference;
use crate::features::Feature;
use crate::jobs::engine;
use crate::observe::Dir;

/// A difference that is there on purpose.
pub struct Deliberate {
    /// The difference, as docs/evidence/jobs.md has it.
    pub what: &'static str,
    /// The reason.
    pub why: &'static str,
    /// Whether a difference of a case is this one.
    pub covers: fn(&Case, &Difference) -> bool,
}

/// The lines of docs/evidence/jobs.md.
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
        what: "a job that did no I/O is an error, such as a reader of empty zones or a writer of blocks longer \
               than its `size` or than a zone, which finishes no zone, and so is one that goes on only if it may \
               open a zone, which it waits for beside others, or writes in one that was partly written before",
        why: "its report would look like that of a job that ran to its end; fio ends it while the others have \
              as many zones as may be open, or not, as its threads race: one may be done before another begins, \
              which then opens zones; a random one it ends where a job before has left zones open that are not \
              among its own; it finishes a zone that is shorter than a block, and later readers find it full",
        covers: |case, found| {
            let ends = ["finds nothing to do", "may write no zone"];
            let waits = |section: &Section| is_limited(case, section) && case.is_concurrent();
            let of_zones = ["filled", "written", "open", "full"];
            let does_less = |section: &Section| waits(section) || has_none_to_pick(case, section);
            // What is left of the limit, and so which of the jobs goes where, is a race.
            let races = |section: &Section| {
                let in_order = ["write", "rw"].iter().any(|rw| section.get("rw") == Some(rw));
                waits(section) && in_order && follows_a_writer(case, section)
            };
            ends.iter().any(|end| is_end(&found.zonal, end))
                || concerns(case, found, &of_zones, races)
                || is_less(found) && concerns(case, found, &of_zones, does_less)
                || concerns(case, found, &["read"], |section| fits_no_zone(case, section))
                || is_end(&found.fio, "succeeds")
                    && is_end(&found.zonal, "refuses")
                    && case.sections.iter().any(|section| has_no_room(case, section))
        },
    },
    Deliberate {
        what: "`blockalign` and `percentage_random` are refused with `zonemode=zbd`",
        why: "writes are at write pointers: fio takes the options and ignores them",
        covers: |case, found| {
            let is_refused = |section: &Section| {
                section.is_zbd() && (section.has("ba") || section.has("percentage_random"))
            };
            case.sections.iter().any(is_refused) && is_end(&found.zonal, "refuses")
        },
    },
    Deliberate {
        what: "random offsets follow one another less often, and with `random_distribution=normal` each rank \
               has a block of its own",
        why: "fio takes the next free block of its map where the drawn one has been visited, and gives several \
              ranks of a bell curve one block, more or fewer depending on the number of blocks; a permutation \
              in constant memory has no neighbours, and no two ranks for a block",
        covers: |case, found| {
            let is_place = [
                "offsets that differ",
                "first byte",
                "last byte",
                "at the most frequent offset",
                "first zone",
                "last zone",
            ];
            // A block that is written again is verified once.
            let of_verification = [" read", " I/Os", " pauses before I/O "];
            let of_block = |section: &Section| {
                is_bell(section)
                    && (found.feature.starts_with("zones: ")
                        || is_place.iter().any(|place| found.feature.ends_with(place))
                        || found.feature.contains(" in eighth ")
                        || section.has("verify")
                            && of_verification.iter().any(|of| found.feature.contains(of)))
            };
            found.feature.ends_with("that follow one another")
                || concerns(case, found, &["written", "read", "filled"], of_block)
        },
    },
    Deliberate {
        what: "a block that is written again before it is verified is read once and expected to hold the last \
               write, and one whose zone is reset early is read before that",
        why: "fio expects the header of an earlier one, and ends with an error; with `verify=null` it reads \
              some blocks as often as they were written; before an early reset it reads no block whose write \
              is still in flight, so that with a queue and `verify_backlog` it reads some after the reset, \
              which only its file still has",
        covers: |case, found| {
            let is_null = |section: &Section| {
                section.get("verify") == Some("null") && !section.is_zbd() && writes_again(section)
            };
            let of_reads = ["read", " I/Os", " sequence"];
            let of_zones = ["filled", "written", "read", "open", "full"];
            concerns(case, found, &of_zones, reads_after_early_resets)
                || is_end(&found.fio, "finds wrong data")
                    && is_end(&found.zonal, "succeeds")
                    && case.sections.iter().any(writes_again)
                || of_reads.iter().any(|of| found.feature.contains(of))
                    && concerns(case, found, &["read"], is_null)
        },
    },
    Deliberate {
        what: "`job_max_open_zones` and `zone_reset_threshold` count what the job itself has opened, and what \
               is there",
        why: "fio does not count what earlier jobs left, but subtracts it when a zone is full or reset: its \
              counts underflow, the job opens no more zones, and zones are reset from the start",
        covers: |case, found| {
            let counts = ["job_max_open_zones", "zone_reset_threshold"];
            let is_one = |section: &Section| {
                counts.iter().any(|option| section.has(option)) && follows_a_writer(case, section)
            };
            concerns(case, found, &["filled", "written", "read", "open", "full"], is_one)
        },
    },
    Deliberate {
        what: "a sequential writer that reaches the end of the device before it has done its `size`, as it \
               started in a zone that was partly written, or a limit moved it, or its `io_size` in all \
               `loops`, ends there, and one that begins again for its `io_size` counts writes until an early \
               reset anew",
        why: "fio looks at a zone beyond the last one, and goes on at the first zone or not depending on what \
              its memory holds there: not with a file on a disk; with one in memory always without logs, and \
              with them if its number of zones is odd",
        covers: |case, found| {
            let to_end = |section: &Section| {
                section.is_zbd()
                    && section.get("rw").is_some_and(|rw| rw == "write" || rw == "rw")
                    && section.region(&case.geometry, 0).end == case.geometry.size
                    && (follows_a_writer(case, section)
                        || section.has("loops") && section.has("io_size"))
            };
            let counts_on = |section: &Section| counts_on_at_end(case, section);
            let of_zones = ["filled", "written", "read", "open", "full"];
            !found.feature.starts_with("report:") && concerns(case, found, &of_zones, to_end)
                || concerns(case, found, &["filled", "written", "read", "full"], counts_on)
        },
    },
    Deliberate {
        what: "random blocks of several sizes, of another `blockalign`, in the order of \
               `random_generator=lfsr`, or of a `random_distribution` where the device ends within a block, \
               lie in the region, and with a map each is visited once",
        why: "fio draws and looks up blocks in units of one size and places them in units of another: blocks \
              come twice, and where one is beyond the end, as is the last of a distribution, the job ends with \
              exit code 0, maybe before its first I/O; with lfsr it also ends, as the seed has it, where other \
              draws come between",
        covers: |case, found| {
            let is_one = |section: &Section| {
                let lfsr = section.get("random_generator") == Some("lfsr");
                let draws = is_ranked(section) || lfsr || !section.has("norandommap");
                is_random(section)
                    && (draws && draws_beyond(section)
                        || is_ranked(section)
                            && (draws_short(section) || draws_past_end(case, section))
                        || lfsr && draws_between(section))
            };
            concerns(case, found, &["filled", "written", "read", "open", "full"], is_one)
        },
    },
    Deliberate {
        what: "random I/O of `zonemode=strided` stays in its zones, also in a last one that the device cuts \
               short, and so do all passes with `zonemode=zbd` whose `offset` is within a zone, which is not \
               one of the job's",
        why: "fio draws offsets as if the zone were whole, and with `random_distribution` in as many blocks as \
              the file has: they are in other zones, and the job ends at the first one that is beyond the \
              device; with `zonemode=zbd` only the first pass begins at the next zone, a later one at the \
              offset: fio ends by a failed assertion, or with `read_beyond_wp` reads a zone that is not one of \
              the job's",
        covers: |case, found| {
            let begins_before = |section: &Section| begins_before_its_zones(case, section);
            if concerns(case, found, &["read"], begins_before) {
                return true;
            }
            concerns(case, found, &[], |section| {
                let bytes = |name| section.get(name).and_then(|value| value.parse::<u64>().ok());
                let range = bytes("zonerange").or(bytes("zonesize")).unwrap_or(1);
                let step = range + bytes("zoneskip").unwrap_or(0);
                let from = bytes("offset").unwrap_or(0);
                let left = (case.geometry.size - from) % step;
                let is_cut = left > 0 && left < range;
                section.get("zonemode") == Some("strided")
                    && is_random(section)
                    && (is_cut
                        || section.has("random_distribution")
                        || bytes("ba").is_some_and(|align| align > range))
            })
        },
    },
];

fn is_random(section: &Section) -> bool {
    section.get("rw").is_some_and(|rw| rw.starts_with("rand"))
}

/// Whether ranks of a distribution are given blocks by a hash.
fn is_ranked(section: &Section) -> bool {
    let distribution = section.get("random_distribution").unwrap_or_default();
    is_random(section) && ["zipf", "pareto", "normal"].iter().any(|it| distribution.starts_with(it))
}

/// Whether the distribution is a bell curve.
fn is_bell(section: &Section) -> bool {
    let distribution = section.get("random_distribution").unwrap_or_default();
    is_random(section) && distribution.starts_with("normal")
}

/// Whether a job writes zones of which only some may be open.
fn is_limited(case: &Case, section: &Section) -> bool {
    let has_limit = case.geometry.zones.is_some_and(|zones| zones.max_open > 0)
        || section.has("max_open_zones");
    has_limit && section.is_zbd() && section.get("rw").is_some_and(|rw| rw.contains('w'))
}

/// Whether a number is less in fio, with all seeds.
fn is_less(found: &Difference) -> bool {
    let number = |feature: &Option<Feature>| match feature {
        None => Some(0.0),
        Some(Feature::Number(value, _) | Feature::Time(value, _)) => Some(*value),
        Some(Feature::Text(_)) => None,
    };
    let numbers = |all: &[Option<Feature>]| all.iter().map(number).collect::<Option<Vec<f64>>>();
    let (Some(fio), Some(zonal)) = (numbers(&found.fio), numbers(&found.zonal)) else {
        return false;
    };
    fio.iter().all(|fio| zonal.iter().all(|zonal| fio < zonal))
}

/// Whether a job with zones runs after one that writes some.
fn follows_a_writer(case: &Case, section: &Section) -> bool {
    let before = case.sections.iter().take_while(|other| other.name != section.name);
    before
        .into_iter()
        .any(|other| other.is_zbd() && other.get("rw").is_some_and(|rw| rw.contains('w')))
}

/// Whether fio finds no zone for a random block in a full one: it picks one of those that are open, and a job before
/// has left only others.
fn has_none_to_pick(case: &Case, section: &Section) -> bool {
    let is_part = section.has("offset") || section.has("size");
    is_limited(case, section) && is_random(section) && is_part && follows_a_writer(case, section)
}

/// Whether fio counts writes on until an early reset where a job begins again: its file is in memory here, and it
/// has logs.
fn counts_on_at_end(case: &Case, section: &Section) -> bool {
    let Some(zones) = case.geometry.zones.filter(|_| section.is_zbd()) else { return false };
    let region = section.region(&case.geometry, 0);
    let amount = section.get("io_size").and_then(|size| size.parse::<u64>().ok());
    section.get("rw") == Some("write")
        && section.has("zone_reset_frequency")
        && engine(section) == "psync"
        && zones.capacity == zones.size
        && case.geometry.size.div_ceil(zones.size) % 2 == 1
        && region == (0..case.geometry.size)
        && amount.is_some_and(|amount| amount > region.end)
}

/// Whether passes of a job after the first one begin before its zones in fio, with reads that it does not end at.
fn begins_before_its_zones(case: &Case, section: &Section) -> bool {
    let reads = section.get("rw").is_some_and(|rw| rw.ends_with("rw"));
    let again = ["loops", "io_size", "verify"].iter().any(|option| section.has(option));
    let is_one = section.is_zbd() && reads && again && section.has("read_beyond_wp");
    // Those that only read begin anywhere.
    let mut reader = section.clone();
    reader.options.retain(|(name, _)| name != "rw");
    is_one && reader.region(&case.geometry, 0).start < section.region(&case.geometry, 0).start
}

/// Whether all writes that a job still has to verify may be in flight at an early reset.
fn reads_after_early_resets(section: &Section) -> bool {
    let has_all = ["verify", "verify_backlog", "zone_reset_frequency"].map(|it| section.has(it));
    section.is_zbd() && has_all == [true; 3] && engine(section) == "io_uring"
}

/// Whether the blocks of all directions of a job are longer than its region, or that holds no zone.
fn has_no_room(case: &Case, section: &Section) -> bool {
    if section.is_zbd() && section.region(&case.geometry, 0).is_empty() {
        return true;
    }
    let region = section.region(&case.geometry, 0);
    let size = section.get("size").map(|_| region.end.saturating_sub(region.start));
    let least = least_sizes(section);
    let mut used = directions(section).into_iter().zip(least).filter(|(used, _)| *used);
    size.is_some_and(|size| used.all(|(_, least)| least > size))
}

/// Whether a job writes blocks that are longer than a zone.
fn fits_no_zone(case: &Case, section: &Section) -> bool {
    let write = Dir::Write as usize;
    let capacity = case.geometry.zones.filter(|_| section.is_zbd()).map(|zones| zones.capacity);
    directions(section)[write] && capacity.is_some_and(|most| least_sizes(section)[write] > most)
}

/// Whether a job that verifies may write a block again before that is verified.
fn writes_again(section: &Section) -> bool {
    let several = ["bsrange", "bssplit", "norandommap", "random_distribution", "percentage_random"];
    let in_runs = section.get("rw").is_some_and(|rw| rw.contains(':'));
    section.has("verify")
        && (section.get("zonemode").is_some()
            || several.iter().any(|option| section.has(option))
            || in_runs
            || draws_beyond(section)
            || section.get("rw") == Some("rw"))
}

/// Whether other draws come between those of the order in which blocks are visited.
fn draws_between(section: &Section) -> bool {
    let several = ["bsrange", "bssplit", "percentage_random", "ba"];
    several.iter().any(|option| section.has(option))
        || section.get("bs").is_some_and(|sizes| sizes.contains(','))
        || section.get("rw").is_some_and(|rw| rw.contains(':'))
        || section.get("random_distribution").is_some_and(|kind| kind.starts_with("zoned"))
}

/// Whether a difference is one of a job's I/Os, or of its time and flushes, as it ends early, and the job is such
/// a one; or one of the zones, which count the I/Os of all jobs, in what is named by one of these last words. So
/// is one of a later job in the zones that such a job has left.
fn concerns(
    case: &Case,
    found: &Difference,
    in_zones: &[&str],
    is_one: impl Fn(&Section) -> bool,
) -> bool {
    if let Some(of_zones) = found.feature.strip_prefix("zones: ") {
        return in_zones.iter().any(|last| of_zones.ends_with(last))
            && case.sections.iter().any(is_one);
    }
    let of_end = |of: &&str| of.ends_with(" milliseconds") || of.ends_with(" flushes");
    let end = found.feature.strip_prefix("report: ").filter(of_end);
    let section = match end.and_then(|of| of.split(' ').next()?.parse::<usize>().ok()) {
        Some(clone) => case.section_of(clone),
        None => section_of(case, found),
    };
    // A job finds zones as those before it have left them.
    let finds_another = |section: &Section| {
        let mut before = case.sections.iter().take_while(|other| other.name != section.name);
        section.is_zbd() && before.any(|other| other.is_zbd() && is_one(other))
    };
    section.is_some_and(|section| is_one(section) || finds_another(section))
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

/// The directions that a job uses, by [`Dir`].
fn directions(section: &Section) -> [bool; 3] {
    match section.get("rw").unwrap_or("read") {
        rw if rw.contains("trimwrite") => [false, true, true],
        rw if rw.contains("rw") => [true, true, false],
        rw => ["read", "write", "trim"].map(|dir| rw.contains(dir)),
    }
}

/// Whether blocks of a direction that a job uses begin further apart than the smallest block of all
/// directions, in units of which fio draws.
fn draws_beyond(section: &Section) -> bool {
    let uses = directions(section);
    let least = least_sizes(section);
    let align = section.get("ba").and_then(|align| align.parse::<u64>().ok());
    let smallest = least.into_iter().min().unwrap_or_default();
    (0..3).any(|dir| uses[dir] && align.unwrap_or(least[dir]) > smallest)
}

/// Whether fio places what it draws in smaller units, so that blocks at the end of the region are never drawn.
fn draws_short(section: &Section) -> bool {
    let align = section.get("ba").and_then(|align| align.parse::<u64>().ok());
    align.is_some_and(|align| least_sizes(section).into_iter().all(|least| align < least))
}

/// Whether the device ends within the last block of a job, which fio's distributions have.
fn draws_past_end(case: &Case, section: &Section) -> bool {
    let region = section.region(&case.geometry, 0);
    let uses = directions(section);
    let least = least_sizes(section);
    let smallest = (0..3).filter(|&dir| uses[dir]).map(|dir| least[dir]).min().unwrap_or(1);
    let over = (region.end - region.start) % smallest;
    !section.is_zbd() && over > 0 && region.end + smallest - over > case.geometry.size
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

    /// Whether a difference of a number, or of how the programs end, is excused.
    fn is_excused(case: &str, feature: &str, [fio, zonal]: [&str; 2]) -> bool {
        let case: Case = format!("; device size=1048576 zone_size=65536 max_open=4\n{case}")
            .parse()
            .expect("a case");
        let seen = |text: &str| vec![Some(Feature::Text(text.to_owned()))];
        let (fio, zonal) = (seen(fio), seen(zonal));
        covering(&case, &Difference { feature: feature.to_owned(), fio, zonal }).is_some()
    }

    #[test]
    fn counts_that_underflow_excuse_the_ios_of_the_job_that_counts_and_of_its_zones() {
        let limited = "[a]\nrw=write\nzonemode=zbd\n[b]\nstonewall\nrw=randwrite\nzonemode=zbd\n\
                       size=524288\njob_max_open_zones=2\n";
        for (feature, expected) in [
            ("1.0 writes", true),
            ("zones: most open", true),
            ("0.0 writes", false),
            ("zones: writes not at the write pointer", false),
            ("report: 1 flushes", true),
            ("report: 0 flushes", false),
            ("report: 1 error", false),
            ("end", false),
        ] {
            assert_eq!(is_excused(limited, feature, ["1", "2"]), expected, "{feature}");
        }
        let alone = "[b]\nrw=randwrite\nzonemode=zbd\nsize=524288\njob_max_open_zones=2\n";
        assert!(!is_excused(alone, "0.0 writes", ["1", "2"]), "no job came before");
    }

    #[test]
    fn jobs_that_wait_for_others_to_close_zones_do_more() {
        let beside =
            "[a]\nrw=write\nzonemode=zbd\nnumjobs=2\nsize=524288\noffset_increment=524288\n";
        let is_excused = |case: &str, [fio, zonal]: [f64; 2]| {
            let case: Case = format!("; device size=1048576 zone_size=65536 max_open=4\n{case}")
                .parse()
                .expect("a case");
            let is_covered = |feature: &str, make: fn(f64) -> Feature| {
                let (fio, zonal) = (vec![Some(make(fio))], vec![Some(make(zonal))]);
                covering(&case, &Difference { feature: feature.into(), fio, zonal }).is_some()
            };
            let by_number = is_covered("0.1 writes", |value| Feature::Number(value, 0.0));
            let by_time = is_covered("report: 1 milliseconds", |time| Feature::Time(time, 1.4));
            assert_eq!(by_number, by_time, "one that does less ends earlier");
            by_number
        };
        assert!(is_excused(beside, [0.0, 8.0]));
        assert!(!is_excused(beside, [8.0, 0.0]), "more in fio");
        assert!(!is_excused(&beside.replace("numjobs=2", ""), [0.0, 8.0]), "alone");
        assert!(!is_excused(&beside.replace("rw=write", "rw=read"), [0.0, 8.0]), "a reader");
    }

    #[test]
    fn zones_that_a_job_before_has_left_open_end_a_random_job() {
        let jobs = "[before]\nrw=write\nzonemode=zbd\n[a]\nstonewall\nrw=randwrite\nzonemode=zbd\noffset=524288\n";
        let writes = |jobs: &str, [fio, zonal]: [f64; 2]| {
            let case: Case = format!("; device size=1048576 zone_size=65536 max_open=4\n{jobs}")
                .parse()
                .expect("a case");
            let seen = |value| vec![Some(Feature::Number(value, 0.0))];
            let (fio, zonal) = (seen(fio), seen(zonal));
            covering(&case, &Difference { feature: "1.0 writes".into(), fio, zonal }).is_some()
        };
        assert!(writes(jobs, [40.0, 45.0]));
        assert!(!writes(jobs, [45.0, 40.0]), "more in fio");
        assert!(!writes(&jobs.replace("randwrite", "randread"), [40.0, 45.0]), "a reader");
        assert!(!writes(&jobs.replace("offset=524288\n", ""), [40.0, 45.0]), "all zones are its");
    }

    #[test]
    fn jobs_beside_others_race_for_what_a_job_before_has_left_of_the_limit() {
        let jobs = "[before]\nrw=write\nzonemode=zbd\n[a]\nstonewall\nrw=write\nzonemode=zbd\nsize=524288\nnumjobs=2\n";
        let is_one = |jobs: &str| is_excused(jobs, "1.1 sequence", ["1", "2"]);
        assert!(is_one(jobs));
        assert!(!is_one(&jobs.replace("numjobs=2\n", "")), "alone");
        assert!(!is_one(&jobs.replace("stonewall\nrw=write", "stonewall\nrw=read")), "a reader");
        assert!(!is_excused(jobs, "0.0 sequence", ["1", "2"]), "the job before");
        assert!(!is_excused(jobs, "zones: writes not at the write pointer", ["1", "2"]));
    }

    #[test]
    fn readers_of_zones_that_are_too_short_for_a_block_find_them_as_they_were() {
        let jobs =
            "[a]\nrw=rw\nzonemode=zbd\nbs=4096,131072\n[b]\nstonewall\nrw=randread\nzonemode=zbd\n";
        let is_one = |jobs: &str| is_excused(jobs, "1.0 read first zone", ["0", "1"]);
        assert!(is_one(jobs));
        assert!(!is_one(&jobs.replace("131072", "65536")), "a block fits");
        assert!(!is_one(&jobs.replace("rw=rw", "rw=read")), "a reader");
        assert!(!is_excused(jobs, "zones: written", ["0", "1"]));
    }

    #[test]
    fn early_resets_after_the_end_of_a_device_with_an_odd_number_of_zones_are_counted_anew() {
        let options = "rw=write\nzonemode=zbd\nio_size=1200000\nzone_reset_frequency=0.1\n";
        let is_one = |size: u64, options: &str, feature: &str| {
            let case = format!("; device size={size} zone_size=65536 max_open=0\n[a]\n{options}");
            let case: Case = case.parse().expect("a case");
            let seen = |text: &str| vec![Some(Feature::Text(text.to_owned()))];
            let (fio, zonal) = (seen("1"), seen("2"));
            covering(&case, &Difference { feature: feature.to_owned(), fio, zonal }).is_some()
        };
        let odd = 15 * 65536;
        assert!(is_one(odd, options, "0.0 sequence"));
        assert!(is_one(odd, options, "zones: 0 written"));
        assert!(!is_one(odd, options, "zones: most open"));
        assert!(!is_one(odd, options, "end"));
        assert!(!is_one(odd + 65536, options, "0.0 sequence"), "an even number");
        for (option, other) in [
            ("rw=write", "rw=randwrite"),
            ("io_size=1200000", "io_size=983040"),
            ("io_size=1200000", "io_size=1200000\nsize=14z"),
            ("io_size=1200000", "io_size=1200000\niodepth=4"),
            ("zone_reset_frequency=0.1\n", ""),
        ] {
            assert!(!is_one(odd, &options.replace(option, other), "0.0 sequence"), "{other}");
        }
    }

    #[test]
    fn later_passes_that_begin_before_their_zones_excuse_reads_outside_of_them() {
        let job = "[a]\nrw=rw\nzonemode=zbd\noffset=17%\nsize=7z\nloops=2\nread_beyond_wp=1\n";
        let is_one = |job: &str| is_excused(job, "0.0 outside of its zones", ["1", "0"]);
        assert!(is_one(job));
        assert!(is_one(&job.replace("loops=2", "io_size=1000000")));
        assert!(!is_one(&job.replace("loops=2\n", "")), "one pass");
        assert!(!is_one(&job.replace("offset=17%", "offset=131072")), "from a zone on");
        assert!(!is_one(&job.replace("rw=rw", "rw=read")), "a reader begins anywhere");
        assert!(!is_one(&job.replace("read_beyond_wp=1\n", "")), "fio does not end well");
        assert!(!is_excused(job, "zones: written", ["1", "0"]));
        assert!(!is_excused(job, "end", ["1", "0"]));
    }

    #[test]
    fn early_resets_while_all_that_is_to_be_verified_is_in_flight_excuse_ios() {
        let job = "[a]\nrw=write\nzonemode=zbd\niodepth=2\nverify=md5\nverify_backlog=2\n\
                   zone_reset_frequency=0.1\n";
        let is_one = |job: &str| is_excused(job, "0.0 reads", ["384", "192"]);
        assert!(is_one(job));
        for option in ["iodepth=2\n", "verify_backlog=2\n", "zone_reset_frequency=0.1\n"] {
            assert!(!is_one(&job.replace(option, "")), "without {option}");
        }
        assert!(!is_excused(job, "end", ["succeeds", "finds wrong data"]));
        assert!(!is_excused(job, "zones: writes not at the write pointer", ["0", "1"]));
    }

    #[test]
    fn a_distribution_excuses_places_but_no_numbers() {
        let bell = "[a]\nrw=randread\nrandom_distribution=normal:40\n[b]\nstonewall\nrw=randread\n";
        for (feature, expected) in [
            ("0.0 read offsets that differ", true),
            ("0.0 read in eighth 3 of the device", true),
            ("1.0 read offsets that differ", false),
            ("0.0 reads", false),
            ("0.0 read bytes", false),
        ] {
            assert_eq!(is_excused(bell, feature, ["1", "2"]), expected, "{feature}");
        }
        let zipf = "[a]\nrw=randread\nrandom_distribution=zipf:1.2\n";
        assert!(!is_excused(zipf, "0.0 read offsets that differ", ["1", "2"]), "as in fio");
        for (feature, expected) in [
            ("zones: 3 read", true),
            ("zones: most open", false),
            ("0.0 I/Os", false),
            ("0.0 pauses before I/O 3", false),
        ] {
            assert_eq!(is_excused(bell, feature, ["1", "2"]), expected, "{feature}");
        }
        let verified =
            "[a]\nrw=randwrite\nrandom_distribution=normal:40\nverify=md5\nnumber_ios=43\n";
        for (feature, expected) in
            [("0.0 I/Os", true), ("0.0 pauses before I/O 3", true), ("0.0 writes", false)]
        {
            assert_eq!(is_excused(verified, feature, ["1", "2"]), expected, "{feature}");
        }
    }

    #[test]
    fn a_distribution_whose_last_block_the_device_cuts_excuses_numbers() {
        let bell = "[a]\nrw=randwrite\nrandom_distribution=normal:40\nbs=49152\n";
        let bounded = |size: &str| format!("{bell}size={size}\n");
        for (case, expected) in [
            (bell, true),
            (&bell.replace("normal:40", "random"), false),
            (&bell.replace("49152", "65536"), false),
            (&bounded("983040"), false),
            (&bounded("524288"), false),
            (&bounded("1003520"), false),
            (&bounded("1040384"), true),
            (&format!("{bell}zonemode=zbd\n"), false),
        ] {
            assert_eq!(is_excused(case, "0.0 writes", ["1", "2"]), expected, "{case}");
        }
    }

    #[test]
    fn ends_are_excused_where_the_case_has_the_reason() {
        let wrong = ["finds wrong data", "succeeds"];
        let repeats = "[a]\nrw=randwrite\nverify=md5\nnorandommap=1\n";
        assert!(is_excused(repeats, "end", wrong));
        assert!(!is_excused(repeats, "end", ["fails after I/O", "succeeds"]));
        assert!(!is_excused("[a]\nrw=randwrite\nverify=md5\n", "end", wrong));
        let refused = ["succeeds", "refuses"];
        assert!(is_excused("[a]\nrw=write\nbs=8192\nsize=4096\n", "end", refused));
        assert!(!is_excused("[a]\nrw=write\nbs=4096\nsize=4096\n", "end", refused));
        assert!(is_excused("[a]\nrw=write\nbs=8192,24576\nsize=2%\n", "end", refused));
    }

    /// The number of entries may only become smaller.
    const MOST: usize = 9;

    #[test]
    fn the_list_is_that_of_the_documents_and_does_not_grow() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("docs/evidence/jobs.md")).expect("the page");
        let (begin, end) = ("<!-- begin: differences -->\n", "<!-- end: differences -->");
        let listed = page.split(begin).nth(1).and_then(|rest| rest.split(end).next());
        let expected = format!("\n| Zonal | Why |\n|---|---|\n{}\n", table());
        assert_eq!(listed.expect("the marks"), expected);
        assert!(DELIBERATE.len() <= MOST, "{} entries, {MOST} before", DELIBERATE.len());
    }
}
