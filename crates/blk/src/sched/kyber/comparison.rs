//! Kyber against its model: the same steps, the same commands, the same tokens.
use super::reference::{Kind, Reference, kind_of, turn_of};
use super::*;
use crate::sched::prio::{Prio, PrioClass};
use crate::sched::testing::{Spec, ids};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[derive(Clone, Debug)]
enum Step {
    Insert(Spec),
    /// Many of a kind at once.
    Fill(Op, u32),
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

fn any_step() -> impl Strategy<Value = Step> {
    let time = prop_oneof![
        10 => 0..MS,
        5 => 0..40 * MS,
        2 => 0..2_000 * MS
    ];
    prop_oneof![
        6 => any_spec().prop_map(Step::Insert),
        4 => (any_op(), 1..300u32).prop_map(|(op, count)| Step::Fill(op, count)),
        4 => time.prop_map(Step::Advance),
        1 => Just(Step::Wait),
        8 => (1..200usize).prop_map(Step::Dispatch),
        3 => any::<usize>().prop_map(Step::End),
        6 => (1..300usize).prop_map(Step::EndOldest),
    ]
}

fn any_options() -> impl Strategy<Value = KyberOptions> {
    let latency = || prop_oneof![1..10u64, 1..100 * MS, 1..5_000 * MS].prop_map(Nanos);
    (latency(), latency()).prop_map(|(read_lat, write_lat)| KyberOptions { read_lat, write_lat })
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
        let expected = self.model.dispatch(self.now);
        prop_assert_eq!(self.sched.next_event().map(|at| at.0), self.model.counts_at);
        prop_assert_eq!(
            self.sched.domains.each_ref().map(|k| k.tokens as usize),
            self.model.tokens
        );
        let Some(mut request) = request else {
            prop_assert!(expected.is_none(), "at {} the model gives {expected:?}", self.now);
            return Ok(false);
        };
        request.sent_at = Nanos(self.now);
        self.flying.push(CompletedRequest::new(Nanos(self.now), &request));
        self.check_turns(request.op())?;
        let expected = expected.unwrap_or_default();
        let expected: Vec<_> = expected.iter().map(|spec| spec.id).collect();
        prop_assert_eq!(ids(request), expected, "at {}", self.now);
        Ok(true)
    }

    /// No kind that could be sent is passed over for longer than a turn of each of the others.
    fn check_turns(&mut self, sent: Op) -> Result<(), TestCaseError> {
        for kind in [Kind::Read, Kind::Write, Kind::Discard, Kind::Other] {
            let passed_over = &mut self.passed_over[kind as usize];
            let is_ready = self.model.is_ready(kind) && kind_of(sent) != kind;
            *passed_over = if is_ready { *passed_over + 1 } else { 0 };
            let turns = 16 + 8 + 1 + 1 - turn_of(kind);
            prop_assert!(*passed_over <= turns, "{kind:?} waits for {passed_over} of others");
        }
        Ok(())
    }

    fn end(&mut self, which: usize) {
        if let Some(which) = which.checked_rem(self.flying.len()) {
            let end = CompletedRequest { at: Nanos(self.now), ..self.flying.remove(which) };
            self.sched.completed(&end);
            self.model.completed(end.op, end.queued_at.0, end.sent_at.0, self.now);
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Insert(spec) => self.insert(spec),
            Step::Fill(op, count) => {
                // Apart, so that they are not merged.
                let spec = |i: u32| Spec { sector: u64::from(i) * 16, op, ..Spec::default() };
                (0..count).for_each(|i| self.insert(spec(i)));
            }
            Step::Advance(by) => self.now += by,
            Step::Wait => self.now = self.model.counts_at.unwrap_or(0).max(self.now),
            Step::Dispatch(count) => {
                for _ in 0..count {
                    if !self.dispatch()? {
                        break;
                    }
                }
            }
            Step::End(which) => self.end(which),
            Step::EndOldest(count) => (0..count).for_each(|_| self.end(0)),
        }
        Ok(())
    }

    /// Takes the steps, and brings everything to its end.
    fn run(&mut self, steps: Vec<Step>) -> Result<(), TestCaseError> {
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
