//! A batch that comes to an idle scheduler and a device with room for all of it: sorted by the
//! channel.
//!
//! Sorts requests of one direction and one priority class into the order in which mq-deadline would
//! dispatch them if it had just these: ascending from where this channel's last batch ended, then
//! from the oldest that is left, until none is. Touches nothing shared, so threads that submit
//! batches at the same time do not meet.
use super::elevator::{BatchKind, MergeLimit};
use super::sort::{self, KEY};
use crate::op::Op;
use crate::request::Request;
use crate::units::Sector;

/// The longest batch that is sorted here: a position in it takes the low bits of a key.
pub(super) const LONGEST: usize = 128;
const POSITION_BITS: u32 = LONGEST.trailing_zeros();

/// The first sector that leaves no room for the position in a key; 2^63 bytes.
pub(super) const SECTORS_MAX: u64 = KEY >> (POSITION_BITS + 1);

type Requests = [Option<Box<Request>>; LONGEST];

/// A batch, and where it is sorted.
#[derive(Debug)]
pub(super) struct Batch {
    len: usize,
    /// The operations and the classes in it, as sets.
    ops: u16,
    classes: u8,
    /// In the order of arrival.
    requests: Requests,
    /// Sector and place in the batch.
    keys: [u64; LONGEST],
    /// Requests beyond the longest batch that is sorted.
    rest: Vec<Box<Request>>,
}

fn sector(key: u64) -> u64 {
    (key ^ KEY) >> POSITION_BITS
}

#[allow(clippy::cast_possible_truncation)] // 7 bits
fn place(key: u64) -> usize {
    key as usize % LONGEST
}

