//! Sweeps over null devices, in virtual time.
use super::*;
use std::fs;

const JOB: [&str; 6] = [
    "--name=a",
    "--rw=write",
    "--bs=4k",
    "--zonemode=zbd",
    "--size=1z",
    "--filename=null:zones=8,zone_size=1M,latency=10us",
];

fn options(axes: &[&str]) -> SweepOptions {
    SweepOptions {
        axes: axes.iter().map(|axis| Axis::parse(axis).unwrap()).collect(),
        device: None,
        scheduler: None,
        zone_write: None,
        seeds: 2,
        seed: 0,
        seconds: None,
        clock: ClockKind::Virtual,
        io_cost: "1000".parse().unwrap(),
        search: Search::Grid,
        metric: None,
        job_text: None,
        goes_on: false,
        resume: None,
        notices: Notices::default(),
    }
}

fn run(options: SweepOptions) -> Result<Sweep> {
    sweep(JOB.map(OsString::from).to_vec(), options, &Arc::default(), &())
}

#[test]
fn every_combination_is_measured_and_the_last_axis_changes_fastest() {
    let sweep = run(options(&["iodepth=1..4", "zone_write=plug,qd1"])).unwrap();
    let at: Vec<&[usize]> = sweep.points.iter().map(|point| &point.at[..]).collect();
    assert_eq!(at, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]);
    assert!(sweep.points.iter().all(|point| point.samples.len() == 2 && point.failure.is_none()));
    assert!(!sweep.is_interrupted);
    // 4 KiB in 10 us of the device and 1 us of the thread.
    let first = sweep.points[0].throughput().unwrap().mean;
    assert!((first - 4096.0 / 11.0).abs() < 20.0, "{first}");
}

#[test]
fn axis_replaces_the_option_of_the_job() {
    let sweep = run(options(&["bs=4k,64k"])).unwrap();
    let [small, large] = &sweep.points[..] else { panic!("two points") };
    let ratio = large.throughput().unwrap().mean / small.throughput().unwrap().mean;
    assert!((14.0..17.0).contains(&ratio), "{ratio}");
}

#[test]
fn failed_io_is_a_result() {
    let job = ["--name=a", "--rw=write", "--bs=4k", "--size=64k", JOB[5]];
    let job = job.map(OsString::from).to_vec();
    let sweep = sweep(job, options(&["offset=0,4k"]), &Arc::default(), &()).unwrap();
    assert_eq!(sweep.points[0].failure, None);
    let failure = sweep.points[1].failure.as_deref().unwrap();
    assert!(failure.starts_with("job a: I/O error (Write of 8 sectors at sector 8: "), "{failure}");
    assert!(text(&sweep).lines().last().unwrap().ends_with(failure));
}

#[test]
fn impossible_point_has_its_error_and_the_others_their_figures() {
    let with = |axes: &[&str]| SweepOptions { goes_on: true, ..options(axes) };
    let sweep =
        run(with(&["device=null:zones=8,zone_size=1M,null:zones=8,zone_size=3K", "iodepth=1,0"]));
    let sweep = sweep.unwrap();
    let failures: Vec<Option<&str>> = sweep.points.iter().map(|p| p.failure.as_deref()).collect();
    assert_eq!(failures[0], None);
    assert!(failures[1].unwrap().contains("iodepth: expected 1 to 1048576"), "{failures:?}");
    assert!(failures[2].unwrap().contains("does not hold one whole zone"), "{failures:?}");
    assert!(sweep.points[1..].iter().all(|point| point.samples.is_empty()));
    // With nothing possible there is nothing to go on with.
    let error = run(with(&["iodepth=0"])).unwrap_err();
    assert!(format!("{error:#}").contains("expected 1 to 1048576"), "{error:#}");
}

#[test]
fn points_with_the_same_content_are_measured_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let devices =
        "device=null:zones=8,zone_size=1M,null:zone_size=1024K,zones=8,null:zones=9,zone_size=1M";
    let sweep = run(SweepOptions { resume: Some(path.clone()), ..options(&[devices]) }).unwrap();
    assert_eq!(sweep.points[0].samples, sweep.points[1].samples);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4, "two points, two seeds each");
}

