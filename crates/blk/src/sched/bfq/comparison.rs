//! bfq against its model: the same steps, the same commands, the same waiting.
use super::reference::Reference;
use super::*;
use crate::bio::Prio;
use crate::op::Op;
use crate::sched::batch::Batch;
use crate::sched::testing::{Spec, ids};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[derive(Clone, Debug)]
enum BfqStep {
    Insert(Spec),
    /// Inserts and dispatches in one step.
    Pass(Spec),
    /// Some at these places and of these lengths as a batch, else alike.
    Batch(Spec, Vec<(u64, u32)>),
    Advance(u64),
    /// Advances to when the scheduler says that it goes on.
    Wait,
    Dispatch(usize),
    /// Ends the n-th command in flight.
    End(usize),
    Weight(u32, u16),
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let op = prop_oneof![
        20 => Just(Op::Read),
        10 => Just(Op::Write),
        1 => Just(Op::Discard),
        1 => Just(Op::Flush)
    ];
    // Most processes stay in a class of their own.
    let class = prop_oneof![20 => Just(None), 1 => (0..3usize).prop_map(Some)];
    (0..60u64, 1..4u32, op, 0..4u32, class, 0..40u32).prop_map(
        |(sector, len, op, process, class, odd)| {
            let class = match class {
                Some(class) => PrioClass::ALL[class],
                None if process == 3 => PrioClass::Idle,
                None => PrioClass::BestEffort,
            };
            Spec {
                sector: sector * 8,
                len: len * 8,
                op,
                process,
                prio: Prio::new(class, if odd == 0 { 0 } else { 4 }),
                nomerge: odd == 1,
                is_async: odd % 8 == 2,
                ..Spec::default()
            }
        },
    )
}

/// Reads or writes of one process that come together; often one.
fn any_batch(spec: impl Strategy<Value = Spec>) -> impl Strategy<Value = BfqStep> {
    let places = prop::collection::vec((0..60u64, 1..4u32), 1..20);
    let places = prop_oneof![3 => places, 1 => Just(vec![(7, 2)])];
    (spec, places, 0..3u32).prop_map(|(spec, places, odd)| {
        let op = if spec.op == Op::Flush { Op::Read } else { spec.op };
        BfqStep::Batch(Spec { op, is_async: odd == 0, ..spec }, places)
    })
}

fn any_step() -> impl Strategy<Value = BfqStep> {
    let time = prop_oneof![
        // Often to the very moment at which something is over.
        12 => (0..6u64).prop_map(|halves| halves * MS / 2),
        7 => (0..30u64).prop_map(|halves| halves * MS / 2),
        1 => 0..15 * MS,
        2 => 0..200 * MS,
        1 => 1_900 * MS..2_100 * MS,
        1 => 2_500 * MS..8_000 * MS
    ];
    prop_oneof![
        10 => any_spec().prop_map(BfqStep::Insert),
        4 => any_spec().prop_map(BfqStep::Pass),
        4 => any_batch(any_spec()),
        4 => time.prop_map(BfqStep::Advance),
        3 => Just(BfqStep::Wait),
        8 => (1..6usize).prop_map(BfqStep::Dispatch),
        8 => any::<usize>().prop_map(BfqStep::End),
        1 => (0..4u32, 1..1001u16).prop_map(|(process, weight)| BfqStep::Weight(process, weight)),
    ]
}

fn any_options() -> impl Strategy<Value = BfqOptions> {
    let times = (
        prop_oneof![1 => Just(0), 5 => 1..12u64],
        prop_oneof![1..60u64, Just(1_000)],
        0..60u64,
        0..90u64,
    );
    let max_budget = prop_oneof![2 => Just(0), 3 => 1..300u32];
    let switches = (any::<bool>(), prop_oneof![3 => Just(false), 1 => Just(true)]);
    (times, max_budget, 0..300u32, 1..4u32, switches).prop_map(
        |(times, max_budget, back_seek_max, back_seek_penalty, switches)| BfqOptions {
            slice_idle: Nanos(times.0 * MS),
            timeout_sync: Nanos(times.1 * MS),
            max_budget,
            fifo_expire_sync: Nanos(times.2 * MS),
            fifo_expire_async: Nanos(times.3 * MS),
            back_seek_max,
            back_seek_penalty,
            low_latency: switches.0,
            strict_guarantees: switches.1,
        },
    )
}

