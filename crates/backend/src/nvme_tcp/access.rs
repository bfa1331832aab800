//! The access to a namespace over a path, as the controller's ANA log page has it (Base section 8.1).
use std::sync::atomic::{AtomicU8, Ordering};
use zonal_device::multipath::PathState;
use zonal_nvme::ana::AnaState;

/// The controller does not report ANA states.
const NOT_REPORTED: u8 = 0xff;
/// A command was refused with an ANA status since the log was read: what it said no longer holds.
const DOUBTED: u8 = 0;

/// The access over a path, for the threads that use it.
pub(super) struct Access(AtomicU8);

impl Default for Access {
    fn default() -> Self {
        Access(NOT_REPORTED.into())
    }
}

impl Access {
    /// Sets the state that the log contains; `None` if there is no log.
    pub fn set(&self, state: Option<AnaState>) {
        self.0.store(state.map_or(NOT_REPORTED, |state| state as u8), Ordering::Release);
    }

    /// A command was refused with an ANA status. Returns whether the log has to be read again.
    pub fn doubt(&self) -> bool {
        let accessible = |now: u8| AnaState::numbered(now).is_some_and(|now| now.check().is_ok());
        let doubted = |now| accessible(now).then_some(DOUBTED);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, doubted).is_ok()
    }

    pub fn is_doubted(&self) -> bool {
        self.0.load(Ordering::Acquire) == DOUBTED
    }

    /// The state of the path while its transport is connected.
    pub fn state(&self) -> PathState {
        let access = self.0.load(Ordering::Acquire);
        match AnaState::numbered(access) {
            None if access == DOUBTED => PathState::Inaccessible,
            None | Some(AnaState::Optimized) => PathState::Live,
            Some(AnaState::NonOptimized) => PathState::NonOptimized,
            Some(AnaState::Inaccessible | AnaState::Change) => PathState::Inaccessible,
            Some(AnaState::PersistentLoss) => PathState::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_follow_the_log_until_a_command_is_refused() {
        let access = Access::default();
        assert_eq!(access.state(), PathState::Live);
        assert!(!access.doubt(), "there is no log to read");
        for (ana, state, is_read_again) in [
            (AnaState::Optimized, PathState::Live, true),
            (AnaState::NonOptimized, PathState::NonOptimized, true),
            (AnaState::Inaccessible, PathState::Inaccessible, false),
            (AnaState::Change, PathState::Inaccessible, false),
            (AnaState::PersistentLoss, PathState::Gone, false),
        ] {
            access.set(Some(ana));
            assert_eq!((access.state(), access.is_doubted()), (state, false), "{ana}");
            assert_eq!((access.doubt(), access.is_doubted()), (is_read_again, is_read_again));
            assert!(!access.state().is_usable(), "{ana}");
            assert!(!access.doubt(), "{ana}: once");
        }
        access.set(None);
        assert_eq!(access.state(), PathState::Live);
    }
}
