//! Names, clones and groups of jobs, where they run, when and for how long.
use super::{ANY_U32, OptionSpec, ValueKind, number, to_u8, to_u16, to_u32};
use crate::job::CpusPolicy;

/// Each clone is a thread; fio allows as many jobs.
const MAX_CLONES: u64 = 4096;
/// fio's limit for weights in a flow.
const MAX_FLOW: u64 = 1000;

options! {
    pub(super) const JOB;
    "name": ValueKind::Text(|draft, text| draft.job.name = text.to_owned()),
        "", "Name of the job; on the command line it starts a new job.";
    "description": ValueKind::Text(|draft, text| draft.job.description = text.to_owned()),
        "", "Text for the report.";
    "filename": ValueKind::Text(|draft, text| draft.job.filename = Some(text.to_owned())),
        "", "Device to use.";
    "ioengine": ValueKind::Text(|draft, text| draft.job.ioengine = text.to_owned()),
        "psync", "Only reported: all I/O goes through Zonal's own block layer.";
    "numjobs": number(1, MAX_CLONES, |draft, n| draft.job.numjobs = to_u32(n)),
        "1", "Clones of the job that run at the same time.";
    "thread" or "threads": ValueKind::Flag(|draft, on| draft.job.thread = on),
        "0", "Only reported: clones are always threads.";
    "cpus_allowed": ValueKind::Cpus(|draft, cpus| draft.job.cpus_allowed = cpus),
        "all", "CPUs that the job may run on, such as 0,2-5.";
    "cpus_allowed_policy": ValueKind::Word(&[
        ("shared", Ok(|draft| draft.job.cpus_allowed_policy = CpusPolicy::Shared)),
        ("split", Ok(|draft| draft.job.cpus_allowed_policy = CpusPolicy::Split)),
    ]),
        "shared", "Whether clones share the CPUs of cpus_allowed or get one each.";
    "prioclass": number(0, 3, |draft, n| draft.prio_class = Some(to_u8(n))),
        "0", "I/O priority class: 0 none (same as 2), 1 real time, 2 best effort, 3 idle.";
    "prio": number(0, 7, |draft, n| draft.prio_level = Some(to_u8(n))),
        "0 with prioclass, else 4", "I/O priority in the class, 0 is the highest.";
    "weight": number(1, 1000, |draft, n| draft.job.weight = Some(to_u16(n))),
        "from prio", "Weight of each clone with the scheduler bfq. Zonal's own.";
    "ioscheduler": ValueKind::Text(|draft, text| draft.job.ioscheduler = Some(text.to_owned())),
        "none", "I/O scheduler of the job's device: none, mq-deadline, bfq or kyber.";
    "sched_opt": ValueKind::Text(|draft, text| draft.job.sched_opt = Some(text.to_owned())),
        "", "Attributes of the I/O scheduler, such as read_expire=100,fifo_batch=8. Zonal's own.";
    "stonewall" or "wait_for_previous": ValueKind::Flag(|draft, on| draft.job.stonewall = on),
        "0", "Wait for the jobs before this one to finish; starts a new reporting group.";
    "new_group": ValueKind::Flag(|draft, on| draft.job.new_group = on),
        "0", "Start a new reporting group.";
    "group_reporting": ValueKind::Flag(|draft, on| draft.job.group_reporting = on),
        "0", "Report the group as a whole instead of each clone.";
    "loops": number(0, ANY_U32, |draft, n| draft.job.loops = n.max(1)),
        "1", "Times to repeat the whole amount of I/O; 0 counts as 1.";
    "kb_base": ValueKind::Word(&[
        ("1024", Ok(|draft| draft.job.kb_base = 1024)),
        ("1000", Ok(|draft| draft.job.kb_base = 1000)),
    ]),
        "1024", "Base of the suffixes k, m, g, t and p; kib, mib and so on have the other base.";
    "unit_base": ValueKind::Word(&[
        ("0", Ok(|draft| draft.job.unit_base = 0)),
        ("8", Ok(|draft| draft.job.unit_base = 8)),
        ("1", Ok(|draft| draft.job.unit_base = 1)),
    ]),
        "0", "Report bytes (8), bits (1) or choose (0).";
}

options! {
    pub(super) const TIME;
    "runtime" or "timeout":
        ValueKind::Seconds(|draft, time| draft.job.runtime = (time.0 > 0).then_some(time)),
        "", "Stop after this time; 0 for no limit.";
    "time_based": ValueKind::Flag(|draft, on| draft.job.time_based = on),
        "0", "Run for the whole runtime, starting over when all I/O is done.";
    "flow": number(0, MAX_FLOW, |draft, n| draft.job.flow = to_u32(n)),
        "0",
        "Weight of each clone: clones with the same flow_id issue I/Os in proportion to their \
         weights.";
    "flow_id": number(0, ANY_U32, |draft, n| draft.job.flow_id = to_u32(n)),
        "0", "The flow that the weight is for.";
    "ramp_time": ValueKind::Seconds(|draft, time| draft.job.ramp_time = time),
        "0", "Time to run before measurements start.";
    "startdelay" or "start_delay": ValueKind::Seconds(|draft, time| draft.job.startdelay = time),
        "0", "Time to wait before the job starts.";
}
