//! Dies and the channels that they share.
//!
//! Invariants: a die does one operation at a time; a channel transfers the data of one die at a
//! time; programs and erases of a die are done in the order in which they were queued.
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
//! Reads overtake queued programs and erases, at most [`Nand::reads_in_a_row`] of them. They wait for one
//! that has begun unless the drive can suspend it; suspending takes time, and the operation resumes
//! where it was after the reads.
use super::event_queue::{CommandId, Event, EventQueue};
use super::{FlashActivity, Nand, time_of};
use crate::rng::mix;
use std::collections::VecDeque;
use zonal_blk::{Bytes, Nanos, ZoneNo};

/// The unit that is read and corrected as a whole: no less is transferred from a die.
pub(crate) const CODEWORD: u64 = 4096;

/// A page of the drive: the zone, and the number of the page in it.
type PageNo = (ZoneNo, u64);

/// An operation of a die. For a drive without zones a superblock stands in the place of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DieOp {
    /// Program a unit of a zone.
    Program(Program),
    /// Program units of padding, one at a time.
    Pad { command: CommandId, units: u64 },
    /// Program a unit for the drive itself: a copy of a partial unit, or its log.
    Save,
    /// Erase blocks.
    Erase { command: CommandId, blocks: u64 },
    /// Erase blocks that a reset has released.
    Clean { blocks: u64 },
    /// Read pages of a zone, those of all planes together, and transfer `bytes` of them.
    Read { command: CommandId, zone: ZoneNo, first: u64, last: u64, bytes: u64 },
    /// Completes when the operations queued before it are done.
    Barrier { command: CommandId },
    /// Completes when the operations queued before it are done, but for programs that yield.
    Drain { command: CommandId },
}

/// A program of a unit. It comes back for each step after which the buffer has more room or a read may
/// follow, with the bytes that have left the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) zone: ZoneNo,
    /// Those in the write buffer; the rest is padding.
    pub(crate) bytes: u64,
    /// The drive's own.
    pub(crate) mark: u32,
    /// Those that are left, 1 for the last; see [`Nand::program_steps`].
    pub(crate) steps: u32,
    /// It does not begin while a [`DieOp::Drain`] is pending.
    pub(crate) yields: bool,
}

impl DieOp {
    /// The activity of its last step.
    fn activity(self) -> FlashActivity {
        match self {
            DieOp::Program(_) => FlashActivity::Program,
            DieOp::Pad { .. } => FlashActivity::Pad,
            DieOp::Save => FlashActivity::Save,
            DieOp::Erase { .. } | DieOp::Clean { .. } => FlashActivity::Erase,
            DieOp::Read { .. } => FlashActivity::Transfer,
            DieOp::Barrier { .. } | DieOp::Drain { .. } => unreachable!("a barrier takes no time"),
        }
    }

    fn command(self) -> Option<CommandId> {
        match self {
            DieOp::Pad { command, .. }
            | DieOp::Erase { command, .. }
            | DieOp::Read { command, .. }
            | DieOp::Barrier { command }
            | DieOp::Drain { command } => Some(command),
            DieOp::Program(_) | DieOp::Save | DieOp::Clean { .. } => None,
        }
    }

    fn zone(self) -> Option<ZoneNo> {
        match self {
            DieOp::Program(Program { zone, .. }) | DieOp::Read { zone, .. } => Some(zone),
            _ => None,
        }
    }
}

