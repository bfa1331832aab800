//! Any commands: each completes once.
use crate::support::{Host, null, received};
use proptest::prelude::*;
use std::collections::BTreeMap;
use zerocopy::FromBytes;
use zonal_blk::Bytes;
use zonal_device::NullConfig;
use zonal_nvme::controller::Response;
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, FABRICS, FeatureId, IoOpcode, LogId};
use zonal_nvme::wire::{Sgl, Sqe};

/// A byte that means something, or any.
fn byte(known: Vec<u8>) -> impl Strategy<Value = u8> {
    prop_oneof![8 => prop::sample::select(known), 1 => any::<u8>()]
}

/// A command of any bytes; half of them pass the first checks.
fn command(opcodes: Vec<u8>) -> impl Strategy<Value = Sqe> {
    let bytes = prop::collection::vec(any::<u8>(), 64..=64);
    let what: Vec<u8> = (Cns::NAMED.iter().map(|(cns, _)| cns.0))
        .chain(LogId::NAMED.iter().map(|(lid, _)| lid.0))
        .chain(FeatureId::NAMED.iter().map(|(fid, _)| fid.0))
        .collect();
    let small = || prop_oneof![4 => 0u32..140, 1 => any::<u32>()];
    let dwords = (small(), small(), small());
    (bytes, byte(opcodes), byte(what), dwords, 0u32..3, any::<bool>()).prop_map(
        |(bytes, opcode, what, (cdw10, cdw12, length), nsid, tame)| {
            let mut sqe = Sqe::read_from_bytes(&bytes).expect("64 bytes");
            (sqe.opcode, sqe.flags, sqe.nsid) = (opcode, 0x40, nsid.into());
            if tame {
                sqe.cdw10 = (cdw10 & !0xff | u32::from(what)).into();
                sqe.cdw11 = 0.into();
                sqe.cdw12 = cdw12.into();
                sqe.cdw13 = (cdw10 & 0x3ff).into();
                sqe.dptr = Sgl::transport(length.wrapping_mul(512));
            }
            sqe
        },
    )
}

/// Commands without a response, by CID; negative with more than one.
fn unanswered(sent: &[Sqe], responses: &[Response]) -> BTreeMap<u16, i32> {
    let mut left = BTreeMap::new();
    sent.iter().for_each(|sqe| *left.entry(sqe.cid.get()).or_default() += 1);
    responses.iter().for_each(|answer| *left.entry(answer.cqe.cid.get()).or_default() -= 1);
    left.retain(|_, count| *count != 0);
    left
}

proptest! {
    #[test]
    fn admin_commands_complete_once(
        sent in prop::collection::vec(
            command(AdminOpcode::NAMED.iter().map(|(op, _)| op.0).chain([FABRICS]).collect()),
            1..40,
        ),
        len in 0usize..4096,
    ) {
        let mut host = Host::new(&null());
        let mut responses = Vec::new();
        for sqe in &sent {
            host.admin.submit(host.now, sqe, &vec![0x5a; len], &mut responses);
        }
        let events = sent.iter().filter(|sqe| sqe.opcode == AdminOpcode::ASYNC_EVENT_REQUEST.0);
        let left = unanswered(&sent, &responses);
        prop_assert!(left.values().all(|&count| count > 0));
        prop_assert!(left.values().sum::<i32>() as usize <= events.count().min(4));
    }

    #[test]
    fn io_commands_complete_once(
        sent in prop::collection::vec(
            command(IoOpcode::NAMED.iter().map(|(op, _)| op.0).collect()),
            1..40,
        ),
    ) {
        let config = NullConfig {
            zrwa: Bytes(4 * 4096),
            zrwa_granularity: Bytes(2 * 4096),
            max_zrwa: 2,
            descriptor_extension: 128,
            ..null()
        };
        let host = Host::new(&config);
        let mut io = host.io(1);
        let mut responses = Vec::new();
        for sqe in &sent {
            let len = sqe.dptr.length.get().min(1 << 20) as usize;
            io.queue.submit(io.now, sqe, received(&vec![0x5a; len]), &mut responses);
        }
        while io.queue.outstanding() > 0 {
            io.queue.poll(io.now, &mut responses);
        }
        prop_assert!(unanswered(&sent, &responses).is_empty());
    }
}
