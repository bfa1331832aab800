//! Tokens, turns and latency targets of kyber, case by case and against a plain model of it.
use super::reference::{DomainKind, Reference, kind_of, turn_of};
use super::*;
use crate::bio::{Prio, PrioClass};
use crate::sched::batch::Batch;
use crate::sched::handle::note_completions;
use crate::sched::testing::{Spec, ids};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn scheduler() -> Kyber {
    Kyber::new(KyberOptions::default(), MergeLimit { max_sectors: 0 })
}

/// The tokens of reads and of writes.
fn tokens(sched: &Kyber) -> (u32, u32) {
    (sched.domains[READ].tokens, sched.domains[WRITE].tokens)
}

fn insert(sched: &mut Kyber, op: Op, count: u64) {
    for id in 0..count {
        sched.insert(Nanos(0), Spec { id, op, sector: id * 8, ..Spec::default() }.build());
    }
}

fn dispatch(sched: &mut Kyber, now: u64) -> Option<(Op, CompletedRequest)> {
    let mut request = sched.dispatch(Nanos(now), &InFlight::default())?;
    request.sent_at = Nanos(now);
    let end = CompletedRequest::new(Nanos(now), &request);
    ids(request);
    Some((end.op, end))
}

/// Runs commands at depth 64 for `periods` of a tenth of a second, each command taking `latency`.
fn run(sched: &mut Kyber, op: Op, latency: u64, periods: u64, start: u64) -> u64 {
    let mut now = start;
    while now < start + periods * 100 * MS + MS {
        insert(sched, op, 64);
        let sent: Vec<_> = (0..64).map_while(|_| dispatch(sched, now)).collect();
        now += latency;
        for (_, mut end) in sent {
            end.at = Nanos(now);
            end.queued_at = end.sent_at;
            sched.completed(&end);
        }
        while let Some((_, mut end)) = dispatch(sched, now) {
            end.at = Nanos(now);
            end.queued_at = end.sent_at;
            sched.completed(&end);
        }
    }
    now
}

#[test]
fn completions_of_other_processes_and_lengths_are_alike_unless_that_matters() {
    let specs = [(0, 8, 0), (1, 8, 0), (1, 16, 0), (1, 16, 5)];
    let done = specs.map(|(process, len, at)| Spec { process, len, at, ..Spec::default() }.build());
    let counts = |by_process| {
        let mut runs = Vec::new();
        note_completions(Nanos(9), &done, by_process, &mut runs);
        runs.iter().map(|run| run.count).collect::<Vec<_>>()
    };
    assert_eq!(counts(false), [3, 1]);
    assert_eq!(counts(true), [1, 1, 1, 1]);
    done.into_iter().for_each(|request| drop(ids(request)));
}

#[test]
fn kinds_take_turns_of_sixteen_reads_and_eight_writes() {
    let mut sched = scheduler();
    insert(&mut sched, Op::Read, 40);
    insert(&mut sched, Op::Write, 20);
    let order: Vec<_> = std::iter::from_fn(|| dispatch(&mut sched, 0)).map(|(op, _)| op).collect();
    let turns: Vec<_> = order.chunk_by(|a, b| a == b).map(|turn| (turn[0], turn.len())).collect();
    let (r, w) = (Op::Read, Op::Write);
    assert_eq!(turns, [(r, 16), (w, 8), (r, 16), (w, 8), (r, 8), (w, 4)]);
}

#[test]
fn no_more_commands_are_sent_than_there_are_tokens() {
    let mut sched = scheduler();
    insert(&mut sched, Op::Write, 200);
    let sent: Vec<_> = std::iter::from_fn(|| dispatch(&mut sched, 0)).collect();
    assert_eq!(sent.len(), 128);
    sched.completed(&sent[0].1);
    assert!(dispatch(&mut sched, 0).is_some());
    assert!(dispatch(&mut sched, 0).is_none());
    for _ in 0..128 {
        sched.completed(&sent[0].1);
    }
    while let Some((_, end)) = dispatch(&mut sched, 0) {
        sched.completed(&end);
    }
}

