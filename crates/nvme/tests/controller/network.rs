//! Host, connection, session and subsystem together, over a wire that cuts bytes anywhere.
use crate::support::{
    CAPACITY, HOST_NQN, Host, NOW, NQN, ZONE, config, connect_command, connect_data, null,
    property_command, rw, zone_receive,
};
use proptest::prelude::*;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use zerocopy::IntoBytes;
use zonal_blk::{Buf, Bytes, Nanos, Outgoing, Wake, WakeUp};
use zonal_device::NullConfig;
use zonal_nvme::ana::Port;
use zonal_nvme::controller::Subsystem;
use zonal_nvme::tcp::{
    CloseReason, DataLimits, Decoder, Digests, FatalError, Format, HostConfig, HostConnection,
    HostEvent, Initialize, Payload, Pdu, ReceivedCommand, Role, SubmitError, TargetConfig,
    TargetConnection, encode,
};
use zonal_nvme::wire::fabrics::{
    CNTLID_ANY, ConnectCommand, ConnectData, DISABLE_SQ_FLOW, DISCOVERY_NQN, Property,
    SQ_FLOW_DISABLED,
};
use zonal_nvme::wire::opcode::{FabricsType, IoOpcode};
use zonal_nvme::wire::{Cqe, Sgl, Sqe, terminated};
use zonal_nvme::{
    Admission, NvmeStatus, QueueIdentity, Refusal, Session, SessionConfig, SessionError,
};

/// Lets hosts connect to one subsystem.
pub struct Anybody(pub Arc<Subsystem>);

impl Admission for Anybody {
    fn admit(&mut self, hostnqn: &str, subnqn: &str) -> Result<(), Refusal> {
        if hostnqn == HOST_NQN || subnqn == DISCOVERY_NQN {
            return Ok(());
        }
        Err(Refusal { status: NvmeStatus::CONNECT_HOST, reason: "not allowed".to_owned() })
    }

    fn subsystem(&mut self, discovery: bool) -> Arc<Subsystem> {
        if discovery { Subsystem::discovery(config(), Vec::new()) } else { Arc::clone(&self.0) }
    }

    fn port(&mut self) -> Arc<Port> {
        Arc::default()
    }

    fn connected(&mut self, _queue: &QueueIdentity) -> Result<(), Refusal> {
        Ok(())
    }

    fn authenticated(&mut self) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A connection with both of its ends.
struct Wire {
    host: HostConnection,
    session: Session<Anybody>,
    piece: usize,
    error: Option<SessionError>,
    damage: Option<Damage>,
}

/// Damage of a byte in transit.
struct Damage {
    by_host: bool,
    /// PDUs with data that are left intact before the one that is damaged.
    after: usize,
    /// The last byte of its data, and not the first.
    last: bool,
}

impl Damage {
    /// Damages the PDU, if it is among those sent. Returns whether it was.
    fn apply(&mut self, mut sent: &mut [u8]) -> bool {
        while let Some(length) = sent.get(4..8) {
            let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
            let (pdu, rest) = sent.split_at_mut(length);
            // PDO; a digest of four bytes ends the PDU.
            match (usize::from(pdu[3]), self.after) {
                (0, _) => {}
                (start, 0) => {
                    pdu[if self.last { length - 5 } else { start }] ^= 0x10;
                    return true;
                }
                _ => self.after -= 1,
            }
            sent = rest;
        }
        false
    }
}

impl Wire {
    fn new(subsystem: &Arc<Subsystem>, host: HostConfig, tcp: TargetConfig, piece: usize) -> Self {
        Wire {
            host: HostConnection::new(host),
            session: Session::new(NOW, session_config(tcp), Anybody(Arc::clone(subsystem))),
            piece,
            error: None,
            damage: None,
        }
    }

    /// Moves bytes until there are none. Every other piece of data goes straight to its buffer.
    fn run(&mut self) -> Vec<HostEvent> {
        let mut events = Vec::new();
        loop {
            let mut sent = self.host.take_unsent();
            self.damage.take_if(|damage| damage.by_host && damage.apply(&mut sent));
            for (at, mut piece) in sent.chunks(self.piece).enumerate() {
                if at % 2 == 0
                    && let Some(data) = self.session.data_buffer()
                {
                    let len = data.len().min(piece.len());
                    data[..len].copy_from_slice(&piece[..len]);
                    self.session.data_received(len);
                    piece = &piece[len..];
                }
                self.session.receive(piece);
            }
            while !matches!(
                self.session.poll(NOW).map_err(|error| self.error = Some(error)),
                Ok(false) | Err(())
            ) {}
            let mut answered = self.session.take_unsent();
            self.damage.take_if(|damage| !damage.by_host && damage.apply(&mut answered));
            for (at, mut piece) in answered.chunks(self.piece).enumerate() {
                if at % 2 == 0
                    && let Some(data) = self.host.data_buffer()
                {
                    let len = data.len().min(piece.len());
                    data[..len].copy_from_slice(&piece[..len]);
                    self.host.data_received(len, &mut events);
                    piece = &piece[len..];
                }
                self.host.receive(piece, &mut events);
            }
            if sent.is_empty() && answered.is_empty() {
                return events;
            }
        }
    }

