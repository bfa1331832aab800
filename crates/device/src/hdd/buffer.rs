//! The buffer that writes pass through: what waits to be written, by place.
//!
//! Takes pieces of write commands as they arrive over the link; gives the runs of bytes that follow
//! one another, for the head to write. Keeps true: the buffer never holds more bytes or commands
//! than it has room for; a command is given back when its last byte has been written, if it waits
//! for that.
use std::collections::VecDeque;
use zonal_blk::Request;

/// Bytes that follow one another and wait to be written.
#[derive(Debug)]
pub(super) struct Run {
    /// Where its first byte went, which it is sorted by.
    began: u64,
    /// Where the next byte goes.
    pub(super) at: u64,
    /// Behind the last byte.
    pub(super) end: u64,
    /// Commands that end in the run.
    commands: VecDeque<BufferedCommand>,
}

/// A command with bytes in a run.
#[derive(Debug)]
struct BufferedCommand {
    /// Behind its last byte.
    end: u64,
    /// When its first byte arrived.
    arrived: u64,
    /// The command if it is done only when it is on the medium.
    request: Option<Box<Request>>,
}

impl Run {
    /// When the oldest of its commands arrived.
    pub(super) fn oldest(&self) -> u64 {
        self.commands.front().map_or(u64::MAX, |held| held.arrived)
    }
}

/// Identifies a run.
pub(super) type RunId = usize;

/// What waits to be written.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Runs by number; empty ones are kept for their memory.
    slab: Vec<Run>,
    free: Vec<RunId>,
    /// By where they began, which is an order by place.
    sorted: Vec<(u64, RunId)>,
    bytes: u64,
    commands: u32,
    /// Commands that wait until they have been written.
    kept: u32,
    max_bytes: u64,
    max_commands: u32,
}

