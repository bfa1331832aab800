//! Get Log Page.
use super::TEMPERATURE;
use super::admin::Controller;
use super::async_events::EventType;
use super::placement::is_group_log;
use super::response::{CommandOutput, CommandResult, INVALID_FIELD, zeroes};
use crate::NvmeStatus;
use crate::wire::admin::{GROUPS_ONLY, LogCommand, RETAIN_EVENT, notice};
use crate::wire::log::{DiscoveryEntry, DiscoveryHeader, EffectsLog, SmartLog, effect};
use crate::wire::opcode::{AdminOpcode, Csi, IoOpcode, LogId};
use crate::wire::queue::NSID_ALL;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::IntoBytes;
use zonal_blk::Nanos;

impl Controller {
    /// The asynchronous events that the controller supports (OAES).
    pub(super) fn known_events(&self) -> u32 {
        if self.subsystem.is_discovery() {
            return notice::DISCOVERY_LOG;
        }
        let ana = if self.association.port.is_some() { notice::ANA_CHANGE } else { 0 };
        notice::NAMESPACE_ATTRIBUTE | notice::ZONE_DESCRIPTOR | ana
    }

    /// Executes Get Log Page (Base section 5.16).
    pub(super) fn log_page(&self, now: Nanos, command: &LogCommand) -> CommandResult {
        let (offset, len) = (command.offset.get(), command.length());
        if offset % 4 != 0 || len > 4096 << self.subsystem.mdts() {
            return Err(INVALID_FIELD);
        }
        let page = full_page(self, now, command)?;
        let offset = usize::try_from(offset).map_err(|_| INVALID_FIELD)?;
        if offset > page.len() {
            return Err(INVALID_FIELD);
        }
        // Beyond the end of the page are zeroes.
        let mut data = zeroes(usize::try_from(len).expect("MDTS fits"))?;
        let there = data.len().min(page.len() - offset);
        data[..there].copy_from_slice(&page[offset..offset + there]);
        Ok(CommandOutput::data(data))
    }
}

fn full_page(
    controller: &Controller,
    now: Nanos,
    command: &LogCommand,
) -> Result<Vec<u8>, NvmeStatus> {
    let retain = command.specific & RETAIN_EVENT != 0;
    let association = &controller.association;
    let lid = LogId(command.lid);
    if !has(controller, lid) {
        return Err(NvmeStatus::INVALID_LOG.do_not_retry());
    }
    Ok(match lid {
        LogId::SUPPORTED => supported(controller),
        LogId::ERROR => {
            if !retain {
                let mut events = association.async_events();
                events.read(EventType::InvalidDoorbell);
                events.read(EventType::DoorbellValue);
            }
            association.errors().1.iter().flat_map(|entry| entry.as_bytes().to_vec()).collect()
        }
        // LPA bit 0: of the controller only (Base section 5.16.1.3).
        LogId::SMART if !matches!(command.nsid.get(), 0 | NSID_ALL) => return Err(INVALID_FIELD),
        LogId::SMART => {
            if !retain {
                association.async_events().read(EventType::Temperature);
            }
            smart(controller, now).as_bytes().to_vec()
        }
        LogId::FIRMWARE => firmware(controller),
        LogId::CHANGED_NAMESPACES => {
            association.async_events().namespaces(retain).as_bytes().to_vec()
        }
        LogId::EFFECTS => {
            let placement = controller.subsystem.has_placement();
            let has = |opcode| has_command(controller, opcode);
            effects(Csi(command.csi), has, placement)?.as_bytes().to_vec()
        }
        LogId::CHANGED_ZONES => {
            let nsid = command.nsid.get();
            let namespace = controller.subsystem.namespace(nsid);
            let zoned = namespace.is_some_and(|namespace| namespace.is_zoned());
            if !zoned {
                return Err(NvmeStatus::INVALID_NAMESPACE.do_not_retry());
            }
            association.async_events().zones(nsid, retain).as_bytes().to_vec()
        }
        LogId::ANA => {
            if !retain {
                association.async_events().read(EventType::Ana);
            }
            let groups_only = command.specific & GROUPS_ONLY != 0;
            let nsids = controller.subsystem.namespaces_after(0, |_| !groups_only);
            let port = association.port.as_ref();
            port.ok_or(NvmeStatus::INVALID_LOG.do_not_retry())?.log(&nsids)
        }
        lid if is_group_log(lid) => {
            controller.group_log(lid, command.identifier.get(), command.specific)?
        }
        LogId::DISCOVERY => {
            if !retain {
                association.async_events().read(EventType::Discovery);
            }
            discovery_log(controller)
        }
        _ => return Err(NvmeStatus::INVALID_LOG.do_not_retry()),
    })
}

