//! The same with data that are lent: to a device that makes them buffers of its ring, as far as the
//! kernel lets it.
use super::{Rig, attach, block, check_events, event};
use proptest::prelude::*;
use std::any::Any;
use std::sync::{Arc, Mutex};
use zonal_blk::{
    Device, ExternalMemory, HwQueue, Limits, Nanos, Op, Queue, QueueOptions, Request, Status, Wake,
    Zone, ZoneNo,
};

/// The pages of a tag's request.
#[derive(Clone, Debug, Default)]
struct IoBuffers {
    data: Vec<u8>,
    /// How many buffers of rings they are.
    registered: u32,
}

/// The driver, as it lends pages and has them copied.
#[derive(Default)]
pub struct Lending {
    tags: Mutex<Vec<IoBuffers>>,
    counts: Mutex<Counts>,
    /// One in this many is not lent.
    refuses: Option<u32>,
    /// Requests are cut in this many parts.
    parts: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    lent: u32,
    asked: u32,
    registered: u32,
    unregistered: u32,
    copied: u32,
}

impl Lending {
    fn new(depth: usize, refuses: Option<u32>) -> Arc<Self> {
        let tags = Mutex::new(vec![IoBuffers::default(); depth]);
        Arc::new(Lending { tags, refuses, parts: 1, ..Lending::default() })
    }

    fn with<T>(&self, tag: u64, act: impl FnOnce(&mut IoBuffers) -> T) -> T {
        act(&mut self.tags.lock().expect("no panic")[usize::try_from(tag).expect("a tag")])
    }

    fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.lock().expect("no panic"));
    }

    /// A request comes, with its pages.
    pub fn lay(&self, tag: u16, data: Vec<u8>) {
        self.with(tag.into(), |pages| *pages = IoBuffers { data, registered: 0 });
    }

    /// A queue asks for its pages.
    pub fn external_buf(&self) {
        self.count(|counts| counts.lent += 1);
    }

    /// Copies what the request writes.
    pub fn copy_from_request(&self, tag: u64, at: usize, data: &mut [u8]) -> Result<(), Status> {
        self.with(tag, |pages| {
            let from = pages.data.get(at..at + data.len()).ok_or(Status::IoError)?;
            data.copy_from_slice(from);
            Ok(())
        })
    }

    /// Copies what it reads.
    pub fn copy_to_request(&self, tag: u64, at: usize, data: &[u8]) -> Result<(), Status> {
        self.with(tag, |pages| {
            let to = pages.data.get_mut(at..at + data.len()).ok_or(Status::IoError)?;
            to.copy_from_slice(data);
            Ok(())
        })
    }

    /// It is committed.
    pub fn back(&self, tag: u16) -> Vec<u8> {
        self.with(tag.into(), |pages| {
            assert_eq!(pages.registered, 0, "tag {tag} is committed when its pages are back");
            std::mem::take(&mut pages.data)
        })
    }

    fn register(&self, tag: u64) -> bool {
        let mut refused = false;
        self.count(|counts| {
            counts.asked += 1;
            refused = self.refuses.is_some_and(|every| counts.asked.is_multiple_of(every));
            counts.registered += u32::from(!refused);
        });
        if !refused {
            self.with(tag, |pages| {
                pages.registered += 1;
                assert!(pages.registered <= self.parts, "tag {tag} is registered once");
            });
        }
        !refused
    }

    fn unregister(&self, tag: u64) {
        self.with(tag, |pages| {
            assert!(pages.registered > 0, "tag {tag} was registered");
            pages.registered -= 1;
        });
        self.count(|counts| counts.unregistered += 1);
    }
}

impl ExternalMemory for Lending {
    fn read(&self, token: u64, at: usize, data: &mut [u8]) -> Result<(), Status> {
        self.count(|counts| counts.copied += 1);
        self.copy_from_request(token, at, data)
    }

    fn write(&self, token: u64, at: usize, data: &[u8]) -> Result<(), Status> {
        self.count(|counts| counts.copied += 1);
        self.copy_to_request(token, at, data)
    }
}

const LIMITS: Limits = Limits {
    lba_size: 4096,
    queue_depth: 2,
    max_sectors: 256,
    ..Limits::regular(zonal_blk::Sector(2048))
};

/// A disk that is lent data.
struct Disk(Mutex<Vec<u8>>);

impl Disk {
    fn attach() -> Arc<Queue> {
        let disk = Arc::new(Disk(Mutex::new(vec![0; 1 << 20])));
        let options = QueueOptions { share_queues: true, ..QueueOptions::default() };
        Queue::attach(disk, options).expect("a queue")
    }
}

impl Device for Disk {
    fn limits(&self) -> &Limits {
        &LIMITS
    }

    fn report_zones(&self, _: ZoneNo, _: usize, _: &mut Vec<Zone>) -> Result<(), Status> {
        Err(Status::NotSupported)
    }

    fn external_buf_alignment(&self) -> Option<u32> {
        Some(512)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(DiskQueue { disk: self, moving: Vec::new() })
    }
}

struct DiskQueue {
    disk: Arc<Disk>,
    /// When each ends, and whether its pages are a buffer.
    moving: Vec<(Nanos, bool, Box<Request>)>,
}

