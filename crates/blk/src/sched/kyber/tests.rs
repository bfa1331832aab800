//! Tokens, turns and latency targets of kyber, on a clock that the tests advance.
use super::*;
use crate::sched::testing::{Spec, ids};

const MS: u64 = 1_000_000;

fn scheduler() -> Kyber {
    Kyber::new(KyberOptions::default(), MergeLimit { max_sectors: 0 })
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
    assert_eq!(sched.tokens(), (256, 128));
    let now = run(&mut sched, Op::Write, 25 * MS, 12, now);
    assert!(sched.tokens().0 < 256, "{:?}", sched.tokens());
    // A slow read alone asks for more read tokens.
    let before = sched.tokens().0;
    run(&mut sched, Op::Read, 5 * MS, 12, now);
    assert!(sched.tokens().0 > before, "{:?}", sched.tokens());
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
