//! Get Features and Set Features.
use super::admin::Controller;
use super::response::{CommandOutput, CommandResult, INVALID_FIELD};
use super::{MAX_IO_QUEUES, logs};
use crate::NvmeStatus;
use crate::wire::admin::{FeatureCommand, Timestamp};
use crate::wire::opcode::FeatureId;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::Nanos;

/// The length of the data of Host Behavior Support (Base section 5.27.1.18).
const HOST_BEHAVIOR: usize = 512;

/// The features of a controller.
#[derive(Debug)]
pub(super) struct Features {
    /// Asynchronous Event Configuration.
    pub events: u32,
    /// Keep Alive Timer in milliseconds; 0 for none.
    kato: u32,
    last_alive: Nanos,
    /// Milliseconds since 1970 as set by the host, and when it did.
    timestamp: Option<(u64, Nanos)>,
    created: Nanos,
    host_behavior: Vec<u8>,
}

impl Features {
    pub fn new(now: Nanos, kato: u32) -> Self {
        Features {
            events: 0,
            kato,
            last_alive: now,
            timestamp: None,
            created: now,
            host_behavior: vec![0; HOST_BEHAVIOR],
        }
    }

    /// Restarts the keep alive timer.
    pub fn alive(&mut self, now: Nanos) {
        self.last_alive = now;
    }

    /// When the keep alive timer expires.
    pub fn expires(&self) -> Option<Nanos> {
        let timeout = u64::from(self.kato) * 1_000_000;
        (timeout > 0).then(|| Nanos(self.last_alive.0.saturating_add(timeout)))
    }

    fn timestamp(&self, now: Nanos) -> Timestamp {
        let passed = |since: Nanos| now.0.saturating_sub(since.0) / 1_000_000;
        // Origin in bits 3:1: 1 if the host has set it, else it counts from the start.
        let (milliseconds, attributes) = match self.timestamp {
            Some((set, when)) => (set.wrapping_add(passed(when)), 1 << 1),
            None => (passed(self.created), 0),
        };
        let [a, b, c, d, e, f, ..] = milliseconds.to_le_bytes();
        Timestamp { milliseconds: [a, b, c, d, e, f], attributes, ..Timestamp::zeroed() }
    }
}

impl Controller {
    pub(super) fn set_feature(
        &mut self,
        now: Nanos,
        command: &FeatureCommand,
        data: &[u8],
    ) -> CommandResult {
        if command.save & 1 << 7 != 0 {
            return Err(NvmeStatus::NOT_SAVEABLE.do_not_retry());
        }
        let value = command.value.get();
        match FeatureId(command.fid) {
            FeatureId::NUMBER_OF_QUEUES => return self.set_queues(value),
            FeatureId::ASYNC_EVENT => {
                let discovery = self.subsystem.is_discovery();
                if value & !logs::events(discovery) & !HEALTH_EVENTS != 0 {
                    return Err(INVALID_FIELD);
                }
                self.features.events = value;
            }
            FeatureId::KEEP_ALIVE_TIMER => {
                self.features.kato = value;
                self.features.alive(now);
            }
            FeatureId::TIMESTAMP => {
                let Ok((timestamp, _)) = Timestamp::read_from_prefix(data) else {
                    return Err(NvmeStatus::SGL_LENGTH.do_not_retry());
                };
                let [a, b, c, d, e, f] = timestamp.milliseconds;
                let milliseconds = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
                self.features.timestamp = Some((milliseconds, now));
            }
            FeatureId::HOST_BEHAVIOR => {
                let data = data.get(..HOST_BEHAVIOR);
                let data = data.ok_or(NvmeStatus::SGL_LENGTH.do_not_retry())?;
                self.features.host_behavior.copy_from_slice(data);
            }
            FeatureId::VOLATILE_WRITE_CACHE => {
                return Err(NvmeStatus::NOT_CHANGEABLE.do_not_retry());
            }
            _ => return Err(INVALID_FIELD),
        }
        Ok(CommandOutput::EMPTY)
    }

    /// Number of Queues: completion queues in bits 31:16, submission queues in 15:0, minus one.
    fn set_queues(&mut self, value: u32) -> CommandResult {
        let (completion, submission) = (value >> 16, value & 0xffff);
        if completion == 0xffff || submission == 0xffff {
            return Err(INVALID_FIELD);
        }
        if self.association.has_queues() {
            return Err(NvmeStatus::SEQUENCE.do_not_retry());
        }
        let granted = completion.min(submission).min(u32::from(MAX_IO_QUEUES) - 1);
        self.association.grant(u16::try_from(granted + 1).expect("at most 128"));
        Ok(CommandOutput::result(self.queues()))
    }

    fn queues(&self) -> u64 {
        let number = u64::from(self.association.granted()) - 1;
        number << 16 | number
    }

    pub(super) fn get_feature(&mut self, now: Nanos, command: &FeatureCommand) -> CommandResult {
        /// Supported capabilities (Base section 5.15, SEL): changeable, for the controller.
        const CHANGEABLE: u64 = 1 << 2;
        let fid = FeatureId(command.fid);
        let known = FeatureId::NAMED.iter().any(|(known, _)| *known == fid);
        match command.select & 0b111 {
            0 if known => {}
            3 if known => {
                let fixed = fid == FeatureId::VOLATILE_WRITE_CACHE;
                return Ok(CommandOutput::result(if fixed { 0 } else { CHANGEABLE }));
            }
            _ => return Err(INVALID_FIELD),
        }
        Ok(match fid {
            FeatureId::NUMBER_OF_QUEUES => CommandOutput::result(self.queues()),
            FeatureId::ASYNC_EVENT => CommandOutput::result(self.features.events.into()),
            FeatureId::KEEP_ALIVE_TIMER => CommandOutput::result(self.features.kato.into()),
            FeatureId::TIMESTAMP => {
                CommandOutput::data(self.features.timestamp(now).as_bytes().to_vec())
            }
            FeatureId::HOST_BEHAVIOR => CommandOutput::data(self.features.host_behavior.clone()),
            // Writes may stay in a cache until a flush.
            _ => CommandOutput::result(1),
        })
    }
}

/// SMART / Health critical warnings, in bits 7:0 of the Asynchronous Event Configuration. They may be
/// enabled and never occur.
const HEALTH_EVENTS: u32 = 0xff;
