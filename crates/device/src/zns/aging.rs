//! Zones that have been active or full for long: what the drive recommends to its host, and the zones
//! that it finishes on its own (NVMe ZNS 1.1, zone attributes and active zone excursions).
//!
//! A zone ages from the command on that makes it active, or full. All of it is off by default.
use super::ZnsConfig;
use crate::zones::Zones;
use std::collections::{BTreeMap, BTreeSet};
use zonal_blk::{Nanos, ZoneAttributes, ZoneCondition, ZoneNo};

/// The ages of a drive's zones.
pub(super) struct Aging {
    finish_recommended: Nanos,
    finish_after: Nanos,
    reset_recommended: Nanos,
    ages: BTreeMap<ZoneNo, Age>,
    /// When something next comes due; at the end of time if nothing does.
    next: Nanos,
    /// Zones whose descriptors have changed, and nobody has been told.
    changed: BTreeSet<ZoneNo>,
}

struct Age {
    full: bool,
    since: Nanos,
    /// It has been recommended to finish or to reset the zone.
    advised: bool,
}

const NEVER: Nanos = Nanos(u64::MAX);

impl Aging {
    /// `None` for a drive that recommends nothing.
    pub fn new(config: &ZnsConfig) -> Option<Self> {
        let &ZnsConfig { finish_recommended, finish_after, reset_recommended, .. } = config;
        let times = [finish_recommended, finish_after, reset_recommended];
        times.iter().any(|time| time.0 > 0).then(|| Aging {
            finish_recommended,
            finish_after,
            reset_recommended,
            ages: BTreeMap::new(),
            next: NEVER,
            changed: BTreeSet::new(),
        })
    }

    pub fn next(&self) -> Option<Nanos> {
        (self.next < NEVER).then_some(self.next)
    }

    /// When the drive next does something about a zone of this age.
    fn due(&self, age: &Age) -> Nanos {
        let after = |time: Nanos| if time.0 == 0 { NEVER } else { age.since.saturating_add(time) };
        let advice = if age.full { self.reset_recommended } else { self.finish_recommended };
        let advice = if age.advised { NEVER } else { after(advice) };
        if age.full { advice } else { advice.min(after(self.finish_after)) }
    }

    /// A command has been executed in a zone, which is in this condition now.
    pub fn note(&mut self, zone: ZoneNo, cond: ZoneCondition, now: Nanos) {
        let full = cond == ZoneCondition::Full;
        if !full && !cond.is_active() {
            self.ages.remove(&zone);
        } else if self.ages.get(&zone).is_none_or(|age| age.full != full) {
            let age = Age { full, since: now, advised: false };
            self.next = self.next.min(self.due(&age));
            self.ages.insert(zone, age);
        }
    }

    /// All zones may have changed.
    pub fn note_all(&mut self, zones: &Zones, now: Nanos) {
        let known: Vec<ZoneNo> = self.ages.keys().copied().collect();
        known.into_iter().for_each(|zone| self.note(zone, zones.condition(zone), now));
    }

    /// Does what is due at `now`; returns the zones that the drive has finished.
    pub fn age(&mut self, zones: &Zones, now: Nanos) -> Vec<ZoneNo> {
        let due: Vec<ZoneNo> = self
            .ages
            .iter()
            .filter(|(_, age)| self.due(age) <= now)
            .map(|(zone, _)| *zone)
            .collect();
        let mut finished = Vec::new();
        for zone in due {
            let age = &self.ages[&zone];
            let over =
                self.finish_after.0 > 0 && now >= age.since.saturating_add(self.finish_after);
            if !age.full && over {
                if zones.finish_by_device(zone) {
                    self.ages.insert(zone, Age { full: true, since: now, advised: false });
                    self.changed.insert(zone);
                    finished.push(zone);
                } else {
                    self.ages.remove(&zone);
                }
                continue;
            }
            let advice = match age.full {
                true => ZoneAttributes::RESET_RECOMMENDED,
                false => ZoneAttributes::FINISH_RECOMMENDED,
            };
            if zones.advise(zone, advice) {
                self.changed.insert(zone);
            }
            let advised = Age { advised: true, ..*age };
            self.ages.insert(zone, advised);
        }
        self.next = self.ages.values().map(|age| self.due(age)).min().unwrap_or(NEVER);
        finished
    }

    /// The zones whose descriptors have changed since the last call.
    pub fn take_changed(&mut self) -> impl Iterator<Item = ZoneNo> + use<> {
        std::mem::take(&mut self.changed).into_iter()
    }
}
