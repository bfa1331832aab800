//! The features of an observation that are compared: numbers, with a margin for chance, and texts.
use crate::case::{Case, Section};
use crate::jobs::engine;
use crate::observe::{Dir, End, Io, Observation, keys};
use std::collections::{BTreeMap, BTreeSet};

/// A feature.
#[derive(Clone, Debug, PartialEq)]
pub enum Feature {
    /// A number, and how far apart two runs may be without a second look.
    Number(f64, f64),
    /// A time in milliseconds, and how many times as long fio's may be.
    Time(f64, f64),
    /// Something that is the same or not.
    Text(String),
}

/// The runtime of jobs that have one, in milliseconds.
pub const RUNTIME: f64 = 200.0;

/// fio's rates make up for a delay, unless it is at the end.
const RATED: f64 = 1.4;
/// fio's pauses do not, and may take any time on a machine that does other work, which makes pauses of its own, but
/// not at the same place with all seeds: where they are is compared.
const PAUSED: f64 = f64::MAX;

/// The ends of programs that say nothing of what they would do.
pub const HANGS: &str = "hangs";
/// As [`HANGS`].
pub const DIES: &str = "dies by a signal";

/// The end of a program that runs none of the jobs of a case, or not all.
const REFUSES: &str = "refuses";

/// Features by name.
pub type Features = BTreeMap<String, Feature>;

/// I/Os of each zone, of which chance then leaves out one in 400 cases.
const MANY_IN_A_ZONE: u64 = 6;

/// Standard deviations that a number of random I/Os may differ by.
const SIGMAS: f64 = 4.0;

/// The features of an observation.
pub fn features(case: &Case, seen: &Observation) -> Features {
    let mut found = Features::new();
    let did_io = seen.clones.iter().any(|ios| !ios.is_empty());
    let says = |texts: &[&str]| texts.iter().any(|text| seen.said.contains(text));
    let end = match seen.end {
        End::Hung => HANGS,
        End::Code(0) => "succeeds",
        End::Code(101) => "dies with 101",
        End::Code(-1) => DIES,
        End::Code(_) if says(&["no I/O was done"]) => "finds nothing to do",
        End::Code(_) if says(&["waits to open a zone", "is longer than zone"]) => {
            "may write no zone"
        }
        // The second job of a case that is refused, after the first one has run.
        End::Code(_)
            if says(&[
                "zone_reset_threshold",
                "must be at least one zone",
                "is larger than data set range",
            ]) =>
        {
            REFUSES
        }
        End::Code(_) if did_io && says(&["verify", "err=84"]) => "finds wrong data",
        End::Code(_) if did_io => "fails after I/O",
        End::Code(_) => REFUSES,
    };
    let ended_well = seen.end == End::Code(0);
    found.insert("end".into(), Feature::Text(end.to_owned()));
    if end == REFUSES || !did_io && !ended_well {
        return found;
    }
    let mut clones = seen.clones.iter();
    for (at, section) in case.sections.iter().enumerate() {
        for clone in 0..section.clones() {
            let ios = clones.next().map_or(&[][..], Vec::as_slice);
            let prefix = format!("{at}.{clone} ");
            if case.uses("exitall") && !section.has("exitall") {
                // How much it does is left to chance.
                let early = Feature::Text((ios.len() < 1000).to_string());
                found.insert(prefix + "is ended early", early);
                continue;
            }
            // What a job finds in zones that others write at the same time depends on timing.
            if !case.shares_zones() {
                of_clone(&prefix, section, ios, &mut found);
            }
            if section.is_zbd() {
                let region = section.region(&case.geometry, clone as u64);
                let is_outside = |io: &&Io| !region.contains(&io.offset);
                let outside = ios.iter().filter(is_outside).count();
                found.insert(prefix.clone() + "outside of its zones", exact(outside));
            }
            // Which zones are left to a job by others depends on timing.
            if let Some(zones) = case.geometry.zones.filter(|_| !is_timed(section))
                && !case.shares_zones()
            {
                of_zone_range(&prefix, ios, zones.size, &mut found);
            }
            if case.geometry.zones.is_none() || !section.is_zbd() {
                of_offsets(&prefix, section, ios, case.geometry.size, &mut found);
            }
        }
    }
    of_zones(case, seen, &mut found);
    if ended_well {
        of_report(case, seen, &mut found);
    }
    found
}

/// Whether the options of a job have the clock decide when it ends.
fn is_timed(section: &Section) -> bool {
    section.has("runtime")
}

