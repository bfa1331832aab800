//! Zone write plugging over a timed device, in virtual and in real time: the layer behaves the same
//! with both clocks.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use zonal_blk::{
    Bio, Bytes, Channel, Completion, Nanos, Op, Queue, QueueOptions, Sector, Status, ZoneWrite,
};
use zonal_device::{NullConfig, NullDevice};

const ZONES: u32 = 4;
const ZONE: u64 = 1024;
const LEN: u32 = 8;
const PER_ZONE: u64 = ZONE / LEN as u64;
const CHANNELS: usize = 4;
const LATENCY: u64 = 10_000;

fn queue(zone_write: ZoneWrite, jitter: u64) -> Arc<Queue> {
    let config = NullConfig {
        zones: ZONES,
        zone_size: Bytes(ZONE * 512),
        latency: Nanos(LATENCY),
        jitter: Nanos(jitter),
        seed: 7,
        ..NullConfig::default()
    };
    let device = Arc::new(NullDevice::new(&config).unwrap());
    let options =
        QueueOptions { zone_write: Some(zone_write), merge: false, ..QueueOptions::default() };
    Queue::attach(device, options).unwrap()
}

/// The appends of one of the channels, which together fill the zones, all zones in turn.
fn appends(channel: usize) -> impl Iterator<Item = Bio> {
    let all = PER_ZONE * u64::from(ZONES) / CHANNELS as u64;
    (0..all).map(move |i| {
        let zone = (i + channel as u64) % u64::from(ZONES);
        Bio::new(Op::ZoneAppend, Sector(zone * ZONE), LEN, i)
    })
}

/// Whether appends landed on every LBA once.
fn fills_the_device(mut landed: Vec<u64>) -> bool {
    landed.sort_unstable();
    landed.into_iter().eq((0..u64::from(ZONES) * ZONE).step_by(LEN as usize))
}

/// Fills the device in virtual time. Gives what completed on which channel, when and where.
fn in_virtual_time(queue: &Arc<Queue>) -> Vec<(u64, usize, Sector)> {
    let mut channels: Vec<Channel> = (0..CHANNELS).map(|_| queue.channel().unwrap()).collect();
    let mut now = Nanos(0);
    for (i, channel) in channels.iter_mut().enumerate() {
        appends(i).for_each(|bio| channel.submit(now, bio));
    }
    let mut trace = Vec::new();
    let mut completions: Vec<Completion> = Vec::new();
    while channels.iter().any(|channel| channel.outstanding() > 0) {
        let next = channels.iter_mut().filter_map(|channel| channel.next_event().at()).min();
        now = now.max(next.expect("something is in flight"));
        for (i, channel) in channels.iter_mut().enumerate() {
            channel.poll(now, &mut completions);
            for done in completions.drain(..) {
                assert_eq!(done.status, Status::Ok);
                trace.push((now.0, i, done.sector));
            }
        }
    }
    trace
}

fn last_at(trace: &[(u64, usize, Sector)]) -> u64 {
    trace.last().expect("a trace").0
}

#[test]
fn virtual_time_shows_one_write_in_flight_per_zone_or_per_disk() {
    for (policy, at_once) in [(ZoneWrite::Plug, u64::from(ZONES)), (ZoneWrite::Qd1, 1)] {
        let queue = queue(policy, 0);
        let trace = in_virtual_time(&queue);
        let writes = PER_ZONE * u64::from(ZONES);
        assert_eq!(last_at(&trace), writes / at_once * LATENCY, "{policy:?}");
        assert!(fills_the_device(trace.iter().map(|&(.., at)| at.0).collect()));
        assert_eq!(queue.live_plugs(), 0);
    }
}

#[test]
fn virtual_time_repeats_itself() {
    for policy in [ZoneWrite::Plug, ZoneWrite::Qd1] {
        let runs = [0, 1].map(|_| in_virtual_time(&queue(policy, LATENCY)));
        assert_eq!(runs[0], runs[1]);
    }
}

#[test]
fn qd1_drains_a_zone_before_the_next() {
    let trace = in_virtual_time(&queue(ZoneWrite::Qd1, 0));
    let zones: Vec<u64> = trace.iter().map(|&(.., at)| at.0 / ZONE).collect();
    let changes = zones.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(changes, ZONES as usize - 1);
}

/// One thread's part in real time.
fn work(mut channel: Channel, index: usize, done: &AtomicUsize, start: Instant) -> Vec<u64> {
    let now = || Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap());
    let mut bios = appends(index);
    let mut landed = Vec::new();
    let mut completions = Vec::new();
    let all = (PER_ZONE * u64::from(ZONES)) as usize;
    // Until all threads have all of theirs: the writes of others may be here.
    while done.load(Ordering::Acquire) < all {
        while channel.outstanding() < 16
            && let Some(bio) = bios.next()
        {
            channel.submit(now(), bio);
        }
        channel.poll(now(), &mut completions);
        done.fetch_add(completions.len(), Ordering::AcqRel);
        for completion in completions.drain(..) {
            assert_eq!(completion.status, Status::Ok);
            landed.push(completion.sector.0);
        }
        std::thread::yield_now();
    }
    landed
}

#[test]
fn real_threads_lose_nothing_while_the_policy_changes_under_them() {
    let queue = queue(ZoneWrite::Plug, LATENCY);
    let (done, stop, start) = (AtomicUsize::new(0), AtomicBool::new(false), Instant::now());
    let landed: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CHANNELS)
            .map(|index| (index, queue.channel().unwrap()))
            .map(|(index, channel)| {
                let done = &done;
                scope.spawn(move || work(channel, index, done, start))
            })
            .collect();
        let switcher = scope.spawn(|| {
            let mut policies = [ZoneWrite::Qd1, ZoneWrite::Plug].into_iter().cycle();
            loop {
                queue.freeze();
                while !queue.is_quiescent() {
                    std::thread::yield_now();
                }
                queue.set_zone_write(policies.next().unwrap()).unwrap();
                queue.unfreeze();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::yield_now();
            }
        });
        let landed = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        switcher.join().unwrap();
        landed
    });
    assert!(fills_the_device(landed));
    assert_eq!(queue.live_plugs(), 0);
    assert!(queue.dump_plugs(true).iter().all(|plug| plug.references == 0));
}