/// Some processes that go on soon after their reads end: one reads, time passes, commands end.
fn any_round() -> impl Strategy<Value = [BfqStep; 5]> {
    let spec = (0..60u64, prop_oneof![6 => Just(8), 1 => Just(64)], 0..3u32, 0..20u32);
    let spec = spec.prop_map(|(sector, len, process, odd)| Spec {
        sector: sector * 8,
        len,
        process,
        is_async: odd == 0,
        ..Spec::default()
    });
    let comes = prop_oneof![3 => spec.clone().prop_map(BfqStep::Pass), 1 => any_batch(spec)];
    let ends = (any::<usize>(), any::<usize>());
    (comes, 0..5u64, ends, 1..4usize).prop_map(|(comes, halves, ends, count)| {
        let pause = BfqStep::Advance(halves * MS / 2);
        let last = if ends.1 % 2 == 0 { BfqStep::End(ends.1 / 2) } else { pause.clone() };
        [comes, pause, BfqStep::End(ends.0), BfqStep::Dispatch(count), last]
    })
}

/// The scheduler and its model, at one time.
struct Pair {
    sched: Bfq,
    model: Reference,
    now: u64,
    next_id: u64,
    flying: Vec<CompletedRequest>,
}

impl Pair {
    fn new(options: BfqOptions, max_sectors: u32, rotational: bool) -> Self {
        Pair {
            sched: Bfq::new(options, MergeLimit { max_sectors }, rotational),
            model: Reference::new(options, max_sectors, rotational),
            now: 0,
            next_id: 0,
            flying: Vec::new(),
        }
    }

    fn insert(&mut self, spec: Spec) {
        self.model.insert(self.now, spec);
        self.sched.insert(Nanos(self.now), spec.build());
    }

    /// A batch is sent as one if the scheduler takes it, as it does if the model does, else inserted. One
    /// request that is taken is what the model dispatches when it has come.
    fn batch(&mut self, spec: Spec, places: &[(u64, u32)]) -> Result<(), TestCaseError> {
        let first = self.next_id;
        self.next_id += places.len() as u64;
        let specs = (first..).zip(places).map(|(id, &(sector, len))| Spec {
            id,
            at: self.now,
            sector: sector * 8,
            len: len * 8,
            ..spec
        });
        let specs: Vec<_> = specs.collect();
        if !self.sched.can_take_batches() {
            specs.into_iter().for_each(|spec| self.insert(spec));
            return Ok(());
        }
        let mut batch = Batch::new();
        specs.iter().for_each(|spec| batch.push(spec.build()));
        let kind = batch.kind(true).expect("one process");
        let now = Nanos(self.now);
        let mut alone = self.model.clone();
        let expected = self.model.take_batch(self.now, &specs);
        let order = self.sched.takes_batch(now, &kind);
        prop_assert_eq!(order, expected.map(|from| BatchOrder::SectorsFrom(Sector(from))));
        let Some(from) = expected else {
            batch.drain().for_each(|mut request| drop(request.take_bio()));
            specs.into_iter().for_each(|spec| self.insert(spec));
            return Ok(());
        };
        let mut out = Vec::new();
        batch.drain_sorted(from, self.sched.limit, true, |request| out.push(request));
        let end = out.last().expect("a batch has requests").end();
        self.sched.sent_batch(&kind, u32::try_from(out.len()).expect("a batch is short"), end);
        if let [only] = specs[..] {
            alone.insert(self.now, only);
            self.model = alone;
            return self.check(out.pop()).map(drop);
        }
        self.model.sent_batch(out.len(), end.0);
        let mut sent = Vec::new();
        for mut request in out {
            request.sent_at = now;
            self.flying.push(CompletedRequest::new(now, &request));
            sent.append(&mut ids(request));
        }
        sent.sort_unstable();
        prop_assert_eq!(sent, specs.iter().map(|spec| spec.id).collect::<Vec<_>>());
        Ok(())
    }

    /// The request, when the model has been told of it.
    fn new_request(&mut self, spec: Spec) -> Box<Request> {
        let spec = Spec { id: self.next_id, at: self.now, ..spec };
        self.next_id += 1;
        self.model.insert(self.now, spec);
        spec.build()
    }

