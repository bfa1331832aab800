//! mq-deadline once more, slow and obvious: one list of what waits, searched from end to end.
use super::MqDeadlineOptions;
use crate::bio::PrioClass;
use crate::op::Op;
use crate::sched::elevator::InFlight;
use crate::sched::testing::Spec;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dir {
    Read,
    Write,
}

pub(super) struct Reference {
    options: MqDeadlineOptions,
    max_sectors: u32,
    /// In the order of arrival.
    waiting: Vec<Spec>,
    latest_pos: [[u64; 2]; 3],
    dir: Dir,
    batch: u32,
    starved: u32,
    /// Zones with a write in flight, if zones are locked.
    pub(super) locked: Option<Vec<bool>>,
}

fn dir_of(spec: &Spec) -> Option<Dir> {
    match spec.op {
        Op::Read => Some(Dir::Read),
        Op::Write => Some(Dir::Write),
        _ => None,
    }
}

impl Reference {
    pub(super) fn new(
        options: MqDeadlineOptions,
        max_sectors: u32,
        locked: Option<Vec<bool>>,
    ) -> Self {
        Reference {
            options,
            max_sectors,
            waiting: Vec::new(),
            latest_pos: [[0; 2]; 3],
            dir: Dir::Read,
            batch: 0,
            starved: 0,
            locked,
        }
    }

    pub(super) fn insert(&mut self, spec: Spec) {
        self.waiting.push(spec);
    }

    pub(super) fn dispatch(&mut self, now: u64, flight: &InFlight) -> Option<Vec<Spec>> {
        if let Some(at) = self.waiting.iter().position(|s| dir_of(s).is_none()) {
            return Some(vec![self.waiting.remove(at)]);
        }
        for class in [PrioClass::BestEffort, PrioClass::Idle] {
            let above = |s: &&Spec| s.prio.class() != class;
            let others = self.waiting.iter().any(|s| above(&s));
            let flying = flight.by_class[..class.index()].iter().any(|&n| n > 0);
            for dir in [Dir::Read, Dir::Write] {
                let aged = self
                    .of(class, dir)
                    .first()
                    .is_some_and(|&i| self.waiting[i].at + self.options.prio_aging_expire.0 <= now);
                if (others || flying)
                    && aged
                    && let Some(oldest) = self.oldest(class, dir, flight)
                {
                    (self.dir, self.batch) = (dir, 0);
                    return Some(self.take(oldest));
                }
            }
        }
        for class in PrioClass::ALL {
            let chosen = self.choose(class, now, flight);
            if let Some(chosen) = chosen {
                return Some(self.take(chosen));
            }
            if self.waiting.iter().any(|s| s.prio.class() == class)
                || flight.by_class[class.index()] > 0
            {
                return None;
            }
        }
        None
    }

    fn choose(&mut self, class: PrioClass, now: u64, flight: &InFlight) -> Option<usize> {
        if self.batch < self.options.fifo_batch
            && let Some(next) = self.next(class, self.dir, flight)
        {
            return Some(next);
        }
        let read = self.oldest(class, Dir::Read, flight);
        let write = self.oldest(class, Dir::Write, flight);
        let dir = match (read, write) {
            (None, None) => return None,
            (Some(_), None) => Dir::Read,
            (Some(_), Some(_)) if self.starved < self.options.writes_starved => {
                self.starved += 1;
                Dir::Read
            }
            (_, Some(_)) => {
                self.starved = 0;
                Dir::Write
            }
        };
        (self.dir, self.batch) = (dir, 0);
        let oldest = self.oldest(class, dir, flight)?;
        let expire = match dir {
            Dir::Read => self.options.read_expire.0,
            Dir::Write => self.options.write_expire.0,
        };
        let expired = self.waiting[oldest].at + expire <= now;
        match self.next(class, dir, flight) {
            Some(next) if !expired => Some(next),
            _ => Some(oldest),
        }
    }

    /// The requests that wait in a class and direction, in the order of arrival.
    fn of(&self, class: PrioClass, dir: Dir) -> Vec<usize> {
        (0..self.waiting.len())
            .filter(|&i| {
                self.waiting[i].prio.class() == class && dir_of(&self.waiting[i]) == Some(dir)
            })
            .collect()
    }

    fn may_go(&self, spec: &Spec) -> bool {
        let locked = |locked: &Vec<bool>| locked[usize::try_from(spec.zone()).unwrap()];
        spec.op == Op::Read || !self.locked.as_ref().is_some_and(locked)
    }

    fn holds(&self, dir: Dir, flight: &InFlight) -> bool {
        let depth = u64::from(self.options.async_depth);
        dir == Dir::Write && depth > 0 && flight.not_reads >= depth
    }

    fn next(&self, class: PrioClass, dir: Dir, flight: &InFlight) -> Option<usize> {
        if self.holds(dir, flight) {
            return None;
        }
        let from = self.latest_pos[class.index()][dir as usize];
        let mut next = self.of(class, dir);
        next.retain(|&i| self.waiting[i].sector >= from && self.may_go(&self.waiting[i]));
        next.sort_by_key(|&i| self.waiting[i].sector);
        self.first_of_zone(class, dir, next.first().copied())
    }

    fn oldest(&self, class: PrioClass, dir: Dir, flight: &InFlight) -> Option<usize> {
        if self.holds(dir, flight) {
            return None;
        }
        let mut all = self.of(class, dir);
        all.retain(|&i| self.may_go(&self.waiting[i]));
        self.first_of_zone(class, dir, all.first().copied())
    }

    fn first_of_zone(&self, class: PrioClass, dir: Dir, at: Option<usize>) -> Option<usize> {
        let at = at?;
        if self.locked.is_none() || dir == Dir::Read {
            return Some(at);
        }
        let mut zone: Vec<_> = self.of(class, dir);
        zone.retain(|&i| self.waiting[i].zone() == self.waiting[at].zone());
        zone.sort_by_key(|&i| self.waiting[i].sector);
        zone.first().copied()
    }

    /// Takes a request with its neighbours.
    fn take(&mut self, at: usize) -> Vec<Spec> {
        let first = self.waiting[at];
        let (class, dir) = (first.prio.class(), dir_of(&first).unwrap());
        let mut order = self.of(class, dir);
        order.sort_by_key(|&i| self.waiting[i].sector);
        let mut low = order.iter().position(|&i| i == at).unwrap();
        let mut high = low;
        let joins = |a: &Spec, b: &Spec, len: u32| {
            a.end() == b.sector
                && !a.nomerge
                && !b.nomerge
                && a.prio == b.prio
                && a.zone() == b.zone()
                && len <= self.max_sectors
        };
        let mut len = first.len;
        if self.options.front_merges {
            while low > 0 {
                let (a, b) = (self.waiting[order[low - 1]], self.waiting[order[low]]);
                if !joins(&a, &b, len + a.len) {
                    break;
                }
                len += a.len;
                low -= 1;
            }
        }
        while high + 1 < order.len() {
            let (a, b) = (self.waiting[order[high]], self.waiting[order[high + 1]]);
            if !joins(&a, &b, len + b.len) {
                break;
            }
            len += b.len;
            high += 1;
        }
        let taken: Vec<Spec> = order[low..=high].iter().map(|&i| self.waiting[i]).collect();
        self.waiting.retain(|s| !taken.iter().any(|t| t.id == s.id));
        self.batch += 1;
        self.latest_pos[class.index()][dir as usize] = taken.last().unwrap().sector;
        if let (Some(locked), Dir::Write) = (&mut self.locked, dir) {
            locked[usize::try_from(first.zone()).unwrap()] = true;
        }
        taken
    }
}
