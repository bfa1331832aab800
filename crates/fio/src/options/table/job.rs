//! Names, clones and groups of jobs, where they run, when and for how long.
use super::{ANY_U32, OptionSpec, ValueKind, number, to_u8, to_u16, to_u32, triple};
use crate::job::{CpusPolicy, ExitWhat};
use crate::options::draft::assign;
use zonal_blk::Nanos;

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
    "filename": ValueKind::Text(|draft, text| {
        draft.job.filename = Some(text.to_owned());
        draft.job.fs.names.extend(text.split(':').map(str::to_owned));
    }),
        "",
        "Device to use, unless --device names one. With --files a list of files, separated by colons; \
         as in fio, those of [global] and of the job add up.";
    "ioengine": ValueKind::Text(|draft, text| draft.job.ioengine = text.to_owned()),
        "psync",
        "All I/O goes through Zonal's own block layer; engines that do one I/O at a time, such as \
         psync, sync, pvsync and mmap, limit iodepth to 1 if they are named.";
    "numjobs": number(1, MAX_CLONES, |draft, n| draft.job.numjobs = to_u32(n)),
        "1", "Clones of the job that run at the same time.";
    "thread" or "threads": ValueKind::Flag(|_, _| ()),
        "0", "Only reported: clones are always threads.";
    "comm": ValueKind::Text(|draft, text| draft.job.report.comm = Some(text.to_owned())),
        "", "Name of the threads of the clones in real time, of which Linux shows 15 bytes.";
    "cpus_allowed": ValueKind::Cpus(|draft, cpus| draft.job.cpus_allowed = cpus),
        "all", "CPUs that the job may run on, such as 0,2-5.";
    "numa_cpu_nodes": ValueKind::Cpus(|draft, nodes| {
        draft.job.cpus_allowed = zonal_os::cpus_of_nodes(&nodes);
    }),
        "all", "NUMA nodes of this machine on whose CPUs the job may run, such as 0,2; all if it lacks them.";
    "cpumask": number(0, u64::MAX, |draft, mask| {
        let is_set = |cpu: &usize| mask >> cpu & 1 == 1;
        draft.job.cpus_allowed = (0..u64::BITS as usize).filter(is_set).collect();
    }),
        "all", "The same as the bits of a number: 5 for CPUs 0 and 2.";
    "cpus_allowed_policy": ValueKind::Word(&[
        ("shared", Ok(|draft| draft.job.cpus_allowed_policy = CpusPolicy::Shared)),
        ("split", Ok(|draft| draft.job.cpus_allowed_policy = CpusPolicy::Split)),
    ]),
        "shared", "Whether clones share the CPUs of cpus_allowed or get one each.";
    "prioclass": number(0, 3, |draft, n| draft.prio_class = Some(to_u8(n))),
        "0", "I/O priority class: 0 none (same as 2), 1 real time, 2 best effort, 3 idle.";
    "prio": number(0, 7, |draft, n| draft.prio_level = Some(to_u8(n))),
        "0 with prioclass, else 4", "I/O priority in the class, 0 is the highest.";
    "cmdprio_percentage": triple(0, 100, |draft, [read, write, _]| {
        assign(&mut draft.job.cmdprio.percentage, [read, write].map(|it| it.map(to_u8)));
    }),
        "0", "Percentage of I/Os with the priority of cmdprio_class and cmdprio; with commas for reads and writes.";
    "cmdprio_class": triple(0, 3, |draft, [read, write, _]| {
        assign(&mut draft.job.cmdprio.class, [read, write].map(|it| it.map(to_u8)));
    }),
        "1", "Priority class of these I/Os, as in prioclass; with commas for reads and writes.";
    "cmdprio": triple(0, 7, |draft, [read, write, _]| {
        assign(&mut draft.job.cmdprio.level, [read, write].map(|it| it.map(to_u8)));
    }),
        "0", "Priority of these I/Os in the class; with commas for reads and writes.";
    "cmdprio_bssplit": ValueKind::PrioShares(|draft, [read, write, _]| {
        assign(&mut draft.job.cmdprio.shares, [read, write]);
    }),
        "",
        "The same by block size: sizes with percentages, or with percentages, classes and levels, \
         as in 4k/10:64k/50/3/0; with commas for reads and writes.";
    "weight": number(1, 1000, |draft, n| draft.job.weight = Some(to_u16(n))),
        "from prio", "Weight of each clone with the scheduler bfq. Zonal's own.";
    "ioscheduler": ValueKind::Text(|draft, text| draft.job.ioscheduler = Some(text.to_owned())),
        "none", concat!("I/O scheduler of the job's device: ", zonal_blk::scheduler_names!(), ".");
    "sched_opt": ValueKind::Text(|draft, text| draft.job.sched_opt = Some(text.to_owned())),
        "", "Attributes of the I/O scheduler, such as read_expire=100,fifo_batch=8. Zonal's own.";
    "stonewall" or "wait_for_previous": ValueKind::Flag(|draft, on| draft.job.stonewall = on),
        "0", "Wait for the jobs before this one to finish; starts a new reporting group.";
    "wait_for": ValueKind::Text(|draft, text| draft.job.limits.order.wait_for = Some(text.to_owned())),
        "", "Wait for all clones of this job, which is before this one, to finish.";
    "exitall": ValueKind::Flag(|draft, on| draft.job.limits.order.exitall = on),
        "0",
        "When a job of the run ends, it ends others: see exit_what. Holds for all jobs if one has it.";
    "exitall_on_error": ValueKind::Flag(|draft, on| draft.job.limits.order.exitall_on_error = on),
        "0", "If this job fails, it ends others: see exit_what.";
    "exit_what": ValueKind::Word(&[
        ("group", Ok(|draft| draft.job.limits.order.exit_what = ExitWhat::Group)),
        ("stonewall", Ok(|draft| draft.job.limits.order.exit_what = ExitWhat::Stonewall)),
        ("all", Ok(|draft| draft.job.limits.order.exit_what = ExitWhat::All)),
    ]),
        "group",
        "What a job ends when it ends: its reporting group, all jobs up to the next stonewall, or \
         the run.";
    "new_group": ValueKind::Flag(|draft, on| draft.job.new_group = on),
        "0", "Start a new reporting group.";
    "group_reporting": ValueKind::Flag(|draft, on| draft.job.group_reporting = on),
        "0", "Report the group as a whole instead of each clone.";
    "disk_util": ValueKind::Bool(|draft, on| draft.job.logs.disk_util = on),
        "1",
        "Report what the devices did, unless no job wants it; a device that transfers nothing and \
         takes no time is in JSON only.";
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
    "ramp_size": ValueKind::Size(|draft, bytes| draft.job.limits.ramp_size = bytes),
        "0",
        "Amount of I/O to do before measurements start, together for clones with group_reporting; with \
         ramp_time whatever ends first.";
    "ramp_submitted": ValueKind::Flag(|draft, on| draft.job.limits.ramp_submitted = on),
        "0",
        "Latencies are those of I/Os that were submitted after the ramp, not of those that completed \
         after it. Zonal's own.";
    "startdelay" or "start_delay": ValueKind::SecondsRange(|draft, (min, max)| {
        let most = if max > min { max } else { Nanos(0) };
        (draft.job.startdelay, draft.job.limits.startdelay_max) = (min, most);
    }),
        "0", "Time to wait before the job starts, or a range to draw it from for each clone.";
    "steadystate" or "ss":
        ValueKind::Criterion(|draft, it| draft.job.limits.steady.criterion = Some(it)),
        "",
        "End when IOPS or bandwidth are steady for steadystate_duration: each second deviates from \
         the mean by less than the limit, as in iops:5 or bw:0.5%, or the regression line has a \
         smaller slope, as in iops_slope:0.1%. Clones with group_reporting are judged together.";
    "steadystate_duration" or "ss_dur":
        ValueKind::Seconds(|draft, time| draft.job.limits.steady.duration = time),
        "0", "For how long steadystate looks back.";
    "steadystate_ramp_time" or "ss_ramp":
        ValueKind::Seconds(|draft, time| draft.job.limits.steady.ramp = time),
        "0", "Time before the first measurement of steadystate.";
    "steadystate_check_interval" or "ss_interval":
        ValueKind::Seconds(|draft, time| draft.job.limits.steady.interval = time),
        "1s", "Time between the measurements of steadystate.";
}
