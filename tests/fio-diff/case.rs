//! A case: job sections and the geometry of the device that they run on. It is written and read as a job
//! file whose first line is a comment with the geometry.
use anyhow::{Context, Result, bail};
use std::fmt::{self, Display};
use std::ops::Range;
use std::str::FromStr;

/// The zones of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// In bytes.
    pub size: u64,
    /// In bytes, at most the size.
    pub capacity: u64,
    /// Zones that may be open; 0 for no limit.
    pub max_open: u64,
}

/// What the jobs run on. fio has a file of the same size, and emulates the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// In bytes.
    pub size: u64,
    /// Of a device with zones.
    pub zones: Option<Zones>,
}

/// A job section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The job's name.
    pub name: String,
    /// Names and values, in order.
    pub options: Vec<(String, String)>,
}

/// Jobs on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The device.
    pub geometry: Geometry,
    /// The jobs.
    pub sections: Vec<Section>,
}

impl Section {
    /// The value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
    }

    /// Appends an option.
    pub fn set(&mut self, name: &str, value: impl Display) {
        self.options.push((name.to_owned(), value.to_string()));
    }

    /// The number of clones.
    pub fn clones(&self) -> usize {
        self.get("numjobs").and_then(|number| number.parse().ok()).unwrap_or(1)
    }

    /// Whether it has `zonemode=zbd`.
    pub fn is_zbd(&self) -> bool {
        self.get("zonemode") == Some("zbd")
    }

    /// Whether it discards.
    pub fn trims(&self) -> bool {
        self.get("rw").is_some_and(|rw| rw.contains("trim"))
    }

    /// The smallest block size of all directions.
    pub fn smallest_block(&self) -> u64 {
        let option = ["bssplit", "bsrange", "bs"].into_iter().find_map(|name| self.get(name));
        let number = |text: &str| text.split(['/', '-']).next()?.parse::<u64>().ok();
        option.and_then(|sizes| sizes.split([',', ':']).filter_map(number).min()).unwrap_or(4096)
    }

    /// The region of a clone in bytes, in whole zones if it has `zonemode=zbd`.
    pub fn region(&self, geometry: &Geometry, clone: u64) -> Range<u64> {
        let Geometry { size, zones } = *geometry;
        let zone = zones.map_or(1, |zones| zones.size);
        let bytes = |name: &str| {
            let value = self.get(name)?;
            match (value.strip_suffix('%'), value.strip_suffix('z')) {
                (Some(percent), _) => Some(size * percent.parse::<u64>().ok()? / 100),
                (_, Some(count)) => Some(count.parse::<u64>().ok()? * zone),
                _ => value.parse().ok(),
            }
        };
        let at = bytes("offset").unwrap_or(0) + bytes("offset_increment").unwrap_or(0) * clone;
        let is_percent = |name: &str| self.get(name).is_some_and(|value| value.ends_with('%'));
        let at = match is_percent("offset") || is_percent("offset_increment") {
            true => at.next_multiple_of(self.smallest_block()),
            false => at,
        };
        let whole_blocks = |len: u64| match self.get("size") {
            // As both do.
            Some(size) if size.ends_with('%') && len < geometry.size => {
                len - len % self.smallest_block()
            }
            _ => len,
        };
        let end = bytes("size").map_or(size, |len| (at + whole_blocks(len)).min(size));
        if !self.is_zbd() {
            return at..end;
        }
        let begins_anywhere = self.get("rw").is_none_or(|rw| rw == "read");
        let start = if begins_anywhere { at } else { at.next_multiple_of(zone) };
        start..if end < size { end / zone * zone } else { end }
    }

    /// Whether an option is given with a value other than 0.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0")
    }
}

impl Case {
    /// Whether jobs run beside others, so that fio's threads race.
    pub fn is_concurrent(&self) -> bool {
        self.sections.iter().any(|section| section.clones() > 1)
            || self.sections.iter().skip(1).any(|section| !section.has("stonewall"))
    }

    /// Whether jobs or clones that run at the same time use the same zones.
    pub fn shares_zones(&self) -> bool {
        let apart =
            |section: &Section| section.clones() == 1 || section.get("offset_increment").is_some();
        self.geometry.zones.is_some()
            && (!self.sections.iter().all(apart)
                || self.sections.iter().skip(1).any(|section| !section.has("stonewall")))
    }

    /// Whether a job with zones would write another one if its region were a zone longer: there is one, and the job
    /// draws zones, or reaches the end of its region, as less than its size can be written.
    pub fn leaves_zones(&self, section: &Section) -> bool {
        let Some(zones) = self.geometry.zones.filter(|_| section.is_zbd()) else { return false };
        let rw = section.get("rw").unwrap_or("read");
        let region = section.region(&self.geometry, section.clones() as u64 - 1);
        region.end < self.geometry.size
            && rw.contains('w')
            && (rw.starts_with("rand") || zones.capacity < zones.size)
    }

    /// Whether fio on a file does what it does on a device: the file would grow beyond its end. And a limit of
    /// open zones for a job needs one for all.
    pub fn is_sound(&self) -> bool {
        let zone_limit = self.geometry.zones.is_some_and(|zones| zones.max_open > 0);
        self.sections.iter().all(|section| {
            let bytes = |name| section.get(name).and_then(|value| value.parse::<u64>().ok());
            let step = bytes("offset_increment").unwrap_or(0);
            let limited = zone_limit || section.has("max_open_zones");
            let last = step * (section.clones() as u64 - 1) + bytes("size").unwrap_or(u64::MAX / 2);
            (step == 0 || last <= self.geometry.size)
                && (limited || section.get("job_max_open_zones").is_none())
        })
    }

