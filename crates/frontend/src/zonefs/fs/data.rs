//! Plans of reads, writes and truncations, and the recovery of a file from an error.
//!
//! Each operation is planned here, done by a worker, and reported back with its status. Invariant: a
//! sequential file is written only at its end, also while writes are in flight.
use super::{FileNo, State, ZoneFs, errno};
use crate::zonefs::options::{Access, Health, recovery_action};
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use zonal_blk::{Op, Sector, Status, Zone, ZoneCondition, ZoneKind, ZonePhase};

/// How a file was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenMode {
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_APPEND`.
    pub append: bool,
    /// `O_DSYNC`: writes are durable when they return. The kernel syncs conventional files itself after a
    /// write, and leaves it to the server where the page cache is not used.
    pub sync: bool,
}

/// A read of the blocks that cover the requested bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::zonefs) struct ReadPlan {
    pub sector: Sector,
    pub nr_sectors: u32,
    /// Bytes in front of the requested ones.
    pub skip: usize,
    /// Requested bytes, up to the end of the file.
    pub len: usize,
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::zonefs) struct WritePlan {
    /// The first byte, in the file.
    pub offset: u64,
    /// Bytes, up to the file's capacity.
    pub len: usize,
    /// It does not fill its blocks: a read-modify-write.
    pub is_partial: bool,
}

impl ZoneFs {
    /// The first sector of a file.
    pub(in crate::zonefs) fn start(&self, file: FileNo) -> Sector {
        self.extent(file).start
    }

    /// Reports a file's zones; none if the device fails to.
    fn report(&self, file: FileNo) -> Vec<Zone> {
        let extent = self.extent(file);
        let mut zones = Vec::with_capacity(extent.zones as usize);
        // A failed report changes nothing.
        let _ = self.queue.report_zones(extent.first, extent.zones as usize, &mut zones);
        zones
    }

    /// Reads a file's size from the device.
    pub(super) fn refresh(&self, file: FileNo, state: &mut State) -> u64 {
        let capacity = self.extent(file).capacity;
        if state.access == Access::None {
            state.size = 0;
        } else if !self.is_sequential(file) {
            state.size = capacity;
        } else if let [zone] = self.report(file)[..]
            && let Some(size) = written(&zone)
        {
            state.size = size;
        }
        state.size
    }

    /// The offset of the next write to a sequential file.
    fn write_pointer(&self, file: FileNo, state: &mut State) -> u64 {
        if state.in_flight > 0 {
            return state.next;
        }
        let extent = self.extent(file);
        // The block layer's write pointer includes the writes of others in flight.
        match self.queue.cached_zone(extent.first) {
            Some((ZonePhase::Empty | ZonePhase::Active, wp)) => wp.to_bytes().0,
            Some((ZonePhase::Full, _)) => extent.capacity,
            _ => self.refresh(file, state),
        }
    }

    /// Plans a read; `None` at the end of the file.
    ///
    /// # Errors
    /// `EPERM` if the zone is offline, `EINVAL` for direct I/O that is not aligned to blocks.
    pub(in crate::zonefs) fn read(
        &self,
        file: FileNo,
        offset: u64,
        len: usize,
        open_mode: OpenMode,
    ) -> Result<Option<ReadPlan>, Errno> {
        let mut state = self.state(file);
        if state.access == Access::None {
            return Err(Errno::PERM);
        }
        let size = self.refresh(file, &mut state);
        let left = size.saturating_sub(offset);
        let len = usize::try_from(left).map_or(len, |left| len.min(left));
        if len == 0 {
            return Ok(None);
        }
        let block = u64::from(self.queue.limits().lba_size);
        let (from, end) = (offset / block * block, (offset + len as u64).next_multiple_of(block));
        if open_mode.direct && (from != offset || end != offset + len as u64) {
            return Err(Errno::INVAL);
        }
        Ok(Some(ReadPlan {
            sector: self.start(file) + Sector(from >> 9),
            nr_sectors: u32::try_from((end - from) >> 9).map_err(|_| Errno::INVAL)?,
            skip: usize::try_from(offset - from).expect("less than a block"),
            len,
        }))
    }

    /// Plans a write. A plan that is not empty has to be carried out and reported to [`ZoneFs::write_done`].
    ///
    /// # Errors
    /// `EPERM` if the zone failed, `EROFS` after an error with `remount-ro`, `EFBIG` beyond the
    /// capacity, `EIO` for buffered writes to sequential files, `EINVAL` for direct I/O that is not
    /// aligned, for what is not at the end of a sequential file, and for `O_APPEND` elsewhere.
    pub(in crate::zonefs) fn write(
        &self,
        file: FileNo,
        offset: u64,
        len: usize,
        open_mode: OpenMode,
    ) -> Result<WritePlan, Errno> {
        let (sequential, capacity) = (self.is_sequential(file), self.extent(file).capacity);
        let mut state = self.state(file);
        if state.access != Access::Full {
            return Err(Errno::PERM);
        }
        self.check_not_read_only()?;
        if offset >= capacity && !open_mode.append {
            return Err(Errno::FBIG);
        }
        if sequential && !open_mode.direct {
            return Err(Errno::IO);
        }
        if open_mode.append && !sequential {
            return Err(Errno::INVAL);
        }
        if len == 0 {
            return Ok(WritePlan { offset, len, is_partial: false });
        }
        let pointer = if sequential { self.write_pointer(file, &mut state) } else { offset };
        let offset = if open_mode.append { pointer } else { offset };
        let left = capacity.checked_sub(offset).filter(|&left| left > 0).ok_or(Errno::FBIG)?;
        let len = usize::try_from(left).map_or(len, |left| len.min(left));
        let end = offset + len as u64;
        let limits = self.queue.limits();
        let unit = if sequential { limits.zone_write_granularity() } else { limits.lba_size };
        let is_partial = !(offset | end).is_multiple_of(u64::from(unit));
        if is_partial && open_mode.direct || offset != pointer {
            return Err(Errno::INVAL);
        }
        state.in_flight += 1;
        state.next = end;
        Ok(WritePlan { offset, len, is_partial })
    }

    /// A write completed with this status.
    pub(in crate::zonefs) fn write_done(
        &self,
        file: FileNo,
        plan: WritePlan,
        status: Status,
    ) -> Result<(), Errno> {
        let mut state = self.state(file);
        state.in_flight -= 1;
        if status == Status::Ok {
            state.size = state.size.max(plan.offset + plan.len as u64);
            state.meta.modified = SystemTime::now();
            state.meta.changed = state.meta.modified;
            return Ok(());
        }
        drop(state);
        self.recover(file, status, true);
        Err(errno(status))
    }

    /// The operation by which a file is truncated; `None` if it has the size already.
    ///
    /// # Errors
    /// `EROFS`, or `EPERM` for a conventional file, any size but 0 and the capacity, and a file whose
    /// zone has failed.
    pub(in crate::zonefs) fn truncate(&self, file: FileNo, size: u64) -> Result<Option<Op>, Errno> {
        self.check_not_read_only()?;
        let capacity = self.extent(file).capacity;
        let mut state = self.state(file);
        if state.access != Access::Full || !self.is_sequential(file) {
            return Err(Errno::PERM);
        }
        let op = match size {
            0 => Op::ZoneReset,
            _ if size == capacity => Op::ZoneFinish,
            _ => return Err(Errno::PERM),
        };
        Ok((self.refresh(file, &mut state) != size).then_some(op))
    }

    /// The operation of [`ZoneFs::truncate`] completed with this status. Returns whether the zone has to be
    /// opened again, for programs that have the file open.
    pub(in crate::zonefs) fn truncate_done(
        &self,
        file: FileNo,
        size: u64,
        status: Status,
    ) -> Result<bool, Errno> {
        if status != Status::Ok {
            self.recover(file, status, false);
            return Err(errno(status));
        }
        let mut state = self.state(file);
        state.size = size;
        state.meta.modified = SystemTime::now();
        state.meta.changed = state.meta.modified;
        state.opened &= size == 0;
        Ok(state.opened)
    }

    /// The zone of a truncated file could not be opened again. Returns the error.
    pub(in crate::zonefs) fn reopen_failed(&self, file: FileNo, status: Status) -> Errno {
        self.state(file).opened = false;
        errno(status)
    }

    /// Checks that a file may be flushed.
    ///
    /// # Errors
    /// `EPERM` if its zone has failed.
    pub(in crate::zonefs) fn sync(&self, file: FileNo) -> Result<(), Errno> {
        if self.state(file).access == Access::Full { Ok(()) } else { Err(Errno::PERM) }
    }

    /// Recovers from a failed I/O: reports the zone and follows zonefs' table. A failed read of a good
    /// zone changes nothing.
    pub(in crate::zonefs) fn recover(&self, file: FileNo, status: Status, writing: bool) {
        let zones = self.report(file);
        let Some(health) = zones.iter().map(health).max() else {
            return;
        };
        if health == Health::Good && !writing {
            return;
        }
        let recovery_action = recovery_action(self.options.on_error, health);
        let mut state = self.state(file);
        state.access = state.access.min(recovery_action.access);
        state.opened &= health == Health::Good;
        let size = self.refresh(file, &mut state);
        drop(state);
        (self.notify)(&format!(
            "{}: {status}; the zone is {}, the file's size {size}",
            self.tree.name(file),
            match health {
                Health::Good => "good",
                Health::ReadOnly => "read-only",
                Health::Offline => "offline",
            }
        ));
        if recovery_action.read_only_view {
            self.become_read_only();
        }
    }

    pub(super) fn become_read_only(&self) {
        if !self.read_only.swap(true, Ordering::AcqRel) {
            (self.notify)("all files are read-only now");
        }
    }
}

/// The size in bytes of the file of a zone; `None` if its write pointer is not valid.
fn written(zone: &Zone) -> Option<u64> {
    match zone.cond {
        ZoneCondition::ReadOnly | ZoneCondition::Offline => None,
        ZoneCondition::Full => Some(zone.capacity.to_bytes().0),
        _ if zone.kind == ZoneKind::Conventional => Some(zone.capacity.to_bytes().0),
        _ => Some((zone.wp - zone.start).to_bytes().0),
    }
}

fn health(zone: &Zone) -> Health {
    match zone.cond {
        ZoneCondition::ReadOnly => Health::ReadOnly,
        ZoneCondition::Offline => Health::Offline,
        _ => Health::Good,
    }
}
