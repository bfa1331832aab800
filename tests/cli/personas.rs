//! The expectations of all kinds of people, as far as a program can check them: a table of expectations,
//! each with its test, and the tests that no other file has.
use crate::support::{TestDir, repository, zonal};

/// Who expects what, and the test of it.
const EXPECTATIONS: &[(&str, &str, &str)] = &[
    // Someone who has fio jobs.
    ("fio user", "every example of the repository is a job", "all_examples_parse"),
    (
        "fio user",
        "nothing that would change the I/O is dropped",
        "options_that_change_the_job_need_to_be_allowed",
    ),
    ("fio user", "every option of fio is known", "every_option_of_fio_is_known"),
    (
        "fio user",
        "a misspelt name or value is answered by the right one",
        "misspelt_words_are_answered_by_the_nearest_right_one",
    ),
    (
        "fio user",
        "latencies, bandwidths and histograms are logged",
        "each_clone_has_the_files_that_fio_writes",
    ),
    ("fio user", "the terse format is there", "minimal_is_the_terse_format"),
    (
        "fio user",
        "a report comes at each interval",
        "status_is_reported_at_the_end_of_each_interval",
    ),
    (
        "fio user",
        "a job file can be shown as a command line",
        "shown_command_line_does_what_the_job_file_does",
    ),
    ("fio user", "an option can be looked up", "job_options_are_explained_as_in_fio"),
    ("fio user", "the JSON has fio's fields", "json_has_the_fields_of_fio"),
    ("fio user", "the JSON says what the device did", "the_json_says_what_the_device_did"),
    ("fio user", "so do the other formats", "devices_are_where_fio_has_them"),
    (
        "fio user",
        "an option that would have no effect is refused",
        "options_that_would_do_nothing_are_refused",
    ),
    (
        "fio user",
        "what was written is verified by any checksum",
        "every_checksum_verifies_what_was_written",
    ),
    // Someone who publishes measurements.
    (
        "researcher",
        "a run can be repeated to the byte",
        "same_seed_gives_the_same_bytes_in_virtual_time",
    ),
    (
        "researcher",
        "a report of fio is a measurement, notices before it or not",
        "notices_before_the_json_of_a_report_are_skipped",
    ),
    (
        "researcher",
        "what was assumed is printed",
        "own_reports_are_measurements_of_the_model_itself",
    ),
    (
        "researcher",
        "a report that cannot be run again is refused",
        "reports_that_cannot_be_run_again_are_refused_with_the_job",
    ),
    (
        "researcher",
        "few loads free few parameters",
        "few_loads_free_few_parameters_and_folds_predict_each_load_once",
    ),
    (
        "researcher",
        "published figures and errors come as CSV",
        "csv_has_the_published_lines_with_value_and_error",
    ),
    ("researcher", "the head of a disk can be watched", "head_of_a_disk_is_traced"),
    // Someone who chooses a configuration.
    ("engineer", "advice has reasons", "advice_ranks_configurations_and_gives_reasons"),
    (
        "engineer",
        "any axes can be swept, with repetitions",
        "sweep_prints_a_row_for_each_point_and_is_deterministic",
    ),
    ("engineer", "a sweep goes on where it ended", "sweep_resumes_and_writes_plots"),
    (
        "engineer",
        "a depth for a latency is found",
        "the_depth_that_keeps_a_target_latency_is_found_and_reported",
    ),
    (
        "engineer",
        "a tail latency does not depend on how long was measured",
        "tail_latency_does_not_depend_on_how_long_a_load_is_measured",
    ),
    (
        "engineer",
        "beside the answer stands how far off the model is there",
        "error_of_the_model_is_that_of_the_nearest_published_load",
    ),
    (
        "engineer",
        "a load that has not settled is said so",
        "load_that_is_not_steady_after_a_tenth_is_measured_after_half",
    ),
    (
        "engineer",
        "host adapters are known by their drivers",
        "host_adapters_are_known_by_their_drivers",
    ),
    (
        "engineer",
        "a model of a disk says what it assumes",
        "large_disk_without_a_profile_says_which_one_it_lacks",
    ),
    (
        "engineer",
        "a number without a unit is not guessed",
        "misspelt_names_of_devices_schedulers_and_options_are_recognised",
    ),
    // Someone who runs drives and servers.
    ("operator", "a reset says what it did", "destructive_commands_say_what_they_emptied"),
    (
        "operator",
        "a failed write says where and why",
        "failed_write_says_where_it_went_and_which_rule_it_broke_in_both_clocks",
    ),
    ("operator", "hosts have names", "address_without_port_is_refused"),
    (
        "operator",
        "a file that cannot be written is named",
        "output_that_cannot_be_written_is_named",
    ),
    (
        "operator",
        "no long run is lost for want of a place for its trace",
        "trace_that_cannot_be_written_is_told_before_the_jobs_run",
    ),
    (
        "operator",
        "an interrupted run reports what it did",
        "run_reports_what_it_did_in_both_clocks",
    ),
    (
        "operator",
        "a second interrupt ends it immediately",
        "second_interrupt_ends_a_run_in_virtual_time_that_cannot_end",
    ),
    (
        "operator",
        "a run can be made to fail as a server can",
        "faults_of_a_run_are_those_of_a_server",
    ),
    ("operator", "top fits 60 columns", "sixty_columns_have_everything_and_whole_words"),
    ("operator", "top lists its keys", "question_mark_lists_all_keys_until_the_next_key"),
    ("operator", "top lists what waits", "plugs_in_which_nothing_waits_are_not_listed"),
    // Someone who builds on the library.
    (
        "developer",
        "a device that gives no status is caught",
        "request_that_is_given_back_without_a_status_stops_the_program",
    ),
    ("developer", "the layer finds its own bugs", "runs_do_not_fail"),
    (
        "developer",
        "a recorded run replays to the same bytes",
        "recorded_run_replays_to_the_same_bytes",
    ),
    (
        "C programmer",
        "header and manual pages are those of a C library",
        "header_and_manual_pages_are_for_c_programmers",
    ),
    (
        "C programmer",
        "an event loop waits for a queue as for a socket",
        "descriptor_can_be_read_when_there_is_something_to_poll",
    ),
    // Someone who sees it for the first time.
    (
        "newcomer",
        "a job without I/O is an error that says why",
        "job_that_did_nothing_is_an_error_that_says_why",
    ),
    ("newcomer", "without plugging the control fails", "concurrent_writes_fail_without_plugging"),
    (
        "newcomer",
        "without a device the program says how to give one",
        "job_without_device_says_how_to_give_one",
    ),
    (
        "newcomer",
        "bad input ends with 2 and one line",
        "job_file_that_cannot_be_parsed_names_file_and_line",
    ),
    (
        "newcomer",
        "bad values are told with file, line and option",
        "each_bad_value_is_named_with_file_line_and_option",
    ),
    ("newcomer", "many jobs are no reason to wait", "thousands_of_jobs_in_flight_run_at_once"),
    (
        "newcomer",
        "the front page says what is not known",
        "readme_says_what_was_never_measured_and_links_what_was_published",
    ),
    // Someone who must choose.
    (
        "engineer",
        "the answer comes first, with today's setting and the lines that apply it",
        "advice_ranks_configurations_and_gives_reasons",
    ),
    (
        "engineer",
        "what makes no difference is not advised",
        "what_makes_no_difference_is_not_advised",
    ),
    ("engineer", "seeds that make no difference are said to", "a_margin_of_nothing_is_not_shown"),
    (
        "engineer",
        "a disk that no profile describes is the nearest one",
        "a_size_without_a_profile_is_the_nearest_profile_with_that_many_bytes",
    ),
    ("engineer", "profiles say what they are", "each_profile_says_what_it_is_a_model_of"),
    // Someone who runs servers.
    (
        "operator",
        "latencies are histograms for Prometheus",
        "histograms_are_cumulative_and_end_with_all",
    ),
    ("operator", "names of devices are short", "names_of_devices_are_short_and_their_own"),
    (
        "operator",
        "metrics say the version and what the server takes",
        "the_server_says_which_version_it_is_and_what_it_takes",
    ),
    ("operator", "there is a dashboard", "the_dashboard_asks_for_metrics_that_a_server_has"),
    (
        "operator",
        "ctl says what it can do, and refuses what is not there",
        "commands_say_what_there_is_and_refuse_zones_and_names_that_there_are_not",
    ),
    (
        "operator",
        "a wrong name of a subsystem is answered by those that there are",
        "a_subsystem_that_is_not_there_is_answered_by_those_that_are",
    ),
    (
        "operator",
        "a disk that is in use says by whom",
        "the_use_of_a_disk_is_that_of_it_or_of_a_partition",
    ),
    (
        "operator",
        "a disk that is forbidden says to whom it is not",
        "who_may_open_a_device_is_its_group",
    ),
    (
        "newcomer",
        "a small device has limits that fit, and says so",
        "limits_that_do_not_fit_a_small_device_are_lowered_and_said_to_be",
    ),
    (
        "newcomer",
        "an image without a profile says which there are",
        "image_without_a_profile_says_which_there_are",
    ),
    (
        "fio user",
        "a job that is not made for zones says how to make it",
        "failed_write_says_where_it_went_and_which_rule_it_broke_in_both_clocks",
    ),
    (
        "operator",
        "every result has JSON whose fields are documented",
        "each_command_has_all_formats_and_the_page_has_the_fields",
    ),
    (
        "operator",
        "what destroys can be tried without",
        "a_dry_run_says_what_would_be_lost_and_loses_nothing",
    ),
    (
        "operator",
        "an image is converted, copied and resized",
        "raw_data_become_an_image_again_with_the_same_write_pointers",
    ),
    (
        "fio user",
        "a disk that a job names needs one word of consent",
        "disks_of_this_machine_need_consent_where_jobs_name_them",
    ),
    (
        "newcomer",
        "the main job ends with what was seen",
        "the_six_workloads_are_reported_as_a_table",
    ),
    (
        "operator",
        "systemd knows when a server is ready",
        "a_service_manager_learns_when_the_server_is_ready_and_when_it_ends",
    ),
    (
        "engineer",
        "where the time went is a table with times and shares",
        "explanation_for_people_is_a_table_with_times_and_shares",
    ),
    (
        "engineer",
        "times of a disk are of what has passed, so that they add up at any moment",
        "counted_times_have_passed_in_the_middle_of_a_step_too",
    ),
    ("engineer", "axes have round numbers", "axes_have_round_numbers"),
    (
        "engineer",
        "curves that coincide are told apart",
        "lines_through_the_same_points_are_all_seen",
    ),
    ("engineer", "the page of advice leads with the answer", "the_page_leads_with_the_answer"),
    (
        "operator",
        "an image is compressed for transport",
        "an_image_is_compressed_for_transport_and_comes_back_as_it_was",
    ),
    (
        "operator",
        "a group may use the control socket",
        "a_group_that_is_named_may_use_the_control_socket",
    ),
    // Someone at a terminal.
    (
        "terminal",
        "top keeps numbers where a line is cut, and says that it is",
        "what_is_long_keeps_its_numbers_and_says_that_its_end_is_left_out",
    ),
    (
        "terminal",
        "manual pages have all their sections",
        "pages_have_all_sections_and_tables_keep_their_lines",
    ),
    (
        "terminal",
        "the shell completes devices, schedulers and job options",
        "completions_know_devices_schedulers_and_job_options",
    ),
    ("terminal", "help has headings and short lines", "help_has_headings_and_fits_the_terminal"),
    (
        "newcomer",
        "an answer about reads is not one about an empty drive",
        "reads_of_what_was_never_written_are_no_measurement",
    ),
    (
        "engineer",
        "an answer says which jobs it is not for",
        "a_job_without_io_is_told_wherever_jobs_are_measured",
    ),
    (
        "newcomer",
        "a size below a zone says what a zone has",
        "a_region_without_a_zone_says_how_large_one_is",
    ),
    (
        "terminal",
        "options and profiles are shown by their names",
        "an_option_and_a_profile_can_be_asked_for_by_name",
    ),
    (
        "terminal",
        "each option names itself where its value is wrong",
        "each_option_names_itself_where_its_value_is_wrong",
    ),
    (
        "operator",
        "each word of each command of ctl names itself where it is wrong",
        "each_wrong_word_of_each_command_is_named_with_what_was_expected",
    ),
    (
        "engineer",
        "advice at another queue depth is what a sweep measures there",
        "advice_at_another_depth_is_what_a_sweep_measures_there",
    ),
    (
        "newcomer",
        "the picture of the front page is drawn by the command in its caption",
        "picture_of_the_head_is_what_the_program_draws",
    ),
    (
        "engineer",
        "the answer says what it costs",
        "what_the_answer_costs_in_the_other_figure_is_told",
    ),
    // Someone who develops a file system.
    ("file-system developer", "data and zones persist", "data_and_zones_persist_between_processes"),
    (
        "file-system developer",
        "a loss of power leaves what was flushed",
        "states_of_a_job_have_what_was_flushed",
    ),
    (
        "file-system developer",
        "a check runs on every state, and the first failure is made small",
        "check_runs_on_every_state_and_shrinks_the_first_failure",
    ),
    (
        "file-system developer",
        "workloads are generated, played and judged",
        "workloads_of_files_are_generated_played_and_judged",
    ),
    (
        "file-system developer",
        "zones are files for the programs that everybody has",
        "files_are_used_with_the_programs_that_everybody_has",
    ),
    // Someone who programs in Python.
    ("Python", "a device comes second everywhere", "test_device_comes_second"),
    ("Python", "text that names a file is said to", "test_text_that_names_a_file_is_said_to"),
    ("Python", "the best is an object", "test_advice_ranks_configurations"),
    ("Python", "results are tables in a notebook", "test_results_are_tables_in_a_notebook"),
    ("Python", "examples of the documentation are right", "test_each_has_an_example_that_is_right"),
    ("Python", "the tutorial runs, and is stored with its plots", "test_tutorial_runs"),
    (
        "Python",
        "progress is reported and may end the run",
        "test_progress_is_reported_and_may_end_the_run",
    ),
    ("Python", "a queue has I/O in flight", "test_io_in_flight_overlaps"),
    ("Python", "so has asyncio", "test_asyncio_has_io_in_flight"),
    (
        "Python",
        "a run explains, traces heads and records its view",
        "test_run_explains_and_records",
    ),
    (
        "Python",
        "a function checks the states after a loss of power",
        "test_states_after_a_loss_of_power_are_checked_by_a_function",
    ),
    ("Python", "a device is served", "test_served_device_is_that_of_a_host"),
    ("Python", "histograms are views", "test_histograms_are_views"),
    ("Python", "the module is a program", "test_module_is_a_program"),
    ("Python", "the site has the reference", "table_of_contents_has_each_page_of_the_index_once"),
    // Someone who programs in C.
    ("C programmer", "images are created", "images_are_created_once_and_keep_data"),
    (
        "C programmer",
        "functions are exported with a version",
        "only_the_functions_of_the_header_are_exported_with_a_version",
    ),
];

