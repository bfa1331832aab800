//! Rules of job files and of the command line, as fio 3.33 interprets them (`--showcmd`,
//! `--debug=parse --parse-only`) unless a test says otherwise.
use zonal_fio::job::{Extent, FIXED_SEED, Job};
use zonal_fio::jobfile::{JobSet, MemoryEnvironment, parse_args, parse_str};
use zonal_fio::options::{Effect, FioOption, find, markdown, supported};

fn file(text: &str) -> JobSet {
    parse_str("t.fio", text, &MemoryEnvironment::default()).expect(text)
}

fn args(args: &[&str], env: &MemoryEnvironment) -> JobSet {
    parse_args(args, env).expect("arguments")
}

fn line(arguments: &str) -> JobSet {
    args(&arguments.split(' ').collect::<Vec<_>>(), &MemoryEnvironment::default())
}

fn block_sizes(set: &JobSet) -> Vec<(&str, u64)> {
    set.jobs.iter().map(|job| (job.name.as_str(), job.bs[0])).collect()
}

#[test]
fn a_global_section_applies_to_the_jobs_after_it() {
    let set = file("[global]\nbs=4k\niodepth=2\n[a]\n[global]\nbs=8k\n[b]\n[c]\nbs=1k\n[d]\n");
    assert_eq!(block_sizes(&set), [("a", 4096), ("b", 8192), ("c", 1024), ("d", 8192)]);
    assert!(set.jobs.iter().all(|job| job.iodepth == 2));
}

#[test]
fn sections_of_the_same_name_are_different_jobs() {
    assert_eq!(block_sizes(&file("[a]\nbs=1k\n[a]\nbs=2k\n")), [("a", 1024), ("a", 2048)]);
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
fn the_last_of_repeated_options_counts() {
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
    let env = MemoryEnvironment::default().with_variable("BS", "8k");
    let text =
        "[a]\nbs=${BS}\niodepth=$ncpus\nsize=2*$pagesize\nfilename=/x/${BS}/${NONE}y/$jobname\n";
    let job = &parse_str("t.fio", text, &env).expect(text).jobs[0];
    assert_eq!((job.bs[0], job.iodepth, job.size), (8192, 4, Some(Extent::Bytes(8192))));
    assert_eq!(job.filename.as_deref(), Some("/x/8k/y/$jobname"), "fio leaves $jobname here");
}

#[test]
fn section_names_are_not_expanded() {
    let env = MemoryEnvironment::default().with_variable("X", "y");
    assert_eq!(parse_str("t.fio", "[${X}]\n", &env).expect("a job").jobs[0].name, "${X}");
}

#[test]
fn includes_are_relative_to_the_file_or_else_to_the_current_directory() {
    let env = MemoryEnvironment::default()
        .with_file("jobs/beside.fio", "bs=8k\ninclude deep/er.fio\n")
        .with_file("jobs/deep/er.fio", "iodepth=7\n")
        .with_file("here.fio", "numjobs=3\n");
    let text = "[a]\ninclude beside.fio\ninclude here.fio\n";
    let set = parse_str("jobs/t.fio", text, &env).expect(text);
    let job = &set.jobs[0];
    assert_eq!((job.bs[0], job.iodepth, job.numjobs), (8192, 7, 3));
}

#[test]
fn sizes_of_zero_count_as_not_set() {
    let job = &file("[a]\nsize=0\nio_size=0%\nnumber_ios=0\nruntime=0\nloops=0\n").jobs[0];
    assert_eq!((job.size, job.io_size, job.number_ios), (None, None, None));
    assert_eq!((job.runtime, job.loops), (None, 1));
}

#[test]
fn the_seed_is_fixed_unless_randrepeat_is_0() {
    assert_eq!(file("[a]\n").jobs[0].randseed, FIXED_SEED);
    // The random seed of the test environment.
    assert_eq!(file("[a]\nrandrepeat=0\n").jobs[0].randseed, 1);
}

#[test]
fn each_name_starts_a_job_and_options_before_it_apply_to_all() {
    let set = line("--bs=8k --name=a --name=b --bs=1k --name=global --bs=2k --name=c");
    assert_eq!(block_sizes(&set), [("a", 8192), ("b", 1024), ("c", 2048)]);
}

#[test]
fn values_may_be_separate_arguments_except_those_of_flags() {
    let env = MemoryEnvironment::default().with_file("1", "[file]\n");
    let set = args(&["-bs", "8k", "--name", "a", "--group_reporting", "1"], &env);
    assert_eq!(block_sizes(&set), [("a", 8192), ("file", 8192)]);
    assert!(set.jobs[0].group_reporting && !set.jobs[1].group_reporting);
}

#[test]
fn options_of_the_command_line_apply_to_files() {
    let env = MemoryEnvironment::default().with_file("t.fio", "[a]\n[b]\nbs=8k\n");
    for order in [["--bs=2k", "t.fio"], ["t.fio", "--bs=2k"]] {
        let set = args(&order, &env);
        assert_eq!(block_sizes(&set), [("a", 2048), ("b", 8192)]);
        assert_eq!(set.global_options, [("bs".to_owned(), "2k".to_owned())]);
    }
    let set = args(&["--bs=2k", "--name=q", "--iodepth=5", "t.fio"], &env);
    assert_eq!(block_sizes(&set), [("q", 2048), ("a", 2048), ("b", 8192)]);
    assert_eq!(set.jobs[1].iodepth, 1);
}

#[test]
fn section_selects_sections_of_files() {
    let text = "[global]\nbs=1k\n[a]\n[bb]\n[c]\n";
    let env = MemoryEnvironment::default().with_file("t.fio", text);
    let set = args(&["--section=a", "--section", "bb", "t.fio"], &env);
    assert_eq!(block_sizes(&set), [("a", 1024), ("bb", 1024)]);
}

#[test]
fn a_dash_is_standard_input() {
    let env = MemoryEnvironment::default().with_file("-", "[piped]\n");
    assert_eq!(args(&["-"], &env).jobs[0].name, "piped");
}

#[test]
fn the_command_line_leaves_variables_to_the_shell() {
    let env = MemoryEnvironment::default().with_variable("X", "y");
    let job = &args(&["--name=a", "--filename=${X}"], &env).jobs[0];
    assert_eq!(job.filename.as_deref(), Some("${X}"));
    let names: Vec<&str> = job.own_options.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["name", "filename"]);
}

