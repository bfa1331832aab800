//! Latencies, collection, invariants, wrong configurations.
use crate::rig::{PAGE, PAGES, Rig, SUPERBLOCK, read, small, write};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use zonal_blk::{Bio, Buf, Bytes, Nanos, Op, Sector};
use zonal_device::SsdConfig;
use zonal_device::control::{DeviceControl, FaultHooks};
use zonal_device::device_spec::{build, parse};
use zonal_device::flash::FlashActivity;
use zonal_device::rng::Rng;
use zonal_device::ssd::Prefill;
use zonal_device::ssd::translation::Policy;

#[test]
fn write_completes_in_the_buffer_and_is_read_from_there_until_its_unit_is_programmed() {
    let mut rig = Rig::new(&small());
    assert_eq!(rig.time(write(0, 1)), 10_000 + 4096);
    assert_eq!(rig.time(read(0, 1)), 5_000 + 4096, "from the buffer");
    assert_eq!(rig.time(write(1, 15)), 10_000 + 15 * 4096, "a unit is full");
    rig.device.drain();
    assert_eq!(rig.time(read(0, 1)), 5_000 + 40_000 + 2 * 4096, "from the flash");
    assert_eq!(rig.time(read(100, 1)), 5_000 + 4096, "nothing was written there");
}

#[test]
fn read_waits_for_a_program_of_its_die() {
    let mut rig = Rig::new(&SsdConfig { prefill: Prefill::Sequential, ..small() });
    let alone = rig.time(read(0, 1));
    rig.time(write(0, 64));
    let start = rig.now;
    (0..4).for_each(|unit| rig.submit(read(256 + unit * 16, 1)));
    rig.run();
    let last = rig.ends.iter().map(|(end, _)| (*end - start).0).max().unwrap();
    assert!(last > alone + 150_000, "each die programs, and one has just begun: {last}");
}

#[test]
fn sequential_overwrites_and_discards_of_whole_superblocks_copy_nothing() {
    let mut rig = Rig::new(&SsdConfig { prefill: Prefill::Sequential, ..small() });
    let sequential = rig.amplification_of(|rig| {
        for page in (0..3 * PAGES).step_by(32) {
            rig.submit(write(page % PAGES, 32));
            rig.run();
        }
    });
    assert_eq!(sequential, 1.0);
    let discarding = rig.amplification_of(|rig| {
        for segment in [5, 20, 7, 31, 5, 0, 12, 20, 5, 9, 9, 9, 30, 1, 2, 25, 0, 7] {
            let (from, sectors) = (Sector(segment * SUPERBLOCK * PAGE), 1024);
            rig.time(Bio::new(Op::Discard, from, sectors, 0));
            for page in (0..SUPERBLOCK).step_by(32) {
                rig.time(write(segment * SUPERBLOCK + page, 32));
            }
        }
    });
    assert_eq!(discarding, 1.0);
    assert_eq!(rig.stats().discarded, Bytes(18 * SUPERBLOCK * 4096));
}

#[test]
fn drive_that_begins_in_its_steady_state_stays_there_and_one_that_is_full_comes_to_it() {
    let steady = |prefill, warm: u64| {
        let mut rig = Rig::new(&SsdConfig { prefill, ..small() });
        let mut rng = Rng::new(2);
        rig.overwrite(warm * PAGES, 32, &mut rng);
        rig.amplification_of(|rig| drop(rig.overwrite(6 * PAGES, 32, &mut rng)))
    };
    let (begins, comes) = (steady(Prefill::Random(3), 0), steady(Prefill::Sequential, 4));
    assert!((begins / comes - 1.0).abs() < 0.03, "{begins:.3} and {comes:.3}");
    assert!(begins > 1.8, "it collects");
}

#[test]
fn collection_costs_throughput_and_is_seen_in_the_latencies() {
    let run = |prefill| {
        let mut rig = Rig::new(&SsdConfig { prefill, ..small() });
        let start = rig.now;
        let mut latencies = rig.overwrite(2 * PAGES, 16, &mut Rng::new(3));
        latencies.sort_unstable();
        ((rig.now - start).0, latencies[latencies.len() * 99 / 100])
    };
    let (fresh, fresh_p99) = run(Prefill::Empty);
    let (steady, steady_p99) = run(Prefill::Random(3));
    assert!(steady > fresh * 3 / 2, "{fresh} and {steady} ns");
    assert!(steady_p99 > fresh_p99, "{fresh_p99} and {steady_p99} ns");
}