/// The sources of all tests.
fn sources() -> String {
    let mut text = String::new();
    let names = ["tests", "crates", "src", "python/tests", "xtask"];
    let mut folders: Vec<_> = names.map(repository).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder is read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs" || it == "py") {
                text += &std::fs::read_to_string(&path).expect("a source is read");
            }
        }
    }
    text
}

#[test]
fn every_expectation_has_its_test() {
    let sources = sources();
    for (who, what, test) in EXPECTATIONS {
        let is_there = ["fn", "def"].map(|word| sources.contains(&format!("{word} {test}(")));
        assert!(is_there.contains(&true), "{who}: {what}: no test {test}");
    }
}

#[test]
fn misspelt_words_are_answered_by_the_nearest_right_one() {
    let device = "--device=null:zones=8,zone_size=1M";
    for (args, right) in [
        (&["rnu"][..], "run"),
        (&["pattern", "genreate"], "generate"),
        (&["zone", "reprot", "null"], "report"),
        (&["run", device, "--name=a", "--rw=reed"], "`read`"),
        (&["run", device, "--name=a", "--ioengine=libaoi"], "`libaio`"),
        (&["run", device, "--name=a", "--verify=crc32d"], "`crc32c`"),
        (&["run", device, "--name=a", "--random_distribution=zpif"], "`zipf`"),
        (&["run", device, "--name=a", "--zonemode=zdb"], "`zbd`"),
        (&["run", device, "--name=a", "--clock=virtaul"], "'virtual'"),
        (&["run", device, "--name=a", "--zone-write=plgu"], "'plug'"),
        (&["run", device, "--name=a", "--output-format=jsno"], "`json`"),
        (&["run", device, "--name=a", "--ioscheduler=kybre"], "`kyber`"),
        (
            &["run", device, "--name=a", "--scheduler=bfq", "--sched-opt=slice_idel=1"],
            "`slice_idle`",
        ),
        (&["run", device, "--name=a", "--fault=fail=wriet"], "`write`"),
        (&["run", "--device=null:zoned_size=1M", "--name=a"], "`zone_size`"),
        (&["run", "--device=smr-30t:hba=mpt4sas", "--name=a"], "did you mean `mpt3sas`?"),
        (&["run", device, "--name=a", "--fault=fial=write"], "did you mean `fail`?"),
        (&["fit", "zn54", "x.json"], "`zn540`"),
        (&["run", device, "--name=a", "--scheduler=deadline"], "`mq-deadline`"),
        (&["sweep", device, "--name=a", "--vary=policy=plug"], "`zone_write`"),
        (&["crash", "--lsit", "x.log"], "'--list'"),
        (&["options", "iodeph"], "iodepth"),
        (&["devices", "zns-1"], "`zns-1t`"),
        (&["run", "zns-1t", "--name=a"], "--device zns-1t"),
        (&["advise", "--device=zns-1t", "null"], "--device null"),
        (&["zone", "reset", "--conut=3", "null"], "'--count'"),
        (&["advise", "--devise=null", "--name=a"], "did you mean --device?"),
        (&["advise", "--devise", "null", "--name=a"], "did you mean --device?"),
        (&["advise", "--name=a"], "no device: give --device (see zonal devices), or --drives"),
        (&["advise", "device=null", "--name=a"], "an option is given as --device=null"),
        (&["run", device, "--name=a", "bs=4k"], "an option is given as --bs=4k"),
        (&["sweep", device, "--vray=iodepth=1", "--name=a"], "did you mean --vary?"),
        (&["zone", "report", "null:zone_cap=1M"], "did you mean `zone_capacity`?"),
        (&["reproduce", "smr-seq"], "did you mean `smr-seq-qd`?"),
        (&["ctl", "none.sock", "stats"], "did you mean `stat`?"),
        (&["ctl", "none.sock", "statu"], "did you mean `status`?"),
        (&["devices", "smr-3"], "did you mean `smr-30t`?"),
        (&["zone", "report", "a.img:latency=modle"], "did you mean `model`?"),
        (&["zone", "report", "nvme-tcp://h:1/nqn.a?iopolcy=numa"], "did you mean `iopolicy`?"),
    ] {
        let ran = zonal(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(right), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_misspelt_key_of_a_profile_is_answered_by_the_nearest_right_one() {
    let dir = TestDir::new().with("p.toml", "device = \"null\"\nzone_cap = \"1M\"\n");
    let ran = dir.zonal(&["zone", "report", "p.toml"]);
    let told = "p.toml:2: unknown option `zone_cap`, did you mean `zone_capacity`?";
    assert!(ran.code == 2 && ran.err.contains(told), "{ran:?}");
}

#[test]
fn a_misspelt_host_is_answered_by_the_nearest_right_one() {
    let cells = "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
                 io,spdk,4096,append:write,4096,1,1,iops,50000,1/s\n";
    let dir = TestDir::new().with("cells.csv", cells);
    let ran = dir.zonal(&["validate", "--device=zn540", "--host-cost=spkd", "cells.csv"]);
    let told = "--host-cost: found `spkd`, expected spdk, io_uring, io_uring_cmd, libaio or a file, \
                did you mean `spdk`?";
    assert!(ran.code == 2 && ran.err.contains(told), "{ran:?}");
}

#[test]
fn writes_that_ignore_zones_are_told_of_zonemode_wherever_jobs_are_measured() {
    let job = ["--device=zns-1t", "--name=a", "--rw=randwrite", "--bs=4k"];
    let told = "; job a: a zone refused a write; zonemode=zbd places writes at the write pointers";
    let quick = ["--time=0.1", "--seeds=1"];
    let advise = ["advise", "--schedulers=none", "--depths=1", "--zone-write=plug"];
    let ran = zonal(&[&advise[..], &quick, &job].concat());
    assert!(ran.code == 2 && ran.err.contains(told), "{ran:?}");
    let ran = zonal(&[&["sweep", "--vary=iodepth=1"], &quick[..], &job].concat());
    assert!(ran.code == 1 && ran.out.contains(told), "{ran:?}");
}

#[test]
fn notices_before_the_json_of_a_report_are_skipped() {
    let job = ["--name=w", "--rw=write", "--bs=128k", "--zonemode=zbd", "--io_size=25m"];
    let run = ["run", "--clock=virtual", "--device=zn540", "--output-format=json", "--direct=1"];
    let report = zonal(&[&run[..], &job, &["--ioengine=io_uring"]].concat()).expect_ok();
    let dir = TestDir::new()
        .with("r.json", &format!("note: both iodepth >= 1\nfio: and so on\n{report}"));
    let ran = dir.zonal(&["validate", "r.json", "--device=zn540"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("r.json: lat_p50 of r: w:write"), "{}", ran.out);
}

#[test]
fn destructive_commands_say_what_they_emptied() {
    let dir = TestDir::new();
    dir.zonal(&["create", "a.img", "--profile=null:zones=4,zone_size=1M"]).expect_ok();
    let reset = || dir.zonal(&["zone", "reset", "a.img"]).expect_ok();
    assert_eq!(reset(), "a.img: reset zones 0 to 3: none held data\n");
    let write = ["--name=a", "--rw=write", "--zonemode=zbd", "--bs=64k", "--io_size=1536k"];
    dir.zonal(&[&["run", "--device=a.img"][..], &write].concat()).expect_ok();
    assert!(reset().contains("2 held data"), "two zones were written");
    assert_eq!(reset(), "a.img: reset zones 0 to 3: none held data\n");
}

#[test]
fn thousands_of_jobs_in_flight_run_at_once() {
    let device = "--device=null:zoned=false,size=16G,queues=4096";
    let jobs = ["--name=a", "--rw=randread", "--numjobs=4096", "--iodepth=64", "--number_ios=1"];
    let run = ["run", "--clock=virtual", "--output-format=json", "--group_reporting", device];
    let out = zonal(&[&run[..], &jobs].concat()).expect_ok();
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["jobs"][0]["read"]["total_ios"], 4096);
}

#[test]
fn readme_says_what_was_never_measured_and_links_what_was_published() {
    let readme = std::fs::read_to_string(repository("README.md")).expect("the README");
    assert!(readme.contains("never measured on real hardware"));
    let sources = std::fs::read_to_string(repository("docs/reproduce.md")).expect("the page");
    let lists = sources.matches("https://lore.kernel.org/").count();
    assert!(lists >= 3 && !sources.contains("?q="), "messages are linked by their ids");
}

#[test]
fn help_has_headings_and_fits_the_terminal() {
    let help = zonal(&["serve", "--help"]).expect_ok();
    for heading in
        ["NVMe/TCP and the NVMe subsystem:", "Monitoring and control:", "Log:", "Virtual machines:"]
    {
        assert!(help.lines().any(|line| line == heading), "{heading}: {help}");
    }
    let (about, options) = help.split_once("\nUsage: ").expect("a usage");
    assert!(about.contains("\n\nExamples:\n  zonal serve "), "{about}");
    let longest = options.lines().skip(1).map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest <= 100), "{longest:?}: {options}");
    let short = zonal(&["serve", "-h"]).expect_ok();
    assert!(!short.contains("Examples:"), "{short}");
}

#[test]
fn reads_of_what_was_never_written_are_no_measurement() {
    let job = ["--name=db", "--rw=randread", "--bs=4k", "--number_ios=10"];
    let told =
        "db: the zones of the device zns-1t are empty, and a drive answers reads of what was never";
    let ran = zonal(
        &[&["run", "--clock=virtual", "--device=zns-1t", "--output-format=json"], &job[..]]
            .concat(),
    );
    assert!(ran.code == 0 && ran.out.contains(told), "{ran:?}");
    let time = ["--time=0.1", "--seeds=1", "--depths=1", "--schedulers=none"];
    let ran = zonal(&[&["advise", "--device=zns-1t"], &time[..], &job].concat());
    assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains(told), "{ran:?}");
    for device in ["zns-1t:written=100%", "null:zones=8,zone_size=1M"] {
        let device = format!("--device={device}");
        let ran = zonal(
            &[&["run", "--clock=virtual", &device, "--output-format=json"], &job[..]].concat(),
        );
        assert!(ran.code == 0 && !ran.out.contains("never written"), "{ran:?}");
    }
    let written = ["--name=w", "--rw=write", "--bs=1m", "--zonemode=zbd", "--io_size=4m"];
    let after = ["--name=db", "--stonewall", "--rw=read", "--bs=4k", "--number_ios=10"];
    let run = ["run", "--clock=virtual", "--device=zns-1t", "--output-format=json"];
    let ran = zonal(&[&run[..], &written, &after].concat());
    assert!(ran.code == 0 && !ran.out.contains("never written"), "{ran:?}");
}

