//! Every kind of PDU at every stage of a connection.
use crate::network::Anybody;
use crate::support::{HOST_NQN, NOW, NQN, config, connect_command, connect_data, namespace, null};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;
use zonal_blk::Outgoing;
use zonal_nvme::auth::AuthConfig;
use zonal_nvme::controller::Subsystem;
use zonal_nvme::tcp::{
    DataLimits, Decoder, FatalError, Format, Initialize, Pdu, Role, TargetConfig, encode,
};
use zonal_nvme::wire::fabrics::{CNTLID_ANY, DISCOVERY_NQN};
use zonal_nvme::wire::opcode::{AdminOpcode, IoOpcode};
use zonal_nvme::wire::{Sgl, Sqe};
use zonal_nvme::{NvmeStatus, Session, SessionConfig};

const SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Accepted,
    Initialized,
    Unauthenticated,
    Authenticated,
    Discovery,
}

/// The host's answer, and whether the connection goes on.
#[derive(Debug, PartialEq)]
enum Answer {
    Initialized,
    R2t,
    Status(NvmeStatus),
    /// The response is the last PDU.
    Refused(NvmeStatus),
    Terminated(FatalError),
    Closed,
}

fn send(session: &mut Session<Anybody>, pdu: &Pdu) {
    let mut bytes = Vec::new();
    encode(pdu, Format::default(), &mut bytes);
    session.receive(&bytes);
}

fn connect(nqn: &str) -> Pdu {
    let data = connect_data(CNTLID_ANY, nqn).as_bytes().to_vec().into();
    Pdu::Command { sqe: connect_command(0, 7, 0), data }
}

/// A session at a stage.
fn session(stage: Stage) -> Session<Anybody> {
    let subsystem = if stage == Stage::Unauthenticated {
        let secrets = format!("{HOST_NQN} {SECRET}").parse().expect("a list of secrets");
        let auth = AuthConfig::new(secrets, Arc::new(|bytes: &mut [u8]| bytes.fill(0x5a)));
        Subsystem::authenticated(config(), auth)
    } else {
        Subsystem::new(config())
    };
    subsystem.add(1, namespace(&null()).1).expect("a free identifier");
    let timeout = Duration::from_secs(10);
    let limits = SessionConfig {
        tcp: TargetConfig::default(),
        io_queues: 4,
        init_timeout: timeout,
        connect_timeout: timeout,
        auth_timeout: timeout,
        discovery_timeout: timeout,
    };
    let mut session = Session::new(NOW, limits, Anybody(subsystem));
    if stage != Stage::Accepted {
        send(&mut session, &Pdu::IcReq(Initialize::default()));
    }
    match stage {
        Stage::Accepted | Stage::Initialized => {}
        Stage::Unauthenticated | Stage::Authenticated => send(&mut session, &connect(NQN)),
        Stage::Discovery => send(&mut session, &connect(DISCOVERY_NQN)),
    }
    session.poll(NOW).expect("it goes on");
    assert_eq!(session.is_authenticated(), stage == Stage::Authenticated);
    session.take_unsent();
    session
}

fn answer(stage: Stage, pdu: &Pdu) -> Answer {
    let mut session = session(stage);
    send(&mut session, pdu);
    let ended = session.poll(NOW).is_err();
    let output = session.take_unsent();
    let limits = DataLimits { in_capsule: 0, data: 1 << 20 };
    let mut decoder = Decoder::new(Role::Controller, limits);
    match (decoder.decode(&mut &output[..]).expect("a PDU"), ended) {
        (None, true) => Answer::Closed,
        (Some(Pdu::IcResp(_)), false) => Answer::Initialized,
        (Some(Pdu::ReadyToTransfer { .. }), false) => Answer::R2t,
        (Some(Pdu::Response(cqe)), false) => Answer::Status(cqe.status().code()),
        (Some(Pdu::Response(cqe)), true) => Answer::Refused(cqe.status().code()),
        (Some(Pdu::Terminate { status: 1, .. }), true) => {
            Answer::Terminated(FatalError::HeaderField)
        }
        (Some(Pdu::Terminate { status: 2, .. }), true) => Answer::Terminated(FatalError::Sequence),
        other => panic!("{stage:?}: {other:?}"),
    }
}

