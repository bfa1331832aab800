//! The hosts of the exports: what a driver does, without waiting, so that commands are in flight when the server is
//! killed.
use crate::model::{Command, SECTOR, Work};
use std::time::{Duration, Instant};
use zonal_backend::Stack;
use zonal_blk::{
    Bio, BioFlags, Buf, Channel, Clock, Op, QueueOptions, Sector, Status, Zone, ZoneAttributes,
    ZoneCondition, ZoneKind, ZoneNo,
};
use zonal_os::RealClock;

/// How long anything may take on a crowded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Commands that a host can have in flight.
pub const DEPTH: usize = 12;
/// The longest transfer, in sectors.
pub const MAX_SECTORS: u64 = 64;

/// Which writes are durable when they are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fua {
    /// None.
    Never,
    /// Those that ask for it.
    OnRequest,
    /// All.
    Always,
}

/// How a host was told that what was answered is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutDown {
    /// By an answer.
    Answered,
    /// By the end of the server, with success.
    WithServer,
}

/// A host with its connection. What it cannot do with a server that runs is a panic.
pub trait Host {
    fn fua(&self) -> Fua;

    /// Whether several writes to a sequential zone may be in flight.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Starts a command, in a slot that is free. A write has data.
    fn submit(&mut self, slot: usize, command: &Command, data: &[u8]);

    /// Adds the slots whose commands were answered, and whether they succeeded.
    fn poll(&mut self, ended: &mut Vec<(usize, bool)>);

    /// Adds what a server had answered before it was killed.
    fn poll_after_kill(&mut self, ended: &mut Vec<(usize, bool)>) {
        self.poll(ended);
    }

    /// Reads sectors, with nothing in flight.
    ///
    /// # Errors
    /// The status.
    fn read(&mut self, namespace: usize, sector: u64, len: u64) -> Result<Vec<u8>, String>;

    /// The sequential zones of a namespace, with nothing in flight.
    fn zones(&mut self, namespace: usize) -> Vec<Zone>;

    /// Shuts the device down as a host does that goes away, with commands in flight; `None` if the export
    /// has nothing for that.
    fn shut_down(&mut self) -> Option<ShutDown>;
}

/// A number of a report.
pub fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A sequential zone by its descriptor, in units of so many sectors.
pub fn reported(unit: u64, [capacity, start, wp]: [u64; 3], kind: u8, condition: u8) -> Zone {
    let cond = match condition {
        1 => ZoneCondition::Empty,
        2 => ZoneCondition::ImplicitOpen,
        3 => ZoneCondition::ExplicitOpen,
        4 => ZoneCondition::Closed,
        0xe => ZoneCondition::Full,
        other => panic!("condition {other} of a zone"),
    };
    assert_eq!(kind, 2, "a sequential zone");
    Zone {
        start: Sector(start * unit),
        len: Sector(0),
        capacity: Sector(capacity * unit),
        wp: Sector(wp.saturating_mul(unit)),
        kind: ZoneKind::SequentialRequired,
        cond,
        attributes: ZoneAttributes::NONE,
    }
}

/// Waits until `is_so`.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A host of a device that has a name: an NVMe/TCP host for each namespace, or the user of a block device.
pub struct Named {
    clock: RealClock,
    channels: Vec<Channel>,
    /// Shuts a controller down.
    shut_down: Option<Box<dyn Fn()>>,
}

impl Named {
    pub fn open(names: &[String], shut_down: Option<Box<dyn Fn()>>) -> Self {
        let open = |name: &String| {
            let stack = Stack::open(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let stack = stack.attach(QueueOptions::default()).expect("a queue");
            stack.queue.channel().expect("a channel")
        };
        let channels = names.iter().map(open).collect();
        Named { clock: RealClock::start(), channels, shut_down }
    }

    fn outstanding(&self) -> usize {
        self.channels.iter().map(Channel::outstanding).sum()
    }
}

impl Host for Named {
    fn fua(&self) -> Fua {
        Fua::OnRequest
    }

    fn submit(&mut self, slot: usize, command: &Command, data: &[u8]) {
        let slot = slot as u64;
        let bio = match command.work {
            Work::Write { sector, fua, .. } => {
                let mut bio = Bio::write(Sector(sector), Buf::from(data), slot);
                bio.flags = if fua { BioFlags::FUA } else { BioFlags::NONE };
                bio
            }
            Work::Flush => Bio::new(Op::Flush, Sector(0), 0, slot),
            Work::Reset { sector } => Bio::new(Op::ZoneReset, Sector(sector), 0, slot),
            Work::Finish { sector } => Bio::new(Op::ZoneFinish, Sector(sector), 0, slot),
        };
        self.channels[command.namespace].submit(self.clock.now(), bio);
    }

    fn poll(&mut self, ended: &mut Vec<(usize, bool)>) {
        let mut completions = Vec::new();
        for channel in &mut self.channels {
            channel.poll(self.clock.now(), &mut completions);
        }
        ended.extend(completions.into_iter().map(|completion| {
            let slot = usize::try_from(completion.user_data).expect("a slot");
            (slot, completion.status == Status::Ok)
        }));
    }

    /// Until the connection has ended, and the commands without an answer with it.
    fn poll_after_kill(&mut self, ended: &mut Vec<(usize, bool)>) {
        wait_until("the end of the connection", || {
            self.poll(ended);
            self.outstanding() == 0
        });
    }

    fn read(&mut self, namespace: usize, sector: u64, len: u64) -> Result<Vec<u8>, String> {
        let channel = &mut self.channels[namespace];
        let len = u32::try_from(len).expect("a short read");
        let buf = Buf::zeroed(len as usize * SECTOR);
        channel.submit(
            self.clock.now(),
            Bio { buf: Some(buf), ..Bio::new(Op::Read, Sector(sector), len, 0) },
        );
        let mut completions = Vec::new();
        wait_until("a read", || channel.poll(self.clock.now(), &mut completions) > 0);
        let completion = completions.remove(0);
        match (completion.status, completion.buf) {
            (Status::Ok, Some(buf)) => Ok(buf.to_vec()),
            (status, _) => Err(format!("{status:?}")),
        }
    }

    fn zones(&mut self, namespace: usize) -> Vec<Zone> {
        let queue = self.channels[namespace].queue();
        let mut zones = Vec::new();
        if queue.limits().nr_zones > 0 {
            queue.report_zones(ZoneNo(0), usize::MAX, &mut zones).expect("a report");
        }
        zones.retain(|zone| zone.kind == ZoneKind::SequentialRequired);
        zones
    }

    fn shut_down(&mut self) -> Option<ShutDown> {
        self.shut_down.as_ref().map(|shut_down| {
            shut_down();
            ShutDown::Answered
        })
    }
}
