//! The same disk in real and in virtual time.
use crate::rig::{Rig, config};
use std::sync::Arc;
use std::time::Instant;
use zonal_blk::{Bio, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector};
use zonal_device::HddDevice;

/// A disk that turns fast, so that the test does not last.
const FAST: &str = "hdd:size=8G,heads=2,rings=2,rpm=30000,skew=200us,settle=200us,\
    seek_average=600us,seek_full=1ms,read_ahead=0,segments=1,command=20us";
const READS: u64 = 60;

fn sector(i: u64) -> u64 {
    i * 7919 % READS * (8 << 21) / READS / 8 * 8
}

fn in_virtual_time() -> Vec<u64> {
    let mut rig = Rig::new(&config(FAST));
    (0..READS).map(|i| rig.time(Op::Read, sector(i), 8)).collect()
}

fn in_real_time() -> Vec<u64> {
    let device = Arc::new(HddDevice::new(&config(FAST)).unwrap());
    let queue = Queue::attach(device as Arc<dyn Device>, QueueOptions::default()).unwrap();
    let mut channel = queue.channel().unwrap();
    let begin = Instant::now();
    let now = || Nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap());
    let mut completions: Vec<Completion> = Vec::new();
    let mut read = |i| {
        let start = now();
        channel.submit(start, Bio::new(Op::Read, Sector(sector(i)), 8, i));
        while channel.poll(now(), &mut completions) == 0 {
            std::hint::spin_loop();
        }
        completions.clear();
        (now() - start).0
    };
    (0..READS).map(&mut read).collect()
}

#[test]
fn latencies_in_real_time_are_those_of_virtual_time() {
    let config = config(FAST);
    let (mut model, mut real) = (in_virtual_time(), in_real_time());
    model.sort_unstable();
    real.sort_unstable();
    let least = config.command.0 + 4096 * 1_000_000_000 / config.link_rate;
    assert!(real[0] >= least, "{} before {least}", real[0]);
    // Where the disk has turned to when a command comes is chance, so single latencies differ;
    // the machine may be busy, so the real ones may be longer.
    let median = READS as usize / 2;
    assert!(real[median] > model[median] / 2, "{} against {}", real[median], model[median]);
    let quick = READS as usize / 4;
    assert!(real[quick] < 3 * model[median], "{} against {}", real[quick], model[median]);
}
