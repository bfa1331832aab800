//! What is wrong with an image, for people.
//!
//! Takes a file; gives what was found, and writes nothing.
use super::error::ImageError;
use super::recover::{Recovered, read_superblock, recover};
use super::store::ReadAt;
use super::superblock::Superblock;
use zonal_blk::{Sector, ZoneCondition};

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// As it should be after a loss of power; opening the image settles it.
    Note(String),
    /// Damage that costs nothing yet; `--repair` mends it.
    Damage(String),
}

/// Looks at all metadata of an image, and at the data that the last records vouch for.
///
/// # Errors
/// What makes the image unusable.
pub fn check(file: &dyn ReadAt) -> Result<(Superblock, Recovered, Vec<Finding>), ImageError> {
    let (superblock, mut damaged) = read_superblock(file)?;
    let recovered = recover(file, &superblock)?;
    damaged.extend(recovered.damaged.iter().cloned());
    let mut findings: Vec<Finding> = damaged
        .iter()
        .map(|(what, at)| {
            Finding::Damage(format!("{what} is damaged, at byte {at}; its twin is whole"))
        })
        .collect();
    if !recovered.clean {
        findings.push(Finding::Note(format!(
            "the image was not closed: {} records of {} zones since the last zone table",
            recovered.batches,
            recovered.touched.len()
        )));
    }
    for zone in &recovered.unverified {
        findings.push(Finding::Note(format!(
            "zone {zone}: a flush was under way, its data are as before the flush"
        )));
    }
    let geometry = &superblock.geometry;
    let active = recovered.zones.iter().filter(|zone| zone.cond == ZoneCondition::Closed).count();
    if geometry.max_active > 0 && active > geometry.max_active as usize {
        findings.push(Finding::Note(format!(
            "{active} zones are active, and at most {} are to be: zones were being filled when \
             the power went",
            geometry.max_active
        )));
    }
    Ok((superblock, recovered, findings))
}

impl Recovered {
    /// How many zones there are of each condition, and the sectors that are written.
    pub fn summary(&self) -> String {
        let count = |cond| self.zones.iter().filter(|zone| zone.cond == cond).count();
        let written: u64 = self.zones.iter().map(|zone| zone.written.0).sum();
        let conditions = [
            (ZoneCondition::NotWritePointer, "conventional"),
            (ZoneCondition::Empty, "empty"),
            (ZoneCondition::Closed, "closed"),
            (ZoneCondition::Full, "full"),
            (ZoneCondition::ReadOnly, "read-only"),
            (ZoneCondition::Offline, "offline"),
        ];
        let mut parts: Vec<String> = conditions
            .into_iter()
            .filter(|&(cond, _)| count(cond) > 0)
            .map(|(cond, name)| format!("{} {name}", count(cond)))
            .collect();
        parts.push(format!("{} bytes written", Sector(written).to_bytes()));
        parts.join(", ")
    }
}
