//! A job being built from option values.
//!
//! [`Draft::finish`] runs the checks that involve more than one option and fills in the values that
//! depend on others.
use super::conflict::Conflict;
use super::engine::{check_engine, is_synchronous};
use super::given::Given;
use super::rules;
use crate::job::{
    BlockSizes, DataDir, Extent, FIXED_SEED, GivenDepths, Job, Rw, VerifyOptions, ioprio,
};
use crate::verify::header_fits;
use zonal_blk::Prio;

/// The values set so far. A section of a job file starts with a copy of those of `[global]`.
#[derive(Clone, Debug)]
pub struct Draft {
    pub(super) given: Given,
    /// Values that need no further processing.
    pub(super) job: Job,
    pub(super) randseed: Option<u64>,
    pub(super) randrepeat: bool,
    pub(super) allrandrepeat: bool,
    /// `prioclass`, in the numbers of the kernel.
    pub(super) prio_class: Option<u8>,
    pub(super) prio_level: Option<u8>,
    pub(super) fill_device: bool,
    /// `dedupe_mode=working_set`, and `dedupe_working_set_percentage`.
    pub(super) dedupes_set: bool,
    pub(super) dedupe_set: u8,
    /// `create_only`: no I/O, as devices exist, and so do the files on them.
    pub(super) create_only: bool,
    /// `io_submit_mode=offload`: threads of their own do the I/Os of a clone.
    pub(super) offload: bool,
    /// By direction, smallest and largest block size.
    pub(super) bsrange: [Option<(u64, u64)>; 3],
    /// By direction, sizes with percentages; empty if not set.
    pub(super) bssplit: [Vec<(u64, u8)>; 3],
}

impl Default for Draft {
    fn default() -> Self {
        let unset = 0;
        let job = Job { iodepth_low: unset, iodepth_batch_complete_max: unset, ..Job::default() };
        Draft {
            given: Given::default(),
            job,
            randseed: None,
            randrepeat: true,
            allrandrepeat: false,
            prio_class: None,
            prio_level: None,
            fill_device: false,
            dedupes_set: false,
            dedupe_set: 5,
            create_only: false,
            offload: false,
            bsrange: [None; 3],
            bssplit: Default::default(),
        }
    }
}

impl Draft {
    /// The base of size suffixes.
    pub(super) fn kb_base(&self) -> u32 {
        self.job.kb_base
    }

    /// Begins a section: names the job and forgets the options of the section before.
    pub fn begin_section(&mut self, name: &str) {
        self.job.name = name.to_owned();
        self.job.own_options.clear();
    }

    /// Records an option of the job's own section.
    pub fn note_own_option(&mut self, name: &str, value: &str) {
        note(&mut self.job.own_options, name, value);
    }

    /// Whether `time_based` has no effect, as in fio: there is no time to run for.
    pub fn lacks_runtime(&self) -> bool {
        self.job.time_based && self.job.runtime.is_none()
    }

    /// Whether the engine that was named does one I/O at a time, so that `iodepth` has no effect. Without
    /// a name the engine is Zonal's own, which has no such limit.
    fn is_one_at_a_time(&self) -> bool {
        self.given.has("ioengine") && !self.offload && is_synchronous(&self.job.ioengine)
    }

    /// Remarks for the user about the job, each with the option that it is about.
    pub fn remarks(&self) -> Vec<(&'static str, String)> {
        let (engine, depth) = (&self.job.ioengine, self.job.iodepth);
        let capped = depth > 1 && self.is_one_at_a_time();
        let remark = || {
            let text = format!("{depth} counts as 1: ioengine={engine} does one I/O at a time");
            ("iodepth", text)
        };
        capped.then(remark).into_iter().collect()
    }

