//! Reading the images of states, and comparing two of them.
use crate::file;
pub use crate::image::data_end;
use crate::image::{self, MakeError, OpenImage};
use crate::log::{Header, Log};
use crate::state::State;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use zonal_blk::{Bio, Buf, Device, Limits, Sector, Zone, ZoneKind, ZoneNo};

/// The contents of an image.
pub struct Content {
    source: Source,
    limits: Limits,
}

enum Source {
    Zoned(Box<OpenImage>),
    /// A disk without zones: its file, and its path.
    Disk(File, PathBuf, Vec<Zone>),
}

/// Shows where two states differ, a line for each block, and for each zone with another write pointer
/// or condition.
///
/// # Errors
/// As [`image::materialise`], and those of `found`.
pub fn diff(
    log: &Log,
    states: [&State; 2],
    base: Option<&Path>,
    cache_sectors: u64,
    found: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), MakeError> {
    let dir = tempfile::tempdir().map_err(MakeError::file(&std::env::temp_dir()))?;
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    image::materialise(log, states[0], base, cache_sectors, &first)?;
    image::materialise(log, states[1], base, cache_sectors, &second)?;
    let open = |path: &Path| Content::open(path, log.header());
    differences(open(&first)?, open(&second)?, found)
}

fn differences(
    mut first: Content,
    mut second: Content,
    found: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), MakeError> {
    let limits = first.limits().clone();
    let (zones_a, zones_b) = (first.zones()?, second.zones()?);
    let mut report =
        |text: &str| found(text).map_err(MakeError::file(Path::new("standard output")));
    for (number, (a, b)) in (0..).zip(zones_a.iter().zip(&zones_b)) {
        if (a.cond, a.wp) != (b.cond, b.wp) && a.kind == ZoneKind::SequentialRequired {
            let words =
                |zone: &Zone| format!("{} with {} sectors", zone.cond, (zone.wp - zone.start).0);
            report(&format!("zone {number}: {} and {}", words(a), words(b)))?;
        }
        let (mut at, end) = (a.start, data_end(a).min(data_end(b)));
        while at < end {
            let len = (end - at).0.min(u64::from(limits.max_sectors));
            let len = u32::try_from(len).expect("no longer than a command");
            let (a, b) = (first.read(at, len)?, second.read(at, len)?);
            let lba = limits.lba_size as usize;
            for (index, (a, b)) in (0..).zip(a.chunks(lba).zip(b.chunks(lba))) {
                if a != b {
                    let sector = at + Sector(index * u64::from(limits.lba_sectors()));
                    let byte = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
                    report(&format!("sector {sector} (zone {number}): from byte {byte} on"))?;
                }
            }
            at += Sector(len.into());
        }
    }
    Ok(())
}

impl Content {
    /// Opens an image of the device that `header` describes.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, header: &Header) -> Result<Self, MakeError> {
        if header.geometry().regular {
            let (limits, zones) = header.zoned();
            let file = file::read(path).map_err(MakeError::file(path))?;
            return Ok(Content { source: Source::Disk(file, path.to_owned(), zones), limits });
        }
        let image = OpenImage::open(path)?;
        let limits = image.device.limits().clone();
        Ok(Content { source: Source::Zoned(Box::new(image)), limits })
    }

    /// The limits of the device.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// All zones.
    ///
    /// # Errors
    /// The image does not report them.
    pub fn zones(&self) -> Result<Vec<Zone>, MakeError> {
        let image = match &self.source {
            Source::Zoned(image) => image,
            Source::Disk(_, _, zones) => return Ok(zones.clone()),
        };
        let mut zones = Vec::new();
        let reported =
            image.device.report_zones(ZoneNo(0), self.limits.nr_zones as usize, &mut zones);
        let what = "zone report";
        reported.map_err(|status| MakeError::Command { what, sector: Sector(0), status })?;
        Ok(zones)
    }

    /// Reads sectors of one zone, no more than a command may have.
    ///
    /// # Errors
    /// The image does not give them, as where they do not match their checksums.
    pub fn read(&mut self, sector: Sector, nr_sectors: u32) -> Result<Buf, MakeError> {
        match &mut self.source {
            Source::Zoned(image) => {
                let buf = image.run(Bio::read(sector, nr_sectors, 0), "read")?;
                Ok(buf.expect("a read has a buffer"))
            }
            Source::Disk(file, path, _) => {
                let mut buf = Buf::zeroed(nr_sectors as usize * 512);
                let read = file.read_exact_at(&mut buf, sector.to_bytes().0);
                read.map_err(MakeError::file(path))?;
                Ok(buf)
            }
        }
    }
}
