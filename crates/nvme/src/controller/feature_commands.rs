//! Get Features and Set Features.
use super::MAX_IO_QUEUES;
use super::admin::Controller;
use super::features::{HOST_BEHAVIOR, round_kato};
use super::response::{CommandOutput, CommandResult, INVALID_FIELD};
use crate::NvmeStatus;
use crate::wire::admin::{FeatureCommand, Timestamp, notice};
use crate::wire::opcode::FeatureId;
use crate::wire::queue::NSID_ALL;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::Nanos;

/// The vector of Interrupt Vector Configuration: one for each I/O queue, after that of the admin queue.
fn vector(value: u32) -> Result<u16, NvmeStatus> {
    let [low, high, ..] = value.to_le_bytes();
    let vector = u16::from_le_bytes([low, high]);
    if vector <= MAX_IO_QUEUES { Ok(vector) } else { Err(INVALID_FIELD) }
}

/// Which of the temperature thresholds dword 11 selects (Base section 5.27.1.3): TMPSEL in bits 19:16,
/// 0 for the composite temperature, the only one; THSEL in bits 21:20, 0 for over, 1 for under.
fn threshold(value: u32) -> Result<usize, NvmeStatus> {
    match value >> 16 {
        0x00 => Ok(0),
        0x10 => Ok(1),
        _ => Err(INVALID_FIELD),
    }
}

/// Fails for a value that has other bits than those of `mask`.
fn check_bits(value: u32, mask: u32) -> Result<u32, NvmeStatus> {
    if value & !mask == 0 { Ok(value) } else { Err(INVALID_FIELD) }
}

