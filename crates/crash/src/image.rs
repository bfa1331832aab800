//! Making images of states: files, written through the page cache and never synced, since nobody
//! needs them after a loss of power of this machine.
use crate::drive::{Drive, Effect};
use crate::file;
use crate::log::{Blocks, Header, Log, LogError, ZoneStart};
use crate::outcome::Steps;
use crate::state::State;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, ioctl_ficlone, seek};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zonal_blk::{
    Bio, Buf, Channel, Device, Limits, Nanos, Op, Queue, QueueOptions, Sector, Status, Zone,
    ZoneCondition, ZoneKind, ZoneNo,
};
use zonal_device::image::{
    ImageDevice, ImageError, ImageGeometry, ImageStore, Profile, ReadAt, Ring, Superblock,
    read_superblock,
};

/// Why the image of a state cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not an image that can be used.
    #[error("image {}: {source}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ImageError,
    },
    /// The log began with data, and there is no image with them.
    #[error(
        "--base: the device was not empty when the recording began (zone {zone} had data); expected a copy of its image from before"
    )]
    NoBase {
        /// The first zone with data.
        zone: u32,
    },
    /// The base image is another one.
    #[error("--base {}: found {found}, expected {expected}, as the log has it", path.display())]
    OtherBase {
        /// The image.
        path: PathBuf,
        /// The value of the image.
        found: String,
        /// The value of the log.
        expected: String,
    },
    /// The base image cannot be read.
    #[error("--base {0}")]
    Base(Box<MakeError>),
    /// The log lacks data.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The image refused a command.
    #[error("{what} at sector {sector}: {status}")]
    Command {
        /// The operation.
        what: &'static str,
        /// Where.
        sector: Sector,
        /// Why.
        status: Status,
    },
    /// No drive can be in that state.
    #[error("{0}")]
    Impossible(String),
}

impl MakeError {
    /// As an error of the base image.
    fn of_base(self) -> Self {
        match self {
            MakeError::OtherBase { .. } => self,
            error => MakeError::Base(Box::new(error)),
        }
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| MakeError::File { path: path.to_owned(), source }
    }

    fn image(path: &Path) -> impl FnOnce(ImageError) -> Self {
        |source| MakeError::Image { path: path.to_owned(), source }
    }
}

/// The file of an image that is being made.
struct PlainFile(File);

