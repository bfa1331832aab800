//! A controller: its properties and its admin queue.
//!
//! All commands but Asynchronous Event Requests complete immediately; a shutdown goes on after the command
//! that began it, until CSTS says that it is complete. A controller that is not enabled
//! executes Fabrics commands only (Base section 3.5.1).
use super::association::Association;
use super::data_pointer::DataPointer;
use super::features::Features;
use super::queue_auth::QueueAuth;
use super::response::{CommandOutput, CommandResult, INVALID_FIELD, Response, SqHead};
use super::shutdown::Shutdown;
use super::subsystem::Subsystem;
use super::{MAX_EVENT_REQUESTS, MAX_IO_QUEUES, MAX_MARK, MAX_QUEUE, Transport, VERSION};
use crate::NvmeStatus;
use crate::auth::AuthState;
use crate::wire::Sqe;
use crate::wire::fabrics::{CSTS_FATAL, CSTS_READY, Cc, Property, PropertyCommand, capabilities};
use crate::wire::opcode::{AdminOpcode, FABRICS, FabricsType};
use std::sync::Arc;
use zonal_blk::{Channel, Nanos, WakeUp};

/// A controller and its admin queue. Dropping it ends the association. It must not be dropped before it
/// [is idle](Controller::is_idle).
pub struct Controller {
    pub(super) subsystem: Arc<Subsystem>,
    pub(super) association: Arc<Association>,
    pub(super) features: Features,
    pub(super) transport: Transport,
    queue_auth: QueueAuth,
    cc: Cc,
    /// CSTS but for the shutdown.
    status: u32,
    shutdown: Shutdown,
    head: SqHead,
    /// CIDs of the outstanding Asynchronous Event Requests.
    event_requests: Vec<u16>,
    /// Aborted ones, which complete after the Abort command.
    aborted: Vec<u16>,
}

impl Controller {
    pub(super) fn new(
        now: Nanos,
        subsystem: Arc<Subsystem>,
        association: Arc<Association>,
        queue_auth: QueueAuth,
        head: SqHead,
        kato: u32,
    ) -> Self {
        Controller {
            subsystem,
            association,
            features: Features::new(now, kato),
            transport: Transport::Fabrics,
            queue_auth,
            cc: Cc::default(),
            status: 0,
            shutdown: Shutdown::default(),
            head,
            event_requests: Vec::new(),
            aborted: Vec::new(),
        }
    }

    /// The controller's identifier.
    pub fn cntlid(&self) -> u16 {
        self.association.cntlid
    }

    /// Whether the host has authenticated, where it must.
    pub fn auth_state(&self) -> AuthState {
        self.queue_auth.auth_state()
    }

    /// Grants the host at most `queues` I/O queues, and at least 1.
    pub fn limit_queues(&self, queues: u16) {
        self.association.limit_queues(queues.max(1));
    }

    /// Sets what to wake when an event for the host comes up: [`Controller::poll`] then has to be
    /// called.
    pub fn set_waker(&self, waker: Arc<dyn WakeUp>) {
        self.association.set_waker(waker);
    }

    /// Executes a command with the data that the host sends with it.
    pub fn submit(&mut self, now: Nanos, sqe: &Sqe, data: &[u8], responses: &mut Vec<Response>) {
        self.execute(now, sqe, DataPointer::Fabrics(&sqe.dptr), data, responses);
    }

    /// As [`Controller::submit`], with the command's data pointer as the transport understands it.
    pub(super) fn execute(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        pointer: DataPointer<'_>,
        data: &[u8],
        responses: &mut Vec<Response>,
    ) {
        self.head.advance();
        let outcome = match self.outcome(now, sqe, pointer, data) {
            Some(outcome) => outcome,
            None => return self.poll(now, responses),
        };
        let outcome = outcome.map_err(|status| self.association.log_error(0, sqe, status));
        responses.push(self.head.response(sqe, pointer.len(), outcome));
        self.poll(now, responses);
    }

    /// Completes a command with an error instead of executing it: its data were not received as they
    /// should.
    pub fn refuse(&mut self, sqe: &Sqe, status: NvmeStatus, responses: &mut Vec<Response>) {
        self.head.advance();
        let status = self.association.log_error(0, sqe, status);
        responses.push(self.head.response(sqe, 0, Err(status)));
    }

