//! bfq on a slow device, in virtual time.
use super::*;
use crate::bio::Prio;
use crate::op::Op;
use crate::sched::testing::{Spec, ids};
use proptest::prelude::*;
use std::collections::VecDeque;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A process that keeps `depth` reads outstanding, each `think` after one has ended.
#[derive(Clone, Copy, Debug)]
struct Job {
    weight: u16,
    depth: u32,
    think: u64,
    len: u32,
    is_async: bool,
    class: PrioClass,
    start: u64,
}

impl Default for Job {
    fn default() -> Self {
        let class = PrioClass::BestEffort;
        Job { weight: 100, depth: 8, think: 0, len: 8, is_async: false, class, start: 0 }
    }
}

/// The service that a job got.
#[derive(Clone, Copy, Debug, Default)]
struct Got {
    sectors: u64,
    commands: u64,
    /// The sum of latencies, in ns.
    waited: u64,
}

fn scheduler(options: BfqOptions, rotational: bool) -> Bfq {
    Bfq::new(options, MergeLimit { max_sectors: 0 }, rotational)
}

fn steady() -> BfqOptions {
    BfqOptions { low_latency: false, ..BfqOptions::default() }
}

/// Drives jobs over a device that takes `depth` commands and does one after the other, 500 us each.
fn run(mut sched: Bfq, jobs: &[Job], depth: usize, until: u64) -> Vec<Got> {
    let mut got = vec![Got::default(); jobs.len()];
    let mut arrivals: Vec<(u64, usize)> = Vec::new();
    for (process, job) in jobs.iter().enumerate() {
        sched.set_weight(u32::try_from(process).unwrap(), job.weight);
        arrivals.extend((0..job.depth).map(|_| (job.start, process)));
    }
    let mut device: VecDeque<(u64, Box<Request>)> = VecDeque::new();
    let (mut now, mut random, mut busy_until) = (0, 1_u64, 0);
    loop {
        while device.front().is_some_and(|(at, _)| *at <= now) {
            let (at, request) = device.pop_front().unwrap();
            let process = request.process() as usize;
            sched.completed(&CompletedRequest::new(Nanos(at), &request));
            got[process].sectors += u64::from(request.nr_sectors());
            got[process].commands += 1;
            got[process].waited += at - request.queued_at().0;
            ids(request);
            arrivals.push((at + jobs[process].think, process));
        }
        let stop = now >= until;
        for at in (0..arrivals.len()).rev() {
            if stop || arrivals[at].0 > now {
                continue;
            }
            let (_, process) = arrivals.swap_remove(at);
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut request = Spec {
                sector: (random >> 20) % (1 << 20) * 8,
                len: jobs[process].len,
                process: u32::try_from(process).unwrap(),
                at: now,
                is_async: jobs[process].is_async,
                prio: Prio::new(jobs[process].class, 4),
                ..Spec::default()
            }
            .build();
            request.queued_at = Nanos(now);
            sched.insert(Nanos(now), request);
        }
        while device.len() < depth
            && let Some(mut request) = sched.dispatch(Nanos(now), &InFlight::default())
        {
            request.sent_at = Nanos(now);
            busy_until = now.max(busy_until) + 500 * US;
            device.push_back((busy_until, request));
        }
        let ends = device.front().map(|(at, _)| *at);
        let arrives = arrivals.iter().map(|(at, _)| *at).filter(|at| !stop && *at > now).min();
        let has_room = !sched.is_empty() && device.len() < depth;
        let event = has_room.then(|| sched.next_event().map(|at| at.0)).flatten();
        match [ends, arrives, event].into_iter().flatten().min() {
            Some(next) => {
                assert!(next > now, "time goes on: {next} after {now}");
                now = next;
            }
            None => break,
        }
    }
    assert!(sched.is_empty());
    got
}

/// `a` to `b` as `x` to `y`, within a twentieth.
fn assert_ratio(a: u64, b: u64, x: u64, y: u64) {
    let (have, want) = (a as f64 / b as f64, x as f64 / y as f64);
    assert!((have / want - 1.0).abs() < 0.05, "{a}:{b} is not {x}:{y}");
}

