//! Host, connection, target and subsystem together, with a wire that cuts bytes as it likes.
use crate::support::{
    CAPACITY, Host, NOW, NQN, ZONE, connect_command, connect_data, null, property_command, rw,
    zone_receive,
};
use proptest::prelude::*;
use std::sync::Arc;
use zerocopy::IntoBytes;
use zonal_nvme::NvmeStatus;
use zonal_nvme::controller::{ConnectedQueue, Target};
use zonal_nvme::tcp::{
    CloseReason, Digests, FatalError, Format, HostConfig, HostConnection, HostEvent, Initialize,
    Payload, Pdu, SubmitError, TargetConfig, TargetConnection, TargetEvent, encode,
};
use zonal_nvme::wire::fabrics::CNTLID_ANY;
use zonal_nvme::wire::opcode::{FabricsType, IoOpcode};
use zonal_nvme::wire::property::Property;
use zonal_nvme::wire::{Cqe, Sgl, Sqe};

/// A connection with both of its ends.
struct Wire {
    host: HostConnection,
    target: TargetConnection,
    subsystems: Arc<Target>,
    queue: Option<ConnectedQueue>,
    piece: usize,
}

impl Wire {
    fn new(subsystems: &Arc<Target>, host: HostConfig, target: TargetConfig, piece: usize) -> Self {
        Wire {
            host: HostConnection::new(host),
            target: TargetConnection::new(target),
            subsystems: Arc::clone(subsystems),
            queue: None,
            piece,
        }
    }

    /// Moves bytes until there are none.
    fn run(&mut self) -> Vec<HostEvent> {
        let mut events = Vec::new();
        loop {
            let sent = std::mem::take(self.host.output());
            let mut commands = Vec::new();
            sent.chunks(self.piece).for_each(|piece| self.target.receive(piece, &mut commands));
            commands.into_iter().for_each(|command| self.execute(command));
            let answered = std::mem::take(self.target.output());
            answered.chunks(self.piece).for_each(|piece| self.host.receive(piece, &mut events));
            if sent.is_empty() && answered.is_empty() {
                return events;
            }
        }
    }

    fn execute(&mut self, event: TargetEvent) {
        let mut responses = Vec::new();
        match (&mut self.queue, event) {
            (None, TargetEvent::Command { sqe, data }) => {
                match self.subsystems.connect(NOW, &sqe, &data) {
                    Ok((connected, answer)) => {
                        self.queue = Some(connected);
                        responses.push(answer);
                    }
                    Err(answer) => responses.push(answer),
                }
            }
            (Some(ConnectedQueue::Admin(admin)), TargetEvent::Command { sqe, data }) => {
                admin.submit(NOW, &sqe, &data, &mut responses);
            }
            (Some(ConnectedQueue::Admin(admin)), TargetEvent::Refuse { sqe, status }) => {
                admin.refuse(&sqe, status, &mut responses);
            }
            (Some(ConnectedQueue::Io(io)), TargetEvent::Command { sqe, data }) => {
                io.submit(NOW, &sqe, &data, &mut responses);
                while io.outstanding() > 0 {
                    io.poll(NOW, &mut responses);
                }
            }
            (Some(ConnectedQueue::Io(io)), TargetEvent::Refuse { sqe, status }) => {
                io.refuse(&sqe, status, &mut responses);
            }
            (None, refused) => panic!("{refused:?} before Connect"),
        }
        for answer in responses {
            self.target.respond(answer.cqe, answer.data.as_deref().unwrap_or_default());
        }
    }

    /// Sends a command and waits for its end.
    fn send(&mut self, sqe: impl Into<Sqe>, data: &[u8], room: u32) -> (Cqe, Payload) {
        self.host.submit(sqe.into(), data.to_vec(), room).expect("the connection is there");
        let mut events = self.run();
        let Some(HostEvent::Completed { cqe, data }) = events.pop() else {
            panic!("no end: {:?} {:?}", self.host.close_reason(), self.target.close_reason())
        };
        assert!(events.is_empty() && self.host.outstanding() == 0);
        (cqe, data)
    }
}

