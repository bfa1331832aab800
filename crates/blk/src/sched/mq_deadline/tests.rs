//! The order of mq-deadline, case by case and against a plain model of it.
use super::reference::Reference;
use super::*;
use crate::bio::Prio;
use crate::op::Op;
use crate::sched::testing::{Spec, ids};
use crate::testing::{limits, sequential_zones};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn scheduler(options: MqDeadlineOptions) -> MqDeadline {
    MqDeadline::new(options, MergeLimit { max_sectors: 0 }, None)
}

fn read(id: u64, sector: u64, at: u64) -> Spec {
    Spec { id, sector, at, ..Spec::default() }
}

fn write(id: u64, sector: u64, at: u64) -> Spec {
    Spec { op: Op::Write, ..read(id, sector, at) }
}

fn in_class(class: PrioClass, spec: Spec) -> Spec {
    Spec { prio: Prio::new(class, 4), ..spec }
}

fn insert(sched: &mut MqDeadline, specs: impl IntoIterator<Item = Spec>) {
    for spec in specs {
        sched.insert(Nanos(spec.at), spec.build());
    }
}

/// The requests that go out at `now` with nothing in flight, merged requests side by side.
fn all(sched: &mut MqDeadline, now: u64) -> Vec<u64> {
    let flight = InFlight::default();
    std::iter::from_fn(|| sched.dispatch(Nanos(now), &flight)).flat_map(ids).collect()
}

fn one(sched: &mut MqDeadline, now: u64) -> Option<u64> {
    sched.dispatch(Nanos(now), &InFlight::default()).map(|request| ids(request)[0])
}

#[test]
fn a_batch_goes_up_the_sectors_and_then_back_to_the_oldest() {
    let mut sched = scheduler(MqDeadlineOptions::default());
    insert(&mut sched, [read(0, 500, 0), read(1, 900, 0)]);
    assert_eq!(all(&mut sched, 0), [0, 1]);
    let sectors = [300, 100, 950, 900, 1000];
    insert(&mut sched, (0..).zip(sectors).map(|(i, s)| read(i, s, 0)));
    assert_eq!(all(&mut sched, 0), [3, 2, 4, 0, 1]);
}

#[test]
fn reads_are_preferred_as_often_as_writes_starved_says() {
    let options = MqDeadlineOptions { fifo_batch: 2, ..MqDeadlineOptions::default() };
    let mut sched = scheduler(options);
    insert(&mut sched, (0..8).map(|i| read(i, i * 100, 0)));
    insert(&mut sched, (10..14).map(|i| write(i, i * 100, 0)));
    assert_eq!(
        all(&mut sched, 0),
        // The first two continue the batch of reads that every scheduler begins with.
        [0, 1, 2, 3, 4, 5, 10, 11, 6, 7, 12, 13]
    );
}

#[test]
fn an_expired_request_goes_first_at_its_expiry_and_not_a_nanosecond_before() {
    let options = MqDeadlineOptions { fifo_batch: 1, ..MqDeadlineOptions::default() };
    for (now, expected) in [(500 * MS - 1, 1), (500 * MS, 0)] {
        let mut sched = scheduler(options);
        insert(&mut sched, [read(9, 400, 0)]);
        assert_eq!(one(&mut sched, 0), Some(9));
        insert(&mut sched, [read(0, 100, 0), read(1, 500, 1)]);
        assert_eq!(one(&mut sched, now), Some(expected), "at {now}");
        all(&mut sched, now);
    }
}

#[test]
fn a_class_waits_for_those_above_it_also_in_flight() {
    let mut sched = scheduler(MqDeadlineOptions::default());
    let specs = [
        in_class(PrioClass::Idle, read(2, 0, 0)),
        in_class(PrioClass::BestEffort, read(1, 100, 0)),
        in_class(PrioClass::Realtime, read(0, 200, 0)),
    ];
    insert(&mut sched, specs);
    let mut flight = InFlight::default();
    for class in 0..3 {
        let request = sched.dispatch(Nanos(0), &flight).expect("its turn");
        assert_eq!(ids(request), [class as u64]);
        flight.by_class[class] = 1;
        assert!(sched.dispatch(Nanos(0), &flight).is_none());
        flight.by_class[class] = 0;
    }
}

