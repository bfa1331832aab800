//! A script through the block layer, in virtual time.
use crate::kernel::MANAGEMENT_FAILED;
use crate::observe::Observed;
use crate::script::{BLOCK, Export, MAX_SECTORS_KB, Pace, Round, Script, Step, WRITE_CACHE, ZONES};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::sync::Arc;
use zonal_backend::Stack;
use zonal_blk::sched::Scheduler;
use zonal_blk::{
    Bio, BioFlags, Buf, Channel, Completion, Nanos, Op, Queue, QueueOptions, Sector, Status, Wake,
    ZoneCondition, ZoneNo,
};
use zonal_blk::{WpRecovery, ZoneWrite};
use zonal_device::DeviceControl;
use zonal_device::inject::Rule;
use zonal_device::power::{CutPlan, Keep, When};

/// Threads that submit, in turn.
const CHANNELS: usize = 4;

/// A device with faults and a recorder, and its queue.
pub struct Layer {
    stack: Stack,
    export: Export,
    channels: Vec<Channel>,
    now: Nanos,
    next: usize,
    /// The change that waits until the queue is empty.
    change: Option<(usize, Step)>,
}

impl Layer {
    /// Opens the device; what reaches it goes to `log`, unless it loses its power.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn open(script: &Script, log: &Path) -> Result<Self> {
        let policy = if script.setup.qd1 { ZoneWrite::Qd1 } else { ZoneWrite::Plug };
        let options = QueueOptions {
            zone_write: Some(policy),
            // As the kernel, which does not report a zone after a failed write.
            wp_recovery: WpRecovery::OnRequest,
            share_queues: true,
            ..QueueOptions::default()
        };
        let export = script.setup.export;
        let stack = Stack::open(&export.device())?.inject(0, Vec::new());
        let stack = match script.setup.power {
            true => stack.write_cache(WRITE_CACHE / 512),
            false => stack.record(log),
        };
        let stack = stack.attach(options)?;
        if let Some(recording) = &stack.recording {
            recording.start()?;
        }
        let channels = (0..CHANNELS).map(|_| stack.queue.channel()).collect::<Result<_, _>>()?;
        let mut layer = Layer { stack, export, channels, now: Nanos(0), next: 0, change: None };
        layer.queue().freeze();
        layer.queue().set_max_sectors(MAX_SECTORS_KB * 2)?;
        layer.queue().unfreeze();
        layer.settle(&mut Vec::new())?;
        Ok(layer)
    }

    fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.stack.queue)
    }

    /// Runs a script to its end, and finishes the log.
    ///
    /// # Errors
    /// A bio does not complete, or the log cannot be written.
    pub fn run(mut self, script: &Script) -> Result<Vec<Observed>> {
        let rounds = script.rounds.iter().enumerate();
        let observed = rounds.map(|(at, round)| self.round(at, round)).collect::<Result<_>>()?;
        if let Some(recording) = &self.stack.recording {
            recording.finish()?;
        }
        Ok(observed)
    }

    fn round(&mut self, at: usize, round: &Round) -> Result<Observed> {
        if let Some(recording) = &self.stack.recording {
            recording.recorder.mark(&format!("round {at}"));
        }
        for command in &round.before {
            self.ctl(command)?;
        }
        let mut results = vec![None; round.steps.len()];
        for (at, step) in round.steps.iter().enumerate() {
            self.submit(at, *step);
            if round.pace == Pace::OneByOne {
                self.settle(&mut results)?;
            }
        }
        for command in &round.after {
            self.ctl(command)?;
        }
        self.settle(&mut results)?;
        let managed = |step: &Step| matches!(step, Step::Zone(..) | Step::ResetAll);
        for (result, step) in results.iter_mut().zip(&round.steps) {
            if managed(step) && result.is_some_and(|result| result != 0) {
                *result = Some(MANAGEMENT_FAILED);
            }
        }
        let lost = || format!("round {at}: {}: a bio did not complete", round.name);
        let results = results.into_iter().collect::<Option<_>>().with_context(lost)?;
        Ok(Observed { results, zones: self.zones()? })
    }

    /// Commands of `zonal ctl` that scripts have.
    fn ctl(&self, command: &str) -> Result<()> {
        let inject = self.stack.inject.as_ref().context("no faults")?;
        match command.split(' ').collect::<Vec<_>>()[..] {
            ["fault", "clear"] => drop(inject.clear()),
            ["fault", "add", rule] => inject.add(rule.parse::<Rule>()?),
            ["zone", zone, to] => {
                let zone = ZoneNo(zone.parse()?);
                let conventional = zone.0 < self.export.conventional();
                let condition = match (to, conventional) {
                    ("read-only", _) => ZoneCondition::ReadOnly,
                    ("offline", _) => ZoneCondition::Offline,
                    ("mend", true) => ZoneCondition::NotWritePointer,
                    ("mend", false) => ZoneCondition::Empty,
                    _ => bail!("found `{command}`, expected a condition"),
                };
                let set = inject.set_condition(zone, condition);
                set.ok().with_context(|| command.to_owned())?;
            }
            ["power-cut", "--after", writes] => {
                let power = self.stack.power.as_ref().context("no write cache")?;
                power.cut(CutPlan::new(When::After(writes.parse()?), Keep::None, 0), None)?;
            }
            _ => bail!("found `{command}`, expected fault, power-cut or zone"),
        }
        Ok(())
    }

    fn submit(&mut self, at: usize, step: Step) {
        let user_data = at as u64;
        let bio = match step {
            Step::Io { write, at, len, fua } => {
                let (sector, sectors) = (Sector(at / 512), (len / 512) as u32);
                let mut bio = match write {
                    true => Bio::write(
                        sector,
                        Buf::from(&*vec![(at / BLOCK) as u8; len as usize]),
                        user_data,
                    ),
                    false => Bio::read(sector, sectors, user_data),
                };
                if fua {
                    bio.flags = BioFlags::FUA;
                }
                bio
            }
            Step::Zone(op, zone) => {
                let start = self.queue().limits().zone_start(ZoneNo(zone));
                Bio::new(op, start, 0, user_data)
            }
            Step::ResetAll => Bio::new(Op::ZoneResetAll, Sector(0), 0, user_data),
            Step::Deadline(_) | Step::Qd1(_) => {
                self.queue().freeze();
                self.change = Some((at, step));
                return;
            }
        };
        self.next = (self.next + 1) % self.channels.len();
        self.channels[self.next].submit(self.now, bio);
    }

    /// Polls until all bios have completed.
    fn settle(&mut self, results: &mut [Option<i32>]) -> Result<()> {
        let mut done: Vec<Completion> = Vec::new();
        loop {
            for channel in &mut self.channels {
                channel.poll(self.now, &mut done);
            }
            for completion in done.drain(..) {
                results[completion.user_data as usize] = Some(errno(completion.status));
            }
            if self.queue().is_quiescent()
                && let Some((at, step)) = self.change.take()
            {
                match step {
                    Step::Deadline(true) => {
                        self.queue().set_scheduler("mq-deadline".parse::<Scheduler>()?)?
                    }
                    Step::Deadline(false) => self.queue().set_scheduler(Scheduler::default())?,
                    Step::Qd1(true) => self.queue().set_zone_write(ZoneWrite::Qd1)?,
                    _ => self.queue().set_zone_write(ZoneWrite::Plug)?,
                }
                self.queue().unfreeze();
                results[at] = Some(0);
                continue;
            }
            let wake = self.channels.iter_mut().map(Channel::next_event).min();
            match wake.context("no channel")? {
                Wake::Now => {}
                Wake::At(time) => self.now = self.now.max(time),
                Wake::Idle if self.change.is_none() => return Ok(()),
                wake => bail!("nothing goes on: {wake:?}"),
            }
        }
    }

    fn zones(&self) -> Result<Vec<(u8, u64)>> {
        let mut zones = Vec::new();
        let reported = self.queue().report_zones(ZoneNo(0), ZONES as usize, &mut zones);
        reported.ok().context("no report")?;
        let state = |zone: &zonal_blk::Zone| {
            let condition = zone.cond as u8;
            let written = (zone.wp.0 - zone.start.0) * 512 / BLOCK;
            (condition, if Observed::has_pointer(condition) { written } else { 0 })
        };
        Ok(zones.iter().map(state).collect())
    }
}