/// The whole way of a host: admin queue, enable, I/O queue, write, append, read, report.
fn whole_way(host: HostConfig, target: TargetConfig, piece: usize) {
    let base = Host::connected(&null());
    let mut admin = Wire::new(&base.target, host, target, piece);
    assert_eq!(admin.run(), [HostEvent::Ready]);
    let data = connect_data(CNTLID_ANY, NQN);
    let cntlid = admin.send(connect_command(0, 31, 5000), data.as_bytes(), 0).0.result();
    assert_eq!(cntlid, 2);
    let enable = property_command(FabricsType::PROPERTY_SET, Property::CC, 0x46_0061);
    assert!(admin.send(enable, &[], 0).0.status().is_success());
    let csts = property_command(FabricsType::PROPERTY_GET, Property::CSTS, 0);
    assert_eq!(admin.send(csts, &[], 0).0.result(), 1);
    let mut identify = Sqe::new(0x06, 5, 0);
    identify.cdw10 = 1.into();
    let (_, id) = admin.send(identify, &[], 4096);
    assert_eq!((id.bytes.len(), &id.bytes[24..29]), (4096, &b"Zonal"[..]));

    let mut io = Wire::new(&base.target, host, target, piece);
    io.run();
    let data = connect_data(2, NQN);
    assert!(io.send(connect_command(1, 127, 0), data.as_bytes(), 0).0.status().is_success());
    // More than goes in a capsule, then less.
    let long: Vec<u8> = (0..9 * 4096).map(|at| (at % 251) as u8).collect();
    assert!(io.send(rw(IoOpcode::WRITE, 0, 9), &long, 0).0.status().is_success());
    assert_eq!(io.send(rw(IoOpcode::ZONE_APPEND, 0, 1), &long[..4096], 0).0.result(), 9);
    let (cqe, read) = io.send(rw(IoOpcode::READ, 0, 10), &[], 10 * 4096);
    assert!(cqe.status().is_success() && !read.damaged);
    assert_eq!(read.bytes, [&long[..], &long[..4096]].concat());
    let (cqe, read) = io.send(rw(IoOpcode::READ, 1 << 40, 1), &[], 4096);
    assert_eq!((cqe.status().code(), read.bytes.len()), (NvmeStatus::LBA_RANGE, 0));
    let (_, report) = io.send(zone_receive(ZONE, 0, true, 128), &[], 128);
    assert_eq!(report.bytes[64 + 16..64 + 24], ZONE.to_le_bytes());
    assert_eq!(report.bytes[64 + 8..64 + 16], CAPACITY.to_le_bytes());
}

#[test]
fn host_and_target_go_the_whole_way() {
    whole_way(HostConfig::default(), TargetConfig::default(), 1 << 16);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_way_is_the_same_with_any_digests_alignments_and_pieces(
        (header, data, hpda, cpda) in (any::<bool>(), any::<bool>(), 0u8..32, 0u8..32),
        max_data in 4096u32..20000,
        piece in 1usize..5000,
    ) {
        let digests = Digests { header, data };
        let host = HostConfig { digests, alignment: hpda, ..HostConfig::default() };
        let max_data = max_data / 4 * 4;
        let target = TargetConfig { alignment: cpda, max_data, ..TargetConfig::default() };
        whole_way(host, target, piece);
    }
}

/// A target that has sent ICResp, and its output emptied.
fn initialized(config: TargetConfig) -> TargetConnection {
    let mut target = TargetConnection::new(config);
    assert!(receive(&mut target, &Pdu::IcReq(Initialize::default())).is_empty());
    target.output().clear();
    target
}

fn receive(target: &mut TargetConnection, pdu: &Pdu) -> Vec<TargetEvent> {
    let (mut bytes, mut events) = (Vec::new(), Vec::new());
    encode(pdu, Format::default(), &mut bytes);
    target.receive(&bytes, &mut events);
    events
}

fn write(cid: u16, length: u32) -> Pdu {
    let mut sqe = Sqe::new(IoOpcode::WRITE.0, cid, 1);
    sqe.dptr = Sgl::transport(length);
    Pdu::Command { sqe, data: Payload::default() }
}

fn data(cid: u16, ttag: u16, offset: u32, last: bool, len: usize) -> Pdu {
    Pdu::HostData { cid, ttag, offset, last, data: vec![1; len].into() }
}