    /// Checks the job and returns it. `random_seed` is called only if the job wants a new seed for
    /// each run.
    ///
    /// # Errors
    /// The conflict.
    pub fn finish(self, random_seed: impl FnOnce() -> u64) -> Result<Job, Conflict> {
        let is_one_at_a_time = self.is_one_at_a_time();
        let mut job = self.job;
        if is_one_at_a_time {
            job.iodepth = 1;
        }
        job.limits.depths = GivenDepths::of(&job);
        let depth = job.iodepth;
        job.set_iodepth(depth);
        job.randseed = match self.randseed {
            Some(seed) => seed,
            None if self.randrepeat || self.allrandrepeat => FIXED_SEED,
            None => random_seed(),
        };
        if self.prio_class.is_some() || self.prio_level.is_some() {
            // As in fio, the one that is not set is 0.
            let (class, level) = (self.prio_class.unwrap_or(0), self.prio_level.unwrap_or(0));
            job.prio = Prio::from_ioprio(class, level).expect("the table limits the class to 3");
            job.logs.ioprio = ioprio(class, level);
        }
        for dir in 0..3 {
            let split = &self.bssplit[dir];
            if let Some(largest) = split.iter().map(|(size, _)| *size).max() {
                job.bs[dir] = largest;
                job.address.sizes[dir] = BlockSizes::Split(split.clone());
            } else if let Some((min, max)) = self.bsrange[dir] {
                job.bs[dir] = max;
                let sizes = if min < max { BlockSizes::Range { min } } else { BlockSizes::Fixed };
                job.address.sizes[dir] = sizes;
            }
        }
        if job.address.seq_rand {
            let kind = if job.random { DataDir::Write } else { DataDir::Read } as usize;
            job.bs = [job.bs[kind]; 3];
            job.address.sizes = std::array::from_fn(|_| job.address.sizes[kind].clone());
        }
        job.time_based &= job.runtime.is_some();
        if self.fill_device && job.size.is_none() {
            job.io_size = None;
        }
        if job.pattern.program.is_some() {
            (job.rw, job.random) = (Rw::Mixed, true);
        }
        job.contents.working_set = self.dedupes_set.then_some(self.dedupe_set);
        fit_interval(&mut job);
        rules::check(&job, &self.given)?;
        check_values(&job)?;
        if self.create_only {
            (job.number_ios, job.time_based) = (Some(0), false);
            job.verify = VerifyOptions::default();
        }
        Ok(job)
    }
}

/// Appends an option, or replaces its value if it is there already.
pub(crate) fn note(options: &mut Vec<(String, String)>, name: &str, value: &str) {
    match options.iter_mut().find(|(known, _)| known == name) {
        Some((_, known_value)) => value.clone_into(known_value),
        None => options.push((name.to_owned(), value.to_owned())),
    }
}

/// Sets the directions that have a value.
pub(super) fn assign<T, const N: usize>(target: &mut [T; N], values: [Option<T>; N]) {
    for (target, value) in target.iter_mut().zip(values) {
        if let Some(value) = value {
            *target = value;
        }
    }
}

/// fio's rule for a `verify_interval` that does not fit the blocks, or of blocks of several sizes: no longer than the
/// shortest, and a divisor of all.
fn fit_interval(job: &mut Job) {
    let used = |dir: &DataDir| *dir != DataDir::Trim && job.uses(*dir);
    let sizes = || DataDir::ALL.into_iter().filter(used).flat_map(|dir| block_sizes(job, dir));
    let written =
        block_sizes(job, if job.uses(DataDir::Write) { DataDir::Write } else { DataDir::Read });
    let differ = job.replay.read_iolog.is_none() && written.iter().any(|size| *size != written[0]);
    let interval = job.verify.interval.or(differ.then_some(u32::MAX));
    let Some(interval) = interval.filter(|_| job.verify.method.is_some()) else {
        return;
    };
    let shortest = sizes().min().unwrap_or(u64::MAX);
    let fitting = shortest.min(interval.into());
    let divides = sizes().all(|size| size.is_multiple_of(fitting));
    let fitting = if divides { fitting } else { sizes().fold(0, gcd) };
    job.verify.interval = u32::try_from(fitting).ok().filter(|_| fitting > 0);
}

