//! Reading the images of states, and comparing two of them.
use crate::image::{self, ImageWriter, MakeError};
use crate::log::Log;
use crate::state::State;
use std::io;
use std::path::Path;
use std::sync::Arc;
use zonal_blk::{Bio, Buf, Channel, Device, Limits, Nanos, Sector, Status, Zone, ZoneKind, ZoneNo};
use zonal_device::image::ImageDevice;

/// What is in an image.
pub struct Content {
    device: Arc<ImageDevice>,
    channel: Channel,
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
    differences(Content::open(&first)?, Content::open(&second)?, found)
}

fn differences(
    mut first: Content,
    mut second: Content,
    found: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), MakeError> {
    let limits = first.device.limits().clone();
    let (zones_a, zones_b) = (first.zones()?, second.zones()?);
    let mut report =
        |text: &str| found(text).map_err(MakeError::file(Path::new("standard output")));
    for (number, (a, b)) in (0..).zip(zones_a.iter().zip(&zones_b)) {
        if (a.cond, a.wp) != (b.cond, b.wp) && a.kind == ZoneKind::SequentialRequired {
            let words =
                |zone: &Zone| format!("{:?} with {} sectors", zone.cond, (zone.wp - zone.start).0);
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
    /// Opens an image.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Self, MakeError> {
        let ImageWriter { device, channel, .. } = ImageWriter::open(path)?;
        Ok(Content { device, channel })
    }

    /// The limits of the device.
    pub fn limits(&self) -> &Limits {
        self.device.limits()
    }

    /// All zones.
    ///
    /// # Errors
    /// The image does not report them.
    pub fn zones(&self) -> Result<Vec<Zone>, MakeError> {
        let mut zones = Vec::new();
        let all = self.device.limits().nr_zones as usize;
        let reported = self.device.report_zones(ZoneNo(0), all, &mut zones);
        let what = "zone report";
        reported.map_err(|status| MakeError::Command { what, sector: Sector(0), status })?;
        Ok(zones)
    }

    /// Reads sectors of one zone, no more than a command may have.
    ///
    /// # Errors
    /// The image does not give them, as where they do not match their checksums.
    pub fn read(&mut self, sector: Sector, nr_sectors: u32) -> Result<Buf, MakeError> {
        self.channel.submit(Nanos(0), Bio::read(sector, nr_sectors, 0));
        let mut done = Vec::with_capacity(1);
        while done.is_empty() {
            self.channel.poll(Nanos(0), &mut done);
        }
        match done.pop() {
            Some(done) if done.status == Status::Ok => Ok(done.buf.expect("a read has a buffer")),
            done => {
                let status = done.map_or(Status::IoError, |done| done.status);
                Err(MakeError::Command { what: "read", sector, status })
            }
        }
    }
}

/// Where the data of a zone end.
pub fn data_end(zone: &Zone) -> Sector {
    match zone.kind {
        ZoneKind::Conventional => zone.start + zone.len,
        ZoneKind::SequentialRequired => zone.wp.min(zone.writable_end()),
    }
}