#[test]
fn tokens_adapt_to_the_latency_targets() {
    let mut sched = scheduler();
    // Writes that take longer than their target at the device: a congested device. Reads meet
    // theirs easily and are cut back so that they do not crowd it.
    let now = run(&mut sched, Op::Read, MS / 4, 3, 0);
    assert_eq!(tokens(&sched), (256, 128));
    let now = run(&mut sched, Op::Write, 25 * MS, 12, now);
    assert!(tokens(&sched).0 < 256, "{:?}", tokens(&sched));
    // A slow read alone asks for more read tokens.
    let before = tokens(&sched).0;
    run(&mut sched, Op::Read, 5 * MS, 12, now);
    assert!(tokens(&sched).0 > before, "{:?}", tokens(&sched));
}

#[test]
fn tokens_are_counted_a_tenth_of_a_second_after_the_first_end() {
    let mut sched = scheduler();
    insert(&mut sched, Op::Read, 1);
    assert_eq!(sched.next_event(), None);
    let (_, mut end) = dispatch(&mut sched, 0).unwrap();
    end.at = Nanos(7);
    sched.completed(&end);
    assert_eq!(sched.next_event(), Some(Nanos(7 + 100 * MS)));
    assert!(dispatch(&mut sched, 6 + 100 * MS).is_none());
    assert!(sched.next_event().is_some());
    assert!(dispatch(&mut sched, 7 + 100 * MS).is_none());
    assert_eq!(sched.next_event(), None);
}

#[test]
fn percentile_is_the_bucket_that_so_many_do_not_exceed() {
    let mut latencies = Latencies::default();
    let target = Nanos(4000);
    for i in 0..1000 {
        let latency = if i < 900 { 1000 } else { 4001 };
        latencies.add(Nanos(latency), target, 1);
    }
    assert_eq!(latencies.percentile(Nanos(0), 90), Some(0));
    assert_eq!(latencies.percentile(Nanos(0), 90), None);
    latencies.add(Nanos(4001), target, 500);
    assert_eq!(latencies.percentile(Nanos(0), 99), Some(GOOD));
}

#[test]
fn few_samples_say_something_after_a_second() {
    let mut latencies = Latencies::default();
    latencies.add(Nanos(99_000), Nanos(4000), 1);
    assert_eq!(latencies.percentile(Nanos(5), 90), None);
    assert_eq!(latencies.percentile(Nanos(1_000_000_004), 90), None);
    assert_eq!(latencies.percentile(Nanos(1_000_000_005), 90), Some(7));
}

#[derive(Clone, Debug)]
enum KyberStep {
    Insert(Spec),
    /// Many of a kind together.
    Fill(Op, u32),
    /// Some of a kind as a batch, the second half right after one another.
    Batch(Op, u32),
    /// Inserts and dispatches in one step.
    Pass(Spec),
    Advance(u64),
    /// Advances to when the scheduler says that it counts tokens.
    Wait,
    Dispatch(usize),
    /// Ends the n-th command in flight.
    End(usize),
    /// Ends as many of the oldest.
    EndOldest(usize),
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => Just(Op::Read),
        8 => Just(Op::Write),
        1 => Just(Op::WriteZeroes),
        2 => Just(Op::Discard),
        2 => Just(Op::Flush)
    ]
}

fn any_spec() -> impl Strategy<Value = Spec> {
    (0..40u64, 1..3u32, any_op(), 0..20u32).prop_map(|(sector, len, op, odd)| Spec {
        sector: sector * 8,
        len: len * 8,
        op,
        prio: Prio::new(PrioClass::BestEffort, if odd == 0 { 0 } else { 4 }),
        nomerge: odd == 1,
        is_async: odd == 2,
        ..Spec::default()
    })
}

fn any_step() -> impl Strategy<Value = KyberStep> {
    let time = prop_oneof![
        10 => 0..MS,
        5 => 0..40 * MS,
        2 => 0..2_000 * MS
    ];
    prop_oneof![
        6 => any_spec().prop_map(KyberStep::Insert),
        4 => (any_op(), 1..300u32).prop_map(|(op, count)| KyberStep::Fill(op, count)),
        6 => (any_op(), 1..100u32).prop_map(|(op, count)| KyberStep::Batch(op, count)),
        4 => any_spec().prop_map(KyberStep::Pass),
        4 => time.prop_map(KyberStep::Advance),
        1 => Just(KyberStep::Wait),
        8 => (1..200usize).prop_map(KyberStep::Dispatch),
        3 => any::<usize>().prop_map(KyberStep::End),
        6 => (1..300usize).prop_map(KyberStep::EndOldest),
    ]
}

