//! Names, clones and groups of jobs, and where they run.
use super::{ANY_U32, OptionSpec, ValueKind, narrow, small, tiny};
use crate::job::CpusPolicy;

/// Each clone is a thread; fio has room for as many jobs.
const MAX_CLONES: u64 = 4096;

pub(super) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "name",
        ValueKind::Text(|draft, text| draft.job.name = text.to_owned()),
        "",
        "Name of the job; on the command line it begins a new job.",
    ),
    OptionSpec::new(
        "description",
        ValueKind::Text(|draft, text| draft.job.description = text.to_owned()),
        "",
        "Text for the report.",
    ),
    OptionSpec::new(
        "filename",
        ValueKind::Text(|draft, text| draft.job.filename = Some(text.to_owned())),
        "",
        "Device to use.",
    ),
    OptionSpec::new(
        "ioengine",
        ValueKind::Text(|draft, text| draft.job.ioengine = text.to_owned()),
        "psync",
        "Kept for the report: all I/O goes through Zonal's own block layer.",
    ),
    OptionSpec::new(
        "numjobs",
        ValueKind::Number {
            min: 1,
            max: MAX_CLONES,
            set: |draft, n| draft.job.numjobs = narrow(n),
        },
        "1",
        "Clones of the job that run at the same time.",
    ),
    OptionSpec::new(
        "thread",
        ValueKind::Flag(|draft, on| draft.job.thread = on),
        "0",
        "Kept for the report: clones are always threads.",
    ),
    OptionSpec::new(
        "cpus_allowed",
        ValueKind::Cpus(|draft, cpus| draft.job.cpus_allowed = cpus),
        "all",
        "CPUs that the job may run on, as 0,2-5.",
    ),
    OptionSpec::new(
        "cpus_allowed_policy",
        ValueKind::Word(&[
            ("shared", Ok(|draft| draft.job.cpus_allowed_policy = CpusPolicy::Shared)),
            ("split", Ok(|draft| draft.job.cpus_allowed_policy = CpusPolicy::Split)),
        ]),
        "shared",
        "Whether each clone may use all CPUs of cpus_allowed or gets one of them.",
    ),
    OptionSpec::new(
        "prioclass",
        ValueKind::Number { min: 0, max: 3, set: |draft, n| draft.prio_class = Some(tiny(n)) },
        "0",
        "I/O priority class, for schedulers: 0 none (as 2), 1 real time, 2 best effort, 3 idle.",
    ),
    OptionSpec::new(
        "prio",
        ValueKind::Number { min: 0, max: 7, set: |draft, n| draft.prio_level = Some(tiny(n)) },
        "0 with prioclass, else 4",
        "I/O priority in its class, 0 the most urgent.",
    ),
    OptionSpec::new(
        "weight",
        ValueKind::Number { min: 1, max: 1000, set: |draft, n| draft.job.weight = Some(small(n)) },
        "from prio",
        "Share of the device that the scheduler bfq gives each clone. Zonal's own.",
    ),
    OptionSpec::new(
        "ioscheduler",
        ValueKind::Text(|draft, text| draft.job.ioscheduler = Some(text.to_owned())),
        "none",
        "I/O scheduler of the job's device: none, mq-deadline, bfq or kyber.",
    ),
    OptionSpec::new(
        "sched_opt",
        ValueKind::Text(|draft, text| draft.job.sched_opt = Some(text.to_owned())),
        "",
        "Attributes of the I/O scheduler, as read_expire=100,fifo_batch=8. Zonal's own.",
    ),
    OptionSpec::new(
        "stonewall",
        ValueKind::Flag(|draft, on| draft.job.stonewall = on),
        "0",
        "Wait for the jobs before this one to finish; begins a new reporting group.",
    )
    .or(&["wait_for_previous"]),
    OptionSpec::new(
        "new_group",
        ValueKind::Flag(|draft, on| draft.job.new_group = on),
        "0",
        "Begin a new reporting group.",
    ),
    OptionSpec::new(
        "group_reporting",
        ValueKind::Flag(|draft, on| draft.job.group_reporting = on),
        "0",
        "Report the group as one instead of each clone.",
    ),
    OptionSpec::new(
        "loops",
        ValueKind::Number { min: 0, max: ANY_U32, set: |draft, n| draft.job.loops = n.max(1) },
        "1",
        "Times to do the whole amount of I/O; 0 counts as 1.",
    ),
    OptionSpec::new(
        "kb_base",
        ValueKind::Word(&[
            ("1024", Ok(|draft| draft.job.kb_base = 1024)),
            ("1000", Ok(|draft| draft.job.kb_base = 1000)),
        ]),
        "1024",
        "What k, m, g, t and p are powers of; kib, mib and so on mean the other one.",
    ),
    OptionSpec::new(
        "unit_base",
        ValueKind::Word(&[
            ("0", Ok(|draft| draft.job.unit_base = 0)),
            ("8", Ok(|draft| draft.job.unit_base = 8)),
            ("1", Ok(|draft| draft.job.unit_base = 1)),
        ]),
        "0",
        "Whether reports count bytes (8), bits (1) or what fits (0).",
    ),
];
