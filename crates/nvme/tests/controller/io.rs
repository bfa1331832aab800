//! I/O commands: data, checks, several in flight, removed namespaces.
use crate::support::{CAPACITY, Ended, Host, Io, ZONE, ZONES, namespace, null, received, rw};
use zerocopy::IntoBytes;
use zonal_blk::Bytes;
use zonal_device::NullConfig;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::fabrics::Property;
use zonal_nvme::wire::io::{DsmCommand, DsmRange, RwCommand};
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::{Sgl, Sqe};

fn pattern(blocks: usize, seed: u8) -> Vec<u8> {
    (0..blocks * 4096).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn reads_return_what_was_written_and_appends_their_lba() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    io.write(0, &pattern(3, 1)).fine();
    assert_eq!(io.append(0, &pattern(2, 2)).fine().result, 3);
    assert_eq!(io.append(0, &pattern(1, 3)).fine().result, 5);
    assert_eq!(io.append(4 * ZONE, &pattern(1, 4)).fine().result, 4 * ZONE);
    let read = io.read(0, 6).fine().data;
    assert_eq!(read, [pattern(3, 1), pattern(2, 2), pattern(1, 3)].concat());
    assert_eq!(io.read(4 * ZONE, 1).fine().data, pattern(1, 4));
    assert_eq!(io.read(ZONE - 1, 2).fine().data, vec![0; 8192], "across zones, never written");
    io.send(Sqe::new(IoOpcode::FLUSH.0, 1, 1), &[]).fine();
    io.send(Sqe::new(IoOpcode::FLUSH.0, 1, u32::MAX), &[]).fine();
}

#[test]
fn zeroes_compare_and_verify() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    io.write(0, &pattern(1, 1)).fine();
    io.send(rw(IoOpcode::WRITE_ZEROES, 1, 3), &[]).fine();
    assert_eq!(io.zone(0).write_pointer.get(), 4);
    let expected = [pattern(1, 1), vec![0; 3 * 4096]].concat();
    io.send(rw(IoOpcode::COMPARE, 0, 4), &expected).fine();
    let ended = io.send(rw(IoOpcode::COMPARE, 0, 4), &pattern(4, 1));
    assert_eq!(ended.status, NvmeStatus::COMPARE_FAILURE);
    let ended = io.send(rw(IoOpcode::VERIFY, 0, 4), &[]).fine();
    assert!(ended.data.is_empty(), "verify gives no data");
}

#[test]
fn ranges_lengths_and_bits_are_checked() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    let end = ZONE * ZONES;
    type Change = fn(&mut RwCommand);
    let nothing: Change = |_| {};
    for (opcode, slba, blocks, change, expected) in [
        (IoOpcode::READ, end - 1, 2, nothing, NvmeStatus::LBA_RANGE),
        (IoOpcode::READ, u64::MAX, 1, nothing, NvmeStatus::LBA_RANGE),
        (IoOpcode::WRITE_ZEROES, end, 1, nothing, NvmeStatus::LBA_RANGE),
        (IoOpcode::READ, 0, 1, |c| c.dptr.length = 4097.into(), NvmeStatus::SGL_LENGTH),
        (IoOpcode::READ, 0, 1, |c| c.dptr = Sgl::in_capsule(4096), NvmeStatus::SGL_TYPE),
        (IoOpcode::READ, 0, 1, |c| c.control = 0x2000.into(), NvmeStatus::INVALID_FIELD),
        (IoOpcode::READ, 0, 1, |c| c.control = 0x0400.into(), NvmeStatus::INVALID_FIELD),
        (IoOpcode::READ, 0, 1, |c| c.nsid = 2.into(), NvmeStatus::INVALID_NAMESPACE),
        (IoOpcode::READ, 0, 1, |c| c.nsid = u32::MAX.into(), NvmeStatus::INVALID_NAMESPACE),
        (IoOpcode::READ, 0, 1, |c| c.opcode = 0x7c, NvmeStatus::INVALID_OPCODE),
        (IoOpcode::READ, 0, 1, |c| c.flags = 0x80, NvmeStatus::INVALID_FIELD),
        (IoOpcode::ZONE_APPEND, 1, 1, nothing, NvmeStatus::INVALID_FIELD),
        (IoOpcode::ZONE_APPEND, 0, 17, nothing, NvmeStatus::INVALID_FIELD),
        (IoOpcode::ZONE_APPEND, 0, 13, nothing, NvmeStatus::ZONE_BOUNDARY),
    ] {
        let mut command = rw(opcode, slba, blocks);
        change(&mut command);
        let moves = matches!(opcode, IoOpcode::WRITE | IoOpcode::ZONE_APPEND);
        let data = if moves { pattern(blocks as usize, 0) } else { Vec::new() };
        assert_eq!(io.send(command, &data).status, expected, "{command:?}");
    }
    let short = io.send(rw(IoOpcode::WRITE, 0, 2), &pattern(1, 0));
    assert_eq!(short.status, NvmeStatus::DATA_TRANSFER);
    assert_eq!(io.zone(0).write_pointer.get(), 0, "nothing was written");
}