/// A step of a die, for a trace.
#[derive(Debug)]
pub(crate) struct DieStep {
    pub(crate) die: u32,
    pub(crate) activity: FlashActivity,
    pub(crate) command: Option<CommandId>,
    pub(crate) zone: Option<ZoneNo>,
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

impl DieStep {
    fn of(op: DieOp, activity: FlashActivity, die: u32, from: Nanos, to: Nanos) -> Self {
        DieStep { die, activity, command: op.command(), zone: op.zone(), from, to }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DieState {
    /// The operation is done with the next event.
    Last(DieOp),
    /// A read's pages are being sensed; its data go over the bus next.
    Sensing(DieOp, u64),
    /// A program or an erase is being suspended.
    Suspending,
}

#[derive(Debug, Default)]
struct Die {
    reads: VecDeque<DieOp>,
    others: VecDeque<DieOp>,
    state: Option<DieState>,
    until: Nanos,
    /// Counts steps, so that the event of an interrupted step is recognized as stale.
    round: u32,
    /// When the step began; of a program or an erase, also when it was resumed.
    since: Nanos,
    /// By plane, the page in its register: the one that it sensed last.
    registers: Vec<Option<PageNo>>,
    /// A suspended program or erase, and the time that it still needs.
    suspended: Option<(DieOp, Nanos)>,
    /// Until when an erase that had to wait for reads is not interrupted again; padding never is within a
    /// step.
    runs_until: Nanos,
    /// Reads since the last program or erase began.
    reads_in_a_row: u32,
}

/// All dies of a drive.
#[derive(Debug)]
pub(crate) struct Flash {
    dies: Vec<Die>,
    /// When each channel is free.
    channels: Vec<Nanos>,
    unit: Bytes,
    planes: u64,
    cell_pages: u32,
    channel_rate: Bytes,
    page_read: Nanos,
    /// Time to sense the last page of a cell, in all planes.
    slow_page_read: Nanos,
    /// Time of a transfer from a die, besides that of its data.
    transfer: Nanos,
    cache_read: bool,
    program: Nanos,
    program_steps: u32,
    /// Of one page of a cell, where the steps are those of pages.
    page_transfer: Nanos,
    page_program: Nanos,
    program_spread: u32,
    erase: Nanos,
    suspend: Option<Suspend>,
    most_reads: u32,
    /// Programs are held back: none begins.
    pub(crate) holds: bool,
    /// A [`DieOp::Drain`] is pending: programs that yield to it do not begin.
    pub(crate) drains: bool,
    pads: Pads,
    /// The steps that are over since they were last taken from here, of a drive that is traced.
    pub(crate) steps: Option<Vec<DieStep>>,
}

/// Decides when padding may be programmed. A zone that is being finished has the same share of the dies
/// as one that is written: while writes wait for space, its units take turns with theirs.
#[derive(Debug, Default)]
struct Pads {
    /// Dies that have padding to program.
    dies: u32,
    /// Zones whose writes wait for space; 0 if there are none.
    rivals: u32,
    /// Programs of data that have begun, less `rivals` for each unit of padding that has.
    credit: u32,
    /// A die is idle because its padding is not due.
    wait: bool,
}

/// The most that [`Pads::credit`] grows to.
const MOST_CREDIT: u32 = 64;

impl Pads {
    fn may_begin(&mut self) -> bool {
        let may = self.rivals == 0 || self.credit >= self.rivals;
        self.wait |= !may;
        may
    }

    fn programs(&mut self) {
        self.credit = (self.credit + 1).min(MOST_CREDIT);
    }

    fn begins(&mut self) {
        self.credit = self.credit.saturating_sub(self.rivals);
    }
}

/// How a program or an erase is suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspend {
    /// The time that it takes.
    pub(crate) cost: Nanos,
    /// It can be suspended each time that this much of it is done; 0 for any time.
    pub(crate) step: Nanos,
}

impl Flash {
    pub(crate) fn new(nand: &Nand) -> Self {
        Flash {
            dies: (0..nand.dies).map(|_| Die::new(nand.planes)).collect(),
            channels: vec![Nanos(0); nand.channels as usize],
            unit: nand.unit(),
            planes: nand.planes.into(),
            cell_pages: nand.cell_pages,
            channel_rate: nand.channel_rate,
            page_read: nand.page_read,
            slow_page_read: Nanos(nand.page_read.0 * u64::from(100 + nand.page_spread) / 100),
            transfer: nand.transfer_time,
            cache_read: nand.cache_read,
            program: nand.program,
            program_steps: nand.program_steps(),
            page_transfer: time_of(nand.row().0, nand.channel_rate),
            page_program: Nanos(nand.program.0 / u64::from(nand.cell_pages)),
            program_spread: nand.program_spread,
            erase: nand.erase,
            suspend: nand.suspend,
            most_reads: nand.reads_in_a_row,
            holds: false,
            drains: false,
            pads: Pads::default(),
            steps: None,
        }
    }