#[test]
fn host_waits_for_the_collection_and_goes_on() {
    let mut rig =
        Rig::new(&SsdConfig { prefill: Prefill::Random(1), gc_low: 2, gc_high: 2, ..small() });
    let latencies = rig.overwrite(2 * PAGES, 256, &mut Rng::new(4));
    rig.device.drain();
    let stats = rig.stats();
    assert_eq!(latencies.len() as u64, 2 * PAGES, "every write completes");
    assert_eq!(stats.host, Bytes(2 * PAGES * 4096));
    assert!(stats.waited >= Bytes(PAGES * 4096), "{} waited", stats.waited.0);
    assert!((1..=2).contains(&stats.free_superblocks), "{} free", stats.free_superblocks);
}

#[test]
fn traces_tell_writes_that_wait_for_the_collection_from_those_that_wait_for_programs() {
    let stalls = |prefill, depth| {
        let (write_time, link_rate) = (Nanos(0), Bytes(10_000_000_000));
        let mut rig = Rig::new(&SsdConfig { prefill, write_time, link_rate, ..small() });
        let seen = Arc::new(Mutex::new([0_u64; 2]));
        let to = Arc::clone(&seen);
        rig.device.trace_flash(Box::new(move |entry| {
            let kinds = [FlashActivity::BufferFull, FlashActivity::Collection];
            if let Some(kind) = kinds.iter().position(|kind| *kind == entry.activity) {
                to.lock().unwrap()[kind] += (entry.to - entry.from).0;
            }
        }));
        rig.overwrite(PAGES, depth, &mut Rng::new(6));
        *seen.lock().unwrap()
    };
    let [full, collection] = stalls(Prefill::Empty, 512);
    assert!(full > 0 && collection == 0, "{full} ns for programs, {collection} for the collection");
    let [full, collection] = stalls(Prefill::Random(3), 512);
    assert!(collection > full, "{full} ns for programs, {collection} for the collection");
}

#[test]
fn levels_have_the_superblocks_by_their_valid_pages_and_what_waits_for_the_collection() {
    let levels =
        |rig: &Rig| -> Vec<u64> { rig.device.levels().iter().map(|level| level.value).collect() };
    // Four superblocks of valid pages. The first loses a quarter of them each time, to one that loses half
    // of its own while it is filled.
    let mut rig = Rig::new(&small());
    for page in (0..4 * SUPERBLOCK).step_by(32) {
        rig.time(write(page, 32));
    }
    assert_eq!(levels(&rig)[4..], [0, 0, 0, 0, 4]);
    for (first, quarter) in [(0, [0, 1, 1, 3]), (32, [0, 3, 0, 3]), (64, [1, 3, 0, 3])] {
        rig.time(write(first, 32));
        rig.time(write(1000 + first, 32));
        rig.time(write(1000 + first, 32));
        rig.time(write(1000 + first, 32));
        assert_eq!(levels(&rig)[5..], quarter, "after {first}");
    }
    let config = SsdConfig { prefill: Prefill::Random(3), ..small() };
    let mut rig = Rig::new(&config);
    (0..600).for_each(|at| rig.submit(write(at * 7 % PAGES, 1)));
    let mut most = 0;
    while rig.channel.outstanding() > 0 {
        rig.step();
        most = most.max(levels(&rig)[4]);
    }
    assert!(most > 0 && most < config.buffer.0, "{most} bytes waited");
}

