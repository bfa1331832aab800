//! The values of the features of a controller.
use super::{KAS, TEMPERATURE, WARNING_TEMPERATURE};
use crate::wire::admin::Timestamp;
use std::collections::BTreeMap;
use zonal_blk::Nanos;

/// The length of the data of Host Behavior Support (Base section 5.27.1.18).
pub(super) const HOST_BEHAVIOR: usize = 512;

/// The features of a controller.
#[derive(Debug)]
pub(super) struct Features {
    /// Asynchronous Event Configuration.
    pub events: u32,
    /// Keep Alive Timer in milliseconds; 0 for none.
    pub kato: u32,
    last_alive: Nanos,
    /// Milliseconds since 1970 as set by the host, and when it did.
    pub timestamp: Option<(u64, Nanos)>,
    created: Nanos,
    pub host_behavior: Vec<u8>,
    pub arbitration: u32,
    pub power_management: u32,
    /// The temperatures in kelvins from which on, and up to which, there is a warning.
    pub temperature_thresholds: [u16; 2],
    /// By namespace.
    pub error_recovery: BTreeMap<u32, u32>,
    pub write_atomicity: u32,
    pub interrupt_coalescing: u32,
    /// Configurations that the host has set, by vector.
    pub interrupt_vectors: BTreeMap<u16, u32>,
}

/// A keep alive timeout in milliseconds, rounded up to the granularity KAS (Base section 5.27.1.12).
pub(super) fn round_kato(kato: u32) -> u32 {
    let unit = u32::from(KAS) * 100;
    kato.div_ceil(unit).saturating_mul(unit)
}

impl Features {
    pub fn new(now: Nanos, kato: u32) -> Self {
        Features {
            events: 0,
            kato: round_kato(kato),
            last_alive: now,
            timestamp: None,
            created: now,
            host_behavior: vec![0; HOST_BEHAVIOR],
            arbitration: 0,
            power_management: 0,
            temperature_thresholds: [WARNING_TEMPERATURE, 0],
            error_recovery: BTreeMap::new(),
            write_atomicity: 0,
            interrupt_coalescing: 0,
            interrupt_vectors: BTreeMap::new(),
        }
    }

    /// Whether the temperature is beyond a threshold, which is a critical warning.
    pub fn warns_of_temperature(&self) -> bool {
        let [over, under] = self.temperature_thresholds;
        TEMPERATURE >= over || TEMPERATURE <= under
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

    pub fn timestamp(&self, now: Nanos) -> Timestamp {
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
