//! What drives with zones and drives with a translation layer have in common: the controller, the NAND below
//! it (dies that read, program and erase, and their channels), the queue of a drive's events, ordered by
//! time, and the options of all that. What is between controller and dies is the drive's `Media`.
mod dies;
mod drive;
mod event_queue;
mod options;
mod port;
mod slots;
mod stream;
mod trace;

use crate::control::{Estimate, EstimatedLoad};
pub(crate) use dies::{CODEWORD, DieOp, DieStep, Flash, Program, Suspend};
pub(crate) use drive::{Command, Drive, Media, Setup, draw};
pub(crate) use event_queue::{CommandId, Event, EventQueue};
pub(crate) use options::{MAX_DIES, MAX_IO, MAX_TIME, MIN_RATE, flash_options, validate_rate};
pub(crate) use port::{Controller, Port, Queues};
pub(crate) use slots::{Slot, Slots};
pub(crate) use stream::{Stream, Streams};
pub use trace::{FlashActivity, FlashEntry, FlashTraceSink};
use zonal_blk::{Bytes, Nanos};

/// Length of a random read in estimates.
const READ: u64 = 4096;

/// The flash of a drive.
#[derive(Clone, Debug)]
pub(crate) struct Nand {
    pub(crate) dies: u32,
    /// Buses between controller and dies.
    pub(crate) channels: u32,
    /// Planes of a die, which work together.
    pub(crate) planes: u32,
    /// A page of a plane.
    pub(crate) page: Bytes,
    /// Pages of a plane that one program writes.
    pub(crate) cell_pages: u32,
    /// Rate of a channel, in bytes a second.
    pub(crate) channel_rate: Bytes,
    pub(crate) page_read: Nanos,
    /// How much longer the slowest page of a cell takes to sense, in percent.
    pub(crate) page_spread: u32,
    /// Time of a transfer from a die, besides that of its data.
    pub(crate) transfer_time: Nanos,
    /// A die senses the next page of a read while it sends one.
    pub(crate) cache_read: bool,
    pub(crate) program: Nanos,
    /// The pages of a cell go to the die one after another, and are programmed one after another.
    pub(crate) page_programs: bool,
    /// By how many percent, at most, a program takes more or less.
    pub(crate) program_spread: u32,
    pub(crate) erase: Nanos,
    pub(crate) suspend: Option<Suspend>,
    /// Reads that may overtake a program or an erase. It then runs to its end; what no host waits for, padding
    /// and erases after a reset, runs for a [`Suspend::step`].
    pub(crate) reads_in_a_row: u32,
}

impl Nand {
    /// The steps, one after another, of which a program of a unit consists: transfers of its pages, then
    /// programs of them.
    pub(crate) fn program_steps(&self) -> u32 {
        if self.page_programs { 2 * self.cell_pages } else { 1 }
    }

    /// The unit that a die programs: a page of each bit of a cell, in all planes.
    pub(crate) fn unit(&self) -> Bytes {
        Bytes(self.row().0 * u64::from(self.cell_pages))
    }

    /// The unit that a die senses: a page of all planes.
    pub(crate) fn row(&self) -> Bytes {
        Bytes(self.page.0 * u64::from(self.planes))
    }

    /// Rates of single commands, from a sequential rate and what it follows from, the time of a read in the
    /// controller and the rate of the link.
    pub(crate) fn estimates(
        &self,
        (rate, from): (Bytes, &str),
        controller: Nanos,
        link_rate: Bytes,
    ) -> Vec<Estimate> {
        let sequential = |load| Estimate { load, value: rate.0 as f64, from: from.to_owned() };
        let flash = self.page_read + self.transfer_time + time_of(READ, self.channel_rate);
        let read = controller + flash + time_of(READ, link_rate);
        vec![
            sequential(EstimatedLoad::SequentialAtStart),
            sequential(EstimatedLoad::SequentialAtEnd),
            Estimate {
                load: EstimatedLoad::RandomReads,
                value: 1e9 / read.0 as f64,
                from: "controller, page read and two transfers".to_owned(),
            },
        ]
    }

    /// Bytes that a drive reads ahead of a stream on `dies` dies at most: a row of each.
    pub(crate) fn read_ahead_window(&self, dies: u32) -> Bytes {
        Bytes(self.row().0 * u64::from(dies))
    }

    /// Bytes per second at which a drive reads ahead on `dies` dies: all of them read at the same time,
    /// each its unit page by page.
    pub(crate) fn read_ahead_rate(&self, dies: u32) -> Bytes {
        let transfer = self.transfer_time + time_of(self.row().0, self.channel_rate);
        let shared = u64::from(self.dies.div_ceil(self.channels));
        let unit = u64::from(self.cell_pages) * (self.page_read.0 + shared * transfer.0);
        let bytes = u128::from(self.read_ahead_window(dies).0) * 1_000_000_000;
        Bytes(u64::try_from(bytes / u128::from(unit.max(1))).unwrap_or(u64::MAX).max(1))
    }

    /// Bytes per second that `dies` dies take in long writes.
    pub(crate) fn write_rate(&self, dies: u32) -> Bytes {
        let cycle = self.program + time_of(self.unit().0, self.channel_rate);
        let bytes = u128::from(self.unit().0) * u128::from(dies) * 1_000_000_000;
        Bytes(u64::try_from(bytes / u128::from(cycle.0)).unwrap_or(u64::MAX))
    }
}

/// The times of transfers at a rate. Most are as long as the one before, and divisions are slow.
pub(crate) struct Transfers {
    rate: Bytes,
    /// The length and the time of the last one.
    last: (u64, Nanos),
}

impl Transfers {
    pub(crate) fn at(rate: Bytes) -> Self {
        Transfers { rate, last: (0, Nanos(0)) }
    }

    #[inline]
    pub(crate) fn time(&mut self, bytes: u64) -> Nanos {
        if bytes != self.last.0 {
            self.last = (bytes, time_of(bytes, self.rate));
        }
        self.last.1
    }
}

/// The time that `bytes` take at `rate` bytes per second, rounded up.
pub(crate) fn time_of(bytes: u64, rate: Bytes) -> Nanos {
    const SECOND: u64 = 1_000_000_000;
    // 18 GB, which no command has, fit into 64 bits; division of 128 bits is slow.
    if let Some(scaled) = bytes.checked_mul(SECOND) {
        return Nanos(scaled.div_ceil(rate.0));
    }
    let nanos = (u128::from(bytes) * u128::from(SECOND)).div_ceil(u128::from(rate.0));
    Nanos(u64::try_from(nanos).expect("rates are at least 1 MB/s"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Units of 96 KiB in two planes.
    pub(crate) fn nand() -> Nand {
        crate::ZnsConfig::default().nand()
    }

    #[test]
    fn a_transfer_takes_the_time_of_its_own_length_whatever_the_last_one_had() {
        let rate = Bytes(3_000_000_000);
        let mut transfers = Transfers::at(rate);
        for bytes in [0, 4096, 4096, 512, 0, 4096, 1 << 20] {
            assert_eq!(transfers.time(bytes), time_of(bytes, rate), "{bytes} bytes");
        }
    }
}