fn exact(value: impl TryInto<u32>) -> Feature {
    Feature::Number(value.try_into().map_or(f64::MAX, f64::from), 0.0)
}

/// A number of random I/Os.
fn by_chance(value: f64) -> Feature {
    Feature::Number(value, SIGMAS * value.max(1.0).sqrt())
}

/// Whether chance decides the directions, lengths or places of a job's I/Os.
fn is_random(section: &Section) -> bool {
    let rw = section.get("rw").unwrap_or("read");
    let varies = ["bsrange", "bssplit", "rwmixread_random", "percentage_random"];
    rw.contains("rand") || is_mixed(section) || varies.iter().any(|name| section.has(name))
}

fn is_mixed(section: &Section) -> bool {
    section.get("rw").is_some_and(|rw| {
        rw.starts_with("rw") || rw.starts_with("randrw") || rw.starts_with("readwrite")
    })
}

fn varies_in_length(section: &Section) -> bool {
    section.has("bsrange") || section.has("bssplit")
}

fn hash(ios: &[(Dir, u64, u64)]) -> String {
    // FNV-1a, the same with every compiler: values are recorded.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |byte: &u8| hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    for (dir, offset, len) in ios {
        dir.name().as_bytes().iter().for_each(&mut add);
        offset.to_le_bytes().iter().chain(&len.to_le_bytes()).for_each(&mut add);
    }
    let shown: Vec<_> = ios
        .iter()
        .take(4)
        .map(|(dir, offset, len)| format!("{}@{offset}+{len}", dir.name()))
        .collect();
    format!("{} I/Os {} ... ({hash:x})", ios.len(), shown.join(" "))
}

/// The length of pauses, in microseconds, if they can be compared: fio's engines for trims here do one I/O at a
/// time, whatever the depth is, so that a pause follows each.
fn pause_of(section: &Section, is_deep: bool) -> Option<u64> {
    let is_judged = !is_deep || engine(section) == "io_uring";
    section.get("thinktime").filter(|_| is_judged)?.parse().ok()
}

/// Numbers of I/Os and bytes by direction, lengths, and the sequence where it is determined.
fn of_clone(prefix: &str, section: &Section, ios: &[Io], found: &mut Features) {
    let mut add = |name: String, feature| found.insert(prefix.to_owned() + &name, feature);
    let random_number = |value: u64| by_chance(value as f64);
    for dir in Dir::ALL {
        let own: Vec<&Io> = ios.iter().filter(|io| io.dir == dir).collect();
        let name = dir.name();
        let bytes: u64 = own.iter().map(|io| io.len).sum();
        let mean = bytes as f64 / own.len().max(1) as f64;
        let count = own.len() as u64;
        if is_timed(section) {
            let time = 100.0 * RUNTIME / (count as f64).max(1.0);
            add(format!("{name}s: milliseconds for each hundred"), Feature::Time(time, RATED));
            continue;
        }
        if is_mixed(section) || varies_in_length(section) {
            add(format!("{name}s"), random_number(count));
            let largest = own.iter().map(|io| io.len).max().unwrap_or(1) as f64;
            let margin = SIGMAS * (count as f64).sqrt() * mean + largest;
            add(format!("{name} bytes"), Feature::Number(bytes as f64, margin));
        } else {
            add(format!("{name}s"), exact(count));
            add(format!("{name} bytes"), Feature::Number(bytes as f64, 0.0));
        }
        let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
        own.iter().for_each(|io| *lengths.entry(io.len).or_default() += 1);
        if lengths.len() <= 8 {
            for (len, count) in lengths {
                let feature = if is_random(section) { random_number(count) } else { exact(count) };
                add(format!("{name}s of {len} bytes"), feature);
            }
        }
        if !is_random(section) && count > 0 {
            let mut set: Vec<_> = own.iter().map(|io| (io.dir, io.offset, io.len)).collect();
            set.sort_unstable();
            add(format!("set of {name}s"), Feature::Text(hash(&set)));
        }
    }
    // What is left to verify depends on how many of them are writes, which with rates the machine decides.
    let is_by_rate = section.has("rate_iops") && is_mixed(section) && section.has("verify");
    if section.has("number_ios") && !is_by_rate {
        add("I/Os".into(), exact(ios.len()));
    }
    let is_deep = section.get("iodepth").is_some_and(|depth| depth != "1");
    if let Some(pause) = pause_of(section, is_deep) {
        let pairs = ios.windows(2).enumerate();
        for (at, _) in pairs.filter(|(_, pair)| pair[1].at.saturating_sub(pair[0].at) >= pause) {
            add(format!("pauses before I/O {}", at + 1), exact(1_u32));
        }
    }
    if is_random(section) || is_timed(section) || is_deep && section.clones() > 1 {
        return;
    }
    let mut add_order = |name: &str, ios: Vec<&Io>| {
        let all: Vec<_> = ios.iter().map(|io| (io.dir, io.offset, io.len)).collect();
        if !all.is_empty() {
            add(name.to_owned(), Feature::Text(hash(&all)));
        }
    };
    if is_deep && section.has("verify_backlog") {
        // Which of several I/Os completes first is the kernel's choice, and decides when fio verifies.
        for dir in Dir::ALL {
            let name = format!("sequence of {}s", dir.name());
            add_order(&name, ios.iter().filter(|io| io.dir == dir).collect());
        }
    } else {
        add_order("sequence", ios.iter().collect());
    }
}