#[test]
fn same_commands_at_the_same_times_complete_at_the_same_times() {
    let run = || {
        let mut rig = Rig::new(&SsdConfig { prefill: Prefill::Random(1), ..small() });
        rig.overwrite(PAGES, 8, &mut Rng::new(5))
    };
    assert_eq!(run(), run());
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64, u8),
    Read(u64, u64),
    Discard(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0..PAGES - 64, 1..64_u64);
    let step = prop_oneof![
        5 => (range(), any::<u8>()).prop_map(|((at, len), fill)| Step::Write(at, len, fill)),
        3 => range().prop_map(|(at, len)| Step::Read(at, len)),
        1 => range().prop_map(|(at, len)| Step::Discard(at, len)),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn data_are_what_was_written_last_under_each_way_to_collect(
        steps in steps(),
        gc in prop_oneof![Just(Policy::Greedy), Just(Policy::CostBenefit), Just(Policy::Fifo)],
        separate: bool,
        prefill in prop_oneof![Just(Prefill::Empty), Just(Prefill::Random(1))],
        map_cache in prop_oneof![Just(0), Just(4096), Just(2 * 4096)],
    ) {
        let (map_cache, overprovision, gc_buffer) = (Bytes(map_cache), 50_000, Bytes(512 << 10));
        let flash = SsdConfig { map_cache, overprovision, gc_buffer, ..small() };
        let mut rig = Rig::new(&SsdConfig { gc, separate, prefill, memory: true, ..flash });
        let mut expected = vec![0; usize::try_from(PAGES).unwrap()];
        let pages = |at: u64, len: u64| usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap();
        for step in steps {
            match step {
                Step::Write(at, len, fill) => {
                    let data = vec![fill; usize::try_from(len * 4096).unwrap()];
                    let buf = Buf::from(&data[..]);
                    rig.time(Bio::write(Sector(at * PAGE), buf, 0));
                    expected[pages(at, len)].fill(fill);
                }
                Step::Discard(at, len) => {
                    rig.time(Bio { op: Op::Discard, ..read(at, len) });
                    expected[pages(at, len)].fill(0);
                }
                Step::Read(at, len) => {
                    rig.submit(Bio::read(Sector(at * PAGE), u32::try_from(len * PAGE).unwrap(), 0));
                    rig.run();
                    let data = rig.ends.pop().unwrap().1.buf.unwrap();
                    for (page, fill) in data.chunks(4096).zip(&expected[pages(at, len)]) {
                        prop_assert!(page.iter().all(|byte| byte == fill));
                    }
                }
            }
        }
        rig.device.drain();
        let busy: Vec<u64> = rig.device.levels().iter().map(|level| level.value).collect();
        prop_assert_eq!(busy[1], 0, "a die is busy");
    }
}

#[test]
fn wrong_configurations_are_refused_with_the_option_and_what_it_needs() {
    let error = |text: &str| match parse(text) {
        Err(error) => error.to_string(),
        Ok(spec) => build(&spec).err().map_or_else(|| "none".to_owned(), |error| error.to_string()),
    };
    for (text, expected) in [
        ("ssd:overprovision=0.1%", "overprovision"),
        ("ssd:overprovision=7", "a share such as 7% or 12.5%"),
        ("ssd:prefill=full", "`empty`, `sequential`, or `random:N`"),
        ("ssd:prefill=random:9999", "`random:N`"),
        ("ssd:gc=gready", "greedy or cost-benefit or fifo"),
        ("ssd:size=1000", "a non-zero multiple of 4K"),
        ("ssd:gc_low=1", "from 2 to 1024"),
        ("ssd:gc_low=8", "at least gc_low=8"),
        ("ssd:superblock_dies=5", "0, or a divisor of dies=32"),
        ("ssd:buffer=4M", "gc_buffer=8MiB, 4 units, and a command of max_io=1MiB"),
        ("ssd:written=100%", "unknown option `written`"),
        ("ssd:size=32T", "up to"),
        ("ssd:fdp_handles=256", "expected at most 255"),
        ("ssd:fdp_handles=4,fdp_persistent=5", "at most fdp_handles=4"),
        ("ssd:fdp_groups=2", "1, as there are no reclaim unit handles"),
        ("ssd:fdp_handles=8,fdp_groups=2", "superblock_dies=32 of dies=32"),
        (
            "ssd:fdp_handles=64,fdp_groups=4,superblock_dies=8",
            "at most 63, so that there are no more",
        ),
        ("ssd:fdp_handles=8,separate=false", "true, as there are reclaim unit handles"),
        ("ssd:fdp_handles=128,buffer=12M", "gc_buffer=8MiB, 258 units, and a command"),
        ("ssd:fdp_handles=8,fdp_persistent=8,gc_buffer=1M", "at least 20 units"),
        ("ssd:map_cache=1K", "0 for all of the map, or a multiple of 4K"),
        (
            "ssd:map_cache=1M,overprovision=1%",
            "beside the data 5 are for the map (map_cache), 2 are filled",
        ),
        ("ssd:map_cache=1M,gc_buffer=512K", "at least 6 units"),
        ("ssd:block=16K", "a non-zero multiple of cell_pages * page = 48KiB"),
    ] {
        let found = error(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
    let found = error("ssd:size=896G,overprovision=0.1%");
    assert!(
        found.contains("found 0.1%") && found.contains("beside the data 2 are filled"),
        "{found}"
    );
}
