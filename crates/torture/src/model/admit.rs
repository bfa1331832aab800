//! Submission: freezing, validation, splitting.
use super::bios::{Part, Spec};
use super::plug::Write;
use super::{CheckResult, Model, mergeable};
use zonal_blk::{Op, Sector, Status};

impl Model {
    /// A bio is submitted. Its number is what [`Model::next_id`] returned before.
    pub(crate) fn submit(&mut self, spec: Spec) -> CheckResult {
        let channel = spec.channel;
        let acknowledged = self.data.acknowledged_so_far();
        let bio = self.bios.add(spec, acknowledged);
        self.channels[channel].outstanding += 1;
        if self.is_held(channel) {
            self.channels[channel].held.push_back(bio);
            return Ok(());
        }
        self.admit(bio)
    }

    /// A batch of bios is submitted.
    pub(crate) fn submit_batch(&mut self, specs: Vec<Spec>) -> CheckResult {
        let mut run: Option<Write> = None;
        let mut run_zone = 0;
        for spec in specs {
            let plain = self.is_plain(&spec) && !self.is_held(spec.channel);
            if !plain {
                if let Some(write) = run.take() {
                    self.write(run_zone, write)?;
                }
                self.submit(spec)?;
                continue;
            }
            let zone = self.zone_of(&spec);
            let ordered =
                spec.op == Op::Write && self.plugs_in_use() && !self.is_conventional(zone);
            let acknowledged = self.data.acknowledged_so_far();
            let Spec { op, sector, nr_sectors, flags, channel, .. } = spec;
            let bio = self.bios.add(spec, acknowledged);
            self.channels[channel].outstanding += 1;
            self.bios.enter(bio, 1);
            if !ordered {
                // The command at the device shows how they were merged.
                continue;
            }
            let at = self.offset(zone, sector);
            let part = self.bios.get(bio).part(bio, sector, nr_sectors);
            let longest = if self.merge { self.limits.max_sectors } else { 0 };
            match &mut run {
                Some(write)
                    if zone == run_zone
                        && at == write.at + u64::from(write.len)
                        && part.goes_with(&write.parts[0])
                        && mergeable(flags)
                        && write.len + nr_sectors <= longest =>
                {
                    write.len += nr_sectors;
                    write.parts.push(part);
                }
                _ => {
                    let next = Write { op, at, len: nr_sectors, flags, parts: vec![part] };
                    if let Some(write) = run.replace(next) {
                        self.write(run_zone, write)?;
                    }
                    run_zone = zone;
                }
            }
        }
        run.map_or(Ok(()), |write| self.write(run_zone, write))
    }

    /// A channel polls: held bios are admitted unless the queue is frozen.
    pub(crate) fn poll(&mut self, channel: usize) -> CheckResult {
        if self.is_frozen() {
            return Ok(());
        }
        while let Some(bio) = self.channels[channel].held.pop_front() {
            self.admit(bio)?;
        }
        Ok(())
    }

    fn is_held(&self, channel: usize) -> bool {
        self.is_frozen() || !self.channels[channel].held.is_empty()
    }

    fn zone_of(&self, spec: &Spec) -> usize {
        match self.limits.zone_size.0 {
            0 => 0,
            size => usize::try_from(spec.sector.0 / size).expect("a zone has an index"),
        }
    }

    fn offset(&self, zone: usize, sector: Sector) -> u64 {
        sector.0 - zone as u64 * self.limits.zone_size.0
    }

    fn is_plain(&self, spec: &Spec) -> bool {
        let unit = u64::from(self.limits.zone_write_sectors());
        let (sector, len) = (spec.sector.0, u64::from(spec.nr_sectors));
        matches!(spec.op, Op::Read | Op::Write)
            && sector.is_multiple_of(unit)
            && len.is_multiple_of(unit)
            && len > 0
            && sector + len <= self.limits.capacity.0
            && self.longest(spec, spec.sector) >= spec.nr_sectors
    }

    /// The longest part of a bio from `sector` on that fits one command.
    fn longest(&self, spec: &Spec, sector: Sector) -> u32 {
        let limits = &self.limits;
        let longest = match spec.op {
            Op::Discard => u32::MAX,
            Op::WriteZeroes if limits.max_write_zeroes_sectors > 0 => {
                limits.max_write_zeroes_sectors
            }
            _ => limits.max_sectors,
        };
        match limits.zone_size.0 {
            0 => longest,
            size => longest.min(u32::try_from(size - sector.0 % size).unwrap_or(u32::MAX)),
        }
    }

