//! Devices: zones, reading, writing, appending; images.
use crate::error::{DeviceError, InputError, bad_input};
use crate::open::{Open, SECTOR};
use anyhow::{Context, Result};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyPermissionError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use zonal_backend::image::{self, ImageName};
use zonal_backend::{Notices, OpenOptions, Stack};
use zonal_blk::{Bio, BioFlags, Buf, Completion, Limits, Op, QueueOptions};
use zonal_blk::{Sector, Status, ZoneCondition, ZoneCounters, ZoneKind, ZoneNo, did_you_mean};
use zonal_device::device_spec;
use zonal_device::image::Profile;
use zonal_lab::devices::named_scheduler;
use zonal_lab::zone::{Advance, SyncChannel};
use zonal_os::fork::OfProcess;

/// What an operation of another process is (errno.h).
pub const EPERM: i32 = 1;
/// A zone: of a report, with what its zone write plug counted. Positions and sizes are in bytes.
#[pyclass(module = "zonal", frozen, get_all, eq)]
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    number: u32,
    start: u64,
    size: u64,
    capacity: u64,
    /// `None` where a zone has none.
    write_pointer: Option<u64>,
    kind: &'static str,
    condition: &'static str,
    writes: u32,
    appends: u32,
    merges: u32,
    parked_ns: u64,
}

impl Zone {
    fn of(number: u32, zone: &zonal_blk::Zone) -> Self {
        let bytes = |sector: Sector| sector.0 * SECTOR;
        use ZoneCondition::{Full, NotWritePointer, Offline, ReadOnly};
        let has_none = matches!(zone.cond, NotWritePointer | Full | Offline | ReadOnly);
        Zone {
            number,
            start: bytes(zone.start),
            size: bytes(zone.len),
            capacity: bytes(zone.capacity),
            write_pointer: (!has_none).then_some(bytes(zone.wp)),
            kind: match zone.kind {
                ZoneKind::Conventional => "conventional",
                ZoneKind::SequentialRequired => "seq-write-required",
            },
            condition: zone.cond.long(),
            writes: 0,
            appends: 0,
            merges: 0,
            parked_ns: 0,
        }
    }

    fn written_bytes(&self) -> Option<u64> {
        match (self.condition, self.write_pointer) {
            ("full", _) => Some(self.capacity),
            (_, pointer) => pointer.map(|pointer| pointer - self.start),
        }
    }
}

#[pymethods]
impl Zone {
    /// Bytes that are written, from the start; None where that is not known.
    #[getter]
    fn written(&self) -> Option<u64> {
        self.written_bytes()
    }

    fn __repr__(&self) -> String {
        let Zone { number, start, size, capacity, condition, .. } = self;
        let pointer = self.write_pointer.map_or("None".to_owned(), |at| at.to_string());
        format!(
            "Zone(number={number}, start={start}, size={size}, capacity={capacity}, \
             write_pointer={pointer}, condition='{condition}')"
        )
    }
}

/// The zones of a queue from `first` on.
///
/// # Errors
/// The device cannot report them.
pub fn zones(queue: &zonal_blk::Queue, first: u32, count: u32) -> Result<Vec<Zone>, Status> {
    let end = queue.limits().nr_zones.min(first.saturating_add(count));
    let report = (first..).zip(queue.zones(ZoneNo(first)..ZoneNo(end)));
    let zones = report.map(|(number, zone)| Ok(Zone::of(number, &zone?)));
    let mut found = zones.collect::<Result<Vec<_>, Status>>()?;
    for plug in queue.dump_plugs(true) {
        let at = plug.zone.0.checked_sub(first).map(|at| at as usize);
        if let Some(zone) = at.and_then(|at| found.get_mut(at)) {
            let ZoneCounters { writes, appends, merges, parked_ns } = plug.counters;
            (zone.writes, zone.appends) = (writes, appends);
            (zone.merges, zone.parked_ns) = (merges, parked_ns);
        }
    }
    Ok(found)
}

/// A device: a spec such as `null:zones=64,memory=true`, a profile such as `zns-1t`, an image `NAME.img`,
/// `nvme-tcp://HOST:PORT/NQN` or a block device of this machine. Operations run one after another; a
/// model's time is virtual. `with` closes it.
///
/// >>> with zonal.Device("null:zones=8,zone_size=1M,lba=4096,memory=true") as device:
/// ...     landed = device.append(3, b"data" * 1024)
/// ...     device.read(landed, 4096)[:4], device.zone(3).written
/// (b'data', 4096)
#[pyclass(module = "zonal", frozen)]
pub struct Device {
    name: String,
    kind: &'static str,
    description: String,
    limits: Limits,
    keeps_data: bool,
    zone_write: &'static str,
    scheduler: String,
    open: OfProcess<Mutex<Option<Open>>>,
    notices: Vec<String>,
}

