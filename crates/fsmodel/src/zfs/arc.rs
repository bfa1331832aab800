//! The adaptive replacement cache of ZFS as of 2009 (`arc.c` of pool version 13).
//!
//! ```text
//!   read once --> recent   --evicted--> its ghosts: a block that is read again shows that the list
//!     | used again            ^           was too short, and moves the target
//!     v                       |
//!   frequent  --evicted--> its ghosts
//! ```
//!
//! Ghosts are names of blocks without their data. Room for a block is made in the list that exceeds
//! its target, among data as long as there are any; metadata make room for themselves when they have
//! reached their limit. N. Megiddo and D. Modha, "ARC: a self-tuning, low overhead replacement
//! cache", FAST 2003.
//!
//! Invariants: each block is in one list; the lists with data hold no more than the size, and all
//! lists no more than twice the size.
use super::Record;
use std::collections::BTreeMap;
use zonal_blk::Nanos;

/// Uses of a block within this time count as one: `ARC_MINTIME`.
const SAME_USE: Nanos = Nanos(62_000_000);

/// The contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BlockKind {
    /// A record of a file.
    Data,
    /// An indirect block.
    Metadata,
}

/// A block: its kind, and its file and number.
pub(super) type Block = (BlockKind, Record);

/// A list of blocks: those with data, and their ghosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Recent,
    Frequent,
    RecentGhost,
    FrequentGhost,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    list: List,
    age: u64,
    used: Nanos,
}

/// The blocks of one kind in one list, least recently used first.
#[derive(Debug, Default)]
struct Ages {
    blocks: BTreeMap<u64, Record>,
    bytes: u64,
}

/// The cache.
#[derive(Debug)]
pub(super) struct Arc {
    size: u64,
    /// Target of the recent list.
    target: u64,
    /// Limit of metadata: `arc_meta_limit`.
    metadata_limit: u64,
    /// Bytes of a block, by kind.
    bytes: [u64; 2],
    entries: BTreeMap<Block, Entry>,
    /// By list and kind.
    lists: [[Ages; 2]; 4],
    uses: u64,
}

impl Arc {
    /// A cache of `size` bytes; `bytes` are those of a record and of an indirect block.
    pub(super) fn new(size: u64, metadata_limit: u64, bytes: [u64; 2]) -> Self {
        Arc {
            size,
            target: size / 2,
            metadata_limit,
            bytes,
            entries: BTreeMap::new(),
            lists: Default::default(),
            uses: 0,
        }
    }

    /// Whether a block is cached; if so, that is a use of it.
    pub(super) fn hit(&mut self, now: Nanos, block: Block) -> bool {
        let Some(&Entry { list, used, .. }) = self.entries.get(&block) else { return false };
        match list {
            List::Recent if now <= used + SAME_USE => self.put(used, block, List::Recent),
            List::Recent | List::Frequent => self.put(now, block, List::Frequent),
            List::RecentGhost | List::FrequentGhost => return false,
        }
        true
    }

    /// Adds a block that was read because it was not cached.
    pub(super) fn insert(&mut self, now: Nanos, block: Block) {
        let bytes = self.bytes[block.0 as usize];
        let ghost = self.entries.get(&block).map(|entry| entry.list);
        let list = match ghost {
            Some(List::RecentGhost | List::FrequentGhost) => List::Frequent,
            Some(cached) => cached,
            None => List::Recent,
        };
        self.adapt(ghost, bytes);
        self.remove(block);
        if bytes > self.size {
            return;
        }
        self.make_room(block.0, bytes, list);
        self.put(now, block, list);
        self.trim_ghosts();
    }

    /// Adds a block that was written: a new one, whatever was known about its last version.
    pub(super) fn write(&mut self, now: Nanos, block: Block) {
        self.remove(block);
        self.insert(now, block);
    }

    /// Moves the target towards the list whose ghost was read, by more if the other list has more
    /// ghosts.
    fn adapt(&mut self, ghost: Option<List>, bytes: u64) {
        let of = |list| self.total(list).max(1);
        let (recent, frequent) = (of(List::RecentGhost), of(List::FrequentGhost));
        match ghost {
            Some(List::RecentGhost) => {
                self.target += bytes * (frequent / recent).max(1);
            }
            Some(List::FrequentGhost) => {
                let step = bytes * (recent / frequent).max(1);
                self.target = self.target.saturating_sub(step);
            }
            // The cache is growing: so may the list.
            None if self.used() < self.size && self.total(List::Recent) + bytes > self.target => {
                self.target += bytes;
            }
            _ => {}
        }
        self.target = self.target.min(self.size);
    }