impl Buffer {
    pub(super) fn new(max_bytes: u64, max_commands: u32) -> Self {
        Buffer {
            slab: Vec::new(),
            free: Vec::new(),
            sorted: Vec::new(),
            bytes: 0,
            commands: 0,
            kept: 0,
            max_bytes,
            max_commands,
        }
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Commands whose bytes wait.
    pub(super) fn commands(&self) -> u32 {
        self.commands
    }

    /// Whether a command waits until it has been written.
    pub(super) fn has_waiting_commands(&self) -> bool {
        self.kept > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether `len` bytes at `start` fit, `kept` of the buffer being kept free; `first` with the
    /// first bytes of a command, which arrived at `arrived`. An empty buffer takes anything.
    pub(super) fn has_room(
        &self,
        start: u64,
        len: u64,
        kept: u64,
        arrived: u64,
        first: bool,
    ) -> bool {
        let room = self.max_bytes.saturating_sub(kept);
        self.bytes == 0
            || self.bytes + len <= room
                && (self.commands < self.max_commands
                    || !first && self.own_run(start, arrived).is_some())
    }

    /// The run with the bytes before `start` of the command that arrived at `arrived`. Where writes
    /// overlap, other runs may end there too.
    fn own_run(&self, start: u64, arrived: u64) -> Option<RunId> {
        let is_own = |&id: &RunId| {
            let run = &self.slab[id];
            run.end == start && run.commands.back().is_some_and(|held| held.arrived == arrived)
        };
        let near = self.run_to(start).filter(is_own);
        near.or_else(|| self.sorted.iter().map(|&(_, id)| id).find(is_own))
    }

    /// The run that ends where something begins.
    fn run_to(&self, start: u64) -> Option<RunId> {
        let after = self.sorted.partition_point(|&(began, _)| began <= start);
        let (_, id) = *self.sorted.get(after.checked_sub(1)?)?;
        (self.slab[id].end == start).then_some(id)
    }

    pub(super) fn nr_runs(&self) -> usize {
        self.sorted.len()
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = (RunId, &Run)> {
        self.sorted.iter().map(|&(_, id)| (id, &self.slab[id]))
    }

    pub(super) fn run(&self, id: RunId) -> &Run {
        &self.slab[id]
    }

    /// Whether all of a range waits here, in one run.
    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        let after = self.sorted.partition_point(|&(began, _)| began <= start);
        after.checked_sub(1).is_some_and(|at| {
            let run = &self.slab[self.sorted[at].1];
            run.at <= start && end <= run.end
        })
    }

    /// Adds bytes of a command that arrived at `arrived`; `first` with its first bytes.
    pub(super) fn add(&mut self, start: u64, end: u64, arrived: u64, first: bool) -> RunId {
        let own = if first { None } else { self.own_run(start, arrived) };
        let id = own.or_else(|| self.run_to(start)).unwrap_or_else(|| {
            let id = self.free.pop().unwrap_or_else(|| {
                self.slab.push(Run { began: 0, at: 0, end: 0, commands: VecDeque::new() });
                self.slab.len() - 1
            });
            self.slab[id].began = start;
            self.slab[id].at = start;
            self.slab[id].end = start;
            let place = self.sorted.partition_point(|&key| key < (start, id));
            self.sorted.insert(place, (start, id));
            id
        });
        let run = &mut self.slab[id];
        run.end = end;
        self.bytes += end - start;
        match run.commands.back_mut() {
            Some(last) if own.is_some() => last.end = end,
            _ => {
                run.commands.push_back(BufferedCommand { end, arrived, request: None });
                self.commands += 1;
            }
        }
        id
    }

    /// Leaves the last command of a run there until it has been written.
    pub(super) fn keep(&mut self, id: RunId, request: Box<Request>) {
        let last = self.slab[id].commands.back_mut().expect("its bytes have just come");
        last.request = Some(request);
        self.kept += 1;
    }

    /// The next `len` bytes of a run have been written; gives the commands that waited for that.
    /// Whether anything is left of the run.
    pub(super) fn written(&mut self, id: RunId, len: u64, done: &mut Vec<Box<Request>>) -> bool {
        let run = &mut self.slab[id];
        run.at += len;
        self.bytes -= len;
        while let Some(first) = run.commands.front()
            && first.end <= run.at
        {
            let held = run.commands.pop_front().expect("just seen");
            self.kept -= u32::from(held.request.is_some());
            done.extend(held.request);
            self.commands -= 1;
        }
        if run.at < run.end {
            return true;
        }
        self.remove(id);
        false
    }

    /// Forgets what waits to be written from `start` to `end`; both lie between runs. All but the
    /// run that is `busy`. The commands that waited for it are done.
    pub(super) fn forget(
        &mut self,
        start: u64,
        end: u64,
        busy: Option<RunId>,
        done: &mut Vec<Box<Request>>,
    ) {
        let mut first = self.sorted.partition_point(|&(began, _)| began < start);
        while let Some(&(began, id)) = self.sorted.get(first)
            && began < end
        {
            if busy == Some(id) {
                first += 1;
                continue;
            }
            let run = &mut self.slab[id];
            self.bytes -= run.end - run.at;
            for held in run.commands.drain(..) {
                self.commands -= 1;
                self.kept -= u32::from(held.request.is_some());
                done.extend(held.request);
            }
            self.remove(id);
        }
    }

    fn remove(&mut self, id: RunId) {
        let key = (self.slab[id].began, id);
        let place = self.sorted.binary_search(&key).expect("a run is listed");
        self.sorted.remove(place);
        self.free.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// A command of so many bytes arrives whole.
        Add(u64, u64),
        /// Up to so many bytes of one of the runs are written.
        Write(prop::sample::Index, u64),
        Forget(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..60u64, 1..6u64).prop_map(|(at, len)| Step::Add(at, len)),
            4 => (any::<prop::sample::Index>(), 1..8u64).prop_map(|(run, len)| Step::Write(run, len)),
            1 => (0..60u64, 1..30u64).prop_map(|(at, len)| Step::Forget(at, len)),
        ]
    }

    /// Each byte that waits, with the number of its command.
    type Waiting = Vec<(u64, u32)>;

    fn commands(waiting: &Waiting) -> u32 {
        let mut numbers: Vec<u32> = waiting.iter().map(|&(_, number)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        u32::try_from(numbers.len()).unwrap()
    }

    proptest! {
        #[test]
        fn holds_what_came_and_was_not_written_yet(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut buffer = Buffer::new(40, 8);
            let mut waiting = Waiting::new();
            let mut done = Vec::new();
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Add(at, len) => {
                        let room = waiting.is_empty()
                            || waiting.len() as u64 + len <= 40 && commands(&waiting) < 8;
                        prop_assert_eq!(buffer.has_room(at, len, 0, u64::from(number), true), room);
                        // A place that is written again while it waits would be there twice.
                        if room && waiting.iter().all(|&(byte, _)| byte < at || byte >= at + len) {
                            buffer.add(at, at + len, u64::from(number), true);
                            waiting.extend((at..at + len).map(|byte| (byte, number)));
                        }
                    }
                    Step::Write(run, len) => {
                        let runs: Vec<RunId> = buffer.runs().map(|(id, _)| id).collect();
                        if !runs.is_empty() {
                            let id = *run.get(&runs);
                            let (at, end) = (buffer.run(id).at, buffer.run(id).end);
                            let len = len.min(end - at);
                            let left = buffer.written(id, len, &mut done);
                            prop_assert_eq!(left, at + len < end);
                            waiting.retain(|&(byte, _)| byte < at || byte >= at + len);
                        }
                    }
                    Step::Forget(start, len) => {
                        let inside = |began: u64| (start..start + len).contains(&began);
                        let gone: Vec<(u64, u64)> = buffer
                            .runs()
                            .filter(|(_, run)| inside(run.began))
                            .map(|(_, run)| (run.at, run.end))
                            .collect();
                        buffer.forget(start, start + len, None, &mut done);
                        for (at, end) in gone {
                            waiting.retain(|&(byte, _)| byte < at || byte >= end);
                        }
                    }
                }
                prop_assert_eq!(buffer.bytes(), waiting.len() as u64);
                prop_assert_eq!(buffer.commands(), commands(&waiting));
                for &(byte, _) in &waiting {
                    let covers = |run: &Run| run.at <= byte && byte < run.end;
                    prop_assert!(buffer.runs().any(|(_, run)| covers(run)), "byte {byte}");
                }
            }
        }
    }
}