impl ReadAt for PlainFile {
    fn read(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < to.len() {
            match self.0.read_at(&mut to[done..], at + done as u64)? {
                0 => {
                    to[done..].fill(0);
                    break;
                }
                len => done += len,
            }
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl ImageStore for PlainFile {
    fn write(&self, at: u64, from: &[u8]) -> io::Result<()> {
        self.0.write_all_at(from, at)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        let end = (at + len).min(self.len()?);
        if at >= end {
            return Ok(());
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.0, punch, at, end - at) {
            Err(Errno::OPNOTSUPP) => {
                let zeroes = vec![0; usize::try_from(end - at).map_err(io::Error::other)?];
                self.write(at, &zeroes)
            }
            result => Ok(result?),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        if self.len()? > len { self.0.set_len(len) } else { Ok(()) }
    }

    fn open_ring(&self, _depth: u16) -> io::Result<Box<dyn Ring>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Copies a file: shares its blocks where the file system can, else copies what is not a hole.
///
/// # Errors
/// The errors of the files.
pub fn copy_file(from: &Path, to: &Path) -> Result<(), MakeError> {
    let source = file::read(from).map_err(MakeError::file(from))?;
    let target = file::create(to).map_err(MakeError::file(to))?;
    if ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    copy_data(&source, &target).map_err(MakeError::file(to))
}

fn copy_data(source: &File, target: &File) -> io::Result<()> {
    let len = source.metadata()?.len();
    target.set_len(len)?;
    let mut chunk = vec![0; 1 << 18];
    let mut at = 0;
    while at < len {
        at = match seek(source, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(source, SeekFrom::Hole(at))?;
        while at < end {
            let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(chunk.len());
            let read = source.read_at(&mut chunk[..most], at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            target.write_all_at(&chunk[..read], at)?;
            at += read as u64;
        }
    }
    Ok(())
}

/// Makes the image of the device as it was when the recording began: an empty one, or a copy of
/// `base`.
///
/// # Errors
/// There is no base although the device had data, or it is another image, or a file cannot be used.
pub fn make_base(header: &Header, base: Option<&Path>, path: &Path) -> Result<(), MakeError> {
    if header.geometry().regular {
        return disk_base(header, base, path);
    }
    let Some(base) = base else {
        if let Some(start) = header.zones.first() {
            return Err(MakeError::NoBase { zone: start.zone });
        }
        let file = file::create(path).map_err(MakeError::file(path))?;
        return ImageDevice::create(&PlainFile(file), &header.superblock)
            .map_err(MakeError::image(path));
    };
    check_base(header, base).map_err(MakeError::of_base)?;
    copy_file(base, path)
}

/// Makes the file of a disk without zones: zeroes, or a copy of `base`.
fn disk_base(header: &Header, base: Option<&Path>, path: &Path) -> Result<(), MakeError> {
    let expected = header.capacity().to_bytes().0;
    let Some(base) = base else {
        let file = file::create(path).map_err(MakeError::file(path))?;
        return file.set_len(expected).map_err(MakeError::file(path));
    };
    let found = fs::metadata(base).map_err(|error| MakeError::file(base)(error).of_base())?.len();
    if found != expected {
        return Err(MakeError::OtherBase {
            path: base.to_owned(),
            found: format!("a file of {found} bytes"),
            expected: format!("a copy of a disk of {expected} bytes"),
        });
    }
    copy_file(base, path)
}

/// Whether `base` is the recorded image as it was at the beginning, as far as the log knows: its
/// UUID, and which zones had how much data.
fn check_base(header: &Header, base: &Path) -> Result<(), MakeError> {
    let file = PlainFile(file::read(base).map_err(MakeError::file(base))?);
    let (superblock, _) = read_superblock(&file).map_err(MakeError::image(base))?;
    let other = |found: String, expected: String| {
        Err(MakeError::OtherBase { path: base.to_owned(), found, expected })
    };
    let named = |superblock: &Superblock| {
        let uuid: String = superblock.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("an image of {} with UUID {uuid}", superblock.geometry.summary())
    };
    let expected = &header.superblock;
    if (superblock.uuid, &superblock.geometry) != (expected.uuid, &expected.geometry) {
        return other(named(&superblock), named(expected));
    }
    let recovered =
        zonal_device::image::recover(&file, &superblock).map_err(MakeError::image(base))?;
    let capacity = superblock.geometry.zone_capacity.0;
    let conventional = superblock.geometry.conventional as usize;
    let mut expected = header.zones.iter().copied().peekable();
    for (number, zone) in (0..).zip(&recovered.zones).skip(conventional) {
        let full = zone.cond == zonal_blk::ZoneCondition::Full;
        let written = if full { capacity } else { zone.written.0 };
        let found = ZoneStart { zone: number, full, written };
        let expected = expected.next_if(|start| start.zone == number);
        let expected = expected.unwrap_or(ZoneStart { zone: number, full: false, written: 0 });
        if found != expected {
            let words = |start: ZoneStart| match start.full {
                true => format!("zone {number} full"),
                false => format!("zone {number} with {} sectors of data", start.written),
            };
            return other(words(found), words(expected));
        }
    }
    Ok(())
}

/// An image that is being changed; of a disk without zones, a plain file.
pub struct ImageWriter {
    target: Target,
    lba: usize,
}

enum Target {
    Zoned(Box<OpenImage>),
    Disk(File),
}

/// An image with its block layer.
pub(crate) struct OpenImage {
    pub device: Arc<ImageDevice>,
    pub channel: Channel,
}

impl OpenImage {
    pub(crate) fn open(path: &Path) -> Result<Self, MakeError> {
        let file = file::open(OpenOptions::new().read(true).write(true), path);
        let file = Arc::new(PlainFile(file.map_err(MakeError::file(path))?));
        let device = ImageDevice::open_without_limits(file).map_err(MakeError::image(path))?;
        let device = Arc::new(device);
        let queue = Queue::attach(Arc::clone(&device) as _, QueueOptions::default());
        let impossible = |error: &dyn std::fmt::Display| MakeError::Impossible(error.to_string());
        let queue = queue.map_err(|error| impossible(&error))?;
        let channel = queue.channel().map_err(|error| impossible(&error))?;
        Ok(OpenImage { device, channel })
    }

    pub(crate) fn run(&mut self, bio: Bio, what: &'static str) -> Result<Option<Buf>, MakeError> {
        let sector = bio.sector;
        self.channel.submit(Nanos(0), bio);
        let mut done = Vec::with_capacity(1);
        while done.is_empty() {
            // Without a ring, a command is executed by the poll.
            self.channel.poll(Nanos(0), &mut done);
        }
        match done.pop() {
            Some(done) if done.status == Status::Ok => Ok(done.buf),
            done => {
                let status = done.map_or(Status::IoError, |done| done.status);
                Err(MakeError::Command { what, sector, status })
            }
        }
    }

    fn manage(&mut self, op: Op, zone: u32, what: &'static str) -> Result<(), MakeError> {
        let sector = self.device.limits().zone_start(ZoneNo(zone));
        self.run(Bio::new(op, sector, 0, 0), what).map(drop)
    }

    fn close(self) -> Result<(), MakeError> {
        drop(self.channel);
        let closed = self.device.close();
        closed.map_err(|error| MakeError::Impossible(format!("closing the image: {error}")))
    }
}

impl ImageWriter {
    /// Opens an image of a state of the device that `header` describes.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, header: &Header) -> Result<Self, MakeError> {
        let target = if header.geometry().regular {
            let file = file::open(OpenOptions::new().write(true), path);
            Target::Disk(file.map_err(MakeError::file(path))?)
        } else {
            Target::Zoned(Box::new(OpenImage::open(path)?))
        };
        Ok(ImageWriter { target, lba: header.geometry().lba as usize })
    }

    /// Applies effects, in order.
    ///
    /// # Errors
    /// The log lacks a block, or the image refuses a command.
    pub fn apply(&mut self, effects: &[Effect], blocks: &mut Blocks) -> Result<(), MakeError> {
        effects.iter().try_for_each(|effect| match effect {
            Effect::Write { lba, blocks: numbers } => self.write(*lba, numbers, blocks),
            Effect::Reset { zone } => self.manage(Op::ZoneReset, *zone, "zone reset"),
            Effect::Finish { zone } => self.manage(Op::ZoneFinish, *zone, "zone finish"),
        })
    }

    fn manage(&mut self, op: Op, zone: u32, what: &'static str) -> Result<(), MakeError> {
        match &mut self.target {
            Target::Zoned(image) => image.manage(op, zone, what),
            Target::Disk(_) => {
                Err(MakeError::Impossible(format!("{what}: found a disk without zones")))
            }
        }
    }

    fn write(&mut self, lba: u64, numbers: &[u64], blocks: &mut Blocks) -> Result<(), MakeError> {
        let most = match &self.target {
            Target::Zoned(image) => image.device.limits().max_sectors as usize * 512 / self.lba,
            Target::Disk(_) => DISK_WRITE / self.lba,
        };
        let most = most.max(1);
        for (part, numbers) in (0..).step_by(most).zip(numbers.chunks(most)) {
            let mut buf = Buf::zeroed(numbers.len() * self.lba);
            for (block, &number) in buf.chunks_exact_mut(self.lba).zip(numbers) {
                blocks.read(number, block)?;
            }
            let sector = Sector((lba + part) * (self.lba as u64 / 512));
            match &mut self.target {
                Target::Zoned(image) => drop(image.run(Bio::write(sector, buf, 0), "write")?),
                Target::Disk(file) => {
                    let written = file.write_all_at(&buf, sector.to_bytes().0);
                    written.map_err(|error| MakeError::Command {
                        what: "write",
                        sector,
                        status: error.into(),
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Closes the image.
    ///
    /// # Errors
    /// Its metadata cannot be written.
    pub fn close(self) -> Result<(), MakeError> {
        match self.target {
            Target::Zoned(image) => image.close(),
            Target::Disk(_) => Ok(()),
        }
    }
}

/// Longest piece that is written to the file of a disk, in bytes.
const DISK_WRITE: usize = 1 << 20;

/// Copies stored data, from a sector on.
pub type ReadSectors<'a> = dyn Fn(Sector, &mut [u8]) -> Result<(), Status> + 'a;

impl OpenImage {
    /// Copies data from a device; zeroes only if they have to be written.
    fn copy(
        &mut self,
        range: Range<Sector>,
        with_zeroes: bool,
        read: &ReadSectors<'_>,
    ) -> Result<(), MakeError> {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).0.min(u64::from(self.device.limits().max_sectors));
            let mut data = Buf::zeroed(usize::try_from(len * 512).expect("a command"));
            read(at, &mut data).map_err(|status| MakeError::Command {
                what: "read",
                sector: at,
                status,
            })?;
            if with_zeroes || data.iter().any(|&byte| byte != 0) {
                self.run(Bio::write(at, data, 0), "write")?;
            }
            at += Sector(len);
        }
        Ok(())
    }
}

/// Makes an image of what a device holds: its zones, and data that `read` copies. `uuid` and
/// `profile` are those of the image.
///
/// # Errors
/// No image can have the zones, the file cannot be written, or `read` fails.
pub fn save(
    limits: &Limits,
    zones: &[Zone],
    (uuid, profile): ([u8; 16], Profile),
    read: &ReadSectors<'_>,
    path: &Path,
) -> Result<(), MakeError> {
    let geometry = ImageGeometry::of(limits, zones).map_err(MakeError::image(path))?;
    let superblock = Superblock::new(uuid, geometry, profile);
    let superblock = superblock.map_err(MakeError::image(path))?;
    let file = File::create_new(path).map_err(MakeError::file(path))?;
    ImageDevice::create(&PlainFile(file), &superblock).map_err(MakeError::image(path))?;
    let mut image = OpenImage::open(path)?;
    let readable = |zone: &&(u32, &Zone)| zone.1.cond != ZoneCondition::Offline;
    if zones.is_empty() {
        image.copy(Sector(0)..limits.capacity, false, read)?;
    }
    for (number, zone) in (0..).zip(zones).collect::<Vec<_>>().iter().filter(readable) {
        let in_order = zone.kind == ZoneKind::SequentialRequired;
        image.copy(zone.start..data_end(zone), in_order, read)?;
        if zone.cond == ZoneCondition::Full {
            image.manage(Op::ZoneFinish, *number, "zone finish")?;
        }
    }
    image.close()
}

/// Makes the image of one state.
///
/// # Errors
/// No drive can be in that state, or a file cannot be used.
pub fn materialise(
    log: &Log,
    state: &State,
    base: Option<&Path>,
    cache_sectors: u64,
    path: &Path,
) -> Result<(), MakeError> {
    make_base(log.header(), base, path)?;
    let (mut image, mut blocks) = (ImageWriter::open(path, log.header())?, log.blocks());
    let mut drive = Drive::new(log.header(), cache_sectors);
    let mut steps = Steps::new(log.events());
    let mut settled = Vec::new();
    while drive.events() < state.cut {
        let Some(step) = steps.next() else {
            let last = drive.events();
            let why = format!("state {state}: the log has {last} events");
            return Err(MakeError::Impossible(why));
        };
        drive.advance(&step, &mut settled);
        image.apply(&settled, &mut blocks)?;
        settled.clear();
    }
    let effects = drive.effects(state);
    let effects = effects.map_err(|why| MakeError::Impossible(format!("state {state}: {why}")))?;
    image.apply(&effects, &mut blocks)?;
    image.close()
}

/// Where the data of a zone end.
pub fn data_end(zone: &Zone) -> Sector {
    match zone.kind {
        ZoneKind::Conventional => zone.start + zone.len,
        ZoneKind::SequentialRequired => zone.wp.min(zone.writable_end()),
    }
}
