//! Facts that reports leave out: in which order the host kept writes to a zone, and the I/O scheduler.
use super::JobLoad;
use anyhow::{Context, Result, ensure};
use std::fmt;
use std::str::FromStr;
use zonal_blk::ZoneWrite;
use zonal_device::device_spec::DeviceSpec;

/// A version of Linux, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel(u32, u32);

/// The first version with zoned block devices.
const ZONED: Kernel = Kernel(4, 10);
/// The first version with zone write plugging.
const PLUGGING: Kernel = Kernel(6, 10);
/// The first version with `zoned_qd1_writes`, which was posted in the merge window of 7.0.
const QD1: Kernel = Kernel(7, 1);

impl Kernel {
    /// The version of Debian's stable release, 13.
    pub const STABLE: Kernel = Kernel(6, 12);

    /// The kernel's defaults: zone write locking by mq-deadline, which zoned devices had to have, before 6.10; zone write plugging since, with mq-deadline for disks; one write at a
    /// time to disks since 7.1.
    pub fn stock(self, rotational: bool) -> (ZoneWrite, &'static str) {
        let policy = match rotational {
            true if self >= QD1 => ZoneWrite::Qd1,
            _ if self >= PLUGGING => ZoneWrite::Plug,
            _ => ZoneWrite::Lock,
        };
        let scheduled = rotational || policy == ZoneWrite::Lock;
        (policy, if scheduled { "mq-deadline" } else { "none" })
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Kernel {
    type Err = anyhow::Error;

    /// `6.8`, `6.12.9-arch1`, `v6.10-rc3`.
    fn from_str(text: &str) -> Result<Self> {
        let expected = || format!("found `{text}`, expected a version such as 6.8 or 6.12.9");
        let digits = |part: &str| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse::<u32>().ok()
        };
        let (major, rest) =
            text.strip_prefix('v').unwrap_or(text).split_once('.').with_context(expected)?;
        let major = major.parse().with_context(expected)?;
        let kernel = Kernel(major, digits(rest).with_context(expected)?);
        ensure!(
            kernel >= ZONED,
            "found `{text}`, expected 4.10 or newer, which have zoned devices"
        );
        Ok(kernel)
    }
}

/// Assumptions where a file does not say it.
#[derive(Clone, Debug, Default)]
pub struct Assume {
    /// The zone-write policy.
    pub zone_write: Option<ZoneWrite>,
    /// The scheduler.
    pub scheduler: Option<String>,
    /// The kernel of the host: what it does unless told otherwise.
    pub kernel: Option<Kernel>,
    /// The drive is a disk.
    pub rotational: bool,
}

impl Assume {
    /// For a drive of this kind, about which nothing is assumed.
    pub fn of(spec: &DeviceSpec) -> Self {
        Assume { rotational: spec.is_rotational(), ..Assume::default() }
    }

    /// The behaviour of the kernel. There is none between SPDK and its drive.
    fn of_kernel(&self, driver: &str) -> Option<(ZoneWrite, &'static str)> {
        let kernel = self.kernel.filter(|_| driver != "spdk")?;
        Some(kernel.stock(self.rotational))
    }

    /// Completes a load. `names_scheduler` says whether its jobs name one. Returns what was assumed,
    /// in words.
    pub(super) fn complete(&self, load: &mut JobLoad, names_scheduler: bool) -> String {
        let kernel = self.of_kernel(&load.driver);
        let mut words = Vec::new();
        if load.zone_write.is_none() {
            load.zone_write = self.zone_write.or(kernel.map(|(policy, _)| policy));
            words.push(match load.zone_write {
                Some(policy) => format!("policy={}", policy.name()),
                None => "the policy that is the device's default".to_owned(),
            });
        }
        if load.scheduler.is_none() && (!names_scheduler || self.scheduler.is_some()) {
            let of_kernel = || kernel.map(|(_, scheduler)| scheduler.to_owned());
            let known = self.scheduler.clone().or_else(of_kernel);
            let scheduler = known.unwrap_or_else(|| "none".to_owned());
            words.push(format!("scheduler={scheduler}"));
            load.scheduler = Some(scheduler);
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(driver: &str) -> JobLoad {
        JobLoad {
            name: "x".to_owned(),
            class: "writes",
            driver: driver.to_owned(),
            options: Vec::new(),
            block: 4096,
            zone_write: None,
            scheduler: None,
        }
    }

    #[test]
    fn stock_kernels_lock_then_plug_then_write_one_at_a_time() {
        for (kernel, rotational, driver, policy, scheduler) in [
            ("6.1", false, "libaio", Some(ZoneWrite::Lock), "mq-deadline"),
            ("v6.9.12", true, "libaio", Some(ZoneWrite::Lock), "mq-deadline"),
            ("6.10-rc3", false, "io_uring", Some(ZoneWrite::Plug), "none"),
            ("6.12", true, "libaio", Some(ZoneWrite::Plug), "mq-deadline"),
            ("7.0", true, "libaio", Some(ZoneWrite::Plug), "mq-deadline"),
            ("7.1", true, "libaio", Some(ZoneWrite::Qd1), "mq-deadline"),
            ("7.1", false, "libaio", Some(ZoneWrite::Plug), "none"),
            ("5.17", false, "spdk", None, "none"),
        ] {
            let assume =
                Assume { kernel: Some(kernel.parse().unwrap()), rotational, ..Assume::default() };
            let mut load = load(driver);
            assume.complete(&mut load, false);
            let expected = (policy, Some(scheduler.to_owned()));
            assert_eq!((load.zone_write, load.scheduler), expected, "{kernel} {driver}");
        }
    }

    #[test]
    fn what_is_said_goes_before_what_is_assumed() {
        let assume = Assume { zone_write: Some(ZoneWrite::Plug), ..Assume::default() };
        let mut said = JobLoad { zone_write: Some(ZoneWrite::Lock), ..load("libaio") };
        assert_eq!(assume.complete(&mut said, true), "");
        assert_eq!((said.zone_write, said.scheduler.as_deref()), (Some(ZoneWrite::Lock), None));
        let mut unsaid = load("libaio");
        assert_eq!(assume.complete(&mut unsaid, false), "policy=plug, scheduler=none");
        assert_eq!(unsaid.scheduler.as_deref(), Some("none"));
    }

    #[test]
    fn versions_that_are_none_are_refused() {
        for text in ["6", "six.1", "6.x", ""] {
            let error = text.parse::<Kernel>().unwrap_err().to_string();
            assert!(error.contains("expected a version such as"), "{text}: {error}");
        }
        let error = "3.10".parse::<Kernel>().unwrap_err().to_string();
        assert_eq!(error, "found `3.10`, expected 4.10 or newer, which have zoned devices");
    }
}