    /// Queues an operation on a die.
    pub(crate) fn add<E: Copy>(
        &mut self,
        now: Nanos,
        die: u32,
        op: DieOp,
        events: &mut EventQueue<E>,
    ) {
        let d = &mut self.dies[die as usize];
        if let DieOp::Read { .. } = op {
            d.reads.push_back(op);
            if let Some(suspend) = self.suspend {
                let stopped = d.interrupt(now, die, suspend, self.most_reads, events);
                if let Some(steps) = &mut self.steps {
                    steps.extend(stopped);
                }
            }
        } else {
            self.pads.dies += u32::from(matches!(op, DieOp::Pad { .. }));
            if let DieOp::Barrier { .. } = op {
                d.never_yield();
            }
            d.others.push_back(op);
        }
    }

    /// Whether the die has programs or erases pending.
    pub(crate) fn is_writing(&self, die: u32) -> bool {
        let d = &self.dies[die as usize];
        let state =
            matches!(d.state, Some(DieState::Last(op)) if !matches!(op, DieOp::Read { .. }));
        state
            || d.suspended.is_some()
            || !d.others.is_empty()
            || d.state == Some(DieState::Suspending)
    }

    /// Whether a die has a step to do.
    #[inline]
    pub(crate) fn is_busy(&self, die: u32) -> bool {
        self.dies[die as usize].state.is_some()
    }

    /// Whether dies have padding to program.
    #[inline]
    pub(crate) fn pads(&self) -> bool {
        self.pads.dies > 0
    }

    /// Programs and erases that a die has to do.
    #[inline]
    pub(crate) fn programs(&self, die: u32) -> usize {
        let d = &self.dies[die as usize];
        let begun =
            matches!(d.state, Some(DieState::Last(op)) if !matches!(op, DieOp::Read { .. }));
        d.others.len() + usize::from(begun || d.suspended.is_some())
    }

    /// Sets the number of zones whose writes wait for space.
    pub(crate) fn set_rivals(&mut self, zones: u32) {
        self.pads.rivals = zones;
    }

    /// Whether a die waited to program padding since this was last asked.
    pub(crate) fn take_waiting(&mut self) -> bool {
        std::mem::take(&mut self.pads.wait)
    }

    /// The first program or erase of a die that may begin.
    #[inline]
    fn next_other(&mut self, die: u32) -> Option<usize> {
        let others = &self.dies[die as usize].others;
        // Padding whose turn it is goes before the other programs of the die.
        if self.pads.dies > 0 && self.pads.rivals > 0 && !self.holds && self.pads.may_begin() {
            let pad = others.iter().position(|op| matches!(op, DieOp::Pad { .. }));
            let barrier = |op: &DieOp| matches!(op, DieOp::Barrier { .. } | DieOp::Drain { .. });
            let first = others.iter().position(barrier);
            if let Some(at) = pad.filter(|at| first.is_none_or(|first| *at < first)) {
                return Some(at);
            }
        }
        let mut yielding = 0;
        for (at, op) in others.iter().enumerate() {
            let may = match op {
                DieOp::Program(Program { yields: true, .. }) if self.drains => {
                    yielding += 1;
                    false
                }
                DieOp::Program(_) | DieOp::Save => !self.holds,
                DieOp::Pad { .. } => !self.holds && self.pads.may_begin(),
                // The operations queued before it come first.
                DieOp::Barrier { .. } => return (at == 0).then_some(at),
                DieOp::Drain { .. } => return (at == yielding).then_some(at),
                _ => true,
            };
            if may {
                return Some(at);
            }
        }
        None
    }

    /// Whether it is a program of which some pages are on the die, and others are not.
    fn is_moving(&self, op: DieOp) -> bool {
        let (some, all) = (self.cell_pages, self.program_steps);
        matches!(op, DieOp::Program(Program { steps, .. }) if steps > some && steps < all)
    }

    /// How long a die senses pages, those of all planes together. Of a cell with one page, none is slow.
    fn sensing(&self, first: u64, last: u64) -> Nanos {
        let cell_pages = u64::from(self.cell_pages);
        let of_cell = first / self.planes % cell_pages;
        let is_slow = cell_pages > 1 && of_cell == cell_pages - 1;
        let each = if is_slow { self.slow_page_read } else { self.page_read };
        let times = if self.cache_read { 1 } else { last / self.planes - first / self.planes + 1 };
        Nanos(each.0.saturating_mul(times))
    }

