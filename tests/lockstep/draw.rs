//! Scripts from a seed. What Linux does differently on purpose (`docs/divergence.md`) is not drawn:
//! bios for a zone after one that was misplaced while nothing was in flight there (A17).
use crate::script::{
    BLOCK, MAX_OPEN, MAX_SECTORS_KB, Pace, Round, Script, Setup, Step, ZONE_BLOCKS, ZONES,
};
use zonal_blk::Op;
use zonal_device::rng::Rng;

/// A script of so many cases.
pub fn draw(seed: u64, cases: usize, setup: Setup) -> Script {
    let mut draw = Draw {
        setup,
        rng: Rng::new(seed),
        rounds: Vec::new(),
        at: [0; ZONES as usize],
        broken: Vec::new(),
        qd1: setup.qd1,
    };
    let kinds = match setup {
        Setup { power: true, .. } => &POWER_KINDS[..],
        Setup { is_new: false, .. } => &KINDS[..OLD_KINDS],
        Setup { export, .. } if !export.keeps_order() => &KINDS[..UNORDERED_KINDS],
        _ => &KINDS[..],
    };
    for case in 0..cases {
        draw.begin();
        // Each kind in turn, so that few cases have all.
        kinds[case % kinds.len()](&mut draw);
    }
    Script { setup, rounds: draw.rounds }
}

const KINDS: [fn(&mut Draw); 15] = [
    Draw::bursts,
    Draw::failed_write,
    Draw::crossing,
    Draw::misplaced,
    Draw::misaligned,
    Draw::bad_zones,
    Draw::goes_bad_under_load,
    Draw::open_limit,
    Draw::managed_alone,
    Draw::scheduler_under_load,
    Draw::policy_under_load,
    Draw::torn_write,
    Draw::emptied,
    Draw::managed_under_load,
    Draw::management_fails,
];
/// The first of them, for kernels before 6.19.
const OLD_KINDS: usize = 10;
/// The first of them, for a device that executes commands to a zone that are pending together in an order of its own.
const UNORDERED_KINDS: usize = 13;
/// For a device that loses its power.
const POWER_KINDS: [fn(&mut Draw); 1] = [Draw::power_fails];

struct Draw {
    setup: Setup,
    rng: Rng,
    rounds: Vec<Round>,
    /// Blocks written of each zone.
    at: [u64; ZONES as usize],
    /// Zones that are read-only or offline.
    broken: Vec<u32>,
    /// Whether QD=1 is on.
    qd1: bool,
}

impl Draw {
    fn round(&mut self, name: &'static str, pace: Pace, steps: Vec<Step>) -> &mut Round {
        let (before, after) = (Vec::new(), Vec::new());
        let (qd1, same_merges) = (self.qd1, pace != Pace::Delayed);
        self.rounds.push(Round { name, before, pace, qd1, same_merges, steps, after });
        self.rounds.last_mut().expect("it was pushed")
    }

