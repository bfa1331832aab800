//! A controller: its admin queue, which keeps it alive and follows the ANA state of the namespace.
//!
//! ```text
//!   Asynchronous Event Request: an ANA change ----------------+
//!   a command was refused with an ANA status -----------------+--> ANA log page
//!   Keep Alive, without events or while it is inaccessible ---+
//! ```
use super::address::Address;
use super::admin::{enable, find, identify, shut_down};
use super::error::ConnectError;
use super::queue_connection::{ConnectParams, QueueConnection};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use zonal_nvme::ana::{self, AnaState};
use zonal_nvme::tcp::HostEvent;
use zonal_nvme::wire::admin::{FeatureCommand, LogCommand, event, notice};
use zonal_nvme::wire::fabrics::CNTLID_ANY;
use zonal_nvme::wire::identify::IdentifyController;
use zonal_nvme::wire::opcode::{AdminOpcode, Cns, Csi, FeatureId, LogId};
use zonal_nvme::wire::queue::PSDT_SGL;
use zonal_nvme::wire::{Cqe, Sqe};

/// Keep alive timeout in milliseconds.
const KATO: u32 = 10_000;
/// Keep Alive is sent twice in that time, and may take as long as lies between two.
const PERIOD: Duration = Duration::from_millis(KATO as u64 / 2);
/// Entries of the admin queue, minus one.
const ADMIN_SQSIZE: u16 = 31;
/// The command identifier of the Asynchronous Event Request; other admin commands have 0.
const EVENT_CID: u16 = 1;
/// CMIC: the controller reports ANA states.
const ANA_REPORTING: u8 = 1 << 3;
/// The longest ANA log page that is read: all groups and namespaces of most targets. A namespace after
/// it is taken to be accessible.
const MAX_LOG: u32 = 64 << 10;

/// A controller that is enabled.
pub(super) struct Controller {
    pub admin: QueueConnection,
    pub cntlid: u16,
    /// CAP.
    pub cap: u64,
    pub identify: Box<IdentifyController>,
    pub nsid: u32,
    ana: Option<Ana>,
    /// When the next Keep Alive is due.
    due: Instant,
}

/// The ANA state of the namespace, as far as it is known.
struct Ana {
    state: AnaState,
    /// Bytes of the log page.
    log_len: u32,
    /// How long a change may take (ANATT).
    transition_time: Duration,
    /// Since when there is one.
    changing_since: Option<Instant>,
    /// The controller reports changes.
    has_events: bool,
}

