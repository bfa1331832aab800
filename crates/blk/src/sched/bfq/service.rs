//! Which queue is served next: B-WF2Q+ in integers.
//!
//! Each backlogged queue has a start and a finish time, in virtual time: the service done so far
//! divided by the sum of the weights of backlogged queues. Of the queues whose start has come, the
//! one with the earliest finish is served. So each gets its share of the sectors, and none waits
//! longer than one budget of each of the others (P. Valente, "Reducing the Execution Time of
//! Fair-Queueing Packet Schedulers", 2014; Linux 6.12 block/bfq-wf2q.c names the same source).

/// Virtual time has this many binary places, so that a sector at the greatest weight counts.
const PLACES: u32 = 24;

/// A point in virtual time. Wide enough for a century of the fastest device at weight 1.
pub(super) type VirtualTime = u128;

/// How long `sectors` take a queue of `weight`, in virtual time.
pub(super) fn span(sectors: u64, weight: u64) -> VirtualTime {
    // A budget has fewer than 2^40 sectors, and a division of 128 bits costs five of 64.
    VirtualTime::from((sectors << PLACES) / weight.max(1))
}

/// A queue's place in virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timestamps {
    pub(super) start: VirtualTime,
    pub(super) finish: VirtualTime,
    /// The weight with which they were computed.
    pub(super) weight: u64,
}

impl Timestamps {
    /// The queue is backlogged from virtual time `at` on, and starts not before its last finish.
    fn begin(&mut self, at: VirtualTime, budget: u64, weight: u64) {
        self.start = self.finish.max(at);
        self.finish = self.start + span(budget, weight);
        self.weight = weight;
    }

    /// The queue was served `sectors`, fewer or more than its budget.
    pub(super) fn end(&mut self, sectors: u64) {
        self.finish = self.start + span(sectors, self.weight);
    }
}

/// The backlogged queues of one priority class.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Indices of queues. Few, one for each process, and searched once a slot.
    pub(super) backlogged: Vec<usize>,
    pub(super) now: VirtualTime,
    /// The sum of their weights.
    pub(super) weight: u64,
}

impl Tree {
    /// Adds a backlogged queue. One that has been backlogged all along (`still`) starts at its last
    /// finish, however long ago that is, so that it gets what it is owed.
    pub(super) fn add(
        &mut self,
        queue: usize,
        stamps: &mut Timestamps,
        budget: u64,
        weight: u64,
        still: bool,
    ) {
        stamps.begin(if still { stamps.finish } else { self.now }, budget, weight);
        self.backlogged.push(queue);
        self.weight += weight;
    }

    pub(super) fn remove(&mut self, queue: usize, stamps: &Timestamps) {
        let at = self.backlogged.iter().position(|&q| q == queue);
        self.backlogged.swap_remove(at.expect("the queue wants service"));
        self.weight -= stamps.weight;
    }

    /// Advances virtual time by the service done.
    pub(super) fn served(&mut self, sectors: u64) {
        self.now += span(sectors, self.weight);
    }

    /// The queue to serve. Virtual time jumps ahead if no start has come.
    pub(super) fn choose(&mut self, stamps: impl Fn(usize) -> Timestamps) -> Option<usize> {
        let starts = self.backlogged.iter().map(|&q| stamps(q).start);
        self.now = self.now.max(starts.min()?);
        let eligible = self.backlogged.iter().filter(|&&q| stamps(q).start <= self.now);
        // Ties go to the lower index: the process that was there first.
        eligible.copied().min_by_key(|&q| (stamps(q).finish, q))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_shared_by_weight() {
        let weights = [100, 300, 50];
        let mut stamps = [Timestamps::default(); 3];
        let mut tree = Tree::default();
        for (queue, weight) in weights.into_iter().enumerate() {
            tree.add(queue, &mut stamps[queue], 64, weight, false);
        }
        let mut served = [0; 3];
        for _ in 0..4500 {
            let queue = tree.choose(|q| stamps[q]).unwrap();
            served[queue] += 64;
            tree.served(64);
            tree.remove(queue, &stamps[queue]);
            stamps[queue].end(64);
            tree.add(queue, &mut stamps[queue], 64, weights[queue], true);
        }
        assert_eq!(served, [1000 * 64, 3000 * 64, 500 * 64]);
    }
}