#[test]
fn saturating_jobs_share_by_weight_whatever_their_depth() {
    for depth in [1, 2, 8] {
        for device in [1, 4] {
            let job = |weight| Job { weight, depth, ..Job::default() };
            for (a, b) in [(100, 300), (200, 100)] {
                let sched = scheduler(steady(), false);
                let got = run(sched, &[job(a), job(b)], device, 20_000 * MS);
                assert_ratio(got[0].sectors, got[1].sectors, u64::from(a), u64::from(b));
            }
        }
    }
}

#[test]
fn shares_are_of_sectors_not_of_commands() {
    let small = Job { weight: 100, len: 8, ..Job::default() };
    let large = Job { weight: 300, len: 64, ..Job::default() };
    let got = run(scheduler(steady(), false), &[small, large], 2, 120_000 * MS);
    assert_ratio(got[0].sectors, got[1].sectors, 1, 3);
}

#[test]
fn without_idling_throughput_rises_and_fairness_goes() {
    // Each process thinks between reads: the device is kept for it, or not.
    let job = |weight| Job { weight, depth: 1, think: 200 * US, ..Job::default() };
    let jobs = [job(100), job(300)];
    let fair = run(scheduler(steady(), false), &jobs, 1, 20_000 * MS);
    assert_ratio(fair[0].sectors, fair[1].sectors, 1, 3);
    let options = BfqOptions { slice_idle: Nanos(0), ..steady() };
    let free = run(scheduler(options, false), &jobs, 1, 20_000 * MS);
    assert_ratio(free[0].sectors, free[1].sectors, 1, 1);
    let total = |got: &[Got]| got.iter().map(|got| got.sectors).sum::<u64>();
    assert!(total(&free) * 10 > total(&fair) * 13);
}

#[test]
fn the_time_that_a_process_thinks_goes_to_others_if_that_does_not_delay_it() {
    // One thinks for longer than a read takes: the other's fits in between.
    let job = |weight, class| Job { weight, class, depth: 1, think: MS, ..Job::default() };
    for jobs in [
        [job(100, PrioClass::BestEffort), job(300, PrioClass::BestEffort)],
        [job(100, PrioClass::BestEffort), job(100, PrioClass::Realtime)],
    ] {
        let alone = run(scheduler(steady(), false), &jobs[1..], 1, 20_000 * MS)[0];
        let both = run(scheduler(steady(), false), &jobs, 1, 20_000 * MS);
        for got in &both {
            assert!(got.commands * 100 > alone.commands * 90, "{got:?}, {alone:?} alone");
        }
        // On a disk the head would leave.
        let disk = run(scheduler(steady(), true), &jobs, 1, 20_000 * MS);
        assert!(disk[0].commands * 2 < both[0].commands, "{disk:?}");
    }
}

