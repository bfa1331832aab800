//! Zone Management Send and Receive.
use super::long::Remaining;
use super::pending::CompletionKind;
use super::{CommandOutput, Namespace, Submission};
use crate::NvmeStatus;
use crate::controller::response::{INVALID_FIELD, zeroes};
use crate::wire::zone::{
    ALLOCATE_ZRWA, Filter, NO_WRITE_POINTER, ReceiveAction, ReportHeader, SELECT_ALL,
    SEQUENTIAL_WRITE_REQUIRED, SendAction, ZoneDescriptor, ZoneReceive, ZoneSend,
};
use std::ops::ControlFlow;
use zerocopy::IntoBytes;
use zonal_blk::{Bio, Op, Sector, Status, Zone, ZoneCondition, ZoneExtensions, ZoneNo};

/// The zone of a block.
fn zone_at(namespace: &Namespace, slba: u64) -> Result<ZoneNo, NvmeStatus> {
    if slba >= namespace.blocks() {
        return Err(NvmeStatus::LBA_RANGE.do_not_retry());
    }
    Ok(namespace.limits().zone_of(namespace.to_sector(slba)))
}

/// The bios of Zone Management Send (ZNS section 3.4.3), with `bytes` of data.
pub(super) fn management_send(
    namespace: &Namespace,
    command: &ZoneSend,
    bytes: u32,
    data: &[u8],
) -> Result<Submission, NvmeStatus> {
    let action = SendAction(command.action);
    let allocates = command.options & ALLOCATE_ZRWA != 0;
    let op = match action {
        SendAction::CLOSE => Op::ZoneClose,
        SendAction::FINISH => Op::ZoneFinish,
        SendAction::OPEN if allocates => Op::ZoneOpenZrwa,
        SendAction::OPEN => Op::ZoneOpen,
        SendAction::RESET => Op::ZoneReset,
        SendAction::OFFLINE => return offline(namespace, command),
        SendAction::ZRWA_FLUSH => return zrwa_flush(namespace, command),
        SendAction::SET_EXTENSION => return set_extension(namespace, command, bytes, data),
        _ => return Err(INVALID_FIELD),
    };
    let all = command.options & SELECT_ALL != 0;
    // ZSASO belongs to Open Zone, and to namespaces with ZRWA.
    let zrwa = op == Op::ZoneOpenZrwa && namespace.limits().zrwa.max > 0;
    if command.options & !(SELECT_ALL | ALLOCATE_ZRWA) != 0 || allocates && !zrwa {
        return Err(INVALID_FIELD);
    }
    // Select All opens closed zones, which cannot be given a ZRWA.
    if all && zrwa {
        return Err(NvmeStatus::ZONE_INVALID_OPERATION.do_not_retry());
    }
    let one = |op, sector| Ok(Submission::Bio(Bio::new(op, sector, 0, 0), CompletionKind::Plain));
    match (all, op) {
        (true, Op::ZoneReset) => one(Op::ZoneResetAll, Sector(0)),
        (true, _) => {
            // The zones that Select All applies to (ZNS section 3.4.3.1).
            let selected = |cond: ZoneCondition| match op {
                Op::ZoneClose => cond.is_open(),
                Op::ZoneFinish => cond.is_active(),
                _ => cond == ZoneCondition::Closed,
            };
            let mut zones = Vec::new();
            for_each_zone(namespace, ZoneNo(0), |zone| {
                if selected(zone.cond) {
                    zones.push(namespace.limits().zone_of(zone.start));
                }
                ControlFlow::Continue(())
            })?;
            let zones = Remaining::Zones(op, zones.into_iter());
            Ok(Submission::Bios(zones, CompletionKind::Plain))
        }
        (false, _) => one(op, first_of_zone(namespace, command.slba.get())?),
    }
}

/// Flush Explicit ZRWA Range: commits the ZRWA of a zone up to a block and with it (ZNS section
/// 3.4.3). The device checks the range.
fn zrwa_flush(namespace: &Namespace, command: &ZoneSend) -> Result<Submission, NvmeStatus> {
    if namespace.limits().zrwa.max == 0 || command.options != 0 {
        return Err(INVALID_FIELD);
    }
    let last = command.slba.get();
    let start = namespace.limits().zone_start(zone_at(namespace, last)?);
    let end = namespace.to_sector(last + 1) - start;
    let len = u32::try_from(end.0).map_err(|_| INVALID_FIELD)?;
    Ok(Submission::Bio(Bio::new(Op::ZrwaFlush, start, len, 0), CompletionKind::Plain))
}

/// Set Zone Descriptor Extension, with a ZRWA if the host asks for one (ZNS section 3.4.3).
fn set_extension(
    namespace: &Namespace,
    command: &ZoneSend,
    bytes: u32,
    data: &[u8],
) -> Result<Submission, NvmeStatus> {
    let zrwa = command.options & ALLOCATE_ZRWA != 0;
    let extensions = namespace.extensions().ok_or(INVALID_FIELD)?;
    if command.options & !ALLOCATE_ZRWA != 0 || zrwa && namespace.limits().zrwa.max == 0 {
        return Err(INVALID_FIELD);
    }
    let start = first_of_zone(namespace, command.slba.get())?;
    if bytes as usize != extensions.size() {
        return Err(NvmeStatus::SGL_LENGTH.do_not_retry());
    }
    if data.len() != extensions.size() {
        return Err(NvmeStatus::DATA_TRANSFER);
    }
    let zone = namespace.limits().zone_of(start);
    extensions.set(zone, data, zrwa).map_err(|status| match status {
        Status::IoError | Status::Offline => NvmeStatus::ZONE_TRANSITION.do_not_retry(),
        Status::NoSpace => NvmeStatus::ZRWA_UNAVAILABLE,
        status => NvmeStatus::from_blk_status(status),
    })?;
    if zrwa {
        // The block layer learns of the area from a report. Without it learns of it when a write fails.
        let _learns_later = namespace.queue().report_zones(zone, 1, &mut Vec::new());
    }
    Ok(Submission::Done(CommandOutput::EMPTY))
}

