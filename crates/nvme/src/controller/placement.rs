//! Flexible data placement: its log pages, features, directive and I/O management commands.
//!
//! A device with reclaim unit handles is an endurance group, with the identifier of its first namespace.
//! Namespaces cannot be deleted, so that the one configuration of a group stays enabled.
use super::admin::Controller;
use super::namespace::Namespace;
use super::response::{CommandOutput, CommandResult, INVALID_FIELD, zeroes};
use super::subsystem::Subsystem;
use crate::NvmeStatus;
use crate::wire::Sqe;
use crate::wire::admin::FeatureCommand;
use crate::wire::io::RwCommand;
use crate::wire::opcode::{IoOpcode, LogId};
use crate::wire::placement::{
    Configuration, ConfigurationsHeader, DirectiveCommand, DirectiveType, EnduranceGroupLog, Event,
    EventSupport, EventType, EventsHeader, HOST_EVENTS, ID_VALID, IoManagementReceive,
    IoManagementSend, LOCATION_VALID, NSID_VALID, RETURN_PARAMETERS, ReceiveOperation,
    SendOperation, Statistics, StatusHeader, UnitHandle, UnitHandleStatus, UnitHandleUsage,
    UsageHeader, VALID, WRITE_CACHE,
};
use std::sync::Arc;
use zerocopy::IntoBytes;
use zonal_blk::{
    DataPlacement, Isolation, Nanos, PlacementEvent, PlacementEventType, PlacementId,
    PlacementLayout,
};

const FDP_DISABLED: NvmeStatus = NvmeStatus::FDP_DISABLED.do_not_retry();

/// Bits of a placement identifier that are the reclaim group (RGIF).
fn group_bits(layout: &PlacementLayout) -> u32 {
    u16::BITS - (layout.groups - 1).leading_zeros()
}

/// A placement identifier as hosts know it: the group in the upper bits, the handle in the others.
fn encode(layout: &PlacementLayout, id: PlacementId) -> u16 {
    let shift = u16::BITS - group_bits(layout);
    let value = u32::from(id.group) << shift | u32::from(id.handle);
    u16::try_from(value).expect("the group has the bits above the handle's")
}

/// The write stream of a placement identifier; `None` if the namespace has no such one.
fn stream_of(layout: &PlacementLayout, id: u16) -> Option<u8> {
    let shift = u16::BITS - group_bits(layout);
    let group = u32::from(id) >> shift;
    let handle = u32::from(id) & ((1 << shift) - 1);
    layout.stream(u16::try_from(handle).ok()?, u16::try_from(group).ok()?)
}

/// The write stream of a command that writes (Base 2.1 section 8.1.10). A write with a placement
/// identifier that does not exist is executed as one without, and is an event.
///
/// # Errors
/// It has a directive that the namespace does not have.
#[inline]
pub(super) fn write_stream(
    namespace: &Namespace,
    command: &RwCommand,
    now: Nanos,
) -> Result<u8, NvmeStatus> {
    let (kind, id) = command.directive();
    if kind == 0 {
        return Ok(0);
    }
    let placement = namespace.placement();
    let placement = placement.filter(|_| DirectiveType(kind) == DirectiveType::DATA_PLACEMENT);
    let placement = placement.ok_or(INVALID_FIELD)?;
    let stream = stream_of(placement.layout(), id);
    if stream.is_none() {
        // The write goes to the first placement handle.
        placement.invalid_id(now, 0, id);
    }
    Ok(stream.unwrap_or(0))
}

/// The data placement of a namespace, for a command of a controller that has any.
fn placement_of<'a>(
    subsystem: &Subsystem,
    namespace: &'a Namespace,
) -> Result<&'a dyn DataPlacement, NvmeStatus> {
    if !subsystem.has_placement() {
        return Err(NvmeStatus::INVALID_OPCODE.do_not_retry());
    }
    namespace.placement().ok_or(FDP_DISABLED)
}

