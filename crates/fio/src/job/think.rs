//! Options for the pauses of a job between its I/Os.
use zonal_blk::Nanos;

/// When a job pauses, and for how long (`thinktime`, `thinkcycles`, ...).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThinkOptions {
    /// `thinktime=`: the length of a pause; 0 for none.
    pub time: Nanos,
    /// `thinktime_blocks=`: I/Os between pauses; 1 if neither this nor `io_time` is set.
    pub blocks: Option<u32>,
    /// `thinktime_blocks_type=issue`: I/Os count when they are submitted, not when they complete.
    pub on_issue: bool,
    /// `thinktime_iotime=`: the time between pauses; 0 for no limit.
    pub io_time: Nanos,
    /// `rate_ignore_thinktime=`: a rate does not make up for pauses.
    pub outside_rate: bool,
    /// `thinkcycles=`: cycles of the processor that each I/O is followed by.
    pub cycles: u64,
    /// `cycles_per_usec=` (Zonal's own): the cycles of the processor in a microsecond.
    pub cycles_per_usec: u64,
}

impl ThinkOptions {
    /// I/Os between pauses; `None` if only the time decides.
    pub fn every(&self) -> Option<u32> {
        let default = (self.io_time == Nanos(0)).then_some(1);
        self.blocks.or(default)
    }

    /// The time that `thinkcycles` takes.
    pub fn spin(&self) -> Nanos {
        let nanos = u128::from(self.cycles) * 1000 / u128::from(self.cycles_per_usec.max(1));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
