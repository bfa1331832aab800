//! The file system of a device with injected faults.
use rustix::io::Errno;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zonal_blk::{Buf, Nanos, Queue, QueueOptions, Status, ZoneCondition, ZoneNo};
use zonal_device::quantity::parse_size;
use zonal_device::{NullConfig, NullDevice};
use zonal_frontend::zonefs::{Attr, FileOp, OpenMode, Options, ROOT, Reply, WorkerPool, ZoneFs};
use zonal_os::RealClock;
use zonal_torture::fault::{AbortResponse, Effect, FaultSpec};
use zonal_torture::{FaultConfig, FaultDevice};

/// Bytes that a sequential file holds.
pub const CAPACITY: u64 = 768 << 10;
/// Bytes that a conventional file holds.
pub const ZONE: u64 = 1 << 20;
/// The device's block size.
pub const BLOCK: u64 = 4096;
/// The open mode that sequential files need.
pub const DIRECT: OpenMode = OpenMode { direct: true, append: false, sync: false };
/// The same, to append.
pub const APPEND: OpenMode = OpenMode { direct: true, append: true, sync: false };
/// Through the page cache.
pub const BUFFERED: OpenMode = OpenMode { direct: false, append: false, sync: false };
/// Zones before the first sequential one.
pub const CONVENTIONAL: u32 = 2;

/// A [`Reply`] that owns its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Data(Vec<u8>),
    Written(usize),
}

pub struct Files {
    pub device: Arc<FaultDevice>,
    pub queue: Arc<Queue>,
    pub workers: WorkerPool,
    pub said: Arc<Mutex<Vec<String>>>,
}

impl Files {
    /// Two conventional and six sequential zones, of which three may be open.
    pub fn new(options: &str) -> Self {
        Files::on(options, FaultConfig::default())
    }

    pub fn on(options: &str, faults: FaultConfig) -> Self {
        let config = NullConfig {
            zones: 8,
            zone_size: zonal_blk::Bytes(parse_size("1M").unwrap()),
            zone_capacity: Some(zonal_blk::Bytes(CAPACITY)),
            conventional: CONVENTIONAL,
            max_open: Some(3),
            lba: 4096,
            memory: true,
            ..NullConfig::default()
        };
        let device = FaultDevice::new(Arc::new(NullDevice::new(&config).unwrap()), faults);
        Files::of(device, options)
    }

    pub fn of(device: Arc<FaultDevice>, options: &str) -> Self {
        let queue_options = QueueOptions { share_queues: true, ..QueueOptions::default() };
        let queue = Queue::attach(device.clone(), queue_options).unwrap();
        let defaults = Options::default();
        let options = if options.is_empty() { defaults } else { defaults.with(options).unwrap() };
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let notes = Arc::clone(&said);
        let notify = Arc::new(move |what: &str| notes.lock().unwrap().push(what.to_owned()));
        let fs = ZoneFs::new(Arc::clone(&queue), options, notify).unwrap();
        Files {
            workers: WorkerPool::start(Arc::new(fs), RealClock::start(), 2).unwrap(),
            device,
            queue,
            said,
        }
    }

    pub fn fs(&self) -> &ZoneFs {
        self.workers.fs()
    }

    /// The attributes of a path such as `seq/0`.
    pub fn attr(&self, path: &str) -> Result<Attr, Errno> {
        let root = self.fs().attr(ROOT);
        path.split('/').fold(root, |parent, name| self.fs().lookup(parent?.node, name))
    }

    pub fn size(&self, path: &str) -> u64 {
        self.attr(path).unwrap().size
    }

    pub fn perm(&self, path: &str) -> u16 {
        self.attr(path).unwrap().perm
    }

    /// Submits an operation.
    pub fn begin(&self, path: &str, work: FileOp) -> Receiver<Result<Answer, Errno>> {
        let file = self.fs().file(self.attr(path).unwrap().node).unwrap();
        let (sender, receiver) = channel();
        self.workers.submit(file, work, move |ended| {
            let answer = ended.map(|reply| match reply {
                Reply::Done => Answer::Done,
                Reply::Data(data) => Answer::Data(data.to_vec()),
                Reply::Written(len) => Answer::Written(len),
            });
            sender.send(answer).unwrap();
        });
        receiver
    }

    pub fn ask(&self, path: &str, work: FileOp) -> Result<Answer, Errno> {
        ended(&self.begin(path, work))
    }

    pub fn open(&self, path: &str) -> Result<Answer, Errno> {
        self.ask(path, FileOp::Open { writes: true })
    }

    pub fn close(&self, path: &str) {
        assert_eq!(self.ask(path, FileOp::Close { wrote: true }), Ok(Answer::Done));
    }

    /// Writes bytes that depend on their offset.
    pub fn write(
        &self,
        path: &str,
        offset: u64,
        len: usize,
        open_mode: OpenMode,
    ) -> Result<Answer, Errno> {
        self.ask(path, write(offset, len, open_mode))
    }

    pub fn read(&self, path: &str, offset: u64, len: usize) -> Result<Answer, Errno> {
        self.ask(path, FileOp::Read { offset, len, open_mode: BUFFERED })
    }

    pub fn truncate(&self, path: &str, size: u64) -> Result<Answer, Errno> {
        self.ask(path, FileOp::Truncate { size })
    }

    /// The condition of the zone of a sequential file.
    pub fn condition(&self, file: u32) -> ZoneCondition {
        let mut zones = Vec::new();
        self.device.describe_zones(&mut zones);
        zones[(CONVENTIONAL + file) as usize].cond
    }

    /// Makes the zone of a sequential file fail.
    pub fn fail(&self, file: u32, to: ZoneCondition) {
        self.device.set_condition(ZoneNo(CONVENTIONAL + file), to).unwrap();
    }

    /// The next command fails after this effect.
    pub fn inject(&self, effect: Effect) {
        let fault = FaultSpec {
            delay: Nanos(0),
            effect,
            status: Some(Status::IoError),
            on_abort: AbortResponse::default(),
        };
        self.device.inject(false, fault);
    }
}

/// The result of an operation.
pub fn ended(work: &Receiver<Result<Answer, Errno>>) -> Result<Answer, Errno> {
    work.recv_timeout(Duration::from_secs(30)).expect("a reply")
}

/// The byte at an offset after [`Files::write`].
pub fn byte(offset: u64) -> u8 {
    u8::try_from((offset / 512).wrapping_add(offset) % 251).unwrap()
}

pub fn bytes(offset: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| byte(offset.wrapping_add(at))).collect()
}

pub fn write(offset: u64, len: usize, open_mode: OpenMode) -> FileOp {
    FileOp::Write { offset, data: Buf::from(&bytes(offset, len)[..]), open_mode }
}