    fn dispatch(&mut self) -> Result<bool, TestCaseError> {
        let request = self.sched.dispatch(Nanos(self.now), &InFlight::default());
        self.check(request)
    }

    /// Whether the scheduler dispatched something, which must be what the model dispatches.
    fn check(&mut self, request: Option<Box<Request>>) -> Result<bool, TestCaseError> {
        let expected = self.model.dispatch(self.now);
        let Some(mut request) = request else {
            prop_assert!(expected.is_none(), "at {} the model gives {expected:?}", self.now);
            if !self.sched.is_empty() {
                let next = self.sched.next_event().map(|at| at.0);
                prop_assert_eq!(next, self.model.when_next(self.now), "asked at {}", self.now);
            }
            return Ok(false);
        };
        request.sent_at = Nanos(self.now);
        self.flying.push(CompletedRequest::new(Nanos(self.now), &request));
        let expected = expected.unwrap_or_default();
        let expected: Vec<_> = expected.iter().map(|spec| spec.id).collect();
        prop_assert_eq!(ids(request), expected, "at {}", self.now);
        Ok(true)
    }

    fn end(&mut self, which: usize) -> Result<(), TestCaseError> {
        if let Some(which) = which.checked_rem(self.flying.len()) {
            let end = CompletedRequest { at: Nanos(self.now), ..self.flying.remove(which) };
            self.sched.completed(&end);
            self.model.completed(&end);
            prop_assert_eq!(self.sched.max_budget(), self.model.max_budget());
        }
        Ok(())
    }

    fn step(&mut self, step: BfqStep) -> Result<(), TestCaseError> {
        match step {
            BfqStep::Insert(spec) => {
                let request = self.new_request(spec);
                self.sched.insert(Nanos(self.now), request);
            }
            BfqStep::Batch(spec, places) => self.batch(spec, &places)?,
            BfqStep::Pass(spec) => {
                let request = self.new_request(spec);
                let now = Nanos(self.now);
                let given = self.sched.insert_and_dispatch(now, request, &InFlight::default());
                self.check(given)?;
            }
            BfqStep::Advance(by) => self.now += by,
            BfqStep::Wait => {
                if !self.dispatch()? && !self.sched.is_empty() {
                    self.now = self.sched.next_event().map_or(self.now, |at| at.0);
                }
            }
            BfqStep::Dispatch(count) => {
                for _ in 0..count {
                    if !self.dispatch()? {
                        break;
                    }
                }
            }
            BfqStep::End(which) => self.end(which)?,
            BfqStep::Weight(process, weight) => {
                self.sched.set_weight(process, weight);
                self.model.set_weight(process, weight);
            }
        }
        Ok(())
    }

    /// Takes the steps, and brings everything to its end.
    fn run(&mut self, steps: Vec<BfqStep>) -> Result<(), TestCaseError> {
        for step in steps {
            self.step(step)?;
        }
        while !self.sched.is_empty() || !self.flying.is_empty() {
            let before = (self.sched.len(), self.flying.len(), self.now);
            self.step(BfqStep::Wait)?;
            if before == (self.sched.len(), self.flying.len(), self.now) {
                prop_assert!(!self.flying.is_empty(), "{} requests are left", self.sched.len());
                self.now += MS / 3;
                self.end(0)?;
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Long enough for the limit on what is injected to rise, fall and begin anew.
    #[test]
    fn what_is_injected_is_the_models(
        weights in prop::array::uniform3(1..1001u16),
        low_latency in any::<bool>(),
        rounds in prop::collection::vec(any_round(), 200..1000),
    ) {
        let options = BfqOptions { low_latency, ..BfqOptions::default() };
        let weights = (0..).zip(weights).map(|(process, weight)| BfqStep::Weight(process, weight));
        let mut pair = Pair::new(options, 40, false);
        let same = pair.run(weights.chain(rounds.into_iter().flatten()).collect());
        if same.is_err() {
            std::mem::forget(pair);
        }
        same?;
    }

    #[test]
    fn order_and_waiting_are_the_models(
        options in any_options(),
        max_sectors in prop_oneof![Just(0), Just(40)],
        rotational in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..200),
    ) {
        let mut pair = Pair::new(options, max_sectors, rotational);
        let same = pair.run(steps);
        if same.is_err() {
            // A request that is dropped would say so, and nothing else.
            std::mem::forget(pair);
        }
        same?;
    }
}
