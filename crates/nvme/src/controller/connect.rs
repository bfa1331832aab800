//! Connect, which creates an admin or I/O queue.
use super::MAX_QUEUE;
use super::admin::Controller;
use super::association::Association;
use super::io::IoQueue;
use super::queue_auth::QueueAuth;
use super::response::{Response, SqHead};
use super::subsystem::Subsystem;
use crate::NvmeStatus;
use crate::ana::Port;
use crate::wire::fabrics::{AUTH_TRANSACTION, CNTLID_ANY, ConnectCommand, ConnectData};
use crate::wire::opcode::{FABRICS, FabricsType};
use crate::wire::{Sqe, host_nqn, nqn};
use std::sync::Arc;
use zerocopy::FromBytes;
use zonal_blk::Nanos;

/// The subsystems at an address.
#[derive(Default)]
pub struct Target {
    subsystems: Vec<Arc<Subsystem>>,
    port: Arc<Port>,
}

/// The queue that a connection has become.
pub enum ConnectedQueue {
    /// An admin queue: a new controller.
    Admin(Box<Controller>),
    /// An I/O queue of a controller.
    Io(Box<IoQueue>),
}

/// Why Connect is refused: the status, and dword 0 with the offset in bytes of the invalid parameter
/// and whether it is in the data (Base section 6.3).
#[derive(Clone, Copy, Debug)]
struct Refused(NvmeStatus, u64);

const IN_DATA: u64 = 1 << 16;

impl Refused {
    fn parameter(place: u64) -> Self {
        Refused(NvmeStatus::CONNECT_PARAMETERS.do_not_retry(), place)
    }
}

impl Target {
    /// A target with these subsystems, at this port of theirs.
    pub fn new(subsystems: Vec<Arc<Subsystem>>, port: Arc<Port>) -> Self {
        Target { subsystems, port }
    }

    /// Executes Connect, the first command of a connection, with its data.
    ///
    /// # Errors
    /// The response that refuses it; the connection has to be closed then.
    pub fn connect(
        &self,
        now: Nanos,
        sqe: &Sqe,
        data: &[u8],
    ) -> Result<(ConnectedQueue, Response), Response> {
        let command = ConnectCommand::from(*sqe);
        let head = SqHead::connected(&command);
        let response =
            |status, result| Response::new(head.complete_connect(sqe.cid.get(), status, result));
        match self.try_connect(now, &command, data) {
            Ok((connected, result)) => Ok((connected, response(NvmeStatus::SUCCESS, result))),
            Err(Refused(status, place)) => Err(response(status, place)),
        }
    }

    fn try_connect(
        &self,
        now: Nanos,
        command: &ConnectCommand,
        data: &[u8],
    ) -> Result<(ConnectedQueue, u64), Refused> {
        if command.opcode != FABRICS || command.fctype != FabricsType::CONNECT.0 {
            return Err(Refused(NvmeStatus::SEQUENCE.do_not_retry(), 0));
        }
        if command.record_format.get() != 0 {
            return Err(Refused(NvmeStatus::INCOMPATIBLE_FORMAT.do_not_retry(), 0));
        }
        let Ok(data) = ConnectData::read_from_bytes(data) else {
            return Err(Refused(NvmeStatus::SGL_LENGTH.do_not_retry(), 0));
        };
        let sqsize = command.sqsize.get();
        if sqsize == 0 || sqsize >= MAX_QUEUE {
            return Err(Refused::parameter(44));
        }
        let name = nqn(&data.subnqn).unwrap_or_default();
        let subsystem = self.subsystems.iter().find(|known| known.config().nqn == name);
        let subsystem = subsystem.ok_or(Refused::parameter(IN_DATA | 256))?;
        // SPDK's perf sends no name unless it is told one, and other targets accept that.
        let host = host_nqn(&data.hostnqn).ok_or(Refused::parameter(IN_DATA | 512))?;
        let queue_auth = subsystem.queue_auth(host);
        let queue_auth = queue_auth.ok_or(Refused(NvmeStatus::CONNECT_HOST.do_not_retry(), 0))?;
        let authenticate = if queue_auth.is_authenticated() { 0 } else { AUTH_TRANSACTION };
        let (connected, cntlid) = if command.qid.get() == 0 {
            let association = associate(subsystem, &self.port, &data, host)?;
            admin(now, subsystem, association, command, queue_auth)
        } else {
            io(subsystem, command, &data, host, queue_auth)?
        };
        Ok((connected, u64::from(cntlid) | authenticate))
    }
}

/// A new controller of a subsystem, at this port.
fn associate(
    subsystem: &Arc<Subsystem>,
    port: &Arc<Port>,
    data: &ConnectData,
    host: &str,
) -> Result<Arc<Association>, Refused> {
    if data.cntlid.get() != CNTLID_ANY {
        return Err(Refused::parameter(IN_DATA | 16));
    }
    let make = |cntlid| {
        let port = Some(Arc::clone(port));
        Arc::new(Association::new(cntlid, data.host_id, host.to_owned(), port))
    };
    subsystem.associate(make).ok_or(Refused(NvmeStatus::CONTROLLER_BUSY, 0))
}

fn admin(
    now: Nanos,
    subsystem: &Arc<Subsystem>,
    association: Arc<Association>,
    command: &ConnectCommand,
    queue_auth: QueueAuth,
) -> (ConnectedQueue, u16) {
    let cntlid = association.cntlid;
    let (head, kato) = (SqHead::connected(command), command.kato.get());
    let controller =
        Controller::new(now, Arc::clone(subsystem), association, queue_auth, head, kato);
    (ConnectedQueue::Admin(Box::new(controller)), cntlid)
}

fn io(
    subsystem: &Arc<Subsystem>,
    command: &ConnectCommand,
    data: &ConnectData,
    host: &str,
    queue_auth: QueueAuth,
) -> Result<(ConnectedQueue, u16), Refused> {
    let controller = subsystem.controller(data.cntlid.get());
    let controller = controller.ok_or(Refused::parameter(IN_DATA | 16))?;
    if controller.hostnqn != host || controller.host_id != data.host_id {
        return Err(Refused(NvmeStatus::CONNECT_HOST.do_not_retry(), 0));
    }
    // Before it is known to be ready: a reset from now on ends the queue.
    let resets = controller.resets();
    if !controller.is_ready() {
        return Err(Refused(NvmeStatus::SEQUENCE.do_not_retry(), 0));
    }
    let qid = command.qid.get();
    if subsystem.is_discovery() || qid > controller.granted() || controller.has_queue(qid) {
        return Err(Refused::parameter(42));
    }
    let cntlid = controller.cntlid;
    let authenticated = queue_auth.is_authenticated();
    let id = (qid, resets);
    let head = SqHead::connected(command);
    let mut queue = IoQueue::new(Arc::clone(subsystem), controller, queue_auth, id, head);
    if authenticated && !queue.open() {
        return Err(Refused::parameter(42));
    }
    Ok((ConnectedQueue::Io(Box::new(queue)), cntlid))
}