    /// Sends a command and waits for its completion.
    fn send(&mut self, sqe: impl Into<Sqe>, data: &[u8], room: u32) -> (Cqe, Payload) {
        self.host.submit(sqe.into(), buf(data, room)).expect("the connection is there");
        let mut events = self.run();
        let Some(HostEvent::Completed { cqe, data }) = events.pop() else {
            panic!("no completion: {:?} {:?}", self.host.close_reason(), self.error)
        };
        assert!(events.is_empty() && self.host.outstanding() == 0);
        (cqe, Payload { bytes: data.received().to_vec(), damaged: data.damaged })
    }
}

/// The buffer of a command with `data` for the target, or `room` for data from it.
fn buf(data: &[u8], room: u32) -> Option<Buf> {
    match room as usize {
        0 if data.is_empty() => None,
        0 => Some(Buf::from(data)),
        room => Some(Buf::zeroed(room)),
    }
}

fn session_config(tcp: TargetConfig) -> SessionConfig {
    SessionConfig {
        tcp,
        io_queues: 4,
        init_timeout: Duration::from_secs(5),
        connect_timeout: Duration::from_secs(10),
        auth_timeout: Duration::from_secs(20),
        discovery_timeout: Duration::from_secs(30),
    }
}

/// The commands of a host: admin queue, enable, I/O queue, write, append, read, report.
fn connect_and_use(host: HostConfig, target: TargetConfig, piece: usize) {
    let base = Host::connected(&null());
    let mut admin = Wire::new(&base.subsystem, host, target, piece);
    assert!(matches!(admin.run()[..], [HostEvent::Ready]));
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

    let mut io = Wire::new(&base.subsystem, host, target, piece);
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
fn host_uses_the_target_from_connect_to_zone_report() {
    connect_and_use(HostConfig::default(), TargetConfig::default(), 1 << 16);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn digests_alignments_and_pieces_make_no_difference(
        (header, data, hpda, cpda) in (any::<bool>(), any::<bool>(), 0u8..32, 0u8..32),
        max_data in 4096u32..20000,
        piece in 1usize..5000,
    ) {
        let digests = Digests { header, data };
        let host = HostConfig { digests, alignment: hpda, ..HostConfig::default() };
        let max_data = max_data / 4 * 4;
        let target = TargetConfig { alignment: cpda, max_data, ..TargetConfig::default() };
        connect_and_use(host, target, piece);
    }
}

#[test]
fn damage_in_any_part_of_a_transfer_is_told_and_changes_nothing() {
    const PARTS: u32 = 5;
    let written: Vec<u8> = (0..PARTS * 4096).map(|at| (at % 251) as u8).collect();
    let host =
        HostConfig { digests: Digests { header: true, data: true }, ..HostConfig::default() };
    let target = TargetConfig { max_data: 4096, ..TargetConfig::default() };
    for (by_host, last) in [(false, false), (false, true), (true, false), (true, true)] {
        for (part, piece) in (0..PARTS as usize).flat_map(|part| [(part, 1 << 16), (part, 1000)]) {
            let base = Host::new(&null());
            let mut io = Wire::new(&base.subsystem, host, target, piece);
            io.run();
            let connect = connect_data(base.admin.cntlid(), NQN);
            io.send(connect_command(1, 127, 0), connect.as_bytes(), 0);
            if by_host {
                io.damage = Some(Damage { by_host, after: part, last });
                let status = io.send(rw(IoOpcode::WRITE, 0, PARTS), &written, 0).0.status();
                assert_eq!(status.code(), NvmeStatus::TRANSPORT, "part {part}");
                assert!(io.damage.is_none());
                let read = io.send(rw(IoOpcode::READ, 0, PARTS), &[], PARTS * 4096).1;
                assert!(read.bytes == vec![0; written.len()], "part {part}: it was written");
            }
            assert!(io.send(rw(IoOpcode::WRITE, 0, PARTS), &written, 0).0.status().is_success());
            io.damage = (!by_host).then_some(Damage { by_host, after: part, last });
            let (cqe, read) = io.send(rw(IoOpcode::READ, 0, PARTS), &[], PARTS * 4096);
            assert!(io.damage.is_none() && cqe.status().is_success());
            assert_eq!(read.damaged, !by_host, "part {part}");
            assert_eq!(read.bytes == written, by_host, "part {part}");
            let (_, read) = io.send(rw(IoOpcode::READ, 0, PARTS), &[], PARTS * 4096);
            assert!(!read.damaged && read.bytes == written, "the next one is whole");
        }
    }
}

/// The PDUs that answer a command.
fn answers(wire: &mut Wire, sqe: impl Into<Sqe>, room: u32) -> Vec<Pdu> {
    wire.host.submit(sqe.into(), buf(&[], room)).expect("the connection is there");
    wire.session.receive(&wire.host.take_unsent());
    while wire.session.poll(NOW).expect("the session goes on") {}
    let bytes = wire.session.take_unsent();
    let limits = DataLimits { in_capsule: 0, data: 1 << 20 };
    let (mut decoder, mut input) = (Decoder::new(Role::Controller, limits), &bytes[..]);
    let mut pdus = Vec::new();
    while let Some(pdu) = decoder.decode(&mut input).expect("valid PDUs") {
        pdus.push(pdu);
    }
    wire.host.receive(&bytes, &mut Vec::new());
    assert_eq!(wire.host.outstanding(), 0, "the host has its completion");
    pdus
}

#[test]
fn reads_of_a_queue_without_flow_control_end_with_their_data() {
    let base = Host::new(&null());
    for disabled in [false, true] {
        let config = TargetConfig { max_data: 4096, ..TargetConfig::default() };
        let mut io = Wire::new(&base.subsystem, HostConfig::default(), config, 1 << 16);
        io.run();
        let mut connect = ConnectCommand::from(connect_command(1 + u16::from(disabled), 127, 0));
        connect.attributes = if disabled { DISABLE_SQ_FLOW } else { 0 };
        let data = connect_data(base.admin.cntlid(), NQN);
        let connected = io.send(connect, data.as_bytes(), 0).0;
        assert_eq!(connected.sqhd.get() == SQ_FLOW_DISABLED, disabled);

        let pdus = answers(&mut io, rw(IoOpcode::READ, 0, 2), 8192);
        let data = pdus.iter().filter_map(|pdu| match pdu {
            Pdu::ControllerData { last, success, .. } => Some((*last, *success)),
            _ => None,
        });
        assert_eq!(data.collect::<Vec<_>>(), [(false, false), (true, disabled)]);
        assert_eq!(matches!(pdus.last(), Some(Pdu::Response(_))), !disabled);
        // An error, and a result, take a response.
        let pdus = answers(&mut io, rw(IoOpcode::READ, 1 << 40, 1), 4096);
        assert!(matches!(pdus[..], [Pdu::Response(_)]), "{pdus:?}");
    }
}

/// A target that has sent ICResp, and its output emptied.
fn initialized(config: TargetConfig) -> TargetConnection {
    let mut target = TargetConnection::new(config);
    assert!(receive(&mut target, &Pdu::IcReq(Initialize::default())).is_empty());
    target.take_unsent();
    target
}

fn receive(target: &mut TargetConnection, pdu: &Pdu) -> Vec<ReceivedCommand> {
    let mut bytes = Vec::new();
    encode(pdu, Format::default(), &mut bytes);
    receive_bytes(target, &bytes)
}

fn receive_bytes(target: &mut TargetConnection, bytes: &[u8]) -> Vec<ReceivedCommand> {
    target.receive(bytes);
    std::iter::from_fn(|| target.take_command()).collect()
}

/// The commands, all of which must be refused, with their statuses.
fn refused(commands: &[ReceivedCommand]) -> Vec<(Sqe, NvmeStatus)> {
    let refused = |command: &ReceivedCommand| match command.data {
        Err(status) => (command.sqe, status),
        Ok(_) => panic!("not refused: {:?}", command.sqe),
    };
    commands.iter().map(refused).collect()
}

fn write(cid: u16, length: u32) -> Pdu {
    let mut sqe = Sqe::new(IoOpcode::WRITE.0, cid, 1);
    sqe.dptr = Sgl::transport(length);
    Pdu::Command { sqe, data: Payload::default() }
}

fn data(cid: u16, ttag: u16, offset: u32, last: bool, len: usize) -> Pdu {
    Pdu::HostData { cid, ttag, offset, last, data: vec![1; len].into() }
}

/// The report to the peer: FES, FEI, and the header of the PDU that is at fault.
fn termination(output: &[u8], sender: Role) -> (u16, u32, Vec<u8>) {
    let limits = DataLimits { in_capsule: 0, data: 4096 };
    let mut decoder = Decoder::new(sender, limits);
    let (mut output, mut last) = (output, None);
    while let Some(pdu) = decoder.decode(&mut output).expect("valid PDUs") {
        last = Some(pdu);
    }
    let Some(Pdu::Terminate { status, information, header, .. }) = last else {
        panic!("no termination request: {last:?}")
    };
    (status, information, header)
}

/// The header of a PDU without digests.
fn header_of(pdu: &Pdu) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(pdu, Format::default(), &mut bytes);
    bytes.truncate(bytes[2].into());
    bytes
}

#[test]
fn host_that_breaks_a_rule_is_told_which() {
    let sequence = || Some((FatalError::Sequence, 0, "a PDU that may not come now"));
    let out = FatalError::OutOfRange;
    let field = FatalError::HeaderField;
    let marks = "LAST_PDU not set on the last data, or set on others";
    let r2t = |pdus: &[Pdu]| [&[write(7, 100)], pdus].concat();
    for (pdus, expected) in [
        (vec![Pdu::IcReq(Initialize::default())], sequence()),
        (vec![data(7, 0, 0, true, 10)], Some((field, 10, "data for no transfer"))),
        (r2t(&[data(8, 0, 0, true, 10)]), Some((field, 8, "data for no transfer"))),
        (r2t(&[data(7, 0, 4, true, 96)]), Some((out, 0, "data out of order"))),
        (r2t(&[data(7, 0, 0, false, 101)]), Some((out, 0, "more data than requested"))),
        (r2t(&[data(7, 0, 0, true, 99)]), Some((FatalError::Sequence, 0, marks))),
        (r2t(&[data(7, 0, 0, false, 100)]), Some((FatalError::Sequence, 0, marks))),
        (r2t(&[data(7, 0, 0, false, 50), data(7, 0, 50, true, 50)]), None),
        (
            vec![write(1, 8), write(2, 8), write(3, 8)],
            Some((FatalError::LimitExceeded, 0, "too many commands wait for data")),
        ),
    ] {
        let mut target = initialized(TargetConfig { max_r2ts: 2, ..TargetConfig::default() });
        pdus.iter().for_each(|pdu| {
            receive(&mut target, pdu);
        });
        let Some((fatal, information, what)) = expected else {
            assert_eq!(target.close_reason(), None);
            continue;
        };
        let reason = CloseReason::ProtocolError { fatal, information, what };
        assert_eq!(target.close_reason(), Some(&reason));
        let told = termination(&target.take_unsent(), Role::Controller);
        let header = header_of(pdus.last().expect("a PDU is at fault"));
        assert_eq!(told, (fatal as u16, information, header), "{what}");
        assert!(receive(&mut target, &write(9, 0)).is_empty(), "later PDUs are ignored");
    }
    let request = |change: fn(&mut Initialize)| {
        let mut request = Initialize::default();
        change(&mut request);
        Pdu::IcReq(request)
    };
    for (pdu, fatal, information) in [
        (write(1, 0), FatalError::Sequence, 0),
        (request(|request| request.version = 1), FatalError::Unsupported, 8),
        (request(|request| request.alignment = 32), FatalError::HeaderField, 10),
    ] {
        let mut target = TargetConnection::new(TargetConfig::default());
        receive(&mut target, &pdu);
        let told = termination(&target.take_unsent(), Role::Controller);
        assert_eq!(told, (fatal as u16, information, header_of(&pdu)));
    }
}

#[test]
fn r2ts_are_bounded_and_sent_in_turns() {
    let asked = |target: &mut TargetConnection| {
        let output = target.take_unsent();
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
    assert_eq!(asked(&mut target), [(9, 3, 2)]);
    receive(&mut target, &data(1, 0, 0, true, 100));
    assert_eq!(asked(&mut target), [], "the next exceeds the bound and has to be alone");
    receive(&mut target, &data(3, 2, 0, true, 100));
    assert_eq!(asked(&mut target), [(9, 4, 3)]);
    assert_eq!(receive(&mut target, &data(4, 3, 0, true, 300)).len(), 1);
    receive(&mut target, &write(5, 100));
    assert_eq!(asked(&mut target), [(9, 5, 3)], "the TTAG is reused");
}

#[test]
fn damaged_or_too_long_data_fail_the_command_and_not_the_connection() {
    let config = TargetConfig { max_transfer: 4096, ..TargetConfig::default() };
    let mut target = TargetConnection::new(config);
    let digests = Digests { header: false, data: true };
    receive(&mut target, &Pdu::IcReq(Initialize { digests, ..Initialize::default() }));
    let mut bytes = Vec::new();
    let format = Format { digests, alignment: 0 };
    encode(&data(7, 0, 0, true, 100), format, &mut bytes);
    bytes[30] ^= 1;
    let Pdu::Command { sqe, .. } = write(7, 100) else { unreachable!() };
    assert!(receive(&mut target, &write(7, 100)).is_empty(), "it waits for its data");
    assert_eq!(refused(&receive_bytes(&mut target, &bytes)), [(sqe, NvmeStatus::TRANSPORT)]);
    let Pdu::Command { sqe, .. } = write(8, 4097) else { unreachable!() };
    let status = NvmeStatus::INVALID_FIELD.do_not_retry();
    assert_eq!(refused(&receive(&mut target, &write(8, 4097))), [(sqe, status)]);
    assert_eq!(target.close_reason(), None);
}

#[test]
fn target_that_breaks_a_rule_is_told_which() {
    let begin = || {
        let mut host = HostConnection::new(HostConfig::default());
        let refused = host.submit(Sqe::new(2, 1, 1), None).unwrap_err();
        assert_eq!(refused.error, SubmitError::NotReady);
        let response = Initialize { limit: 4096, ..Initialize::default() };
        assert!(matches!(host_receives(&mut host, &Pdu::IcResp(response))[..], [HostEvent::Ready]));
        host.submit(Sqe::new(2, 7, 1), buf(&[], 100)).unwrap();
        host.submit(Sqe::new(1, 8, 1), buf(&[1; 10000], 0)).unwrap();
        let refused = host.submit(Sqe::new(2, 7, 1), buf(&[1; 10], 0)).unwrap_err();
        assert_eq!((refused.error, refused.buf.unwrap()[..].len()), (SubmitError::CidInUse(7), 10));
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
    for (pdu, fatal, information) in [
        (Pdu::IcResp(Initialize::default()), FatalError::Sequence, 0),
        (Pdu::Response(Cqe::new(9, NvmeStatus::SUCCESS)), FatalError::HeaderField, 20),
        (incoming(9, 0, true, false, 1), FatalError::HeaderField, 8),
        (incoming(7, 1, true, false, 1), FatalError::OutOfRange, 0),
        (incoming(7, 0, true, false, 101), FatalError::OutOfRange, 0),
        (incoming(7, 0, false, true, 1), FatalError::HeaderField, 1),
        (r2t(8, 0, 10001), FatalError::OutOfRange, 0),
        (r2t(8, u32::MAX, u32::MAX), FatalError::OutOfRange, 0),
        (r2t(8, 0, 0), FatalError::OutOfRange, 0),
        (r2t(7, 0, 1), FatalError::OutOfRange, 0),
        (r2t(9, 0, 1), FatalError::HeaderField, 8),
    ] {
        let mut host = begin();
        host.take_unsent();
        assert!(host_receives(&mut host, &pdu).is_empty());
        let told = termination(&host.take_unsent(), Role::Host);
        assert_eq!(told, (fatal as u16, information, header_of(&pdu)), "{pdu:?}");
    }
    let mut host = begin();
    host.take_unsent();
    let ended = host_receives(&mut host, &incoming(7, 0, true, true, 100));
    let [HostEvent::Completed { cqe, data }] = &ended[..] else { panic!("no response follows") };
    assert_eq!((*cqe, data.received()), (Cqe::new(7, NvmeStatus::SUCCESS), &[1; 100][..]));
    host.take_unsent();
    host_receives(&mut host, &r2t(8, 0, 10000));
    assert_eq!(host.unsent(), 10000 + 3 * 24, "pieces of MAXH2CDATA");

    let response = Initialize { limit: 4096, ..Initialize::default() };
    let digests = Digests { header: true, data: false };
    for (response, fatal, information) in [
        (Initialize { version: 1, ..response }, FatalError::Unsupported, 8),
        (Initialize { alignment: 32, ..response }, FatalError::HeaderField, 10),
        (Initialize { digests, ..response }, FatalError::HeaderField, 11),
        (Initialize { limit: 4095, ..response }, FatalError::HeaderField, 12),
    ] {
        let mut host = HostConnection::new(HostConfig::default());
        host.take_unsent();
        let response = Pdu::IcResp(response);
        host_receives(&mut host, &response);
        let told = termination(&host.take_unsent(), Role::Host);
        assert_eq!(told, (fatal as u16, information, header_of(&response)));
    }
}

/// A host with a write of `len` bytes in flight, none of which is sent.
fn writing(len: usize, in_capsule: u32) -> (HostConnection, Vec<u8>) {
    let mut host = HostConnection::new(HostConfig::default());
    host.take_unsent();
    let response = Initialize { limit: 1 << 20, ..Initialize::default() };
    host_receives(&mut host, &Pdu::IcResp(response));
    host.set_in_capsule(in_capsule);
    let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
    host.submit(Sqe::new(1, 3, 1), Some(Buf::from(&data[..]))).unwrap();
    (host, data)
}

/// A host with a write of `len` bytes in flight, whose data the target has requested.
fn requested(len: usize) -> (HostConnection, Vec<u8>) {
    let (mut host, data) = writing(len, 8192);
    host.take_unsent();
    let length = u32::try_from(len).unwrap();
    host_receives(&mut host, &Pdu::ReadyToTransfer { cid: 3, ttag: 1, offset: 0, length });
    (host, data)
}

#[test]
fn write_that_ends_before_its_data_were_sent_gives_its_buffer_back_when_they_are() {
    let (mut host, data) = requested(100_000);
    host.sent(24 + 5000);
    let response = Pdu::Response(Cqe::new(3, NvmeStatus::INTERNAL));
    assert!(host_receives(&mut host, &response).is_empty(), "its data are being sent");
    let reused = host.submit(Sqe::new(1, 3, 1), Some(Buf::zeroed(100_000)));
    assert_eq!(reused.map_err(|refused| refused.error), Err(SubmitError::CidInUse(3)));
    // The PDU that was begun goes on as it was.
    assert_eq!(host.take_unsent(), data[5000..]);
    let mut ended = Vec::new();
    host.receive(&[], &mut ended);
    let [HostEvent::Completed { data: ended, .. }] = &ended[..] else { panic!("it has ended") };
    assert_eq!(ended.buf.as_ref().unwrap()[..], data[..]);
    host.submit(Sqe::new(1, 3, 1), Some(Buf::zeroed(100_000))).unwrap();
    assert_eq!(host.outstanding(), 1);
}

#[test]
fn target_that_completes_a_command_twice_before_its_data_were_sent_breaks_a_rule() {
    let (mut host, _) = requested(100_000);
    let response = Pdu::Response(Cqe::new(3, NvmeStatus::INTERNAL));
    host_receives(&mut host, &response);
    assert!(host_receives(&mut host, &response).is_empty());
    assert!(host.close_reason().is_some());
}

/// A host's reaction to R2Ts of a write of 100,000 bytes: its error, and the most bytes that it sends.
fn after_r2ts(r2ts: &[(u32, u32)], sends: bool) -> (Option<u16>, usize) {
    let (mut host, _) = writing(100_000, 8192);
    host.take_unsent();
    let mut most = 0;
    for &(offset, length) in r2ts {
        host_receives(&mut host, &Pdu::ReadyToTransfer { cid: 3, ttag: 1, offset, length });
        most = most.max(host.unsent());
        if host.close_reason().is_some() {
            let all = host.take_unsent();
            let last = &all[all.len() - 48..];
            return (Some(termination(last, Role::Host).0), most);
        }
        if sends {
            host.take_unsent();
        }
    }
    (None, most)
}

#[test]
fn target_gets_the_data_of_a_write_in_order_and_once() {
    let honest: Vec<_> = (0..10).map(|number| (number * 10_000, 10_000)).collect();
    assert_eq!(after_r2ts(&honest, true), (None, 10_024));
    let limit = Some(FatalError::LimitExceeded as u16);
    let range = Some(FatalError::OutOfRange as u16);
    let most = 100_024 + 48;
    for (r2ts, sends, fatal) in [
        (&[(0, 100_000), (0, 100_000)][..], false, limit),
        (&[(0, 10_000), (10_000, 10_000)], false, limit),
        (&[(0, 100_000), (0, 100_000)], true, range),
        (&[(0, 10_000), (0, 10_000)], true, range),
        (&[(0, 10_000), (20_000, 10_000)], true, range),
        (&[(10_000, 10_000)], true, range),
    ] {
        let (found, unsent) = after_r2ts(r2ts, sends);
        assert_eq!(found, fatal, "{r2ts:?}");
        assert!(unsent <= most, "{unsent} bytes after {r2ts:?}");
    }
    // In its capsule.
    let (mut host, _) = writing(4096, 8192);
    host.take_unsent();
    host_receives(&mut host, &Pdu::ReadyToTransfer { cid: 3, ttag: 1, offset: 0, length: 4096 });
    assert!(host.close_reason().is_some(), "its data have been sent");
}

#[test]
fn target_that_never_reads_cannot_make_the_host_keep_more_than_is_in_flight() {
    let (mut host, _) = requested(100_000);
    assert_eq!(host.unsent(), 100_024);
    // It completes the command: that is in flight as long as its data are to be sent, and no other takes
    // its place.
    let response = Pdu::Response(Cqe::new(3, NvmeStatus::INTERNAL));
    assert!(host_receives(&mut host, &response).is_empty());
    let refused = host.submit(Sqe::new(1, 3, 1), Some(Buf::zeroed(100_000))).unwrap_err();
    assert_eq!(refused.error, SubmitError::CidInUse(3));
    // It requests the data again.
    let r2t = Pdu::ReadyToTransfer { cid: 3, ttag: 2, offset: 0, length: 100_000 };
    host_receives(&mut host, &r2t);
    assert!(host.close_reason().is_some() && host.unsent() < 100_100, "{} bytes", host.unsent());
}

#[test]
fn long_data_in_a_capsule_are_sent_from_where_they_are() {
    let (mut host, data) = writing(100_000, 1 << 20);
    let mut slices = [IoSlice::new(&[]); 4];
    assert_eq!(host.next_slices(&mut slices), 2);
    assert_eq!((slices[0].len(), &slices[1][..]), (72, &data[..]));
    let place = slices[1].as_ptr();
    let limits = DataLimits { in_capsule: 1 << 20, data: 0 };
    let mut decoder = Decoder::new(Role::Host, limits);
    decoder.decode(&mut &slices[0][..]).unwrap();
    let decoded = decoder.decode(&mut &slices[1][..]).unwrap();
    let Some(Pdu::Command { data: sent, .. }) = decoded else { panic!("{decoded:?}") };
    assert_eq!(sent.bytes, data);
    // The command ends early: the rest of the capsule is sent, and its buffer is given back.
    host.sent(72 + 5000);
    assert!(host_receives(&mut host, &Pdu::Response(Cqe::new(3, NvmeStatus::INTERNAL))).is_empty());
    assert_eq!(host.take_unsent(), data[5000..]);
    let mut ended = Vec::new();
    host.receive(&[], &mut ended);
    let [HostEvent::Completed { data: ended, .. }] = &ended[..] else { panic!("it has ended") };
    assert_eq!(ended.buf.as_ref().unwrap().as_ptr(), place, "the data were never copied");
}

#[test]
fn connection_that_ends_gives_back_the_buffers_of_commands_in_flight() {
    let (mut host, data) = requested(100_000);
    host.submit(Sqe::new(2, 5, 1), Some(Buf::zeroed(4096))).unwrap();
    host.submit(Sqe::new(0, 6, 1), None).unwrap();
    let bufs: Vec<_> = host.into_buffers().map(|(cid, buf)| (cid, buf.to_vec())).collect();
    assert_eq!(bufs, [(3, data), (5, vec![0; 4096])]);
}

fn host_receives(host: &mut HostConnection, pdu: &Pdu) -> Vec<HostEvent> {
    let (mut bytes, mut events) = (Vec::new(), Vec::new());
    encode(pdu, Format::default(), &mut bytes);
    host.receive(&bytes, &mut events);
    events
}

#[test]
fn termination_request_closes_the_connection_without_an_answer() {
    let mut target = initialized(TargetConfig::default());
    let sender = Role::Host;
    receive(
        &mut target,
        &Pdu::Terminate { sender, status: 6, information: 8, header: vec![1; 24] },
    );
    let peer = CloseReason::Peer { status: 6, information: 8 };
    assert_eq!(target.close_reason(), Some(&peer));
    assert!((target.unsent() == 0), "no answer");
}

/// A session with ICReq exchanged.
fn session(subsystem: &Arc<Subsystem>) -> Session<Anybody> {
    let config = session_config(TargetConfig::default());
    let mut session = Session::new(NOW, config, Anybody(Arc::clone(subsystem)));
    send(&mut session, &Pdu::IcReq(Initialize::default()));
    session.poll(NOW).expect("initialized");
    session.take_unsent();
    session
}

fn send(session: &mut Session<Anybody>, pdu: &Pdu) {
    let mut bytes = Vec::new();
    encode(pdu, Format::default(), &mut bytes);
    session.receive(&bytes);
}

fn connect(qid: u16, data: &ConnectData) -> Pdu {
    Pdu::Command { sqe: connect_command(qid, 7, 5000), data: data.as_bytes().to_vec().into() }
}

#[test]
fn session_ends_if_the_host_does_not_connect_or_may_not() {
    let host = Host::new(&null());
    let mut silent = session(&host.subsystem);
    let Wake::At(due) = silent.next_event() else { panic!("no deadline") };
    assert_eq!(silent.poll(Nanos(due.0 - 1)), Ok(false));
    let timeout = Duration::from_secs(10);
    assert_eq!(silent.poll(due), Err(SessionError::NoConnect(timeout)));

    let mut stranger = session(&host.subsystem);
    let mut data = connect_data(CNTLID_ANY, NQN);
    data.hostnqn = terminated("nqn.other");
    send(&mut stranger, &connect(0, &data));
    assert_eq!(stranger.poll(NOW), Err(SessionError::Refused("not allowed".to_owned())));
    assert!(stranger.unsent() > 0, "the host gets the response");

    let mut lost = session(&host.subsystem);
    send(&mut lost, &connect(0, &connect_data(CNTLID_ANY, "nqn.nothing")));
    assert!(matches!(lost.poll(NOW), Err(SessionError::Refused(_))));
}

#[test]
fn each_step_of_a_connection_has_its_deadline() {
    let host = Host::new(&null());
    let config = session_config(TargetConfig::default());
    let due = |session: &mut Session<Anybody>| {
        let Wake::At(due) = session.next_event() else { panic!("no deadline") };
        assert!(session.poll(Nanos(due.0 - 1)).is_ok());
        (due - NOW, session.poll(due))
    };
    let after = |seconds: u64, error: fn(Duration) -> SessionError| {
        (Nanos(seconds * 1_000_000_000 + 1), Err(error(Duration::from_secs(seconds))))
    };
    let mut silent = Session::new(NOW, config, Anybody(Arc::clone(&host.subsystem)));
    assert_eq!(due(&mut silent), after(5, SessionError::NoInitialize));
    let mut initialized = session(&host.subsystem);
    assert_eq!(due(&mut initialized), after(10, SessionError::NoConnect));
    let mut discovery = session(&host.subsystem);
    let sqe = connect_command(0, 7, 0);
    let data = connect_data(CNTLID_ANY, DISCOVERY_NQN).as_bytes().to_vec().into();
    send(&mut discovery, &Pdu::Command { sqe, data });
    assert_eq!(discovery.poll(NOW), Ok(true));
    assert!(!discovery.is_authenticated(), "anybody can reach it");
    assert_eq!(due(&mut discovery), after(30, SessionError::IdleDiscovery));
}

#[test]
fn host_can_send_little_before_it_has_authenticated() {
    let host = Host::new(&null());
    let mut asks = session(&host.subsystem);
    send(&mut asks, &write(1, 8193));
    assert!(matches!(asks.poll(NOW), Err(SessionError::Refused(_))));
    let mut long = session(&host.subsystem);
    let data = vec![0; 8193].into();
    send(&mut long, &Pdu::Command { sqe: connect_command(0, 7, 0), data });
    let error = long.poll(NOW).expect_err("closed");
    assert!(matches!(error, SessionError::Protocol(CloseReason::Pdu(_))), "{error}");
    let mut two = session(&host.subsystem);
    send(&mut two, &write(1, 8192));
    send(&mut two, &write(2, 8192));
    let error = two.poll(NOW).expect_err("closed");
    assert_eq!(error.to_string(), "too many commands wait for data");

    let mut io = session(&host.subsystem);
    send(&mut io, &connect(1, &connect_data(host.admin.cntlid(), NQN)));
    assert_eq!(io.poll(NOW), Ok(true));
    assert!(io.is_authenticated());
    send(&mut io, &write(1, 1 << 20));
    send(&mut io, &write(2, 1 << 20));
    assert!(io.poll(NOW).is_ok(), "both get an R2T");
}

#[test]
fn commands_behind_connect_wait_for_the_next_poll() {
    let host = Host::new(&null());
    let mut io = session(&host.subsystem);
    send(&mut io, &connect(1, &connect_data(host.admin.cntlid(), NQN)));
    send(&mut io, &Pdu::Command { sqe: rw(IoOpcode::READ, 0, 1).into(), data: Payload::default() });
    assert_eq!(io.poll(NOW), Ok(true));
    let mut channels = 0;
    io.for_each_channel(&mut |_| channels += 1);
    assert_eq!((channels, io.wants_input()), (0, false));
    assert_eq!(io.poll(NOW), Ok(true));
    io.for_each_channel(&mut |_| channels += 1);
    assert_eq!((channels, io.wants_input()), (1, true));
    while !io.drain(NOW) {}
}

#[test]
fn admin_session_ends_without_keep_alive() {
    let host = Host::new(&null());
    let mut admin = session(&host.subsystem);
    send(&mut admin, &connect(0, &connect_data(CNTLID_ANY, NQN)));
    assert_eq!(admin.poll(NOW), Ok(true));
    let Wake::At(due) = admin.next_event() else { panic!("no deadline") };
    assert_eq!(due, Nanos(NOW.0 + 5_000_000_000), "KATO");
    assert_eq!(admin.poll(due), Err(SessionError::KeepAlive));
    assert!(admin.drain(due), "no I/O");
}

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicU32);

impl WakeUp for Bell {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn io_queues_end_with_a_reset_a_shutdown_and_the_admin_queue() {
    type End = fn(Host) -> Option<Host>;
    let cases: [(&str, End); 3] = [
        ("reset", |mut host| {
            host.set(Property::CC, 0x46_0060);
            Some(host)
        }),
        ("shutdown", |mut host| {
            host.set(Property::CC, 0x46_4061);
            Some(host)
        }),
        ("admin queue", |_host| None),
    ];
    for (what, end) in cases {
        let host = Host::new(&null());
        let subsystem = Arc::clone(&host.subsystem);
        let data = connect_data(host.admin.cntlid(), NQN);
        let mut io = session(&subsystem);
        let bell = Arc::new(Bell::default());
        io.set_waker(Arc::clone(&bell) as _);
        send(&mut io, &connect(1, &data));
        assert_eq!(io.poll(NOW), Ok(true));
        let host = end(host);
        assert_eq!(bell.0.load(Ordering::Relaxed), 1, "{what} wakes the queue's thread");
        assert_eq!(io.poll(NOW), Err(SessionError::Reset), "{what}");
        let Some(mut host) = host else { continue };
        // Its identifier is free immediately, and stays in use when the old queue goes.
        host.set(Property::CC, 0x46_0060);
        host.set(Property::CC, 0x46_0061);
        let mut next = session(&subsystem);
        send(&mut next, &connect(1, &data));
        assert_eq!(next.poll(NOW), Ok(true), "{what}");
        drop(io);
        let mut twice = session(&subsystem);
        send(&mut twice, &connect(1, &data));
        assert!(matches!(twice.poll(NOW), Err(SessionError::Refused(_))), "{what}");
    }
}

#[test]
fn commands_wait_while_the_host_takes_no_data() {
    let zone = Bytes(1 << 20);
    let host = Host::new(&NullConfig { zone_size: zone, zone_capacity: None, ..null() });
    let mut io = session(&host.subsystem);
    send(&mut io, &connect(1, &connect_data(host.admin.cntlid(), NQN)));
    assert_eq!(io.poll(NOW), Ok(true));
    let read = |cid: u16, blocks: u32| {
        let mut sqe = Sqe::from(rw(IoOpcode::READ, 0, blocks));
        sqe.cid = cid.into();
        Pdu::Command { sqe, data: Payload::default() }
    };
    for cid in 1..5 {
        send(&mut io, &read(cid, 256));
        while io.poll(NOW).expect("there is room") {}
    }
    let unsent = io.unsent();
    assert!(unsent > 4 << 20, "the bound, and the framing");
    send(&mut io, &read(5, 1));
    assert_eq!((io.poll(NOW), io.unsent()), (Ok(false), unsent));
    assert!(!io.wants_input(), "nothing is received while a command waits");
    assert!(!io.has_commands(), "it is not started before the host has taken data");
    io.sent(unsent - (4 << 20));
    assert!(io.has_commands());
    while io.poll(NOW).expect("there is room") {}
    assert!(io.wants_input() && !io.has_commands());
    for cid in 6..15 {
        send(&mut io, &read(cid, 1));
    }
    io.take_unsent();
    assert_eq!(io.poll(NOW), Err(SessionError::Overrun), "the queue has 8 entries");
    while !io.drain(NOW) {}
}
