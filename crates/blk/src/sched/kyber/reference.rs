//! Kyber once more, slow and obvious: all latencies are kept and sorted when they are asked about.
use super::KyberOptions;
use crate::op::Op;
use crate::sched::testing::Spec;

const MS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DomainKind {
    Read,
    Write,
    Discard,
    Other,
}

const KINDS: [DomainKind; 4] =
    [DomainKind::Read, DomainKind::Write, DomainKind::Discard, DomainKind::Other];

pub(super) fn kind_of(op: Op) -> DomainKind {
    match op {
        Op::Read => DomainKind::Read,
        Op::Write | Op::WriteZeroes | Op::ZoneAppend => DomainKind::Write,
        Op::Discard => DomainKind::Discard,
        _ => DomainKind::Other,
    }
}

fn most_tokens(kind: DomainKind) -> usize {
    match kind {
        DomainKind::Read => 256,
        DomainKind::Write => 128,
        DomainKind::Discard => 64,
        DomainKind::Other => 16,
    }
}

pub(super) fn turn_of(kind: DomainKind) -> usize {
    match kind {
        DomainKind::Read => 16,
        DomainKind::Write => 8,
        DomainKind::Discard | DomainKind::Other => 1,
    }
}

/// Latencies that wait to be looked at.
#[derive(Default)]
struct Seen {
    latencies: Vec<u64>,
    /// When they were looked at first, and too few.
    asked: Option<u64>,
}

impl Seen {
    /// The quarter of the target, from 0 to 7, in which the latency lies that this many of a hundred
    /// do not exceed.
    fn quarter(&mut self, now: u64, percent: usize, target: u64) -> Option<u64> {
        let n = self.latencies.len();
        if n == 0 || n < 500 && now < *self.asked.get_or_insert(now) + 1_000 * MS {
            return None;
        }
        self.latencies.sort_unstable();
        let nth = (1..=n).find(|&nth| nth * 100 >= n * percent).expect("all of them do");
        let latency = self.latencies[nth - 1];
        let quarter = (target / 4).max(1);
        *self = Seen::default();
        Some((0..7).find(|&i| latency <= (i + 1) * quarter).unwrap_or(7))
    }
}

pub(super) struct Reference {
    options: KyberOptions,
    max_sectors: u32,
    /// Of each kind, in the order of arrival.
    waiting: [Vec<Spec>; 4],
    flying: [usize; 4],
    pub(super) tokens: [usize; 4],
    in_all: [Seen; 4],
    at_device: [Seen; 4],
    /// Of the total latency, as it was when nothing was done about it.
    left: [Option<u64>; 4],
    turn: DomainKind,
    sent: usize,
    pub(super) counts_at: Option<u64>,
}

impl Reference {
    pub(super) fn new(options: KyberOptions, max_sectors: u32) -> Self {
        Reference {
            options,
            max_sectors,
            waiting: Default::default(),
            flying: [0; 4],
            tokens: KINDS.map(most_tokens),
            in_all: Default::default(),
            at_device: Default::default(),
            left: [None; 4],
            turn: DomainKind::Read,
            sent: 0,
            counts_at: None,
        }
    }

    pub(super) fn insert(&mut self, spec: Spec) {
        self.waiting[kind_of(spec.op) as usize].push(spec);
    }

    /// Whether one of the kind waits and there is a token for it.
    pub(super) fn is_ready(&self, kind: DomainKind) -> bool {
        let kind = kind as usize;
        !self.waiting[kind].is_empty() && self.flying[kind] < self.tokens[kind]
    }

    pub(super) fn dispatch(&mut self, now: u64) -> Option<Vec<Spec>> {
        self.count(now);
        // Whose turn it is, then the others, then the first again, with a turn of its own.
        let goes_on = self.sent < turn_of(self.turn);
        let turns = KINDS.iter().cycle().copied().skip(self.turn as usize).take(5);
        let next = turns.skip(usize::from(!goes_on)).find(|&kind| self.is_ready(kind));
        let Some(kind) = next else {
            self.sent = 0;
            return None;
        };
        self.sent = if kind == self.turn && goes_on { self.sent + 1 } else { 1 };
        self.turn = kind;
        self.flying[kind as usize] += 1;
        let waiting = &mut self.waiting[kind as usize];
        let mut count = 1;
        while count < waiting.len() {
            let (last, next) = (&waiting[count - 1], &waiting[count]);
            let len: u32 = waiting[..=count].iter().map(|spec| spec.len).sum();
            let joins = last.end() == next.sector
                && last.op == next.op
                && matches!(next.op, Op::Read | Op::Write)
                && last.prio == next.prio
                && last.is_async == next.is_async
                && !last.nomerge
                && !next.nomerge
                && len <= self.max_sectors;
            if !joins {
                break;
            }
            count += 1;
        }
        Some(waiting.drain(..count).collect())
    }

    fn target(&self, kind: DomainKind) -> u64 {
        match kind {
            DomainKind::Read => self.options.read_lat.0,
            DomainKind::Write => self.options.write_lat.0,
            DomainKind::Discard | DomainKind::Other => 5_000 * MS,
        }
    }

    pub(super) fn completed(&mut self, op: Op, queued_at: u64, sent_at: u64, now: u64) {
        self.count(now);
        let kind = kind_of(op);
        self.flying[kind as usize] -= 1;
        self.in_all[kind as usize].latencies.push(now - queued_at);
        self.at_device[kind as usize].latencies.push(now - sent_at);
        self.counts_at = self.counts_at.or(Some(now + 100 * MS));
    }

    /// Counts tokens anew if it is time.
    pub(super) fn count(&mut self, now: u64) {
        if self.counts_at.is_none_or(|at| now < at) {
            return;
        }
        self.counts_at = None;
        let limited = [DomainKind::Read, DomainKind::Write, DomainKind::Discard];
        let device = limited.map(|kind| {
            let target = self.target(kind);
            self.at_device[kind as usize].quarter(now, 90, target)
        });
        let total = limited.map(|kind| {
            let target = self.target(kind);
            self.in_all[kind as usize].quarter(now, 99, target)
        });
        let congested = device.into_iter().flatten().any(|quarter| quarter >= 4);
        for kind in limited {
            let i = kind as usize;
            let says = match total[i] {
                Some(quarter) => Some(quarter),
                None if congested => self.left[i],
                None => None,
            };
            if congested {
                self.left[i] = None;
            } else if total[i].is_some() {
                self.left[i] = total[i];
            }
            let Some(quarter) = says.filter(|&quarter| congested || quarter >= 4) else {
                continue;
            };
            let quarters = usize::try_from(quarter).expect("at most 7") + 1;
            self.tokens[i] = (self.tokens[i] * quarters / 4).max(1).min(most_tokens(kind));
        }
    }
}