/// Executes I/O Management Receive or Send, with the length of its data and the data.
pub(super) fn manage(
    now: Nanos,
    subsystem: &Subsystem,
    namespace: &Namespace,
    sqe: &Sqe,
    sent: (u32, &[u8]),
) -> CommandResult {
    match IoOpcode(sqe.opcode) {
        IoOpcode::IO_MANAGEMENT_SEND => {
            management_send(now, subsystem, namespace, &(*sqe).into(), sent)
        }
        _ => management_receive(subsystem, namespace, &(*sqe).into()),
    }
}

/// Executes I/O Management Receive (Base 2.1 section 7.3).
fn management_receive(
    subsystem: &Subsystem,
    namespace: &Namespace,
    command: &IoManagementReceive,
) -> CommandResult {
    let placement = placement_of(subsystem, namespace)?;
    match ReceiveOperation(command.operation) {
        ReceiveOperation::NONE => return Ok(CommandOutput::EMPTY),
        ReceiveOperation::UNIT_HANDLE_STATUS => {}
        _ => return Err(INVALID_FIELD),
    }
    let len = command.length();
    if len > 4096 << subsystem.mdts() {
        return Err(INVALID_FIELD);
    }
    let layout = placement.layout();
    let mut header = StatusHeader::zeroed();
    header.count = u16::try_from(layout.ids.len()).expect("at most 255").into();
    let mut page = header.as_bytes().to_vec();
    for (stream, &id) in (1..).zip(&layout.ids) {
        let mut status = UnitHandleStatus::zeroed();
        status.id = encode(layout, id).into();
        status.unit_handle = id.unit_handle.into();
        status.available = namespace.to_blocks(placement.available(stream)).into();
        page.extend_from_slice(status.as_bytes());
    }
    page.resize(usize::try_from(len).expect("MDTS fits"), 0);
    Ok(CommandOutput::data(page))
}

/// Executes I/O Management Send (Base 2.1 section 7.4) with `bytes` of data.
fn management_send(
    now: Nanos,
    subsystem: &Subsystem,
    namespace: &Namespace,
    command: &IoManagementSend,
    (bytes, data): (u32, &[u8]),
) -> CommandResult {
    let placement = placement_of(subsystem, namespace)?;
    match SendOperation(command.operation) {
        SendOperation::NONE => return Ok(CommandOutput::EMPTY),
        SendOperation::UNIT_HANDLE_UPDATE => {}
        _ => return Err(INVALID_FIELD),
    }
    let len = usize::try_from(command.length()).expect("at most 128 KiB");
    if (bytes as usize) < len {
        return Err(NvmeStatus::SGL_LENGTH.do_not_retry());
    }
    let ids = data.get(..len).ok_or(NvmeStatus::DATA_TRANSFER)?.chunks_exact(2);
    let ids = ids.map(|id| u16::from_le_bytes([id[0], id[1]]));
    // Either all are updated or none.
    let streams = ids.map(|id| stream_of(placement.layout(), id)).collect::<Option<Vec<u8>>>();
    streams.ok_or(INVALID_FIELD)?.into_iter().for_each(|stream| placement.update(now, stream));
    Ok(CommandOutput::EMPTY)
}

/// The wire's name of an event type.
fn event_type(kind: PlacementEventType) -> EventType {
    match kind {
        PlacementEventType::UnitNotFull => EventType::UNIT_NOT_FULL,
        PlacementEventType::InvalidId => EventType::INVALID_ID,
        PlacementEventType::Reallocated => EventType::REALLOCATED,
    }
}

/// Whether a log page is one of an endurance group.
pub(super) fn is_group_log(lid: LogId) -> bool {
    matches!(
        lid,
        LogId::ENDURANCE_GROUP
            | LogId::FDP_CONFIGURATIONS
            | LogId::UNIT_HANDLE_USAGE
            | LogId::FDP_STATISTICS
            | LogId::FDP_EVENTS
    )
}