    /// A new case: all zones empty.
    fn begin(&mut self) {
        let repaired = std::mem::take(&mut self.broken);
        let round = self.round("begin", Pace::OneByOne, vec![Step::ResetAll]);
        round.before = vec!["fault clear".to_owned()];
        round.before.extend(repaired.iter().map(|zone| format!("zone {zone} mend")));
        self.at = [0; ZONES as usize];
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// A few sequential zones, none twice.
    fn zones(&mut self, number: usize) -> Vec<u32> {
        let mut zones: Vec<u32> = (self.setup.export.conventional()..ZONES).collect();
        for at in 0..number {
            let with = at + self.below((zones.len() - at) as u64) as usize;
            zones.swap(at, with);
        }
        zones.truncate(number);
        zones
    }

    /// The next write of a zone, if there is room; of up to `most` blocks.
    fn next(&mut self, zone: u32, most: u64) -> Option<Step> {
        let block = self.at[zone as usize];
        let blocks = (1 + self.below(most)).min(ZONE_BLOCKS - block);
        self.at[zone as usize] += blocks;
        (blocks > 0).then(|| Step::write(zone, block, blocks))
    }

    /// A conventional zone, if there are any.
    fn conventional(&mut self) -> Option<u32> {
        match self.setup.export.conventional() {
            0 => None,
            zones => Some(self.below(zones.into()) as u32),
        }
    }

    /// Writes of these zones in an order drawn, some long or with FUA, with reads and conventional
    /// writes between them.
    fn burst(&mut self, zones: &[u32], number: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        for step in 0..number {
            let zone = zones[self.below(zones.len() as u64) as usize];
            let most = if self.below(8) == 0 { 96 } else { 6 };
            steps.extend(match self.below(12) {
                0 => Some(Step::read(zone, self.below(ZONE_BLOCKS - 8), 1 + self.below(8))),
                1 => self.conventional().map(|zone| Step::write(zone, step * 8, 1 + self.below(8))),
                2 => self.next(zone, most).map(|step| match step {
                    Step::Io { write, at, len, .. } => Step::Io { write, at, len, fua: true },
                    other => other,
                }),
                _ => self.next(zone, most),
            });
        }
        steps
    }

    fn bursts(&mut self) {
        let number = 1 + self.below(4) as usize;
        let zones = self.zones(number);
        for _ in 0..2 {
            let number = 6 + self.below(20);
            let steps = self.burst(&zones, number);
            self.round("bursts", Pace::Held, steps);
        }
    }

    /// Some blocks of zones are there already.
    fn some_written(&mut self, zones: &[u32]) {
        let steps = zones.iter().filter_map(|zone| self.next(*zone, 60)).collect();
        self.round("some written", Pace::OneByOne, steps);
    }

    fn failed_write(&mut self) {
        let zones = self.zones(3);
        self.some_written(&zones);
        let (bad, before) = (zones[0], self.at[zones[0] as usize]);
        let mut steps = vec![self.next(bad, 80).expect("there is room")];
        steps.extend(self.burst(&zones, 16));
        let status = ["ioerr", "medium", "timeout"][self.below(3) as usize];
        let rule = format!("fault add fail=write,status={status},zone={bad},count=1");
        self.round("a write fails, others wait", Pace::Held, steps).before.push(rule);
        self.at[bad as usize] = before;
        let steps = self.burst(&zones, 8);
        self.round("after a failed write", Pace::Held, steps);
    }

    /// A device executes the first blocks of a write, and fails it.
    fn torn_write(&mut self) {
        let zones = self.zones(3);
        self.some_written(&zones);
        let (bad, before) = (zones[0], self.at[zones[0] as usize]);
        let first = self.next(bad, 80).expect("there is room");
        let written = self.at[bad as usize] - before;
        // Of the first command, which may not be all of it.
        let keep = self.below(written.min(u64::from(MAX_SECTORS_KB) * 1024 / BLOCK));
        let mut steps = vec![first];
        steps.extend(self.burst(&zones, 16));
        let rule = format!("fault add tear=write,keep={},zone={bad},count=1", keep * BLOCK);
        self.round("a write is torn, others wait", Pace::Held, steps).before.push(rule);
        self.at[bad as usize] = before + keep;
        let steps = self.burst(&zones, 8);
        self.round("after a torn write", Pace::Held, steps);
    }

    /// A write across the end of a zone: into an empty zone, and into one that is not.
    fn crossing(&mut self) {
        let first = self.setup.export.conventional();
        let zone = first + self.below((ZONES - first - 2).into()) as u32;
        let left = 1 + self.below(6);
        let fill = ZONE_BLOCKS - left;
        let fill: Vec<Step> =
            (0..fill).step_by(60).map(|at| Step::write(zone, at, 60.min(fill - at))).collect();
        self.round("nearly full", Pace::OneByOne, fill.clone());
        let mut steps = vec![Step::write(zone, ZONE_BLOCKS - left, left + 5)];
        (self.at[zone as usize], self.at[zone as usize + 1]) = (ZONE_BLOCKS, 5);
        steps.extend(self.burst(&[zone + 1, zone + 2], 8));
        self.round("across zones", Pace::Held, steps);
        self.round("again", Pace::OneByOne, vec![Step::Zone(Op::ZoneReset, zone)]);
        self.round("nearly full", Pace::OneByOne, fill);
        let steps = vec![Step::write(zone, ZONE_BLOCKS - left, left + 5)];
        self.round("across zones, not at the pointer", Pace::Held, steps);
    }

    /// Misplaced writes: behind others, and at the end alone.
    fn misplaced(&mut self) {
        let zones = self.zones(2);
        self.some_written(&zones);
        let mut steps = vec![self.next(zones[0], 4).expect("there is room")];
        for _ in 0..4 {
            let at = self.at[zones[0] as usize];
            let misplaced = if self.below(2) == 0 { at + 1 } else { at - 1 };
            steps.push(Step::write(zones[0], misplaced, 1));
            steps.extend(self.next(zones[0], 4));
            steps.extend(self.next(zones[1], 4));
        }
        // The kernel rejects them when their turn comes, and merges none across them (A17).
        self.round("misplaced behind others", Pace::Held, steps).same_merges = false;
        let at = self.at[zones[0] as usize];
        let steps = [at + 1, at.saturating_sub(2)].map(|at| Step::write(zones[0], at, 1));
        self.round("misplaced alone", Pace::OneByOne, steps.to_vec());
        let steps = self.burst(&zones, 6);
        self.round("after a misplaced write", Pace::Held, steps);
    }

    fn misaligned(&mut self) {
        let zones = self.zones(2);
        self.some_written(&zones);
        let mut steps = vec![self.next(zones[0], 4).expect("there is room")];
        let conventional = self.conventional();
        for zone in zones.iter().copied().chain(conventional) {
            for (shift, cut) in [(512, 0), (0, 512), (2048, 2048)] {
                let Step::Io { write, at, len, fua } = Step::write(zone, self.at[zone as usize], 1)
                else {
                    continue;
                };
                steps.push(Step::Io { write, at: at + shift, len: len - cut, fua });
                steps.push(Step::Io { write: false, at: at + shift, len: len - cut, fua });
            }
            steps.extend(self.next(zone, 4));
        }
        self.round("misaligned", Pace::Held, steps);
    }

    fn breaks(&mut self, zone: u32) -> String {
        self.broken.push(zone);
        let to = if self.below(2) == 0 { "read-only" } else { "offline" };
        format!("zone {zone} {to}")
    }

    fn bad_zones(&mut self) {
        let zones = self.zones(3);
        self.some_written(&zones);
        let conventional = self.conventional();
        let bad = zones[..2].iter().copied().chain(conventional);
        let before: Vec<String> = bad.map(|zone| self.breaks(zone)).collect();
        let mut steps = self.burst(&zones, 12);
        if let Some(zone) = conventional {
            steps.extend([Step::write(zone, 250, 1), Step::read(zone, 250, 1)]);
        }
        self.round("zones are read-only or offline", Pace::Held, steps).before = before;
        let ops = [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset];
        let steps = zones[..2].iter().flat_map(|zone| ops.map(|op| Step::Zone(op, *zone)));
        let steps = steps.collect();
        self.round("management of such zones", Pace::OneByOne, steps);
    }

    fn goes_bad_under_load(&mut self) {
        let zones = self.zones(2);
        self.some_written(&zones);
        let bad = zones[0];
        let mut steps = vec![self.next(bad, 4).expect("there is room")];
        steps.extend(self.burst(&zones, 10));
        // Only its writes are delayed: whether a read comes before the change is up to chance.
        let first = u64::from(bad) * ZONE_BLOCKS * BLOCK;
        let of_zone = |at: u64| (first..first + ZONE_BLOCKS * BLOCK).contains(&at);
        steps.retain(|step| !matches!(*step, Step::Io { write: false, at, .. } if of_zone(at)));
        let after = self.breaks(bad);
        let round = self.round("a zone goes bad under load", Pace::Delayed, steps);
        round.before.push(format!("fault add delay=write,time=5s,zone={bad},count=1"));
        round.after.push(after);
    }

    fn open_limit(&mut self) {
        let zones = self.zones(MAX_OPEN as usize + 2);
        let (open, others) = zones.split_at(MAX_OPEN as usize);
        let mut steps: Vec<Step> =
            open.iter().map(|zone| Step::Zone(Op::ZoneOpen, *zone)).collect();
        steps.push(Step::Zone(Op::ZoneOpen, others[0]));
        steps.push(Step::write(others[0], 0, 2));
        self.round("at the limit of open zones", Pace::OneByOne, steps);
        let mut steps = self.burst(open, 8);
        steps.push(Step::write(others[1], 0, 2));
        steps.push(Step::write(others[1], 2, 2));
        self.round("beyond the limit of open zones", Pace::Held, steps);
        let steps = vec![Step::Zone(Op::ZoneClose, open[0]), Step::write(others[0], 0, 2)];
        self.round("below the limit of open zones again", Pace::OneByOne, steps);
    }

    /// Management of zones in each condition, and of conventional ones.
    fn managed_alone(&mut self) {
        let zones = self.zones(4);
        self.some_written(&zones[..2]);
        let mut steps = Vec::new();
        for _ in 0..12 {
            let zone = match self.below(5) {
                4 => 0,
                at => zones[at as usize],
            };
            let op = [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset]
                [self.below(4) as usize];
            steps.push(Step::Zone(op, zone));
        }
        self.round("management", Pace::OneByOne, steps);
    }

    /// The device empties zones, as a loss of power does with what was never flushed. Nobody tells the layer, whose
    /// writes are beyond the write pointers then; each zone gets some, so that none stays of which the layer does not
    /// know it.
    fn emptied(&mut self) {
        let zones = self.zones(3);
        self.some_written(&zones);
        let writes = |draw: &mut Self, most: u64| {
            let each = zones.iter().chain(&zones).filter_map(|zone| draw.next(*zone, most));
            each.collect::<Vec<_>>()
        };
        let steps = writes(self, 8);
        let round = self.round("the device has emptied zones", Pace::Held, steps);
        for zone in &zones {
            round.before.extend(["offline", "mend"].map(|to| format!("zone {zone} {to}")));
        }
        zones.iter().for_each(|zone| self.at[*zone as usize] = 0);
        let steps = writes(self, 60);
        self.round("from the start", Pace::Held, steps);
    }

    /// The power fails with writes in flight and others waiting, and is back immediately. Of each zone a part is
    /// durable, which is where its next writes go; each gets writes that reach the device after the loss, so that none
    /// stays of which the layer does not know it.
    fn power_fails(&mut self) {
        let zones = self.zones(3);
        let durable = zones.iter().filter_map(|zone| match self.next(*zone, 60)? {
            Step::Io { write, at, len, .. } => Some(Step::Io { write, at, len, fua: true }),
            other => Some(other),
        });
        let durable: Vec<Step> = durable.collect();
        self.round("a part is durable", Pace::OneByOne, durable);
        let kept = self.at;
        self.some_written(&zones);
        // With QD=1 one write is in flight: the others of its zone are to fail.
        let writes = 1 + if self.qd1 { 0 } else { self.below(zones.len() as u64) };
        let each = [&zones[..]; 3].concat();
        let steps = each.iter().filter_map(|zone| self.next(*zone, 8)).collect();
        let round = self.round("the power fails, others wait", Pace::Held, steps);
        round.before.push(format!("power-cut --after {writes}"));
        self.at = kept;
        let steps = self.burst(&zones, 12);
        self.round("after the loss of power", Pace::Held, steps);
    }

    fn scheduler_under_load(&mut self) {
        self.change_under_load(Step::Deadline);
    }

    fn policy_under_load(&mut self) {
        self.change_under_load(Step::Qd1);
    }

    fn change_under_load(&mut self, change: fn(bool) -> Step) {
        let zones = self.zones(3);
        let is_policy = matches!(change(true), Step::Qd1(_));
        let was_on = is_policy && self.qd1;
        for on in [!was_on, was_on] {
            let mut steps = self.burst(&zones, 12);
            steps.push(change(on));
            self.round("the queue changes under load", Pace::Held, steps);
            self.qd1 = if is_policy { on } else { self.qd1 };
            let steps = self.burst(&zones, 12);
            self.round("after the change", Pace::Held, steps);
        }
    }

    fn managed_under_load(&mut self) {
        for op in [Op::ZoneReset, Op::ZoneFinish] {
            let zones = self.zones(3);
            self.some_written(&zones);
            let managed = zones[0];
            let mut steps = vec![self.next(managed, 4).expect("there is room")];
            steps.extend(self.burst(&zones, 10));
            steps.push(Step::Zone(op, managed));
            steps.extend(self.burst(&zones, 6));
            self.round("managed with writes waiting", Pace::Held, steps);
            self.at[managed as usize] = if op == Op::ZoneReset { 0 } else { ZONE_BLOCKS };
            let steps = self.burst(&zones, 6);
            self.round("after that", Pace::Held, steps);
            self.begin();
        }
    }

    fn management_fails(&mut self) {
        let zones = self.zones(3);
        self.some_written(&zones);
        let managed = zones[0];
        let op = [Op::ZoneReset, Op::ZoneFinish][self.below(2) as usize];
        let mut steps = vec![self.next(managed, 4).expect("there is room")];
        steps.extend(self.burst(&zones, 10));
        steps.push(Step::Zone(op, managed));
        steps.extend(self.burst(&zones[1..], 6));
        let rule = format!("fault add fail=zone,zone={managed},count=1");
        self.round("management fails with writes waiting", Pace::Held, steps).before.push(rule);
        let steps = self.burst(&zones, 8);
        self.round("after failed management", Pace::Held, steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Export;

    fn setup(is_new: bool) -> Setup {
        Setup { export: Export::Virtio, is_new, qd1: false, power: false }
    }

    #[test]
    fn a_seed_always_draws_the_same_script_and_others_draw_others() {
        let text = |seed| format!("{:?}", draw(seed, KINDS.len(), setup(true)));
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn older_kernels_get_nothing_that_they_do_not_have() {
        let script = draw(1, 100, setup(false));
        let steps = script.rounds.iter().flat_map(|round| &round.steps);
        assert!(steps.into_iter().all(|step| !matches!(step, Step::Qd1(_))));
    }
}