    /// Begins the next operation of a die that is free. Returns a [`DieOp::Barrier`] or
    /// [`DieOp::Drain`] that it reaches.
    pub(crate) fn begin<E: Copy>(
        &mut self,
        now: Nanos,
        die: u32,
        events: &mut EventQueue<E>,
    ) -> Option<DieOp> {
        if self.dies[die as usize].state.is_some() {
            return None;
        }
        let other = self.next_other(die);
        // No read comes between the transfers of a unit's pages.
        let moves = other.is_some_and(|at| self.is_moving(self.dies[die as usize].others[at]));
        let nr_channels = self.channels.len();
        let d = &mut self.dies[die as usize];
        let bus = &mut self.channels[die as usize % nr_channels];
        let waits = d.suspended.is_some() || other.is_some();
        if !d.reads.is_empty()
            && !moves
            && (d.reads_in_a_row < self.most_reads || !waits)
            && let Some(op @ DieOp::Read { zone, first, last, bytes, .. }) = d.reads.pop_front()
        {
            d.reads_in_a_row = if waits { d.reads_in_a_row + 1 } else { 0 };
            let in_registers = d.sense(zone, first, last);
            let sensing = if in_registers { Nanos(0) } else { self.sensing(first, last) };
            let sensed = now + sensing;
            let d = &mut self.dies[die as usize];
            d.set(die, DieState::Sensing(op, bytes), now, sensed, events);
            return None;
        }
        if let Some((op, left)) = d.suspended.take() {
            d.registers.fill(None);
            if let (DieOp::Clean { .. } | DieOp::Pad { .. }, Some(suspend)) = (op, self.suspend)
                && d.reads_in_a_row >= self.most_reads
            {
                d.reads_in_a_row = 0;
                d.runs_until = now + suspend.step;
            }
            d.set(die, DieState::Last(op), now, now + left, events);
            return None;
        }
        let op = d.others.remove(other?)?;
        let until = match op {
            DieOp::Barrier { .. } | DieOp::Drain { .. } => return Some(op),
            DieOp::Erase { blocks, .. } | DieOp::Clean { blocks } => {
                now + Nanos(self.erase.0.saturating_mul(blocks))
            }
            DieOp::Program(Program { steps, .. }) if self.program_steps > 1 => {
                if steps == self.program_steps {
                    self.pads.programs();
                }
                self.begin_step(now, die, op, steps, events);
                return None;
            }
            _ => {
                match op {
                    DieOp::Pad { .. } => self.pads.begins(),
                    _ => self.pads.programs(),
                }
                *bus = now.max(*bus) + time_of(self.unit.0, self.channel_rate);
                *bus + varied(self.program, self.program_spread, (die, d.round))
            }
        };
        d.reads_in_a_row = 0;
        d.registers.fill(None);
        d.set(die, DieState::Last(op), now, until, events);
        None
    }

    /// Begins the next step of a program of which `steps` are left.
    fn begin_step<E: Copy>(
        &mut self,
        now: Nanos,
        die: u32,
        op: DieOp,
        steps: u32,
        events: &mut EventQueue<E>,
    ) {
        let nr_channels = self.channels.len();
        let bus = &mut self.channels[die as usize % nr_channels];
        let d = &mut self.dies[die as usize];
        let until = if steps > self.cell_pages {
            *bus = now.max(*bus) + self.page_transfer;
            *bus
        } else {
            now + varied(self.page_program, self.program_spread, (die, d.round))
        };
        d.reads_in_a_row = 0;
        d.registers.fill(None);
        d.set(die, DieState::Last(op), now, until, events);
    }

    /// All pending operations are done, at `now`.
    pub(crate) fn drained(&mut self, now: Nanos) {
        for free in &mut self.channels {
            *free = now.min(*free);
        }
    }