impl Controller {
    /// The namespaces of an endurance group, with their numbers: at least one.
    fn endurance_group(&self, group: u16) -> Result<Vec<(u32, Arc<Namespace>)>, NvmeStatus> {
        let namespaces = self.subsystem.namespaces_of_group(group.into());
        if namespaces.is_empty() { Err(INVALID_FIELD) } else { Ok(namespaces) }
    }

    /// A log page of an endurance group.
    pub(super) fn group_log(
        &self,
        lid: LogId,
        group: u16,
        specific: u8,
    ) -> Result<Vec<u8>, NvmeStatus> {
        let namespaces = self.endurance_group(group)?;
        let (_, first) = &namespaces[0];
        let placement = first.placement().ok_or(INVALID_FIELD)?;
        let layouts = || namespaces.iter().filter_map(|(_, it)| Some(it.placement()?.layout()));
        Ok(match lid {
            LogId::ENDURANCE_GROUP => {
                let size = |(_, it): &(u32, Arc<Namespace>)| it.limits().capacity.to_bytes().0;
                let capacity = namespaces.iter().map(size).sum();
                endurance(capacity, placement).as_bytes().to_vec()
            }
            LogId::FDP_CONFIGURATIONS => configurations(placement.layout(), layouts()),
            LogId::UNIT_HANDLE_USAGE => usage(placement.layout(), layouts()),
            LogId::FDP_STATISTICS => statistics(placement).as_bytes().to_vec(),
            _ => self.events(&namespaces, specific & HOST_EVENTS != 0),
        })
    }

    fn events(&self, namespaces: &[(u32, Arc<Namespace>)], of_host: bool) -> Vec<u8> {
        let mut events = Vec::new();
        for (nsid, namespace) in namespaces {
            let Some(placement) = namespace.placement() else { continue };
            let own = placement.events().into_iter();
            let own = own.filter(|event| event.kind.is_of_host() == of_host);
            events.extend(own.map(|event| {
                (event.at, *nsid, describe(namespace, placement.layout(), &event), event)
            }));
        }
        events.sort_by_key(|&(at, ..)| at);
        let mut header = EventsHeader::zeroed();
        header.count = u32::try_from(events.len()).expect("few are kept").into();
        let mut page = header.as_bytes().to_vec();
        for (_, nsid, mut entry, event) in events {
            entry.flags |= NSID_VALID;
            entry.nsid = nsid.into();
            let timestamp = self.features.timestamp(event.at);
            entry.timestamp.copy_from_slice(timestamp.as_bytes());
            page.extend_from_slice(entry.as_bytes());
        }
        page
    }

    /// Get Features for Flexible Data Placement (Base 2.1 section 5.1.25.1.20): configuration 0 of the
    /// endurance group is enabled.
    pub(super) fn placement_feature(&self, command: &FeatureCommand) -> CommandResult {
        let [low, high, ..] = command.value.get().to_le_bytes();
        self.endurance_group(u16::from_le_bytes([low, high]))?;
        Ok(CommandOutput::result(1))
    }

    /// Set Features for the same: refused, as the group has a namespace.
    pub(super) fn set_placement_feature(&self, command: &FeatureCommand) -> CommandResult {
        self.placement_feature(command)?;
        Err(NvmeStatus::SEQUENCE.do_not_retry())
    }

    /// The namespace, the placement handle and the number of event types that a command for FDP Events
    /// (Base 2.1 section 5.1.25.1.21) names.
    fn events_of(
        &self,
        command: &FeatureCommand,
    ) -> Result<(Arc<Namespace>, u16, usize), NvmeStatus> {
        let namespace = self.subsystem.namespace(command.nsid.get());
        let namespace = namespace.ok_or(NvmeStatus::INVALID_NAMESPACE.do_not_retry())?;
        let handles = namespace.placement().ok_or(FDP_DISABLED)?.layout().handles();
        let [low, high, count, _] = command.value.get().to_le_bytes();
        let handle = u16::from_le_bytes([low, high]);
        if handle < handles { Ok((namespace, handle, count.into())) } else { Err(INVALID_FIELD) }
    }