    /// Evicts blocks for a new one of a kind that goes to a list.
    fn make_room(&mut self, kind: BlockKind, bytes: u64, to: List) {
        let metadata = |arc: &Self| {
            let of = |list: List| arc.lists[list as usize][BlockKind::Metadata as usize].bytes;
            of(List::Recent) + of(List::Frequent)
        };
        while kind == BlockKind::Metadata && metadata(self) + bytes > self.metadata_limit {
            let from = self.victim(kind, bytes, to);
            if !self.evict(from, kind) {
                break;
            }
        }
        while self.used() + bytes > self.size {
            let first = self.victim(BlockKind::Data, bytes, to);
            let second = if first == List::Recent { List::Frequent } else { List::Recent };
            let data_first = [
                (first, BlockKind::Data),
                (second, BlockKind::Data),
                (first, BlockKind::Metadata),
                (second, BlockKind::Metadata),
            ];
            if !data_first.into_iter().any(|(list, kind)| self.evict(list, kind)) {
                break;
            }
        }
    }

    /// The list to evict from: that which exceeds its target, if there is enough of the kind in it.
    fn victim(&self, kind: BlockKind, bytes: u64, to: List) -> List {
        let has = |list: List| self.lists[list as usize][kind as usize].bytes >= bytes;
        let (preferred, other) = match to {
            List::Recent if self.target > self.total(List::Recent) => {
                (List::Frequent, List::Recent)
            }
            List::Recent => (List::Recent, List::Frequent),
            _ if self.size - self.target > self.total(List::Frequent) => {
                (List::Recent, List::Frequent)
            }
            _ => (List::Frequent, List::Recent),
        };
        if has(preferred) { preferred } else { other }
    }

    /// Makes a ghost of the least recently used block of a list and kind; returns whether there was
    /// one.
    fn evict(&mut self, from: List, kind: BlockKind) -> bool {
        let Some((_, &record)) = self.lists[from as usize][kind as usize].blocks.first_key_value()
        else {
            return false;
        };
        let block = (kind, record);
        let used = self.entries[&block].used;
        let ghost = if from == List::Recent { List::RecentGhost } else { List::FrequentGhost };
        self.put(used, block, ghost);
        true
    }

    /// Forgets the oldest ghosts when all lists exceed twice the size (`arc_adjust`): then recent
    /// blocks and their ghosts may no longer exceed the size.
    fn trim_ghosts(&mut self) {
        let all =
            |arc: &Self| arc.used() + arc.total(List::RecentGhost) + arc.total(List::FrequentGhost);
        if all(self) <= 2 * self.size {
            return;
        }
        while self.total(List::Recent) + self.total(List::RecentGhost) > self.size
            && self.forget(List::RecentGhost)
        {}
        while all(self) > 2 * self.size && self.forget(List::FrequentGhost) {}
    }

    fn forget(&mut self, ghosts: List) -> bool {
        let oldest = |kind: BlockKind| {
            let (&age, &record) =
                self.lists[ghosts as usize][kind as usize].blocks.first_key_value()?;
            Some((age, (kind, record)))
        };
        let Some((_, block)) =
            oldest(BlockKind::Data).into_iter().chain(oldest(BlockKind::Metadata)).min()
        else {
            return false;
        };
        self.remove(block);
        true
    }

    /// Puts a block at the young end of a list.
    fn put(&mut self, used: Nanos, block: Block, list: List) {
        let (kind, record) = block;
        self.uses += 1;
        let entry = Entry { list, age: self.uses, used };
        if let Some(old) = self.entries.insert(block, entry) {
            self.leave(kind, old);
        }
        let ages = &mut self.lists[list as usize][kind as usize];
        ages.blocks.insert(self.uses, record);
        ages.bytes += self.bytes[kind as usize];
    }

    fn remove(&mut self, block: Block) {
        if let Some(entry) = self.entries.remove(&block) {
            self.leave(block.0, entry);
        }
    }

    /// Takes a block with this entry off its list.
    fn leave(&mut self, kind: BlockKind, Entry { list, age, .. }: Entry) {
        let ages = &mut self.lists[list as usize][kind as usize];
        ages.blocks.remove(&age);
        ages.bytes -= self.bytes[kind as usize];
    }