    /// The result of a command; `None` for one that completes later.
    fn outcome(
        &mut self,
        now: Nanos,
        sqe: &Sqe,
        pointer: DataPointer<'_>,
        data: &[u8],
    ) -> Option<CommandResult> {
        // Any command counts as a Keep Alive (TBKAS), those of authentication included.
        self.features.alive(now);
        if let Some(outcome) = self.queue_auth.check(sqe, data) {
            return Some(outcome);
        }
        let invalid = NvmeStatus::INVALID_OPCODE.do_not_retry();
        if sqe.opcode == FABRICS && self.transport == Transport::Fabrics {
            return Some(self.fabrics(sqe));
        }
        if self.status & CSTS_READY == 0 {
            return Some(Err(NvmeStatus::SEQUENCE.do_not_retry()));
        }
        if let Err(status) = pointer.check(sqe) {
            return Some(Err(status));
        }
        let opcode = AdminOpcode(sqe.opcode);
        if !self.transport.has_command(opcode) {
            return Some(Err(invalid));
        }
        Some(match opcode {
            AdminOpcode::IDENTIFY => self.identify(&(*sqe).into()),
            AdminOpcode::GET_LOG_PAGE => self.log_page(now, &(*sqe).into()),
            AdminOpcode::SET_FEATURES => self.set_feature(now, &(*sqe).into(), data),
            AdminOpcode::GET_FEATURES => self.get_feature(now, &(*sqe).into()),
            AdminOpcode::KEEP_ALIVE => Ok(CommandOutput::EMPTY),
            AdminOpcode::ABORT => Ok(self.abort(sqe.cdw10.get())),
            AdminOpcode::ASYNC_EVENT_REQUEST => {
                if self.event_requests.len() < MAX_EVENT_REQUESTS {
                    self.event_requests.push(sqe.cid.get());
                    return None;
                }
                Err(NvmeStatus::EVENT_LIMIT.do_not_retry())
            }
            AdminOpcode::DIRECTIVE_RECEIVE if self.subsystem.has_placement() => {
                self.directive_receive(&(*sqe).into())
            }
            // The directives of a namespace are enabled for ever.
            AdminOpcode::DIRECTIVE_SEND if self.subsystem.has_placement() => Err(INVALID_FIELD),
            AdminOpcode::MARK => self.mark(sqe.nsid.get(), data),
            _ => Err(invalid),
        })
    }

    /// Abort: SQID in bits 15:0, CID in bits 31:16. Only Asynchronous Event Requests can be aborted:
    /// other admin commands have completed, and I/O will soon. Bit 0 of the result is set if nothing
    /// was aborted.
    fn abort(&mut self, what: u32) -> CommandOutput {
        let (sqid, cid) = (what & 0xffff, what >> 16);
        let found = self.event_requests.iter().position(|&known| u32::from(known) == cid);
        let Some(found) = found.filter(|_| sqid == 0) else {
            return CommandOutput::result(1);
        };
        self.aborted.push(self.event_requests.remove(found));
        CommandOutput::result(0)
    }