/// Why an operation failed: bad input, the device, or that it is the parent's of this process.
pub enum Failure {
    Input(String),
    Device(String),
    Forked(String),
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Input(text) => InputError::new_err(text),
            Failure::Device(text) => DeviceError::new_err(text),
            Failure::Forked(text) => PyPermissionError::new_err((EPERM, text)),
        }
    }
}

/// An operation of a device.
pub struct Command {
    pub op: Op,
    pub flags: BioFlags,
    pub offset: u64,
    pub length: u64,
    pub data: Option<Vec<u8>>,
}

impl Command {
    pub fn new(op: Op, offset: u64, length: u64) -> Self {
        Command { op, flags: BioFlags::NONE, offset, length, data: None }
    }

    /// A write or an append of what a buffer of Python holds.
    pub fn of_data(
        py: Python<'_>,
        (op, flags, offset): (Op, BioFlags, u64),
        data: &PyBuffer<u8>,
    ) -> PyResult<Self> {
        let data = data.to_vec(py)?;
        let command = Command::new(op, offset, data.len() as u64);
        Ok(Command { flags, data: Some(data), ..command })
    }
}

/// The operation of a zone by its name.
pub fn zone_op(name: &str) -> Result<Op, Failure> {
    Ok(match name {
        "reset" => Op::ZoneReset,
        "open" => Op::ZoneOpen,
        "close" => Op::ZoneClose,
        "finish" => Op::ZoneFinish,
        other => {
            let near = did_you_mean(other, ["reset", "open", "close", "finish"]);
            let text =
                format!("zone operation `{other}`: expected reset, open, close or finish{near}");
            return Err(Failure::Input(text));
        }
    })
}

impl Device {
    fn lock(&self) -> Result<MutexGuard<'_, Option<Open>>, Failure> {
        let text = |forked| format!("device {}: {forked}", self.name);
        let open = self.open.get().map_err(|forked| Failure::Forked(text(forked)))?;
        Ok(open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether it is open in this process.
    pub fn is_open(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().is_ok_and(|open| open.is_some()))
    }

    /// Calls `work` with the device if it is open.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Open) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut open = self.lock()?;
        let closed = || Failure::Input(format!("device {}: it is closed", self.name));
        work(open.as_mut().ok_or_else(closed)?)
    }

    /// What a command is called in errors.
    pub fn what(&self, op: Op, offset: u64, length: u64) -> String {
        format!("device {}: {op:?} of {length} bytes at byte {offset}", self.name)
    }

    /// The command for the block layer.
    pub fn bio(&self, command: Command) -> Result<Bio, Failure> {
        let Command { op, flags, offset, length, data } = command;
        let lba = u64::from(self.limits.lba_size);
        let bad = |why: String| Failure::Input(format!("{}: {why}", self.what(op, offset, length)));
        if !offset.is_multiple_of(lba) || !length.is_multiple_of(lba) {
            return Err(bad(format!("expected multiples of {lba}, a logical block")));
        }
        if op.has_range() && length == 0 {
            return Err(bad(format!("expected at least {lba}")));
        }
        let nr_sectors = u32::try_from(length / SECTOR)
            .map_err(|_| bad("expected less than 2 TiB".to_owned()))?;
        let buf = match data {
            Some(data) if self.keeps_data => Some(Buf::from(&data[..])),
            None if self.keeps_data && op == Op::Read => {
                let buf = usize::try_from(length).ok().and_then(Buf::try_zeroed);
                Some(buf.ok_or_else(|| bad("no memory".to_owned()))?)
            }
            _ => None,
        };
        Ok(Bio { flags, buf, ..Bio::new(op, Sector(offset / SECTOR), nr_sectors, 0) })
    }

    /// Runs a command.
    fn command(&self, command: Command) -> Result<Completion, Failure> {
        let (op, offset, length) = (command.op, command.offset, command.length);
        let bio = self.bio(command)?;
        let number = self.with(|open| Ok(open.submit(bio, None)))?;
        loop {
            let (done, advance) = self.with(|open| Ok(open.step(number)))?;
            match done {
                Some((completion, None)) if completion.status == Status::Ok => {
                    return Ok(completion);
                }
                Some((completion, why)) => {
                    let text = match why {
                        Some(why) => format!("device {}: {why}", self.name),
                        None => format!("{}: {}", self.what(op, offset, length), completion.status),
                    };
                    return Err(Failure::Device(text));
                }
                None if advance == Advance::Outside => thread::yield_now(),
                None => {}
            }
        }
    }

    /// The offset of a zone.
    pub fn zone_start(&self, zone: u32) -> Result<u64, Failure> {
        let (name, count) = (&self.name, self.limits.nr_zones);
        if count == 0 {
            return Err(Failure::Input(format!("device {name}: it has no zones")));
        }
        if zone >= count {
            return Err(Failure::Input(format!(
                "device {name}: zone {zone}: expected 0 to {}",
                count - 1
            )));
        }
        Ok(self.limits.zone_start(ZoneNo(zone)).0 * SECTOR)
    }
}

