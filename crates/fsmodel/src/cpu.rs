//! Modelled CPU time, and a queue of events.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use zonal_blk::Nanos;

/// A thread, which does its work in sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    free_at: Nanos,
}

impl Cpu {
    /// Adds work at `now`; returns when it will be done.
    pub(super) fn run(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        self.free_at = self.free_at.max(now) + cost;
        self.free_at
    }
}

/// Events by time; at equal times in order of insertion.
#[derive(Debug)]
pub(super) struct EventQueue<E> {
    due: BinaryHeap<Reverse<Entry<E>>>,
    inserted: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Nanos,
    order: u64,
    event: E,
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { due: BinaryHeap::new(), inserted: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event.
    pub(super) fn add(&mut self, at: Nanos, event: E) {
        self.due.push(Reverse(Entry { at, order: self.inserted, event }));
        self.inserted += 1;
    }

    /// The next event that is due at `now`.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<E> {
        let due = self.due.peek().is_some_and(|Reverse(first)| first.at <= now);
        due.then(|| self.due.pop().map(|Reverse(first)| first.event)).flatten()
    }

    /// When the next event is due.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse(first)| first.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_the_work_before_it() {
        let mut cpu = Cpu::default();
        assert_eq!(cpu.run(Nanos(10), Nanos(5)), Nanos(15));
        assert_eq!(cpu.run(Nanos(11), Nanos(5)), Nanos(20));
        assert_eq!(cpu.run(Nanos(30), Nanos(5)), Nanos(35));
    }

    #[test]
    fn events_are_ordered_by_time_and_insertion() {
        let mut event_queue = EventQueue::default();
        for (at, name) in [(5, 'b'), (3, 'a'), (5, 'c'), (9, 'd')] {
            event_queue.add(Nanos(at), name);
        }
        let mut seen = Vec::new();
        while let Some(event) = event_queue.pop(Nanos(5)) {
            seen.push(event);
        }
        assert_eq!(seen, ['a', 'b', 'c']);
        assert_eq!(event_queue.next(), Some(Nanos(9)));
    }
}
