//! Queues that require authentication.
use crate::support::{
    Ended, HOST_NQN, NOW, NQN, config, connect_command, connect_data, namespace, null,
    property_command, received,
};
use std::sync::Arc;
use zerocopy::IntoBytes;
use zonal_blk::Nanos;
use zonal_nvme::NvmeStatus;
use zonal_nvme::auth::{AuthConfig, AuthState, AwaitChallenge, Group};
use zonal_nvme::controller::{ConnectedQueue, Subsystem, Target};
use zonal_nvme::wire::auth::{AuthCommand, Explanation};
use zonal_nvme::wire::fabrics::{CNTLID_ANY, Property};
use zonal_nvme::wire::opcode::{AdminOpcode, FABRICS, FabricsType, IoOpcode};
use zonal_nvme::wire::{Sgl, Sqe};

const SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
/// AUTHREQ: ATR.
const REQUIRED: u64 = 1 << 17;

fn auth(hosts: &str) -> AuthConfig {
    let random = Arc::new(|bytes: &mut [u8]| bytes.fill(0x5a));
    let auth = AuthConfig::new(hosts.parse().expect("a list of secrets"), random);
    AuthConfig { groups: vec![Group::Null], ..auth }
}

fn target(hosts: &str) -> Target {
    let subsystem = Subsystem::authenticated(config(), auth(hosts));
    subsystem.add(1, namespace(&null()).1).expect("a free identifier");
    Target::new(vec![subsystem], Arc::default())
}

fn auth_command(fctype: FabricsType, len: usize) -> AuthCommand {
    let mut command = AuthCommand::zeroed();
    (command.opcode, command.flags, command.fctype) = (FABRICS, 0x40, fctype.0);
    (command.protocol, command.specific_0, command.specific_1) = (0xe9, 1, 1);
    command.length = u32::try_from(len).expect("short").into();
    command.dptr = Sgl::transport(command.length.get());
    command
}

/// A queue of either kind.
struct Queue(ConnectedQueue);

impl Queue {
    fn connect(target: &Target, cntlid: u16, qid: u16) -> (Self, u64) {
        let data = connect_data(cntlid, NQN);
        let connected = target.connect(NOW, &connect_command(qid, 31, 5000), data.as_bytes());
        let Ok((queue, answer)) = connected else { panic!("not connected") };
        (Queue(queue), answer.cqe.result())
    }

    fn send(&mut self, sqe: impl Into<Sqe>, data: &[u8]) -> Ended {
        let mut responses = Vec::new();
        match &mut self.0 {
            ConnectedQueue::Admin(admin) => admin.submit(NOW, &sqe.into(), data, &mut responses),
            ConnectedQueue::Io(io) => {
                io.submit(NOW, &sqe.into(), received(data), &mut responses);
                while io.outstanding() > 0 {
                    io.poll(NOW, &mut responses);
                }
            }
        }
        assert_eq!(responses.len(), 1);
        Ended::of(responses.remove(0))
    }

    fn message(&mut self, message: &[u8]) {
        self.send(auth_command(FabricsType::AUTH_SEND, message.len()), message).fine();
    }

    fn fetch(&mut self) -> Vec<u8> {
        let data = self.send(auth_command(FabricsType::AUTH_RECEIVE, 4096), &[]).fine().data;
        assert_eq!(data.len(), 4096, "as much as there is room for");
        data
    }

    fn auth_state(&self) -> AuthState {
        match &self.0 {
            ConnectedQueue::Admin(admin) => admin.auth_state(),
            ConnectedQueue::Io(io) => io.auth_state(),
        }
    }

    fn authenticate(&mut self) {
        let config = Arc::new(auth(&format!("{HOST_NQN} {SECRET}")));
        let (negotiate, waits) =
            AwaitChallenge::begin(&config, HOST_NQN, NQN, 1).expect("a secret");
        self.message(&negotiate);
        let (reply, waits) = waits.take(&self.fetch()).expect("a challenge");
        self.message(&reply);
        assert_eq!(waits.take(&self.fetch()), Ok(None));
    }
}

#[test]
fn queue_executes_nothing_before_authentication() {
    let target = target(&format!("{HOST_NQN} {SECRET}"));
    let (mut admin, result) = Queue::connect(&target, CNTLID_ANY, 0);
    assert_eq!(result, REQUIRED | 1);
    let enable = property_command(FabricsType::PROPERTY_SET, Property::CC, 0x46_0061);
    let get = property_command(FabricsType::PROPERTY_GET, Property::CAP, 0);
    for sqe in [Sqe::new(AdminOpcode::KEEP_ALIVE.0, 1, 0), enable, get] {
        assert_eq!(admin.send(sqe, &[]).status, NvmeStatus::AUTH_REQUIRED);
    }
    admin.authenticate();
    assert_eq!(admin.auth_state(), AuthState::Authenticated);
    admin.send(enable, &[]).fine();

    let (mut io, result) = Queue::connect(&target, 1, 1);
    assert_eq!(result, REQUIRED | 1, "not known for being known on the admin queue");
    let flush = Sqe::new(IoOpcode::FLUSH.0, 1, 1);
    assert_eq!(io.send(flush, &[]).status, NvmeStatus::AUTH_REQUIRED);
    io.authenticate();
    io.send(flush, &[]).fine();
    io.authenticate();
    io.send(flush, &[]).fine();
}