    /// Finishes a step of a die. Returns the operation that is done with it, if any.
    pub(crate) fn step<E: Copy>(
        &mut self,
        now: Nanos,
        die: u32,
        round: u32,
        events: &mut EventQueue<E>,
    ) -> Option<DieOp> {
        let nr_channels = self.channels.len();
        let d = &mut self.dies[die as usize];
        if d.round != round {
            return None;
        }
        let state = d.state.take()?;
        if let Some(steps) = &mut self.steps {
            steps.extend(d.step_of(die, state, now));
        }
        match state {
            DieState::Suspending => None,
            DieState::Sensing(op, bytes) => {
                let bus = &mut self.channels[die as usize % nr_channels];
                let moved = bytes.next_multiple_of(CODEWORD);
                *bus = now.max(*bus) + self.transfer + time_of(moved, self.channel_rate);
                d.set(die, DieState::Last(op), now, *bus, events);
                None
            }
            DieState::Last(DieOp::Pad { command, units }) if units > 1 => {
                // Other operations may come between two units.
                d.others.push_back(DieOp::Pad { command, units: units - 1 });
                None
            }
            DieState::Last(DieOp::Program(program)) if program.steps > 1 => {
                let Program { bytes, steps, .. } = program;
                let transfers = steps.saturating_sub(self.cell_pages);
                let part = bytes / u64::from(transfers.max(1));
                let left = steps - 1;
                // It has begun.
                let program = Program { yields: false, ..program };
                let next = Program { bytes: bytes - part, steps: left, ..program };
                let next = DieOp::Program(next);
                if d.reads.is_empty() && !self.holds && self.pads.dies == 0 {
                    self.begin_step(now, die, next, left, events);
                    if part == 0 {
                        return None;
                    }
                } else {
                    d.others.push_front(next);
                }
                Some(DieOp::Program(Program { bytes: part, ..program }))
            }
            DieState::Last(op) => {
                self.pads.dies -= u32::from(matches!(op, DieOp::Pad { .. }));
                Some(op)
            }
        }
    }
}

/// A time that varies by up to `spread` percent, from step to step of a die.
fn varied(time: Nanos, spread: u32, (die, round): (u32, u32)) -> Nanos {
    if spread == 0 {
        return time;
    }
    let most = time.0 * u64::from(spread) / 100;
    let chance = mix(u64::from(die) << 32 | u64::from(round)) % (2 * most + 1);
    Nanos((time.0 + chance).saturating_sub(most))
}

impl Die {
    fn new(planes: u32) -> Self {
        Die { registers: vec![None; planes as usize], ..Die::default() }
    }

    /// What a barrier waits for does not wait for a drain: the drain may be behind the barrier.
    fn never_yield(&mut self) {
        for op in &mut self.others {
            if let DieOp::Program(program) = op {
                program.yields = false;
            }
        }
    }

    /// Has the planes sense pages of a zone. Returns whether all are in the registers already.
    fn sense(&mut self, zone: ZoneNo, first: u64, last: u64) -> bool {
        let planes = self.registers.len() as u64;
        // Of more pages than there are planes, the last ones stay.
        let from = first.max((last + 1).saturating_sub(planes));
        let mut in_registers = from == first;
        for page in from..=last {
            let plane = usize::try_from(page % planes).expect("planes are in memory");
            in_registers &= self.registers[plane].replace((zone, page)) == Some((zone, page));
        }
        in_registers
    }

    fn set<E: Copy>(
        &mut self,
        die: u32,
        state: DieState,
        from: Nanos,
        until: Nanos,
        events: &mut EventQueue<E>,
    ) {
        self.state = Some(state);
        self.since = from;
        self.until = until;
        self.round = self.round.wrapping_add(1);
        events.add(until, Event::Die { die, round: self.round });
    }

    /// The step that is over at `now`.
    fn step_of(&self, die: u32, state: DieState, now: Nanos) -> Option<DieStep> {
        let (op, activity) = match state {
            DieState::Last(op) => (op, op.activity()),
            DieState::Sensing(op, _) => (op, FlashActivity::Sense),
            DieState::Suspending => (self.suspended?.0, FlashActivity::Suspend),
        };
        // Pages that were in the registers were not sensed.
        (now > self.since).then(|| DieStep::of(op, activity, die, self.since, now))
    }