/// The block sizes of a direction; of a range, the smallest and the largest.
fn block_sizes(job: &Job, dir: DataDir) -> Vec<u64> {
    match &job.address.sizes[dir as usize] {
        BlockSizes::Split(sizes) => sizes.iter().map(|(size, _)| *size).collect(),
        BlockSizes::Range { .. } | BlockSizes::Fixed => vec![job.min_bs(dir), job.bs[dir as usize]],
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Checks values against those of other options.
fn check_values(job: &Job) -> Result<(), Conflict> {
    check_engine(&job.ioengine)?;
    check_header(job)?;
    if job.replay.align != 0 && !job.replay.align.is_power_of_two() {
        return Err(Conflict::NotPowerOfTwo(job.replay.align));
    }
    let block = min_block_size(job);
    match job.size {
        Some(Extent::Bytes(size)) if size < block => Err(Conflict::SizeBelowBlock { size, block }),
        _ => Ok(()),
    }
}

/// Checks that the header of a verified block has room.
fn check_header(job: &Job) -> Result<(), Conflict> {
    let verify = &job.verify;
    let Some(method) = verify.method else { return Ok(()) };
    let block = match job.rw {
        Rw::Trim => return Ok(()),
        Rw::Read => job.min_bs(DataDir::Read),
        Rw::Write | Rw::Mixed | Rw::TrimWrite => job.min_bs(DataDir::Write),
    };
    let interval = verify.interval.map_or(block, u64::from);
    if header_fits(method, verify.offset.into(), interval) {
        return Ok(());
    }
    Err(Conflict::NoRoomForHeader { method: method.name(), at: verify.offset, len: interval })
}

/// The smallest block size of the directions that the job uses.
fn min_block_size(job: &Job) -> u64 {
    let used = DataDir::ALL.into_iter().filter(|&dir| job.uses(dir));
    used.map(|dir| job.min_bs(dir)).min().expect("a direction")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{FioOption, find};

    fn draft(options: &[(&str, &str)]) -> Draft {
        let mut draft = Draft::default();
        for (name, value) in options {
            let Some(FioOption::Supported(spec)) = find(name) else { panic!("{name}") };
            spec.set(&mut draft, Some(value)).expect(name);
        }
        draft
    }

    fn job(options: &[(&str, &str)]) -> Job {
        draft(options).finish(|| 7).expect("no conflict")
    }

    fn conflict(options: &[(&str, &str)]) -> String {
        let conflict = draft(options).finish(|| 7).expect_err("a conflict");
        format!("{}: {conflict}", conflict.option())
    }

    #[test]
    fn no_options_make_the_default_job() {
        assert_eq!(job(&[]), Job::default());
    }

    #[test]
    fn batches_are_at_most_the_depth() {
        let job = job(&[
            ("iodepth", "16"),
            ("iodepth_batch", "32"),
            ("iodepth_low", "64"),
            ("iodepth_batch_complete_min", "99"),
        ]);
        assert_eq!((job.iodepth_batch, job.iodepth_low), (16, 16));
        assert_eq!((job.iodepth_batch_complete_min, job.most_completions(false)), (16, 16));
    }

    #[test]
    fn another_depth_is_that_of_a_job_that_says_so() {
        let given: [&[(&str, &str)]; 6] = [
            &[],
            &[("iodepth_low", "4")],
            &[("iodepth_low", "64"), ("iodepth_batch", "0")],
            &[("iodepth_batch", "8"), ("iodepth_batch_complete_min", "8")],
            &[("iodepth_batch_complete_min", "2"), ("iodepth_batch_complete_max", "16")],
            &[("ioengine", "libaio")],
        ];
        let depths = ["1", "4", "32", "128"];
        for options in given {
            for (from, to) in depths.iter().flat_map(|&from| depths.map(|to| (from, to))) {
                let mut changed = job(&[options, &[("iodepth", from)]].concat());
                let said = job(&[options, &[("iodepth", to)]].concat());
                changed.set_iodepth(to.parse().expect("a number"));
                assert_eq!(changed, said, "{options:?}: {from} to {to}");
            }
        }
    }

    #[test]
    fn depths_that_are_zero_or_not_set_follow_iodepth() {
        let job =
            job(&[("iodepth", "16"), ("iodepth_batch", "0"), ("iodepth_batch_complete", "0")]);
        assert_eq!((job.iodepth_batch, job.iodepth_low), (16, 16));
        assert_eq!((job.iodepth_batch_complete_min, job.most_completions(false)), (0, 16));
    }

    #[test]
    fn jobs_that_verify_or_pause_see_one_completion_at_a_time_unless_they_say_otherwise() {
        let most = |options: &[(&str, &str)]| {
            let options = [&[("iodepth", "16"), ("rw", "write")], options].concat();
            job(&options).most_completions(false)
        };
        assert_eq!(most(&[("verify", "md5")]), 1);
        assert_eq!(most(&[("thinktime", "1ms")]), 1);
        assert_eq!(most(&[("verify", "md5"), ("iodepth_batch_complete_max", "4")]), 4);
        assert_eq!(most(&[("verify", "md5"), ("iodepth_batch_complete_min", "3")]), 3);
        assert_eq!(most(&[("rate_iops", "100")]), 16);
        assert_eq!(job(&[("iodepth", "16")]).most_completions(true), 1);
    }

    #[test]
    fn of_rwmixread_and_rwmixwrite_the_last_counts() {
        assert_eq!(job(&[("rwmixread", "30"), ("rwmixwrite", "80")]).rwmixread, 20);
        assert_eq!(job(&[("rwmixwrite", "80"), ("rwmixread", "30")]).rwmixread, 30);
    }

    #[test]
    fn block_sizes_may_be_those_of_sequential_and_random_io() {
        let sizes = [("bs", "4k,64k"), ("bs_is_seq_rand", "1")];
        let of = |rw| job(&[&sizes[..], &[("rw", rw)]].concat());
        assert_eq!((of("write").bs, of("randread").bs), ([4096; 3], [65536; 3]));
        let split = [("bssplit", "4k,1k/50:2k/50"), ("bs_is_seq_rand", "1"), ("rw", "randread")];
        assert_eq!(job(&split).min_bs(DataDir::Read), 1024);
        let mixed = [("bs_is_seq_rand", "1"), ("rw", "randread"), ("percentage_random", "50")];
        assert!(conflict(&mixed).starts_with("bs_is_seq_rand: cannot be combined with perc"));
    }

    #[test]
    fn a_new_seed_is_drawn_only_with_randrepeat_0() {
        assert_eq!(job(&[]).randseed, FIXED_SEED);
        assert_eq!(job(&[("randrepeat", "0")]).randseed, 7);
        assert_eq!(job(&[("randrepeat", "0"), ("allrandrepeat", "1")]).randseed, FIXED_SEED);
        assert_eq!(job(&[("randrepeat", "0"), ("randseed", "5")]).randseed, 5);
    }

    #[test]
    fn conflicts_name_the_option_at_fault() {
        assert_eq!(
            conflict(&[("rate", "1m"), ("rate_iops", "100")]),
            "rate_iops: cannot be combined with rate"
        );
        assert_eq!(conflict(&[("size", "512")]), "size: 512 is less than the block size, 4k");
        assert_eq!(conflict(&[("zonesize", "1m")]), "zonesize: needs zonemode=zbd");
        assert_eq!(conflict(&[("offset", "2z")]), "offset: needs zonemode=zbd");
        assert_eq!(conflict(&[("nrfiles", "2")]), "nrfiles: needs filesize or size");
        assert!(conflict(&[("fs_memory", "1m")]).starts_with("fs_memory: needs filesystem"));
    }

    #[test]
    fn conflicts_of_limits_name_the_option_at_fault() {
        for (options, told) in [
            (&[("rate_process", "poisson")][..], "rate_process: needs rate or rate_iops"),
            (&[("latency_window", "1s")], "latency_window: needs latency_target"),
            (&[("latency_run", "1")], "latency_run: needs latency_target"),
            (&[("ss_dur", "5")], "steadystate_duration: needs steadystate"),
            (
                &[("max_latency", "5"), ("filesystem", "xfs")],
                "max_latency: cannot be combined with filesystem: its jobs write to memory, at \
                 rates and latencies that are not the device's",
            ),
            (&[("read_beyond_wp", "1")], "read_beyond_wp: needs zonemode=zbd"),
            (
                &[("verify", "md5"), ("verify_header_seed", "1")],
                "verify_header_seed: cannot be combined with rw=read: what was written is not known",
            ),
        ] {
            assert_eq!(conflict(options), told);
        }
    }

    #[test]
    fn conflicts_of_verification_name_the_option_at_fault() {
        let crc = ("verify", "crc32c");
        assert_eq!(conflict(&[("verify_only", "1")]), "verify_only: needs verify");
        assert_eq!(conflict(&[("verify", "pattern")]), "verify: needs verify_pattern");
        assert_eq!(
            conflict(&[crc, ("verify_only", "1"), ("time_based", "1"), ("runtime", "1")]),
            "verify_only: cannot be combined with time_based"
        );
        assert_eq!(
            conflict(&[crc, ("filesystem", "xfs")]),
            "verify: cannot be combined with filesystem: it verifies what is read of files, if the \
             device keeps data"
        );
        for at in ["42", "4090"] {
            let text = conflict(&[crc, ("verify_offset", at)]);
            assert!(text.starts_with("verify_offset: the header of verify=crc32c does"), "{text}");
        }
        let small = conflict(&[("verify", "sha256"), ("bs", "64"), ("rw", "write")]);
        assert!(small.starts_with("verify: the header of verify=sha256"), "{small}");
    }

    #[test]
    fn a_verify_interval_that_does_not_fit_becomes_one_that_does() {
        let interval = |options: &[(&str, &str)]| {
            job(&[&[("verify", "md5"), ("rw", "write")], options].concat()).verify.interval
        };
        assert_eq!(interval(&[("verify_interval", "64k")]), Some(4096));
        assert_eq!(interval(&[("verify_interval", "1000")]), Some(4096));
        assert_eq!(interval(&[("verify_interval", "1k")]), Some(1024));
        let split = ("bssplit", "8k/50:12k/50");
        assert_eq!(interval(&[split, ("verify_interval", "8k")]), Some(4096));
        assert_eq!(interval(&[split]), Some(4096));
        assert_eq!(interval(&[("bsrange", "8k-32k")]), Some(8192));
        assert_eq!(interval(&[("rw", "rw"), ("bsrange", "4k-4k,8k-12k")]), Some(4096));
        assert_eq!(interval(&[("rw", "rw"), ("bs", "4k,16k")]), None);
    }

    #[test]
    fn synchronous_engines_do_one_io_at_a_time_and_say_so() {
        let deep = |engine| [("ioengine", engine), ("iodepth", "32")];
        for engine in ["psync", "sync", "pvsync", "pvsync2", "mmap"] {
            let told = format!("32 counts as 1: ioengine={engine} does one I/O at a time");
            assert_eq!(draft(&deep(engine)).remarks(), [("iodepth", told)]);
            let job = job(&deep(engine));
            assert_eq!((job.iodepth, job.iodepth_batch, job.iodepth_low), (1, 1, 1), "{engine}");
        }
        assert_eq!(job(&deep("libaio")).iodepth, 32);
        assert_eq!(job(&[("iodepth", "32")]).iodepth, 32, "no engine is named");
        let offloaded = [&deep("psync")[..], &[("io_submit_mode", "offload")]].concat();
        assert_eq!((job(&offloaded).iodepth, draft(&offloaded).remarks()), (32, vec![]));
    }

    #[test]
    fn only_blocks_of_used_directions_must_fit() {
        assert_eq!(job(&[("size", "4k"), ("bs", "4k,64k")]).bs, [4096, 65536, 65536]);
        assert!(conflict(&[("rw", "write"), ("size", "4k"), ("bs", "4k,64k")]).contains("64k"));
    }
}
