//! Any commands to an emulated controller and its I/O queue: each is answered, none breaks it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};
use zonal_blk::{Nanos, Queue, QueueOptions};
use zonal_device::spec;
use zonal_nvme::controller::{Connected, Namespace, Subsystem, SubsystemConfig, Target};
use zonal_nvme::wire::fabrics::{CNTLID_ANY, ConnectCommand, ConnectData, PropertyCommand};
use zonal_nvme::wire::opcode::{FABRICS, FabricsType};
use zonal_nvme::wire::property::Property;
use zonal_nvme::wire::{Sqe, terminated};

const NOW: Nanos = Nanos(0);
const NQN: &str = "nqn.2026-11.org.example:fuzz";
const DEVICE: &str =
    "null:zones=8,zone_size=64K,zone_capacity=48K,lba=4K,max_open=2,max_active=3,memory=true";

fn connect(target: &Target, cntlid: u16, qid: u16) -> Connected {
    let mut command = ConnectCommand::zeroed();
    (command.opcode, command.fctype) = (FABRICS, FabricsType::CONNECT.0);
    (command.qid, command.sqsize) = (qid.into(), 127.into());
    let mut data = ConnectData::zeroed();
    data.cntlid = cntlid.into();
    (data.subnqn, data.hostnqn) = (terminated(NQN), terminated("nqn.host"));
    match target.connect(NOW, &command.into(), data.as_bytes()) {
        Ok((connected, _)) => connected,
        Err(answer) => panic!("not connected: {answer:?}"),
    }
}

fuzz_target!(|input: Vec<(bool, [u8; 32], [u8; 32], u16)>| {
    let device = spec::build(&spec::parse(DEVICE).expect("a spec")).expect("a device");
    let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(device, options).expect("a queue");
    let text = |text: &str| text.to_owned();
    let subsystem = Subsystem::new(SubsystemConfig {
        nqn: text(NQN),
        serial: text("1"),
        model: text("fuzz"),
        firmware: text("1"),
    });
    let namespace = Namespace::new(queue, [1; 16]).expect("a namespace");
    subsystem.add(1, Arc::new(namespace)).expect("a free identifier");
    let target = Target::new(vec![subsystem]);
    let Connected::Admin(mut admin) = connect(&target, CNTLID_ANY, 0) else { panic!("no admin") };
    let mut enable = PropertyCommand::zeroed();
    (enable.opcode, enable.fctype) = (FABRICS, FabricsType::PROPERTY_SET.0);
    (enable.offset, enable.value) = (Property::CC.0.into(), 0x46_0061.into());
    let mut answers = Vec::new();
    admin.submit(NOW, &enable.into(), &[], &mut answers);
    let Connected::Io(mut io) = connect(&target, admin.cntlid(), 1) else { panic!("no I/O") };
    for (to_admin, first, second, len) in input {
        let mut sqe = Sqe::read_from_bytes(&[first, second].concat()).expect("64 bytes");
        sqe.flags = 0x40;
        let data = vec![0x5a; usize::from(len)];
        if to_admin {
            admin.submit(NOW, &sqe, &data, &mut answers);
            continue;
        }
        let (before, waiting) = (answers.len(), io.outstanding());
        sqe.nsid = 1.into();
        io.submit(NOW, &sqe, &data, &mut answers);
        assert_eq!(answers.len() - before + io.outstanding() - waiting, 1);
        while io.outstanding() > 0 {
            io.poll(NOW, &mut answers);
        }
    }
});
