//! A PCIe function as a guest finds it, on one thread.
#[path = "pcie/guest.rs"]
mod guest;
#[path = "pcie/pointers.rs"]
mod pointers;

use guest::{ADMIN_ENTRIES, DATA, Guest, LIST, command, read, write};
use zonal_blk::Nanos;
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::opcode::{AdminOpcode, FeatureId, IoOpcode};
use zonal_nvme::wire::pcie::{prp_pointer, sgl};
use zonal_nvme::wire::{Sgl, Sqe};

const OK: NvmeStatus = NvmeStatus::SUCCESS;

fn descriptor(address: u64, len: u32, kind: u8) -> Sgl {
    let mut descriptor = Sgl::zeroed();
    (descriptor.address, descriptor.length, descriptor.kind) = (address.into(), len.into(), kind);
    descriptor
}

fn block(address: u64, len: u32) -> Sgl {
    descriptor(address, len, sgl::DATA_BLOCK)
}

#[test]
fn controller_is_enabled_identified_and_disabled() {
    let mut guest = Guest::new();
    assert_eq!(guest.register(0x1c), 0);
    guest.enable();
    assert_eq!(guest.register(0x1c), 1);
    let mut identify = command(AdminOpcode::IDENTIFY.0, 0);
    identify.cdw10 = 1.into();
    identify.dptr = prp_pointer([DATA, 0]);
    assert_eq!(guest.admin(identify).status().code(), OK);
    let id = guest.memory.get(DATA, 4096);
    assert_eq!(&id[..4], [0x4e, 0x5a, 0x4e, 0x5a], "vendor and subsystem vendor");
    assert_eq!(id[257], 1, "Doorbell Buffer Config");
    assert_eq!(id[536] & 0b11, 1, "SGLs");
    guest.set_register(0x14, 0x46_0060);
    assert_eq!(guest.register(0x1c), 0);
    guest.enable();
    guest.fill(DATA, 4096, 0);
    assert_eq!(guest.admin(identify).status().code(), OK);
    assert_eq!(guest.memory.get(DATA, 4096), id);
}

#[test]
fn extension_of_a_zone_is_fetched_through_its_pointer() {
    let mut guest = Guest::with_queues();
    guest.fill(DATA, 128, 7);
    let mut set = command(IoOpcode::ZONE_MANAGEMENT_SEND.0, 1);
    set.cdw13 = 0x10.into();
    set.dptr = prp_pointer([u64::MAX - 4095, 0]);
    assert_eq!(guest.io(set).status().code(), NvmeStatus::DATA_TRANSFER, "outside memory");
    set.dptr = prp_pointer([DATA, 0]);
    assert_eq!(guest.io(set).status().code(), OK);
    let mut report = command(IoOpcode::ZONE_MANAGEMENT_RECEIVE.0, 1);
    report.cdw12 = ((64 + 192) / 4 - 1).into();
    report.cdw13 = (1 << 16 | 1).into();
    report.dptr = prp_pointer([DATA + 4096, 0]);
    assert_eq!(guest.io(report).status().code(), OK);
    let zone = guest.memory.get(DATA + 4096 + 64, 192);
    assert_eq!((zone[1] >> 4, zone[2]), (4, 0x80), "closed, with an extension");
    assert_eq!(zone[64..], [7; 128]);
}

