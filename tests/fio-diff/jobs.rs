//! Cases as job files for fio and for Zonal. Each section records its I/O.
//!
//! Several cases may be one job file for fio, whose start takes longer than a case: then each waits for the one
//! before.
use crate::case::{Case, Section};
use std::path::Path;

/// The lines of a case that both have. Files of its I/O have its number in their names.
fn sections(case: &Case, number: usize, mut of: impl FnMut(usize, &Section) -> String) -> String {
    let mut text = String::new();
    for (at, section) in case.sections.iter().enumerate() {
        text += &format!("[{}]\n", section.name);
        text += &format!("write_iolog=io.{number}.{at}\nwrite_bw_log=log.{number}\nlog_offset=1\n");
        for (name, value) in &section.options {
            text += &format!("{name}={value}\n");
        }
        text += &of(at, section);
    }
    text
}

/// The job file of cases for fio, each with a disk of its own in a directory, and with its seed.
pub fn for_fio(cases: &[(&Case, u64)], place: &Path) -> String {
    let mut text = String::new();
    for (number, (case, seed)) in cases.iter().enumerate() {
        let disk = place.join(disk(number));
        let options = |at: usize, section: &Section| {
            let mut text = format!("filename={}\nrandseed={}\n", disk.display(), seed + 1);
            if number > 0 && at == 0 {
                text += "stonewall\n";
            }
            text + &fio_options(case, section)
        };
        text += &sections(case, number, options);
    }
    text
}

/// The name of a case's disk.
pub fn disk(number: usize) -> String {
    format!("disk.{number}")
}

fn fio_options(case: &Case, section: &Section) -> String {
    // Else fio measures the processor's counter for some time.
    let mut text = "clocksource=clock_gettime\n".to_owned();
    if section.get("ioengine").is_none() {
        text += &format!("ioengine={}\n", engine(section));
    }
    if let Some(zones) = case.geometry.zones.filter(|_| section.is_zbd()) {
        text += &format!("zonesize={}\nzonecapacity={}\n", zones.size, zones.capacity);
        if zones.max_open > 0 && section.get("max_open_zones").is_none() {
            text += &format!("max_open_zones={}\n", zones.max_open);
        }
    }
    text
}

/// The engine for a section's I/O in fio. Discards of a file fail; with zones fio itself does them, and
/// counts none of their bytes with the engine `io_uring`.
pub fn engine(section: &Section) -> &'static str {
    let is_deep = section.get("iodepth").is_some_and(|depth| depth != "1");
    match section.trims() {
        true if !section.is_zbd() => "null",
        false if is_deep => "io_uring",
        _ => "psync",
    }
}

/// The job file of a case for Zonal.
pub fn for_zonal(case: &Case) -> String {
    sections(case, 0, |_, _| String::new())
}

/// The device of a case as Zonal names it. Its commands take a while, so that jobs at a depth have I/O in
/// flight.
pub fn device(case: &Case) -> String {
    let size = case.geometry.size;
    let shape = match case.geometry.zones {
        None => format!("zoned=false,size={size}"),
        Some(zones) => format!(
            "zones={},zone_size={},zone_capacity={},max_open={}",
            size / zones.size,
            zones.size,
            zones.capacity,
            zones.max_open
        ),
    };
    format!("null:{shape},lba=512,memory=true,latency=10us")
}