impl Batch {
    pub(super) fn new() -> Self {
        Batch {
            len: 0,
            ops: 0,
            classes: 0,
            requests: [const { None }; LONGEST],
            keys: [0; LONGEST],
            rest: Vec::new(),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, request: Box<Request>) {
        if self.len < LONGEST {
            self.ops |= 1 << request.op() as u16;
            self.classes |= 1 << request.prio().class() as u8;
            self.keys[self.len] = KEY | request.sector().0 << POSITION_BITS | self.len as u64;
            self.requests[self.len] = Some(request);
            self.len += 1;
        } else {
            self.push_rest(request);
        }
    }

    #[cold]
    fn push_rest(&mut self, request: Box<Request>) {
        self.rest.push(request);
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first request, if all are of its class and direction.
    pub(super) fn uniform(&self) -> Option<&Request> {
        let first = self.requests[0].as_deref()?;
        let reads = self.ops == Op::READS;
        let writes = self.ops & !Op::WRITES == 0;
        let one = self.classes.is_power_of_two() && (reads || writes) && self.rest.is_empty();
        one.then_some(first)
    }

    /// The properties that all requests have in common; for a scheduler that treats them [by
    /// process](super::elevator::Elevator::is_by_process), if all came from one process and none is
    /// asynchronous unless all are.
    #[inline]
    pub(super) fn kind(&self, by_process: bool) -> Option<BatchKind> {
        let mut all = BatchKind::of(self.requests[0].as_deref()?);
        if by_process {
            for request in self.requests[1..self.len].iter().flatten() {
                let kind = BatchKind::of(request);
                if (kind.process, kind.is_async) != (all.process, all.is_async) {
                    return None;
                }
                all.sectors += kind.sectors;
            }
        }
        (all.ops, all.requests) = (self.ops, u32::try_from(self.len).expect("a batch is short"));
        Some(all)
    }

    /// The end of the last request if none can be merged with the one that came before it.
    #[inline]
    pub(super) fn end_if_apart(&self, limit: MergeLimit) -> Option<Sector> {
        let last = self.requests[..self.len].last()?.as_deref()?;
        let apart = limit.max_sectors == 0 || !any_follows(&self.keys[..self.len], limit);
        apart.then_some(last.end())
    }

    /// Empties the batch in the order of arrival, with neighbours merged.
    #[inline]
    pub(super) fn drain_merged(&mut self, limit: MergeLimit, mut send: impl FnMut(Box<Request>)) {
        let mut requests = self.drain();
        let Some(mut front) = requests.next() else { return };
        for request in requests {
            if limit.joins(&front, &request) {
                front.append(request);
            } else {
                send(std::mem::replace(&mut front, request));
            }
        }
        send(front);
    }

    /// Empties the batch in the order of arrival.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<Request>> {
        let len = self.clear();
        let first = self.requests[..len].iter_mut().filter_map(Option::take);
        first.chain(self.rest.drain(..))
    }

    /// The same if there are no more than can be sorted.
    #[inline]
    pub(super) fn drain_first(&mut self, send: impl FnMut(Box<Request>)) {
        let len = self.clear();
        self.requests[..len].iter_mut().filter_map(Option::take).for_each(send);
    }

    fn clear(&mut self) -> usize {
        (self.ops, self.classes) = (0, 0);
        std::mem::take(&mut self.len)
    }

    /// Empties the batch in mq-deadline's order, from `latest_pos` on. Returns the position that it
    /// ends at and the number of requests that were merged after another.
    #[inline]
    pub(super) fn drain_sorted(
        &mut self,
        latest_pos: u64,
        limit: MergeLimit,
        front_merges: bool,
        mut send: impl FnMut(Box<Request>),
    ) -> (u64, u64) {
        let len = self.clear();
        let requests = &mut self.requests;
        // Counted before they are sorted: that waits for nothing, a binary search for the sorted keys. By
        // the sign of differences, as SSE2 does not compare integers of 64 bits.
        let before = KEY | latest_pos << POSITION_BITS;
        let from: u64 = self.keys[..len].iter().map(|&key| key.wrapping_sub(before) >> 63).sum();
        let from = usize::try_from(from).expect("a batch is short");
        sort::sort(&mut self.keys, len);
        let keys = &self.keys[..len];
        let close = limit.max_sectors > 0 && any_mergeable(keys, limit);
        if close {
            send_merged(requests, keys, from, limit, front_merges, send)
        } else {
            let mut end_pos = latest_pos;
            for_each_sweep(keys, from, |sweep| {
                sweep.iter().for_each(|&key| send(take(requests, key)));
                end_pos = sweep.last().map_or(end_pos, |&key| sector(key));
            });
            (end_pos, 0)
        }
    }
}

/// Whether two sorted keys may be near enough for their requests to be merged: they begin less than
/// the longest command apart. Without a branch for each: the top bit of the sum says if any difference
/// was too small (or so great that the answer does not matter).
fn any_mergeable(keys: &[u64], limit: MergeLimit) -> bool {
    let reach = reach(limit);
    gaps(keys).fold(0, |any, gap| any | gap.wrapping_sub(reach)) >> 63 != 0
}

/// The same in the order of arrival, where a request that begins before the last one does not follow
/// it: the difference is negative.
fn any_follows(keys: &[u64], limit: MergeLimit) -> bool {
    let reach = reach(limit);
    gaps(keys).fold(0, |any, gap| any | gap.wrapping_sub(reach) & !gap) >> 63 != 0
}

fn reach(limit: MergeLimit) -> u64 {
    (u64::from(limit.max_sectors) + 1) << POSITION_BITS
}

fn gaps(keys: &[u64]) -> impl Iterator<Item = u64> {
    keys.iter().zip(&keys[1..]).map(|(first, second)| second.wrapping_sub(*first))
}

/// Shows the ascending sweeps over sorted keys: the first goes from `from` to the end; then, while keys
/// are left, the next goes from the oldest of them to where the one before began. The oldest of a
/// prefix is the last key in it that is older than all before it, so one pass finds where all
/// sweeps begin. It has no branch that the order of the keys decides: on random sectors that would
/// cost more than the sort.
fn for_each_sweep(keys: &[u64], from: usize, mut visit: impl FnMut(&[u64])) {
    let mut starts = [0u8; LONGEST + 1];
    let (mut count, mut oldest) = (0, usize::MAX);
    for (i, &key) in keys[..from].iter().enumerate() {
        starts[count] = i.to_le_bytes()[0];
        count += usize::from(place(key) < oldest);
        oldest = oldest.min(place(key));
    }
    starts[count] = from.to_le_bytes()[0];
    let mut end = keys.len();
    for &start in starts[..=count].iter().rev() {
        let start = usize::from(start);
        visit(&keys[start..end]);
        end = start;
    }
}

/// The same with neighbours merged. Returns the last position and the number of merged requests.
fn send_merged(
    requests: &mut Requests,
    keys: &[u64],
    mut from: usize,
    limit: MergeLimit,
    front_merges: bool,
    mut send: impl FnMut(Box<Request>),
) -> (u64, u64) {
    let (mut end_pos, mut merged) = (0, 0);
    // All that is left lies before `left`: a sweep takes everything from where it begins.
    let mut left = keys.len();
    while left > 0 {
        if from >= left {
            let oldest = (0..left).min_by_key(|&i| place(keys[i]));
            from = oldest.expect("something is left");
        }
        let mut sweep = &keys[from..left];
        left = from;
        while let Some((&key, rest)) = sweep.split_first() {
            let mut request = take(requests, key);
            (sweep, end_pos) = (rest, sector(key));
            while front_merges && can_front_merge(requests, &keys[..left], &request, limit) {
                left -= 1;
                let mut front = take(requests, keys[left]);
                front.append(request);
                request = front;
                merged += 1;
            }
            while let Some((&key, rest)) = sweep.split_first()
                && sector(key) == request.end().0
                && limit.joins(&request, peek(requests, key))
            {
                request.append(take(requests, key));
                (sweep, end_pos) = (rest, sector(key));
                merged += 1;
            }
            send(request);
        }
    }
    (end_pos, merged)
}

fn take(requests: &mut Requests, key: u64) -> Box<Request> {
    requests[place(key)].take().expect("a key is taken once")
}

fn peek(requests: &Requests, key: u64) -> &Request {
    requests[place(key)].as_deref().expect("not yet taken")
}

/// Whether the last of the keys that are left can be the front of `request`.
fn can_front_merge(
    requests: &Requests,
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
    use super::super::mq_deadline::MqDeadline;
    use super::super::mq_deadline::MqDeadlineOptions;
    use super::super::testing::{Spec, ids};
    use super::*;
    use crate::units::Nanos;
    use proptest::prelude::*;

    fn batch_of(sectors: &[u64]) -> Batch {
        let mut batch = Batch::new();
        for (id, &sector) in (0..).zip(sectors) {
            batch.push(Spec { id, sector, ..Spec::default() }.build());
        }
        batch
    }

    #[test]
    fn requests_far_from_the_next_are_apart_in_any_order() {
        let limit = MergeLimit { max_sectors: 48 };
        for (sectors, end) in [
            (&[800, 400, 1200][..], Some(1208)),
            (&[800, 792, 784], Some(792)),
            (&[800, 400, 408], None),
            (&[0, 8], None),
        ] {
            let mut batch = batch_of(sectors);
            assert_eq!(batch.end_if_apart(limit), end.map(Sector), "{sectors:?}");
            batch.drain_first(|request| drop(ids(request)));
        }
    }

    proptest! {
        /// Nothing in a batch that is apart can be merged, and it is drained as it came.
        #[test]
        fn what_is_apart_is_not_merged(
            sectors in prop::collection::vec(0..40u64, 1..20),
            max_sectors in prop_oneof![Just(0), Just(8), Just(48)],
        ) {
            let limit = MergeLimit { max_sectors };
            let sectors: Vec<_> = sectors.iter().map(|sector| sector * 8).collect();
            let mut batch = batch_of(&sectors);
            let end = batch.end_if_apart(limit);
            let mut sent = Vec::new();
            batch.drain_first(|request| sent.push(request));
            prop_assert_eq!(batch.len(), 0);
            let merges = sent.windows(2).any(|pair| limit.joins(&pair[0], &pair[1]));
            let last = sent.last().expect("not empty").end();
            let drained: Vec<_> = sent.into_iter().flat_map(ids).collect();
            prop_assert!(drained.into_iter().eq(0..sectors.len() as u64));
            prop_assert!(end.is_none_or(|end| end == last && !merges));
        }

        /// Batch after batch, the order is the one in which mq-deadline sends them.
        #[test]
        fn order_is_mq_deadlines(
            batches in prop::collection::vec(
                prop::collection::vec((0..80u64, 1..4u32), 1..40), 1..5),
            max_sectors in prop_oneof![Just(0), Just(48)],
            spread in prop_oneof![Just(8), Just(1000)],
            front_merges in any::<bool>(),
        ) {
            let limit = MergeLimit { max_sectors };
            let options = MqDeadlineOptions { front_merges, ..MqDeadlineOptions::default() };
            let mut sched = MqDeadline::new(options, limit, None);
            let mut batch = Batch::new();
            let mut latest_pos = 0;
            for specs in batches {
                for (id, &(sector, len)) in (0..).zip(&specs) {
                    let spec = Spec { id, sector: sector * spread, len: len * 8, ..Spec::default() };
                    batch.push(spec.build());
                    sched.insert(Nanos(0), spec.build());
                }
                let mut sent = Vec::new();
                let (end_pos, merged) =
                    batch.drain_sorted(latest_pos, limit, front_merges, |r| sent.push(ids(r)));
                latest_pos = end_pos;
                prop_assert_eq!(merged + sent.len() as u64, specs.len() as u64);
                let flight = InFlight::default();
                let expected: Vec<_> =
                    std::iter::from_fn(|| sched.dispatch(Nanos(0), &flight)).map(ids).collect();
                prop_assert_eq!(sent, expected);
            }
        }
    }
}
