//! bfq once more, slow and obvious: lists that are searched from end to end, averages that are
//! computed from all that was ever seen, and times that are found by trying.
use super::BfqOptions;
use crate::bio::PrioClass;
use crate::op::Op;
use crate::sched::elevator::CompletedRequest;
use crate::sched::testing::Spec;

const MS: u64 = 1_000_000;

/// The synchronous or the asynchronous requests of a process.
#[derive(Clone)]
struct Process {
    number: u32,
    is_async: bool,
    /// In the order of arrival.
    waiting: Vec<Spec>,
    flying: usize,
    class: PrioClass,
    level: u8,
    budget: u64,
    raised_until: u64,
    /// When nothing waited or flew any more, and how long it took to go on, each time.
    idle_since: Option<u64>,
    pauses: Vec<u64>,
    /// Where the last command ended.
    position: u64,
    /// In the tree, with the weight that it counts there, and whether that is raised.
    counted: Option<u64>,
    raised: bool,
    begins: u128,
    ends: u128,
    /// Sectors that were sent during others' turns, since it began to wait for its own.
    injected: u64,
    /// How many commands may be with the device while it idles for this one; how long a first
    /// request takes without them; and when the limit last fell.
    limit: usize,
    base: Option<u64>,
    fell: Option<u64>,
}

#[derive(Clone)]
struct Turn {
    owner: usize,
    since: u64,
    served: u64,
    commands: usize,
    /// Since when a request is measured, and when it was sent.
    measured: Option<(u64, Option<u64>)>,
    injects: bool,
}

#[derive(Clone)]
pub(super) struct Reference {
    options: BfqOptions,
    max_sectors: u32,
    rotational: bool,
    first: Vec<Spec>,
    /// In the order of their first I/O.
    processes: Vec<Process>,
    weights: Vec<(u32, u16)>,
    turn: Option<Turn>,
    virtual_now: [u128; 3],
    most_flying: usize,
    /// When commands ended, how long they were, and whether others were with the device then.
    ended: Vec<(u64, u64, bool)>,
}

/// How long `sectors` take for a process of weight `weight`: in 2^-24 sectors, rounded down.
fn virtual_time(sectors: u64, weight: u64) -> u128 {
    u128::from(sectors) * (1 << 24) / u128::from(weight)
}

fn passes_the_sort(op: Op) -> bool {
    !matches!(op, Op::Read | Op::Write | Op::WriteZeroes | Op::ZoneAppend | Op::Discard)
}

impl Reference {
    pub(super) fn new(options: BfqOptions, max_sectors: u32, rotational: bool) -> Self {
        Reference {
            options,
            max_sectors,
            rotational,
            first: Vec::new(),
            processes: Vec::new(),
            weights: Vec::new(),
            turn: None,
            virtual_now: [0; 3],
            most_flying: 0,
            ended: Vec::new(),
        }
    }

    pub(super) fn set_weight(&mut self, process: u32, weight: u16) {
        self.weights.push((process, weight));
    }

    fn find(&self, number: u32, is_async: bool) -> Option<usize> {
        self.processes.iter().position(|p| p.number == number && p.is_async == is_async)
    }

    pub(super) fn insert(&mut self, now: u64, spec: Spec) {
        if passes_the_sort(spec.op) {
            return self.first.push(spec);
        }
        let owner = self.find(spec.process, spec.is_async).unwrap_or_else(|| {
            self.processes.push(Process {
                number: spec.process,
                is_async: spec.is_async,
                waiting: Vec::new(),
                flying: 0,
                class: PrioClass::BestEffort,
                level: 0,
                budget: self.max_budget(),
                raised_until: 0,
                idle_since: None,
                pauses: Vec::new(),
                position: 0,
                counted: None,
                raised: false,
                begins: 0,
                ends: 0,
                injected: 0,
                limit: 0,
                base: None,
                fell: None,
            });
            self.processes.len() - 1
        });
        let turn = self.turn.as_ref().filter(|turn| turn.owner == owner);
        let mut serving = turn.is_some();
        if let Some(served) = turn.map(|turn| turn.served)
            && self.processes[owner].waiting.is_empty()
            && self.processes[owner].class != spec.prio.class()
        {
            self.end_turn(now, served);
            serving = false;
        }
        self.processes[owner].waiting.push(spec);
        if self.processes[owner].waiting.len() > 1 {
            return;
        }
        self.resume(owner, now);
        if !serving {
            self.enter(owner, now, false);
        }
    }