/// The first and last zone of each direction, where there are so many I/Os that chance leaves out none.
fn of_zone_range(prefix: &str, ios: &[Io], zone_size: u64, found: &mut Features) {
    for dir in Dir::ALL {
        let own = ios.iter().filter(|io| io.dir == dir);
        let zones: Vec<u64> = own.map(|io| io.offset / zone_size).collect();
        let (Some(first), Some(last)) = (zones.iter().min(), zones.iter().max()) else { continue };
        if zones.len() as u64 >= MANY_IN_A_ZONE * (last - first + 1) {
            for (name, zone) in [("first", first), ("last", last)] {
                found.insert(format!("{prefix}{} {name} zone", dir.name()), exact(*zone));
            }
        }
    }
}

/// Where the I/Os of a job without zones are.
fn of_offsets(prefix: &str, section: &Section, ios: &[Io], size: u64, found: &mut Features) {
    if !is_random(section) || is_timed(section) {
        return;
    }
    for dir in Dir::ALL {
        let own: Vec<&Io> = ios.iter().filter(|io| io.dir == dir).collect();
        if own.is_empty() {
            continue;
        }
        let mut add =
            |name: &str, feature| found.insert(format!("{prefix}{} {name}", dir.name()), feature);
        let count = own.len() as f64;
        let distinct = own.iter().map(|io| io.offset).collect::<BTreeSet<_>>().len();
        add("offsets that differ", by_chance(distinct as f64));
        let first = own.iter().map(|io| io.offset).min().unwrap_or(0);
        let last = own.iter().map(|io| io.offset + io.len).max().unwrap_or(0);
        let margin = (last - first) as f64 * 8.0 / count;
        add("first byte", Feature::Number(first as f64, margin));
        add("last byte", Feature::Number(last as f64, margin));
        let follow =
            own.windows(2).filter(|pair| pair[0].offset + pair[0].len == pair[1].offset).count();
        add("that follow one another", by_chance(follow as f64));
        let hashed = section
            .get("random_distribution")
            .is_some_and(|name| name.starts_with(['z', 'p']) && !name.starts_with("zoned"));
        let mut of_place: BTreeMap<u64, u64> = BTreeMap::new();
        own.iter().for_each(|io| *of_place.entry(io.offset).or_default() += 1);
        let most = of_place.values().max().copied().unwrap_or(0);
        add("at the most frequent offset", by_chance(most as f64));
        if !hashed {
            for part in 0..8_u64 {
                let range = size * part / 8..size * (part + 1) / 8;
                let inside = own.iter().filter(|io| range.contains(&io.offset)).count();
                add(&format!("in eighth {part} of the device"), by_chance(inside as f64));
            }
        }
    }
}

/// A zone as the I/Os show it.
#[derive(Clone, Copy, Default)]
struct Zone {
    /// Bytes from its start up to the end of the last write.
    wp: u64,
    fills: u64,
}

