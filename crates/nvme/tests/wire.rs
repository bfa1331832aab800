//! The offsets of fields, as a table from the specifications; structures to bytes and back.
use proptest::prelude::*;
use std::mem::offset_of;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Status, ZoneCondition};
use zonal_nvme::NvmeStatus;
use zonal_nvme::wire::admin::{FeatureCommand, IdentifyCommand, LogCommand};
use zonal_nvme::wire::auth::{
    AuthCommand, Challenge, Failure, Header, Negotiate, Protocol, ReplyMessage, Success1,
};
use zonal_nvme::wire::fabrics::{ConnectCommand, ConnectData, PropertyCommand, capabilities};
use zonal_nvme::wire::identify::{
    IdentifyController, IdentifyNamespace, NvmController, NvmNamespace, ZnsNamespace,
};
use zonal_nvme::wire::io::{DsmCommand, DsmRange, RwCommand};
use zonal_nvme::wire::log::{DiscoveryEntry, EffectsLog, ErrorEntry, SmartLog};
use zonal_nvme::wire::zone::{Filter, ZoneDescriptor, ZoneReceive, ZoneSend};
use zonal_nvme::wire::{Cqe, Sgl, Sqe, padded, queue::Transfer, terminated, text};

/// Field, its offset, its offset in the specification.
macro_rules! offsets {
    ($($type:ident { $($field:ident: $offset:expr),* $(,)? })*) => {
        [$($((concat!(stringify!($type), ".", stringify!($field)),
              offset_of!($type, $field), $offset)),*),*]
    };
}