    /// The section of a clone, which is counted among all.
    pub fn section_of(&self, clone: usize) -> Option<&Section> {
        let clones = self.sections.iter().flat_map(|section| vec![section; section.clones()]);
        clones.into_iter().nth(clone)
    }

    /// Whether a section has an option.
    pub fn uses(&self, name: &str) -> bool {
        self.sections.iter().any(|section| section.has(name))
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "; device size={}", self.geometry.size)?;
        if let Some(zones) = self.geometry.zones {
            let Zones { size, capacity, max_open } = zones;
            write!(f, " zone_size={size} zone_capacity={capacity} max_open={max_open}")?;
        }
        for section in &self.sections {
            write!(f, "\n[{}]", section.name)?;
            for (name, value) in &section.options {
                write!(f, "\n{name}={value}")?;
            }
        }
        writeln!(f)
    }
}

impl FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().context("the file is empty")?;
        let first =
            first.strip_prefix("; device ").context("expected `; device size=...` first")?;
        let mut numbers =
            [("size", None), ("zone_size", None), ("zone_capacity", None), ("max_open", None)];
        for word in first.split_whitespace() {
            let (name, value) =
                word.split_once('=').with_context(|| format!("`{word}`: expected NAME=BYTES"))?;
            let Some((_, number)) = numbers.iter_mut().find(|(known, _)| *known == name) else {
                bail!("`{name}`: expected size, zone_size, zone_capacity or max_open");
            };
            *number = Some(value.parse::<u64>().with_context(|| format!("`{word}`"))?);
        }
        let [size, zone_size, capacity, max_open] = numbers.map(|(_, number)| number);
        let zones = zone_size.map(|size| Zones {
            size,
            capacity: capacity.unwrap_or(size),
            max_open: max_open.unwrap_or(0),
        });
        let geometry = Geometry { size: size.context("the device has no size")?, zones };
        let mut sections: Vec<Section> = Vec::new();
        for line in lines.filter(|line| !line.starts_with([';', '#'])) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                sections.push(Section { name: name.to_owned(), options: Vec::new() });
                continue;
            }
            let section =
                sections.last_mut().with_context(|| format!("`{line}` is in no section"))?;
            let (name, value) = line.split_once('=').unwrap_or((line, "1"));
            section.set(name.trim(), value.trim());
        }
        Ok(Case { geometry, sections })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_case_reads_as_the_same() {
        let text = "; device size=1048576 zone_size=65536 zone_capacity=49152 max_open=3\n\
                    [a]\nrw=write\nbs=4k\n[b]\nstonewall=1\nrw=read\n";
        let case: Case = text.parse().unwrap();
        assert_eq!(case.to_string(), text);
        assert!(!case.is_concurrent());
        assert_eq!(case.geometry.zones.unwrap().capacity, 49152);
    }

    #[test]
    fn regions_of_zones_are_whole_zones() {
        let case: Case = "; device size=1114112 zone_size=65536\n\
             [a]\nrw=write\nzonemode=zbd\noffset=11%\nsize=196608\n[b]\noffset=10%\n\
             [c]\nrw=write\nzonemode=zbd\nsize=2z\noffset_increment=131072\n\
             [d]\nzonemode=zbd\noffset=4096\nsize=2z\n\
             [e]\nrw=write\nzonemode=zbd\nbs=8192\noffset=11%\nsize=42%\n"
            .parse()
            .unwrap();
        let region = |at: usize, clone| case.sections[at].region(&case.geometry, clone);
        assert_eq!(region(0, 0), 131_072..262_144);
        assert_eq!(region(1, 0), 114_688..1_114_112);
        assert_eq!(region(2, 1), 131_072..262_144);
        assert_eq!(region(3, 0), 4096..131_072);
        assert_eq!(region(4, 0), 131_072..589_824, "ends with the zone as it begins with a block");
    }

    #[test]
    fn jobs_leave_zones_that_they_would_write_in_a_longer_region() {
        let leaves = |capacity: u64, options: &str| {
            let text = format!(
                "; device size=262144 zone_size=65536 zone_capacity={capacity}\n[a]\n\
                 zonemode=zbd\nsize=2z\n{options}"
            );
            let case: Case = text.parse().unwrap();
            case.leaves_zones(&case.sections[0])
        };
        assert!(leaves(65536, "rw=randwrite") && leaves(49152, "rw=write"));
        assert!(!leaves(65536, "rw=write"), "it ends with its size");
        assert!(!leaves(65536, "rw=randwrite\noffset=2z"), "the device ends there");
        assert!(!leaves(49152, "rw=randread"), "there is nothing to read");
    }

    #[test]
    fn clones_stay_on_the_device() {
        let with = |size: &str| {
            let text =
                format!("; device size=65536\n[a]\nnumjobs=2\noffset_increment=32768\n{size}");
            text.parse::<Case>().unwrap().is_sound()
        };
        assert!(with("size=32768"));
        assert!(!with("size=36864") && !with(""));
    }

    #[test]
    fn what_is_not_a_case_is_an_error() {
        for text in [
            "",
            "[a]\nrw=write",
            "; device zones=4\n",
            "; device size=4\nrw=write",
            "; device size=x\n",
        ] {
            assert!(text.parse::<Case>().is_err(), "{text:?}");
        }
    }
}