#[test]
fn data_are_written_and_read_through_every_kind_of_pointer() {
    let mut guest = Guest::with_queues();
    let pages = |first: u64, count: u64| (0..count).map(move |page| first + page * 8192);
    // A list of 15 pages that goes on in a second list, and data that begin within a page.
    let list = LIST + 4096 - 8 * 8;
    let entries: Vec<u64> = pages(DATA + 8192, 15).collect();
    guest.put_list(list, &entries[..7]);
    guest.put_list(LIST + 4088, &[LIST + 4096]);
    guest.put_list(LIST + 4096, &entries[7..]);
    let len = 15 * 4096;
    let pattern: Vec<u8> = (0..len).map(|byte| (byte / 7 % 251) as u8).collect();
    guest.memory.put(DATA + 2048, &pattern[..2048]);
    for (number, &page) in entries.iter().enumerate() {
        let at = 2048 + number * 4096;
        guest.memory.put(page, &pattern[at..(at + 4096).min(len)]);
    }
    // 15 blocks: 2048 bytes, and 14 and a half pages.
    let cqe = guest.io(Sqe { dptr: prp_pointer([DATA + 2048, list]), ..write(0, 15) });
    assert_eq!(cqe.status().code(), OK);
    assert_eq!((cqe.sqid.get(), cqe.sqhd.get()), (1, 1));

    // The same data by an SGL of three segments.
    let to = DATA + 0x10_0000;
    let segment = |address, count: u32, kind| descriptor(address, count * 16, kind);
    guest.put_sgl(LIST, &[block(to, 100), segment(LIST + 256, 2, sgl::SEGMENT)]);
    guest.put_sgl(LIST + 256, &[block(to + 100, 4096), segment(LIST + 512, 1, sgl::LAST_SEGMENT)]);
    guest.put_sgl(LIST + 512, &[block(to + 4196, len as u32 - 4196)]);
    let by_sgl = Sqe { flags: 0x40, dptr: segment(LIST, 2, sgl::SEGMENT), ..read(0, 15) };
    assert_eq!(guest.io(by_sgl).status().code(), OK);
    assert!(guest.memory.get(to, len) == pattern);

    // And by two PRPs.
    guest.fill(to, 8192, 0);
    assert_eq!(guest.io(Sqe { dptr: prp_pointer([to, to + 4096]), ..read(0, 2) }).status(), OK);
    assert!(guest.memory.get(to, 8192) == pattern[..8192]);
}

#[test]
fn zones_are_managed_and_appended_to() {
    let mut guest = Guest::with_queues();
    for expected in 0..3 {
        let append = Sqe { opcode: IoOpcode::ZONE_APPEND.0, ..write(16, 1) };
        let cqe = guest.io(Sqe { dptr: prp_pointer([DATA, 0]), ..append });
        assert_eq!((cqe.status(), cqe.result()), (OK, 16 + expected));
    }
    let mut report = command(IoOpcode::ZONE_MANAGEMENT_RECEIVE.0, 1);
    report.cdw12 = (4096 / 4 - 1).into();
    report.dptr = prp_pointer([DATA, 0]);
    assert_eq!(guest.io(report).status(), OK);
    let zones = guest.memory.get(DATA, 4096);
    assert_eq!(zones[0], 8);
    assert_eq!(zones[64 + 64 + 24], 16 + 3, "the write pointer of the second zone");
    let mut reset = command(IoOpcode::ZONE_MANAGEMENT_SEND.0, 1);
    (reset.cdw10, reset.cdw13) = (16.into(), 4.into());
    assert_eq!(guest.io(reset).status(), OK);
    let cqe = guest.io(Sqe { dptr: prp_pointer([DATA, 0]), ..write(17, 1) });
    assert_eq!(cqe.status().code(), NvmeStatus::ZONE_INVALID_WRITE);
}

