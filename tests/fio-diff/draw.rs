//! Draws cases from seeds. Each has a few options only, so that what differs has few causes, and
//! does some tens to some hundreds of I/Os.
use crate::case::{Case, Geometry, Section, Zones};
use crate::features::RUNTIME;
use zonal_fio::rng::Rng;

/// The smallest length of an I/O.
const KIB: u64 = 1024;

/// Draws from a seed.
struct Draw(Rng);

impl Draw {
    /// True in this many percent of the cases.
    fn in_percent(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }
}

/// What the options of a section are drawn for.
#[derive(Clone, Copy)]
struct Setting {
    geometry: Geometry,
    /// The usual length of an I/O.
    unit: u64,
    /// The section has `zonemode=zbd`.
    zbd: bool,
    /// The option `max_open_zones` of all sections.
    limit: Option<u64>,
}

/// A common multiple of the lengths of a section, in units.
const MULTIPLE: u64 = 12;

/// The case of a seed.
pub fn draw(seed: u64) -> Case {
    let mut draw = Draw(Rng::new(seed, [0; 4]));
    let unit = draw.one_of(&[4, 8, 16]) * KIB;
    let zbd = draw.in_percent(50);
    let geometry = if zbd { zoned(&mut draw, unit) } else { plain(&mut draw, unit) };
    // The limit is the device's, or that of an option, which all jobs have to have.
    let limit = (zbd && draw.in_percent(25)).then(|| draw.between(1, 6));
    let geometry = match (geometry.zones, limit) {
        (Some(zones), Some(_)) => {
            Geometry { zones: Some(Zones { max_open: 0, ..zones }), ..geometry }
        }
        _ => geometry,
    };
    let setting = Setting { geometry, unit, zbd, limit };
    let count = draw.one_of(&[1, 1, 1, 2, 2, 3]);
    let mut sections: Vec<Section> = Vec::new();
    // What the other jobs find.
    if zbd && draw.in_percent(40) {
        sections.push(preparation(&mut draw, setting));
    }
    for at in 0..count {
        let name = ["a", "b", "c"][at].to_owned();
        let mut section = Section { name, options: Vec::new() };
        if !sections.is_empty() && draw.in_percent(if zbd { 90 } else { 60 }) {
            section.set("stonewall", 1);
        }
        fill(&mut draw, setting, &mut section);
        keep_on_device(&mut section, geometry);
        if !sections.is_empty() && !section.has("stonewall") && draw.in_percent(15) {
            let first = &sections[0].name;
            section.set("wait_for", first);
        }
        sections.push(section);
    }
    keep_apart(&mut sections);
    together(&mut draw, setting, &mut sections);
    Case { geometry, sections }
}

/// Has jobs be reported, issue I/O or end together.
fn together(draw: &mut Draw, setting: Setting, sections: &mut Vec<Section>) {
    if let [only] = &mut sections[..] {
        if only.clones() > 1 && draw.in_percent(30) {
            only.set("group_reporting", 1);
        }
        return;
    }
    if !setting.zbd && draw.in_percent(3) {
        *sections = ended_by_another(setting);
        return;
    }
    let is_free = |section: &Section| !section.has("rate_iops") && !section.has("thinktime");
    let second = &sections[1];
    let beside = !second.has("stonewall") && !second.has("wait_for") && sections.len() == 2;
    if beside && sections.iter().all(is_free) && draw.in_percent(25) {
        sections.iter_mut().for_each(|section| section.set("flow", draw.between(1, 5)));
    }
}

/// Two jobs of which one ends the other, long before that has done its I/O.
fn ended_by_another(setting: Setting) -> Vec<Section> {
    let job = |name: &str, rate: u64, ios: u64| {
        let mut section = Section { name: name.to_owned(), options: Vec::new() };
        section.set("rw", "read");
        section.set("bs", setting.unit);
        section.set("io_size", setting.unit * ios);
        section.set("rate_iops", rate);
        section
    };
    let (mut first, other) = (job("a", 600, 60), job("b", 100, 2000));
    first.set("exitall", 1);
    vec![first, other]
}

fn plain(draw: &mut Draw, unit: u64) -> Geometry {
    Geometry { size: unit * draw.between(32, 300), zones: None }
}