#[test]
fn a_class_that_waited_past_its_aging_goes_ahead_to_the_nanosecond() {
    let mut sched = scheduler(MqDeadlineOptions::default());
    let aging = MqDeadlineOptions::default().prio_aging_expire.0;
    insert(&mut sched, [in_class(PrioClass::Idle, read(1, 0, 5))]);
    let flight = InFlight { by_class: [0, 1, 0], ..InFlight::default() };
    assert!(sched.dispatch(Nanos(5 + aging - 1), &flight).is_none());
    assert_eq!(sched.next_event(), Some(Nanos(5 + aging)));
    let request = sched.dispatch(Nanos(5 + aging), &flight).expect("aged");
    assert_eq!(ids(request), [1]);
    assert_eq!(sched.next_event(), None);
}

#[test]
fn flushes_and_zone_management_pass_the_sort_in_the_order_they_came() {
    let mut sched = scheduler(MqDeadlineOptions::default());
    let op = |id, op| Spec { op, ..read(id, 0, 0) };
    let specs = [read(0, 0, 0), op(1, Op::ZoneReset), op(2, Op::Flush), op(3, Op::ZoneFinish)];
    insert(&mut sched, specs);
    assert_eq!(all(&mut sched, 0), [1, 2, 3, 0]);
}

#[test]
fn neighbours_go_out_as_one_command_in_the_order_of_sectors() {
    let merging = |front_merges| {
        let options = MqDeadlineOptions { front_merges, ..MqDeadlineOptions::default() };
        let mut sched = MqDeadline::new(options, MergeLimit { max_sectors: 32 }, None);
        // The elevator stands at 16, so 8 is reached by merging alone.
        insert(&mut sched, [read(9, 16, 0)]);
        assert_eq!(one(&mut sched, 0), Some(9));
        let sectors = [24, 16, 8, 32, 40];
        insert(&mut sched, (0..).zip(sectors).map(|(i, s)| read(i, s, 0)));
        let flight = InFlight::default();
        let commands: Vec<_> = std::iter::from_fn(|| sched.dispatch(Nanos(0), &flight))
            .map(|request| (request.sector().0, request.nr_sectors(), ids(request)))
            .collect();
        assert_eq!(sched.merged()[1], 5 - commands.len() as u64);
        commands
    };
    assert_eq!(merging(true), [(8, 32, vec![2, 1, 0, 3]), (40, 8, vec![4])]);
    assert_eq!(merging(false), [(16, 32, vec![1, 0, 3, 4]), (8, 8, vec![2])]);
}

#[test]
fn async_depth_limits_all_but_reads() {
    let options = MqDeadlineOptions { async_depth: 1, ..MqDeadlineOptions::default() };
    let mut sched = scheduler(options);
    insert(&mut sched, [write(0, 0, 0), write(1, 100, 0), read(2, 0, 0)]);
    let flight = InFlight { not_reads: 1, ..InFlight::default() };
    let request = sched.dispatch(Nanos(0), &flight).expect("a read");
    assert_eq!(ids(request), [2]);
    assert!(sched.dispatch(Nanos(0), &flight).is_none());
    assert_eq!(all(&mut sched, 0), [0, 1]);
}

fn end_of_write(zone: u32) -> CompletedRequest {
    let spec = Spec { zone_size: 1000, ..write(0, u64::from(zone) * 1000, 0) };
    let request = spec.build();
    let end = CompletedRequest::new(Nanos(0), &request);
    ids(request);
    end
}

