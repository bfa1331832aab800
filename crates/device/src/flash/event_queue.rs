//! The events to come in a drive, in the order of their times. Events of one time keep the order in
//! which they were added, so that a run is reproducible.
use zonal_blk::Nanos;

/// A command in the drive's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandId(pub(crate) u32);

/// An event; `E` is one of the media's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<E> {
    /// The controller is free again.
    Controller,
    /// The flash operations of a command begin.
    Begin(CommandId),
    /// A command completes.
    Complete(CommandId),
    Media(E),
    /// A die finishes its step, unless that was interrupted since: the die is at another round then.
    Die {
        die: u32,
        round: u32,
    },
}

/// Pending events.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    /// Comes before those in `pending`, if there is one: with one command at a time its events come and
    /// go here.
    first: Option<(Nanos, Event<E>)>,
    /// The next one is the last. They are few, at most one a die and command: to move them takes less than
    /// an order with fewer moves.
    pending: Vec<(Nanos, Event<E>)>,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { first: None, pending: Vec::new() }
    }
}

impl<E: Copy> EventQueue<E> {
    #[inline]
    pub(crate) fn add(&mut self, at: Nanos, event: Event<E>) {
        match self.next() {
            Some(first) if first <= at => self.insert(at, event),
            _ => {
                if let Some(second) = self.first.replace((at, event)) {
                    self.pending.push(second);
                }
            }
        }
    }

    fn insert(&mut self, at: Nanos, event: Event<E>) {
        let place = self.pending.partition_point(|(other, _)| *other > at);
        self.pending.insert(place, (at, event));
    }

    /// The time of the next event.
    #[inline]
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.first.as_ref().or_else(|| self.pending.last()).map(|&(at, _)| at)
    }

    /// The next event, if there is only one.
    #[inline]
    pub(crate) fn only(&self) -> Option<(Nanos, Event<E>)> {
        match &self.first {
            Some(first) if self.pending.is_empty() => Some(*first),
            None if self.pending.len() == 1 => self.pending.last().copied(),
            _ => None,
        }
    }

    /// Removes the next event if it is due by `now`.
    #[inline]
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<(Nanos, Event<E>)> {
        if self.next()? > now {
            return None;
        }
        self.first.take().or_else(|| self.pending.pop())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_the_order_of_their_times_then_in_that_of_their_addition(
            steps in prop::collection::vec((0..30_u64, any::<bool>()), 0..200),
        ) {
            let (mut queue, mut all) = (EventQueue::<()>::default(), Vec::new());
            for (number, (at, adds)) in (0..).zip(steps) {
                if adds {
                    let event = Event::Die { die: number, round: 0 };
                    queue.add(Nanos(at), event);
                    all.push((Nanos(at), number, event));
                } else {
                    let first = all.iter().min_by_key(|&&(at, number, _)| (at, number)).copied();
                    let first = first.filter(|&(due, ..)| due <= Nanos(at));
                    all.retain(|&(_, number, _)| first.is_none_or(|first| first.1 != number));
                    prop_assert_eq!(queue.pop(Nanos(at)), first.map(|(at, _, event)| (at, event)));
                }
                prop_assert_eq!(queue.next(), all.iter().map(|event| event.0).min());
                let only = all.first().filter(|_| all.len() == 1);
                prop_assert_eq!(queue.only(), only.map(|&(at, _, event)| (at, event)));
            }
        }
    }
}