#[test]
fn pointers_outside_memory_and_malformed_lists_fail_their_command_only() {
    let mut guest = Guest::with_queues();
    let far = 1 << 40;
    guest.put_list(LIST, &[DATA + 1; 8]);
    // A chain of lists of one entry each, if it were allowed.
    guest.put_list(LIST + 4088, &[LIST + 4088]);
    let looped = descriptor(LIST + 8192, 32, sgl::SEGMENT);
    guest.put_sgl(LIST + 8192, &[block(DATA, 0), looped]);
    let prps = |first, second| (0, prp_pointer([first, second]));
    for ((flags, dptr), blocks, expected) in [
        (prps(far, 0), 1, NvmeStatus::DATA_TRANSFER),
        (prps(u64::MAX - 4095, 0), 1, NvmeStatus::DATA_TRANSFER),
        (prps(DATA, far), 2, NvmeStatus::DATA_TRANSFER),
        (prps(DATA, far), 9, NvmeStatus::DATA_TRANSFER),
        (prps(DATA + 1, 0), 1, NvmeStatus::PRP_OFFSET),
        (prps(DATA, DATA + 8), 2, NvmeStatus::PRP_OFFSET),
        (prps(DATA, LIST + 4), 9, NvmeStatus::PRP_OFFSET),
        (prps(DATA, LIST), 9, NvmeStatus::PRP_OFFSET),
        (prps(DATA, LIST + 4088), 9, NvmeStatus::PRP_OFFSET),
        ((0xc0, Sgl::zeroed()), 1, NvmeStatus::INVALID_FIELD),
        ((0x01, Sgl::zeroed()), 1, NvmeStatus::INVALID_FIELD),
        ((0x40, block(DATA, 4095)), 1, NvmeStatus::SGL_LENGTH),
        ((0x40, block(DATA, 4097)), 1, NvmeStatus::SGL_LENGTH),
        ((0x40, block(far, 4096)), 1, NvmeStatus::DATA_TRANSFER),
        ((0x40, descriptor(DATA, 4096, 0x10)), 1, NvmeStatus::SGL_TYPE),
        ((0x40, descriptor(LIST, 8, sgl::SEGMENT)), 1, NvmeStatus::SGL_COUNT),
        ((0x40, descriptor(LIST, u32::MAX, sgl::SEGMENT)), 1, NvmeStatus::SGL_COUNT),
        ((0x40, looped), 1, NvmeStatus::SGL_COUNT),
    ] {
        for opcode in [IoOpcode::WRITE, IoOpcode::READ] {
            let sqe = Sqe { opcode: opcode.0, flags, dptr, ..write(0, blocks) };
            assert_eq!(guest.io(sqe).status().code(), expected, "{flags} {dptr:x?} {opcode:?}");
        }
    }
    // Longer than any transfer, and beyond the namespace.
    for (sqe, expected) in [
        (read(0, 257), NvmeStatus::INVALID_FIELD),
        (read(1 << 40, 1), NvmeStatus::LBA_RANGE),
        (Sqe { nsid: 9.into(), ..read(0, 1) }, NvmeStatus::INVALID_NAMESPACE),
        (command(0xfd, 1), NvmeStatus::INVALID_OPCODE),
    ] {
        let sqe = Sqe { dptr: prp_pointer([DATA, 0]), ..sqe };
        assert_eq!(guest.io(sqe).status().code(), expected);
    }
    assert_eq!(guest.register(0x1c), 1, "the controller is not at fault");
    assert_eq!(guest.io(Sqe { dptr: prp_pointer([DATA, 0]), ..write(0, 1) }).status(), OK);
}

#[test]
fn queues_that_cannot_be_are_refused() {
    let mut guest = Guest::new();
    guest.enable();
    let refused = |guest: &mut Guest, opcode: AdminOpcode, cdw10: u32, cdw11: u32, prp: u64| {
        let mut sqe = command(opcode.0, 0);
        (sqe.cdw10, sqe.cdw11, sqe.dptr) = (cdw10.into(), cdw11.into(), prp_pointer([prp, 0]));
        guest.admin(sqe).status().code()
    };
    use AdminOpcode as A;
    let at = DATA;
    for (opcode, cdw10, cdw11, prp, expected) in [
        (A::CREATE_CQ, 31 << 16, 1, at, NvmeStatus::INVALID_QUEUE),
        (A::CREATE_CQ, 31 << 16 | 9, 1, at, NvmeStatus::INVALID_QUEUE),
        (A::CREATE_CQ, 1, 1, at, NvmeStatus::INVALID_QUEUE_SIZE),
        (A::CREATE_CQ, 1024 << 16 | 1, 1, at, NvmeStatus::INVALID_QUEUE_SIZE),
        (A::CREATE_CQ, 31 << 16 | 1, 0, at, NvmeStatus::INVALID_FIELD),
        (A::CREATE_CQ, 31 << 16 | 1, 1, at + 64, NvmeStatus::PRP_OFFSET),
        (A::CREATE_CQ, 31 << 16 | 1, 9 << 16 | 3, at, NvmeStatus::INVALID_VECTOR),
        (A::CREATE_SQ, 31 << 16 | 1, 1 << 16 | 1, at, NvmeStatus::INVALID_CQ),
        (A::CREATE_CQ, 31 << 16 | 1, 1 << 16 | 3, at, OK),
        (A::CREATE_CQ, 31 << 16 | 1, 1 << 16 | 3, at, NvmeStatus::INVALID_QUEUE),
        (A::CREATE_SQ, 31 << 16 | 2, 1 << 16 | 1, at, OK),
        (A::CREATE_SQ, 31 << 16 | 2, 1 << 16 | 1, at, NvmeStatus::INVALID_QUEUE),
        (A::DELETE_CQ, 1, 0, 0, NvmeStatus::INVALID_QUEUE_DELETION),
        (A::DELETE_CQ, 2, 0, 0, NvmeStatus::INVALID_QUEUE),
        (A::DELETE_SQ, 1, 0, 0, NvmeStatus::INVALID_QUEUE),
        (A::DELETE_SQ, 2, 0, 0, OK),
        (A::DELETE_SQ, 2, 0, 0, NvmeStatus::INVALID_QUEUE),
        (A::DELETE_CQ, 1, 0, 0, OK),
        (A::DOORBELL_BUFFER_CONFIG, 0, 0, at + 8, NvmeStatus::INVALID_FIELD),
        (A::KEEP_ALIVE, 0, 0, 0, NvmeStatus::INVALID_OPCODE),
        (AdminOpcode(0x7f), 0, 0, 0, NvmeStatus::INVALID_OPCODE),
    ] {
        assert_eq!(refused(&mut guest, opcode, cdw10, cdw11, prp), expected, "{opcode:?}");
    }
}

