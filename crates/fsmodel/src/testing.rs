//! A test harness for file systems: single operations, and disks with random latencies.
use super::{BlockIo, Content, Effects, FileId, FileOp, FileSystem, OpId};
use std::collections::BTreeMap;
use zonal_blk::{
    Completion, Limits, Nanos, Op, Sector, Status, Zone, ZoneAttributes, ZoneCondition, ZoneKind,
};
use zonal_fio::rng::Rng;

/// The file of most tests.
pub(super) const FILE: FileId = FileId { owner: 0, number: 0 };

/// A disk with commands of up to 64 KiB; with zones of 256 KiB or without.
pub(super) fn limits(zones: u32) -> Limits {
    let regular = Limits::regular(Sector(1 << 20));
    let zone_size = Sector(if zones > 0 { 512 } else { 0 });
    Limits { nr_zones: zones, zone_size, max_sectors: 128, queue_depth: 32, ..regular }
}

/// Empty zones of 256 KiB, the first `conventional` of them conventional.
pub(super) fn zones(count: u64, conventional: u64) -> Vec<Zone> {
    let zone = |number| {
        let (kind, cond) = if number < conventional {
            (ZoneKind::Conventional, ZoneCondition::NotWritePointer)
        } else {
            (ZoneKind::SequentialRequired, ZoneCondition::Empty)
        };
        let (start, len) = (Sector(number * 512), Sector(512));
        Zone { start, len, capacity: len, wp: start, kind, cond, attributes: ZoneAttributes::NONE }
    };
    (0..count).map(zone).collect()
}

/// A file system and its I/O.
pub(super) struct Harness {
    pub(super) fs: Box<dyn FileSystem>,
    pub(super) now: Nanos,
    effects: Effects,
    in_flight: BTreeMap<(Nanos, u64), BlockIo>,
    /// By zone start, sectors appended.
    appended: BTreeMap<Sector, u64>,
    rng: Rng,
    /// All block I/Os, in order of submission.
    pub(super) sent: Vec<BlockIo>,
    /// The same in order of completion, with the sectors of appends.
    pub(super) done: Vec<BlockIo>,
    pub(super) completed: Vec<(OpId, Status)>,
}

impl Harness {
    pub(super) fn new(fs: impl FileSystem + 'static, seed: u64) -> Self {
        Harness {
            fs: Box::new(fs),
            now: Nanos(0),
            effects: Effects::default(),
            in_flight: BTreeMap::new(),
            appended: BTreeMap::new(),
            rng: Rng::new(seed, [0; 4]),
            sent: Vec::new(),
            done: Vec::new(),
            completed: Vec::new(),
        }
    }

    /// Starts an operation of a process.
    pub(super) fn start(&mut self, process: u32, file: FileId, op: FileOp) {
        let id = OpId { process, slot: 0 };
        self.fs.start(self.now, id, file, op, &mut self.effects);
        self.take();
    }

    /// Runs an operation to completion.
    pub(super) fn run(&mut self, file: FileId, op: FileOp) {
        let before = self.completed.len();
        self.start(0, file, op);
        while self.completed.len() == before {
            assert!(self.step(), "the operation does not complete: {op:?}");
        }
    }

    /// Advances the time.
    pub(super) fn advance(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.next().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Stops the file system and completes what is in flight.
    pub(super) fn drain(&mut self) {
        self.fs.stop();
        while !self.in_flight.is_empty() {
            self.step();
        }
    }

    fn next(&self) -> Option<Nanos> {
        let first = self.in_flight.first_key_value().map(|(key, _)| key.0);
        first.into_iter().chain(self.fs.next_event()).min()
    }

    /// Processes the next event; returns whether there was one.
    fn step(&mut self) -> bool {
        let Some(at) = self.next() else {
            return false;
        };
        self.now = self.now.max(at);
        if let Some((&key, _)) = self.in_flight.first_key_value()
            && key.0 <= self.now
        {
            let mut io = self.in_flight.remove(&key).expect("just seen");
            if io.op == Op::ZoneAppend {
                let wp = self.appended.entry(io.sector).or_default();
                let place = io.sector + Sector(*wp);
                *wp += u64::from(io.nr_sectors);
                io.sector = place;
            }
            if io.op == Op::ZoneReset {
                self.appended.remove(&io.sector);
            }
            let (user_data, sector) = (io.id, io.sector);
            let completion =
                Completion { user_data, status: Status::Ok, refused: false, sector, buf: None };
            self.done.push(io);
            self.fs.complete(self.now, &completion, &mut self.effects);
        } else {
            self.fs.wake(self.now, &mut self.effects);
        }
        self.take();
        true
    }

    fn take(&mut self) {
        assert_eq!(self.effects.failed, None);
        for io in self.effects.ios.drain(..) {
            let due = self.now + Nanos(1_000 + self.rng.below(100_000));
            self.in_flight.insert((due, io.id), io.clone());
            self.sent.push(io);
        }
        self.completed.append(&mut self.effects.completed);
    }

    /// The I/Os submitted since the last call, one per line.
    pub(super) fn text(&mut self) -> String {
        std::mem::take(&mut self.sent).iter().map(|io| line(io) + "\n").collect()
    }
}

fn line(io: &BlockIo) -> String {
    let kib = |sectors: u64| format!("{}K", sectors as f64 / 2.0);
    let what = match &io.content {
        Content::Data { file, offset } => {
            format!(" file {}.{} from {}", file.owner, file.number, kib(offset / 512))
        }
        Content::Multiple(parts) => format!(" {} records", parts.len()),
        Content::Metadata => " metadata".to_owned(),
        Content::None => String::new(),
    };
    let op = format!("{:?}", io.op).to_lowercase();
    format!("{op} disk {} at {} {}{what}", io.disk, kib(io.sector.0), kib(io.nr_sectors.into()))
}
