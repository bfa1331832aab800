//! Models that are polled too late say so: a run in real time whose machine did not keep up.
use std::sync::Arc;
use zonal_blk::{Bio, Channel, Nanos, Op, Queue, QueueOptions, Sector};
use zonal_device::control::{DeviceControl, LATE_AFTER, Lateness};
use zonal_device::device_spec::{build, parse};
use zonal_device::hdd::{HddConfig, HddDevice};
use zonal_device::{NullConfig, NullDevice, ZnsConfig, ZnsDevice};

fn null(latency: u64, jitter: u64) -> Arc<NullDevice> {
    let (latency, jitter) = (Nanos(latency), Nanos(jitter));
    Arc::new(NullDevice::new(&NullConfig { latency, jitter, ..NullConfig::default() }).unwrap())
}

fn models() -> Vec<Arc<dyn DeviceControl>> {
    vec![
        null(100_000, 0),
        null(100_000, 50_000),
        Arc::new(HddDevice::new(&HddConfig::default()).unwrap()),
        Arc::new(ZnsDevice::new(&ZnsConfig::default()).unwrap()),
        build(&parse("ssd:size=1G,block=96K").unwrap()).unwrap(),
    ]
}

fn channel(model: &Arc<dyn DeviceControl>) -> Channel {
    Queue::attach(Arc::clone(model) as _, QueueOptions::default()).unwrap().channel().unwrap()
}

/// Writes a few blocks, one after the other; each poll is `late` after the time that the channel asks
/// for.
fn write(model: &Arc<dyn DeviceControl>, late: u64) -> Lateness {
    let mut channel = channel(model);
    let (mut now, mut completions) = (Nanos(0), Vec::new());
    for block in 0..10 {
        channel.submit(now, Bio::new(Op::Write, Sector(block * 8), 8, 0));
        while channel.outstanding() > 0 {
            now = channel.next_event().at().expect("a command is due").max(now) + Nanos(late);
            channel.poll(now, &mut completions);
        }
    }
    assert_eq!(completions.len(), 10);
    model.lateness().expect("the model has times")
}

#[test]
fn model_that_is_polled_in_time_is_never_late() {
    for model in models() {
        let none = Lateness { completions: 10, ..Lateness::default() };
        assert_eq!(write(&model, 0), none);
    }
}

#[test]
fn completions_count_as_late_from_twenty_microseconds_on() {
    for late in [LATE_AFTER.0, LATE_AFTER.0 + 1] {
        let expected = Lateness {
            completions: 10,
            late: if late > LATE_AFTER.0 { 10 } else { 0 },
            total: Nanos(10 * late),
            largest: Nanos(late),
        };
        assert_eq!(write(&(null(100_000, 0) as _), late), expected);
    }
}

#[test]
fn every_model_notices_that_it_is_polled_late() {
    for model in models() {
        let Lateness { completions, late, total, largest } = write(&model, 50_000_000);
        assert_eq!((completions, late), (10, 10));
        assert!(largest >= Nanos(49_000_000) && total >= Nanos(10 * 49_000_000), "{total:?}");
    }
}

/// At depth 1, a delay of 10 us for each 100 us of work adds a tenth to the time, although no command
/// counts as late.
#[test]
fn small_delays_of_all_commands_count_in_the_rate_that_is_lost() {
    let lateness = write(&(null(100_000, 0) as _), 10_000);
    assert_eq!(lateness.late, 0);
    let lost = lateness.lost_percent(Nanos(10 * 110_000));
    assert!((lost - 9.09).abs() < 0.01, "{lost}");
    assert!(!Lateness::is_of_model(lost) && Lateness::is_of_model(1.0));
}

#[test]
fn device_without_latency_has_no_times_to_be_late_for() {
    assert_eq!(null(0, 0).lateness(), None);
}