#[test]
fn several_submission_queues_share_a_completion_queue() {
    let mut guest = Guest::with_queues();
    guest.create_sq(2, 1);
    for qid in [1, 2, 2, 1] {
        let cqe = guest.io_on(qid, Sqe { dptr: prp_pointer([DATA, 0]), ..read(0, 1) });
        assert_eq!((cqe.status(), cqe.sqid.get()), (OK, qid));
    }
    // One is deleted, and the other goes on.
    assert_eq!(guest.delete_sq(1).status(), OK);
    let cqe = guest.io_on(2, Sqe { dptr: prp_pointer([DATA, 0]), ..read(0, 1) });
    assert_eq!((cqe.status(), cqe.sqid.get()), (OK, 2));
}

#[test]
fn commands_wait_while_the_completion_queue_is_full() {
    let mut guest = Guest::with_queues();
    // Many more commands than the completion queue of 8 entries has room for.
    for round in 0..5 {
        for cid in 0..20 {
            guest.submit(1, Sqe { cid: cid.into(), ..command(IoOpcode::FLUSH.0, 1) });
        }
        guest.poll();
        let mut completed = Vec::new();
        while let Some(cqe) = guest.take_completion(1) {
            completed.push(cqe.cid.get());
            guest.poll();
        }
        completed.sort_unstable();
        assert_eq!(completed, (0..20).collect::<Vec<_>>(), "round {round}");
    }
}

#[test]
fn identifiers_of_commands_in_flight_are_not_used_twice() {
    let mut guest = Guest::with_queues();
    guest.submit(1, Sqe { cid: 3.into(), ..command(IoOpcode::FLUSH.0, 1) });
    guest.submit(1, Sqe { cid: 3.into(), ..command(IoOpcode::FLUSH.0, 1) });
    guest.poll();
    let mut statuses = [guest.completion(1).status().code(), guest.completion(1).status().code()];
    statuses.sort_unstable();
    assert_eq!(statuses, [OK, NvmeStatus::CID_CONFLICT]);
}

#[test]
fn wrong_doorbells_are_events_and_nothing_else() {
    let mut guest = Guest::with_queues();
    guest.submit_admin(Sqe { cid: 77.into(), ..command(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0) });
    guest.set_register(0x1000 + 5 * 8, 1);
    let event = guest.admin_completion();
    assert_eq!((event.cid.get(), event.dw0.get()), (77, 0x01_00_00), "no such queue");
    guest.submit_admin(Sqe { cid: 78.into(), ..command(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0) });
    guest.set_register(0x1000 + 8, 1000);
    guest.poll();
    let event = guest.admin_completion();
    assert_eq!((event.cid.get(), event.dw0.get()), (78, 0x01_01_00), "no such entry");
    assert_eq!(guest.io(Sqe { dptr: prp_pointer([DATA, 0]), ..read(0, 1) }).status(), OK);
}

#[test]
fn odd_widths_and_places_do_nothing() {
    let mut guest = Guest::with_queues();
    for (offset, len) in [
        (0x14, 1),
        (0x14, 2),
        (0x15, 4),
        (0x13, 4),
        (0x14, 3),
        (0x14, 16),
        (0x1009, 4),
        (0x1008, 2),
    ] {
        guest.function.write_bar(Nanos(0), offset, &vec![0xff; len]);
    }
    for offset in [u64::MAX, u64::MAX - 2, 1 << 32, 0x3ffc, 0x4000] {
        guest.function.write_bar(Nanos(0), offset, &[0xff; 4]);
        guest.function.read_bar(offset, &mut [0; 8]);
    }
    assert_eq!(guest.register(0x14), 0x46_0061);
    // The MSI-X table keeps what it is given, and its pending bits nothing.
    for at in (0x2000..0x4000).step_by(4) {
        guest.set_register(at, u32::MAX);
    }
    assert_eq!((guest.register(0x2000), guest.register(0x3000)), (u32::MAX, 0));
    assert_eq!(guest.io(Sqe { dptr: prp_pointer([DATA, 0]), ..read(0, 1) }).status(), OK);
    let mut bytes = [0; 3];
    guest.function.read_bar(0x09, &mut bytes);
    assert_eq!(bytes, [0x04, 0x01, 0x00], "the upper bytes of version 1.4");
}