/// The error number that the kernel has for a status that passes through a virtio disk.
fn errno(status: Status) -> i32 {
    match status {
        Status::Ok => 0,
        Status::ZoneOpenResource | Status::ZoneActiveResource | Status::Invalid => status.errno(),
        _ => Status::IoError.errno(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::draw;
    use crate::script::Setup;

    /// What came of the rounds of this name.
    fn results(script: &Script, observed: &[Observed], name: &str) -> Vec<i32> {
        let rounds = script.rounds.iter().zip(observed).filter(|(round, _)| round.name == name);
        rounds.flat_map(|(_, observed)| observed.results.clone()).collect()
    }

    /// What the layer does with a script of this setup.
    fn drawn(seed: u64, setup: Setup) -> (Script, Vec<Observed>) {
        let script = draw(seed, 30, setup);
        let directory = tempfile::tempdir().expect("a directory");
        let layer = Layer::open(&script, &directory.path().join("log"));
        let observed = layer.and_then(|layer| layer.run(&script)).expect("all bios complete");
        (script, observed)
    }

    #[test]
    fn power_fails_after_as_many_writes_as_drawn_and_zones_go_on_where_they_are_durable() {
        for qd1 in [false, true] {
            let setup = Setup { export: Export::Virtio, is_new: true, qd1, power: true };
            let (script, observed) = drawn(5, setup);
            for (round, observed) in script.rounds.iter().zip(&observed) {
                let Some(plan) = round.before.iter().find(|line| line.starts_with("power-cut"))
                else {
                    continue;
                };
                let writes: usize =
                    plan.rsplit(' ').next().expect("words").parse().expect("writes");
                let done = observed.results.iter().filter(|result| **result == 0).count();
                assert_eq!(done, writes, "{:?}", observed.results);
            }
            let later = results(&script, &observed, "after the loss of power");
            assert!(later.len() > 100 && later.iter().all(|result| *result == 0), "{later:?}");
        }
    }

    #[test]
    fn writes_to_zones_that_were_emptied_fail_once_and_go_on_from_the_start() {
        for (export, qd1) in [(Export::Virtio, true), (Export::NvmeTcp, false)] {
            let (script, observed) = drawn(3, Setup { export, is_new: true, qd1, power: false });
            let (lost, later) = (
                results(&script, &observed, "the device has emptied zones"),
                results(&script, &observed, "from the start"),
            );
            assert_eq!((lost.len(), later.len()), (12, 12), "two cases");
            assert!(lost.iter().all(|result| *result != 0), "{lost:?}");
            assert!(later.iter().all(|result| *result == 0), "{later:?}");
        }
    }
}