fn open(name: &str, options: QueueOptions, seed: u64) -> Result<(Open, Vec<String>)> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let teller = Arc::clone(&told);
    let notices = Notices::new(move |notice| {
        teller.lock().unwrap_or_else(PoisonError::into_inner).push(notice.to_owned());
    });
    let open = OpenOptions { seed, notices, ..OpenOptions::default() };
    let attached = Stack::open_with(name, &open)?.attach(options)?;
    let channel = SyncChannel::new(&attached)?;
    let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((Open::new(attached, channel), told))
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (name, *, scheduler=None, zone_write=None, seed=0))]
    fn new(
        py: Python<'_>,
        name: String,
        scheduler: Option<String>,
        zone_write: Option<String>,
        seed: u64,
    ) -> PyResult<Self> {
        let opened = py.detach(|| {
            let policy = zone_write.as_deref().map(str::parse).transpose();
            let options = QueueOptions {
                scheduler: named_scheduler(scheduler.as_deref(), &[])?,
                zone_write: policy.context("--zone-write")?,
                ..QueueOptions::default()
            };
            open(&name, options, seed)
        });
        let (open, notices) = opened.map_err(bad_input)?;
        let (attached, queue) = (&open.attached, &open.attached.queue);
        Ok(Device {
            name,
            kind: attached.kind,
            description: attached.description.clone(),
            limits: queue.limits().clone(),
            keeps_data: attached.keeps_data,
            zone_write: queue.zone_write().name(),
            scheduler: queue.scheduler().name().to_owned(),
            open: OfProcess::new(Mutex::new(Some(open))),
            notices,
        })
    }

    /// As it was named.
    #[getter]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kind in one word, such as null, hdd, zns or image.
    #[getter]
    fn kind(&self) -> &str {
        self.kind
    }

    /// One line for people.
    #[getter]
    fn description(&self) -> &str {
        &self.description
    }

    /// What one should know about it, such as damage of an image that was repaired.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }

    /// Its size in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.limits.capacity.0 * SECTOR
    }

    /// Bytes of a logical block, to which I/O is aligned.
    #[getter]
    fn block_size(&self) -> u32 {
        self.limits.lba_size
    }

    /// The distance between zones in bytes; 0 without zones.
    #[getter]
    fn zone_size(&self) -> u64 {
        self.limits.zone_size.0 * SECTOR
    }

    /// Zones; 0 on a device without.
    #[getter]
    fn nr_zones(&self) -> u32 {
        self.limits.nr_zones
    }

    /// Zones that may be open at the same time; 0 for no limit.
    #[getter]
    fn max_open_zones(&self) -> u32 {
        self.limits.max_open_zones
    }

    /// Zones that may be open or closed at the same time; 0 for no limit.
    #[getter]
    fn max_active_zones(&self) -> u32 {
        self.limits.max_active_zones
    }

    /// Whether it stores what is written; otherwise it reads as zeroes.
    #[getter]
    fn keeps_data(&self) -> bool {
        self.keeps_data
    }

    /// How writes to sequential zones are kept in order.
    #[getter]
    fn zone_write(&self) -> &str {
        self.zone_write
    }

    /// The I/O scheduler.
    #[getter]
    fn scheduler(&self) -> &str {
        &self.scheduler
    }

    /// The virtual time in seconds that operations have taken.
    #[getter]
    fn time(&self, py: Python<'_>) -> PyResult<f64> {
        let now = |open: &mut Open| Ok(open.seconds());
        Ok(py.detach(|| self.with(now))?)
    }

    /// Whether it was closed, or belongs to the parent of this process.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        !self.is_open(py)
    }

    /// The zones from `first` on, with the counters of their zone write plugs.
    #[pyo3(signature = (first=0, count=None))]
    fn zones(&self, py: Python<'_>, first: u32, count: Option<u32>) -> PyResult<Vec<Zone>> {
        let report = |open: &mut Open| {
            let found = zones(&open.attached.queue, first, count.unwrap_or(u32::MAX));
            let name = &self.name;
            found.map_err(|s| Failure::Device(format!("device {name}: zone report: {s}")))
        };
        Ok(py.detach(|| {
            if self.limits.nr_zones > 0 {
                self.zone_start(first)?;
            }
            self.with(report)
        })?)
    }

    /// One zone.
    fn zone(&self, py: Python<'_>, number: u32) -> PyResult<Zone> {
        let mut found = self.zones(py, number, Some(1))?;
        found
            .pop()
            .ok_or_else(|| InputError::new_err(format!("device {}: it has no zones", self.name)))
    }

    /// One of reset, open, close and finish, of some zones.
    #[pyo3(signature = (op, first, count=1))]
    fn manage(&self, py: Python<'_>, op: &str, first: u32, count: u32) -> PyResult<()> {
        let op = zone_op(op)?;
        Ok(py.detach(|| {
            if count == 0 {
                let text = format!("device {}: 0 zones: expected at least 1", self.name);
                return Err(Failure::Input(text));
            }
            self.zone_start(first)?;
            self.zone_start(first.saturating_add(count - 1))?;
            if op == Op::ZoneReset && count == self.limits.nr_zones {
                // It passes over conventional zones.
                return self.command(Command::new(Op::ZoneResetAll, 0, 0)).map(drop);
            }
            (first..first + count).try_for_each(|zone| {
                self.command(Command::new(op, self.zone_start(zone)?, 0)).map(drop)
            })
        })?)
    }

    /// Reads bytes. Offset and length are multiples of the block size.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let done = py.detach(|| self.command(Command::new(Op::Read, offset, length)))?;
        match done.buf {
            Some(buf) => Ok(PyBytes::new(py, &buf)),
            // A device that keeps no data reads as zeroes.
            None => PyBytes::new_with(py, usize::try_from(length)?, |_| Ok(())),
        }
    }

    /// Writes bytes, an array or another buffer; in a sequential zone at the write pointer.
    #[pyo3(signature = (offset, data, *, fua=false))]
    fn write(&self, py: Python<'_>, offset: u64, data: PyBuffer<u8>, fua: bool) -> PyResult<()> {
        let flags = if fua { BioFlags::FUA } else { BioFlags::NONE };
        let command = Command::of_data(py, (Op::Write, flags, offset), &data)?;
        Ok(py.detach(|| self.command(command)).map(drop)?)
    }

    /// Appends to a zone. Returns the offset at which the data landed.
    fn append(&self, py: Python<'_>, zone: u32, data: PyBuffer<u8>) -> PyResult<u64> {
        let start = self.zone_start(zone)?;
        let command = Command::of_data(py, (Op::ZoneAppend, BioFlags::NONE, start), &data)?;
        let done = py.detach(|| self.command(command))?;
        Ok(done.sector.0 * SECTOR)
    }

    /// Makes what was written durable.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.command(Command::new(Op::Flush, 0, 0)).map(drop))?)
    }

    /// The device and its sizes as a table of a notebook.
    fn _repr_html_(&self) -> String {
        let Device { name, description, .. } = self;
        let escaped =
            |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!("<p><b>{}</b>: {}</p>", escaped(name), escaped(description))
    }

    /// Makes what was written durable, and closes the device once I/O in flight has completed. If that
    /// fails, the device is closed and what was not flushed before may be lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // A child of the process leaves it to its parent.
        if !self.is_open(py) {
            return Ok(());
        }
        let flushed = self.flush(py);
        py.detach(|| drop(self.lock().map(|mut open| open.take())));
        flushed
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("Device('{}')", self.name)
    }
}