/// What happens in the zones: times that each is filled from its start, and how many are open.
fn of_zones(case: &Case, seen: &Observation, found: &mut Features) {
    let Some(zones) = case.geometry.zones else { return };
    let timed = case.shares_zones() || case.sections.iter().any(is_timed);
    if timed || !case.sections.iter().all(Section::is_zbd) {
        return;
    }
    let mut table =
        vec![Zone::default(); usize::try_from(case.geometry.size / zones.size).expect("few zones")];
    let (mut most_open, mut misplaced, mut finished) = (0_usize, 0_u32, 0_u32);
    let (mut reads_in, mut written_in) = (vec![0_u64; table.len()], vec![0_u64; table.len()]);
    for io in seen.clones.iter().flatten() {
        let number = usize::try_from(io.offset / zones.size).expect("few zones");
        let at = io.offset % zones.size;
        let Some(zone) = table.get_mut(number) else { continue };
        match io.dir {
            Dir::Read => reads_in[number] += 1,
            Dir::Trim => zone.wp = 0,
            Dir::Write => {
                written_in[number] += 1;
                if at == 0 {
                    finished += u32::from(zone.wp > 0 && zone.wp < zones.capacity);
                    zone.fills += 1;
                } else if at != zone.wp {
                    misplaced += 1;
                }
                zone.wp = at + io.len;
                let is_open = |zone: &&Zone| zone.wp > 0 && zone.wp < zones.capacity;
                most_open = most_open.max(table.iter().filter(is_open).count());
            }
        }
    }
    let random = case.sections.iter().any(is_random);
    let number = |value: u64| {
        if random { by_chance(value as f64) } else { Feature::Number(value as f64, 0.0) }
    };
    let mut add = |name: String, feature| found.insert(format!("zones: {name}"), feature);
    add("times filled".into(), number(table.iter().map(|zone| zone.fills).sum()));
    add("written".into(), number(written_in.iter().filter(|&&count| count > 0).count() as u64));
    add("read".into(), number(reads_in.iter().filter(|&&count| count > 0).count() as u64));
    if !case.is_concurrent() {
        add("most open".into(), number(most_open as u64));
        add("writes not at the write pointer".into(), exact(misplaced));
        add("reset before they were full".into(), number(u64::from(finished)));
    }
    for (at, (zone, (written, read))) in
        table.iter().zip(written_in.iter().zip(&reads_in)).enumerate()
    {
        add(format!("{at} filled"), number(zone.fills));
        add(format!("{at} written"), number(*written));
        add(format!("{at} read"), number(*read));
    }
}

/// What the report says: keys, and of each job the error and what it counts.
fn of_report(case: &Case, seen: &Observation, found: &mut Features) {
    for key in keys(&seen.report).iter().filter(|key| !depends_on_ios(key)) {
        found.insert(format!("report: {key}"), Feature::Text("present".into()));
    }
    let jobs = seen.report["jobs"].as_array().map_or(&[][..], Vec::as_slice);
    found.insert("report: jobs".into(), exact(jobs.len()));
    for (at, job) in jobs.iter().enumerate() {
        found.insert(format!("report: {at} error"), Feature::Text(job["error"].to_string()));
        // Reports of groups count several clones.
        let Some(ios) = seen.clones.get(at).filter(|_| jobs.len() == seen.clones.len()) else {
            continue;
        };
        let is_left_to_chance =
            |section: &Section| is_timed(section) || is_mixed(section) || varies_in_length(section);
        // As that of writes, this depends on what others leave of zones that are shared.
        if !case.shares_zones() && !case.section_of(at).is_some_and(is_left_to_chance) {
            let flushes = job["sync"]["total_ios"].as_f64().unwrap_or(0.0);
            found.insert(format!("report: {at} flushes"), Feature::Number(flushes, 0.0));
        }
        let is_ended = |section: &Section| case.uses("exitall") && !section.has("exitall");
        let section = case.section_of(at).filter(|section| !is_ended(section));
        let most = match section {
            Some(section) if section.has("thinktime") => PAUSED,
            Some(section) if section.has("rate_iops") => RATED,
            _ => 0.0,
        };
        if most > 0.0 {
            let time = job["job_runtime"].as_f64().unwrap_or(0.0);
            found.insert(format!("report: {at} milliseconds"), Feature::Time(time, most));
        }
        for dir in Dir::ALL {
            let own = ios.iter().filter(|io| io.dir == dir);
            let (count, bytes) = own.fold((0, 0), |(count, bytes), io| (count + 1, bytes + io.len));
            for (key, logged) in [("total_ios", count), ("io_bytes", bytes)] {
                let beyond = job[dir.name()][key].as_f64().unwrap_or(-1.0) - logged as f64;
                let name = format!("report: {at} {} {key} beyond the log", dir.name());
                found.insert(name, Feature::Number(beyond, 0.0));
            }
        }
    }
}

/// Whether a key is not in every report: percentiles are there if there were I/Os, and fio counts what a
/// disk does, but not a file in memory.
fn depends_on_ios(key: &str) -> bool {
    key.ends_with("/percentile") || key.starts_with("/disk_util")
}