#[test]
fn queues_outside_memory_are_fatal_until_a_reset() {
    let mut guest = Guest::new();
    guest.set_register(0x28, 0xf000_0000);
    guest.enable_at(0xf000_0000, DATA);
    assert_eq!(guest.register(0x1c), 1, "it is not looked at before a command");
    guest.set_register(0x1000, 1);
    guest.poll();
    assert_eq!(guest.register(0x1c) & 0b10, 0b10);
    guest.set_register(0x14, 0);
    assert_eq!(guest.register(0x1c), 0);
    guest.enable();
    // An I/O completion queue.
    guest.create_cq_at(1, 1 << 40);
    guest.create_sq(1, 1);
    guest.submit(1, command(IoOpcode::FLUSH.0, 1));
    guest.poll();
    assert_eq!(guest.register(0x1c) & 0b10, 0b10);
    guest.set_register(0x14, 0);
    guest.poll();
    assert_eq!(guest.register(0x1c), 0);
    assert!(guest.function.is_quiescent());
}

#[test]
fn configurations_that_are_not_offered_are_fatal() {
    for (cc, aqa) in [
        (0x46_00e1, 0x1f_001f),
        (0x46_0861, 0x1f_001f),
        (0x56_0061, 0x1f_001f),
        (0x46_0011, 0x1f_001f),
        (0x46_0061, 0x1f_0000),
        (0x46_0061, 0xfff_001f),
    ] {
        let mut guest = Guest::new();
        guest.set_register(0x24, aqa);
        guest.set_register(0x14, cc);
        assert_eq!(guest.register(0x1c), 0b10, "{cc:#x} {aqa:#x}");
        guest.set_register(0x1000, 1);
        guest.poll();
    }
}

#[test]
fn shadow_doorbells_replace_registers_and_ask_to_be_rung_before_sleep() {
    let mut guest = Guest::with_queues();
    let (shadow, indices) = (LIST + 0x4000, LIST + 0x5000);
    let mut config = command(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0);
    config.dptr = prp_pointer([shadow, indices]);
    assert_eq!(guest.admin(config).status(), OK);
    guest.poll();
    guest.put_command(1, Sqe { dptr: prp_pointer([DATA, 0]), ..read(0, 1) });
    guest.memory.put(shadow + 8, &1_u32.to_le_bytes());
    assert!(!guest.prepare_to_sleep(), "there is a command");
    guest.poll();
    assert_eq!(guest.completion(1).status(), OK);
    guest.memory.put(shadow + 12, &1_u32.to_le_bytes());
    guest.poll();
    assert!(guest.prepare_to_sleep());
    assert_eq!(guest.memory.get(indices + 8, 4), 1_u32.to_le_bytes());
    // A tail that the queue does not have is an event, once.
    guest.submit_admin(Sqe { cid: 9.into(), ..command(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0) });
    guest.memory.put(shadow + 8, &0xffff_0000_u32.to_le_bytes());
    guest.poll();
    assert_eq!(guest.admin_completion().dw0.get(), 0x01_01_00);
    assert!(guest.prepare_to_sleep(), "and no reason to spin");
}

#[test]
fn reset_while_commands_are_in_flight_drains_them() {
    let mut guest = Guest::with_queues();
    for _ in 0..6 {
        guest.submit(1, Sqe { dptr: prp_pointer([DATA, 0]), ..read(0, 1) });
    }
    guest.set_register(0x14, 0x46_0060);
    guest.fill(DATA, 4096, 0xee);
    guest.poll();
    assert_eq!(guest.register(0x1c), 0);
    assert!(guest.memory.get(DATA, 4096) == [0xee; 4096], "memory is not touched after a reset");
    // Once more, by function level reset.
    guest.enable();
    guest.create_queues();
    guest.submit(1, Sqe { dptr: prp_pointer([DATA, 0]), ..read(0, 1) });
    guest.function.write_config(Nanos(0), 0x68, &[0, 0x80]);
    guest.poll();
    assert_eq!((guest.register(0x14), guest.register(0x1c)), (0, 0));
    guest.enable();
    guest.create_queues();
    assert_eq!(guest.io(Sqe { dptr: prp_pointer([DATA, 0]), ..read(0, 1) }).status(), OK);
}

