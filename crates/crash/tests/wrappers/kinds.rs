//! The kinds of devices, and the wrappers.
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use zonal_blk::{
    Abort, AgingLimits, Device, HwQueue, Limits, Nanos, ReadBufs, Request, Sector, Status, Tag,
    Wake, Zone, ZoneAging, ZoneExtensions, ZoneNo, ZrwaLimits,
};
use zonal_crash::{RecordDevice, Recorder};
use zonal_device::control::{DeviceControl, DeviceStats, MediumAccess};
use zonal_device::image::{
    ImageError, ImageGeometry, ImageStore, Model, Profile, ReadAt, Ring, Superblock, ZoneEntry,
};
use zonal_device::inject::InjectDevice;
use zonal_device::power::PowerDevice;
use zonal_device::{ImageDevice, device_spec};

/// A device around another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wrapper {
    Inject,
    Power,
    Record,
}

pub const WRAPPERS: [Wrapper; 3] = [Wrapper::Inject, Wrapper::Power, Wrapper::Record];

impl Wrapper {
    pub fn around(self, inner: Arc<dyn DeviceControl>) -> Arc<dyn DeviceControl> {
        match self {
            Wrapper::Inject => Arc::new(InjectDevice::new(inner, 0)),
            Wrapper::Power => Arc::new(PowerDevice::new(inner, 1 << 20).expect("a medium")),
            Wrapper::Record => Arc::new(RecordDevice::new(inner, Recorder::idle())),
        }
    }
}

/// A kind of device.
pub struct DeviceKind {
    pub name: &'static str,
    pub open: Box<dyn Fn() -> Arc<dyn DeviceControl>>,
}

pub fn kinds() -> Vec<DeviceKind> {
    let of_spec = |name, spec: &'static str| DeviceKind {
        name,
        open: Box::new(move || {
            let spec = device_spec::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
            device_spec::build(&spec).expect("a device")
        }),
    };
    vec![
        of_spec("null", "null:zones=4,zone_size=16M"),
        of_spec("null with data", "null:zones=4,zone_size=16M,memory=true,descriptor_extension=64"),
        of_spec("null with latency", "null:zones=4,zone_size=16M,latency=10us"),
        of_spec("disk", "hdd:recording=smr,zones=16,max_open=8"),
        of_spec("disk with data", "hdd:recording=smr,zones=16,max_open=8,memory=true"),
        of_spec(
            "flash drive",
            "ssd:size=64M,block=96K,dies=4,channels=2,overprovision=50%,fdp_handles=2,memory=true",
        ),
        of_spec("drive", "zns:zones=16,finish_recommended=1s,finish_after=2s"),
        of_spec(
            "drive with data",
            "zns:zones=16,memory=true,descriptor_extension=128,zrwa=1M,reset_recommended=2s",
        ),
        DeviceKind { name: "image", open: Box::new(|| image(None)) },
        DeviceKind {
            name: "image with latency",
            open: Box::new(|| image(Some("null:zones=4,zone_size=16M,latency=10us"))),
        },
        DeviceKind { name: "all", open: Box::new(|| Arc::new(All::new())) },
    ]
}

/// An image in memory, with the latencies of a device if it is given one.
fn image(timing: Option<&str>) -> Arc<dyn DeviceControl> {
    let geometry = ImageGeometry::simple(4, 0, Sector(1 << 15));
    let superblock = Superblock::new([1; 16], geometry, Profile::Spec("null".to_owned()));
    let file = Arc::new(File::default());
    ImageDevice::create(&*file, &superblock.expect("a superblock")).expect("an image");
    let model = timing.map(|spec| {
        device_spec::build(&device_spec::parse(spec).expect("a spec")).expect("a device")
    });
    let model = model.map(|device| Model { device, paced: true });
    let timing = |_: &Superblock, _: &[ZoneEntry]| Ok::<_, ImageError>(model);
    Arc::new(ImageDevice::open(file, timing).expect("an image"))
}

/// A file in memory.
#[derive(Default)]
struct File(Mutex<Vec<u8>>);

