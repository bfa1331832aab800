//! Rules of job files and of the command line, each with the reading that fio 3.33 gave
//! (`--showcmd`, `--debug=parse --parse-only`) unless a test says otherwise.
use zonal_fio::job::{Extent, FIXED_SEED, Job};
use zonal_fio::jobfile::{JobSet, MemoryEnvironment, parse_args, parse_str};
use zonal_fio::options::{Effect, FioOption, find, markdown, supported};

fn file(text: &str) -> JobSet {
    parse_str("t.fio", text, &MemoryEnvironment::default()).expect(text)
}

fn args(args: &[&str], source: &MemoryEnvironment) -> JobSet {
    parse_args(args, source).expect("arguments")
}

fn line(arguments: &str) -> JobSet {
    args(&arguments.split(' ').collect::<Vec<_>>(), &MemoryEnvironment::default())
}

fn read_sizes(set: &JobSet) -> Vec<(&str, u64)> {
    set.jobs.iter().map(|job| (job.name.as_str(), job.bs[0])).collect()
}

#[test]
fn a_global_section_is_for_the_jobs_after_it() {
    let set = file("[global]\nbs=4k\niodepth=2\n[a]\n[global]\nbs=8k\n[b]\n[c]\nbs=1k\n[d]\n");
    assert_eq!(read_sizes(&set), [("a", 4096), ("b", 8192), ("c", 1024), ("d", 8192)]);
    assert!(set.jobs.iter().all(|job| job.iodepth == 2));
}

#[test]
fn sections_of_the_same_name_are_different_jobs() {
    assert_eq!(read_sizes(&file("[a]\nbs=1k\n[a]\nbs=2k\n")), [("a", 1024), ("a", 2048)]);
}

#[test]
fn a_name_in_a_section_overrides_its_title() {
    assert_eq!(file("[a]\nname=zed\n").jobs[0].name, "zed");
}

#[test]
fn only_a_section_called_exactly_global_is_global() {
    assert_eq!(file("[Global]\nbs=8k\n").jobs[0].name, "Global");
}

#[test]
fn of_an_option_given_twice_the_last_counts() {
    let job = &file("[a]\nbs=8k\nblocksize=2k\ndirect=1\nbuffered=1\n").jobs[0];
    assert_eq!((job.bs[0], job.direct), (2048, false));
}

#[test]
fn kb_base_comes_first_in_a_section_and_in_order_on_the_command_line() {
    assert_eq!(file("[a]\nbs=4k\nkb_base=1000\n").jobs[0].bs[0], 4000);
    assert_eq!(file("[global]\nkb_base=1000\n[a]\nbs=4k\n").jobs[0].bs[0], 4000);
    assert_eq!(line("--name=a --bs=4k --kb_base=1000").jobs[0].bs[0], 4096);
    assert_eq!(line("--name=a --kb_base=1000 --bs=4k").jobs[0].bs[0], 4000);
}

#[test]
fn variables_and_keywords_are_replaced() {
    let source = MemoryEnvironment::default().with_variable("BS", "8k");
    let text =
        "[a]\nbs=${BS}\niodepth=$ncpus\nsize=2*$pagesize\nfilename=/x/${BS}/${NONE}y/$jobname\n";
    let job = &parse_str("t.fio", text, &source).expect(text).jobs[0];
    assert_eq!((job.bs[0], job.iodepth, job.size), (8192, 4, Some(Extent::Bytes(8192))));
    assert_eq!(job.filename.as_deref(), Some("/x/8k/y/$jobname"), "fio leaves $jobname here");
}

#[test]
fn names_of_sections_are_taken_as_they_are() {
    let source = MemoryEnvironment::default().with_variable("X", "y");
    assert_eq!(parse_str("t.fio", "[${X}]\n", &source).expect("a job").jobs[0].name, "${X}");
}

#[test]
fn includes_are_looked_for_beside_the_file_and_then_where_fio_looks() {
    let source = MemoryEnvironment::default()
        .with_file("jobs/beside.fio", "bs=8k\ninclude deep/er.fio\n")
        .with_file("jobs/deep/er.fio", "iodepth=7\n")
        .with_file("here.fio", "numjobs=3\n");
    let text = "[a]\ninclude beside.fio\ninclude here.fio\n";
    let set = parse_str("jobs/t.fio", text, &source).expect(text);
    let job = &set.jobs[0];
    assert_eq!((job.bs[0], job.iodepth, job.numjobs), (8192, 7, 3));
}

#[test]
fn sizes_of_nothing_are_sizes_not_given() {
    let job = &file("[a]\nsize=0\nio_size=0%\nnumber_ios=0\nruntime=0\nloops=0\n").jobs[0];
    assert_eq!((job.size, job.io_size, job.number_ios), (None, None, None));
    assert_eq!((job.runtime, job.loops), (None, 1));
}

#[test]
fn random_numbers_are_the_same_each_time_unless_asked_otherwise() {
    assert_eq!(file("[a]\n").jobs[0].randseed, FIXED_SEED);
    // The memory source's fresh seed.
    assert_eq!(file("[a]\nrandrepeat=0\n").jobs[0].randseed, 1);
}