#[test]
fn a_job_without_io_is_told_wherever_jobs_are_measured() {
    let told = "job r: no I/O was done: the zones of the device zns-1t are empty, so there is nothing to read; \
                write to it first, or create it with written=100%";
    let reader = ["--name=r", "--rw=read", "--bs=4k", "--zonemode=zbd", "--offset=9z", "--size=1z"];
    let writer = ["--name=w", "--rw=write", "--bs=128k", "--zonemode=zbd", "--size=1z"];
    // The writer has the same device: what the reader's own zone lacks has another name.
    let both = [&writer[..], &reader].concat();
    let told_beside = "job r: no I/O was done: the zones of its region hold less than a block each";
    let quick = ["--device=zns-1t", "--time=0.01", "--seeds=1"];
    let advise = ["advise", "--schedulers=none", "--depths=1,4", "--zone-write=plug"];
    let sweep = ["sweep", "--vary=iodepth=1,4"];
    let none = zonal(&[&advise[..], &quick, &reader].concat());
    assert!(none.code == 2 && none.out.is_empty() && none.err.contains(told), "{none:?}");
    for (command, field) in [(&advise[..], "\"without_io\": [\n    \""), (&sweep, "\"failed\": \"")]
    {
        let ran = zonal(&[command, &quick, &both].concat());
        assert!(ran.code == 1 && ran.out.contains(told_beside), "{command:?}: {ran:?}");
        assert!(!ran.out.contains("below the write pointers ("), "it is so in all: {}", ran.out);
        let json = zonal(&[command, &quick, &both, &["--json"]].concat());
        let field = format!("{field}{told_beside}");
        assert!(json.code == 1 && json.out.contains(&field), "{command:?}: {json:?}");
        let page = zonal(&[command, &quick, &both, &["--format=html"]].concat());
        assert!(page.code == 1 && page.out.contains(told_beside), "{command:?}: {page:?}");
        let alone = zonal(&[command, &quick, &writer].concat()).expect_ok();
        assert!(!alone.contains("no I/O"), "{command:?}: {alone}");
    }
    let csv = zonal(&[&advise[..], &quick, &both, &["--format=csv"]].concat());
    assert!(csv.code == 1 && csv.err.contains(told_beside), "{csv:?}");
    // Without zones for the job to know of, a drive answers without its medium.
    let reader = ["--name=db", "--rw=randread", "--bs=4k"];
    let unwritten = zonal(&[&sweep[..], &quick, &reader].concat()).expect_ok();
    assert!(unwritten.contains("\njob db: the zones of the device zns-1t are empty, and a drive"));
}

#[test]
fn an_option_and_a_profile_can_be_asked_for_by_name() {
    assert!(zonal(&["options", "iodepth"]).expect_ok().contains("iodepth"));
    let json = zonal(&["options", "depth", "--format=json"]);
    assert!(json.code == 2 && json.err.contains("did you mean"), "{json:?}");
    let json: serde_json::Value =
        serde_json::from_str(&zonal(&["options", "iodepth", "--json"]).expect_ok()).expect("JSON");
    let names: Vec<_> = json.as_array().expect("a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["iodepth"]);
    let csv = zonal(&["options", "iodepth_batch_submit", "--format=csv"]).expect_ok();
    assert!(csv.lines().count() == 2 && csv.contains("\niodepth_batch,"), "{csv}");
}

#[test]
fn a_region_without_a_zone_says_how_large_one_is() {
    let job = ["--name=a", "--rw=write", "--zonemode=zbd", "--size=64m"];
    let ran = zonal(&[&["run", "--device=zns-1t"], &job[..]].concat());
    let told = "size: the region of 67108864 bytes does not hold one whole zone; expected at least 2147483648, or 1z";
    assert!(ran.code == 2 && ran.err.contains(told), "{}", ran.err);
}