fn zoned(draw: &mut Draw, unit: u64) -> Geometry {
    let size = unit * draw.one_of(&[4, 8, 16, 12]);
    let capacity = match draw.between(0, 3) {
        0 | 1 => size,
        2 => size - unit * draw.between(1, 3),
        // No whole number of blocks.
        _ => size - unit - unit / 2,
    };
    let count = draw.between(4, 20);
    let max_open = draw.one_of(&[0, 0, 1, 2, 3, 6]);
    Geometry { size: size * count, zones: Some(Zones { size, capacity, max_open }) }
}

/// Has no region end beyond the device as a whole block is where it begins in percent: fio would make the file
/// longer, which stands for the device.
fn keep_on_device(section: &mut Section, geometry: Geometry) {
    let start = section.region(&geometry, 0).start;
    let size = section.get("size").and_then(|size| size.parse::<u64>().ok());
    if size.is_some_and(|size| start + size > geometry.size) {
        section.options.retain(|(name, _)| name != "size");
        section.set("size", geometry.size - start);
    }
}

/// Has no job run beside one that verifies, which would find what the other one wrote; nor before one that it
/// waits for, as it does in fio while that is still delayed, against its manual.
fn keep_apart(sections: &mut [Section]) {
    let verifies: Vec<bool> = sections.iter().map(|section| section.has("verify")).collect();
    for (at, section) in sections.iter_mut().enumerate().skip(1) {
        if (verifies[at] || verifies[at - 1]) && !section.has("stonewall") {
            section.set("stonewall", 1);
        }
    }
    let last = sections.iter().rposition(|section| section.has("stonewall")).unwrap_or(0);
    let before = &mut sections[..last];
    before.iter_mut().for_each(|section| section.options.retain(|it| it.0 != "startdelay"));
}

/// A job that leaves some zones full and one written in part.
fn preparation(draw: &mut Draw, setting: Setting) -> Section {
    let mut section = Section { name: "before".into(), options: Vec::new() };
    section.set("rw", draw.one_of(&["write", "write", "randwrite"]));
    section.set("zonemode", "zbd");
    section.set("bs", setting.unit);
    section.set("io_size", setting.unit * draw.between(1, setting.geometry.size / setting.unit));
    if let Some(most) = setting.limit {
        section.set("max_open_zones", most);
    }
    section
}

/// All options of a section but `stonewall`.
fn fill(draw: &mut Draw, setting: Setting, section: &mut Section) {
    let trims = setting.zbd && draw.in_percent(10);
    let directions = ["write", "randwrite", "read", "randread", "rw", "randrw"];
    let of_discards = ["trim", "randtrim", "trimwrite", "randtrimwrite"];
    let rw = match setting.zbd {
        true if trims => draw.one_of(&of_discards[..2]),
        false if draw.in_percent(20) => draw.one_of(&of_discards),
        _ => draw.one_of(&directions),
    };
    let modified = match rw {
        "randwrite" | "randread" if draw.in_percent(8) => format!("{rw}:{}", draw.between(2, 8)),
        "write" | "read" if draw.in_percent(8) && !setting.zbd => format!("{rw}:{}", setting.unit),
        _ => rw.to_owned(),
    };
    section.set("rw", modified);
    if setting.zbd {
        section.set("zonemode", "zbd");
    }
    match setting.geometry.zones.filter(|_| trims) {
        Some(zones) => section.set("bs", zones.size),
        None => lengths(draw, setting, section),
    }
    if rw.contains("trim") && !setting.zbd {
        // fio's engine `null`, which does these trims, has no file with a size: its files are as long as
        // `size`, a multiple of all lengths, so that no block reaches beyond the end.
        let step = setting.unit * MULTIPLE;
        section.set("size", step * draw.between(1, setting.geometry.size / step));
    } else if !setting.zbd && draw.in_percent(15) {
        stride(draw, setting, section);
    } else if draw.in_percent(10) {
        regions_of_clones(draw, setting, section);
    } else {
        places(draw, setting, section);
    }
    amounts(draw, setting, section);
    if rw.ends_with("rw") && draw.in_percent(50) {
        section.set("rwmixread", draw.one_of(&[10, 30, 70, 90]));
    }
    if rw.starts_with("rand") && !trims {
        random(draw, setting, section);
    }
    if draw.in_percent(30) {
        section.set("iodepth", draw.one_of(&[2, 4, 8, 16]));
    }
    if section.get("numjobs").is_none() && draw.in_percent(10) {
        section.set("numjobs", draw.between(2, 4));
    }
    if rw.contains("w") && !rw.contains("trim") {
        data(draw, section);
    }
    if let Some(zones) = setting.geometry.zones.filter(|_| setting.zbd) {
        zone_options(draw, setting, zones, section);
    }
    if draw.in_percent(10) {
        times(draw, section);
    }
    if draw.in_percent(4) {
        section.set("startdelay", format!("{}ms", draw.between(5, 60)));
    }
}

