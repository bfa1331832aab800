//! What the kernel and the layer did with the same script, compared.
use crate::layer::Layer;
use crate::observe::Observed;
use crate::script::{Export, Round, Script, ZONE_BLOCKS};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use zonal_blk::{Op, Status};
use zonal_crash::log::{End, Event, Log};

/// A command that the device executed.
#[derive(Clone, Copy, Debug)]
struct Executed {
    op: Op,
    /// In 512-byte sectors.
    sector: u64,
    sectors: u32,
}

/// What the device executed in each round, in the order in which it was started.
pub struct Arrived(Vec<Vec<Executed>>);

impl Arrived {
    /// Reads a recording.
    ///
    /// # Errors
    /// The log is not whole, or lacks the marks of the rounds.
    pub fn read(path: &Path, rounds: usize) -> Result<Self> {
        let log = Log::open(path).with_context(|| path.display().to_string())?;
        let mut arrived: Vec<Vec<(u64, Executed, bool)>> = Vec::new();
        let mut events = log.events();
        for event in &mut events {
            match event {
                Event::Mark(_) => arrived.push(Vec::new()),
                Event::Started { id, command } if command.op != Op::Flush => {
                    let sector = command.sector.0;
                    let executed = Executed { op: command.op, sector, sectors: command.nr_sectors };
                    arrived
                        .last_mut()
                        .context("a command before the first mark")?
                        .push((id, executed, false));
                }
                Event::Ended { id, status: Status::Ok, .. } => {
                    let commands = arrived.last_mut().into_iter().flatten();
                    commands.filter(|command| command.0 == id).for_each(|command| command.2 = true);
                }
                _ => {}
            }
        }
        if events.end() != Some(&End::Whole) || arrived.len() != rounds {
            bail!(
                "{}: found {} rounds, expected {rounds} and a whole log",
                path.display(),
                arrived.len()
            );
        }
        let done = |round: Vec<(u64, Executed, bool)>| {
            round.into_iter().filter(|command| command.2).map(|command| command.1).collect()
        };
        Ok(Arrived(arrived.into_iter().map(done).collect()))
    }

    /// The commands of a round as lines: of each sequential zone in order, of conventional zones sorted; with
    /// QD=1 also the order of all writes to sequential zones. Reads that may overtake writes are left out.
    fn lines(&self, at: usize, round: &Round, export: Export) -> Vec<String> {
        let conventional = u64::from(export.conventional());
        let mut zones: BTreeMap<u64, Vec<Executed>> = BTreeMap::new();
        let mut order = String::new();
        let ordered = |command: &&Executed| export.keeps_order() || command.op != Op::Read;
        for &command in self.0[at].iter().filter(ordered) {
            let zone = command.sector / (ZONE_BLOCKS * 8);
            zones.entry(zone).or_default().push(command);
            if round.qd1 && command.op == Op::Write && zone >= conventional {
                let zone = format!(" {zone}");
                if round.same_merges || !order.ends_with(&zone) {
                    order += &zone;
                }
            }
        }
        let lines = zones.into_iter().map(|(zone, mut commands)| {
            if zone < conventional {
                commands.sort_unstable_by_key(|command| (command.sector, command.sectors));
            }
            if !round.same_merges {
                commands = joined(&commands);
            }
            let texts = commands.iter().map(|command| {
                format!(
                    " {} {}+{}",
                    command.op,
                    command.sector / 8 % ZONE_BLOCKS,
                    command.sectors / 8
                )
            });
            format!("zone {zone}:{}", texts.collect::<String>())
        });
        lines.chain(round.qd1.then(|| format!("order of zones:{order}"))).collect()
    }
}

/// Writes that follow one another as one.
fn joined(commands: &[Executed]) -> Vec<Executed> {
    let mut joined: Vec<Executed> = Vec::new();
    for command in commands {
        match joined.last_mut() {
            Some(last)
                if last.op == Op::Write
                    && command.op == Op::Write
                    && last.sector + u64::from(last.sectors) == command.sector =>
            {
                last.sectors += command.sectors;
            }
            _ => joined.push(*command),
        }
    }
    joined
}