impl DiskQueue {
    fn end(&self, registered: bool, request: &mut Request) -> Status {
        let bytes = &mut *self.disk.0.lock().expect("no panic");
        let at = usize::try_from(request.sector().to_bytes().0).expect("it fits");
        let place = at..at + request.nr_sectors() as usize * 512;
        let op = request.op();
        if op == Op::Flush {
            return Status::Ok;
        }
        let Some(lent) = request.external_buf() else {
            let mut rest = bytes.get_mut(place).unwrap_or_default();
            request.for_each_segment(|_, sectors, buf| {
                let (part, behind) = std::mem::take(&mut rest).split_at_mut(sectors as usize * 512);
                let zeroes = buf
                    .is_some_and(|buf| buf.as_external().is_none() && buf.iter().all(|&b| b == 0));
                assert!(op == Op::Write && zeroes, "all else that moves is lent");
                part.fill(0);
                rest = behind;
            });
            return Status::Ok;
        };
        let lending = (lent.memory() as &dyn Any).downcast_ref::<Lending>().expect("it lends");
        let moved = match (registered, op) {
            (true, Op::Read) => lending.copy_to_request(lent.token(), lent.offset(), &bytes[place]),
            (true, _) => lending.copy_from_request(lent.token(), lent.offset(), &mut bytes[place]),
            (false, Op::Read) => lent.write(&bytes[place]),
            (false, _) => lent.read(&mut bytes[place]),
        };
        if registered {
            lending.unregister(lent.token());
        }
        moved.map_or_else(|status| status, |()| Status::Ok)
    }
}

impl HwQueue for DiskQueue {
    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        let registered = request.external_buf().is_some_and(|lent| {
            let lending = (lent.memory() as &dyn Any).downcast_ref::<Lending>();
            lending.expect("it lends").register(lent.token())
        });
        // The later ones end before the earlier ones.
        let time = Nanos(1000 * (100 - request.sector().0 % 100));
        self.moving.push((now + time, registered, request));
        Ok(())
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        let (ended, moving) =
            std::mem::take(&mut self.moving).into_iter().partition(|(at, ..)| *at <= now);
        self.moving = moving;
        let ended: Vec<(Nanos, bool, Box<Request>)> = ended;
        for (_, registered, mut request) in ended {
            let status = self.end(registered, &mut request);
            request.set_status(status);
            done.push(request);
        }
    }

    fn next_event(&self) -> Wake {
        self.moving.iter().map(|(at, ..)| *at).min().map_or(Wake::Idle, Wake::At)
    }
}

#[test]
fn data_that_are_lent_are_copied_nowhere() {
    let lending = Lending::new(2, None);
    let mut rig = Rig::over(Disk::attach(), 2, Some(Arc::clone(&lending)));
    assert_eq!(rig.one(1, 8, 8, block(5)), (4096, 0));
    assert_eq!(rig.one(0, 0, 16, vec![9; 8192]), (8192, 0));
    assert_eq!(rig.queue.driver.slot(0).data, [block(0), block(5)].concat());
    assert_eq!(rig.one(0, 0, 16, vec![9; 512]), (-5, 0), "less room than it says");
    assert_eq!(rig.one(2, 0, 0, Vec::new()), (0, 0), "a flush has no data");
    let counts = *lending.counts.lock().expect("no panic");
    assert_eq!(counts, Counts { lent: 3, asked: 3, registered: 3, unregistered: 3, copied: 0 });
    rig.stop();
}

/// Requests that are longer than what the device takes by now.
#[test]
fn parts_of_a_request_are_lent_each_for_itself() {
    let lending = Lending::new(2, Some(3));
    let lending = Arc::new(Lending { parts: 2, ..Arc::into_inner(lending).expect("the only one") });
    let device = Disk::attach();
    let mut rig = Rig::over(Arc::clone(&device), 2, Some(Arc::clone(&lending)));
    device.freeze();
    device.set_max_sectors(8).expect("a block");
    device.unfreeze();
    assert_eq!(rig.one(1, 8, 16, [block(5), block(6)].concat()), (8192, 0));
    assert_eq!(rig.one(0, 8, 16, vec![9; 8192]), (8192, 0));
    assert_eq!(rig.queue.driver.slot(0).data, [block(5), block(6)].concat());
    let counts = *lending.counts.lock().expect("no panic");
    assert_eq!(counts, Counts { lent: 2, asked: 4, registered: 3, unregistered: 3, copied: 1 });
    rig.stop();
}

#[test]
fn device_that_takes_no_lent_data_gets_copies() {
    let device = attach("null:zoned=false,size=1M,memory=true", QueueOptions::default());
    let lending = Lending::new(2, None);
    let mut rig = Rig::over(device, 2, Some(Arc::clone(&lending)));
    assert_eq!(rig.one(1, 8, 8, block(5)), (4096, 0));
    assert_eq!(rig.one(0, 0, 16, vec![9; 8192]), (8192, 0));
    assert_eq!(rig.queue.driver.slot(0).data, [block(0), block(5)].concat());
    assert_eq!(*lending.counts.lock().expect("no panic"), Counts::default());
    rig.stop();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Also if the kernel refuses some, and whatever is killed meanwhile.
    #[test]
    fn each_buffer_is_registered_once_and_back_before_the_commit(
        events in prop::collection::vec(event(4), 1..120),
        refuses in prop::option::of(1..4u32),
    ) {
        let lending = Lending::new(4, refuses);
        check_events(Rig::over(Disk::attach(), 4, Some(Arc::clone(&lending))), events);
        let counts = *lending.counts.lock().expect("no panic");
        prop_assert_eq!(counts.registered, counts.unregistered);
        prop_assert_eq!(counts.copied, counts.asked - counts.registered);
    }
}