#[test]
fn each_name_begins_a_job_and_options_before_it_are_for_all() {
    let set = line("--bs=8k --name=a --name=b --bs=1k --name=global --bs=2k --name=c");
    assert_eq!(read_sizes(&set), [("a", 8192), ("b", 1024), ("c", 2048)]);
}

#[test]
fn values_may_be_arguments_of_their_own_but_not_those_of_flags() {
    let source = MemoryEnvironment::default().with_file("1", "[file]\n");
    let set = args(&["-bs", "8k", "--name", "a", "--group_reporting", "1"], &source);
    assert_eq!(read_sizes(&set), [("a", 8192), ("file", 8192)]);
    assert!(set.jobs[0].group_reporting && !set.jobs[1].group_reporting);
}

#[test]
fn files_begin_with_what_the_command_line_sets_for_all() {
    let source = MemoryEnvironment::default().with_file("t.fio", "[a]\n[b]\nbs=8k\n");
    for order in [["--bs=2k", "t.fio"], ["t.fio", "--bs=2k"]] {
        let set = args(&order, &source);
        assert_eq!(read_sizes(&set), [("a", 2048), ("b", 8192)]);
        assert_eq!(set.global_options, [("bs".to_owned(), "2k".to_owned())]);
    }
    let set = args(&["--bs=2k", "--name=q", "--iodepth=5", "t.fio"], &source);
    assert_eq!(read_sizes(&set), [("q", 2048), ("a", 2048), ("b", 8192)]);
    assert_eq!(set.jobs[1].iodepth, 1);
}

#[test]
fn section_picks_sections_of_files() {
    let text = "[global]\nbs=1k\n[a]\n[bb]\n[c]\n";
    let source = MemoryEnvironment::default().with_file("t.fio", text);
    let set = args(&["--section=a", "--section", "bb", "t.fio"], &source);
    assert_eq!(read_sizes(&set), [("a", 1024), ("bb", 1024)]);
}

#[test]
fn a_dash_is_standard_input() {
    let source = MemoryEnvironment::default().with_file("-", "[piped]\n");
    assert_eq!(args(&["-"], &source).jobs[0].name, "piped");
}

#[test]
fn the_command_line_leaves_variables_to_the_shell() {
    let source = MemoryEnvironment::default().with_variable("X", "y");
    let job = &args(&["--name=a", "--filename=${X}"], &source).jobs[0];
    assert_eq!(job.filename.as_deref(), Some("${X}"));
    let given: Vec<&str> = job.given.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(given, ["name", "filename"]);
}

#[test]
fn options_that_fio_has_and_zonal_does_without_are_reported_once() {
    let set = file(
        "[global]\noffset_align=0\nhipri\n[a]\nopendir=d\nbssplit=4k/50:8k/50\n[b]\nopendir=e\n",
    );
    let reports: Vec<String> = set.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(
        reports,
        [
            "t.fio:3: hipri has no effect here",
            "t.fio:5: opendir is not supported, the job runs differently: \
             the job works on one device, not on files",
            "t.fio:6: bssplit is not supported, the job runs differently: \
             blocks have the size that bs gives",
        ]
    );
}

/// `fio --cmdhelp=all`, `fio --enghelp=ENGINE` and the aliases in `fio --cmdhelp=OPTION`.
const FIO_OPTIONS: &str = include_str!("data/jobfile/fio-3.33-options.txt");

#[test]
fn every_option_of_fio_is_known() {
    let unknown: Vec<&str> = FIO_OPTIONS.lines().filter(|name| find(name).is_none()).collect();
    assert_eq!(unknown, <[&str; 0]>::default());
}

/// What fio has no option for, besides those whose names begin with `fs_`.
const OUR_OWN: [&str; 13] = [
    "filesystem",
    "weight",
    "sched_opt",
    "replay_devices",
    "replay_action",
    "write_iolog_format",
    "pattern",
    "pattern_file",
    "pattern_requests",
    "pattern_align",
    "pattern_max_size",
    "pattern_writes",
    "pattern_fsyncs",
];

#[test]
fn every_supported_option_is_one_of_fio_s_or_says_that_it_is_not() {
    for spec in supported() {
        let known = FIO_OPTIONS.lines().any(|known| known == spec.name);
        let own = OUR_OWN.contains(&spec.name) || spec.name.starts_with("fs_");
        assert_eq!(known, !own, "{}", spec.name);
        let says_so = spec.help.contains("Zonal's own.") || spec.name.starts_with("fs_");
        assert_eq!(known, !says_so, "{}", spec.name);
    }
}

#[test]
fn options_that_change_the_workload_say_how() {
    for name in ["bssplit", "random_distribution", "sync_file_range", "opendir", "zoneskip"] {
        let Some(FioOption::Unsupported(unused)) = find(name) else { panic!("{name}") };
        let Effect::Changes(instead) = unused.effect else { panic!("{name}") };
        assert!(markdown().contains(instead));
    }
}

#[test]
fn the_empty_job_is_the_default_job() {
    let Job { name, given, .. } = &file("[a]\n").jobs[0];
    assert_eq!((name.as_str(), given.len()), ("a", 0));
    assert_eq!(file("[a]\n").jobs, [Job { name: "a".into(), ..Job::default() }]);
}