/// What one of the two did.
pub struct Done {
    /// Results and zones.
    pub observed: Vec<Observed>,
    /// What the device executed, if it was recorded.
    pub arrived: Option<Arrived>,
}

impl Done {
    /// What the layer does with a script.
    ///
    /// # Errors
    /// As for [`Layer::run`].
    pub fn by_layer(script: &Script) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let log = directory.path().join("layer.zlog");
        let observed = Layer::open(script, &log)?.run(script)?;
        let is_recorded = !script.setup.power;
        let arrived = is_recorded.then(|| Arrived::read(&log, script.rounds.len())).transpose()?;
        Ok(Done { observed, arrived })
    }
}

/// The rounds in which both differ, each with what differs.
pub fn compare(script: &Script, kernel: &Done, layer: &Done) -> Vec<String> {
    let mut differences = Vec::new();
    for (at, round) in script.rounds.iter().enumerate() {
        let mut found = Vec::new();
        for (step, bio) in round.steps.iter().enumerate() {
            let [kernel, layer] =
                [kernel, layer].map(|done| done.observed[at].results.get(step).copied());
            if kernel != layer {
                found.push(format!(
                    "{step}: {bio}: result {} in the kernel, {} here",
                    shown(kernel),
                    shown(layer)
                ));
            }
        }
        for (zone, (kernel, layer)) in
            kernel.observed[at].zones.iter().zip(&layer.observed[at].zones).enumerate()
        {
            if kernel != layer {
                found.push(format!(
                    "zone {zone} afterwards: {kernel:?} in the kernel, {layer:?} here"
                ));
            }
        }
        let [theirs, ours] = [kernel, layer].map(|done| match &done.arrived {
            Some(arrived) => arrived.lines(at, round, script.setup.export),
            None => Vec::new(),
        });
        if theirs != ours {
            found.extend(
                theirs
                    .iter()
                    .filter(|line| !ours.contains(line))
                    .map(|line| format!("kernel {line}")),
            );
            found.extend(
                ours.iter()
                    .filter(|line| !theirs.contains(line))
                    .map(|line| format!("here   {line}")),
            );
        }
        if !found.is_empty() {
            let steps: Vec<String> = round.steps.iter().map(ToString::to_string).collect();
            differences.push(format!(
                "round {at}, {}:\n  {}\n  script {:?} {:?}\n    {}",
                round.name,
                found.join("\n  "),
                round.before,
                round.after,
                steps.join("\n    ")
            ));
        }
    }
    differences
}

fn shown(result: Option<i32>) -> String {
    result.map_or_else(|| "none".to_owned(), |result| result.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::draw;
    use crate::script::Setup;

    fn done(script: &Script) -> Done {
        Done::by_layer(script).expect("all bios complete, and the log is whole")
    }

    /// What a recording has of a round.
    fn arrived(done: &mut Done) -> &mut Vec<Executed> {
        &mut done.arrived.as_mut().expect("it was recorded").0[1]
    }

    #[test]
    fn what_the_layer_does_twice_is_the_same_and_each_change_is_found() {
        let exports = [Export::Virtio, Export::NvmeTcp, Export::NvmePci].into_iter();
        for (export, qd1) in exports.flat_map(|export| [(export, false), (export, true)]) {
            let script = draw(1, 15, Setup { export, is_new: true, qd1, power: false });
            let layer = done(&script);
            let differing = |change: &dyn Fn(&mut Done)| {
                let mut changed = done(&script);
                change(&mut changed);
                compare(&script, &changed, &layer).len()
            };
            assert_eq!(differing(&|_| {}), 0);
            assert_eq!(differing(&|done| done.observed[1].results[0] = 5), 1);
            assert_eq!(differing(&|done| done.observed[1].zones[7].1 += 1), 1);
            assert_eq!(differing(&|done| arrived(done).truncate(1)), 1);
            assert_eq!(differing(&|done| arrived(done)[0].sectors += 8), 1);
            let swaps = |done: &mut Done| arrived(done).reverse();
            assert_eq!(differing(&swaps), 1, "the order in a zone");
        }
    }
}