fn any_options() -> impl Strategy<Value = KyberOptions> {
    let latency = || prop_oneof![1..10u64, 1..100 * MS, 1..5_000 * MS].prop_map(Nanos);
    (latency(), latency()).prop_map(|(read_lat, write_lat)| KyberOptions { read_lat, write_lat })
}

/// A request as it was when it was sent.
fn rebuilt(end: &CompletedRequest) -> Box<Request> {
    let CompletedRequest { op, nr_sectors, is_async, .. } = *end;
    let spec = Spec { op, len: nr_sectors, is_async, at: end.queued_at.0, ..Spec::default() };
    let mut request = spec.build();
    request.sent_at = end.sent_at;
    request
}

/// The scheduler and its model, at one time.
struct Pair {
    sched: Kyber,
    model: Reference,
    now: u64,
    next_id: u64,
    flying: Vec<CompletedRequest>,
    /// By kind: commands of others that were sent while it had to wait for its turn alone.
    passed_over: [usize; NR_DOMAINS],
}

impl Pair {
    fn new(options: KyberOptions, max_sectors: u32) -> Self {
        Pair {
            sched: Kyber::new(options, MergeLimit { max_sectors }),
            model: Reference::new(options, max_sectors),
            now: 0,
            next_id: 0,
            flying: Vec::new(),
            passed_over: [0; NR_DOMAINS],
        }
    }

    fn insert(&mut self, spec: Spec) {
        let spec = Spec { id: self.next_id, at: self.now, ..spec };
        self.next_id += 1;
        self.sched.insert(Nanos(self.now), spec.build());
        self.model.insert(spec);
    }

    /// Whether something was given.
    fn dispatch(&mut self) -> Result<bool, TestCaseError> {
        let request = self.sched.dispatch(Nanos(self.now), &InFlight::default());
        self.check(request)
    }

    /// A request or a batch that the model has been told of.
    fn build(&mut self, spec: Spec) -> Box<Request> {
        let spec = Spec { id: self.next_id, at: self.now, ..spec };
        self.next_id += 1;
        self.model.insert(spec);
        spec.build()
    }

    /// A batch is sent as one if the scheduler takes it, else inserted.
    fn batch(&mut self, op: Op, count: u32) -> Result<(), TestCaseError> {
        let mut batch = Batch::new();
        for i in 0..count {
            let gap = if i < count / 2 { 16 } else { 8 };
            let spec = Spec { sector: u64::from(i) * gap, op, ..Spec::default() };
            let request = self.build(spec);
            batch.push(request);
        }
        let now = Nanos(self.now);
        let kind = batch.kind(false).expect("one process");
        let limit = self.sched.limit;
        // Tokens are counted also if the batch is not taken.
        self.model.count(self.now);
        if self.sched.takes_batch(now, &kind).is_none() {
            batch.drain().for_each(|request| self.sched.insert(now, request));
            return Ok(());
        }
        let mut out = Vec::new();
        batch.drain_merged(limit, |request| out.push(request));
        let end = out.last().expect("a batch has requests").end();
        self.sched.sent_batch(&kind, u32::try_from(out.len()).expect("a batch is short"), end);
        for request in out {
            self.check(Some(request))?;
        }
        Ok(())
    }

    fn check(&mut self, request: Option<Box<Request>>) -> Result<bool, TestCaseError> {
        let sent = request.map(|mut request| {
            request.sent_at = Nanos(self.now);
            self.flying.push(CompletedRequest::new(Nanos(self.now), &request));
            (request.op(), ids(request))
        });
        let expected = self.model.dispatch(self.now);
        prop_assert_eq!(self.sched.next_event().map(|at| at.0), self.model.counts_at);
        prop_assert_eq!(
            self.sched.domains.each_ref().map(|k| k.tokens as usize),
            self.model.tokens
        );
        let Some((op, sent)) = sent else {
            prop_assert!(expected.is_none(), "at {} the model gives {expected:?}", self.now);
            // None could be sent, and the next turn is a whole one.
            self.passed_over.fill(0);
            return Ok(false);
        };
        self.check_turns(op)?;
        let expected = expected.unwrap_or_default();
        let expected: Vec<_> = expected.iter().map(|spec| spec.id).collect();
        prop_assert_eq!(sent, expected, "at {}", self.now);
        Ok(true)
    }

