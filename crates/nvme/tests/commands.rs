//! Commands as the host makes them: each operation of the block layer.
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use zonal_blk::{
    Bio, BioFlags, Device, HwQueue, Limits, Nanos, Op, Queue, QueueOptions, Request, Sector,
    Status, Wake, Zone, ZoneAttributes, ZoneCondition, ZoneKind, ZoneNo, ZoneWrite, ZrwaLimits,
};
use zonal_nvme::ns::{
    Ids, Namespace, NamespaceHead, NamespaceInfo, ScanError, SpecialPayload, setup,
};
use zonal_nvme::wire::identify::{IdentifyNamespace, ZnsNamespace};
use zonal_nvme::wire::io::RwCommand;
use zonal_nvme::wire::opcode::{Csi, IoOpcode};
use zonal_nvme::wire::zone::ZoneSend;
use zonal_nvme::wire::{Sgl, Sqe};

const ZONE: u64 = 4096;

/// The result of a request.
type Made = Result<(Sqe, SpecialPayload), Status>;

/// A device that makes the command of each request and completes it.
struct Recorder {
    ns: Arc<Namespace>,
    limits: Limits,
    made: Mutex<Vec<Made>>,
}

struct RecorderQueue(Arc<Recorder>, Vec<Box<Request>>);

impl Device for Recorder {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        zones.extend((first.0..self.limits.nr_zones).take(max).map(|zone| {
            let start = self.limits.zone_start(ZoneNo(zone));
            Zone {
                start,
                len: Sector(ZONE),
                capacity: Sector(ZONE),
                wp: start,
                kind: ZoneKind::SequentialRequired,
                cond: ZoneCondition::Empty,
                attributes: ZoneAttributes::NONE,
            }
        }));
        Ok(())
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(RecorderQueue(self, Vec::new()))
    }
}

impl HwQueue for RecorderQueue {
    fn start(&mut self, _now: Nanos, mut request: Box<Request>) -> Result<(), Box<Request>> {
        let mut sqe = Sqe::zeroed();
        let made = setup(self.0.ns.format(), &request, 7, &mut sqe).map(|payload| (sqe, payload));
        request.set_status(made.err().unwrap_or(Status::Ok));
        self.0.made.lock().unwrap().push(made);
        self.1.push(request);
        Ok(())
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Request>>) {
        done.append(&mut self.1);
    }

    fn next_event(&self) -> Wake {
        if self.1.is_empty() { Wake::Idle } else { Wake::Now }
    }
}

fn identify(lba_shift: u8, metadata: u16, pi: u8) -> IdentifyNamespace {
    let mut id = IdentifyNamespace::zeroed();
    id.size = ((64 * ZONE) >> (lba_shift - 9)).into();
    id.lba_formats[0].data_shift = lba_shift;
    id.lba_formats[0].metadata = metadata.into();
    id.protection = pi;
    id
}

fn zoned(lba_shift: u8) -> ZnsNamespace {
    let mut zns = ZnsNamespace::zeroed();
    zns.formats[0].zone_size = (ZONE >> (lba_shift - 9)).into();
    zns.max_open = 13.into();
    zns.max_active = u32::MAX.into();
    zns
}

fn info(lba_shift: u8, metadata: u16, pi: u8) -> NamespaceInfo {
    let id = identify(lba_shift, metadata, pi);
    NamespaceInfo::new(9, Ids::default(), &id, Some(&zoned(lba_shift))).unwrap()
}