    /// Get Features for FDP Events: the types that are supported, as many as the command asks for, and
    /// whether they are recorded.
    pub(super) fn placement_events(&self, command: &FeatureCommand) -> CommandResult {
        let (namespace, handle, count) = self.events_of(command)?;
        let placement = namespace.placement().ok_or(FDP_DISABLED)?;
        let support = |kind: &PlacementEventType| EventSupport {
            kind: event_type(*kind).0,
            attributes: placement.records(handle, *kind).into(),
        };
        let all = PlacementEventType::ALL;
        let data = all.iter().take(count).map(support).flat_map(|it| it.as_bytes().to_vec());
        let output = CommandOutput::result(all.len() as u64);
        Ok(CommandOutput {
            data: Some(data.collect()).filter(|data: &Vec<u8>| !data.is_empty()),
            ..output
        })
    }

    /// Set Features for FDP Events: types in the data are recorded or no longer.
    pub(super) fn set_placement_events(
        &self,
        command: &FeatureCommand,
        data: &[u8],
    ) -> CommandResult {
        let (namespace, handle, count) = self.events_of(command)?;
        let placement = namespace.placement().ok_or(FDP_DISABLED)?;
        let types = data.get(..count).ok_or(NvmeStatus::SGL_LENGTH.do_not_retry())?;
        let known = |&kind: &u8| {
            PlacementEventType::ALL.into_iter().find(|it| event_type(*it) == EventType(kind))
        };
        let types: Option<Vec<_>> = types.iter().map(known).collect();
        let on = command.value_12.get() & 1 != 0;
        types.ok_or(INVALID_FIELD)?.into_iter().for_each(|kind| placement.record(handle, kind, on));
        Ok(CommandOutput::EMPTY)
    }

    /// Directive Receive (Base 2.1 section 5.1.6): which directives a namespace has.
    pub(super) fn directive_receive(&self, command: &DirectiveCommand) -> CommandResult {
        let namespace = self.subsystem.namespace(command.nsid.get());
        let namespace = namespace.ok_or(NvmeStatus::INVALID_NAMESPACE.do_not_retry())?;
        let asks = (DirectiveType(command.kind), command.operation);
        let len = command.length();
        if asks != (DirectiveType::IDENTIFY, RETURN_PARAMETERS) || len > 4096 {
            return Err(INVALID_FIELD);
        }
        let placement =
            u8::from(namespace.placement().is_some()) << DirectiveType::DATA_PLACEMENT.0;
        let mut data = zeroes(4096)?;
        // Supported, enabled, and kept through resets: 32 bytes each.
        (data[0], data[32], data[64]) = (1 | placement, 1 | placement, placement);
        data.truncate(usize::try_from(len).expect("at most 4096"));
        Ok(CommandOutput::data(data))
    }

    /// The identifiers of endurance groups from `first` on (Base section 5.17.2.18).
    pub(super) fn endurance_groups(&self, first: u16) -> CommandResult {
        let has = |namespace: &Namespace| namespace.placement().is_some();
        let all = self.subsystem.namespaces_after(u32::from(first).saturating_sub(1), has);
        let is_first = |nsid: &u32| {
            let namespace = self.subsystem.namespace(*nsid);
            namespace.is_some_and(|it| self.subsystem.endurance_group(&it) == *nsid)
        };
        let mut data = zeroes(4096)?;
        let groups = all.into_iter().filter(is_first).filter_map(|nsid| u16::try_from(nsid).ok());
        let groups: Vec<u16> = groups.take(2047).collect();
        let count = u16::try_from(groups.len()).expect("at most 2047");
        for (entry, value) in data.chunks_exact_mut(2).zip(std::iter::once(count).chain(groups)) {
            entry.copy_from_slice(&value.to_le_bytes());
        }
        Ok(CommandOutput::data(data))
    }
}

