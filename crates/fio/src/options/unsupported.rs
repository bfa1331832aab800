//! The options of fio 3.41 that Zonal accepts but does not implement.
//!
//! Some do not change what is measured here, each for a reason, and are reported in one line. The others
//! are errors, unless the user allows them, so that nobody compares two different workloads unknowingly.
use super::UnsupportedOption;

/// The effect of ignoring an option on the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The measurements do not change.
    None,
    /// The job would run differently than in fio, as described.
    Changes(&'static str),
}

/// An option that changes the job: names, neutral values, and what happens instead.
struct Change {
    names: &'static [&'static str],
    neutral: &'static [&'static str],
    instead: &'static str,
}

const fn change(
    names: &'static [&'static str],
    neutral: &'static [&'static str],
    instead: &'static str,
) -> Change {
    Change { names, neutral, instead }
}

const FILES: &str = "the job uses one device, not files";
const HINTS: &str = "no device here places data by hints";
const FLASH: &str =
    "no device here has spare flash to bring into a steady state: in zones nothing is overwritten";
const COMMANDS: &str = "I/O is reads, writes and discards without metadata";
const DURATION: &str = "no device here has command duration limits";
const LOG: &str = "blocks are verified by the log of writes";

const CHANGES: &[Change] = &[
    change(&["opendir"], &[], FILES),
    change(&["file_append"], &["0"], "I/O starts at offset"),
    change(&["lockfile"], &["none"], "no job waits for a lock of a file: use serialize_overlap"),
    change(&["block_error_percentiles"], &["0"], "the report counts errors, not trims until them"),
    change(&["nice"], &["0"], "clones have the priority of this program"),
    change(&["sync_file_range"], &[], "no flushes are issued: use fsync"),
    change(&["atomic"], &["0"], "the block layer has no writes with RWF_ATOMIC"),
    change(&["merge_blktrace_file"], &[], "traces are not merged"),
    change(&["log_store_compressed"], &["0"], "logs are plain text"),
    change(&["exec_prerun"], &[], "no command is run"),
    change(&["exec_postrun"], &[], "no command is run"),
    change(&["cgroup"], &[], "no control group is joined: use weight with the scheduler bfq"),
    change(
        &["cgroup_weight"],
        &[],
        "no control group is joined: use weight with the scheduler bfq",
    ),
    change(&["profile"], &[], "no profile is loaded"),
    change(&["sg_write_mode"], &["write"], "the block layer has no SCSI VERIFY and WRITE SAME"),
    change(&["write_hint"], &["none"], HINTS),
    change(&["priohint"], &["0"], DURATION),
    change(&["cmdprio_hint"], &["0"], DURATION),
    change(&["num_range"], &["1"], "a discard of the block layer has one range"),
    change(&["verify_mode"], &["read"], COMMANDS),
    change(&["md_per_io_size"], &["0"], COMMANDS),
    change(&["sprandom"], &["0"], FLASH),
    change(&["experimental_verify"], &["0"], LOG),
    change(&["job_start_clock_id"], &["0"], "job_start is the time of day"),
    change(&["readfua"], &["0"], "reads have no FUA in the block layer"),
];