#[test]
fn a_locked_zone_is_passed_over_and_on_a_disk_so_is_the_stream_behind_it() {
    for (rotational, expected) in [(false, vec![0, 2, 4]), (true, vec![0, 4])] {
        let limits = crate::Limits { rotational, ..limits(4, 1000) };
        let zones = ZoneLocks::new(&limits, &sequential_zones(&limits));
        let limit = MergeLimit { max_sectors: 0 };
        let mut sched = MqDeadline::new(MqDeadlineOptions::default(), limit, Some(zones));
        let write = |id, sector, len| Spec { len, zone_size: 1000, ..write(id, sector, 0) };
        // A stream over the border of zones 0 and 1, and a write elsewhere.
        let specs = [
            write(0, 0, 500),
            write(1, 500, 500),
            write(2, 1000, 500),
            write(3, 1500, 500),
            write(4, 3000, 8),
        ];
        insert(&mut sched, specs);
        assert_eq!(all(&mut sched, 0), expected);
        sched.completed(&end_of_write(0));
        assert_eq!(one(&mut sched, 0), Some(1));
        for zone in [0, 1, 1] {
            sched.completed(&end_of_write(zone));
            all(&mut sched, 0);
        }
        assert!(sched.is_empty());
    }
}

#[derive(Clone, Debug)]
enum DeadlineStep {
    Insert(Spec),
    Advance(u64),
    Dispatch(usize),
    /// Ends the n-th command in flight.
    End(usize),
}

fn any_spec(sectors: u64) -> impl Strategy<Value = Spec> {
    let class = prop_oneof![
        1 => Just(PrioClass::Realtime),
        8 => Just(PrioClass::BestEffort),
        1 => Just(PrioClass::Idle)
    ];
    let op = prop_oneof![10 => Just(Op::Read), 8 => Just(Op::Write), 1 => Just(Op::Flush)];
    (0..sectors, 1..3u32, class, op, 0..20u32).prop_map(|(sector, len, class, op, odd)| Spec {
        sector: sector * 8,
        len: len * 8,
        prio: Prio::new(class, if odd == 0 { 0 } else { 4 }),
        op,
        nomerge: odd == 1,
        ..Spec::default()
    })
}

fn any_step(sectors: u64) -> impl Strategy<Value = DeadlineStep> {
    prop_oneof![
        6 => any_spec(sectors).prop_map(DeadlineStep::Insert),
        1 => (0..40 * MS).prop_map(DeadlineStep::Advance),
        3 => (1..6usize).prop_map(DeadlineStep::Dispatch),
        2 => any::<usize>().prop_map(DeadlineStep::End),
    ]
}

fn any_options() -> impl Strategy<Value = MqDeadlineOptions> {
    (0..60u64, 0..200u64, 0..4u32, 1..6u32, any::<bool>(), 0..4u32, 0..300u64).prop_map(
        |(read, write, writes_starved, fifo_batch, front_merges, async_depth, aging)| {
            MqDeadlineOptions {
                read_expire: Nanos(read * MS),
                write_expire: Nanos(write * MS),
                writes_starved,
                fifo_batch,
                front_merges,
                async_depth,
                prio_aging_expire: Nanos(aging * MS),
            }
        },
    )
}

const ZONE_SIZE: u64 = 128;

