//! Trims: resets of whole zones, and discards in conventional ones. They count against no limit of
//! zones being written.
use super::{Io, NextIo, Source, Target, ZbdJob};
use crate::generate::zbd::Acquire;
use crate::job::DataDir;
use zonal_blk::{BioFlags, Op};

impl ZbdJob {
    /// The next trim. As in fio a random one goes to the nearest zone that holds data; a sequential one
    /// leaves out zones that are read-only or offline.
    pub(super) fn trim(&mut self, len: u64) -> NextIo {
        let dir = DataDir::Trim;
        loop {
            let Some(mut target) = self.trim_target(len) else { return NextIo::EndOfPass };
            let mut zone = target.zone;
            if self.random && !self.table.is_conventional(self.first + zone) {
                let found = self.table.nearest_with_data(self.region(), self.first + zone, 1, true);
                let Some(found) = found else { return NextIo::EndOfPass };
                zone = found - self.first;
                target = Target { zone, at: 0, ..target };
            }
            if self.owned.contains(zone) {
                return self.defer(dir, target, NextIo::Wait);
            }
            match self.table.acquire_to_reset(self.first + zone, self.id) {
                Acquire::Granted(owned) if owned.conventional => {
                    let (op, flags, offset) = (Op::Discard, BioFlags::NONE, owned.start);
                    return NextIo::Io(Io { op, dir, offset, len, zone: None, flags });
                }
                Acquire::Granted(owned) => {
                    self.owned.add(zone, owned);
                    let io = self.manage(Op::ZoneReset, zone);
                    self.owned.get(zone).trimmed = true;
                    return NextIo::Io(Io { dir, len, ..io });
                }
                Acquire::Busy => return self.defer(dir, target, NextIo::Contended),
                _ => {}
            }
        }
    }

    fn trim_target(&mut self, len: u64) -> Option<Target> {
        let is_pending = self.pending[DataDir::Trim as usize].is_some();
        if matches!(self.source, Source::Zones) && !is_pending {
            return Some(Target { zone: self.rng.below_u32(self.owned.nr_zones()), at: 0, len });
        }
        self.target(DataDir::Trim, len)
    }
}