#[test]
fn host_that_breaks_a_rule_is_told_which() {
    let fault = |fatal, what| Some(CloseReason::ProtocolError { fatal, what });
    let sequence = || fault(FatalError::Sequence, "a PDU that may not come now");
    let out = FatalError::OutOfRange;
    let marks = "the last data are not marked so, or others are";
    let r2t = |pdus: &[Pdu]| [&[write(7, 100)], pdus].concat();
    for (pdus, expected) in [
        (vec![Pdu::IcReq(Initialize::default())], sequence()),
        (vec![data(7, 0, 0, true, 10)], fault(FatalError::HeaderField, "data for no transfer")),
        (r2t(&[data(8, 0, 0, true, 10)]), fault(FatalError::HeaderField, "data for no transfer")),
        (r2t(&[data(7, 0, 4, true, 96)]), fault(out, "data out of order")),
        (r2t(&[data(7, 0, 0, false, 101)]), fault(out, "more data than was asked for")),
        (r2t(&[data(7, 0, 0, true, 99)]), fault(FatalError::Sequence, marks)),
        (r2t(&[data(7, 0, 0, false, 100)]), fault(FatalError::Sequence, marks)),
        (r2t(&[data(7, 0, 0, false, 50), data(7, 0, 50, true, 50)]), None),
        (
            vec![write(1, 8), write(2, 8), write(3, 8)],
            fault(FatalError::LimitExceeded, "too many commands wait for data"),
        ),
    ] {
        let mut target = initialized(TargetConfig { max_r2ts: 2, ..TargetConfig::default() });
        pdus.iter().for_each(|pdu| {
            receive(&mut target, pdu);
        });
        assert_eq!(target.close_reason(), expected.as_ref());
        let Some(CloseReason::ProtocolError { fatal, .. }) = expected else { continue };
        let output = std::mem::take(target.output());
        let terminate = &output[output.len() - 24..];
        assert_eq!((terminate[0], terminate[8]), (3, fatal as u8), "C2HTermReq with FES");
        assert!(receive(&mut target, &write(9, 0)).is_empty(), "nothing more is looked at");
    }
    let mut early = TargetConnection::new(TargetConfig::default());
    receive(&mut early, &write(1, 0));
    assert_eq!(early.close_reason(), sequence().as_ref());
    for (request, expected) in [
        (Initialize { version: 1, ..Initialize::default() }, FatalError::Unsupported),
        (Initialize { alignment: 32, ..Initialize::default() }, FatalError::HeaderField),
    ] {
        let mut target = TargetConnection::new(TargetConfig::default());
        receive(&mut target, &Pdu::IcReq(request));
        assert!(
            matches!(target.close_reason(), Some(CloseReason::ProtocolError { fatal, .. }) if *fatal == expected)
        );
    }
}

#[test]
fn data_are_asked_for_up_to_a_bound_and_then_in_turns() {
    let asked = |target: &mut TargetConnection| {
        let output = std::mem::take(target.output());
        output.chunks(24).map(|r2t| (r2t[0], r2t[8], r2t[10])).collect::<Vec<_>>()
    };
    let mut target = initialized(TargetConfig { max_r2t_bytes: 250, ..TargetConfig::default() });
    for cid in 1..=3 {
        receive(&mut target, &write(cid, 100));
    }
    receive(&mut target, &write(4, 300));
    // R2T: type, command, transfer.
    assert_eq!(asked(&mut target), [(9, 1, 0), (9, 2, 1)]);
    assert_eq!(receive(&mut target, &data(2, 1, 0, true, 100)).len(), 1);
    assert_eq!(asked(&mut target), [(9, 3, 1)], "a number that is free again");
    receive(&mut target, &data(1, 0, 0, true, 100));
    assert_eq!(asked(&mut target), [], "the next has more than the bound, and goes alone");
    receive(&mut target, &data(3, 1, 0, true, 100));
    assert_eq!(asked(&mut target), [(9, 4, 1)]);
    assert_eq!(receive(&mut target, &data(4, 1, 0, true, 300)).len(), 1);
}

#[test]
fn command_whose_data_are_damaged_or_too_long_is_refused_and_no_more() {
    let config = TargetConfig { max_transfer: 4096, ..TargetConfig::default() };
    let mut target = TargetConnection::new(config);
    let digests = Digests { header: false, data: true };
    receive(&mut target, &Pdu::IcReq(Initialize { digests, ..Initialize::default() }));
    let mut bytes = Vec::new();
    let format = Format { digests, alignment: 0 };
    encode(&data(7, 0, 0, true, 100), format, &mut bytes);
    bytes[30] ^= 1;
    let Pdu::Command { sqe, .. } = write(7, 100) else { unreachable!() };
    assert!(receive(&mut target, &write(7, 100)).is_empty(), "it waits for data");
    let mut events = Vec::new();
    target.receive(&bytes, &mut events);
    assert_eq!(events, [TargetEvent::Refuse { sqe, status: NvmeStatus::TRANSPORT }]);
    let Pdu::Command { sqe, .. } = write(8, 4097) else { unreachable!() };
    let status = NvmeStatus::INVALID_FIELD.do_not_retry();
    assert_eq!(receive(&mut target, &write(8, 4097)), [TargetEvent::Refuse { sqe, status }]);
    assert_eq!(target.close_reason(), None);
}