    fn total(&self, list: List) -> u64 {
        self.lists[list as usize].iter().map(|ages| ages.bytes).sum()
    }

    fn used(&self) -> u64 {
        self.total(List::Recent) + self.total(List::Frequent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;
    use proptest::prelude::*;

    const SECOND: Nanos = Nanos(1_000_000_000);

    fn data(number: u64) -> Block {
        (BlockKind::Data, (FileId { owner: 0, number: 0 }, number))
    }

    /// Reads blocks, a second apart; returns how many were cached.
    fn read(arc: &mut Arc, now: &mut Nanos, blocks: impl Iterator<Item = u64>) -> usize {
        let mut hits = 0;
        for number in blocks {
            *now += SECOND;
            if arc.hit(*now, data(number)) {
                hits += 1;
            } else {
                arc.insert(*now, data(number));
            }
        }
        hits
    }

    #[test]
    fn blocks_used_twice_outlive_a_scan() {
        let (mut arc, mut now) = (Arc::new(100, 25, [1, 1]), Nanos(0));
        read(&mut arc, &mut now, 0..50);
        assert_eq!(read(&mut arc, &mut now, 0..50), 50);
        read(&mut arc, &mut now, 1000..2000);
        assert_eq!(read(&mut arc, &mut now, 0..50), 50);
    }

    #[test]
    fn a_cycle_a_little_longer_than_the_cache_hits_most_of_the_time() {
        let (mut arc, mut now) = (Arc::new(100, 25, [1, 1]), Nanos(0));
        read(&mut arc, &mut now, 0..106);
        let hits = read(&mut arc, &mut now, 0..106);
        assert!(hits > 80, "an LRU cache would have none: {hits}");
    }

    #[test]
    fn uses_at_the_same_time_count_once() {
        let mut arc = Arc::new(10, 2, [1, 1]);
        arc.insert(Nanos(0), data(0));
        assert!(arc.hit(SAME_USE, data(0)));
        assert_eq!((arc.total(List::Recent), arc.total(List::Frequent)), (1, 0));
        assert!(arc.hit(SAME_USE + Nanos(1), data(0)));
        assert_eq!((arc.total(List::Recent), arc.total(List::Frequent)), (0, 1));
    }

    #[test]
    fn ghosts_move_the_target_and_metadata_have_a_limit() {
        let (mut arc, mut now) = (Arc::new(100, 25, [1, 1]), Nanos(0));
        read(&mut arc, &mut now, 0..40);
        read(&mut arc, &mut now, 0..40);
        read(&mut arc, &mut now, 100..180);
        let before = arc.target;
        read(&mut arc, &mut now, 100..101);
        assert!(arc.target > before, "the recent list was too short");
        for number in 0..40 {
            arc.insert(now, (BlockKind::Metadata, (FileId { owner: 0, number: 0 }, number)));
        }
        let metadata = arc.lists[0][1].bytes + arc.lists[1][1].bytes;
        assert_eq!((metadata, arc.used()), (25, 100));
    }

    proptest! {
        #[test]
        fn lists_stay_within_the_size(
            steps in proptest::collection::vec((0_u64..60, any::<bool>(), 0_u8..4), 1..300)
        ) {
            let mut arc = Arc::new(40, 12, [4, 1]);
            for (at, (number, metadata, what)) in (0..).zip(steps) {
                let now = Nanos(at * 40_000_000);
                let kind = if metadata { BlockKind::Metadata } else { BlockKind::Data };
                let block = (kind, (FileId { owner: 0, number: 0 }, number));
                match what {
                    0 => arc.write(now, block),
                    _ if arc.hit(now, block) => {}
                    _ => arc.insert(now, block),
                }
                prop_assert!(arc.hit(now, block));
                prop_assert!(arc.used() <= 40 && arc.target <= 40);
                let metadata = arc.lists[0][1].bytes + arc.lists[1][1].bytes;
                prop_assert!(metadata <= 12, "{metadata}");
                let all: u64 = (0..4).map(|list| arc.lists[list].iter().map(|l| l.bytes).sum::<u64>()).sum();
                prop_assert!(all <= 80, "{all}");
                let blocks: usize = arc.lists.iter().flatten().map(|ages| ages.blocks.len()).sum();
                prop_assert_eq!(blocks, arc.entries.len());
            }
        }
    }
}