fn command(info: &NamespaceInfo, op: Op, flags: BioFlags, sector: u64, len: u32) -> Made {
    let limits = Limits {
        lba_size: 1 << info.lba_shift,
        capacity: info.capacity,
        zone_size: Sector(ZONE),
        nr_zones: 64,
        max_open_zones: 0,
        max_active_zones: 0,
        max_sectors: 4096,
        append_max_sectors: 4096,
        max_write_zeroes_sectors: 4096,
        nr_queues: 1,
        queue_depth: 8,
        rotational: false,
        write_granularity: 0,
        zrwa: ZrwaLimits { size: 32, granularity: 8, max: 2 },
    };
    let made = Mutex::default();
    let device = Arc::new(Recorder { ns: NamespaceHead::new(info).path(), limits, made });
    let options = QueueOptions { zone_write: Some(ZoneWrite::Off), ..QueueOptions::default() };
    let queue = Queue::attach(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
    let mut channel = queue.channel().unwrap();
    channel.submit(Nanos(0), Bio { flags, ..Bio::new(op, Sector(sector), len, 0) });
    let mut done = Vec::new();
    channel.poll(Nanos(0), &mut done);
    let made = device.made.lock().unwrap().pop().expect("the device was asked");
    assert_eq!(done[0].status, made.err().unwrap_or(Status::Ok));
    made
}

#[test]
fn reads_writes_and_appends_count_in_blocks() {
    for (op, opcode) in [
        (Op::Read, IoOpcode::READ),
        (Op::Write, IoOpcode::WRITE),
        (Op::ZoneAppend, IoOpcode::ZONE_APPEND),
    ] {
        for (shift, slba, nlb) in [(9, 2 * ZONE, 15), (12, 2 * ZONE / 8, 1)] {
            let made = command(&info(shift, 0, 0), op, BioFlags::NONE, 2 * ZONE, 16);
            let (sqe, payload) = made.unwrap();
            let rw = RwCommand::from(sqe);
            assert_eq!((sqe.opcode, sqe.cid.get(), sqe.nsid.get()), (opcode.0, 7, 9));
            assert_eq!((rw.slba.get(), rw.nlb.get(), rw.control.get()), (slba, nlb, 0));
            assert_eq!(sqe.dptr, Sgl::transport(8192));
            assert_eq!((payload, rw.reference_tag.get()), (SpecialPayload::None, 0));
        }
    }
}

#[test]
fn control_bits_follow_flags_and_protection() {
    const FUA: u16 = 0x4000;
    // Metadata, type, operation, flags, dword 12 bits 31:16, reference tag.
    let table = [
        (0, 0, Op::Write, BioFlags::NONE, (0, 0)),
        (0, 0, Op::Write, BioFlags::FUA, (FUA, 0)),
        (0, 0, Op::WriteZeroes, BioFlags::FUA, (FUA, 0)),
        (8, 1, Op::Read, BioFlags::NONE, (0x3400, 8192)),
        (8, 1, Op::Write, BioFlags::FUA, (FUA | 0x3400, 8192)),
        (8, 1, Op::ZoneAppend, BioFlags::NONE, (0x3600, 8192)),
        (8, 1, Op::WriteZeroes, BioFlags::NONE, (0x3400, 8192)),
        (8, 2, Op::Write, BioFlags::NONE, (0x3400, 8192)),
        (8, 2, Op::ZoneAppend, BioFlags::NONE, (0x3400, 8192)),
        (8, 3, Op::Write, BioFlags::NONE, (0x3000, 0)),
        (8, 3, Op::ZoneAppend, BioFlags::NONE, (0x3000, 0)),
    ];
    for (metadata, pi, op, flags, expected) in table {
        let made = command(&info(9, metadata, pi), op, flags, 2 * ZONE, 8);
        let rw = RwCommand::from(made.unwrap().0);
        let found = (rw.control.get(), rw.reference_tag.get());
        assert_eq!(found, expected, "{metadata} {pi} {op:?} {flags:?}");
    }
}

#[test]
fn zone_management_names_the_zone_or_all() {
    for (op, action, options) in [
        (Op::ZoneClose, 1, 0),
        (Op::ZoneFinish, 2, 0),
        (Op::ZoneOpen, 3, 0),
        (Op::ZoneReset, 4, 0),
        (Op::ZoneOpenZrwa, 3, 2),
        (Op::ZoneResetAll, 4, 1),
    ] {
        let sector = if op == Op::ZoneResetAll { 0 } else { 3 * ZONE };
        let (sqe, _) = command(&info(12, 0, 0), op, BioFlags::NONE, sector, 0).unwrap();
        let send = ZoneSend::from(sqe);
        assert_eq!(send.opcode, IoOpcode::ZONE_MANAGEMENT_SEND.0);
        assert_eq!((send.slba.get(), send.action, send.options), (sector / 8, action, options));
        assert_eq!(sqe.cdw13.get(), u32::from(action) | u32::from(options) << 8);
    }
}

#[test]
fn zrwa_flush_names_the_last_block() {
    let (sqe, _) = command(&info(12, 0, 0), Op::ZrwaFlush, BioFlags::NONE, 3 * ZONE, 16).unwrap();
    let send = ZoneSend::from(sqe);
    assert_eq!((send.slba.get(), send.action, send.options), (3 * ZONE / 8 + 1, 0x11, 0));
    let none = command(&info(12, 0, 0), Op::ZrwaFlush, BioFlags::NONE, 3 * ZONE, 0);
    assert_eq!(none.unwrap_err(), Status::Invalid);
}

#[test]
fn flush_has_no_range_and_discard_has_one() {
    let info = info(12, 0, 0);
    let (sqe, payload) = command(&info, Op::Flush, BioFlags::NONE, 0, 0).unwrap();
    assert_eq!((sqe, payload), (Sqe::new(0, 7, 9), SpecialPayload::None));

    let (sqe, payload) = command(&info, Op::Discard, BioFlags::NONE, ZONE, 64).unwrap();
    let SpecialPayload::Range(range) = payload else { panic!("{payload:?}") };
    assert_eq!((range.slba.get(), range.nlb.get()), (ZONE / 8, 8));
    assert_eq!((sqe.opcode, sqe.cdw10.get(), sqe.cdw11.get()), (9, 0, 4));
    assert_eq!(sqe.dptr, Sgl::in_capsule(16));
}

#[test]
fn scan_reads_formats_limits_and_zones() {
    let found = info(12, 8, 2);
    assert_eq!((found.csi, found.lba_shift, found.metadata), (Csi::ZNS, 12, 8));
    assert_eq!((found.pi_type, found.pi_size, found.capacity), (2, 8, Sector(64 * ZONE)));
    let zones = found.zones.unwrap();
    assert_eq!((zones.size, zones.max_open, zones.max_active), (Sector(ZONE), 14, 0));
    let plain = NamespaceInfo::new(1, Ids::default(), &identify(9, 0, 0), None).unwrap();
    assert_eq!((plain.csi, plain.zones), (Csi::NVM, None));
}

#[test]
fn scan_refuses_what_the_block_layer_cannot_use() {
    let with = |change: fn(&mut IdentifyNamespace, &mut ZnsNamespace)| {
        let (mut id, mut zns) = (identify(12, 0, 0), zoned(12));
        change(&mut id, &mut zns);
        NamespaceInfo::new(1, Ids::default(), &id, Some(&zns)).unwrap_err()
    };
    let last = 0;
    assert_eq!(with(|id, _| id.format = 1), ScanError::Format { found: 1, last });
    assert_eq!(with(|id, _| id.format = 0x20), ScanError::Format { found: 16, last });
    assert_eq!(with(|id, _| id.lba_formats[0].data_shift = 0), ScanError::BlockSize(0));
    assert_eq!(with(|id, _| id.lba_formats[0].data_shift = 13), ScanError::BlockSize(13));
    let blocks = u64::MAX / 4;
    assert_eq!(
        with(|id, _| id.size = (u64::MAX / 4).into()),
        ScanError::Capacity { blocks, shift: 12 }
    );
    for (metadata, pi_type) in [(0, 1), (8, 0), (8, 4), (16, 1)] {
        let mut id = identify(12, metadata, pi_type);
        id.protection |= 1 << 3;
        let found = NamespaceInfo::new(1, Ids::default(), &id, None).unwrap_err();
        assert_eq!(found, ScanError::Metadata { metadata, pi_type });
    }
    assert_eq!(with(|_, zns| zns.zone_operation = 3.into()), ScanError::ZoneOperation(3));
    assert_eq!(with(|_, zns| zns.formats[0].zone_size = 0.into()), ScanError::ZoneSize(0));
}

proptest! {
    #[test]
    fn any_identify_data_is_parsed_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 4096..=4096),
        zns in prop::collection::vec(any::<u8>(), 4096..=4096),
        shift in 8u8..14,
    ) {
        use zerocopy::FromBytes;
        let mut id = IdentifyNamespace::read_from_bytes(&bytes).unwrap();
        id.lba_formats.fill(zonal_nvme::wire::identify::LbaFormat {
            data_shift: shift, metadata: 0.into(), performance: 0,
        });
        let mut zns = ZnsNamespace::read_from_bytes(&zns).unwrap();
        zns.zone_operation = 0.into();
        id.protection = 0;
        if let Ok(info) = NamespaceInfo::new(1, Ids::default(), &id, Some(&zns)) {
            prop_assert!(info.lba_shift == 9 || info.lba_shift == 12);
            prop_assert_eq!(info.capacity.0, id.size.get() << (info.lba_shift - 9));
            prop_assert!(info.zones.unwrap().size.0 > 0);
        }
    }
}