#[test]
fn target_that_breaks_a_rule_is_told_which() {
    let begin = || {
        let mut host = HostConnection::new(HostConfig::default());
        assert_eq!(host.submit(Sqe::new(2, 1, 1), vec![], 0), Err(SubmitError::NotReady));
        let response = Initialize { limit: 4096, ..Initialize::default() };
        assert_eq!(host_receives(&mut host, &Pdu::IcResp(response)), [HostEvent::Ready]);
        host.submit(Sqe::new(2, 7, 1), vec![], 100).unwrap();
        host.submit(Sqe::new(1, 8, 1), vec![1; 10000], 0).unwrap();
        assert_eq!(host.submit(Sqe::new(2, 7, 1), vec![], 0), Err(SubmitError::CidInUse(7)));
        host
    };
    let incoming = |cid, offset, last, success, len: usize| Pdu::ControllerData {
        cid,
        offset,
        last,
        success,
        data: vec![1; len].into(),
    };
    let r2t = |cid, offset, length| Pdu::ReadyToTransfer { cid, ttag: 1, offset, length };
    for (pdu, fatal) in [
        (Pdu::IcResp(Initialize::default()), FatalError::Sequence),
        (Pdu::Response(Cqe::new(9, NvmeStatus::SUCCESS)), FatalError::HeaderField),
        (incoming(9, 0, true, false, 1), FatalError::HeaderField),
        (incoming(7, 1, true, false, 1), FatalError::OutOfRange),
        (incoming(7, 0, true, false, 101), FatalError::OutOfRange),
        (incoming(7, 0, false, true, 1), FatalError::HeaderField),
        (r2t(8, 0, 10001), FatalError::OutOfRange),
        (r2t(8, u32::MAX, u32::MAX), FatalError::OutOfRange),
        (r2t(8, 0, 0), FatalError::OutOfRange),
        (r2t(7, 0, 1), FatalError::OutOfRange),
    ] {
        let mut host = begin();
        assert!(host_receives(&mut host, &pdu).is_empty());
        let found = host.close_reason();
        assert!(
            matches!(found, Some(CloseReason::ProtocolError { fatal: f, .. }) if *f == fatal),
            "{found:?}"
        );
    }
    let mut host = begin();
    let ended = host_receives(&mut host, &incoming(7, 0, true, true, 100));
    let cqe = Cqe::new(7, NvmeStatus::SUCCESS);
    assert_eq!(
        ended,
        [HostEvent::Completed { cqe, data: vec![1; 100].into() }],
        "no response follows"
    );
    host.output().clear();
    host_receives(&mut host, &r2t(8, 0, 10000));
    assert_eq!(host.output().len(), 10000 + 3 * 24, "pieces of MAXH2CDATA");

    for (response, fatal) in [
        (Initialize { version: 1, limit: 4096, ..Initialize::default() }, FatalError::Unsupported),
        (Initialize { limit: 4095, ..Initialize::default() }, FatalError::HeaderField),
        (
            Initialize {
                limit: 4096,
                digests: Digests { header: true, data: false },
                ..Initialize::default()
            },
            FatalError::HeaderField,
        ),
    ] {
        let mut host = HostConnection::new(HostConfig::default());
        host_receives(&mut host, &Pdu::IcResp(response));
        assert!(
            matches!(host.close_reason(), Some(CloseReason::ProtocolError { fatal: f, .. }) if *f == fatal)
        );
    }
}

fn host_receives(host: &mut HostConnection, pdu: &Pdu) -> Vec<HostEvent> {
    let (mut bytes, mut events) = (Vec::new(), Vec::new());
    encode(pdu, Format::default(), &mut bytes);
    host.receive(&bytes, &mut events);
    events
}

#[test]
fn each_side_hears_that_the_other_ended_the_connection() {
    let mut target = initialized(TargetConfig::default());
    let sender = zonal_nvme::tcp::Role::Host;
    receive(
        &mut target,
        &Pdu::Terminate { sender, status: 6, information: 8, header: vec![1; 24] },
    );
    let peer = CloseReason::Peer { status: 6, information: 8 };
    assert_eq!(target.close_reason(), Some(&peer));
    assert!(target.output().is_empty(), "no answer");
}
