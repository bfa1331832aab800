//! Asymmetric Namespace Access (ANA; Base section 8.1): whether the namespaces can be reached at a port.
//!
//! All namespaces of a subsystem are in one ANA group, whose state each port has for itself. A
//! controller is at the port that its host has connected to.
use crate::NvmeStatus;
use crate::wire::log::{AnaGroup, AnaHeader};
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use zerocopy::{FromBytes, IntoBytes};

/// The ANA group of all namespaces.
pub(crate) const GROUP: u32 = 1;
/// The longest that a port may be in [`AnaState::Change`], in seconds (ANATT).
pub(crate) const TRANSITION_TIME: u8 = 10;
/// ANACAP: all five states are reported, and the group of a namespace does not change (bit 6).
pub(crate) const CAPABILITIES: u8 = 0x1f | 1 << 6;

/// An ANA state (Base section 8.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnaState {
    /// The path to use.
    Optimized = 1,
    /// Works, but another path is better.
    NonOptimized = 2,
    /// I/O commands fail; another path may work.
    Inaccessible = 3,
    /// I/O commands fail, and always will.
    PersistentLoss = 4,
    /// Between two states: I/O commands fail, and soon will not or will with another status.
    Change = 0xf,
}

impl AnaState {
    /// All states, by the names that Linux gives them (`ana_state`).
    pub const ALL: [(&'static str, AnaState); 5] = [
        ("optimized", AnaState::Optimized),
        ("non-optimized", AnaState::NonOptimized),
        ("inaccessible", AnaState::Inaccessible),
        ("persistent-loss", AnaState::PersistentLoss),
        ("change", AnaState::Change),
    ];

    /// The state with this name.
    pub fn named(name: &str) -> Option<Self> {
        let known = AnaState::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, state)| *state)
    }

    /// The state with this number; `None` if it is reserved.
    pub fn numbered(number: u8) -> Option<Self> {
        let known = AnaState::ALL.iter().find(|(_, known)| *known as u8 == number);
        known.map(|(_, state)| *state)
    }

    /// Whether I/O commands reach their namespace.
    ///
    /// # Errors
    /// The status with which they fail. They may be retried on another path.
    pub fn check(self) -> Result<(), NvmeStatus> {
        match self {
            AnaState::Optimized | AnaState::NonOptimized => Ok(()),
            AnaState::Inaccessible => Err(NvmeStatus::ANA_INACCESSIBLE),
            AnaState::PersistentLoss => Err(NvmeStatus::ANA_PERSISTENT_LOSS),
            AnaState::Change => Err(NvmeStatus::ANA_TRANSITION),
        }
    }
}

impl fmt::Display for AnaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = AnaState::ALL.iter().find(|(_, state)| state == self);
        f.write_str(known.expect("ALL has all").0)
    }
}

/// A port of a subsystem: what hosts connect to.
#[derive(Debug)]
pub struct Port {
    /// An [`AnaState`], as the log page has it.
    state: AtomicU8,
    /// Counts changes of the state.
    changes: AtomicU64,
}

impl Default for Port {
    /// A port at which the namespaces are optimized.
    fn default() -> Self {
        Port { state: (AnaState::Optimized as u8).into(), changes: 0.into() }
    }
}

impl Port {
    /// The state of the namespaces at this port.
    pub fn state(&self) -> AnaState {
        AnaState::numbered(self.state.load(Ordering::Acquire)).expect("only states are stored")
    }

    /// Changes the state. Returns whether it was another.
    pub(crate) fn set(&self, state: AnaState) -> bool {
        let changed = self.state.swap(state as u8, Ordering::AcqRel) != state as u8;
        if changed {
            self.changes.fetch_add(1, Ordering::Release);
        }
        changed
    }

    /// The ANA log page (Base section 5.16.1.13) for a group of these namespaces.
    pub(crate) fn log(&self, nsids: &[u32]) -> Vec<u8> {
        let changes = self.changes.load(Ordering::Acquire);
        let mut header = AnaHeader::zeroed();
        (header.changes, header.groups) = (changes.into(), 1.into());
        let mut group = AnaGroup::zeroed();
        group.id = GROUP.into();
        group.nsids = u32::try_from(nsids.len()).expect("at most 1024").into();
        (group.changes, group.state) = (changes.into(), self.state() as u8);
        let nsids = nsids.iter().flat_map(|nsid| nsid.to_le_bytes());
        header.as_bytes().iter().chain(group.as_bytes()).copied().chain(nsids).collect()
    }
}

/// The state of a namespace's group in an ANA log page; `None` if the page does not have it, or is cut
/// off before.
pub fn state_in_log(log: &[u8], nsid: u32) -> Option<AnaState> {
    let (header, mut rest) = AnaHeader::read_from_prefix(log).ok()?;
    for _ in 0..header.groups.get() {
        let (group, nsids) = AnaGroup::read_from_prefix(rest).ok()?;
        let len = usize::try_from(group.nsids.get()).ok()?.checked_mul(4)?;
        let (own, others) = nsids.split_at_checked(len)?;
        if own.chunks_exact(4).any(|own| own == nsid.to_le_bytes()) {
            return AnaState::numbered(group.state & 0xf);
        }
        rest = others;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_found_by_the_names_that_they_print() {
        for (name, state) in AnaState::ALL {
            assert_eq!((state.to_string().as_str(), AnaState::named(name)), (name, Some(state)));
        }
        assert_eq!(AnaState::named("lost"), None);
    }

    #[test]
    fn changes_are_counted() {
        let port = Port::default();
        assert!(!port.set(AnaState::Optimized));
        assert!(port.set(AnaState::Change) && port.set(AnaState::Inaccessible));
        let log = port.log(&[1, 7]);
        assert_eq!(log[..16], [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(log[16..33], [1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(log[48..], [1, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(state_in_log(&log, 7), Some(AnaState::Inaccessible));
    }

    #[test]
    fn log_of_a_target_may_be_anything() {
        let group = |state: u8, nsids: &[u32]| {
            Port { state: state.into(), changes: 0.into() }.log(nsids).split_off(16)
        };
        let mut log = Port::default().log(&[1]);
        log[8] = 3;
        log.extend(group(2, &[]));
        log.extend(group(3, &[5, 6]));
        assert_eq!(state_in_log(&log, 6), Some(AnaState::Inaccessible));
        assert_eq!(state_in_log(&log, 2), None);
        for len in 0..log.len() {
            assert_eq!(state_in_log(&log[..len], 6), None, "cut off after {len} bytes");
        }
        log[16 + 4..16 + 8].fill(0xff);
        assert_eq!(state_in_log(&log, 6), None, "more namespaces than there are bytes");
    }
}