/// Verification and flushes.
fn data(draw: &mut Draw, section: &mut Section) {
    if section.clones() == 1 && draw.in_percent(15) {
        section.set("verify", draw.one_of(&["crc32c", "md5", "null", "meta"]));
        if draw.in_percent(30) {
            section.set("verify_backlog", draw.between(1, 20));
        }
    }
    if draw.in_percent(6) {
        section.set("fsync", draw.between(1, 20));
    }
}

/// Rates and pauses, of jobs that last some tenths of a second.
fn times(draw: &mut Draw, section: &mut Section) {
    section
        .options
        .retain(|(name, _)| name != "number_ios" && name != "loops" && name != "numjobs");
    match draw.between(0, 4) {
        0 => section.set("thinktime", draw.one_of(&[1000, 3000])),
        4 => {
            // By direction.
            let [reads, writes] = [(); 2].map(|()| draw.one_of(&[300, 600, 900]));
            section.set("rate_iops", format!("{reads},{writes}"));
        }
        1 => {
            section.set("thinktime", 5000);
            section.set("thinktime_blocks", draw.between(2, 8));
        }
        2 => {
            section.set("rate_iops", draw.one_of(&[300, 600, 900]));
            section.set("runtime", format!("{RUNTIME}ms"));
            section.set("time_based", 1);
            return;
        }
        _ => section.set("rate_iops", draw.one_of(&[300, 600, 900])),
    }
    section.set("number_ios", draw.between(20, 80));
}

fn lengths(draw: &mut Draw, setting: Setting, section: &mut Section) {
    let unit = setting.unit;
    match draw.between(0, 11) {
        0 => section.set("bsrange", format!("{unit}-{}", unit * draw.between(2, 4))),
        1 => section.set("bssplit", format!("{unit}/60:{}/40", unit * 2)),
        2 => section.set("bssplit", format!("{unit}/10:{}/30:{}/60", unit * 2, unit * 3)),
        3 => section.set("bs", format!("{unit},{}", unit * draw.between(1, 3))),
        4 => section.set("bs", format!("{unit},{},{}", unit * 2, unit * draw.between(1, 3))),
        5 => section.set("bs", unit * draw.between(2, 3)),
        _ => section.set("bs", unit),
    }
    if draw.in_percent(6) {
        section.set("ba", unit * draw.between(1, 2));
    }
}

/// `offset` and `size`.
fn places(draw: &mut Draw, setting: Setting, section: &mut Section) {
    let Geometry { size, zones } = setting.geometry;
    let step = zones.filter(|_| setting.zbd).map_or(setting.unit, |zones| zones.size);
    let steps = size / step;
    let mut left = steps;
    if draw.in_percent(30) {
        let at = draw.between(1, steps / 2);
        left -= at;
        match draw.between(0, 3) {
            0 => section.set("offset", format!("{}%", at * 100 / steps)),
            1 if setting.zbd => section.set("offset", format!("{at}z")),
            _ => section.set("offset", at * step),
        }
    }
    if draw.in_percent(60) {
        let long = draw.between(1, left);
        match draw.between(0, 3) {
            0 => section.set("size", format!("{}%", (long * 100).div_ceil(steps).min(100))),
            1 if setting.zbd => section.set("size", format!("{long}z")),
            _ => section.set("size", long * step),
        }
    }
}

/// A stride from some offset on.
fn stride(draw: &mut Draw, setting: Setting, section: &mut Section) {
    let unit = setting.unit;
    let units = setting.geometry.size / unit;
    section.set("zonemode", "strided");
    section.set("zonesize", unit * draw.between(1, 8));
    if draw.in_percent(40) {
        section.set("zonerange", unit * draw.between(4, 8));
    }
    section.set("zoneskip", unit * draw.between(0, 8));
    if draw.in_percent(30) {
        section.set("offset", unit * draw.between(1, units / 2));
    }
    if draw.in_percent(60) {
        section.set("size", unit * draw.between(4, units / 2));
    }
}

