//! This process' use of its machine.
use std::fs;
use std::mem::MaybeUninit;
use std::time::Duration;

/// CPU time, memory and file descriptors of this process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// User and system time of all its threads, those that have ended among them.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub resident: u64,
    /// Open file descriptors.
    pub open_fds: u32,
}

/// The usage of this process so far; `None` where `/proc` does not say it.
pub fn of_process() -> Option<Usage> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = kib.split_whitespace().next()?.parse().ok()?;
    let open_fds = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(Usage { cpu: cpu_time()?, resident: kib * 1024, open_fds: open_fds.try_into().ok()? })
}

fn cpu_time() -> Option<Duration> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to memory of that size, which the call fills in if it succeeds.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if failed != 0 {
        return None;
    }
    // SAFETY: the call succeeded.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| {
        let seconds = Duration::from_secs(time.tv_sec.try_into().ok()?);
        Some(seconds + Duration::from_micros(time.tv_usec.try_into().ok()?))
    };
    Some(time(usage.ru_utime)? + time(usage.ru_stime)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_grows_with_what_is_taken() {
        let before = of_process().expect("Linux has /proc");
        let files: Vec<_> = (0..16).map(|_| fs::File::open("/proc/self/status")).collect();
        let memory = vec![1_u8; 64 << 20];
        let after = of_process().expect("Linux has /proc");
        assert!(after.open_fds >= before.open_fds + 8, "{before:?} {after:?}");
        assert!(after.resident >= before.resident + (32 << 20), "{before:?} {after:?}");
        assert!(after.cpu > before.cpu, "{before:?} {after:?}");
        assert_eq!((files.len(), memory.len()), (16, 64 << 20));
    }
}