impl Controller {
    /// Connects to a controller and finds the namespace.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect(address: &Address) -> Result<Self, ConnectError> {
        let id = ConnectParams { cntlid: CNTLID_ANY, qid: 0, sqsize: ADMIN_SQSIZE, kato: KATO };
        let (mut admin, result) = QueueConnection::connect(address, &id)?;
        let cntlid = u16::try_from(result & 0xffff).expect("16 bits");
        let cap = enable(&mut admin)?;
        let id: IdentifyController = identify(&mut admin, Cns::CONTROLLER, 0, Csi::NVM)?;
        let nsid = find(&mut admin, address)?;
        let due = Instant::now() + PERIOD;
        let identify = Box::new(id);
        let mut controller = Controller { admin, cntlid, cap, identify, nsid, ana: None, due };
        if controller.identify.cmic & ANA_REPORTING != 0 {
            controller.follow_ana()?;
        }
        Ok(controller)
    }

    /// Reads the ANA state, and requests events of its changes.
    fn follow_ana(&mut self) -> Result<(), ConnectError> {
        let id = &self.identify;
        let groups = id.nanagrpid.get().saturating_mul(32);
        let nsids = id.mnan.get().max(1).saturating_mul(4);
        self.ana = Some(Ana {
            state: AnaState::Optimized,
            log_len: groups.saturating_add(nsids).saturating_add(16).min(MAX_LOG),
            transition_time: Duration::from_secs(id.anatt.max(1).into()),
            changing_since: None,
            has_events: false,
        });
        if id.oaes.get() & notice::ANA_CHANGE != 0 {
            let has_events = self.enable_events()?;
            self.ana.iter_mut().for_each(|ana| ana.has_events = has_events);
        }
        match self.read_ana() {
            // The log is longer than the target's MDTS: commands that are refused tell.
            Err(ConnectError::Refused { .. }) => self.ana = None,
            read => read?,
        }
        Ok(())
    }

    /// Enables events of ANA changes and requests the first; `false` if the controller refuses.
    fn enable_events(&mut self) -> Result<bool, ConnectError> {
        let mut command = FeatureCommand::zeroed();
        (command.opcode, command.flags) = (AdminOpcode::SET_FEATURES.0, PSDT_SGL);
        command.fid = FeatureId::ASYNC_EVENT.0;
        command.value = notice::ANA_CHANGE.into();
        match self.execute("Set Features, events", command.into(), 0) {
            Ok(_) => self.request_event().map(|()| true),
            Err(ConnectError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn request_event(&mut self) -> Result<(), ConnectError> {
        let doing = "Asynchronous Event Request";
        let sqe = Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, EVENT_CID, 0);
        let submitted = self.admin.tcp.submit(sqe, None);
        submitted.map_err(|refused| ConnectError::Submit { doing, source: refused.error })?;
        self.receive(doing)
    }

    fn receive(&mut self, doing: &'static str) -> Result<(), ConnectError> {
        let received = self.admin.send_and_receive();
        received.map_err(|source| ConnectError::Io { doing, source })?;
        match self.admin.tcp.close_reason().cloned() {
            Some(source) => Err(ConnectError::Protocol { doing, source }),
            None => Ok(()),
        }
    }

    /// Executes a command that has no data to send, within the time until Keep Alive is due again.
    fn execute(
        &mut self,
        doing: &'static str,
        sqe: Sqe,
        read_len: u32,
    ) -> Result<(Cqe, Vec<u8>), ConnectError> {
        self.admin.execute_within(PERIOD, doing, sqe, Vec::new(), read_len)
    }

    /// Reads the ANA log page (Base section 5.16.1.13), if there is one.
    fn read_ana(&mut self) -> Result<(), ConnectError> {
        let Some(len) = self.ana.as_ref().map(|ana| ana.log_len) else { return Ok(()) };
        let mut command = LogCommand::zeroed();
        (command.opcode, command.flags) = (AdminOpcode::GET_LOG_PAGE.0, PSDT_SGL);
        command.lid = LogId::ANA.0;
        command.numdl = u16::try_from(len / 4 - 1).expect("at most 64 KiB").into();
        let (_, log) = self.execute("Get Log Page", command.into(), len)?;
        let state = ana::state_in_log(&log, self.nsid).unwrap_or(AnaState::Optimized);
        if let Some(ana) = &mut self.ana {
            ana.state = state;
            let is_changing = state == AnaState::Change;
            ana.changing_since =
                is_changing.then(|| ana.changing_since.unwrap_or_else(Instant::now));
        }
        Ok(())
    }

    /// The ANA state of the namespace when it was last read; `None` if the controller reports none.
    pub fn ana_state(&self) -> Option<AnaState> {
        self.ana.as_ref().map(|ana| ana.state)
    }

    /// Whether I/O commands reach the namespace.
    ///
    /// # Errors
    /// The status with which they fail.
    pub fn check_access(&self) -> Result<(), ConnectError> {
        let access = self.ana_state().map_or(Ok(()), AnaState::check);
        access.map_err(|status| ConnectError::Refused { doing: "ANA state", status })
    }

    /// Does what is due: Keep Alive, and reading the ANA log if its state may have changed, or if
    /// `doubted`.
    ///
    /// # Errors
    /// The controller is lost, or a change of its ANA state takes too long.
    pub fn process(&mut self, doubted: bool) -> Result<(), ConnectError> {
        let mut changed = self.has_ana_event()? || doubted;
        if Instant::now() >= self.due {
            self.execute("Keep Alive", Sqe::new(AdminOpcode::KEEP_ALIVE.0, 0, 0), 0)?;
            self.due = Instant::now() + PERIOD;
            changed |=
                self.ana.as_ref().is_some_and(|ana| !ana.has_events || ana.state.check().is_err());
        }
        if changed {
            self.read_ana()?;
        }
        match self.change_deadline() {
            Some(deadline) if Instant::now() >= deadline => {
                // The state may have changed just now.
                self.read_ana()?;
                self.change_deadline().map_or(Ok(()), |_| Err(ConnectError::AnaTransition))
            }
            _ => Ok(()),
        }
    }

    /// Whether the ANA state has changed, by the events that have arrived.
    fn has_ana_event(&mut self) -> Result<bool, ConnectError> {
        self.receive("asynchronous events")?;
        let mut changed = false;
        for received in std::mem::take(&mut self.admin.events) {
            let HostEvent::Completed { cqe, .. } = received else { continue };
            if cqe.status().is_success() {
                changed |= cqe.dw0.get() & 0x00ff_ffff == event::ANA_CHANGE;
                self.request_event()?;
            } else if let Some(ana) = &mut self.ana {
                ana.has_events = false;
            }
        }
        Ok(changed)
    }

    /// When a change of the ANA state takes too long (ANATT).
    fn change_deadline(&self) -> Option<Instant> {
        let ana = self.ana.as_ref()?;
        Some(ana.changing_since? + ana.transition_time)
    }

    /// Waits until something may be due, or `wake` can be read. Not if an event has arrived while a command
    /// was executed.
    pub fn wait(&self, wake: BorrowedFd<'_>) {
        if !self.admin.events.is_empty() {
            return;
        }
        self.admin.wait(wake, self.time_left());
    }

    /// The time until something is due.
    pub fn time_left(&self) -> Duration {
        let next = self.change_deadline().map_or(self.due, |deadline| deadline.min(self.due));
        next.saturating_duration_since(Instant::now())
    }

    /// Shuts the controller down.
    pub fn shut_down(&mut self) {
        // The target may be gone.
        let _ = shut_down(&mut self.admin);
    }
}

#[cfg(test)]
mod tests;
