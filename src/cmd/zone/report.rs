//! `zonal zone report` and `zonal zone capacity`, in the format of blkzone(8).
use super::range::Range;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fmt;
use std::io::Write;
use zonal_blk::{
    Queue, Sector, Status, Zone, ZoneAttributes, ZoneCondition, ZoneKind, ZoneNo, ZoneReport,
};

/// Zones per report, as blkzone requests them.
const ZONES_PER_REPORT: usize = 4096;

/// Prints the zones of a range. With a filter, prints the first `count` matching zones and, if
/// `verbose`, their total number; without one, `verbose` adds a line per report, as in blkzone.
pub fn report(
    queue: &Queue,
    range: Range,
    filter: Option<ZoneCondition>,
    verbose: bool,
    out: &mut impl Write,
) -> Result<()> {
    let Some(filter) = filter else {
        let mut left = range.zones(queue.limits()).len();
        for (at, zone) in zones(queue, range).enumerate() {
            let zone = zone.context("zone report")?;
            if verbose && at % ZONES_PER_REPORT == 0 {
                let count = left.min(ZONES_PER_REPORT);
                writeln!(out, "Found {count} zones from 0x{:x}", zone.start.0)?;
                left -= count;
            }
            writeln!(out, "{}", Line(&zone))?;
        }
        return Ok(());
    };
    let most = range.count.map_or(u64::MAX, u64::from);
    let (mut shown, mut found) = (0, 0_u64);
    for zone in zones(queue, Range { count: None, ..range }) {
        let zone = zone.context("zone report")?;
        if matches(filter, &zone) {
            found += 1;
            if shown < most {
                shown += 1;
                writeln!(out, "{}", Line(&zone))?;
            }
        }
    }
    if verbose {
        writeln!(out, "Found {shown} of {found} matching zones from 0x{:x}", range.start.0)?;
    }
    Ok(())
}

/// The zones that [`report`] prints, as JSON. Sectors have 512 bytes.
pub fn json(queue: &Queue, range: Range, filter: Option<ZoneCondition>) -> Result<Value> {
    let (range, most) = match filter {
        Some(_) => (Range { count: None, ..range }, range.count),
        None => (range, None),
    };
    // An error is not left out.
    let is_shown = |zone: &Result<Zone, Status>| match (zone, filter) {
        (Ok(zone), Some(filter)) => matches(filter, zone),
        _ => true,
    };
    let limits = queue.limits();
    let shown = zones(queue, range).filter(is_shown);
    let shown = shown.take(most.map_or(usize::MAX, |most| most as usize));
    shown
        .map(|zone| {
            let Zone { start, len, capacity, wp, kind, cond, attributes } =
                zone.context("zone report")?;
            let is_sequential = kind == ZoneKind::SequentialRequired;
            Ok(json!({
                "zone": limits.zone_of(start).0,
                "start": start.0,
                "length": len.0,
                "capacity": capacity.0,
                "write_pointer": is_sequential.then_some(wp.0),
                "type": if is_sequential { "seq-write-required" } else { "conventional" },
                "condition": cond.long(),
                "reset_recommended": attributes.contains(ZoneAttributes::RESET_RECOMMENDED),
            }))
        })
        .collect()
}

/// The sum of the capacities of a range.
pub fn capacity(queue: &Queue, range: Range) -> Result<Sector> {
    let mut capacities = zones(queue, range).map(|zone| zone.map(|zone| zone.capacity));
    capacities.try_fold(Sector(0), |sum, capacity| Ok(sum + capacity.context("zone report")?))
}

/// The zones of a range.
fn zones(queue: &Queue, range: Range) -> ZoneReport<'_> {
    let std::ops::Range { start, end } = range.zones(queue.limits());
    queue.zones(ZoneNo(start)..ZoneNo(end))
}

/// Whether a zone has this condition; of conventional zones, whether it is one in any condition.
fn matches(filter: ZoneCondition, zone: &Zone) -> bool {
    match filter {
        ZoneCondition::NotWritePointer => zone.kind == ZoneKind::Conventional,
        cond => zone.cond == cond,
    }
}

/// A zone as blkzone prints it.
struct Line<'a>(&'a Zone);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Zone { start, len, capacity, wp, kind, cond, attributes } = self.0;
        let (kind_number, kind_name, wp) = match kind {
            ZoneKind::Conventional => (1, "CONVENTIONAL", 0),
            ZoneKind::SequentialRequired => (2, "SEQ_WRITE_REQUIRED", wp.0.wrapping_sub(start.0)),
        };
        let (number, name) = (cond as u8, cond.short());
        let reset = u8::from(attributes.contains(ZoneAttributes::RESET_RECOMMENDED));
        // No device of Zonal has sequential-write-preferred zones.
        write!(
            f,
            "  start: 0x{start:09x}, len 0x{len:06x}, cap 0x{capacity:06x}, wptr 0x{wp:06x} \
             reset:{reset} non-seq:0, zcond:{number:2}({name}) [type: {kind_number}({kind_name})]",
            start = start.0,
            len = len.0,
            capacity = capacity.0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_blkzone() {
        let zone = |kind, cond, wp| Zone {
            start: Sector(0x80000),
            len: Sector(0x80000),
            capacity: Sector(0x7f000),
            wp: Sector(wp),
            kind,
            cond,
            attributes: zonal_blk::ZoneAttributes::NONE,
        };
        let sequential = zone(ZoneKind::SequentialRequired, ZoneCondition::Full, 0x100_000);
        assert_eq!(
            Line(&sequential).to_string(),
            "  start: 0x000080000, len 0x080000, cap 0x07f000, wptr 0x080000 reset:0 non-seq:0, \
             zcond:14(fu) [type: 2(SEQ_WRITE_REQUIRED)]"
        );
        let conventional = zone(ZoneKind::Conventional, ZoneCondition::NotWritePointer, 0x100_000);
        assert_eq!(
            Line(&conventional).to_string(),
            "  start: 0x000080000, len 0x080000, cap 0x07f000, wptr 0x000000 reset:0 non-seq:0, \
             zcond: 0(nw) [type: 1(CONVENTIONAL)]"
        );
    }
}