#[test]
fn asynchronous_requests_are_charged_three_times() {
    let sync = Job::default();
    let r#async = Job { is_async: true, ..sync };
    let got = run(scheduler(steady(), false), &[sync, r#async], 2, 60_000 * MS);
    assert_ratio(got[0].sectors, got[1].sectors, 3, 1);
}

#[test]
fn a_process_that_begins_is_served_sooner_with_low_latency() {
    let crowd = Job { depth: 16, ..Job::default() };
    let late = Job { depth: 1, start: 20_000 * MS, think: 200 * US, ..Job::default() };
    let mean = |low_latency| {
        let options = BfqOptions { low_latency, ..BfqOptions::default() };
        let jobs = [crowd, crowd, crowd, late];
        let got = run(scheduler(options, false), &jobs, 1, 22_000 * MS)[3];
        got.waited / got.commands
    };
    let (with, without) = (mean(true), mean(false));
    assert!(with * 4 < without, "{with} ns with low_latency, {without} without");
}

fn read(process: u32, id: u64, sector: u64, at: u64) -> Box<Request> {
    Spec { process, id, sector, at, ..Spec::default() }.build()
}

fn send(sched: &mut Bfq, now: u64) -> Option<(u64, CompletedRequest)> {
    let mut request = sched.dispatch(Nanos(now), &InFlight::default())?;
    request.sent_at = Nanos(now);
    let end = CompletedRequest::new(Nanos(now), &request);
    Some((ids(request)[0], end))
}

fn end(sched: &mut Bfq, mut end: CompletedRequest, at: u64) {
    end.at = Nanos(at);
    sched.completed(&end);
}

fn drain(sched: &mut Bfq) {
    let mut now = 1 << 50;
    while !sched.is_empty() {
        while let Some((_, sent)) = send(sched, now) {
            end(sched, sent, now);
        }
        now += 1 << 40;
    }
}

/// Two processes of different weight; the one in service has nothing waiting from `7 ms` on.
fn kept_for_the_first() -> Bfq {
    let mut sched = scheduler(steady(), false);
    sched.set_weight(0, 300);
    sched.set_weight(1, 100);
    sched.insert(Nanos(0), read(0, 10, 0, 0));
    sched.insert(Nanos(0), read(1, 20, 800, 0));
    let (id, sent) = send(&mut sched, 0).unwrap();
    assert_eq!(id, 10);
    assert!(send(&mut sched, 0).is_none(), "its command is in flight");
    end(&mut sched, sent, 7 * MS);
    assert!(send(&mut sched, 7 * MS).is_none());
    assert_eq!(sched.next_event(), Some(Nanos(15 * MS)));
    sched
}

#[test]
fn the_device_is_kept_for_slice_idle_to_the_nanosecond() {
    let mut sched = kept_for_the_first();
    assert!(send(&mut sched, 15 * MS - 1).is_none());
    assert_eq!(send(&mut sched, 15 * MS).map(|(id, _)| id), Some(20));
    let mut sched = kept_for_the_first();
    sched.insert(Nanos(15 * MS - 1), read(0, 11, 80, 15 * MS - 1));
    let (id, sent) = send(&mut sched, 15 * MS - 1).unwrap();
    assert_eq!(id, 11);
    assert!(send(&mut sched, 15 * MS - 1).is_none());
    assert_eq!(sched.next_event(), None, "it is for the command in flight to end");
    end(&mut sched, sent, 16 * MS);
    drain(&mut sched);
}

#[test]
fn a_service_slot_is_over_at_timeout_sync_to_the_nanosecond() {
    let timeout = steady().timeout_sync.0;
    for (at, expected) in [(timeout - 1, 1), (timeout, 9)] {
        let mut sched = scheduler(steady(), false);
        for id in 0..3 {
            sched.insert(Nanos(0), read(0, id, id * 8, 0));
        }
        sched.insert(Nanos(0), read(1, 9, 800, 0));
        assert_eq!(send(&mut sched, 0).map(|(id, _)| id), Some(0));
        assert_eq!(send(&mut sched, at).map(|(id, _)| id), Some(expected));
        drain(&mut sched);
    }
}

#[test]
fn processes_that_count_the_same_are_not_waited_for_but_on_a_disk() {
    let on = |rotational, expected| [false, true].map(|raised| (rotational, raised, expected));
    for (rotational, low_latency, expected) in [on(false, Some(20)), on(true, None)].concat() {
        let options = BfqOptions { low_latency, ..BfqOptions::default() };
        let mut sched = scheduler(options, rotational);
        sched.insert(Nanos(0), read(0, 10, 0, 0));
        sched.insert(Nanos(0), read(1, 20, 800, 0));
        let (_, sent) = send(&mut sched, 0).unwrap();
        end(&mut sched, sent, MS);
        assert_eq!(send(&mut sched, MS).map(|(id, _)| id), expected);
        drain_from(&mut sched, expected);
    }
}

fn drain_from(sched: &mut Bfq, sent: Option<u64>) {
    if sent.is_none() {
        drain(sched);
    }
}

#[test]
fn a_batch_is_taken_whole_in_the_slot_of_its_process_and_counts_as_its_requests_would() {
    let kind = |process, sectors| {
        let class = PrioClass::BestEffort;
        let ops = 1 << Op::Read as u16;
        BatchKind { process, is_async: false, class, ops, requests: 2, sectors }
    };
    let mut sched = scheduler(BfqOptions { max_budget: 64, ..steady() }, false);
    assert_eq!(sched.takes_batch(Nanos(0), &kind(0, 8)), None, "no process has a slot");
    sched.insert(Nanos(0), read(0, 0, 800, 0));
    let (_, sent) = send(&mut sched, 0).unwrap();
    for (other, why) in [
        (kind(1, 8), "the slot is another's"),
        (kind(0, 64), "beyond the budget"),
        (BatchKind { is_async: true, ..kind(0, 8) }, "another queue"),
        (BatchKind { class: PrioClass::Idle, ..kind(0, 8) }, "another class"),
    ] {
        assert_eq!(sched.takes_batch(Nanos(0), &other), None, "{why}");
    }
    let late = Nanos(1 << 40);
    assert_eq!(sched.takes_batch(late, &kind(0, 8)), None, "the slot is over");
    let from = sched.takes_batch(Nanos(0), &kind(0, 16));
    let expected = BatchOrder::SectorsFrom(Sector(808));
    assert_eq!(from, Some(expected), "where the last command ends");
    sched.sent_batch(&kind(0, 16), 2, Sector(1000));
    assert_eq!((sched.in_flight, sched.queues[0].in_flight), (3, 3));
    assert_eq!(sched.service.map(|service| service.served), Some(24));
    let more = sched.takes_batch(Nanos(0), &kind(0, 48));
    assert_eq!(more, None, "what the batch had counts against the budget");
    (0..3).for_each(|_| end(&mut sched, sent, MS));
    // The process gives way to the other when it has had its budget.
    (0..8).for_each(|id| sched.insert(Nanos(MS), read(0, 10 + id, 8 * id, MS)));
    sched.insert(Nanos(MS), read(1, 50, 0, MS));
    let order: Vec<_> = (0..9).map(|_| send(&mut sched, MS).unwrap().1.process).collect();
    assert_eq!(order.iter().position(|&process| process == 1), Some(5), "{order:?}");
}

#[test]
fn strict_guarantees_send_one_command_at_a_time() {
    let options = BfqOptions { strict_guarantees: true, ..steady() };
    let mut sched = scheduler(options, false);
    for id in 0..3 {
        sched.insert(Nanos(0), read(0, id, id * 8, 0));
    }
    let (_, sent) = send(&mut sched, 0).unwrap();
    assert!(send(&mut sched, 0).is_none());
    end(&mut sched, sent, MS);
    let (_, sent) = send(&mut sched, MS).unwrap();
    assert!(send(&mut sched, MS).is_none());
    sched.completed(&sent);
    assert!(send(&mut sched, MS).is_some());
}

#[test]
fn an_expired_request_begins_the_next_slot() {
    let options = BfqOptions { max_budget: 16, slice_idle: Nanos(0), ..steady() };
    let mut sched = scheduler(options, false);
    let sectors = [800, 0, 8, 16, 24];
    for (id, sector) in (0..).zip(sectors) {
        sched.insert(Nanos(0), read(0, id, sector, 0));
    }
    let expire = options.fifo_expire_sync.0;
    let mut order = Vec::new();
    for at in [0, 0, expire - 1, expire - 1, expire] {
        order.push(send(&mut sched, at).unwrap().0);
    }
    // Two a budget. The oldest lies far off, and goes first in the slot in which it expired.
    assert_eq!(order, [1, 2, 3, 4, 0]);
    let mut sched = scheduler(options, false);
    for (id, sector) in (0..).zip(sectors) {
        sched.insert(Nanos(0), read(0, id, sector, 0));
    }
    let order: Vec<_> = [0, 0, expire].map(|at| send(&mut sched, at).unwrap().0).into();
    assert_eq!(order, [1, 2, 0]);
    drain(&mut sched);
}

#[test]
fn classes_are_served_in_their_order() {
    let mut sched = scheduler(BfqOptions { slice_idle: Nanos(0), ..steady() }, false);
    for class in [PrioClass::Idle, PrioClass::BestEffort, PrioClass::Realtime] {
        let id = class.index() as u64;
        let process = u32::try_from(id).unwrap();
        let spec = Spec { process, id, prio: Prio::new(class, 4), ..Spec::default() };
        sched.insert(Nanos(0), spec.build());
    }
    let order: Vec<_> = (0..3).map(|_| send(&mut sched, 0).unwrap().0).collect();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn a_process_that_changes_its_class_waits_for_none_of_what_it_was_served_before() {
    let options = BfqOptions { slice_idle: Nanos(0), max_budget: 8, ..steady() };
    let mut sched = scheduler(options, false);
    let urgent = Prio::new(PrioClass::Realtime, 4);
    // The first has had much best-effort service when it becomes urgent beside another.
    for id in 0..1000 {
        sched.insert(Nanos(0), read(0, id, 0, 0));
        let (_, sent) = send(&mut sched, 0).unwrap();
        end(&mut sched, sent, 0);
    }
    for id in 0..10 {
        let one = |process| Spec { process, id, prio: urgent, ..Spec::default() };
        sched.insert(Nanos(0), one(1).build());
        sched.insert(Nanos(0), one(0).build());
    }
    let order: Vec<_> = (0..8).map(|_| send(&mut sched, 0).unwrap().1.process).collect();
    assert_eq!(order.iter().filter(|&&process| process == 0).count(), 4, "{order:?}");
    drain(&mut sched);
}

/// A read that was sent.
struct Sent {
    process: usize,
    id: u64,
    at: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any weights, any depths: a process that always has a request waiting gets its share. One whose
    /// requests can all be with the device has not, and nobody idles for it beside one that weighs the
    /// same.
    #[test]
    fn shares_follow_weights(
        jobs in prop::collection::vec((20..500u16, 1..8u32), 2..5),
        device in 1..4u32,
    ) {
        let jobs: Vec<_> = jobs
            .into_iter()
            .map(|(weight, beyond)| Job { weight, depth: device + beyond, ..Job::default() })
            .collect();
        let options = BfqOptions { max_budget: 128, ..steady() };
        let got = run(scheduler(options, false), &jobs, device as usize, 10_000 * MS);
        let all: u64 = got.iter().map(|got| got.sectors).sum();
        let weights: u64 = jobs.iter().map(|job| u64::from(job.weight)).sum();
        for (got, job) in got.iter().zip(&jobs) {
            assert_ratio(got.sectors, all, u64::from(job.weight), weights);
        }
    }
    /// After its expiry a request waits for the current slot and for those that older
    /// ones begin; between two slots of its process, others get what their weights say and two
    /// slots each.
    #[test]
    fn none_waits_longer_than_the_expiry_and_a_slot_of_each(
        weights in prop::collection::vec(10..1000u16, 2..5),
        arrivals in prop::collection::vec((any::<usize>(), 0..500u64), 100..400),
        budget in 8..65u32,
        expire in 0..100u64,
    ) {
        const LEN: u64 = 8;
        let fifo_expire_sync = Nanos(expire);
        let options = BfqOptions { max_budget: budget, fifo_expire_sync, ..steady() };
        let options = BfqOptions { slice_idle: Nanos(0), ..options };
        let mut sched = scheduler(options, false);
        for (process, &weight) in (0..).zip(&weights) {
            sched.set_weight(process, weight);
        }
        let slot = u64::from(budget) + LEN;
        let mut waiting = vec![0; weights.len()];
        let mut backlogged_since = vec![0; weights.len()];
        let mut log: Vec<Sent> = Vec::new();
        // One comes and one goes each nanosecond, over a backlog of thirty.
        for (now, &(process, sector)) in (0..).zip(&arrivals) {
            let process = process % weights.len();
            sched.insert(Nanos(now), read(u32::try_from(process).unwrap(), now, sector * 8, now));
            if waiting[process] == 0 {
                backlogged_since[process] = log.len();
            }
            waiting[process] += 1;
            if now < 30 {
                continue;
            }
            let (id, sent) = send(&mut sched, now).expect("thirty wait");
            end(&mut sched, sent, now);
            let process = sent.process as usize;
            // A read's name is when it came.
            let after = log.iter().filter(|s| s.process == process && s.at >= id + expire);
            let (older, younger): (Vec<_>, Vec<_>) = after.partition(|s| s.id < id);
            let overtaken_by = younger.len() as u64 * LEN;
            prop_assert!(overtaken_by <= (older.len() as u64 + 1) * slot, "{overtaken_by}");
            let others = (log.len() - backlogged_since[process]) as u64 * LEN;
            let own = u64::from(weights[process]);
            let all: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
            let bound = all * 2 * slot / own + 2 * slot * weights.len() as u64;
            prop_assert!(others <= bound, "{others} sectors, not more than {bound}");
            waiting[process] -= 1;
            log.push(Sent { process, id, at: now });
            backlogged_since[process] = log.len();
        }
        drain(&mut sched);
    }
}