#[test]
fn transfers_are_as_long_as_mdts_allows() {
    let large = NullConfig {
        zone_size: Bytes(4 << 20),
        zone_capacity: None,
        max_io: Bytes(64 << 10),
        ..null()
    };
    let host = Host::new(&large);
    let mut io = host.io(1);
    let data = pattern(256, 5);
    io.write(0, &data).fine();
    assert_eq!(io.read(0, 256).fine().data, data);
    assert_eq!(io.write(256, &pattern(257, 5)).status, NvmeStatus::INVALID_FIELD);
    assert_eq!(io.append(0, &pattern(16, 6)).fine().result, 256);
    assert_eq!(io.append(0, &pattern(17, 6)).status, NvmeStatus::INVALID_FIELD, "ZASL");

    host.subsystem.limit_transfers(5, 4096);
    let mut io = host.io(2);
    io.write(1024, &pattern(32, 7)).fine();
    assert_eq!(io.read(1024, 32).fine().data, pattern(32, 7));
    assert_eq!(io.read(1024, 33).status, NvmeStatus::INVALID_FIELD);
    assert_eq!(io.write(1056, &pattern(33, 7)).status, NvmeStatus::INVALID_FIELD);
}

#[test]
fn writes_of_a_zone_may_be_in_flight_together() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    let mut responses = Vec::new();
    for block in 0..CAPACITY {
        let mut command = rw(IoOpcode::WRITE, block, 1);
        command.cid = (block as u16).into();
        io.queue.submit(
            io.now,
            &command.into(),
            received(&pattern(1, block as u8)),
            &mut responses,
        );
    }
    assert_eq!(io.queue.outstanding(), CAPACITY as usize);
    while io.queue.outstanding() > 0 {
        io.queue.poll(io.now, &mut responses);
    }
    let mut cids: Vec<u16> = responses.iter().map(|answer| answer.cqe.cid.get()).collect();
    cids.sort_unstable();
    assert_eq!(cids, (0..CAPACITY as u16).collect::<Vec<_>>());
    assert!(responses.iter().all(|answer| answer.cqe.status().is_success()));
    assert!(responses.iter().all(|answer| answer.cqe.sqhd.get() == CAPACITY as u16 + 1));
    assert_eq!(io.read(5, 1).fine().data, pattern(1, 5));
}

#[test]
fn submission_queue_head_wraps() {
    let host = Host::new(&null());
    let mut io = host.io(1);
    // 128 entries, the first of which was the Connect command.
    let heads: Vec<u16> = (0..130)
        .map(|_| {
            let mut responses = Vec::new();
            io.queue.submit(io.now, &Sqe::new(0x7c, 0, 1), None, &mut responses);
            responses[0].cqe.sqhd.get()
        })
        .collect();
    assert_eq!((heads[0], heads[125], heads[126], heads[129]), (2, 127, 0, 3));
}

fn deallocate(ranges: &[(u64, u32)], nsid: u32) -> (DsmCommand, Vec<u8>) {
    let mut command = DsmCommand::zeroed();
    (command.opcode, command.flags) = (IoOpcode::DATASET_MANAGEMENT.0, 0x40);
    command.nsid = nsid.into();
    command.nr = (ranges.len() - 1) as u8;
    command.attributes = 4.into();
    command.dptr = Sgl::in_capsule((ranges.len() * 16) as u32);
    let entries = ranges.iter().flat_map(|&(slba, nlb)| {
        let mut range = DsmRange::zeroed();
        (range.slba, range.nlb) = (slba.into(), nlb.into());
        range.as_bytes().to_vec()
    });
    (command, entries.collect())
}