#[test]
fn queue_that_falls_asleep_while_the_controller_is_reset_looks_again() {
    let mut guest = Guest::with_queues();
    assert!(guest.prepare_to_sleep(), "it has nothing to do");
    guest.set_register(0x14, 0x46_0060);
    assert!(!guest.prepare_to_sleep(), "it has not seen the reset");
    guest.poll();
    assert!(guest.function.is_quiescent());
}

#[test]
fn shutdown_completes_and_ends_the_queues() {
    let mut guest = Guest::with_queues();
    guest.set_register(0x14, 0x46_4061);
    guest.poll();
    assert_eq!(guest.register(0x1c), 0b1001);
    guest.set_register(0x14, 0);
    guest.enable();
    assert_eq!(guest.register(0x1c), 1);
}

#[test]
fn shutdown_occurs_while_it_flushes_and_does_not_complete_without() {
    let mut guest = Guest::with_fault("fail=flush");
    guest.enable();
    guest.set_register(0x14, 0x46_8061);
    guest.poll();
    assert_eq!(guest.register(0x1c), 0b0111, "shutdown occurring, fatal");
    guest.set_register(0x14, 0);
    guest.enable();
    assert_eq!(guest.register(0x1c), 1);

    let mut guest = Guest::with_fault("delay=flush,time=1s");
    for ends_early in [false, true] {
        guest.enable();
        guest.create_queues();
        guest.set_register(0x14, 0x46_4061);
        guest.poll();
        assert_eq!(guest.register(0x1c), 0b0101);
        if ends_early {
            guest.set_register(0x14, 0);
            assert_eq!(guest.register(0x1c), 1, "not disabled before the flush has completed");
        }
        guest.now += Nanos(1_000_000_000);
        guest.poll();
        assert_eq!(guest.register(0x1c), if ends_early { 0 } else { 0b1001 });
        guest.set_register(0x14, 0);
        assert!(guest.function.is_quiescent());
    }
}

#[test]
fn interrupts_are_configured_by_features() {
    let mut guest = Guest::new();
    guest.enable();
    let mut feature = |opcode: AdminOpcode, fid: FeatureId, value: u32| {
        let mut sqe = command(opcode.0, 0);
        (sqe.cdw10, sqe.cdw11) = (u32::from(fid.0).into(), value.into());
        let cqe = guest.admin(sqe);
        (cqe.status().code(), cqe.dw0.get())
    };
    let (set, get) = (AdminOpcode::SET_FEATURES, AdminOpcode::GET_FEATURES);
    assert_eq!(feature(set, FeatureId::INTERRUPT_COALESCING, 0x1007).0, OK);
    assert_eq!(feature(get, FeatureId::INTERRUPT_COALESCING, 0), (OK, 0x1007));
    assert_eq!(feature(set, FeatureId::INTERRUPT_VECTOR, 0x1_0002).0, OK);
    assert_eq!(feature(get, FeatureId::INTERRUPT_VECTOR, 2), (OK, 0x1_0002));
    assert_eq!(feature(get, FeatureId::INTERRUPT_VECTOR, 3), (OK, 3));
    let invalid = NvmeStatus::INVALID_FIELD;
    assert_eq!(feature(set, FeatureId::INTERRUPT_VECTOR, 900).0, invalid);
    assert_eq!(feature(get, FeatureId::KEEP_ALIVE_TIMER, 0).0, invalid);
    assert_eq!(feature(set, FeatureId::NUMBER_OF_QUEUES, 0xff_00ff), (OK, 3 << 16 | 3));
}

#[test]
fn as_many_admin_commands_as_the_queue_has_are_executed_at_once() {
    let mut guest = Guest::new();
    guest.enable();
    for round in 0..3 {
        for cid in 0..ADMIN_ENTRIES - 1 {
            guest.submit_admin(Sqe { cid: cid.into(), ..command(AdminOpcode::ABORT.0, 0) });
        }
        for cid in 0..ADMIN_ENTRIES - 1 {
            assert_eq!(guest.admin_completion().cid.get(), cid, "round {round}");
        }
    }
}
