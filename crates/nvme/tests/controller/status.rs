//! Why I/O failed: the zone, the host, the path or the medium.
use crate::support::{Ended, Host, Io, ZONE, config, null, received, rw, zone_send};
use std::sync::Arc;
use zonal_blk::{Device, Nanos, Queue, QueueOptions};
use zonal_device::inject::InjectDevice;
use zonal_device::{NullConfig, NullDevice};
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{Namespace, Subsystem};
use zonal_nvme::wire::Sqe;
use zonal_nvme::wire::log::SmartLog;
use zonal_nvme::wire::opcode::{IoOpcode, LogId};

const RESET: u8 = 4;

/// Submits commands to one queue and returns their statuses, by CID, when all have completed.
fn together(io: &mut Io, commands: &[(Sqe, &[u8])]) -> Vec<NvmeStatus> {
    let mut responses = Vec::new();
    for (cid, (sqe, data)) in (0u16..).zip(commands) {
        let sqe = Sqe { cid: cid.into(), ..*sqe };
        io.queue.submit(io.now, &sqe, received(data), &mut responses);
    }
    while io.queue.outstanding() > 0 {
        io.now.0 += 1000;
        io.queue.poll(io.now, &mut responses);
    }
    responses.sort_by_key(|answer| answer.cqe.cid.get());
    responses.into_iter().map(|answer| Ended::of(answer).status).collect()
}

fn media_errors(host: &mut Host) -> u128 {
    let log: SmartLog = host.log(LogId::SMART, 0, 0, 512, 0).fine().structure();
    log.media_errors.get()
}

fn write(slba: u64) -> (Sqe, &'static [u8]) {
    (rw(IoOpcode::WRITE, slba, 1).into(), &[1; 4096])
}

#[test]
fn write_that_overtakes_a_reset_is_an_invalid_write_and_no_media_error() {
    let mut host = Host::new(&NullConfig { latency: Nanos(10_000), ..null() });
    let mut io = host.io(1);
    let written = together(&mut io, &[write(0), write(1)]);
    assert_eq!(written, [NvmeStatus::SUCCESS; 2]);
    let reset = (zone_send(0, RESET, 0).into(), &[][..]);
    let append = (rw(IoOpcode::ZONE_APPEND, 0, 1).into(), &[1; 4096][..]);
    let found = together(&mut io, &[reset, write(0), write(2), append]);
    let invalid = NvmeStatus::ZONE_INVALID_WRITE;
    assert_eq!(found, [NvmeStatus::SUCCESS, invalid, invalid, NvmeStatus::INTERNAL]);
    assert_eq!(media_errors(&mut host), 0);
    assert_eq!(together(&mut io, &[write(0)]), [NvmeStatus::SUCCESS]);
}

#[test]
fn write_that_overtakes_another_is_an_invalid_write_though_the_zone_has_caught_up() {
    let mut host = Host::new(&null());
    let (mut first, mut second) = (host.io(1), host.io(2));
    let mut responses = Vec::new();
    let (early, data) = write(1);
    first.queue.submit(first.now, &early, received(data), &mut responses);
    assert_eq!(together(&mut second, &[write(0)]), [NvmeStatus::SUCCESS]);
    first.queue.poll(first.now, &mut responses);
    let found = Ended::of(responses.remove(0)).status;
    assert_eq!(found, NvmeStatus::ZONE_INVALID_WRITE);
    assert_eq!(media_errors(&mut host), 0);
}

/// A host of a device that fails commands as `rule` says.
fn failing(null: &NullConfig, rule: &str) -> Host {
    let device = Arc::new(NullDevice::new(null).expect("a device"));
    let inject = Arc::new(InjectDevice::new(device, 0));
    inject.add(rule.parse().expect("a rule"));
    let queue = Queue::attach(inject as Arc<dyn Device>, QueueOptions::default());
    let namespace = Namespace::new(queue.expect("a queue"), [7; 16]).expect("a namespace");
    let subsystem = Subsystem::new(config());
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    Host::of(subsystem)
}

#[test]
fn failures_of_the_device_have_the_status_of_their_cause() {
    use NvmeStatus as S;
    let zoned = null();
    let disk = NullConfig { zoned: false, ..null() };
    // Device, fault, command: status, whether it is a media error.
    for (null, rule, (sqe, data), status, medium) in [
        (&zoned, "fail=write,status=medium", write(0), S::WRITE_FAULT, true),
        (&zoned, "fail=write,status=ioerr", write(0), S::WRITE_FAULT, true),
        (&zoned, "fail=write,status=timeout", write(0), S::ABORT_REQUESTED, false),
        (&zoned, "fail=write,status=nospc", write(0), S::CAPACITY_EXCEEDED, false),
        (&zoned, "fail=write,status=offline", write(0), S::ZONE_OFFLINE, false),
        (&disk, "fail=write,status=medium", write(0), S::WRITE_FAULT, true),
        (&disk, "fail=write,status=offline", write(0), S::NOT_READY, false),
        (&zoned, "fail=read,status=medium", read(), S::UNRECOVERED_READ, true),
        (&zoned, "fail=read,status=ioerr", read(), S::UNRECOVERED_READ, true),
        (&zoned, "fail=read,status=offline", read(), S::ZONE_OFFLINE, false),
        (&disk, "fail=read,status=offline", read(), S::NOT_READY, false),
        (&zoned, "fail=zone,status=medium", reset(), S::WRITE_FAULT, true),
        (&zoned, "fail=zone,status=ioerr", reset(), S::INTERNAL, false),
        (&zoned, "fail=flush,status=medium", flush(), S::WRITE_FAULT, true),
    ] {
        let mut host = failing(null, rule);
        let mut io = host.io(1);
        let ended = io.send(sqe, data);
        let found = (ended.status, media_errors(&mut host) > 0);
        assert_eq!(found, (status, medium), "{rule} {:?}", IoOpcode(sqe.opcode));
    }
}

fn read() -> (Sqe, &'static [u8]) {
    (rw(IoOpcode::READ, 0, 1).into(), &[])
}

fn reset() -> (Sqe, &'static [u8]) {
    (zone_send(ZONE, RESET, 0).into(), &[])
}

fn flush() -> (Sqe, &'static [u8]) {
    (Sqe::new(IoOpcode::FLUSH.0, 0, 1), &[])
}