    /// Something comes to a process that had nothing waiting.
    fn resume(&mut self, owner: usize, now: u64) {
        let p = &mut self.processes[owner];
        if p.flying == 0 {
            if let Some(since) = p.idle_since {
                p.pauses.push((now - since).min(2 * self.options.slice_idle.0));
            }
            let anew = p.idle_since.is_none_or(|since| now - since >= 2_000 * MS);
            if anew && self.options.low_latency && !p.is_async {
                p.raised_until = now + if self.rotational { 7_000 } else { 3_000 } * MS;
            }
        }
        if !p.is_async {
            self.measure(owner, now);
        }
    }

    /// Whether a batch that has just come can be sent immediately: nothing else waits, it is its process's
    /// turn, and all of it fits into that. If so, returns where the process sent last, and the batch is
    /// charged.
    pub(super) fn take_batch(&mut self, now: u64, batch: &[Spec]) -> Option<u64> {
        let (process, class) = (batch[0].process, batch[0].prio.class());
        let owner = self.find(process, batch[0].is_async)?;
        let turn = self.turn.as_ref().filter(|turn| turn.owner == owner)?;
        let charge = self.charge(owner, batch.iter().map(|spec| spec.len).sum());
        let is_alone = self.first.is_empty() && self.processes.iter().all(|p| p.waiting.is_empty());
        let in_time = now < turn.since + self.options.timeout_sync.0;
        let fits = turn.served + charge <= self.processes[owner].budget;
        if !is_alone || !in_time || !fits || self.processes[owner].class != class {
            return None;
        }
        self.resume(owner, now);
        self.charge_turn(now, charge);
        Some(self.processes[owner].position)
    }

    /// The process whose turn it is sends something that it is charged for.
    fn charge_turn(&mut self, now: u64, charge: u64) {
        let turn = self.turn.as_mut().expect("a process has its turn");
        if let Some((_, sent @ None)) = &mut turn.measured {
            *sent = Some(now);
        }
        turn.served += charge;
        turn.commands += 1;
        let owner = turn.owner;
        self.advance(owner, charge);
    }

    /// Virtual time goes on by what a process is charged.
    fn advance(&mut self, owner: usize, charge: u64) {
        let class = self.processes[owner].class;
        let in_class = self.processes.iter().filter(|p| p.class == class);
        let weights = in_class.filter_map(|p| p.counted).sum();
        self.virtual_now[class.index()] += virtual_time(charge, weights);
    }

    /// The batch was sent as this many commands, of which the last ends at `end`.
    pub(super) fn sent_batch(&mut self, commands: usize, end: u64) {
        let owner = self.turn.as_ref().expect("a process has its turn").owner;
        self.processes[owner].position = end;
        self.processes[owner].flying += commands;
    }

    fn flying(&self) -> usize {
        self.processes.iter().map(|p| p.flying).sum()
    }

    fn thinks_soon(&self, owner: usize) -> bool {
        self.pause(owner).is_none_or(|pause| pause <= self.options.slice_idle.0)
    }