    /// The status with which a bio is rejected, if it is.
    fn rejection(&self, spec: &Spec) -> Option<Status> {
        let limits = &self.limits;
        let Spec { op, sector, nr_sectors, .. } = *spec;
        let lba = u64::from(limits.lba_sectors());
        let zoned_only = op.is_zone_management() || matches!(op, Op::ZoneAppend | Op::ZoneResetAll);
        if zoned_only && limits.nr_zones == 0 {
            return Some(Status::NotSupported);
        }
        if matches!(op, Op::Flush | Op::ZoneResetAll) {
            return None;
        }
        let whole = sector.0.is_multiple_of(lba) && u64::from(nr_sectors).is_multiple_of(lba);
        if !whole || sector.0 + u64::from(nr_sectors) > limits.capacity.0 {
            return Some(Status::Invalid);
        }
        let at_start = |()| sector.0.is_multiple_of(limits.zone_size.0);
        if op.has_range() {
            if nr_sectors == 0 {
                return Some(Status::Invalid);
            }
            let zone = u32::try_from(limits.zone_size.0).unwrap_or(u32::MAX);
            let append = match limits.append_max_sectors {
                0 => limits.max_sectors.min(zone),
                native => native.min(limits.max_sectors).min(zone),
            };
            let fits = op != Op::ZoneAppend || nr_sectors <= append && at_start(());
            if !fits {
                return Some(Status::IoError);
            }
            return self.is_too_fine(spec).then_some(Status::Invalid);
        }
        let starts = sector < limits.capacity && at_start(());
        (!starts).then_some(Status::Invalid)
    }

    /// Whether a bio would write a part of a unit of the write granularity in a sequential zone.
    fn is_too_fine(&self, spec: &Spec) -> bool {
        if self.limits.write_granularity == 0 || !spec.op.is_write() {
            return false;
        }
        let unit = u64::from(self.limits.zone_write_sectors());
        let (first, end) = (spec.sector.0, spec.sector.0 + u64::from(spec.nr_sectors));
        let is_sequential =
            |sector: u64| !self.is_conventional(self.limits.zone_of(Sector(sector)).index());
        !first.is_multiple_of(unit) && is_sequential(first)
            || !end.is_multiple_of(unit) && is_sequential(end - 1)
    }

    fn admit(&mut self, bio: u32) -> CheckResult {
        let spec = self.bios.get(bio).clone();
        if let Some(status) = self.rejection(&spec) {
            self.bios.enter(bio, 1);
            let part = spec.part(bio, spec.sector, 0);
            return self.part_completed(&part, status);
        }
        let parts = self.split(bio, &spec);
        self.bios.enter(bio, u32::try_from(parts.len()).expect("fewer parts than sectors"));
        let as_data = spec.op == Op::WriteZeroes && self.limits.max_write_zeroes_sectors == 0;
        let op = if as_data { Op::Write } else { spec.op };
        for part in parts {
            self.pass(op, &spec, part)?;
        }
        Ok(())
    }

    fn split(&self, bio: u32, spec: &Spec) -> Vec<Part> {
        let mut parts = Vec::new();
        let (mut sector, mut left) = (spec.sector, spec.nr_sectors);
        if !spec.op.has_range() || spec.op == Op::ZoneAppend {
            return vec![spec.part(bio, sector, left)];
        }
        while left > 0 {
            let nr_sectors = left.min(self.longest(spec, sector));
            parts.push(spec.part(bio, sector, nr_sectors));
            left -= nr_sectors;
            sector += Sector(nr_sectors.into());
        }
        parts
    }

    /// A part is sent to the plug of its zone, or around it.
    fn pass(&mut self, op: Op, spec: &Spec, part: Part) -> CheckResult {
        if self.limits.nr_zones == 0 {
            return Ok(());
        }
        if !self.plugs_in_use() {
            let lacking = op == Op::ZoneAppend && self.limits.append_max_sectors == 0;
            return if lacking { self.part_completed(&part, Status::NotSupported) } else { Ok(()) };
        }
        if op == Op::ZoneResetAll {
            (0..self.limits.nr_zones as usize).for_each(|zone| self.begin_management(zone));
            return Ok(());
        }
        let manages = matches!(op, Op::ZoneReset | Op::ZoneFinish);
        let opens = matches!(op, Op::ZoneOpen | Op::ZoneClose);
        if !op.is_write() && !manages && !opens {
            return Ok(());
        }
        let zone = usize::try_from(part.sector.0 / self.limits.zone_size.0).expect("an index");
        if self.is_conventional(zone) {
            let writes = matches!(op, Op::Write | Op::WriteZeroes);
            return if writes { Ok(()) } else { self.part_completed(&part, Status::IoError) };
        }
        if opens {
            return Ok(());
        }
        if manages {
            self.begin_management(zone);
            return Ok(());
        }
        if op == Op::ZoneAppend && self.limits.append_max_sectors > 0 {
            return self.begin_append(zone);
        }
        let at = self.offset(zone, part.sector);
        let (len, flags) = (part.nr_sectors, spec.flags);
        self.write(zone, Write { op, at, len, flags, parts: vec![part] })
    }

    /// Bios that have not completed, for messages.
    pub(crate) fn waiting(&self) -> String {
        self.bios.waiting()
    }
}