/// Clones side by side.
fn regions_of_clones(draw: &mut Draw, setting: Setting, section: &mut Section) {
    let Geometry { size, zones } = setting.geometry;
    let step = zones.filter(|_| setting.zbd).map_or(setting.unit * 7, |zones| zones.size);
    let clones = draw.between(2, 4);
    let part = step * (size / step / clones).max(1);
    section.set("numjobs", clones);
    section.set("size", part);
    section.set("offset_increment", part);
}

/// How much the job does.
fn amounts(draw: &mut Draw, setting: Setting, section: &mut Section) {
    let units = setting.geometry.size / setting.unit;
    if draw.in_percent(30) {
        section.set("io_size", setting.unit * draw.between(1, units * 2));
    } else if !setting.zbd && draw.in_percent(5) {
        section.set("io_size", format!("{}%", draw.between(20, 100)));
    }
    if draw.in_percent(15) {
        section.set("number_ios", draw.between(1, units));
    }
    if draw.in_percent(10) {
        section.set("loops", draw.between(2, 3));
    }
}

/// Options of jobs with random offsets.
fn random(draw: &mut Draw, setting: Setting, section: &mut Section) {
    let unit = setting.unit;
    if draw.in_percent(25) {
        section.set("norandommap", 1);
    }
    if draw.in_percent(20) {
        let kinds = ["zipf:1.2", "pareto:0.3", "normal:40", "zoned:60/10:30/20:10/70", "zoned_abs"];
        let absolute = [4, 8, 16].map(|units| unit * units);
        let is_part = section.has("size") || section.has("offset");
        let exceeds = is_part || absolute.iter().sum::<u64>() > setting.geometry.size;
        let kind = match draw.one_of(&kinds) {
            // fio says that the zones exceed the file, and draws beyond its end.
            "zoned_abs" if exceeds => "zoned:30/10:70/90".to_owned(),
            "zoned_abs" => {
                let [first, second, third] = absolute;
                format!("zoned_abs:50/{first}:30/{second}:20/{third}")
            }
            kind => kind.to_owned(),
        };
        section.set("random_distribution", kind);
    }
    if draw.in_percent(10) {
        let percent = draw.one_of(&[20, 50, 80]);
        // fio's file of trims ends with the region, and a block that follows another at the end of a file is
        // placed otherwise than at the end of a region.
        if !section.trims() {
            section.set("percentage_random", percent);
        }
    }
    if draw.in_percent(10) {
        section.set("randrepeat", 0);
    }
    if draw.in_percent(8) {
        section.set("random_generator", draw.one_of(&["lfsr", "tausworthe64"]));
    }
}

fn zone_options(draw: &mut Draw, setting: Setting, zones: Zones, section: &mut Section) {
    if let Some(most) = setting.limit {
        section.set("max_open_zones", most);
    }
    // fio refuses a limit for a job without one for all.
    if (zones.max_open > 0 || section.has("max_open_zones")) && draw.in_percent(25) {
        section.set("job_max_open_zones", draw.between(1, 4));
    }
    if draw.in_percent(10) {
        section.set("zone_reset_threshold", draw.one_of(&["0.3", "0.6", "0.9"]));
        section.set("zone_reset_frequency", draw.one_of(&["0.1", "0.3"]));
    }
    if draw.in_percent(10) {
        section.set("read_beyond_wp", 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_case_and_cases_vary() {
        let cases: Vec<String> = (0..50).map(|seed| draw(seed).to_string()).collect();
        let again: Vec<String> = (0..50).map(|seed| draw(seed).to_string()).collect();
        assert_eq!(cases, again);
        let mut distinct = cases;
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 50);
    }

    #[test]
    fn cases_are_read_as_they_are_printed() {
        for seed in 0..200 {
            let case = draw(seed);
            assert_eq!(case.to_string().parse::<Case>().unwrap(), case);
        }
    }

    #[test]
    fn regions_that_begin_in_percent_are_on_the_device() {
        for seed in (0..2000).chain([8_000_744]) {
            let Case { geometry, sections } = draw(seed);
            for section in sections {
                let size = section.get("size").and_then(|size| size.parse::<u64>().ok());
                let end = section.region(&geometry, 0).start + size.unwrap_or(0);
                assert!(end <= geometry.size, "{seed}: {section:?}");
            }
        }
    }
}
