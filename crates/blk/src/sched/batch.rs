//! A batch that goes to an idle scheduler and a device with room for it: sorted on the spot.
//!
//! Takes requests of one direction and one priority class; gives them in the order in which
//! mq-deadline would send them if it were given just these: up the sectors from where this channel
//! sent last, then from the oldest that is left, until none is. Keeps true: nothing shared is
//! touched, so threads that submit batches at once do not meet.
use super::elevator::Route;
use super::merge::MergeLimit;
use crate::request::Request;

/// The longest batch that is sorted here: a position in it takes the low bits of a key.
pub(super) const LONGEST: usize = 128;
const POSITION_BITS: u32 = 16;

/// The first sector that leaves no room for the position in a key; 128 PiB.
pub(super) const SECTORS_MAX: u64 = 1 << (64 - POSITION_BITS);

/// A batch, and where it is sorted. Kept for its capacity.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In the order of arrival.
    requests: Vec<Option<Box<Request>>>,
    /// Sector and place in the batch.
    keys: Vec<u64>,
    /// The kinds of its requests, as a set.
    kinds: u16,
}

/// A priority class and a route.
fn kind(request: &Request) -> u16 {
    1 << (request.prio().class.index() * 4 + Route::of(request.op()) as usize)
}

fn sector(key: u64) -> u64 {
    key >> POSITION_BITS
}

#[allow(clippy::cast_possible_truncation)] // 16 bits
fn place(key: u64) -> usize {
    (key & ((1 << POSITION_BITS) - 1)) as usize
}

impl Batch {
    #[inline]
    pub(super) fn push(&mut self, request: Box<Request>) {
        self.kinds |= kind(&request);
        self.keys.push(request.sector().0 << POSITION_BITS | self.requests.len() as u64);
        self.requests.push(Some(request));
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The first request, if all are of its class and direction.
    pub(super) fn of_one_kind(&self) -> Option<&Request> {
        let first = self.requests.first()?.as_deref().expect("nothing was taken yet");
        let sortable = Route::of(first.op()) != Route::First && self.kinds == kind(first);
        sortable.then_some(first)
    }

    /// Empties the batch in the order of arrival.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<Request>> {
        self.keys.clear();
        self.kinds = 0;
        self.requests.drain(..).flatten()
    }

    /// Empties the batch in mq-deadline's order, from `stands_at` on. Gives where that leads to
    /// and the number of requests that went on merged behind another.
    pub(super) fn drain_sorted(
        &mut self,
        stands_at: u64,
        limit: MergeLimit,
        front_merges: bool,
        mut send: impl FnMut(Box<Request>),
    ) -> (u64, u64) {
        let Batch { requests, keys, .. } = self;
        keys.sort_unstable();
        let (mut stood, mut merged) = (stands_at, 0);
        // All that is left lies before `left`: a way up takes everything from where it begins.
        let mut left = keys.len();
        let mut from = keys.partition_point(|&key| sector(key) < stands_at);
        while left > 0 {
            if from == left {
                let oldest = (0..left).min_by_key(|&i| place(keys[i]));
                from = oldest.expect("something is left");
            }
            let mut way = &keys[from..left];
            left = from;
            while let Some((&key, rest)) = way.split_first() {
                let mut request = take(requests, key);
                (way, stood) = (rest, sector(key));
                if limit.max_sectors > 0 {
                    while front_merges && fronts(requests, &keys[..left], &request, limit) {
                        left -= 1;
                        let mut front = take(requests, keys[left]);
                        front.append(request);
                        request = front;
                        merged += 1;
                    }
                    while let Some((&key, rest)) = way.split_first()
                        && sector(key) == request.end().0
                        && limit.joins(&request, peek(requests, key))
                    {
                        request.append(take(requests, key));
                        (way, stood) = (rest, sector(key));
                        merged += 1;
                    }
                }
                send(request);
            }
            from = left;
        }
        requests.clear();
        keys.clear();
        self.kinds = 0;
        (stood, merged)
    }
}

fn take(requests: &mut [Option<Box<Request>>], key: u64) -> Box<Request> {
    requests[place(key)].take().expect("a key is taken once")
}

fn peek(requests: &[Option<Box<Request>>], key: u64) -> &Request {
    requests[place(key)].as_deref().expect("not yet taken")
}

/// Whether the last of the keys that are left can be the front of `request`.
fn fronts(
    requests: &[Option<Box<Request>>],
    left: &[u64],
    request: &Request,
    limit: MergeLimit,
) -> bool {
    left.last().is_some_and(|&before| {
        limit.reaches(sector(before), request.sector().0)
            && limit.joins(peek(requests, before), request)
    })
}

#[cfg(test)]
mod tests {
    use super::super::elevator::{Elevator, InFlight};
    use super::super::mq_deadline::{MqDeadline, MqDeadlineOptions};
    use super::super::testing::{Spec, ids};
    use super::*;
    use crate::units::Nanos;
    use proptest::prelude::*;

    proptest! {
        /// Batch after batch, the order is the one in which mq-deadline sends them.
        #[test]
        fn order_is_mq_deadlines(
            batches in prop::collection::vec(
                prop::collection::vec((0..80u64, 1..4u32), 1..40), 1..5),
            max_sectors in prop_oneof![Just(0), Just(48)],
            front_merges in any::<bool>(),
        ) {
            let limit = MergeLimit { max_sectors };
            let options = MqDeadlineOptions { front_merges, ..MqDeadlineOptions::default() };
            let mut sched = MqDeadline::new(options, limit, None);
            let mut batch = Batch::default();
            let mut stands_at = 0;
            for specs in batches {
                for (id, &(sector, len)) in (0..).zip(&specs) {
                    let spec = Spec { id, sector: sector * 8, len: len * 8, ..Spec::default() };
                    batch.push(spec.build());
                    sched.insert(Nanos(0), spec.build());
                }
                let mut sent = Vec::new();
                let (stood, merged) =
                    batch.drain_sorted(stands_at, limit, front_merges, |r| sent.push(ids(r)));
                stands_at = stood;
                prop_assert_eq!(merged as usize + sent.len(), specs.len());
                let flight = InFlight::default();
                let expected: Vec<_> =
                    std::iter::from_fn(|| sched.dispatch(Nanos(0), &flight)).map(ids).collect();
                prop_assert_eq!(sent, expected);
            }
        }
    }
}
