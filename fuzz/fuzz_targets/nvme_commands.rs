//! Any commands to an emulated controller and its I/O queue: each gets exactly one response. And any
//! messages to both sides of an authentication: nobody is authenticated without the secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Nanos, Queue, QueueOptions};
use zonal_device::device_spec;
use zonal_nvme::auth::{AuthConfig, AwaitChallenge, Group, AuthState};
use zonal_nvme::controller::{ConnectedQueue, Namespace, Subsystem, SubsystemConfig, Target};
use zonal_nvme::wire::auth::AuthCommand;
use zonal_nvme::wire::fabrics::{CNTLID_ANY, ConnectCommand, ConnectData, Property, PropertyCommand};
use zonal_nvme::wire::opcode::{FABRICS, FabricsType};
use zonal_nvme::wire::{Sgl, Sqe, terminated};

const NOW: Nanos = Nanos(0);
const NQN: &str = "nqn.2026-11.org.example:fuzz";
const HOST: &str = "nqn.host";
const SECRET: &str = "DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
const DEVICE: &str =
    "null:zones=8,zone_size=64K,zone_capacity=48K,lba=4K,max_open=2,max_active=3,memory=true,\
     zrwa=16K,zrwa_granularity=8K,max_zrwa=2,descriptor_extension=64";

fn connect(target: &Target, cntlid: u16, qid: u16) -> ConnectedQueue {
    let mut command = ConnectCommand::zeroed();
    (command.opcode, command.fctype) = (FABRICS, FabricsType::CONNECT.0);
    (command.qid, command.sqsize) = (qid.into(), 127.into());
    let mut data = ConnectData::zeroed();
    data.cntlid = cntlid.into();
    (data.subnqn, data.hostnqn) = (terminated(NQN), terminated(HOST));
    match target.connect(NOW, &command.into(), data.as_bytes()) {
        Ok((connected, _)) => connected,
        Err(answer) => panic!("not connected: {answer:?}"),
    }
}

fn config() -> SubsystemConfig {
    let text = |text: &str| text.to_owned();
    SubsystemConfig { nqn: text(NQN), serial: text("1"), model: text("fuzz"), firmware: text("1") }
}

/// Sends messages to a controller and to a host, after a challenge if `challenged`. An empty message
/// makes the host fetch one.
fn authenticate(challenged: bool, messages: Vec<Vec<u8>>) {
    let secrets = format!("{HOST} {SECRET} {SECRET}").parse().expect("a list of secrets");
    let auth = AuthConfig::new(secrets, Arc::new(|bytes: &mut [u8]| bytes.fill(0x5a)));
    let auth = AuthConfig { groups: vec![Group::Null, Group::Ffdhe2048], ..auth };
    let subsystem = Subsystem::authenticated(config(), auth.clone());
    let ConnectedQueue::Admin(mut admin) = connect(&Target::new(vec![subsystem], Arc::default()), CNTLID_ANY, 0) else {
        panic!("no admin")
    };
    let mut submit = |fctype: FabricsType, data: &[u8], len: usize| {
        let mut command = AuthCommand::zeroed();
        (command.opcode, command.fctype) = (FABRICS, fctype.0);
        (command.protocol, command.specific_0, command.specific_1) = (0xe9, 1, 1);
        command.length = u32::try_from(len).expect("short").into();
        command.dptr = Sgl::transport(command.length.get());
        let mut responses = Vec::new();
        admin.submit(NOW, &command.into(), data, &mut responses);
        assert_eq!(responses.len(), 1);
        assert_ne!(admin.auth_state(), AuthState::Authenticated);
        responses.remove(0).data.map_or_else(Vec::new, |data| data.to_vec())
    };
    let auth = Arc::new(auth);
    let begin = || AwaitChallenge::begin(&auth, HOST, NQN, 0x5a5a).expect("a secret");
    let mut challenge = Vec::new();
    if challenged {
        submit(FabricsType::AUTH_SEND, &begin().0, 72);
        challenge = submit(FabricsType::AUTH_RECEIVE, &[], 4096);
    }
    for message in messages {
        let _ = begin().1.take(&message);
        if challenged {
            let (_, waits) = begin().1.take(&challenge).expect("a challenge");
            assert!(waits.take(&message).is_err());
        }
        match message.len() {
            0 => drop(submit(FabricsType::AUTH_RECEIVE, &[], 4096)),
            len => drop(submit(FabricsType::AUTH_SEND, &message, len)),
        }
    }
}

fuzz_target!(|input: (Vec<(bool, [u8; 32], [u8; 32], u16)>, bool, Vec<Vec<u8>>)| {
    let (input, challenged, messages) = input;
    if !messages.is_empty() {
        authenticate(challenged, messages);
    }
    let device = device_spec::build(&device_spec::parse(DEVICE).expect("a spec")).expect("a device");
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(device, options).expect("a queue");
    let subsystem = Subsystem::new(config());
    let namespace = Namespace::new(queue, [1; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    let target = Target::new(vec![subsystem], Arc::default());
    let ConnectedQueue::Admin(mut admin) = connect(&target, CNTLID_ANY, 0) else { panic!("no admin") };
    let mut enable = PropertyCommand::zeroed();
    (enable.opcode, enable.fctype) = (FABRICS, FabricsType::PROPERTY_SET.0);
    (enable.offset, enable.value) = (Property::CC.0.into(), 0x46_0061.into());
    let mut responses = Vec::new();
    admin.submit(NOW, &enable.into(), &[], &mut responses);
    let ConnectedQueue::Io(mut io) = connect(&target, admin.cntlid(), 1) else { panic!("no I/O") };
    for (to_admin, first, second, len) in input {
        let mut sqe = Sqe::read_from_bytes(&[first, second].concat()).expect("64 bytes");
        sqe.flags = 0x40;
        let data = vec![0x5a; usize::from(len)];
        if to_admin {
            admin.submit(NOW, &sqe, &data, &mut responses);
            continue;
        }
        let (before, waiting) = (responses.len(), io.outstanding());
        sqe.nsid = 1.into();
        io.submit(NOW, &sqe, Some(zonal_blk::Buf::from(&data[..])), &mut responses);
        assert_eq!(responses.len() - before + io.outstanding() - waiting, 1);
        while io.outstanding() > 0 {
            io.poll(NOW, &mut responses);
        }
    }
});
