//! Invariants of any sequence of commands.
use crate::rig::{End, PLAIN, Rig, SMR, with};
use proptest::prelude::*;
use zonal_blk::{Bio, BioFlags, Bytes, Op, Sector, Status, ZoneWrite};
use zonal_device::HddConfig;

#[derive(Clone, Debug)]
struct Command {
    op: Op,
    sector: u64,
    sectors: u32,
    fua: bool,
    /// Nanoseconds after the command before.
    after: u64,
}

/// A command on a conventional disk.
fn command() -> impl Strategy<Value = Command> {
    let op = prop_oneof![4 => Just(Op::Read), 6 => Just(Op::Write), 1 => Just(Op::Flush)];
    let sector = prop_oneof![0..2000u64, 0..120_000_000u64];
    let after = prop_oneof![3 => Just(0u64), 1 => 0..30_000_000u64];
    (op, sector, 1..2048u32, prop::bool::weighted(0.1), after).prop_map(
        |(op, sector, sectors, fua, after)| {
            let flush = op == Op::Flush;
            let (sector, sectors) = if flush { (0, 0) } else { (sector, sectors) };
            Command { op, sector, sectors, fua, after }
        },
    )
}

fn options() -> impl Strategy<Value = String> {
    (
        prop::sample::select(vec!["satf", "fifo"]),
        prop::sample::select(vec!["ata", "ahci"]),
        prop::sample::select(vec!["512K", "1M", "3M"]),
        1..40u32,
        prop::sample::select(vec!["0", "512K", "1M"]),
        any::<bool>(),
        prop::sample::select(vec![0, 100_000]),
    )
        .prop_map(|(order, host, cache, commands, reserve, write_cache, errors)| {
            format!(
                "order={order},host={host},cache={cache},cache_commands={commands},\
                 reserve={reserve},write_cache={write_cache},error_rate={errors},\
                 read_ahead=128K,max_age=100ms"
            )
        })
}

/// Runs the commands; `look` sees the disk whenever something may have happened.
fn run(config: &HddConfig, commands: &[Command]) -> (Vec<End>, Vec<u64>) {
    let mut rig = Rig::new(config);
    let mut starts = Vec::new();
    let limits = (config.cache, config.cache_commands);
    let look = |device: &zonal_device::HddDevice| {
        let (bytes, commands) = device.buffered();
        assert!(bytes <= limits.0.max(config.piece) && commands <= limits.1, "{bytes} {commands}");
    };
    for (nr, command) in (0..).zip(commands) {
        let &Command { op, sector, sectors, fua, after } = command;
        rig.now += after;
        starts.push(rig.now);
        let flags = if fua && op == Op::Write { BioFlags::FUA } else { BioFlags::NONE };
        rig.submit(Bio { flags, ..Bio::new(op, Sector(sector), sectors, nr) });
        if op == Op::Flush {
            rig.run_to(0, look);
            assert_eq!(rig.device.buffered(), (Bytes(0), 0), "a flush leaves nothing");
        }
        rig.run_to(40, look);
    }
    rig.run_to(0, look);
    (rig.ends, starts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_command_ends_once_and_not_before_its_least_time(
        commands in prop::collection::vec(command(), 1..120),
        options in options(),
    ) {
        let config = with(PLAIN, &options);
        let (ends, starts) = run(&config, &commands);
        let mut numbers: Vec<u64> = ends.iter().map(|end| end.user_data).collect();
        numbers.sort_unstable();
        prop_assert!(numbers.into_iter().eq(0..commands.len() as u64));
        for end in &ends {
            let command = &commands[end.user_data as usize];
            let bytes = u64::from(command.sectors) * 512;
            let on_link = bytes * 1_000_000_000 / config.link_rate;
            let took = end.at - starts[end.user_data as usize];
            // Pieces are rounded down one by one.
            prop_assert!(took + 8 >= config.command.0 + on_link, "{command:?} took {took}");
            let durable = command.op == Op::Write && (command.fua || !config.write_cache);
            if durable {
                let passes = bytes * config.revolution().0 / config.track_outer.0;
                prop_assert!(took + 8 >= config.command.0 + passes, "{command:?} took {took}");
            }
            prop_assert!(matches!(end.status, Status::Ok | Status::Medium));
        }
        prop_assert_eq!(run(&config, &commands).0, ends, "the same again");
    }

    #[test]
    fn zones_are_filled_in_order_by_any_policy(
        writes in prop::collection::vec((0..64u64, 1..256u32), 1..200),
        options in options(),
        qd1 in any::<bool>(),
    ) {
        let policy = if qd1 { ZoneWrite::Qd1 } else { ZoneWrite::Plug };
        let mut rig = Rig::traced(&with(SMR, &options), None, policy);
        let mut wp = [0u64; 64];
        for (nr, &(zone, lbas)) in (0..).zip(&writes) {
            let at = &mut wp[zone as usize];
            let sectors = lbas * 8;
            let sector = Sector(zone * (16 << 11) + *at);
            rig.submit(Bio::new(Op::Write, sector, sectors, nr));
            *at += u64::from(sectors);
        }
        rig.run();
        let fits = |end: &&End| end.status == Status::Ok;
        let full = wp.iter().any(|&wp| wp > 16 << 11);
        prop_assert!(full || rig.ends.iter().filter(fits).count() == writes.len());
        prop_assert_eq!(rig.ends.len(), writes.len());
    }
}