impl ReadAt for File {
    fn read(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().expect("no panic");
        let there = bytes.get(usize::try_from(at).expect("in memory")..).unwrap_or_default();
        let len = to.len().min(there.len());
        to[..len].copy_from_slice(&there[..len]);
        to[len..].fill(0);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().expect("no panic").len() as u64)
    }
}

impl ImageStore for File {
    fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock().expect("no panic");
        let at = usize::try_from(at).expect("in memory");
        let len = bytes.len().max(at + from.len());
        bytes.resize(len, 0);
        bytes[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        let mut bytes = self.0.lock().expect("no panic");
        let place = |at: u64| usize::try_from(at).expect("in memory").min(bytes.len());
        let range = place(at)..place(at + len);
        bytes[range].fill(0);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.lock().expect("no panic").truncate(usize::try_from(len).expect("in memory"));
        Ok(())
    }

    fn open_ring(&self, _depth: u16) -> io::Result<Box<dyn Ring>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A device that has an answer of its own to every question.
struct All(Limits);

impl All {
    fn new() -> Self {
        let zrwa = ZrwaLimits { size: 8, granularity: 8, max: 1 };
        All(Limits { zrwa, ..Limits::zoned(4, Sector(2048)) })
    }
}

impl Device for All {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn report_zones(&self, first: ZoneNo, max: usize, zones: &mut Vec<Zone>) -> Result<(), Status> {
        zones.extend(self.0.empty_zones(first, max));
        Ok(())
    }

    fn zones_as_new(&self, first: ZoneNo, max: u32) -> u32 {
        max.min(4 - first.0)
    }

    fn external_buf_alignment(&self) -> Option<u32> {
        Some(64)
    }

    fn read_bufs(&self) -> ReadBufs {
        ReadBufs::Filled
    }

    fn zone_extensions(&self) -> Option<&dyn ZoneExtensions> {
        Some(self)
    }

    fn zone_aging(&self) -> Option<&dyn ZoneAging> {
        Some(self)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(AllQueue { reopened: 0 })
    }
}

impl ZoneExtensions for All {
    fn size(&self) -> usize {
        64
    }

    fn get(&self, _zone: ZoneNo, to: &mut [u8]) {
        to.fill(3);
    }

    fn set(&self, _zone: ZoneNo, _data: &[u8], _zrwa: bool) -> Result<(), Status> {
        Ok(())
    }
}

impl ZoneAging for All {
    fn limits(&self) -> AgingLimits {
        AgingLimits { excursions: true, finish: Nanos(5) }
    }

    fn age(&self, _now: Nanos, _changed: &mut Vec<ZoneNo>) -> Option<Nanos> {
        None
    }
}

impl DeviceControl for All {
    fn stats(&self) -> DeviceStats {
        DeviceStats { counts: vec![("questions", 1)], times: Vec::new() }
    }

    fn medium(&self) -> Option<&dyn MediumAccess> {
        Some(self)
    }
}

impl MediumAccess for All {
    fn peek(&self, _sector: Sector, _to: &mut [u8]) -> Result<(), Status> {
        Ok(())
    }

    fn poke(&self, _sector: Sector, _from: &[u8]) -> Result<(), Status> {
        Ok(())
    }

    fn shorten(&self, _zone: ZoneNo, _wp: Sector) -> Result<(), Status> {
        Ok(())
    }

    fn close_zones(&self) {}
}

/// Its answers tell how often it was reopened.
struct AllQueue {
    reopened: i32,
}

impl HwQueue for AllQueue {
    fn start(&mut self, _now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        Err(request)
    }

    fn poll(&mut self, _now: Nanos, _done: &mut Vec<Box<Request>>) {}

    fn next_event(&self) -> Wake {
        Wake::At(Nanos(10))
    }

    fn next_completion(&self) -> Wake {
        Wake::At(Nanos(20))
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend([7, self.reopened]);
    }

    fn reopen(&mut self) {
        self.reopened += 1;
    }

    fn abort(&mut self, _now: Nanos, _tag: Tag, _done: &mut Vec<Box<Request>>) -> Abort {
        Abort::Accepted
    }
}