#[test]
fn reused_buffer_leaks_no_data_to_the_host() {
    let host = Host::new(&null());
    // Reads of this device leave the buffer as it is.
    let plain = NullConfig { zoned: false, size: Bytes(1 << 20), memory: false, ..null() };
    host.subsystem.add(2, namespace(&plain).1).unwrap();
    let mut io = host.io(1);
    let mut read = |nsid: u32, blocks: u32, expected: &[u8]| {
        let mut command = rw(IoOpcode::READ, 0, blocks);
        command.nsid = nsid.into();
        let mut responses = Vec::new();
        io.queue.submit(io.now, &command.into(), None, &mut responses);
        io.queue.poll(io.now, &mut responses);
        let data = responses.remove(0).data.expect("what was read");
        assert_eq!(data[..], *expected);
        io.queue.recycle(data);
    };
    // The second read has the buffer of the first, and the later ones that of the data.
    read(2, 1, &[0; 4096]);
    read(2, 1, &[0; 4096]);
    let mut other = host.io(2);
    other.write(0, &pattern(2, 9)).fine();
    read(1, 2, &pattern(2, 9));
    for blocks in [2, 1, 2] {
        read(2, blocks, &vec![0; blocks as usize * 4096]);
    }
}

#[test]
fn deallocation_empties_blocks_and_is_a_hint_to_sequential_zones() {
    let host = Host::new(&null());
    let plain = NullConfig { zoned: false, size: Bytes(1 << 20), ..null() };
    host.subsystem.add(2, namespace(&plain).1).unwrap();
    let mut io = host.io(1);
    let on_second = |mut command: RwCommand| {
        command.nsid = 2.into();
        command
    };
    io.send(on_second(rw(IoOpcode::WRITE, 0, 4)), &pattern(4, 1)).fine();
    let (command, data) = deallocate(&[(0, 1), (2, 1), (3, 0)], 2);
    io.send(command, &data).fine();
    let read = io.send(on_second(rw(IoOpcode::READ, 0, 4)), &[]).fine().data;
    let whole = pattern(4, 1);
    let expected = [&[0; 4096], &whole[4096..8192], &[0; 4096], &whole[12288..]].concat();
    assert_eq!(read, expected);
    // As Linux sends it: what is after the ranges is no range.
    let (mut command, mut data) = deallocate(&[(1, 1)], 2);
    data.resize(4096, 0xff);
    command.dptr = Sgl::in_capsule(4096);
    io.send(command, &data).fine();
    assert_eq!(io.send(on_second(rw(IoOpcode::READ, 1, 1)), &[]).fine().data, [0; 4096]);

    io.write(0, &pattern(1, 1)).fine();
    let (command, data) = deallocate(&[(0, 1)], 1);
    io.send(command, &data).fine();
    assert_eq!(io.read(0, 1).fine().data, pattern(1, 1));

    let (command, data) = deallocate(&[(0, 1), (255, 2)], 2);
    assert_eq!(io.send(command, &data).status, NvmeStatus::LBA_RANGE);
    assert_eq!(io.send(command, &data[..16]).status, NvmeStatus::DATA_TRANSFER);
    let (mut command, data) = deallocate(&[(0, 1)], 2);
    command.nr = 1;
    assert_eq!(io.send(command, &data).status, NvmeStatus::SGL_LENGTH);
    for opcode in [IoOpcode::ZONE_APPEND, IoOpcode::ZONE_MANAGEMENT_SEND] {
        let ended = io.send(on_second(rw(opcode, 0, 1)), &pattern(1, 0));
        assert_eq!(ended.status, NvmeStatus::INVALID_OPCODE, "no zones there");
    }
}

