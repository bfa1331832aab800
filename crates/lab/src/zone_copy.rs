//! Copies what zones hold: from one image to another, to a raw file of the data, and from one.
use crate::zone::SyncChannel;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use zonal_blk::{
    Bio, Buf, Op, Sector, Status, Zone, ZoneAttributes, ZoneCondition, ZoneKind, ZoneNo,
};

/// Sectors that are read and written at a time: 1 MiB.
const CHUNK: u64 = 2048;

/// Is told how many bytes were looked at.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64);

/// Copies the data and the conditions of zones from one device to another, whose zones have the same size.
///
/// # Errors
/// An I/O failed, or the other device cannot have what a zone holds.
pub fn between(
    from: &mut SyncChannel,
    to: &mut SyncChannel,
    on_progress: OnProgress<'_>,
) -> Result<()> {
    let (size, other) = (from.queue().limits().zone_size, to.queue().limits().zone_size);
    ensure!(size == other, "found zones of {size} sectors, expected {other} as in the original");
    let capacity = to.queue().limits().capacity;
    ensure!(
        size > Sector(0) || from.queue().limits().capacity <= capacity,
        "found a device of {capacity} sectors, expected {} as in the original",
        from.queue().limits().capacity
    );
    for (at, zone) in zones(from)?.into_iter().enumerate() {
        let end = readable_end(at, &zone)?;
        if size > Sector(0) && at >= to.queue().limits().nr_zones as usize {
            let holds = zone.kind == ZoneKind::Conventional || end > zone.start;
            ensure!(!holds, "zone {at} holds data, or could: expected at least {} zones", at + 1);
            continue;
        }
        let mut filled = Filling::new(to, &zone);
        for (start, sectors) in chunks(zone.start, end) {
            let buf = read(from, start, sectors)?;
            // The end of what a finished zone holds is not known: beyond it there are zeroes.
            let may_skip = zone.kind == ZoneKind::Conventional || zone.cond == ZoneCondition::Full;
            if !(may_skip && is_zero(&buf)) {
                filled.write(start, buf)?;
            }
            on_progress(u64::from(sectors) << 9);
        }
        filled.end(zone.cond == ZoneCondition::Full)?;
    }
    flush(to)
}

/// Writes the data of all zones to a raw file, where each sector has its place; what is zero is a hole.
///
/// # Errors
/// An I/O failed.
pub fn to_raw(from: &mut SyncChannel, raw: &File, on_progress: OnProgress<'_>) -> Result<()> {
    raw.set_len(from.queue().limits().capacity.to_bytes().0)?;
    for (at, zone) in zones(from)?.into_iter().enumerate() {
        for (start, sectors) in chunks(zone.start, readable_end(at, &zone)?) {
            let buf = read(from, start, sectors)?;
            if !is_zero(&buf) {
                raw.write_all_at(&buf, start.to_bytes().0)?;
            }
            on_progress(u64::from(sectors) << 9);
        }
    }
    Ok(raw.sync_all()?)
}

/// Fills an empty device from a raw file. A sequential zone gets all up to its last block that is not
/// zero.
///
/// # Errors
/// An I/O failed, or the file does not fit the device.
pub fn from_raw(raw: &File, to: &mut SyncChannel, on_progress: OnProgress<'_>) -> Result<()> {
    let (len, capacity) = (raw.metadata()?.len(), to.queue().limits().capacity.to_bytes().0);
    ensure!(len <= capacity, "found {len} bytes, expected at most the {capacity} of the device");
    let lba = u64::from(to.queue().limits().lba_size) >> 9;
    for (at, zone) in zones(to)?.into_iter().enumerate() {
        let mut filled = Filling::new(to, &zone);
        for (start, sectors) in chunks(zone.start, zone.start + zone.len) {
            let mut buf = Buf::zeroed((sectors as usize) << 9);
            read_up_to(raw, &mut buf, start.to_bytes().0)?;
            on_progress(u64::from(sectors) << 9);
            let Some(last) = buf.iter().rposition(|&byte| byte != 0) else { continue };
            let used = ((last as u64 >> 9) + 1).next_multiple_of(lba);
            let end = zone.start + zone.capacity;
            ensure!(
                start.0 + used <= end.0,
                "zone {at} has data at sector {}, expected none from sector {end} on: that is beyond \
                 its capacity",
                start.0 + used - lba
            );
            filled.write(start, Buf::from(&buf[..(used as usize) << 9]))?;
        }
        filled.end(false)?;
    }
    flush(to)
}

