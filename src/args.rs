//! Arguments of several commands.
use clap::ValueEnum;
use zonal_blk::ZoneWrite;
use zonal_lab::executor::ClockKind;

/// `--clock`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    Real,
    Virtual,
}

impl From<ClockArg> for ClockKind {
    fn from(arg: ClockArg) -> Self {
        match arg {
            ClockArg::Real => ClockKind::Real,
            ClockArg::Virtual => ClockKind::Virtual,
        }
    }
}

/// `--eta`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Eta {
    Auto,
    Always,
    Never,
}

/// `--zone-write`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ZoneWriteArg {
    /// Zone write plugging: one write in flight per zone
    Plug,
    /// One write to sequential zones in flight per device
    Qd1,
    /// Zone write locking, the policy before plugging: the scheduler mq-deadline holds back the
    /// writes of a zone that has one in flight
    Lock,
    /// Nothing: the device fails writes that arrive out of order
    Off,
}

impl From<ZoneWriteArg> for ZoneWrite {
    fn from(arg: ZoneWriteArg) -> Self {
        match arg {
            ZoneWriteArg::Plug => ZoneWrite::Plug,
            ZoneWriteArg::Qd1 => ZoneWrite::Qd1,
            ZoneWriteArg::Lock => ZoneWrite::Lock,
            ZoneWriteArg::Off => ZoneWrite::Off,
        }
    }
}

/// Parses a measuring time in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds such as 1.5".to_owned())?;
    if (0.0001..=86400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("expected 0.0001 to 86400 seconds".to_owned())
    }
}