#[test]
fn removed_namespace_completes_io_in_flight_and_refuses_more() {
    let host = Host::new(&NullConfig { latency: zonal_blk::Nanos(1000), ..null() });
    let mut io = host.io(1);
    let mut responses = Vec::new();
    io.queue.submit(
        io.now,
        &rw(IoOpcode::WRITE, 0, 1).into(),
        received(&pattern(1, 1)),
        &mut responses,
    );
    host.subsystem.remove(1);
    io.queue.submit(io.now, &rw(IoOpcode::READ, 0, 1).into(), None, &mut responses);
    assert_eq!(responses[0].cqe.status().code(), NvmeStatus::INVALID_NAMESPACE);
    assert_eq!(io.queue.next_event(), zonal_blk::Wake::At(zonal_blk::Nanos(io.now.0 + 1000)));
    io.queue.poll(zonal_blk::Nanos(io.now.0 + 1000), &mut responses);
    assert_eq!(responses[1].cqe.status(), NvmeStatus::SUCCESS);
    // Another namespace under the same identifier.
    host.subsystem.add(1, namespace(&null()).1).unwrap();
    assert_eq!(io.read(0, 1).fine().data, vec![0; 4096]);
}

#[test]
fn controller_that_is_not_ready_refuses_io() {
    let mut host = Host::new(&null());
    let mut io = host.io(1);
    host.set(Property::CC, 0x46_4061);
    assert_eq!(io.read(0, 1).status, NvmeStatus::SEQUENCE);
    let mut other = Host::new(&null());
    let mut io = other.io(1);
    drop(std::mem::replace(&mut other.admin, Host::new(&null()).admin));
    assert_eq!(io.read(0, 1).status, NvmeStatus::SEQUENCE, "the association has ended");
}

#[test]
fn queues_of_several_hosts_share_a_namespace() {
    let host = Host::new(&null());
    let (mut first, mut second): (Io, Io) = (host.io(1), host.io(2));
    let mut responses = Vec::new();
    first.queue.submit(
        first.now,
        &rw(IoOpcode::ZONE_APPEND, 0, 1).into(),
        received(&pattern(1, 1)),
        &mut responses,
    );
    second.queue.submit(
        first.now,
        &rw(IoOpcode::ZONE_APPEND, 0, 1).into(),
        received(&pattern(1, 2)),
        &mut responses,
    );
    while responses.len() < 2 {
        first.queue.poll(first.now, &mut responses);
        second.queue.poll(first.now, &mut responses);
    }
    let mut landed: Vec<u64> =
        responses.into_iter().map(|answer| Ended::of(answer).fine().result).collect();
    landed.sort_unstable();
    assert_eq!(landed, [0, 1]);
    assert_eq!(first.read(0, 2).fine().data, [pattern(1, 1), pattern(1, 2)].concat());
}

#[test]
fn data_in_flight_are_limited_to_16_mib() {
    let latency = zonal_blk::Nanos(1000);
    let plain = NullConfig { zoned: false, size: Bytes(32 << 20), latency, ..null() };
    let host = Host::new(&plain);
    let mut io = host.io(1);
    let mut responses = Vec::new();
    for mib in 0..16 {
        assert!(io.queue.has_room());
        let mut command = rw(IoOpcode::READ, mib * 256, 256);
        command.cid = (mib as u16).into();
        io.queue.submit(io.now, &command.into(), None, &mut responses);
    }
    assert!(!io.queue.has_room());
    io.queue.poll(zonal_blk::Nanos(io.now.0 + 1000), &mut responses);
    assert!(io.queue.has_room() && responses.len() == 16);
    // What does not say how much data it has counts too: a Verify of 16 MiB.
    io.queue.submit(io.now, &rw(IoOpcode::VERIFY, 0, 4096).into(), None, &mut responses);
    assert!(!io.queue.has_room());
    io.queue.poll(zonal_blk::Nanos(io.now.0 + 2000), &mut responses);
    assert!(io.queue.has_room());
}

/// A device without zones of 512 MiB, each of whose commands takes 1000 ns.
fn slow() -> NullConfig {
    let latency = zonal_blk::Nanos(1000);
    NullConfig { zoned: false, size: Bytes(512 << 20), latency, memory: false, ..null() }
}

/// Lets the device complete what is in flight.
fn step(io: &mut Io, responses: &mut Vec<zonal_nvme::controller::Response>) {
    io.now = zonal_blk::Nanos(io.now.0 + 1000);
    io.queue.poll(io.now, responses);
}