#[test]
fn fields_are_where_the_specifications_have_them() {
    let table = offsets! {
        Sqe { cid: 2, nsid: 4, mptr: 16, dptr: 24, cdw10: 40, cdw15: 60 }
        Cqe { dw1: 4, sqhd: 8, sqid: 10, cid: 12, status: 14 }
        Sgl { length: 8, kind: 15 }
        RwCommand { slba: 40, nlb: 48, control: 50, dsm: 52, reference_tag: 56,
            application_tag: 60, application_mask: 62 }
        DsmCommand { nr: 40, attributes: 44 }
        DsmRange { nlb: 4, slba: 8 }
        ZoneSend { slba: 40, action: 52, options: 53 }
        ZoneReceive { slba: 40, ndw: 48, action: 52, filter: 53, partial: 54 }
        IdentifyCommand { cns: 40, cntid: 42, specific: 44, csi: 47 }
        LogCommand { lid: 40, specific: 41, numdl: 42, numdu: 44, identifier: 46, offset: 48,
            csi: 59 }
        FeatureCommand { fid: 40, select: 41, save: 43, value: 44 }
        ConnectCommand { fctype: 4, dptr: 24, record_format: 40, qid: 42, sqsize: 44,
            attributes: 46, kato: 48 }
        PropertyCommand { fctype: 4, attributes: 40, offset: 44, value: 48 }
        AuthCommand { fctype: 4, dptr: 24, specific_0: 41, specific_1: 42, protocol: 43, length: 44 }
        Header { id: 1, transaction: 4 }
        Negotiate { concatenation: 6, protocols: 7 }
        Protocol { hash_count: 2, group_count: 3, hashes: 4, groups: 34 }
        Challenge { hash_len: 6, hash: 8, group: 9, value_len: 10, sequence: 12 }
        ReplyMessage { hash_len: 6, challenges: 8, value_len: 10, sequence: 12 }
        Success1 { hash_len: 6, responds: 8 }
        Failure { reason: 6, explanation: 7 }
        ConnectData { cntlid: 16, subnqn: 256, hostnqn: 512 }
        IdentifyController { sn: 4, mn: 24, fr: 64, rab: 72, cmic: 76, mdts: 77, cntlid: 78,
            ver: 80, oaes: 92, ctratt: 96, cntrltype: 111, fguid: 112, crdt: 128, nvmsr: 253,
            oacs: 256, acl: 258, aerl: 259, frmw: 260, lpa: 261, elpe: 262, wctemp: 266,
            tnvmcap: 280, edstt: 316, kas: 320, sanicap: 328, hmmaxd: 336, anatt: 342,
            anacap: 343, anagrpmax: 344, nanagrpid: 348, domainid: 356, megcap: 368, sqes: 512,
            cqes: 513, maxcmd: 514, nn: 516, oncs: 520, vwc: 525, awun: 526, acwu: 532,
            sgls: 536, mnan: 540, maxcna: 560, subnqn: 768, ioccsz: 1792, iorcsz: 1796,
            icdoff: 1800, msdbd: 1803, ofcs: 1804, dctype: 1806, psd: 2048, vendor: 3072 }
        NvmController { dsm_range_blocks: 4, dsm_blocks: 8 }
        IdentifyNamespace { capacity: 8, used: 16, features: 24, formats: 25, format: 26,
            protection: 29, sharing: 30, deallocation: 33, atomic_write: 34, io_boundary: 46,
            bytes: 48, write_granularity: 64, write_size: 72, copy_length: 76, ana_group: 92,
            attributes: 99, nvm_set: 100, nguid: 104, eui64: 120, lba_formats: 128, vendor: 384 }
        NvmNamespace { protection: 8, formats: 12 }
        ZnsNamespace { optional: 2, max_active: 4, max_open: 8, reset_limit: 12,
            finish_limit: 16, reset_limits: 20, finish_limits: 32, zrwas: 44,
            zrwa_granularity: 48, zrwa_size: 50, zrwa_capability: 52, formats: 2816,
            vendor: 3840 }
        ZoneDescriptor { state: 1, attributes: 2, capacity: 8, slba: 16, write_pointer: 24 }
        ErrorEntry { sqid: 8, cid: 10, status: 12, location: 14, lba: 16, nsid: 24, command: 32 }
        SmartLog { temperature: 1, spare: 3, units_read: 32, reads: 64, hours: 128,
            error_entries: 176, thermal: 192 }
        EffectsLog { io: 1024 }
        DiscoveryEntry { port_id: 4, cntlid: 6, admin_queue: 8, service: 32, subnqn: 256,
            address: 512, specific: 768 }
    };
    for (field, found, expected) in table {
        assert_eq!(found, expected, "{field}");
    }
}

#[test]
fn capabilities_are_those_that_linux_requires() {
    let cap = capabilities(1024, 15);
    assert_eq!(cap, 0x820_0f01_03ff);
    assert_eq!(cap >> 37 & 0xff, 1 << 0 | 1 << 6, "CSS: NVM, and all I/O command sets");
}

#[test]
fn direction_of_data_is_in_the_opcode_or_the_fabrics_type() {
    for (opcode, expected) in [
        (0x00, Transfer::None),
        (0x01, Transfer::ToController),
        (0x02, Transfer::ToHost),
        (0x08, Transfer::None),
        (0x79, Transfer::ToController),
        (0x7a, Transfer::ToHost),
        (0x7d, Transfer::ToController),
    ] {
        assert_eq!(Sqe::new(opcode, 0, 1).transfer(), expected, "{opcode:#x}");
    }
    for (fctype, expected) in
        [(0x00, Transfer::None), (0x01, Transfer::ToController), (0x04, Transfer::None)]
    {
        assert_eq!(Sqe::new(0x7f, 0, fctype).transfer(), expected, "FCTYPE {fctype:#x}");
    }
}

#[test]
fn text_is_padded_and_cut() {
    assert_eq!(&padded::<6>("abc"), b"abc   ");
    assert_eq!(&padded::<2>("abc"), b"ab");
    assert_eq!(&terminated::<3>("abc"), b"ab\0");
    assert_eq!(text(b"abc  \0xy"), Some("abc"));
    assert_eq!(text(b"\xff"), None);
}