impl Controller {
    pub(super) fn set_feature(
        &mut self,
        now: Nanos,
        command: &FeatureCommand,
        data: &[u8],
    ) -> CommandResult {
        let (fid, nsid) = (FeatureId(command.fid), command.nsid.get());
        // That of an endurance group is saved with it, so hosts say so.
        if command.save & 1 << 7 != 0 && fid != FeatureId::DATA_PLACEMENT {
            return Err(NvmeStatus::NOT_SAVEABLE.do_not_retry());
        }
        let of_namespace =
            matches!(fid, FeatureId::ERROR_RECOVERY | FeatureId::DATA_PLACEMENT_EVENTS);
        if !of_namespace && self.subsystem.namespace(nsid).is_some() {
            return Err(NvmeStatus::NOT_NAMESPACE_SPECIFIC.do_not_retry());
        }
        let value = command.value.get();
        if !self.has_feature(fid) {
            return Err(INVALID_FIELD);
        }
        match fid {
            FeatureId::DATA_PLACEMENT => return self.set_placement_feature(command),
            FeatureId::DATA_PLACEMENT_EVENTS => return self.set_placement_events(command, data),
            // Weights in bits 31:8, which nothing uses, and the burst in bits 2:0.
            FeatureId::ARBITRATION => self.features.arbitration = check_bits(value, !0xf8)?,
            // The workload hint in bits 7:5; bits 4:0 are the power state, of which there is one.
            FeatureId::POWER_MANAGEMENT => {
                self.features.power_management = check_bits(value, 0b111 << 5)?;
            }
            FeatureId::TEMPERATURE_THRESHOLD => self.set_temperature_threshold(value)?,
            FeatureId::ERROR_RECOVERY => self.set_error_recovery(nsid, value)?,
            FeatureId::WRITE_ATOMICITY => self.features.write_atomicity = check_bits(value, 1)?,
            FeatureId::NUMBER_OF_QUEUES => return self.set_queues(value),
            // A threshold and a time, both at most: interrupts may come sooner.
            FeatureId::INTERRUPT_COALESCING => {
                self.features.interrupt_coalescing = check_bits(value, 0xffff)?;
            }
            // CD in bit 16: the vector's interrupts are not coalesced.
            FeatureId::INTERRUPT_VECTOR => {
                let value = check_bits(value, 0x1_ffff)?;
                self.features.interrupt_vectors.insert(vector(value)?, value);
            }
            FeatureId::ASYNC_EVENT => {
                self.features.events = check_bits(value, self.known_events() | notice::HEALTH)?;
            }
            FeatureId::KEEP_ALIVE_TIMER => {
                self.features.kato = round_kato(value);
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

    fn set_temperature_threshold(&mut self, value: u32) -> Result<(), NvmeStatus> {
        /// TMPSEL: all temperatures, in Set Features only.
        const ALL: u32 = 0xf << 16;
        let selected = if value & ALL == ALL { value & !ALL } else { value };
        let [low, high, ..] = value.to_le_bytes();
        self.features.temperature_thresholds[threshold(selected)?] =
            u16::from_le_bytes([low, high]);
        if self.features.warns_of_temperature() {
            self.association.raise(|events| events.temperature_warning());
        }
        Ok(())
    }

    /// Error Recovery: TLER in bits 15:0, which nothing uses. DULBE in bit 16 is refused, since reads
    /// of deallocated blocks do not fail (NSFEAT bit 2).
    fn set_error_recovery(&mut self, nsid: u32, value: u32) -> Result<(), NvmeStatus> {
        let value = check_bits(value, 0xffff)?;
        let all = nsid == NSID_ALL;
        if !all && self.subsystem.namespace(nsid).is_none() {
            return Err(NvmeStatus::INVALID_NAMESPACE.do_not_retry());
        }
        let nsids = if all { self.subsystem.namespaces_after(0, |_| true) } else { vec![nsid] };
        self.features.error_recovery.extend(nsids.into_iter().map(|nsid| (nsid, value)));
        Ok(())
    }

    fn error_recovery(&self, nsid: u32) -> Result<u32, NvmeStatus> {
        if self.subsystem.namespace(nsid).is_none() {
            return Err(NvmeStatus::INVALID_NAMESPACE.do_not_retry());
        }
        Ok(self.features.error_recovery.get(&nsid).copied().unwrap_or(0))
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

    fn has_feature(&self, fid: FeatureId) -> bool {
        let of_placement =
            matches!(fid, FeatureId::DATA_PLACEMENT | FeatureId::DATA_PLACEMENT_EVENTS);
        self.transport.has_feature(fid) && (!of_placement || self.subsystem.has_placement())
    }

    pub(super) fn get_feature(&mut self, now: Nanos, command: &FeatureCommand) -> CommandResult {
        /// Supported capabilities (Base section 5.15, SEL): changeable.
        const CHANGEABLE: u64 = 1 << 2;
        /// For a namespace, not for the controller.
        const NAMESPACE_SPECIFIC: u64 = 1 << 1;
        let fid = FeatureId(command.fid);
        let known =
            FeatureId::NAMED.iter().any(|(known, _)| *known == fid) && self.has_feature(fid);
        match command.select & 0b111 {
            0 if known => {}
            3 if known => {
                return Ok(CommandOutput::result(match fid {
                    FeatureId::VOLATILE_WRITE_CACHE => 0,
                    FeatureId::ERROR_RECOVERY | FeatureId::DATA_PLACEMENT_EVENTS => {
                        CHANGEABLE | NAMESPACE_SPECIFIC
                    }
                    _ => CHANGEABLE,
                }));
            }
            _ => return Err(INVALID_FIELD),
        }
        let features = &self.features;
        let value = match fid {
            FeatureId::TIMESTAMP => {
                return Ok(CommandOutput::data(features.timestamp(now).as_bytes().to_vec()));
            }
            FeatureId::HOST_BEHAVIOR => {
                return Ok(CommandOutput::data(features.host_behavior.clone()));
            }
            FeatureId::DATA_PLACEMENT => return self.placement_feature(command),
            FeatureId::DATA_PLACEMENT_EVENTS => return self.placement_events(command),
            FeatureId::NUMBER_OF_QUEUES => return Ok(CommandOutput::result(self.queues())),
            FeatureId::ARBITRATION => features.arbitration,
            FeatureId::POWER_MANAGEMENT => features.power_management,
            FeatureId::TEMPERATURE_THRESHOLD => {
                features.temperature_thresholds[threshold(command.value.get())?].into()
            }
            FeatureId::ERROR_RECOVERY => self.error_recovery(command.nsid.get())?,
            FeatureId::WRITE_ATOMICITY => features.write_atomicity,
            FeatureId::INTERRUPT_COALESCING => features.interrupt_coalescing,
            FeatureId::INTERRUPT_VECTOR => {
                let vector = vector(command.value.get() & 0xffff)?;
                features.interrupt_vectors.get(&vector).copied().unwrap_or(vector.into())
            }
            FeatureId::ASYNC_EVENT => features.events,
            FeatureId::KEEP_ALIVE_TIMER => features.kato,
            // Volatile Write Cache: writes may stay in a cache until a flush.
            _ => 1,
        };
        Ok(CommandOutput::result(value.into()))
    }
}