    /// Suspends a program or an erase in favour of a read. Returns its step.
    fn interrupt<E: Copy>(
        &mut self,
        now: Nanos,
        die: u32,
        suspend: Suspend,
        most_reads: u32,
        events: &mut EventQueue<E>,
    ) -> Option<DieStep> {
        let done = now.0.saturating_sub(self.since.0);
        let begun = if suspend.step.0 == 0 { 0 } else { done % suspend.step.0 };
        let wait = if begun == 0 { 0 } else { suspend.step.0 - begun };
        let at = match self.state {
            // An erase stops at any time.
            Some(DieState::Last(DieOp::Clean { .. })) => now.max(self.runs_until),
            _ => now + Nanos(wait),
        };
        if let Some(DieState::Last(op)) = self.state
            && !matches!(op, DieOp::Read { .. })
            && self.reads_in_a_row < most_reads
            && self.until > at + suspend.cost
        {
            let stopped = self.step_of(die, DieState::Last(op), at);
            self.suspended = Some((op, self.until - at));
            self.set(die, DieState::Suspending, at, at + suspend.cost, events);
            return stopped;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS_IN_A_ROW: u32 = 4;

    /// Two dies on one channel, where a codeword takes 8 ns and a unit 64 ns; programs of 100 ns.
    fn flash(suspend: bool) -> Flash {
        Flash::new(&Nand {
            channels: 1,
            dies: 2,
            planes: 1,
            page: Bytes(4 * CODEWORD),
            cell_pages: 2,
            channel_rate: Bytes(CODEWORD * 125_000_000),
            page_read: Nanos(20),
            page_spread: 0,
            transfer_time: Nanos(0),
            cache_read: false,
            program: Nanos(100),
            page_programs: false,
            program_spread: 0,
            erase: Nanos(1000),
            suspend: suspend.then_some(Suspend { cost: Nanos(5), step: Nanos(0) }),
            reads_in_a_row: READS_IN_A_ROW,
        })
    }

    const UNIT: Program = Program { zone: ZoneNo(0), bytes: 64, mark: 0, steps: 1, yields: false };
    const PROGRAM: DieOp = DieOp::Program(UNIT);

    fn read(nr: u32) -> DieOp {
        let page = nr.into();
        DieOp::Read { command: CommandId(nr), zone: ZoneNo(0), first: page, last: page, bytes: 8 }
    }

    /// Queues operations at their times; returns when each was done, and on which die.
    fn run(mut flash: Flash, ops: &[(u64, u32, DieOp)]) -> Vec<(u64, u32, &'static str)> {
        let mut events = EventQueue::<()>::default();
        let mut ends = Vec::new();
        let mut ops = ops.iter().peekable();
        loop {
            let queued = ops.peek().map(|(at, ..)| Nanos(*at));
            let next = events.next();
            match (queued, next) {
                (Some(at), next) if next.is_none_or(|next| at < next) => {
                    let &(_, die, op) = ops.next().expect("peeked");
                    flash.add(at, die, op, &mut events);
                    assert!(flash.begin(at, die, &mut events).is_none());
                }
                (_, Some(next)) => {
                    let (at, event) = events.pop(next).expect("it is next");
                    let Event::Die { die, round } = event else { panic!("only dies") };
                    let name = match flash.step(at, die, round, &mut events) {
                        Some(DieOp::Program(Program { bytes: 32, .. })) => Some("32 bytes"),
                        Some(DieOp::Program(_)) => Some("program"),
                        Some(DieOp::Erase { .. }) => Some("erase"),
                        Some(DieOp::Read { .. }) => Some("read"),
                        Some(_) => Some("other"),
                        None => None,
                    };
                    ends.extend(name.map(|name| (at.0, die, name)));
                    assert!(flash.begin(at, die, &mut events).is_none());
                }
                _ => return ends,
            }
        }
    }

    #[test]
    fn dies_work_in_parallel_and_share_the_channel() {
        let ops = [(0, 0, PROGRAM), (0, 1, PROGRAM), (0, 0, PROGRAM)];
        let expected = [(164, 0, "program"), (228, 1, "program"), (328, 0, "program")];
        assert_eq!(run(flash(false), &ops), expected);
    }

    #[test]
    fn reads_overtake_queued_programs_but_not_one_that_has_begun() {
        let ops = [(0, 0, PROGRAM), (1, 0, PROGRAM), (2, 0, read(0)), (2, 1, read(1))];
        let ends = run(flash(false), &ops);
        // The second die's read waits for the bus until the first program's data are across.
        let expected = [(72, 1, "read"), (164 + 28, 0, "read"), (192 + 164, 0, "program")];
        assert_eq!(ends[0], expected[0]);
        assert_eq!(ends[1], (164, 0, "program"));
        assert_eq!(ends[2..], expected[1..]);
    }

    #[test]
    fn endless_reads_do_not_starve_a_program() {
        let mut ops = vec![(0, 0, read(0)), (0, 0, PROGRAM)];
        ops.extend((1..20).map(|nr| (0, 0, read(nr))));
        for most in [1, READS_IN_A_ROW, 8] {
            let mut flash = flash(false);
            flash.most_reads = most;
            let ends = run(flash, &ops);
            let at = ends.iter().position(|(.., name)| *name == "program").expect("it was done");
            assert_eq!(at, most as usize + 1, "the first read was alone");
        }
    }

    #[test]
    fn each_plane_keeps_the_page_that_it_sensed_last() {
        let mut die = Die::new(2);
        let mut sense = |zone, first, last| die.sense(ZoneNo(zone), first, last);
        assert!(!sense(0, 0, 0));
        assert!(!sense(1, 3, 3));
        assert!(sense(0, 0, 0), "the other plane sensed the page of zone 1");
        assert!(sense(1, 3, 3));
        assert!(!sense(1, 2, 2));
        assert!(!sense(0, 0, 0), "its plane has sensed another page since");
        assert!(!sense(0, 4, 7));
        assert!(sense(0, 6, 7), "the last page of each plane");
        assert!(!sense(0, 5, 6));
    }

    #[test]
    fn suspended_program_resumes_where_it_was() {
        let ops = [(0, 0, PROGRAM), (100, 0, read(0))];
        let expected = [(100 + 5 + 28, 0, "read"), (133 + 64, 0, "program")];
        assert_eq!(run(flash(true), &ops), expected);
        let erase = DieOp::Erase { command: CommandId(1), blocks: 2 };
        let ops = [(0, 0, erase), (500, 0, read(0)), (1000, 0, read(0))];
        let ends = run(flash(true), &ops);
        assert_eq!(ends[2], (2000 + 2 * 33, 0, "erase"), "{ends:?}");
    }

    #[test]
    fn steps_follow_one_another_and_are_suspended_ones_in_parts() {
        let mut flash = flash(true);
        flash.steps = Some(Vec::new());
        let mut events = EventQueue::<()>::default();
        flash.add(Nanos(0), 0, PROGRAM, &mut events);
        flash.begin(Nanos(0), 0, &mut events);
        flash.add(Nanos(100), 0, read(0), &mut events);
        while let Some((at, Event::Die { die, round })) = events.pop(Nanos(1000)) {
            flash.step(at, die, round, &mut events);
            flash.begin(at, die, &mut events);
        }
        let steps = flash.steps.expect("it is traced");
        let seen: Vec<_> =
            steps.iter().map(|step| (step.activity.name(), step.from.0, step.to.0)).collect();
        let read = [("sense", 105, 125), ("transfer", 125, 133)];
        let parts = [("program", 0, 100), ("suspend", 100, 105), read[0], read[1]];
        assert_eq!(seen, [&parts[..], &[("program", 133, 197)]].concat());
        assert!(steps.iter().all(|step| step.zone == Some(ZoneNo(0)) && step.die == 0));
        assert_eq!(steps[2].command, Some(CommandId(0)));
    }

    #[test]
    fn pages_of_a_cell_leave_the_buffer_with_their_transfer_and_reads_come_between_their_programs()
    {
        let mut flash = flash(false);
        flash.program_steps = 4;
        let program = DieOp::Program(Program { steps: 4, ..UNIT });
        let ends = run(flash, &[(0, 0, program), (2, 0, read(0)), (100, 0, read(1))]);
        let transfers = [(32, 0, "32 bytes"), (64, 0, "32 bytes")];
        let reads = [(92, 0, "read"), (142, 0, "program"), (170, 0, "read")];
        assert_eq!(ends, [&transfers[..], &reads, &[(220, 0, "program")]].concat());
    }

    /// Drains a die with these programs, of which the first has begun. Returns when the drain was complete,
    /// and when the barrier, if there is one behind the programs.
    fn drained(yield_to_it: [bool; 3], barrier: bool) -> (u64, Option<u64>) {
        let mut flash = flash(false);
        let mut events = EventQueue::<()>::default();
        for yields in yield_to_it {
            let program = DieOp::Program(Program { yields, ..UNIT });
            flash.add(Nanos(0), 0, program, &mut events);
        }
        flash.begin(Nanos(0), 0, &mut events);
        flash.drains = true;
        if barrier {
            flash.add(Nanos(0), 0, DieOp::Barrier { command: CommandId(1) }, &mut events);
        }
        flash.add(Nanos(0), 0, DieOp::Drain { command: CommandId(0) }, &mut events);
        let (mut drain, mut reached) = (None, None);
        while let Some((at, Event::Die { die, round })) = events.pop(Nanos(10_000)) {
            flash.step(at, die, round, &mut events);
            while let Some(op) = flash.begin(at, die, &mut events) {
                if let DieOp::Barrier { .. } = op {
                    reached = Some(at.0);
                } else {
                    drain = Some(at.0);
                    flash.drains = false;
                }
            }
        }
        (drain.expect("nothing waits for ever"), reached)
    }

    #[test]
    fn programs_that_have_not_begun_yield_to_a_drain_unless_a_barrier_waits_for_them() {
        assert_eq!(drained([false; 3], false), (3 * 164, None));
        assert_eq!(drained([true; 3], false), (164, None), "the first has begun");
        assert_eq!(drained([false, true, false], false), (2 * 164, None));
        assert_eq!(drained([true; 3], true), (3 * 164, Some(3 * 164)));
    }

    #[test]
    fn other_operations_come_between_units_of_padding() {
        let pad = DieOp::Pad { command: CommandId(0), units: 2 };
        let ends = run(flash(false), &[(0, 0, pad), (1, 0, PROGRAM)]);
        assert_eq!(ends, [(328, 0, "program"), (492, 0, "other")]);
    }

    /// When a program or padding of 164 ns was done, beside as many reads of its die, one each 25 ns after it
    /// had begun; it is suspended in steps of 50 ns.
    fn done_beside(op: DieOp, reads: u32) -> u64 {
        let mut flash = flash(true);
        flash.suspend = Some(Suspend { cost: Nanos(0), step: Nanos(50) });
        let mut ops = vec![(0, 0, op)];
        ops.extend((1..=reads).map(|nr| (u64::from(nr) * 25, 0, read(nr))));
        let ends = run(flash, &ops);
        ends.iter().find(|(.., name)| *name != "read").expect("it is done some time").0
    }

    #[test]
    fn padding_that_has_run_for_a_step_yields_to_reads_again_and_a_program_does_not() {
        let row = u64::from(READS_IN_A_ROW);
        assert_eq!(done_beside(PROGRAM, READS_IN_A_ROW), 164 + row * 28);
        assert_eq!(done_beside(PROGRAM, 20), 164 + row * 28);
        let pad = DieOp::Pad { command: CommandId(0), units: 1 };
        assert_eq!(done_beside(pad, 1), 164 + 28);
        let later = done_beside(pad, 20) - 164;
        assert!(later > row * 28 && later.is_multiple_of(28), "{later}");
    }

    #[test]
    fn padding_has_the_share_of_one_zone_while_writes_wait() {
        let mut flash = flash(false);
        let mut events = EventQueue::<()>::default();
        let pad = DieOp::Pad { command: CommandId(0), units: 9 };
        for op in [pad, PROGRAM, PROGRAM] {
            flash.add(Nanos(0), 0, op, &mut events);
        }
        flash.set_rivals(2);
        let mut seen = Vec::new();
        flash.begin(Nanos(0), 0, &mut events);
        while let Some((at, Event::Die { die, round })) = events.pop(Nanos(10_000)) {
            seen.push(flash.step(at, die, round, &mut events).is_some());
            flash.begin(at, die, &mut events);
        }
        assert_eq!(seen, [true, true, false], "two programs, then padding");
        assert!(flash.take_waiting(), "the next padding waits");
        flash.set_rivals(0);
        flash.begin(Nanos(10_000), 0, &mut events);
        assert!(events.next().is_some(), "no write waits any more");
    }
}