/// A zone that is being written: without gaps if it is sequential.
struct Filling<'a> {
    channel: &'a mut SyncChannel,
    is_sequential: bool,
    start: Sector,
    /// The end of what was written.
    written: Sector,
}

impl<'a> Filling<'a> {
    fn new(channel: &'a mut SyncChannel, zone: &Zone) -> Self {
        let is_sequential = zone.kind == ZoneKind::SequentialRequired;
        Filling { channel, is_sequential, start: zone.start, written: zone.start }
    }

    fn write(&mut self, at: Sector, buf: Buf) -> Result<()> {
        if self.is_sequential {
            for (start, sectors) in chunks(self.written, at) {
                done(self.channel, Bio::write(start, Buf::zeroed((sectors as usize) << 9), 0))?;
            }
        }
        self.written = at + Sector(buf.len() as u64 >> 9);
        done(self.channel, Bio::write(at, buf, 0))
    }

    /// Leaves the zone full, or closed, so that it is not among those that are open.
    fn end(self, is_full: bool) -> Result<()> {
        if !self.is_sequential || !is_full && self.written == self.start {
            return Ok(());
        }
        let zone = self.channel.queue().limits().zone_of(self.start);
        let now = self.channel.queue().zones(zone..ZoneNo(zone.0 + 1)).next();
        let is_full_now = matches!(now, Some(Ok(zone)) if zone.cond == ZoneCondition::Full);
        match (is_full, is_full_now) {
            (_, true) => Ok(()),
            (true, false) => done(self.channel, Bio::new(Op::ZoneFinish, self.start, 0, 0)),
            (false, false) => done(self.channel, Bio::new(Op::ZoneClose, self.start, 0, 0)),
        }
    }
}

/// The zones of a device; one without zones is a conventional zone.
fn zones(channel: &SyncChannel) -> Result<Vec<Zone>> {
    let limits = channel.queue().limits();
    if limits.nr_zones == 0 {
        let (kind, cond) = (ZoneKind::Conventional, ZoneCondition::NotWritePointer);
        let (start, len, attributes) = (Sector(0), limits.capacity, ZoneAttributes::NONE);
        return Ok(vec![Zone { start, len, capacity: len, wp: start, kind, cond, attributes }]);
    }
    let zones: Result<Vec<Zone>, _> = channel.queue().all_zones().collect();
    zones.map_err(|status| anyhow!("the device did not report its zones: {status}"))
}

/// The end of what can be read of a zone.
fn readable_end(at: usize, zone: &Zone) -> Result<Sector> {
    Ok(match (zone.kind, zone.cond) {
        (_, ZoneCondition::ReadOnly | ZoneCondition::Offline) => {
            bail!("zone {at} is {}, expected one that can be copied", zone.cond)
        }
        (ZoneKind::Conventional, _) => zone.start + zone.len,
        (_, ZoneCondition::Full) => zone.start + zone.capacity,
        _ => zone.wp,
    })
}

/// The parts from `start` to `end`: the first sector of each, and how many it has.
fn chunks(start: Sector, end: Sector) -> impl Iterator<Item = (Sector, u32)> {
    let starts = (start.0..end.0).step_by(CHUNK as usize);
    starts.map(move |at| {
        let sectors = CHUNK.min(end.0 - at);
        (Sector(at), u32::try_from(sectors).expect("a chunk is short"))
    })
}

fn read(channel: &mut SyncChannel, at: Sector, sectors: u32) -> Result<Buf> {
    let completion = channel.run(Bio::read(at, sectors, 0));
    ensure!(completion.status == Status::Ok, "reading at sector {at}: {}", completion.status);
    completion.buf.with_context(|| format!("reading at sector {at}: found no data"))
}

fn flush(channel: &mut SyncChannel) -> Result<()> {
    done(channel, Bio::new(Op::Flush, Sector(0), 0, 0))
}

fn done(channel: &mut SyncChannel, bio: Bio) -> Result<()> {
    let what = format!("{:?} at sector {}", bio.op, bio.sector);
    let completion = channel.run(bio);
    ensure!(completion.status == Status::Ok, "{what}: {}", completion.status);
    Ok(())
}

fn is_zero(data: &[u8]) -> bool {
    data.iter().all(|&byte| byte == 0)
}

/// Reads what the file has there; the rest stays zero.
fn read_up_to(file: &File, buf: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], at + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(())
}