/// Whether a controller has an admin command.
fn has_command(controller: &Controller, opcode: AdminOpcode) -> bool {
    let is_wanted = match opcode {
        AdminOpcode::MARK => controller.subsystem.takes_marks(),
        AdminOpcode::DIRECTIVE_SEND | AdminOpcode::DIRECTIVE_RECEIVE => {
            controller.subsystem.has_placement()
        }
        _ => true,
    };
    is_wanted && controller.transport.has_command(opcode)
}

/// Whether a controller has a log page.
fn has(controller: &Controller, lid: LogId) -> bool {
    let discovery = controller.subsystem.is_discovery();
    match lid {
        LogId::SUPPORTED => true,
        LogId::DISCOVERY => discovery,
        LogId::ANA => !discovery && controller.association.port.is_some(),
        lid if is_group_log(lid) => controller.subsystem.has_placement(),
        _ => !discovery,
    }
}

/// The Supported Log Pages log page: bit 0 of four bytes for each (Base section 5.16.1.1).
fn supported(controller: &Controller) -> Vec<u8> {
    let mut log = vec![0; 1024];
    for &(lid, _) in LogId::NAMED {
        log[usize::from(lid.0) * 4] = u8::from(has(controller, lid));
    }
    log
}

/// The Firmware Slot Information log page: slot 1 is active (Base section 5.16.1.4).
fn firmware(controller: &Controller) -> Vec<u8> {
    let mut log = vec![0; 512];
    log[0] = 1;
    let revision: [u8; 8] = crate::wire::padded(&controller.subsystem.config().firmware);
    log[8..16].copy_from_slice(&revision);
    log
}

/// The SMART log. The power came on at the beginning of time, and after each loss.
fn smart(controller: &Controller, now: Nanos) -> SmartLog {
    const HOUR: u64 = 3_600_000_000_000;
    let totals = &controller.subsystem.totals;
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let units = |sectors: &AtomicU64| u128::from(load(sectors).div_ceil(1000)).into();
    let mut log = SmartLog::zeroed();
    log.critical_warning = u8::from(controller.features.warns_of_temperature()) << 1;
    log.temperature = TEMPERATURE.into();
    log.spare = 100;
    log.spare_threshold = 10;
    log.units_read = units(&totals.sectors_read);
    log.units_written = units(&totals.sectors_written);
    log.reads = u128::from(load(&totals.reads)).into();
    log.writes = u128::from(load(&totals.writes)).into();
    log.power_cycles = u128::from(load(&totals.power_losses) + 1).into();
    log.hours = u128::from(now.0 / HOUR).into();
    log.unsafe_shutdowns = u128::from(load(&totals.unsafe_shutdowns)).into();
    log.media_errors = u128::from(load(&totals.media_errors)).into();
    log.error_entries = u128::from(controller.association.errors().0).into();
    log
}

/// The Commands Supported and Effects log page of a command set, with the admin commands that the
/// controller `has`, and those of data placement if there is any.
fn effects(
    csi: Csi,
    has: impl Fn(AdminOpcode) -> bool,
    placement: bool,
) -> Result<EffectsLog, NvmeStatus> {
    let mut log = EffectsLog::zeroed();
    for (opcode, _) in AdminOpcode::NAMED.iter().filter(|&&(opcode, _)| has(opcode)) {
        log.admin[usize::from(opcode.0)] = effect::SUPPORTED.into();
    }
    let zoned = match csi {
        Csi::NVM => false,
        Csi::ZNS => true,
        _ => return Err(INVALID_FIELD),
    };
    for (opcode, _) in IoOpcode::NAMED {
        let of_zones = matches!(
            *opcode,
            IoOpcode::ZONE_MANAGEMENT_SEND
                | IoOpcode::ZONE_MANAGEMENT_RECEIVE
                | IoOpcode::ZONE_APPEND
        );
        let changes = matches!(
            *opcode,
            IoOpcode::WRITE
                | IoOpcode::WRITE_ZEROES
                | IoOpcode::DATASET_MANAGEMENT
                | IoOpcode::ZONE_MANAGEMENT_SEND
                | IoOpcode::ZONE_APPEND
        );
        let of_placement =
            matches!(*opcode, IoOpcode::IO_MANAGEMENT_SEND | IoOpcode::IO_MANAGEMENT_RECEIVE);
        if (zoned || !of_zones) && (placement || !of_placement) {
            let change = if changes { effect::CONTENT_CHANGE } else { 0 };
            log.io[usize::from(opcode.0)] = (effect::SUPPORTED | change).into();
        }
    }
    Ok(log)
}

fn discovery_log(controller: &Controller) -> Vec<u8> {
    let (generation, entries) = controller.subsystem.discovery_log().unwrap_or_default();
    let mut header = DiscoveryHeader::zeroed();
    header.generation = generation.into();
    header.count = (entries.len() as u64).into();
    let entries = entries.iter().flat_map(DiscoveryEntry::as_bytes);
    header.as_bytes().iter().chain(entries).copied().collect()
}