#[test]
fn command_of_many_bios_goes_on_as_earlier_ones_complete() {
    let host = Host::new(&slow());
    let mut io = host.io(1);
    for opcode in [IoOpcode::VERIFY, IoOpcode::WRITE_ZEROES] {
        let mut responses = Vec::new();
        io.queue.submit(io.now, &rw(opcode, 0, 65_536).into(), None, &mut responses);
        for steps in 1..16 {
            assert!(!io.queue.has_room() && responses.is_empty(), "{steps} of 16: 16 MiB each");
            step(&mut io, &mut responses);
        }
        assert_eq!(io.queue.outstanding(), 1);
        step(&mut io, &mut responses);
        assert_eq!(responses.len(), 1);
        assert_eq!(responses[0].cqe.status(), NvmeStatus::SUCCESS);
        assert!(io.queue.has_room() && io.queue.outstanding() == 0);
    }
    let ranges: Vec<_> = (0..256).map(|at| (at * 2, 1)).collect();
    let (command, data) = deallocate(&ranges, 1);
    let mut responses = Vec::new();
    io.queue.submit(io.now, &command.into(), received(&data), &mut responses);
    assert!(!io.queue.has_room(), "64 of 256 are in flight");
    for _ in 0..4 {
        assert!(responses.is_empty());
        step(&mut io, &mut responses);
    }
    assert_eq!(responses[0].cqe.status(), NvmeStatus::SUCCESS);
}

#[test]
fn zeroes_in_parts_cover_their_range_and_no_more() {
    let plain = NullConfig { zoned: false, size: Bytes(8 << 20), ..null() };
    let host = Host::new(&plain);
    let mut io = host.io(1);
    for at in 0..8 {
        io.write(at * 256, &pattern(256, 1)).fine();
    }
    io.send(rw(IoOpcode::WRITE_ZEROES, 100, 1000), &[]).fine();
    io.send(rw(IoOpcode::VERIFY, 0, 2048), &[]).fine();
    let blocks = |at: u64| if (100..1100).contains(&at) { vec![0; 4096] } else { pattern(1, 1) };
    for at in [0, 99, 100, 355, 356, 611, 612, 1099, 1100, 2047] {
        assert_eq!(io.read(at, 1).fine().data, blocks(at), "block {at}");
    }
}

#[test]
fn command_of_many_bios_ends_with_the_first_that_fails() {
    let host = Host::new(&slow());
    let mut io = host.io(1);
    let verify = rw(IoOpcode::VERIFY, 0, 65_536);
    let mut responses = Vec::new();
    io.queue.submit(io.now, &verify.into(), None, &mut responses);
    host.subsystem.remove(1);
    step(&mut io, &mut responses);
    assert_eq!(responses.len(), 1, "the rest is not submitted");
    assert_eq!(responses[0].cqe.status().code(), NvmeStatus::INVALID_NAMESPACE);
    assert!(io.queue.has_room() && io.queue.outstanding() == 0);

    let zone = NullConfig { zone_size: Bytes(64 << 20), zone_capacity: None, ..null() };
    let host = Host::new(&zone);
    let mut io = host.io(1);
    let zeroes = io.send(rw(IoOpcode::WRITE_ZEROES, 1, 16_383), &[]);
    assert_eq!(zeroes.status, NvmeStatus::ZONE_INVALID_WRITE);
    assert_eq!(io.zone(0).write_pointer.get(), 0, "nothing was written");
    io.send(rw(IoOpcode::WRITE_ZEROES, 0, 16_384), &[]).fine();
    assert_eq!(io.zone(0).condition(), Some(zonal_blk::ZoneCondition::Full));
}

#[test]
fn queue_that_is_drained_submits_no_more() {
    let host = Host::new(&slow());
    let mut io = host.io(1);
    let mut responses = Vec::new();
    io.queue.submit(io.now, &rw(IoOpcode::VERIFY, 0, 65_536).into(), None, &mut responses);
    io.queue.drain();
    assert!(!io.queue.is_idle());
    step(&mut io, &mut responses);
    assert!(io.queue.is_idle());
}
