//! The normal and terse formats against fio's text of the same run.
use crate::support::{FIO_NORMAL, FIO_TERSE, clone_of, fio_run, job, report};
use zonal_fio::report::{DiskUtil, Format, Report, TerseVersion, render};

fn ours(format: Format) -> String {
    let job = job("mixed");
    let jobs = fio_run().map(|stats| clone_of(&job, stats));
    render(&report(jobs.into()), &[format])
}

/// A line with each number, and the padding before it, replaced by `#`.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' | '.' if shape.ends_with('#') => {}
            '0'..='9' => {
                shape.truncate(shape.trim_end_matches(' ').len());
                shape.push('#');
            }
            _ => shape.push(c),
        }
    }
    shape
}

/// The text up to the section of Zonal, without the line with the date.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("\n\nZonal").next().unwrap_or_default();
    text.lines().filter(|line| !line.contains("pid="))
}

#[test]
fn normal_has_the_lines_of_fio() {
    let ours = ours(Format::Normal);
    let shapes = |text| lines(text).map(shape).collect::<Vec<_>>();
    assert_eq!(shapes(&ours), shapes(FIO_NORMAL));
}

#[test]
fn normal_has_the_numbers_of_fio() {
    let ours = ours(Format::Normal);
    let same = |line: &&str| {
        let starts =
            ["     |", "  read:", "  write:", "  IO depths", "     ", "   READ:", "  WRITE:"];
        let differs = ["slat (", "clat (", "lat ("];
        starts.iter().any(|start| line.starts_with(start))
            && !differs.iter().any(|part| line.contains(part))
    };
    let figures = |text| lines(text).filter(same).map(str::to_owned).collect::<Vec<_>>();
    let ours = figures(&ours);
    assert_eq!(ours, figures(FIO_NORMAL));
    assert!(ours.len() > 15, "{ours:#?}");
}

/// The kind of a field: a number with its decimals, a percentage, or a name.
fn kind(field: &str) -> String {
    let number = field.trim_end_matches('%');
    match number.parse::<f64>() {
        Ok(_) => {
            let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            format!("number.{decimals}{}", &field[number.len()..])
        }
        Err(_) => field.split('=').next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn terse_has_the_fields_of_fio() {
    let ours = ours(Format::Terse(TerseVersion::V3));
    let kinds = |line: &str| line.trim_end().split(';').map(kind).collect::<Vec<_>>();
    let mut fio = kinds(FIO_TERSE);
    fio[1] = "zonal-0.1.0".to_owned();
    assert_eq!(kinds(&ours), fio);
}

#[test]
fn terse_has_trims_and_samples_in_the_versions_of_fio_that_have_them() {
    // fio 3.41 without disk_util; a direction has 41 fields, and in version 5 47.
    for (version, first, fields) in [
        (TerseVersion::V2, "2;mixed;0;", 161),
        (TerseVersion::V3, "3;zonal-0.1.0;mixed;0;", 121),
        (TerseVersion::V4, "4;zonal-0.1.0;mixed;0;", 162),
        (TerseVersion::V5, "5;zonal-0.1.0;mixed;0;", 180),
    ] {
        let line = ours(Format::Terse(version));
        assert!(line.starts_with(first), "{line}");
        assert_eq!(line.split(';').count(), fields, "{line}");
    }
}

#[test]
fn terse_has_the_values_of_fio() {
    let ours = ours(Format::Terse(TerseVersion::V3));
    let fields = |line: &'static str| line.trim_end().split(';').collect::<Vec<_>>();
    let (ours, fio) = (fields(ours.leak()), fields(FIO_TERSE));
    // Version, name, group and error; then per direction: amount, rates and runtime, percentiles;
    // at the end depths and latency bands.
    let same = [(2, 9), (17, 37), (46, 50), (58, 78), (92, 121)];
    for (from, to) in same {
        assert_eq!(ours[from..to], fio[from..to], "fields {from} to {to}");
    }
}

#[test]
fn several_formats_are_in_the_order_of_fio() {
    let job = job("mixed");
    let jobs = fio_run().map(|stats| clone_of(&job, stats));
    let text = render(
        &report(jobs.into()),
        &[Format::Normal, Format::Json, Format::Terse(TerseVersion::V3)],
    );
    assert!(text.starts_with("3;zonal-0.1.0;mixed;0;0;"));
    let json = text.find("\n{\n").expect("JSON follows the terse line");
    let normal = text.find("\n}\n\nmixed: (groupid=0, jobs=2): err= 0: pid=1: ").expect("normal");
    assert!(json < normal);
}

/// The text of fio 3.41 about a device.
const DISK_STATS: &str = "
Disk stats (read/write):
  vda: ios=99/101, sectors=792/808, merge=1/2, ticks=30/51, in_queue=83, util=3.50%
";
const TERSE_DISK: &str = ";vda;99;101;1;2;30;51;83;3.50%";

#[test]
fn devices_are_where_fio_has_them() {
    let (mut job, stats) = (job("mixed"), fio_run());
    job.description = "text".to_owned();
    job.errors.continue_on_error = [true; 3];
    let disk = DiskUtil {
        name: "vda".to_owned(),
        read_ios: 99,
        write_ios: 101,
        read_sectors: 792,
        write_sectors: 808,
        read_merges: 1,
        write_merges: 2,
        read_ticks: 30,
        write_ticks: 51,
        in_queue: 83,
        util: 3.5,
    };
    let run = Report { disk_util: vec![disk], ..report(stats.map(|of| clone_of(&job, of)).into()) };
    let normal = render(&run, &[Format::Normal]);
    assert!(normal.contains(&format!("msec\n{DISK_STATS}\nZonal (")), "{normal}");
    let terse = render(&run, &[Format::Terse(TerseVersion::V3)]);
    assert!(terse.ends_with(&format!("{TERSE_DISK};0;0;text\n")), "{terse}");
}
