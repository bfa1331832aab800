//! The memory of the drive: the write buffer and the read cache.
//!
//! Pieces of write commands arrive over the link and form runs of consecutive bytes, which the head
//! writes. Invariants: the buffer never exceeds its limits of bytes and commands; a command that
//! waits for the medium completes when its last byte has been written.
use std::collections::VecDeque;
use zonal_blk::Request;

/// Consecutive bytes that wait to be written.
#[derive(Debug)]
pub(super) struct Run {
    /// Address of its first byte, the sort key.
    began: u64,
    /// Address of the next byte to write.
    pub(super) at: u64,
    /// End address.
    pub(super) end: u64,
    /// Commands whose last buffered byte is in the run.
    commands: VecDeque<BufferedCommand>,
}

/// A command with bytes in a run.
#[derive(Debug)]
struct BufferedCommand {
    /// Its end address in the run.
    end: u64,
    /// Arrival time of its first byte.
    arrived: u64,
    /// The command, if it completes only when it is on the medium.
    request: Option<Box<Request>>,
}

impl Run {
    /// Arrival time of its oldest command.
    pub(super) fn oldest(&self) -> u64 {
        self.commands.front().map_or(u64::MAX, |command| command.arrived)
    }
}

/// Identifies a run.
pub(super) type RunId = usize;

/// The write buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Runs by number; free ones are kept for their memory.
    slab: Vec<Run>,
    free: Vec<RunId>,
    /// In address order of their first bytes.
    sorted: Vec<(u64, RunId)>,
    bytes: u64,
    commands: u32,
    /// Commands that wait for the medium.
    waiting: u32,
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
            waiting: 0,
            max_bytes,
            max_commands,
        }
    }

    /// Buffered bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Buffered commands.
    pub(super) fn commands(&self) -> u32 {
        self.commands
    }

    /// Whether a command waits for the medium.
    pub(super) fn has_waiting_commands(&self) -> bool {
        self.waiting > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether `len` bytes at `start` of the command that arrived at `arrived` fit while `reserved`
    /// bytes stay free; `first` with the first bytes of a command. An empty buffer takes anything.
    pub(super) fn has_room(
        &self,
        start: u64,
        len: u64,
        reserved: u64,
        arrived: u64,
        first: bool,
    ) -> bool {
        let room = self.max_bytes.saturating_sub(reserved);
        self.bytes == 0
            || self.bytes + len <= room
                && (self.commands < self.max_commands
                    || !first && self.own_run(start, arrived).is_some())
    }

    /// The run that ends at `start` with bytes of the command that arrived at `arrived`. If writes
    /// overlap, other runs may end there too.
    fn own_run(&self, start: u64, arrived: u64) -> Option<RunId> {
        let is_own = |&id: &RunId| {
            let run = &self.slab[id];
            run.end == start
                && run.commands.back().is_some_and(|command| command.arrived == arrived)
        };
        let near = self.run_to(start).filter(is_own);
        near.or_else(|| self.sorted.iter().map(|&(_, id)| id).find(is_own))
    }

    /// A run that ends at `start`.
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

    /// Whether one run holds all of a range.
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
            let index = self.sorted.partition_point(|&key| key < (start, id));
            self.sorted.insert(index, (start, id));
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

    /// Has the last command of a run complete when it has been written.
    pub(super) fn complete_when_written(&mut self, id: RunId, request: Box<Request>) {
        let last = self.slab[id].commands.back_mut().expect("its bytes have just arrived");
        last.request = Some(request);
        self.waiting += 1;
    }

    /// The next `len` bytes of a run have been written: appends the commands that waited for them to
    /// `done`. Returns whether any of the run is left.
    pub(super) fn written(&mut self, id: RunId, len: u64, done: &mut Vec<Box<Request>>) -> bool {
        let run = &mut self.slab[id];
        run.at += len;
        self.bytes -= len;
        while let Some(first) = run.commands.front()
            && first.end <= run.at
        {
            let command = run.commands.pop_front().expect("front() found it");
            self.waiting -= u32::from(command.request.is_some());
            done.extend(command.request);
            self.commands -= 1;
        }
        if run.at < run.end {
            return true;
        }
        self.remove(id);
        false
    }

    /// Drops the runs from `start` to `end`, neither of which is inside a run, but for the run that
    /// is `busy`. The commands that waited for them are done.
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
            for command in run.commands.drain(..) {
                self.commands -= 1;
                self.waiting -= u32::from(command.request.is_some());
                done.extend(command.request);
            }
            self.remove(id);
        }
    }

    fn remove(&mut self, id: RunId) {
        let key = (self.slab[id].began, id);
        let index = self.sorted.binary_search(&key).expect("every run is in the list");
        self.sorted.remove(index);
        self.free.push(id);
    }
}

/// A range of bytes in the read cache.
#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// The end of the last read.
    read_end: u64,
}