    /// A request has come to a process that had none waiting: it is measured if that tells how much
    /// what is injected delays it.
    fn measure(&mut self, owner: usize, now: u64) {
        let (flying, soon) = (self.flying(), self.thinks_soon(owner));
        let p = &mut self.processes[owner];
        if p.fell.is_none_or(|fell| now - fell >= 1_000 * MS) {
            (p.limit, p.base, p.fell) = (usize::from(!soon), None, Some(now));
            if let Some(turn) = &mut self.turn {
                turn.measured.take_if(|(_, sent)| sent.is_some());
            }
        }
        let p = &self.processes[owner];
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.owner == owner) else {
            return;
        };
        if p.fell.is_none_or(|fell| now - fell < 10 * MS) {
            return;
        }
        if flying == 0 {
            turn.injects = false;
            turn.measured = Some((now, None));
        } else if turn.injects && p.base.is_some() {
            turn.measured = Some((now, None));
        }
    }

    /// Puts a process into the tree. One that still wants service goes on from where its last turn
    /// ended, though virtual time be ahead; but each class has a time of its own.
    fn enter(&mut self, owner: usize, now: u64, still: bool) {
        let p = &mut self.processes[owner];
        let prio = p.waiting[0].prio;
        let same = p.class == prio.class();
        (p.class, p.level) = (prio.class(), prio.level());
        let virtual_now = self.virtual_now[prio.class().index()];
        let begins = match (same, still) {
            (true, true) => p.ends,
            (true, false) => p.ends.max(virtual_now),
            (false, _) => virtual_now,
        };
        let weight = self.weight(owner);
        let p = &mut self.processes[owner];
        p.raised = now < p.raised_until;
        let weight = if p.raised { weight * 30 } else { weight };
        p.counted = Some(weight);
        p.begins = begins;
        p.ends = begins + virtual_time(p.budget, weight);
    }

    fn weight(&self, owner: usize) -> u64 {
        let p = &self.processes[owner];
        let set = self.weights.iter().rev().find(|(process, _)| *process == p.number);
        match set {
            Some(&(_, weight)) => u64::from(weight),
            None => (8 - u64::from(p.level)) * 10,
        }
    }

    pub(super) fn dispatch(&mut self, now: u64) -> Option<Vec<Spec>> {
        if !self.first.is_empty() {
            return Some(vec![self.first.remove(0)]);
        }
        if self.processes.iter().all(|p| p.waiting.is_empty()) {
            return None;
        }
        if self.options.strict_guarantees && self.processes.iter().any(|p| p.flying > 0) {
            return None;
        }
        loop {
            let Some(Turn { owner, since, served, commands, .. }) = self.turn.clone() else {
                let owner = self.choose()?;
                let served = std::mem::take(&mut self.processes[owner].injected);
                let (measured, injects) = (None, false);
                self.turn =
                    Some(Turn { owner, since: now, served, commands: 0, measured, injects });
                continue;
            };
            let budget = self.processes[owner].budget;
            if self.processes[owner].waiting.is_empty() {
                if self.is_kept(owner, now) {
                    return self.inject(owner, now);
                }
                self.end_turn(now, served);
                continue;
            }
            if now >= since + self.options.timeout_sync.0 {
                self.end_turn(now, budget * 2);
                continue;
            }
            let next = self.next(owner, now, commands == 0);
            let charge = self.charge(owner, self.processes[owner].waiting[next].len);
            if served > 0 && served + charge > budget {
                self.end_turn(now, budget * 4);
                continue;
            }
            let taken = self.take(owner, next);
            self.charge_turn(now, self.charge(owner, taken.iter().map(|spec| spec.len).sum()));
            return Some(taken);
        }
    }

    /// Sends something of another process while the device is kept for `owner`.
    fn inject(&mut self, owner: usize, now: u64) -> Option<Vec<Spec>> {
        let affordable = |i: usize| {
            let p = &self.processes[i];
            let next = (!p.waiting.is_empty()).then(|| &p.waiting[self.next(i, now, false)])?;
            let left = p.budget.checked_sub(p.injected)?;
            (self.charge(i, next.len) <= left).then_some(next.len)
        };
        let own = self.find(self.processes[owner].number, true);
        let own = own.filter(|&own| own != owner && affordable(own).is_some());
        let flying = self.flying();
        let mut others: Vec<usize> = (0..self.processes.len()).collect();
        others.retain(|&i| {
            let large = affordable(i).map(|sectors| sectors >= 64);
            let limit = self.processes[owner].limit;
            !self.rotational
                && (self.processes[i].raised || !self.processes[owner].raised)
                && large.is_some_and(|large| flying < if large { limit.min(1) } else { limit })
        });
        others.sort_by_key(|&i| (self.processes[i].class.index(), self.processes[i].ends));
        let chosen = own.or(others.first().copied())?;
        let turn = self.turn.as_mut()?;
        turn.injects |= own.is_none();
        let next = self.next(chosen, now, false);
        let taken = self.take(chosen, next);
        let charge = self.charge(chosen, taken.iter().map(|spec| spec.len).sum());
        self.processes[chosen].injected += charge;
        self.advance(chosen, charge);
        let p = &mut self.processes[chosen];
        if p.waiting.is_empty() {
            let weight = p.counted.take().expect("it waits for its turn");
            p.ends = p.begins + virtual_time(std::mem::take(&mut p.injected), weight);
        }
        Some(taken)
    }

    /// The first time after `now` at which something is given, without a further request or completion.
    pub(super) fn when_next(&self, now: u64) -> Option<u64> {
        let raised = self.processes.iter().map(|p| p.raised_until);
        let idle = self.processes.iter().filter_map(|p| p.idle_since);
        let idle = idle.map(|since| since + self.options.slice_idle.0);
        let mut times: Vec<u64> = raised.chain(idle).filter(|&at| at > now).collect();
        times.sort_unstable();
        times.into_iter().find(|&at| self.clone().dispatch(at).is_some())
    }

    /// Whether the device is kept for a process with nothing waiting.
    fn is_kept(&self, owner: usize, now: u64) -> bool {
        let p = &self.processes[owner];
        let slice_idle = self.options.slice_idle.0;
        let in_time = p.flying > 0 || p.idle_since.is_some_and(|since| now < since + slice_idle);
        let mut backlogged = self.processes.iter().filter(|other| other.counted.is_some());
        let crowded = self.flying() >= backlogged.clone().count() + 4;
        let differ = backlogged.any(|other| (other.class, other.counted) != (p.class, p.counted));
        let soon = self.thinks_soon(owner);
        let pays = self.rotational || p.raised && crowded || differ;
        let wise = slice_idle > 0 && !p.is_async && p.class != PrioClass::Idle && soon && pays;
        in_time && (wise || self.options.strict_guarantees)
    }

    /// The mean pause, the last counting for an eighth.
    fn pause(&self, owner: usize) -> Option<u64> {
        let pauses = self.processes[owner].pauses.iter().copied();
        pauses.reduce(|mean, pause| (7 * mean + pause) / 8)
    }

    /// B-WF2Q+ in each class, the most urgent class first.
    fn choose(&mut self) -> Option<usize> {
        for class in PrioClass::ALL {
            let mut backlogged: Vec<usize> = (0..self.processes.len()).collect();
            backlogged.retain(|&i| {
                self.processes[i].counted.is_some() && self.processes[i].class == class
            });
            let Some(begins) = backlogged.iter().map(|&i| self.processes[i].begins).min() else {
                continue;
            };
            let virtual_now = &mut self.virtual_now[class.index()];
            *virtual_now = begins.max(*virtual_now);
            backlogged.retain(|&i| self.processes[i].begins <= *virtual_now);
            backlogged.sort_by_key(|&i| self.processes[i].ends);
            return Some(backlogged[0]);
        }
        None
    }

    fn end_turn(&mut self, now: u64, budget: u64) {
        let Turn { owner, served, .. } = self.turn.take().expect("a process has its turn");
        let max_budget = self.max_budget();
        let p = &mut self.processes[owner];
        let weight = p.counted.take().expect("the process in service is in the tree");
        p.ends = p.begins + virtual_time(served, weight);
        p.budget = budget.min(max_budget).max(max_budget / 32).max(1);
        if !p.waiting.is_empty() {
            self.enter(owner, now, true);
        }
    }

    pub(super) fn max_budget(&self) -> u64 {
        if self.options.max_budget > 0 {
            return u64::from(self.options.max_budget);
        }
        let window = self.options.timeout_sync.0;
        let (mut budget, mut since, mut done) = (16_384, None, 0);
        for &(at, sectors, busy) in &self.ended {
            if let Some(began) = since {
                done += sectors;
                let time = at - began;
                if time >= window {
                    budget = (budget * 7 + done * window / time) / 8;
                    budget = budget.max(32);
                    since = None;
                }
            }
            if !busy {
                since = None;
            } else if since.is_none() {
                (since, done) = (Some(at), 0);
            }
        }
        budget
    }

    fn charge(&self, owner: usize, sectors: u32) -> u64 {
        u64::from(sectors) * if self.processes[owner].is_async { 3 } else { 1 }
    }

    /// The next request of a process.
    fn next(&self, owner: usize, now: u64, begins: bool) -> usize {
        let p = &self.processes[owner];
        let expire = match p.is_async {
            true => self.options.fifo_expire_async.0,
            false => self.options.fifo_expire_sync.0,
        };
        if begins && p.waiting[0].at + expire <= now {
            return 0;
        }
        let reach = u64::from(self.options.back_seek_max) * 2;
        let penalty = u64::from(self.options.back_seek_penalty);
        let cost = |(arrival, spec): (i64, &Spec)| match p.position.checked_sub(spec.sector) {
            None | Some(0) => (0, spec.sector - p.position, 0, arrival),
            // Of several at one sector the last is met first on the way back.
            Some(back) if back <= reach => (0, back * penalty, 1, -arrival),
            Some(_) => (1, spec.sector, 0, arrival),
        };
        let costs: Vec<_> = (0..).zip(&p.waiting).map(cost).collect();
        let least = costs.iter().min().expect("something waits");
        costs.iter().position(|cost| cost == least).expect("it is one of them")
    }

    /// Sends a request with its neighbours.
    fn take(&mut self, owner: usize, at: usize) -> Vec<Spec> {
        let p = &mut self.processes[owner];
        let mut order = p.waiting.clone();
        order.sort_by_key(|spec| spec.sector);
        let mut low = order.iter().position(|spec| spec.id == p.waiting[at].id).unwrap();
        let mut high = low;
        let joins = |low: usize, high: usize, a: usize| {
            let (a, b) = (&order[a], &order[a + 1]);
            a.end() == b.sector
                && a.op == b.op
                && matches!(a.op, Op::Read | Op::Write)
                && a.prio == b.prio
                && !a.nomerge
                && !b.nomerge
                && order[low..=high].iter().map(|spec| spec.len).sum::<u32>() <= self.max_sectors
        };
        while low > 0 && joins(low - 1, high, low - 1) {
            low -= 1;
        }
        while high + 1 < order.len() && joins(low, high + 1, high) {
            high += 1;
        }
        let taken = order[low..=high].to_vec();
        p.waiting.retain(|spec| !taken.iter().any(|taken| taken.id == spec.id));
        p.position = order[high].end();
        p.flying += 1;
        taken
    }

    pub(super) fn completed(&mut self, end: &CompletedRequest) {
        if passes_the_sort(end.op) {
            return;
        }
        let owner = self.find(end.process, end.is_async).expect("it has done I/O");
        let flying = self.flying();
        self.most_flying = self.most_flying.max(flying);
        if let Some(turn) = &mut self.turn
            && turn.owner == owner
            && let Some((came, Some(sent))) = turn.measured
            && sent == end.sent_at.0
        {
            let injects = turn.injects;
            (turn.measured, turn.injects) = (None, false);
            self.learn(owner, end.at.0, end.at.0 - came, injects, flying);
        }
        let p = &mut self.processes[owner];
        p.flying -= 1;
        if p.flying == 0 && p.waiting.is_empty() {
            p.idle_since = Some(end.at.0);
        }
        let busy = self.processes.iter().any(|p| p.flying > 0);
        self.ended.push((end.at.0, u64::from(end.nr_sectors), busy));
    }

    /// Adapts the limit to a measured request.
    fn learn(&mut self, owner: usize, now: u64, took: u64, injects: bool, flying: usize) {
        let most = self.most_flying;
        let p = &mut self.processes[owner];
        let Some(base) = p.base else {
            if flying == 1 {
                p.limit = p.limit.max(1);
                p.base = Some(took).filter(|&took| took > 0);
            }
            return;
        };
        if injects && took >= base * 3 / 2 {
            if p.limit > 0 {
                (p.limit, p.fell) = (p.limit - 1, Some(now));
            }
        } else if injects && p.limit <= most {
            p.limit += 1;
        }
        if took < base || !injects && flying == 1 {
            p.base = Some(took).filter(|&took| took > 0);
        }
    }
}