/// Drives the scheduler and its model through the same steps.
fn compare(
    options: MqDeadlineOptions,
    max_sectors: u32,
    lock: bool,
    steps: Vec<DeadlineStep>,
) -> Result<(), TestCaseError> {
    let limits = limits(4, ZONE_SIZE);
    let zones = lock.then(|| ZoneLocks::new(&limits, &sequential_zones(&limits)));
    let mut sched = MqDeadline::new(options, MergeLimit { max_sectors }, zones);
    let mut model = Reference::new(options, max_sectors, lock.then(|| vec![false; 4]));
    let (mut now, mut next_id) = (0, 0);
    let mut flight = InFlight::default();
    let mut flying: Vec<(Spec, CompletedRequest)> = Vec::new();
    let drain = (0..400)
        .flat_map(|_| [DeadlineStep::Dispatch(4), DeadlineStep::End(0), DeadlineStep::Advance(MS)]);
    for step in steps.into_iter().chain(drain) {
        match step {
            DeadlineStep::Insert(spec) => {
                let spec = Spec { id: next_id, at: now, zone_size: ZONE_SIZE, ..spec };
                next_id += 1;
                sched.insert(Nanos(now), spec.build());
                model.insert(spec);
            }
            DeadlineStep::Advance(by) => now += by,
            DeadlineStep::Dispatch(count) => {
                for _ in 0..count {
                    let request = sched.dispatch(Nanos(now), &flight);
                    let expected = model.dispatch(now, &flight);
                    let Some(request) = request else {
                        prop_assert!(expected.is_none(), "the model gives {expected:?}");
                        break;
                    };
                    let expected = expected.unwrap_or_default();
                    flight.sent(&request);
                    let end = CompletedRequest::new(Nanos(now), &request);
                    let expected_ids: Vec<_> = expected.iter().map(|s| s.id).collect();
                    prop_assert_eq!(ids(request), expected_ids);
                    flying.push((expected[0], end));
                }
            }
            DeadlineStep::End(which) => {
                if let Some(which) = which.checked_rem(flying.len()) {
                    let (spec, end) = flying.remove(which);
                    flight.by_class[spec.prio.class().index()] -= 1;
                    flight.not_reads -= u64::from(spec.op != Op::Read);
                    sched.completed(&end);
                    if let (Some(locked), Op::Write) = (&mut model.locked, spec.op) {
                        locked[usize::try_from(spec.zone()).unwrap()] = false;
                    }
                }
            }
        }
    }
    prop_assert!(sched.is_empty(), "{} requests are left", sched.len());
    Ok(())
}

proptest! {
    #[test]
    fn order_is_the_models(
        options in any_options(),
        max_sectors in prop_oneof![Just(0), Just(40)],
        steps in prop::collection::vec(any_step(60), 1..200),
    ) {
        compare(options, max_sectors, false, steps)?;
    }

    #[test]
    fn order_is_the_models_with_locked_zones(
        options in any_options(),
        max_sectors in prop_oneof![Just(0), Just(40)],
        steps in prop::collection::vec(any_step(60), 1..200),
    ) {
        compare(options, max_sectors, true, steps)?;
    }

    /// With nothing above it and room at the device, a request is sent no later than one batch
    /// after its expiry.
    #[test]
    fn none_waits_longer_than_the_expiry_and_a_round_of_batches(
        sectors in prop::collection::vec((0..1000u64, any::<bool>()), 50..300),
    ) {
        let options = MqDeadlineOptions {
            read_expire: Nanos(20),
            write_expire: Nanos(50),
            fifo_batch: 4,
            ..MqDeadlineOptions::default()
        };
        let mut sched = scheduler(options);
        let flight = InFlight::default();
        let mut waiting = 0;
        // One request comes and one goes each nanosecond, over a backlog of ten.
        for (now, &(sector, is_read)) in (0..).zip(&sectors) {
            let spec = if is_read { read(now, sector, now) } else { write(now, sector, now) };
            insert(&mut sched, [spec]);
            waiting += 1;
            if waiting > 10 {
                let request = sched.dispatch(Nanos(now), &flight).expect("ten wait");
                waiting -= 1;
                let waited = now - request.queued_at().0;
                // Ten that were there first may have expired too, each with a batch of its own,
                // and each direction waits for the other's turn.
                let limit = 50 + 10 * 4 * 3;
                prop_assert!(waited <= limit, "{waited} ns");
                ids(request);
            }
        }
        all(&mut sched, u64::MAX / 2);
    }
}