#[test]
fn filters_list_the_condition_they_name() {
    use ZoneCondition::{Closed, Empty, ExplicitOpen, Full, ImplicitOpen, Offline, ReadOnly};
    let conditions = [Empty, ImplicitOpen, ExplicitOpen, Closed, Full, ReadOnly, Offline];
    for (number, wanted) in (1..).zip(conditions) {
        for cond in conditions {
            assert_eq!(Filter(number).lists(cond), Some(cond == wanted));
            assert_eq!(Filter::ALL.lists(cond), Some(true));
            let mut descriptor = ZoneDescriptor::zeroed();
            descriptor.state = (cond as u8) << 4;
            assert_eq!(descriptor.condition(), Some(cond));
        }
    }
    assert_eq!(Filter(8).lists(Empty), None);
    assert_eq!(ZoneDescriptor::zeroed().condition(), None);
}

#[test]
fn block_status_survives_the_wire() {
    for status in [
        Status::Ok,
        Status::NotSupported,
        Status::Timeout,
        Status::NoSpace,
        Status::Medium,
        Status::Protection,
        Status::IoError,
        Status::Again,
        Status::ZoneOpenResource,
        Status::ZoneActiveResource,
        Status::Offline,
        Status::Invalid,
    ] {
        assert_eq!(NvmeStatus::from_blk_status(status).to_blk_status(), status);
    }
}

#[test]
fn every_zone_status_has_a_block_status() {
    let meaning = |status: NvmeStatus| status.do_not_retry().to_blk_status();
    for (status, expected) in [
        (NvmeStatus::ZONE_BOUNDARY, Status::IoError),
        (NvmeStatus::ZONE_FULL, Status::IoError),
        (NvmeStatus::ZONE_READ_ONLY, Status::IoError),
        (NvmeStatus::ZONE_OFFLINE, Status::Offline),
        (NvmeStatus::ZONE_INVALID_WRITE, Status::IoError),
        (NvmeStatus::TOO_MANY_ACTIVE, Status::ZoneActiveResource),
        (NvmeStatus::TOO_MANY_OPEN, Status::ZoneOpenResource),
        (NvmeStatus::ZONE_TRANSITION, Status::IoError),
        (NvmeStatus(0x7ff), Status::IoError),
    ] {
        assert_eq!(meaning(status), expected, "{status:?}");
    }
    assert_eq!(format!("{:?}", NvmeStatus::ZONE_FULL), "ZONE_FULL");
    assert_eq!(format!("{:?}", NvmeStatus(0x7ff)), "NvmeStatus(0x7ff)");
}

proptest! {
    #[test]
    fn any_64_bytes_are_a_command_in_every_view(bytes in prop::array::uniform32(any::<u8>())) {
        let bytes = [bytes, bytes].concat();
        let sqe = Sqe::read_from_bytes(&bytes).expect("64 bytes");
        macro_rules! views {
            ($($view:ident),*) => {$(
                prop_assert_eq!(Sqe::from($view::from(sqe)), sqe);
            )*};
        }
        views!(RwCommand, DsmCommand, ZoneSend, ZoneReceive, IdentifyCommand, LogCommand,
            FeatureCommand, ConnectCommand, PropertyCommand);
        prop_assert_eq!(sqe.as_bytes(), bytes.as_slice());
        prop_assert_eq!(RwCommand::from(sqe).slba.get(), sqe.slba());
    }

    #[test]
    fn completion_gives_back_what_went_in(cid: u16, code in 0u16..0x8000, result: u64) {
        let cqe = Cqe::new(cid, NvmeStatus(code)).with_result(result);
        prop_assert_eq!((cqe.cid.get(), cqe.status(), cqe.result()), (cid, NvmeStatus(code), result));
        prop_assert_eq!(Cqe::read_from_bytes(cqe.as_bytes()).expect("16 bytes"), cqe);
    }
}