/// The read cache: ranges that were read, at most `max` of them; the least recently used is evicted.
/// Before and after the last read of it, a range holds no more than the read-ahead.
#[derive(Debug)]
pub(super) struct Segments {
    /// In LRU order, the most recently used last.
    segments: Vec<Segment>,
    max: usize,
    /// Read-ahead in bytes.
    ahead: u64,
}

impl Segments {
    pub(super) fn new(max: usize, ahead: u64) -> Self {
        Segments { segments: Vec::with_capacity(max), max, ahead }
    }

    /// Makes a segment the most recently used, with a read of `start..end`.
    fn touch(&mut self, at: usize, start: u64, end: u64) {
        self.segments[at..].rotate_left(1);
        let segment = self.segments.last_mut().expect("it was moved to the end");
        segment.read_end = end;
        segment.start = segment.start.max(start.saturating_sub(self.ahead));
    }

    /// Whether a segment holds all of a range; makes it the most recently used.
    pub(super) fn hit(&mut self, start: u64, end: u64) -> bool {
        let holds = |segment: &Segment| segment.start <= start && end <= segment.end;
        let found = self.segments.iter().rposition(holds);
        if let Some(at) = found {
            self.touch(at, start, end);
        }
        found.is_some()
    }

    /// The first byte from `start` on that is not cached.
    pub(super) fn missing(&self, start: u64) -> u64 {
        let holds = |segment: &&Segment| segment.start <= start && start < segment.end;
        self.segments.iter().rfind(holds).map_or(start, |segment| segment.end)
    }

    /// Adds a range that was read for a command: it extends the segment that it begins in or follows,
    /// or begins a new one. Returns whether it continues the last read of a segment.
    pub(super) fn fill(&mut self, start: u64, end: u64) -> bool {
        let meets = |segment: &Segment| segment.start <= start && start <= segment.end;
        if let Some(at) = self.segments.iter().rposition(meets) {
            let continues = self.segments[at].read_end == start;
            self.segments[at].end = end.max(self.segments[at].end);
            self.touch(at, start, end);
            return continues;
        }
        if self.segments.len() == self.max {
            self.segments.remove(0);
        }
        self.segments.push(Segment { start, end, read_end: end });
        false
    }

    /// Extends the most recently used segment to `end` by read-ahead.
    pub(super) fn extend(&mut self, end: u64) {
        if let Some(last) = self.segments.last_mut() {
            last.end = last.end.max(end);
        }
    }

    /// How far to read ahead from `at`, the position of the head: if that is the end of the most
    /// recently used segment, and the segment holds less than the read-ahead.
    pub(super) fn ahead(&self, at: u64) -> Option<u64> {
        let last = self.segments.last().filter(|last| last.end == at)?;
        let limit = last.read_end.saturating_add(self.ahead);
        (limit > at).then_some(limit)
    }

    /// Drops segments that overlap a range that was written or reset.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        self.segments.retain(|segment| segment.end <= start || end <= segment.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum BufferStep {
        /// A command arrives whole: address and length.
        Add(u64, u64),
        /// Up to that many bytes of one of the runs are written.
        Write(prop::sample::Index, u64),
        Forget(u64, u64),
    }

    fn step() -> impl Strategy<Value = BufferStep> {
        prop_oneof![
            4 => (0..60u64, 1..6u64).prop_map(|(at, len)| BufferStep::Add(at, len)),
            4 => (any::<prop::sample::Index>(), 1..8u64).prop_map(|(run, len)| BufferStep::Write(run, len)),
            1 => (0..60u64, 1..30u64).prop_map(|(at, len)| BufferStep::Forget(at, len)),
        ]
    }

    /// Each buffered byte, with the number of its command.
    type Waiting = Vec<(u64, u32)>;

    fn commands(waiting: &Waiting) -> u32 {
        let mut numbers: Vec<u32> = waiting.iter().map(|&(_, number)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        u32::try_from(numbers.len()).unwrap()
    }

    proptest! {
        #[test]
        fn buffer_holds_what_arrived_and_was_not_written(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut buffer = Buffer::new(40, 8);
            let mut waiting = Waiting::new();
            let mut done = Vec::new();
            for (number, step) in (0..).zip(steps) {
                match step {
                    BufferStep::Add(at, len) => {
                        let room = waiting.is_empty()
                            || waiting.len() as u64 + len <= 40 && commands(&waiting) < 8;
                        prop_assert_eq!(buffer.has_room(at, len, 0, u64::from(number), true), room);
                        // An address that is written again while it waits would be there twice.
                        if room && waiting.iter().all(|&(byte, _)| byte < at || byte >= at + len) {
                            buffer.add(at, at + len, u64::from(number), true);
                            waiting.extend((at..at + len).map(|byte| (byte, number)));
                        }
                    }
                    BufferStep::Write(run, len) => {
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
                    BufferStep::Forget(start, len) => {
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