    /// Mark: one line of text, which ends with the data or before a zero byte.
    fn mark(&self, nsid: u32, data: &[u8]) -> CommandResult {
        let namespace = self.subsystem.namespace(nsid);
        let namespace = namespace.ok_or(NvmeStatus::INVALID_NAMESPACE.do_not_retry())?;
        let put = namespace.marks().ok_or(NvmeStatus::INVALID_OPCODE.do_not_retry())?;
        let text = data.split(|&byte| byte == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(text).map_err(|_| INVALID_FIELD)?.trim_end();
        if text.is_empty() || text.len() > MAX_MARK || text.contains(char::is_control) {
            return Err(INVALID_FIELD);
        }
        put(text);
        Ok(CommandOutput::EMPTY)
    }

    fn fabrics(&mut self, sqe: &Sqe) -> CommandResult {
        let command = PropertyCommand::from(*sqe);
        let property = Property(command.offset.get());
        match FabricsType(command.fctype) {
            FabricsType::PROPERTY_GET => {
                let expected = property.size().ok_or(INVALID_FIELD)?;
                let size = if command.attributes & 0b111 == 1 { 8 } else { 4 };
                if size != expected {
                    return Err(INVALID_FIELD);
                }
                Ok(CommandOutput::result(self.property(property)))
            }
            FabricsType::PROPERTY_SET if property == Property::CC && command.attributes == 0 => {
                // The value of a property of four bytes is in the lower ones.
                #[allow(clippy::cast_possible_truncation)]
                self.configure(Cc(command.value.get() as u32), true);
                Ok(CommandOutput::EMPTY)
            }
            FabricsType::PROPERTY_SET => Err(INVALID_FIELD),
            FabricsType::CONNECT => Err(NvmeStatus::SEQUENCE.do_not_retry()),
            _ => Err(INVALID_FIELD),
        }
    }

    fn property(&self, property: Property) -> u64 {
        match property {
            Property::CAP => capabilities(MAX_QUEUE, 15),
            Property::VS => VERSION.into(),
            Property::CC => self.cc.0.into(),
            Property::CSTS => self.csts().into(),
            _ => 0,
        }
    }

    /// CC changed: enables, disables or shuts down (Base sections 3.1.3.5 and 3.6). `usable` if
    /// nothing else prevents that it is enabled.
    pub(super) fn configure(&mut self, cc: Cc, usable: bool) {
        let before = std::mem::replace(&mut self.cc, cc);
        if cc.shutdown() && !before.shutdown() {
            self.stop();
            self.shutdown.request();
        }
        if cc.enabled() && !before.enabled() {
            // Entries of 64 and 16 bytes; the NVM Command Set, or all supported ones.
            let fits = usable && cc.0 >> 16 & 0xff == 0x46 && matches!(cc.css(), 0 | 0b110);
            self.status = if fits { CSTS_READY } else { CSTS_FATAL };
            self.shutdown.forget();
            if fits {
                self.association.set_ready();
            }
        } else if !cc.enabled() && before.enabled() {
            self.stop();
            self.status = 0;
        }
    }

    /// Ends the I/O queues, and stops events.
    fn stop(&mut self) {
        self.association.stop();
        self.aborted.append(&mut self.event_requests);
    }

    /// Resets the controller of a function: commands that are outstanding get no completion.
    pub(super) fn reset(&mut self, now: Nanos) {
        self.stop();
        self.aborted.clear();
        self.association.grant(MAX_IO_QUEUES);
        self.features = Features::new(now, 0);
        self.shutdown.forget();
        (self.cc, self.status) = (Cc::default(), 0);
    }

    /// Completes Asynchronous Event Requests that have an event, or were aborted. A shutdown goes on, and
    /// traffic of the I/O queues restarts the keep alive timer when it has expired.
    pub fn poll(&mut self, now: Nanos, responses: &mut Vec<Response>) {
        self.poll_shutdown(now);
        if self.is_expired(now) && self.association.take_traffic() {
            self.features.alive(now);
        }
        for cid in std::mem::take(&mut self.aborted) {
            let cqe = self.head.complete(cid, NvmeStatus::ABORT_REQUESTED, 0);
            responses.push(Response::new(cqe));
        }
        while !self.event_requests.is_empty() {
            let Some(event) = self.association.async_events().next(self.features.events) else {
                break;
            };
            let cid = self.event_requests.remove(0);
            let cqe = self.head.complete(cid, NvmeStatus::SUCCESS, event.result());
            responses.push(Response::new(cqe));
        }
    }

    /// Goes on with a shutdown. Returns whether it has ended.
    pub(super) fn poll_shutdown(&mut self, now: Nanos) -> bool {
        let ended = self.shutdown.poll(now, &self.subsystem, &self.association);
        if ended {
            // The host has waited for it.
            self.features.alive(now);
        }
        ended
    }

    /// CSTS.
    pub(super) fn csts(&self) -> u32 {
        self.status | self.shutdown.csts()
    }

    /// Whether no I/O of a shutdown is in flight.
    pub fn is_idle(&self) -> bool {
        self.shutdown.is_idle()
    }

    /// The channels of a shutdown.
    pub fn channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.shutdown.channels()
    }

    /// Whether the keep alive timer has expired: the association has to be ended (Base section 3.9).
    pub fn is_expired(&self, now: Nanos) -> bool {
        self.next_event().is_some_and(|due| due <= now)
    }

    /// When the keep alive timer expires; `None` if it is not running, as during a shutdown.
    pub fn next_event(&self) -> Option<Nanos> {
        let runs = self.queue_auth.is_authenticated() && !self.shutdown.is_occurring();
        self.features.expires().filter(|_| runs)
    }

    /// Whether the controller is disabled or shut down: its I/O queues execute no commands.
    pub fn is_stopped(&self) -> bool {
        !self.association.is_ready()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.association.stop();
    }
}