/// A command with data, which the controller has to ask for.
fn with_data(len: u32) -> Pdu {
    let mut sqe = Sqe::new(IoOpcode::WRITE.0, 1, 1);
    sqe.dptr = Sgl::transport(len);
    Pdu::Command { sqe, data: Vec::new().into() }
}

const STAGES: [Stage; 5] = [
    Stage::Accepted,
    Stage::Initialized,
    Stage::Unauthenticated,
    Stage::Authenticated,
    Stage::Discovery,
];

fn pdus() -> [Pdu; 7] {
    let alive = Sqe::new(AdminOpcode::KEEP_ALIVE.0, 1, 0);
    [
        Pdu::IcReq(Initialize::default()),
        connect(NQN),
        Pdu::Command { sqe: alive, data: Vec::new().into() },
        with_data(8192),
        with_data(1 << 20),
        Pdu::HostData { cid: 1, ttag: 0, offset: 0, last: true, data: vec![0; 4].into() },
        Pdu::Terminate { sender: Role::Host, status: 1, information: 0, header: vec![0; 8] },
    ]
}

#[test]
fn every_pdu_at_every_stage() {
    use Answer::{Closed, Initialized, R2t, Refused, Status, Terminated};
    use NvmeStatus as S;
    let sequence = || Terminated(FatalError::Sequence);
    let header = || Terminated(FatalError::HeaderField);
    let no = || Status(S::SEQUENCE);
    let invalid = || Status(S::INVALID_FIELD);
    let required = || Status(S::AUTH_REQUIRED);
    let table = [
        [Initialized, sequence(), sequence(), sequence(), sequence()],
        [sequence(), Status(S::SUCCESS), required(), no(), no()],
        [sequence(), Refused(S::SEQUENCE), required(), no(), no()],
        [sequence(), R2t, R2t, R2t, R2t],
        [sequence(), Refused(S::INVALID_FIELD), invalid(), R2t, invalid()],
        [sequence(), header(), header(), header(), header()],
        [Closed, Closed, Closed, Closed, Closed],
    ];
    for (pdu, answers) in pdus().into_iter().zip(table) {
        for (stage, expected) in STAGES.into_iter().zip(answers) {
            assert_eq!(answer(stage, &pdu), expected, "{stage:?}: {pdu:?}");
        }
    }
}

proptest! {
    /// Whatever a host sends, its connection goes on or ends with an error, and until it has
    /// authenticated it gets no more output than it may leave unread, and one response.
    #[test]
    fn damaged_pdus_at_every_stage(
        stage in 0..STAGES.len(),
        sent in vec((0..7_usize, 0..128_usize, any::<u8>()), 1..40),
    ) {
        let stage = STAGES[stage];
        let mut session = session(stage);
        let pdus = pdus();
        for (pdu, at, xor) in sent {
            let mut bytes = Vec::new();
            encode(&pdus[pdu], Format::default(), &mut bytes);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= xor;
            }
            if session.wants_input() {
                session.receive(&bytes);
            }
            let ended = session.poll(NOW).is_err();
            prop_assert!(session.is_authenticated() || session.unsent() <= 36 << 10);
            if ended {
                let len = session.unsent();
                session.receive(&bytes);
                prop_assert!(session.poll(NOW).is_err() && session.unsent() == len);
                break;
            }
        }
        while !session.drain(NOW) {}
    }
}

#[test]
fn nothing_is_answered_after_a_refused_connect() {
    let mut session = session(Stage::Initialized);
    let mut bytes = Vec::new();
    encode(&pdus()[1], Format::default(), &mut bytes);
    // PLEN: the last bytes of the command are the begin of another PDU.
    bytes[4] ^= 9;
    session.receive(&bytes);
    assert!(session.poll(NOW).is_err());
    let len = session.unsent();
    session.receive(&bytes);
    assert!(session.poll(NOW).is_err());
    assert_eq!(session.unsent(), len);
}
