//! A drive that is polled only when a command may complete, or has completed, completes each at the same time
//! as one that is polled for all it does.
use proptest::prelude::*;
use zonal_blk::{Bio, BioFlags, Channel, Nanos, Op, Queue, QueueOptions, Sector, Wake, ZoneWrite};
use zonal_device::device_spec;

const SPECS: [&str; 7] = [
    "hdd",
    "hdd:write_cache=false",
    "smr-20t:written=50%",
    "zns-1t:written=50%",
    "zn540:written=50%",
    "zn540:lba=512,written=50%",
    "ssd:size=64M,overprovision=28%,dies=4,channels=2,block=96K,prefill=random:1",
];

/// Commands that are submitted together when those before have completed and a time has passed.
type Round = (u64, Vec<(Op, u64, u32, BioFlags)>);

fn channel(spec: &str) -> Channel {
    let device = device_spec::build(&device_spec::parse(spec).unwrap()).unwrap();
    // Writes out of place are to fail at the drive.
    let options = QueueOptions { zone_write: Some(ZoneWrite::Off), ..QueueOptions::default() };
    Queue::attach(device, options).unwrap().channel().unwrap()
}

/// When each command completed and how, and the number of polls.
fn run(
    spec: &str,
    rounds: &[Round],
    next: fn(&mut Channel) -> Wake,
    asks: bool,
) -> (Vec<(u64, u64, bool)>, u32) {
    let mut channel = channel(spec);
    let half = channel.queue().limits().capacity.0 / 2;
    let (mut now, mut ends, mut polls) = (Nanos(0), Vec::new(), 0);
    for (gap, commands) in rounds {
        now += Nanos(*gap);
        for (number, &(op, at, blocks, flags)) in (0..).zip(commands) {
            // Reads begin where something is written; the first empty zone is half-way.
            let sector = Sector(if op == Op::Read { at * 8 } else { half + at * 8 });
            channel.submit(now, Bio { flags, ..Bio::new(op, sector, blocks * 8, number) });
        }
        let mut completions = Vec::new();
        while channel.outstanding() > 0 {
            let at = next(&mut channel).at().expect("a command is due");
            now = now.max(at);
            if asks && !channel.has_completed(now) {
                continue;
            }
            channel.poll(now, &mut completions);
            polls += 1;
            let of_poll = completions.drain(..);
            ends.extend(of_poll.map(|end| (now.0, end.user_data, end.refused)));
        }
    }
    (ends, polls)
}

fn round() -> impl Strategy<Value = Round> {
    let op = prop_oneof![3 => Just(Op::Read), 3 => Just(Op::Write)];
    let flags = prop_oneof![4 => Just(BioFlags::NONE), 1 => Just(BioFlags::FUA)];
    let command = (op, 0..24_u64, 1..4_u32, flags);
    (0..3_000_000_u64, prop::collection::vec(command, 1..4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn commands_complete_at_the_same_times_if_a_drive_is_polled_for_completions_only(
        spec in prop::sample::select(&SPECS[..]),
        rounds in prop::collection::vec(round(), 1..20),
    ) {
        let (expected, _) = run(spec, &rounds, Channel::next_event, false);
        prop_assert_eq!(&run(spec, &rounds, Channel::next_completion, false).0, &expected);
        prop_assert_eq!(run(spec, &rounds, Channel::next_event, true).0, expected);
    }
}

#[test]
fn a_sequential_job_at_depth_1_takes_one_poll_an_io() {
    for (spec, op) in [("hdd", Op::Write), ("zn540:written=50%", Op::Read)] {
        let command = |at| (op, at, 1, BioFlags::NONE);
        let rounds: Vec<Round> = (0..50).map(|at| (1000, vec![command(at)])).collect();
        let (_, all) = run(spec, &rounds, Channel::next_event, false);
        let (_, polls) = run(spec, &rounds, Channel::next_completion, false);
        assert!(polls <= 55 && all >= 95, "{spec}: {polls} polls instead of {all}");
    }
}

#[test]
fn a_drive_that_is_asked_first_is_polled_for_completions_only() {
    let rounds: Vec<Round> =
        (0..50).map(|at| (1000, vec![(Op::Read, at, 1, BioFlags::NONE)])).collect();
    let (ends, polls) = run("zn540:written=50%", &rounds, Channel::next_event, true);
    assert_eq!((ends.len(), polls), (50, 50));
}