/// The sector of a block that must be the first of its zone.
fn first_of_zone(namespace: &Namespace, slba: u64) -> Result<Sector, NvmeStatus> {
    let zone = zone_at(namespace, slba)?;
    let start = namespace.limits().zone_start(zone);
    if namespace.to_sector(slba) == start { Ok(start) } else { Err(INVALID_FIELD) }
}

/// Offline Zone, for read-only zones (ZNS section 3.4.3.1.5).
fn offline(namespace: &Namespace, command: &ZoneSend) -> Result<Submission, NvmeStatus> {
    let mut wanted = Vec::new();
    if command.options & SELECT_ALL != 0 {
        for_each_zone(namespace, ZoneNo(0), |zone| {
            if zone.cond == ZoneCondition::ReadOnly {
                wanted.push(namespace.limits().zone_of(zone.start));
            }
            ControlFlow::Continue(())
        })?;
    } else {
        let start = first_of_zone(namespace, command.slba.get())?;
        let report = namespace.report_zone(command.slba.get()).ok_or(NvmeStatus::INTERNAL)?;
        match report.cond {
            ZoneCondition::Offline => {}
            ZoneCondition::ReadOnly => wanted.push(namespace.limits().zone_of(start)),
            _ => return Err(NvmeStatus::ZONE_TRANSITION.do_not_retry()),
        }
    }
    for zone in wanted {
        let device = namespace.offline().ok_or(NvmeStatus::ZONE_TRANSITION.do_not_retry())?;
        device.set_offline(zone).map_err(NvmeStatus::from_blk_status)?;
        // The host that sent the command gets no event.
        namespace.mark_failed(zone);
    }
    Ok(Submission::Done(CommandOutput::EMPTY))
}

/// Calls `visit` for the zones from `first` on, until it breaks.
fn for_each_zone(
    namespace: &Namespace,
    first: ZoneNo,
    mut visit: impl FnMut(&Zone) -> ControlFlow<()>,
) -> Result<(), NvmeStatus> {
    for zone in namespace.queue().zones(first..ZoneNo(u32::MAX)) {
        let zone = zone.map_err(NvmeStatus::from_blk_status)?;
        if visit(&zone).is_break() {
            break;
        }
    }
    Ok(())
}

fn describe(namespace: &Namespace, zone: &Zone) -> ZoneDescriptor {
    let mut descriptor = ZoneDescriptor::zeroed();
    let has_wp = zone.cond.is_active() || zone.cond == ZoneCondition::Empty;
    descriptor.zone_type = SEQUENTIAL_WRITE_REQUIRED;
    descriptor.state = (zone.cond as u8) << 4;
    descriptor.attributes = zone.attributes.bits();
    descriptor.capacity = namespace.to_blocks(zone.capacity).into();
    descriptor.slba = namespace.to_blocks(zone.start).into();
    let wp = if has_wp { namespace.to_blocks(zone.wp) } else { NO_WRITE_POINTER };
    descriptor.write_pointer = wp.into();
    descriptor
}

/// Executes Zone Management Receive (ZNS section 3.4.2), whose data are no longer than `max_transfer` bytes.
pub(super) fn management_receive(
    namespace: &Namespace,
    command: &ZoneReceive,
    max_transfer: u64,
) -> Result<Submission, NvmeStatus> {
    let len = command.length();
    let filter = Filter(command.filter);
    // In an extended report an extension follows each descriptor, whether or not it was set.
    let extensions = match ReceiveAction(command.action) {
        ReceiveAction::REPORT => None,
        ReceiveAction::EXTENDED_REPORT => Some(namespace.extensions().ok_or(INVALID_FIELD)?),
        _ => return Err(INVALID_FIELD),
    };
    if filter.lists(ZoneCondition::Empty).is_none()
        || len < ReportHeader::SIZE as u64
        || len > max_transfer
    {
        return Err(INVALID_FIELD);
    }
    let first = zone_at(namespace, command.slba.get())?;
    let len = usize::try_from(len).expect("MDTS fits");
    let size = ZoneDescriptor::SIZE + extensions.map_or(0, ZoneExtensions::size);
    let room = (len - ReportHeader::SIZE) / size;
    let partial = command.partial & 1 != 0;
    let mut data = zeroes(len)?;
    let mut places = data[ReportHeader::SIZE..].chunks_exact_mut(size);
    let (mut matching, mut listed) = (0u64, 0);
    for_each_zone(namespace, first, |zone| {
        if filter.lists(zone.cond) == Some(true) {
            matching += 1;
            if let Some(place) = places.next() {
                let (descriptor, extension) = place.split_at_mut(ZoneDescriptor::SIZE);
                descriptor.copy_from_slice(describe(namespace, zone).as_bytes());
                if let Some(extensions) = extensions {
                    extensions.get(namespace.limits().zone_of(zone.start), extension);
                }
                listed += 1;
            }
        }
        if partial && listed == room { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let nr_zones = if partial { listed as u64 } else { matching };
    data[..8].copy_from_slice(&nr_zones.to_le_bytes());
    Ok(Submission::Done(CommandOutput::data(data)))
}