    /// No kind that could be sent is passed over for longer than a turn of each of the others.
    fn check_turns(&mut self, sent: Op) -> Result<(), TestCaseError> {
        for kind in [DomainKind::Read, DomainKind::Write, DomainKind::Discard, DomainKind::Other] {
            let passed_over = &mut self.passed_over[kind as usize];
            let is_ready = self.model.is_ready(kind) && kind_of(sent) != kind;
            *passed_over = if is_ready { *passed_over + 1 } else { 0 };
            let turns = 16 + 8 + 1 + 1 - turn_of(kind);
            prop_assert!(*passed_over <= turns, "{kind:?} waits for {passed_over} of others");
        }
        Ok(())
    }

    /// Ends as many of the oldest: for the scheduler those that are alike together.
    fn end_oldest(&mut self, count: usize) {
        let ended = self.flying.drain(..count.min(self.flying.len()));
        let ended: Vec<_> =
            ended.map(|end| CompletedRequest { at: Nanos(self.now), ..end }).collect();
        let done: Vec<_> = ended.iter().map(rebuilt).collect();
        let mut runs = Vec::new();
        note_completions(Nanos(self.now), &done, false, &mut runs);
        runs.iter().for_each(|run| self.sched.completed(run));
        for end in &ended {
            self.model.completed(end.op, end.queued_at.0, end.sent_at.0, self.now);
        }
        done.into_iter().for_each(|request| drop(ids(request)));
    }

    fn end(&mut self, which: usize) {
        if let Some(which) = which.checked_rem(self.flying.len()) {
            let end = CompletedRequest { at: Nanos(self.now), ..self.flying.remove(which) };
            self.sched.completed(&end);
            self.model.completed(end.op, end.queued_at.0, end.sent_at.0, self.now);
        }
    }

    fn step(&mut self, step: KyberStep) -> Result<(), TestCaseError> {
        match step {
            KyberStep::Insert(spec) => self.insert(spec),
            KyberStep::Fill(op, count) => {
                // Apart, so that they are not merged.
                let spec = |i: u32| Spec { sector: u64::from(i) * 16, op, ..Spec::default() };
                (0..count).for_each(|i| self.insert(spec(i)));
            }
            KyberStep::Batch(op, count) => self.batch(op, count)?,
            KyberStep::Pass(spec) => {
                let request = self.build(spec);
                let now = Nanos(self.now);
                let given = self.sched.insert_and_dispatch(now, request, &InFlight::default());
                self.check(given)?;
            }
            KyberStep::Advance(by) => self.now += by,
            KyberStep::Wait => self.now = self.model.counts_at.unwrap_or(0).max(self.now),
            KyberStep::Dispatch(count) => {
                for _ in 0..count {
                    if !self.dispatch()? {
                        break;
                    }
                }
            }
            KyberStep::End(which) => self.end(which),
            KyberStep::EndOldest(count) => self.end_oldest(count),
        }
        Ok(())
    }

    /// Takes the steps, and brings everything to its end.
    fn run(&mut self, steps: Vec<KyberStep>) -> Result<(), TestCaseError> {
        for step in steps {
            self.step(step)?;
        }
        while !self.sched.is_empty() || !self.flying.is_empty() {
            let sends = self.dispatch()?;
            prop_assert!(sends || !self.flying.is_empty(), "{} are left", self.sched.len());
            if !sends {
                self.now += MS;
                self.end(0);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn order_and_tokens_are_the_models(
        options in any_options(),
        max_sectors in prop_oneof![Just(0), Just(32)],
        steps in prop::collection::vec(any_step(), 1..150),
    ) {
        let mut pair = Pair::new(options, max_sectors);
        let same = pair.run(steps);
        if same.is_err() {
            // A request that is dropped would say so, and nothing else.
            std::mem::forget(pair);
        }
        same?;
    }
}