/// Creates an image of a device, a spec or a TOML profile. Returns the name to open it by.
///
/// >>> import os, tempfile
/// >>> path = os.path.join(tempfile.mkdtemp(), "disk.img")
/// >>> zonal.Device(zonal.create_image(path, "zns-1t")).kind
/// 'image'
#[pyfunction]
#[pyo3(signature = (path, device, *, checksums=true))]
pub fn create_image(
    py: Python<'_>,
    path: PathBuf,
    device: String,
    checksums: bool,
) -> PyResult<String> {
    let create = || -> Result<String> {
        zonal_backend::load(&device)?;
        let profile = match device.ends_with(".toml") {
            true => Profile::Toml(zonal_backend::profile_text(&device)?),
            false => Profile::Spec(device),
        };
        let created = image::create(&path, profile, checksums);
        created.with_context(|| format!("image {}", path.display()))?;
        Ok(ImageName::of_path(&path.to_string_lossy()))
    };
    py.detach(create).map_err(bad_input)
}

/// The names of the profiles of drives that are built in.
///
/// >>> "smr-30t" in zonal.profiles()
/// True
#[pyfunction]
pub fn profiles() -> Vec<String> {
    device_spec::profile_names().split(", ").map(str::to_owned).collect()
}

/// The text of a profile, built in or from a file.
///
/// >>> "zone_size" in zonal.profile_text("zns-1t")
/// True
#[pyfunction]
pub fn profile_text(name: &str) -> PyResult<String> {
    zonal_backend::profile_text(name).map_err(bad_input)
}

/// Explains device specs, as `zonal devices`.
///
/// >>> "zone_size" in zonal.device_help()
/// True
#[pyfunction]
pub fn device_help() -> String {
    device_spec::help()
}