#[test]
fn queue_identifier_is_that_of_the_connection_that_authenticates() {
    let target = target(&format!("{HOST_NQN} {SECRET}"));
    let (mut admin, _) = Queue::connect(&target, CNTLID_ANY, 0);
    admin.authenticate();
    admin.send(property_command(FabricsType::PROPERTY_SET, Property::CC, 0x46_0061), &[]).fine();
    let (mut fake, _) = Queue::connect(&target, 1, 1);
    let (mut io, _) = Queue::connect(&target, 1, 1);
    io.authenticate();
    let flush = Sqe::new(IoOpcode::FLUSH.0, 1, 1);
    io.send(flush, &[]).fine();
    fake.authenticate();
    assert_eq!(fake.send(flush, &[]).status, NvmeStatus::SEQUENCE, "there is a queue 1");
    drop(fake);
    let connect =
        || target.connect(NOW, &connect_command(1, 31, 0), connect_data(1, NQN).as_bytes());
    let Err(answer) = connect() else { panic!("connected") };
    assert_eq!(Ended::of(answer).status, NvmeStatus::CONNECT_PARAMETERS);
    drop(io);
    assert!(connect().is_ok(), "the identifier is free again");
}

#[test]
fn hosts_without_a_secret_are_refused() {
    let target = target(&format!("nqn.2026-11.org.example:other {SECRET}"));
    let data = connect_data(CNTLID_ANY, NQN);
    let Err(answer) = target.connect(NOW, &connect_command(0, 31, 0), data.as_bytes()) else {
        panic!("connected")
    };
    assert_eq!(Ended::of(answer).status, NvmeStatus::CONNECT_HOST);
}

#[test]
fn failed_host_gets_the_reason_and_nothing_more() {
    let other = "DHHC-1:00:2wKd3YDIcRMN/rCJa/k60E8xBQMw+2D9UnigSQ6YFkEHV3Yy:";
    let target = target(&format!("{HOST_NQN} {other}"));
    let (mut admin, _) = Queue::connect(&target, CNTLID_ANY, 0);
    let config = Arc::new(auth(&format!("{HOST_NQN} {SECRET}")));
    let (negotiate, waits) = AwaitChallenge::begin(&config, HOST_NQN, NQN, 1).expect("a secret");
    admin.message(&negotiate);
    let (reply, waits) = waits.take(&admin.fetch()).expect("a challenge");
    admin.message(&reply);
    assert_eq!(admin.auth_state(), AuthState::Unauthenticated, "the reason is not fetched yet");
    assert!(waits.take(&admin.fetch()).is_err());
    assert_eq!(admin.auth_state(), AuthState::Failed(Explanation::FAILED));
    let again = admin.send(auth_command(FabricsType::AUTH_RECEIVE, 4096), &[]);
    assert_eq!(again.status, NvmeStatus::SEQUENCE);
    let alive = admin.send(Sqe::new(AdminOpcode::KEEP_ALIVE.0, 1, 0), &[]);
    assert_eq!(alive.status, NvmeStatus::AUTH_REQUIRED);
}

#[test]
fn malformed_commands_are_refused_and_change_nothing() {
    let target = target(&format!("{HOST_NQN} {SECRET}"));
    let (mut admin, _) = Queue::connect(&target, CNTLID_ANY, 0);
    let send = auth_command(FabricsType::AUTH_SEND, 8);
    type Change = fn(&mut AuthCommand);
    let wrong: [(Change, NvmeStatus); 5] = [
        (|command| command.protocol = 0, NvmeStatus::INVALID_FIELD),
        (|command| command.specific_0 = 2, NvmeStatus::INVALID_FIELD),
        (|command| command.specific_1 = 0, NvmeStatus::INVALID_FIELD),
        (|command| command.length = 0.into(), NvmeStatus::INVALID_FIELD),
        (|command| command.length = 9.into(), NvmeStatus::SGL_LENGTH),
    ];
    for (change, status) in wrong {
        let mut command = send;
        change(&mut command);
        assert_eq!(admin.send(command, &[0; 8]).status, status);
    }
    admin.authenticate();
}

/// The keep alive timer does not expire during authentication, when the host can send no Keep Alive.
#[test]
fn keep_alive_starts_with_authentication() {
    let target = target(&format!("{HOST_NQN} {SECRET}"));
    let (mut queue, _) = Queue::connect(&target, CNTLID_ANY, 0);
    let late = Nanos(NOW.0 + 60_000_000_000);
    let ConnectedQueue::Admin(admin) = &queue.0 else { panic!("an admin queue") };
    assert!(!admin.is_expired(late));
    queue.authenticate();
    let ConnectedQueue::Admin(admin) = &queue.0 else { panic!("an admin queue") };
    assert!(admin.is_expired(late));
}