#[test]
fn options_that_change_the_job_are_errors_unless_allowed_and_the_others_share_a_line() {
    let set = file(
        "[global]\noffset_align=0\nhipri\n[a]\nmem=malloc\nopendir=d\natomic=1\n[b]\nopendir=e\n",
    );
    let refused = set.notices(false).expect_err("opendir changes the job").to_string();
    assert_eq!(
        refused,
        "t.fio:6: opendir is not supported: the job uses one device, not files; \
         --allow-unsupported runs the job without it"
    );
    assert_eq!(
        set.notices(true).expect("allowed"),
        [
            "without effect here: hipri (t.fio:3), mem (t.fio:5)",
            "t.fio:6: opendir is not supported, the job runs differently: \
             the job uses one device, not files",
            "t.fio:7: atomic is not supported, the job runs differently: the block layer has no writes \
             with RWF_ATOMIC",
        ]
    );
}

/// `fio --cmdhelp=all`, `fio --enghelp=ENGINE` and the aliases in `fio --cmdhelp=OPTION`.
const FIO_OPTIONS: &str = concat!(
    include_str!("data/jobfile/fio-3.33-options.txt"),
    // What fio has since, up to 3.42: the names of `options.c` and of `engines/`.
    include_str!("data/jobfile/fio-3.41-new-options.txt"),
    // What fio 3.42 and later have.
    "comm\nend_syncfs\nrandom_sequence_stride\nverify_policy\n",
);

#[test]
fn every_option_of_fio_is_known() {
    let unknown: Vec<&str> = FIO_OPTIONS.lines().filter(|name| find(name).is_none()).collect();
    assert_eq!(unknown, <[&str; 0]>::default());
}

/// Options that fio does not have, besides those whose names start with `fs_`.
const OUR_OWN: [&str; 17] = [
    "zone_finish",
    "cycles_per_usec",
    "zone_append",
    "filesystem",
    "weight",
    "sched_opt",
    "ramp_submitted",
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
fn options_that_fio_does_not_have_say_so() {
    for spec in supported() {
        let known = FIO_OPTIONS.lines().any(|known| known == spec.name);
        let own = OUR_OWN.contains(&spec.name) || spec.name.starts_with("fs_");
        assert_eq!(known, !own, "{}", spec.name);
        let says_so = spec.help.contains("Zonal's own.") || spec.name.starts_with("fs_");
        assert_eq!(known, !says_so, "{}", spec.name);
    }
}

#[test]
fn documentation_says_how_unsupported_options_change_the_job() {
    for name in ["sync_file_range", "opendir", "atomic"] {
        let Some(FioOption::Unsupported(unused)) = find(name) else { panic!("{name}") };
        let Effect::Changes(instead) = unused.effect else { panic!("{name}") };
        assert!(markdown().contains(instead));
    }
}

#[test]
fn the_empty_job_is_the_default_job() {
    let Job { name, own_options, .. } = &file("[a]\n").jobs[0];
    assert_eq!((name.as_str(), own_options.len()), ("a", 0));
    assert_eq!(file("[a]\n").jobs, [Job { name: "a".into(), ..Job::default() }]);
}
