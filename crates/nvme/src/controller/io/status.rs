//! The status of commands whose bios failed: where the block layer has one I/O error, the ZNS Command
//! Set has a status for each reason.
use crate::NvmeStatus;
use crate::controller::namespace::Namespace;
use crate::wire::Sqe;
use crate::wire::io::RwCommand;
use crate::wire::opcode::IoOpcode;
use zonal_blk::{Buf, Sector, Status, Zone, ZoneCondition};

/// The status of a command whose bio completed with `status`.
pub(super) fn of_zone(namespace: &Namespace, sqe: &Sqe, status: Status) -> NvmeStatus {
    let unclear = matches!(status, Status::IoError | Status::Offline);
    if !namespace.is_zoned() || !unclear {
        return general(sqe, status);
    }
    match IoOpcode(sqe.opcode) {
        IoOpcode::ZONE_MANAGEMENT_SEND => NvmeStatus::ZONE_TRANSITION.do_not_retry(),
        IoOpcode::WRITE | IoOpcode::WRITE_ZEROES | IoOpcode::ZONE_APPEND => {
            let command = RwCommand::from(*sqe);
            match zone(namespace, command.slba.get()) {
                Some(zone) => of_write(namespace, &command, &zone),
                None => general(sqe, status),
            }
        }
        _ => general(sqe, status),
    }
}

fn general(sqe: &Sqe, status: Status) -> NvmeStatus {
    let reads =
        matches!(IoOpcode(sqe.opcode), IoOpcode::READ | IoOpcode::COMPARE | IoOpcode::VERIFY);
    match status {
        Status::IoError if reads => NvmeStatus::UNRECOVERED_READ.do_not_retry(),
        Status::IoError => NvmeStatus::WRITE_FAULT,
        status => NvmeStatus::from_blk_status(status),
    }
}

/// The zone of a block, as the device reports it.
pub(super) fn zone(namespace: &Namespace, lba: u64) -> Option<Zone> {
    let queue = namespace.queue();
    let zone = queue.limits().zone_of(namespace.to_sector(lba));
    let mut zones = Vec::with_capacity(1);
    queue.report_zones(zone, 1, &mut zones).ok()?;
    zones.pop()
}

/// Why a write to `zone` failed (ZNS section 2.1.1.2.1). If the write was valid, the medium failed.
fn of_write(namespace: &Namespace, command: &RwCommand, zone: &Zone) -> NvmeStatus {
    let append = command.opcode == IoOpcode::ZONE_APPEND.0;
    let len = u64::from(command.blocks());
    let at = if append { zone.wp } else { namespace.to_sector(command.slba.get()) };
    match zone.cond {
        ZoneCondition::Full => NvmeStatus::ZONE_FULL.do_not_retry(),
        ZoneCondition::ReadOnly => NvmeStatus::ZONE_READ_ONLY.do_not_retry(),
        ZoneCondition::Offline => NvmeStatus::ZONE_OFFLINE.do_not_retry(),
        _ if at + namespace.to_sector(len) > zone.writable_end() => {
            NvmeStatus::ZONE_BOUNDARY.do_not_retry()
        }
        _ if at != zone.wp => NvmeStatus::ZONE_INVALID_WRITE.do_not_retry(),
        _ => NvmeStatus::WRITE_FAULT,
    }
}

/// The status of a Compare.
pub(super) fn check_compare(expected: &Buf, found: Option<&Buf>) -> NvmeStatus {
    if found.is_some_and(|found| found[..] == expected[..]) {
        NvmeStatus::SUCCESS
    } else {
        NvmeStatus::COMPARE_FAILURE.do_not_retry()
    }
}

/// The sectors of a command's blocks, which must be in the namespace.
pub(super) fn range(
    namespace: &Namespace,
    lba: u64,
    blocks: u32,
) -> Result<(Sector, u32), NvmeStatus> {
    let end = lba.checked_add(blocks.into());
    if end.is_none_or(|end| end > namespace.blocks()) {
        return Err(NvmeStatus::LBA_RANGE.do_not_retry());
    }
    let len = namespace.to_sectors(blocks).ok_or(NvmeStatus::INVALID_FIELD.do_not_retry())?;
    Ok((namespace.to_sector(lba), len))
}