#[test]
fn point_is_repeated_by_the_command_that_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.fio");
    fs::write(&file, "[global]\nrw=write\nzonemode=zbd\n[a]\nsize=1z\n").unwrap();
    let device = "null:zones=8,zone_size=1M,latency=10us";
    let options = SweepOptions {
        device: Some(device.to_owned()),
        seconds: Some(0.01),
        ..options(&["bs=4k,16k", "zone_write=plug,qd1"])
    };
    let sweep = sweep(vec![file.into()], options, &Arc::default(), &()).unwrap();
    let document: Value = serde_json::from_str(&json(&sweep)).unwrap();
    assert_eq!(
        document["points"][3]["repeat"],
        "zonal sweep --vary 'bs=16k' --vary 'zone_write=qd1' --device \
         'null:zones=8,zone_size=1M,latency=10us' --seeds 2 --time 0.01 --clock virtual --io-cost 1000 \
         --rw=write --zonemode=zbd --name=a --size=1z"
    );
}

#[test]
fn metric_names_the_best_point() {
    for (metric, best) in [("bandwidth", "64k"), ("clat_p50_us", "4k")] {
        let metric = Some(Metric::from_name(metric).unwrap());
        let sweep = run(SweepOptions { metric, ..options(&["bs=4k,64k"]) }).unwrap();
        let document: Value = serde_json::from_str(&json(&sweep)).unwrap();
        assert_eq!(document["best"]["bs"], best, "{metric:?}");
        assert!(text(&sweep).trim_end().ends_with(&format!(" at bs={best}")), "{}", text(&sweep));
    }
}

#[test]
fn resumed_sweep_measures_only_what_is_missing_and_ends_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let with = |axes: &[&str]| SweepOptions { resume: Some(path.clone()), ..options(axes) };
    let whole = json(&run(options(&["iodepth=1..8"])).unwrap());
    run(with(&["iodepth=1..4"])).unwrap();
    let lines = || fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!(lines(), 6);
    assert_eq!(json(&run(with(&["iodepth=1..8"])).unwrap()), whole);
    assert_eq!(lines(), 8);
    // Another device is another measurement.
    let other = SweepOptions { device: Some("null:zones=9".to_owned()), ..with(&["iodepth=1"]) };
    run(other).unwrap();
    assert_eq!(lines(), 10);
}

#[test]
fn interrupted_sweep_says_so() {
    let stop = Arc::new(AtomicBool::new(true));
    let job = JOB.map(OsString::from).to_vec();
    let sweep = sweep(job, options(&["iodepth=1..4"]), &stop, &()).unwrap();
    assert!(sweep.is_interrupted);
    assert!(text(&sweep).contains("interrupted"));
}

#[test]
fn bad_input_is_found_before_anything_is_measured() {
    let jobs = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
    for (args, axes, message) in [
        (&JOB[..], &["iodepth=1", "iodepth=2"][..], "--vary iodepth: given twice"),
        (&JOB, &["iodepth=1,x"], "iodepth: expected"),
        (&JOB, &["device=null,disk"], "unknown device `disk`"),
        (&["--name=a", "--name=b", "--stonewall"], &["iodepth=1"], "the jobs run in 2 phases"),
        (&["--name=a", "--write_iolog=x"], &["iodepth=1"], "write_iolog: expected none in a sweep"),
    ] {
        let error = sweep(jobs(args), options(axes), &Arc::default(), &()).unwrap_err();
        assert!(format!("{error:#}").contains(message), "{error:#}");
    }
}

#[test]
fn page_is_well_formed_and_has_a_line_with_error_bars_for_each_other_value() {
    let axes = ["rw=randwrite", "iodepth=1..4", "scheduler=none,mq-deadline"];
    let mut swept = run(SweepOptions { seeds: 3, ..options(&axes) }).unwrap();
    for (at, sample) in swept.points.iter_mut().flat_map(|p| p.samples.iter_mut().enumerate()) {
        sample.bytes += 1e6 * at as f64;
    }
    let page = html(&swept).unwrap();
    roxmltree::Document::parse_with_options(
        &page,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    )
    .expect("well-formed XML");
    assert!(page.contains("randwrite, none") && page.contains("randwrite, mq-deadline"));
    let plots = plots(&swept);
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(
        names,
        ["sweep-throughput", "sweep-latency-50", "sweep-latency-99", "sweep-latency-99.9"]
    );
    // Caps at both ends of each of six intervals, besides the six points themselves.
    assert_eq!(plots[0].chart.draw().unwrap().matches("r=\"2\"").count(), 12);
}

#[test]
fn csv_has_a_line_for_each_point() {
    let csv = csv(&run(options(&["iodepth=1,2"])).unwrap());
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("iodepth,samples,bytes_per_second,bytes_per_second_ci95,iops,"));
    assert!(lines[1].starts_with("1,2,") && lines[2].starts_with("2,2,") && lines.len() == 3);
}