/// Options without effect: the reason, and the names, separated by blanks.
const HARMLESS: &[(&str, &str)] = &[
    (
        "there is one device, which exists, in place of files",
        "directory unique_filename fallocate overwrite create_serialize create_fsync \
         create_on_open allow_file_create allow_mounted_write unlink unlink_each_loop filetype",
    ),
    ("there is no page cache", "fadvise_hint pre_read invalidate uncached"),
    (
        "where buffers are is not measured",
        "mem iomem iomem_align mem_align hugepage-size lockmem numa_mem_policy thp fixedbufs \
         registerfiles",
    ),
    ("the map never lacks memory", "softrandommap"),
    (
        "verification and pauses cost the device no time",
        "verify_async verify_async_cpus thinktime_spin",
    ),
    (
        "it is a detail of an option that is refused, or has no effect itself",
        "merge_blktrace_scalars merge_blktrace_iters deac pi_act pi_chk apptag apptag_mask spr_op spr_num_regions spr_cs \
         cgroup_nodelete",
    ),
    ("a trace is read before the run, however long it is", "read_iolog_chunked"),
    (
        "logs are plain text, written as they come",
        "log_entries log_compression log_compression_cpus",
    ),
    ("the clock costs too little to be read elsewhere", "gtod_cpu clocksource"),
    ("clones are threads of this program, with its rights", "uid gid"),
    (
        "I/O goes through Zonal's own block layer: it is an option of another engine",
        "libaio_vectored hipri hipri_percentage sqthread_poll sqthread_poll_cpu \
         nonvectored nowait force_async cmd_type userspace_reap stream_id cpuload \
         cpuchunks cpumode exit_on_io_done hostname port bindname verb protocol proto \
         interface listen nodelay pingpong ttl window_size mss clustername clientname \
         rbdname pool conf busy_poll touch_objects brick volume single-instance \
         single_instance skip_bad donorname inplace uri stat_type program arguments \
         grace_time std_redirect namenode chunk_size chunck_size hdfsdirectory \
         hdfs_use_direct http_host http_user http_pass http_s3_key http_s3_keyid \
         http_s3_region http_s3_sse_customer_algorithm http_s3_sse_customer_key \
         http_s3_storage_class http_mode http_object_mode http_s3_security_token \
         http_swift_auth_token http_verbose https object_class nfs_url cont svcl \
         initiator cuda_io gpu_dev_id gpu_dev_ids busy_wait_polling xnvme_async \
         xnvme_sync xnvme_admin xnvme_dev_nsid xnvme_iovec xnvme_be xnvme_mem \
         xnvme_dev_subnqn libblkio_driver libblkio_path libblkio_pre_connect_props \
         libblkio_pre_start_props libblkio_num_entries libblkio_queue_size \
         libblkio_vectored libblkio_write_zeroes_on_trim libblkio_wait_mode \
         libblkio_force_enable_completion_eventfd no_completion_thread dummy",
    ),
    (
        "fio has no use for it any more either",
        "verifysort verifysort_nr rwmixcycle percentage_sequential flow_watermark \
         flow_sleep",
    ),
];

/// Options that fio accepts without a value.
const FLAGS: &[&str] = &[
    "hipri",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "nonvectored",
    "uncached",
    "userspace_reap",
    "listen",
    "pingpong",
    "xnvme_iovec",
    "libblkio_vectored",
    "libblkio_write_zeroes_on_trim",
    "libblkio_force_enable_completion_eventfd",
    "no_completion_thread",
    "dummy",
];

/// Looks up a name.
pub(super) fn find(name: &str) -> Option<UnsupportedOption> {
    if let Some(change) = CHANGES.iter().find(|change| change.names.contains(&name)) {
        return Some(UnsupportedOption {
            name: change.names[0],
            effect: Effect::Changes(change.instead),
            neutral: change.neutral,
            flag: FLAGS.contains(&name),
        });
    }
    harmless().find(|known| *known == name).map(|name| UnsupportedOption {
        name,
        effect: Effect::None,
        neutral: &[],
        flag: FLAGS.contains(&name),
    })
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CHANGES.iter().flat_map(|change| change.names.iter().copied()).chain(harmless())
}

/// Options that change the job, and what happens instead.
pub(super) fn changes() -> impl Iterator<Item = (&'static str, &'static str)> {
    CHANGES.iter().map(|change| (change.names[0], change.instead))
}

/// Options without effect.
pub(super) fn harmless() -> impl Iterator<Item = &'static str> {
    HARMLESS.iter().flat_map(|(_, names)| names.split_ascii_whitespace())
}

/// Options without effect, by the reason.
pub(super) fn reasons() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    HARMLESS.iter().map(|&(why, names)| (why, names.split_ascii_whitespace().collect()))
}

/// Why an option has no effect, or what happens instead.
pub(super) fn reason(name: &str) -> &'static str {
    let change = changes().find(|(known, _)| *known == name).map(|(_, instead)| instead);
    let harmless = || reasons().find(|(_, names)| names.contains(&name)).map(|(why, _)| why);
    change.or_else(harmless).unwrap_or_default()
}
