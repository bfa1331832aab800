//! Dies and the channels that they share.
//!
//! Takes work for a die; gives it back when it is done. Keeps true: a die does one thing at a time;
//! a channel moves the data of one die at a time; programs and erases of a die are done in the
//! order in which they came.
//!
//! ```text
//!             channel 0               channel 1
//!          die 0   die 2           die 1   die 3
//!
//!   program   |= bus =|======= cells =======|
//!   read      |== sense ==|= bus =|
//!   erase     |============ cells ============|
//! ```
//!
//! Reads go before programs and erases that have not begun, at most [`READS_IN_A_ROW`] of them. One
//! that has begun they wait for, unless the drive can suspend it: then it stops, which costs a
//! while, and goes on after them where it was.
use super::ZnsConfig;
use super::agenda::{Agenda, CommandId, Event};
use super::time_of;
use std::collections::VecDeque;
use zonal_blk::{Bytes, Nanos, ZoneNo};

/// So many reads may go before a program or an erase.
const READS_IN_A_ROW: u32 = 8;

/// What a die does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Program a unit of a zone, which has so many bytes in the write buffer; the rest is padding.
    Program { zone: ZoneNo, bytes: u64, generation: u32 },
    /// Program so many units of padding, one at a time.
    Pad { command: CommandId, units: u64 },
    /// Program a copy of a unit that is not full.
    Save,
    /// Erase so many blocks.
    Erase { command: CommandId, blocks: u64 },
    /// Read so many pages one after the other, and move so many bytes.
    Read { command: CommandId, pages: u64, bytes: u64 },
    /// Nothing: says when what came before is done.
    Mark { command: CommandId },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// The work ends with the event to come.
    Last(Work),
    /// A read's page is being sensed; its data go over the bus next.
    Sensing { command: CommandId, bytes: u64 },
    /// A program or an erase is being stopped.
    Stopping,
}

#[derive(Debug, Default)]
struct Die {
    reads: VecDeque<Work>,
    others: VecDeque<Work>,
    doing: Option<Doing>,
    until: Nanos,
    /// Counts what the die began, so that an event says what it is about.
    round: u32,
    /// A program or an erase that was interrupted, and what is left of it.
    suspended: Option<(Work, Nanos)>,
    /// Reads done since the last program or erase began.
    reads_in_a_row: u32,
}

/// All dies of a drive.
#[derive(Debug)]
pub(super) struct Flash {
    dies: Vec<Die>,
    /// By channel, when it is free.
    channels: Vec<Nanos>,
    unit: Bytes,
    channel_rate: Bytes,
    page_read: Nanos,
    program: Nanos,
    erase: Nanos,
    suspend: Option<Nanos>,
}

impl Flash {
    pub(super) fn new(config: &ZnsConfig) -> Self {
        Flash {
            dies: (0..config.dies).map(|_| Die::default()).collect(),
            channels: vec![Nanos(0); config.channels as usize],
            unit: config.unit(),
            channel_rate: config.channel_rate,
            page_read: config.page_read,
            program: config.program,
            erase: config.erase,
            suspend: config.suspend.then_some(config.suspend_time),
        }
    }

    /// Gives a die something to do.
    pub(super) fn add(&mut self, now: Nanos, die: u32, work: Work, agenda: &mut Agenda) {
        let d = &mut self.dies[die as usize];
        if let Work::Read { .. } = work {
            d.reads.push_back(work);
            if let Some(cost) = self.suspend {
                d.interrupt(now, die, cost, agenda);
            }
        } else {
            d.others.push_back(work);
        }
    }

    /// Whether the die has programs or erases to do.
    pub(super) fn is_writing(&self, die: u32) -> bool {
        let d = &self.dies[die as usize];
        let doing =
            matches!(d.doing, Some(Doing::Last(work)) if !matches!(work, Work::Read { .. }));
        doing || d.suspended.is_some() || !d.others.is_empty() || d.doing == Some(Doing::Stopping)
    }

    /// Lets a die begin what it has to do, if it is free. Gives a [`Work::Mark`] that it comes to.
    pub(super) fn begin(&mut self, now: Nanos, die: u32, agenda: &mut Agenda) -> Option<Work> {
        let nr_channels = self.channels.len();
        let d = &mut self.dies[die as usize];
        if d.doing.is_some() {
            return None;
        }
        let bus = &mut self.channels[die as usize % nr_channels];
        let waits = d.suspended.is_some() || !d.others.is_empty();
        if !d.reads.is_empty()
            && (d.reads_in_a_row < READS_IN_A_ROW || !waits)
            && let Some(Work::Read { command, pages, bytes }) = d.reads.pop_front()
        {
            d.reads_in_a_row = if waits { d.reads_in_a_row + 1 } else { 0 };
            let sensed = now + Nanos(self.page_read.0.saturating_mul(pages));
            d.set(die, Doing::Sensing { command, bytes }, sensed, agenda);
            return None;
        }
        if let Some((work, left)) = d.suspended.take() {
            d.set(die, Doing::Last(work), now + left, agenda);
            return None;
        }
        let work = d.others.pop_front()?;
        let until = match work {
            Work::Mark { .. } => return Some(work),
            Work::Erase { blocks, .. } => now + Nanos(self.erase.0.saturating_mul(blocks)),
            _ => {
                let free = now.max(*bus) + time_of(self.unit.0, self.channel_rate);
                *bus = free;
                free + self.program
            }
        };
        d.reads_in_a_row = 0;
        d.set(die, Doing::Last(work), until, agenda);
        None
    }

    /// A die has come to the end of something. Gives the work that is done.
    pub(super) fn ended(
        &mut self,
        now: Nanos,
        die: u32,
        round: u32,
        agenda: &mut Agenda,
    ) -> Option<Work> {
        let nr_channels = self.channels.len();
        let d = &mut self.dies[die as usize];
        if d.round != round {
            return None;
        }
        match d.doing.take()? {
            Doing::Stopping => None,
            Doing::Sensing { command, bytes } => {
                let bus = &mut self.channels[die as usize % nr_channels];
                *bus = now.max(*bus) + time_of(bytes, self.channel_rate);
                let work = Work::Read { command, pages: 0, bytes };
                d.set(die, Doing::Last(work), *bus, agenda);
                None
            }
            Doing::Last(Work::Pad { command, units }) if units > 1 => {
                // Others come between two units.
                d.others.push_back(Work::Pad { command, units: units - 1 });
                None
            }
            Doing::Last(work) => Some(work),
        }
    }
}

impl Die {
    fn set(&mut self, die: u32, doing: Doing, until: Nanos, agenda: &mut Agenda) {
        self.doing = Some(doing);
        self.until = until;
        self.round = self.round.wrapping_add(1);
        agenda.add(until, Event::Die { die, round: self.round });
    }

    /// Stops a program or an erase for the sake of a read.
    fn interrupt(&mut self, now: Nanos, die: u32, cost: Nanos, agenda: &mut Agenda) {
        if let Some(Doing::Last(work)) = self.doing
            && !matches!(work, Work::Read { .. })
            && self.reads_in_a_row < READS_IN_A_ROW
            && self.until > now + cost
        {
            self.suspended = Some((work, self.until - now));
            self.set(die, Doing::Stopping, now + cost, agenda);
        }
    }
}