/// The Endurance Group Information log page of a drive of `capacity` bytes.
fn endurance(capacity: u64, placement: &dyn DataPlacement) -> EnduranceGroupLog {
    let stats = placement.stats();
    let units = |bytes: u64| u128::from(bytes.div_ceil(1_000_000_000)).into();
    let mut log = EnduranceGroupLog::zeroed();
    (log.spare, log.spare_threshold) = (100, 10);
    log.units_written = units(stats.host.0);
    log.media_written = units(stats.media.0);
    log.capacity = u128::from(capacity).into();
    log
}

/// The configuration of a drive, some of whose namespaces have these layouts.
fn configurations<'a>(
    layout: &PlacementLayout,
    namespaces: impl Iterator<Item = &'a PlacementLayout> + Clone,
) -> Vec<u8> {
    let handles = layout.unit_handles.len() * UnitHandle::SIZE;
    // Descriptors are a multiple of eight bytes long.
    let size = (Configuration::SIZE + handles).next_multiple_of(8);
    let mut header = ConfigurationsHeader::zeroed();
    header.size = u32::try_from(ConfigurationsHeader::SIZE + size).expect("few handles").into();
    let mut config = Configuration::zeroed();
    config.size = u16::try_from(size).expect("few handles").into();
    let bits = u8::try_from(group_bits(layout)).expect("at most 16");
    config.attributes = VALID | WRITE_CACHE | bits;
    config.groups = u32::from(layout.groups).into();
    config.unit_handles = u16::try_from(layout.unit_handles.len()).expect("few handles").into();
    let ids = namespaces.clone().map(|layout| layout.ids.len()).max().unwrap_or(1);
    config.max_ids = u16::try_from(ids - 1).expect("at most 255").into();
    config.namespaces = u32::try_from(namespaces.count()).expect("there are few").into();
    config.unit_size = layout.unit.0.into();
    let mut page = header.as_bytes().to_vec();
    page.extend_from_slice(config.as_bytes());
    for isolation in &layout.unit_handles {
        let kind = match isolation {
            Isolation::Initial => 1,
            Isolation::Persistent => 2,
        };
        page.extend_from_slice(UnitHandle { kind, ..UnitHandle::zeroed() }.as_bytes());
    }
    page.resize(ConfigurationsHeader::SIZE + size, 0);
    page
}

/// Which reclaim unit handles of a drive namespaces with these layouts use.
fn usage<'a>(
    layout: &PlacementLayout,
    namespaces: impl Iterator<Item = &'a PlacementLayout> + Clone,
) -> Vec<u8> {
    let mut header = UsageHeader::zeroed();
    header.count = u16::try_from(layout.unit_handles.len()).expect("few handles").into();
    let mut page = header.as_bytes().to_vec();
    for handle in 0..layout.unit_handles.len() {
        let mut ids = namespaces.clone().flat_map(|layout| &layout.ids);
        let used = ids.any(|id| usize::from(id.unit_handle) == handle);
        let usage = UnitHandleUsage { attributes: used.into(), ..UnitHandleUsage::zeroed() };
        page.extend_from_slice(usage.as_bytes());
    }
    page
}

fn statistics(placement: &dyn DataPlacement) -> Statistics {
    let stats = placement.stats();
    let mut log = Statistics::zeroed();
    log.host = u128::from(stats.host.0).into();
    log.media = u128::from(stats.media.0).into();
    log.erased = u128::from(stats.erased.0).into();
    log
}

/// An event, without its time and namespace.
fn describe(namespace: &Namespace, layout: &PlacementLayout, event: &PlacementEvent) -> Event {
    let mut entry = Event::zeroed();
    entry.kind = event_type(event.kind).0;
    if let Some(named) = event.named {
        entry.flags |= ID_VALID;
        entry.id = named.into();
    }
    if let Some(id) = event.id {
        entry.flags |= ID_VALID | LOCATION_VALID;
        entry.id = encode(layout, id).into();
        entry.group = id.group.into();
        entry.unit_handle = u8::try_from(id.unit_handle).expect("few handles");
    }
    entry.moved = u16::try_from(namespace.to_blocks(event.moved)).unwrap_or(u16::MAX).into();
    entry
}
