//! Which options exclude each other, and which need others: one table.
use super::conflict::Conflict;
use super::given::Given;
use crate::job::{
    Distribution, Extent, FileService, Job, PatternProgram, RateProcess, Rw, StreamSelect,
    VerifyMethod, ZoneMode,
};

/// Something that a job has.
#[derive(Clone, Copy)]
enum Term {
    /// It was given this option.
    Option(&'static str),
    /// An option has certain values. The text names them in messages.
    Value { option: &'static str, text: &'static str, holds: fn(&Job) -> bool },
}

impl Term {
    fn option(self) -> &'static str {
        match self {
            Term::Option(option) | Term::Value { option, .. } => option,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Term::Option(text) | Term::Value { text, .. } => text,
        }
    }
}

/// How options depend on others.
enum Rule {
    /// Each of the first excludes each of the second; with the reason, if it is not evident.
    Excludes(&'static [Term], &'static [Term], &'static str),
    /// Each of the first needs one of the second; with what to say instead of their names.
    Needs(&'static [Term], &'static [Term], &'static str),
}

const fn option(name: &'static str) -> Term {
    Term::Option(name)
}

/// An option with a value, as it is shown after the option's name in messages.
const fn value(option: &'static str, text: &'static str, holds: fn(&Job) -> bool) -> Term {
    Term::Value { option, text, holds }
}

const FILESYSTEM: Term = option("filesystem");
const READ_IOLOG: Term = option("read_iolog");
const PATTERN_FILE: Term = option("pattern_file");
const PATTERN: Term = option("pattern");
const ZBD: Term = value("zonemode", "zonemode=zbd", |job| job.zonemode == ZoneMode::Zbd);
const STRIDED: Term =
    value("zonemode", "zonemode=strided", |job| job.zonemode == ZoneMode::Strided);
const TRIMWRITE: Term = value("rw", "rw=trimwrite", |job| job.rw == Rw::TrimWrite);
const RAIDTEST: Term = value("pattern", "pattern=raidtest", |job| {
    job.pattern.program == Some(PatternProgram::Raidtest)
});
const RANDOMIO: Term = value("pattern", "pattern=randomio", |job| {
    job.pattern.program == Some(PatternProgram::Randomio)
});
const LATENCY_TARGET: Term = option("latency_target");
const FDP: Term = value("dataplacement", "dataplacement=fdp", |job| job.address.streams.fdp);
const SCHEME: Term = value("plid_select", "plid_select=scheme", |job| {
    job.address.streams.select == StreamSelect::Scheme
});
const VERIFY: Term = option("verify");
const VERIFY_ONLY: Term = option("verify_only");
const STEADYSTATE: Term = option("steadystate");

const IN_MEMORY: &str =
    "its jobs write to memory, at rates and latencies that are not the device's";
const WRITTEN_BACK: &str = "data in memory is written back later, for all jobs alike";
const VERIFIES: &str = "it verifies what is read of files, if the device keeps data";
const COMMITS: &str = "it flushes when it commits (fs_commit)";
const PLACES: &str = "it does not place its data by placement identifiers";
const SHUTS_DOWN: &str = "it shuts down at the first error";
const FILES_ON_DEVICE: &str =
    "filesystem, such as filesystem=xfs: other jobs use a device, not files";

const RULES: &[Rule] = &[
    // Rates and pauses.
    Rule::Excludes(&[option("rate_iops")], &[option("rate")], ""),
    Rule::Needs(
        &[value("rate_process", "", |job| job.rate_process == RateProcess::Poisson)],
        &[option("rate"), option("rate_iops")],
        "",
    ),
    Rule::Excludes(
        &[option("ramp_size"), option("serialize_overlap"), option("flow")],
        &[FILESYSTEM],
        "",
    ),
    Rule::Needs(
        &[option("thinkcycles")],
        &[option("cycles_per_usec")],
        "cycles_per_usec, such as 3000 for 3 GHz: virtual time has no cycles",
    ),
    // Data placement.
    Rule::Needs(&[option("plids"), option("plid_select"), option("dp_scheme")], &[FDP], ""),
    Rule::Needs(&[SCHEME], &[option("dp_scheme")], ""),
    Rule::Needs(&[option("dp_scheme")], &[SCHEME], ""),
    Rule::Excludes(&[option("plids")], &[SCHEME], "the file has the indices"),
    Rule::Excludes(&[option("fdp"), option("dataplacement")], &[FILESYSTEM], PLACES),
    // Limits and priorities.
    Rule::Excludes(
        &[option("rate_min"), option("rate_iops_min"), option("max_latency"), LATENCY_TARGET],
        &[FILESYSTEM],
        IN_MEMORY,
    ),
    Rule::Excludes(&[STEADYSTATE], &[FILESYSTEM], IN_MEMORY),
    Rule::Excludes(
        &[option("cmdprio_percentage"), option("cmdprio_bssplit")],
        &[FILESYSTEM],
        WRITTEN_BACK,
    ),
    Rule::Excludes(&[option("cmdprio_percentage")], &[option("cmdprio_bssplit")], ""),
    Rule::Needs(&[option("log_issue_time")], &[option("write_lat_log")], LOGGED_OFFSETS),
    Rule::Needs(&[option("log_issue_time")], &[option("log_offset")], LOGGED_OFFSETS),
    Rule::Needs(
        &[STEADYSTATE],
        &[value("steadystate_duration", "", |job| {
            let steady = &job.limits.steady;
            steady.interval.0 > 0 && steady.duration >= steady.interval
        })],
        "a steadystate_duration of at least steadystate_check_interval",
    ),
    Rule::Needs(&[option("steadystate_duration")], &[STEADYSTATE], ""),
    Rule::Needs(
        &[
            option("latency_window"),
            value("latency_percentile", "", |job| job.limits.latency.percentile < 100.0),
            option("latency_run"),
        ],
        &[LATENCY_TARGET],
        "",
    ),
    // Traces and patterns.
    Rule::Excludes(&[PATTERN_FILE, PATTERN], &[READ_IOLOG], ""),
    Rule::Excludes(&[PATTERN], &[PATTERN_FILE], ""),
    Rule::Excludes(
        &[ZBD, option("rate_iops"), option("offset_increment")],
        &[READ_IOLOG, PATTERN_FILE, PATTERN],
        "",
    ),
    Rule::Needs(&[option("replay_devices")], &[READ_IOLOG], ""),
    Rule::Needs(&[option("pattern_requests"), option("pattern_max_size")], &[RAIDTEST], ""),
    Rule::Needs(&[option("pattern_fsyncs")], &[RANDOMIO], ""),
    Rule::Needs(&[option("pattern_align"), option("pattern_writes")], &[PATTERN], ""),
    // Verification.
    Rule::Excludes(
        &[
            value("verify_write_sequence", "", |job| job.verify.write_sequence == Some(true)),
            value("verify_header_seed", "", |job| job.verify.header_seed == Some(true)),
        ],
        &[value("rw", "rw=read", |job| job.verify.method.is_some() && job.rw == Rw::Read)],
        "what was written is not known",
    ),
    Rule::Needs(&[option("trim_percentage")], &[VERIFY], ""),
    Rule::Needs(&[option("trim_percentage")], &[option("trim_backlog")], ""),
    Rule::Excludes(
        &[option("trim_percentage")],
        &[value("do_verify", "do_verify=0", |job| !job.verify.do_verify)],
        "trimmed is what is to be verified",
    ),
    Rule::Excludes(&[option("trim_percentage")], &[ZBD, VERIFY_ONLY], ""),
    Rule::Excludes(&[VERIFY], &[FILESYSTEM], VERIFIES),
    Rule::Excludes(
        &[
            option("fsync"),
            option("fdatasync"),
            option("end_fsync"),
            option("end_syncfs"),
            option("fsync_on_close"),
            option("sync"),
            option("write_barrier"),
        ],
        &[FILESYSTEM],
        COMMITS,
    ),
    Rule::Excludes(
        &[option("continue_on_error"), option("ignore_error")],
        &[FILESYSTEM],
        SHUTS_DOWN,
    ),
    Rule::Needs(&[VERIFY_ONLY, option("verify_state_save")], &[VERIFY], ""),
    Rule::Needs(&[option("verify_state_load")], &[VERIFY_ONLY], ""),
    Rule::Needs(
        &[value("verify_policy", "", |job| job.verify.fsynced)],
        &[option("verify_state_load")],
        "",
    ),
    Rule::Excludes(&[option("verify_state_save")], &[VERIFY_ONLY], ""),
    Rule::Needs(
        &[value("verify", "", |job| job.verify.method == Some(VerifyMethod::Pattern))],
        &[value("verify_pattern", "verify_pattern", |job| job.verify.pattern.is_some())],
        "",
    ),
    Rule::Excludes(
        &[VERIFY_ONLY],
        &[
            value("time_based", "time_based", |job| job.time_based),
            value("zonemode", "random writes and zonemode=zbd", |job| {
                job.random && job.zonemode == ZoneMode::Zbd
            }),
        ],
        "",
    ),
    Rule::Excludes(
        &[option("verify_interval")],
        &[READ_IOLOG, PATTERN_FILE, PATTERN],
        "the sizes of its I/Os are its own",
    ),
    Rule::Excludes(
        &[option("verify_offset")],
        &[READ_IOLOG, PATTERN_FILE],
        "the sizes of its I/Os are its own",
    ),
    // Zones.
    Rule::Needs(
        &[
            value("zonesize", "", |job| job.zonesize.is_some() && job.zonemode == ZoneMode::None),
            option("zone_append"),
            value("write_mode", "", |job| job.zone_append),
            option("read_beyond_wp"),
            option("ignore_zone_limits"),
            option("zone_reset_threshold"),
            option("zone_reset_frequency"),
            option("write_zone_remainder"),
            option("zone_finish"),
            option("recover_zbd_write_error"),
            value("zonecapacity", "", |job| job.zbd.capacity.is_some()),
            value("size", "", |job| is_zones(job.size)),
            value("io_size", "", |job| is_zones(job.io_size)),
            value("offset", "", |job| is_zones(Some(job.offset))),
            value("offset_increment", "", |job| is_zones(Some(job.offset_increment))),
        ],
        &[ZBD],
        "",
    ),
    Rule::Needs(&[STRIDED], &[option("zonesize")], ""),
    Rule::Needs(&[option("zoneskip")], &[STRIDED], ""),
    // Lengths and offsets.
    Rule::Needs(
        &[option("random_sequence_stride")],
        &[value("random_distribution", "random_distribution=sequence", |job| {
            let is_sequence = |it: &Distribution| matches!(it, Distribution::Sequence(_));
            job.address.distribution.iter().any(is_sequence)
        })],
        "",
    ),
    Rule::Excludes(
        &[value("bs_is_seq_rand", "", |job| job.address.seq_rand && job.random)],
        &[
            option("percentage_random"),
            value("rw", "I/Os per random offset", |job| job.rw_modifier != 0),
        ],
        "a random job has one block size",
    ),
    Rule::Excludes(
        &[
            TRIMWRITE,
            STRIDED,
            option("percentage_random"),
            value("rw_sequencer", "", |job| job.address.identical),
            option("blockalign"),
            option("random_distribution"),
            option("bssplit"),
            option("bsrange"),
        ],
        &[FILESYSTEM, READ_IOLOG, PATTERN_FILE, PATTERN],
        "",
    ),
    Rule::Excludes(
        &[
            TRIMWRITE,
            option("percentage_random"),
            value("rw_sequencer", "", |job| job.address.identical),
            option("blockalign"),
        ],
        &[ZBD],
        "",
    ),
    // Files.
    Rule::Excludes(&[option("create_only")], &[FILESYSTEM, READ_IOLOG, PATTERN_FILE, PATTERN], ""),
    Rule::Excludes(
        &[
            value("file_service_type", "", |job| {
                matches!(job.fs.service, FileService::Random | FileService::Drawn(_))
                    || job.fs.turn > 1
            }),
            value("startdelay", "", |job| job.limits.startdelay_max > job.startdelay),
        ],
        &[FILESYSTEM],
        "",
    ),
    Rule::Excludes(
        &[FILES],
        &[
            option("zonemode"),
            READ_IOLOG,
            PATTERN_FILE,
            PATTERN,
            value("size", "a size in % or zones", |job| {
                !matches!(job.size, None | Some(Extent::Bytes(_)))
            }),
        ],
        "",
    ),
    Rule::Needs(&[FILES], &[option("filesize"), option("size")], ""),
    Rule::Needs(
        &[
            option("fs_shared"),
            option("fs_disks"),
            option("fs_warm_runs"),
            option("fs_memory"),
            option("fs_dirty"),
            option("fs_dirty_background"),
            option("fs_chunk"),
            option("fs_open_zones"),
            option("fs_block"),
            option("fs_commit"),
            option("fs_queue_depth"),
            option("fs_op_cost"),
            option("fs_byte_rate"),
            option("fs_issue_cost"),
        ],
        &[FILESYSTEM],
        FILES_ON_DEVICE,
    ),
];

const LOGGED_OFFSETS: &str = "write_lat_log and log_offset";
/// Several files on a device.
const FILES: Term = value("nrfiles", "", |job| {
    job.fs.kind.is_none() && job.fs.nrfiles.is_some_and(|files| files > 1)
});

fn is_zones(extent: Option<Extent>) -> bool {
    matches!(extent, Some(Extent::Zones(_)))
}

/// Checks the job against the table.
///
/// # Errors
/// The first rule that it breaks.
pub(super) fn check(job: &Job, given: &Given) -> Result<(), Conflict> {
    RULES.iter().find_map(|rule| broken(rule, job, given)).map_or(Ok(()), Err)
}

fn broken(rule: &Rule, job: &Job, given: &Given) -> Option<Conflict> {
    let first = |terms: &[Term], is_given: &dyn Fn(&str) -> bool| {
        terms.iter().copied().find(|term| match term {
            Term::Option(option) => is_given(option),
            Term::Value { holds, .. } => holds(job),
        })
    };
    let asked_for = |option: &str| given.asks_for(option);
    match *rule {
        // The default of an option can be combined with anything.
        Rule::Excludes(options, others, because) => {
            let option = first(options, &|option| given.changes(option))?.option();
            let with = first(others, &asked_for)?.text();
            Some(Conflict::Combined { option, with, because })
        }
        Rule::Needs(options, others, other) => {
            let option = first(options, &asked_for)?.option();
            let names = || others.iter().map(|term| term.text()).collect::<Vec<_>>().join(" or ");
            let other = if other.is_empty() { names() } else { other.to_owned() };
            first(others, &asked_for).is_none().then_some(Conflict::Needs { option, other })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::find;

    #[test]
    fn the_table_names_options_that_exist() {
        for rule in RULES {
            let (Rule::Excludes(options, others, _) | Rule::Needs(options, others, _)) = *rule;
            for term in options.iter().chain(others) {
                let name = term.option();
                assert_eq!(find(name).map(|it| it.name()), Some(name), "{name}");
            }
        }
    }
}
