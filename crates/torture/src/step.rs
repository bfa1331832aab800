//! The steps of a run. They are drawn beforehand, so that they can be shrunk, saved and replayed.
//!
//! Positions of writes are relative to the write pointer, so a step keeps its meaning when steps
//! before it are dropped.
use crate::config::{Attributes, Config, Policy, Profile, draw_scheduler};
use crate::random::Random;
use serde::{Deserialize, Serialize};
use zonal_blk::{Op, ZoneCondition};

/// A run as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The seed that it was drawn from.
    pub seed: u64,
    /// The device, the queue and the channels.
    pub config: Config,
    /// The steps, in order.
    pub steps: Vec<TortureStep>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TortureStep {
    /// Nanoseconds since the step before.
    pub after: u32,
    /// The action.
    pub action: Action,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Submits a bio.
    Submit(Submit),
    /// Submits a batch of bios for consecutive ranges.
    Batch {
        /// The channel.
        channel: u8,
        /// Reads instead of writes.
        reads: bool,
        /// The zone.
        zone: u16,
        /// Start of the first, in LBAs from the write pointer, or from the zone's start.
        #[serde(rename = "shift")]
        offset: u16,
        /// Lengths in LBAs.
        lens: Vec<u16>,
        /// Flags of all.
        flags: u8,
        /// Write stream of all.
        #[serde(default)]
        stream: u8,
    },
    /// Polls a channel.
    Poll {
        /// The channel.
        channel: u8,
    },
    /// Freezes the queue.
    Freeze,
    /// Unfreezes the queue, perhaps after changing it.
    Thaw {
        /// The change.
        change: Option<Change>,
        /// Whether the change is made without draining the queue first.
        #[serde(rename = "hasty")]
        without_drain: bool,
    },
    /// Drains a channel and opens another in its place.
    ReplaceChannel {
        /// The channel.
        channel: u8,
    },
    /// Reports zones through the layer.
    Report {
        /// The first zone.
        zone: u16,
        /// The number of zones.
        count: u16,
    },
    /// Injects a fault into the next command or the next write.
    #[serde(rename = "doom")]
    Fault(CommandFault),
    /// The device is busy for some starts.
    Busy {
        /// The number of starts.
        starts: u8,
    },
    /// A zone fails or is restored.
    Condition {
        /// The zone.
        zone: u16,
        /// Its new health.
        to: ZoneHealth,
    },
    /// A zone is reset without the layer.
    #[serde(rename = "reset_behind")]
    ExternalReset {
        /// The zone.
        zone: u16,
    },
    /// The device is formatted with another number of zones while it is in use.
    Format {
        /// The number of zones, up to those that it was made with.
        zones: u16,
    },
    /// The device is removed.
    Remove,
    /// The device is back; all zones are reported again.
    #[serde(rename = "return")]
    Reattach,
    /// The device loses power and gets it back.
    PowerLoss {
        /// Chooses what is lost.
        draw: u32,
    },
    /// The machine loses power: the layer is attached again to what the device then holds.
    Crash {
        /// Chooses what is lost.
        draw: u32,
    },
    /// The clock jumps ahead to twice its value.
    Jump,
}

/// A change of a frozen queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// The zones are read anew.
    Revalidate,
    /// The zone-write policy.
    Policy(Policy),
    /// The scheduler and its attributes.
    Scheduler(String, Attributes),
    /// The longest command, in LBAs.
    MaxIo(u32),
    /// Maximum number of commands in flight per hardware queue.
    Requests(u16),
    /// Nanoseconds after which a command is aborted.
    Timeout(u64),
}

/// A bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submit {
    /// The channel.
    pub channel: u8,
    /// The operation.
    pub op: OpKind,
    /// The zone.
    pub zone: u16,
    /// Start, in LBAs from the write pointer for writes, else from the zone's start.
    #[serde(rename = "shift")]
    pub offset: u16,
    /// Length in LBAs.
    pub len: u16,
    /// [`zonal_blk::BioFlags`] as 1 FUA, 2 PREFLUSH, 4 NOMERGE, 8 ASYNC; 128 for a start
    /// that is one sector off.
    pub flags: u8,
    /// Priority class, 0 for none.
    pub class: u8,
    /// Write stream.
    #[serde(default)]
    pub stream: u8,
}

/// A flag of [`Submit`]: the bio starts one sector off, so it is unaligned on 4 KiB LBAs.
pub(super) const UNALIGNED: u8 = 128;

/// An [`Op`] that can be serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum OpKind {
    Read,
    Write,
    Zeroes,
    Append,
    Flush,
    Discard,
    Open,
    Close,
    Finish,
    Reset,
    ResetAll,
}

impl From<OpKind> for Op {
    fn from(kind: OpKind) -> Self {
        match kind {
            OpKind::Read => Op::Read,
            OpKind::Write => Op::Write,
            OpKind::Zeroes => Op::WriteZeroes,
            OpKind::Append => Op::ZoneAppend,
            OpKind::Flush => Op::Flush,
            OpKind::Discard => Op::Discard,
            OpKind::Open => Op::ZoneOpen,
            OpKind::Close => Op::ZoneClose,
            OpKind::Finish => Op::ZoneFinish,
            OpKind::Reset => Op::ZoneReset,
            OpKind::ResetAll => Op::ZoneResetAll,
        }
    }
}

/// A fault of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandFault {
    /// Whether it is for the next write, not for the next command of any kind.
    pub writes_only: bool,
    /// Additional latency in nanoseconds.
    #[serde(rename = "late")]
    pub delay: u32,
    /// The device's action and its report.
    #[serde(rename = "end")]
    pub effect: FaultEffect,
    /// The device's reaction when the command is aborted.
    #[serde(rename = "stop")]
    pub on_abort: AbortBehaviour,
}

/// How the device treats a command that is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortBehaviour {
    /// Completes it without executing it.
    Undone,
    /// Executes and completes it.
    Done,
    /// Executes it after this many nanoseconds.
    Late(u32),
    /// Ignores this many aborts.
    #[serde(rename = "deaf")]
    Ignores(u8),
}

/// How a command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultEffect {
    /// It does not fail; it is only delayed.
    Late,
    /// Fails without being executed.
    Fail,
    /// Times out without being executed.
    TimeOut,
    /// Fails although it was executed.
    #[serde(rename = "deny")]
    FailDone,
    /// Times out although it was executed.
    TimeOutDone,
    /// Fails after this many LBAs.
    Tear(u8),
    /// Never completes unless it is aborted.
    #[serde(rename = "lose")]
    Drop,
}

/// The health of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ZoneHealth {
    ReadOnly,
    Offline,
    #[serde(rename = "mended")]
    Restored,
}

impl ZoneHealth {
    pub(super) fn condition(self, conventional: bool) -> ZoneCondition {
        match self {
            ZoneHealth::ReadOnly => ZoneCondition::ReadOnly,
            ZoneHealth::Offline => ZoneCondition::Offline,
            ZoneHealth::Restored if conventional => ZoneCondition::NotWritePointer,
            ZoneHealth::Restored => ZoneCondition::Empty,
        }
    }
}

/// The weights by which steps are drawn. Each run draws its own weights (swarm testing), many of them zero:
/// an action that is rare among all others is frequent in a run with few others.
#[derive(Clone, Copy)]
enum ActionKind {
    Io(OpKind),
    RandomSector,
    Batch,
    Poll,
    Freeze,
    Thaw,
    ReplaceChannel,
    Report,
    Fault,
    Busy,
    Condition,
    ExternalReset,
    Format,
    Remove,
    Reattach,
    PowerLoss,
    Crash,
    Jump,
}

impl History {
    /// The history of a seed.
    pub fn draw(seed: u64, profile: Profile) -> Self {
        let mut random = Random::new(seed);
        let config = Config::draw(&mut random, profile);
        let weights = weights(&mut random, &config, profile);
        let mut generator = StepGenerator::new(&mut random, &config, &weights);
        let count = random.skewed(16, 8192);
        let steps = (0..count).map(|_| generator.step(&mut random, &config, &weights)).collect();
        History { seed, config, steps }
    }
}

fn weights(random: &mut Random, config: &Config, profile: Profile) -> Vec<(u32, ActionKind)> {
    let zoned = config.zones > 0;
    let mut weights = Vec::new();
    let mut add = |random: &mut Random, percent, top, draw| {
        if random.percent(percent) {
            weights.push((random.range(1, top), draw));
        }
    };
    add(random, 90, 400, ActionKind::Io(OpKind::Write));
    add(random, 50, 200, ActionKind::Io(OpKind::Read));
    add(random, 50, 60, ActionKind::Batch);
    add(random, 30, 40, ActionKind::Io(OpKind::Zeroes));
    add(random, 30, 20, ActionKind::Io(OpKind::Flush));
    add(random, 20, 10, ActionKind::Io(OpKind::Discard));
    add(random, 100, 300, ActionKind::Poll);
    add(random, 30, 4, ActionKind::ReplaceChannel);
    add(random, 30, 4, ActionKind::Freeze);
    add(random, 90, 20, ActionKind::Thaw);
    add(random, 20, 2, ActionKind::Jump);
    if zoned {
        add(random, 50, 200, ActionKind::Io(OpKind::Append));
        add(random, 40, 20, ActionKind::RandomSector);
        add(random, 20, 10, ActionKind::Io(OpKind::Open));
        add(random, 20, 10, ActionKind::Io(OpKind::Close));
        add(random, 30, 10, ActionKind::Io(OpKind::Finish));
        add(random, 70, 20, ActionKind::Io(OpKind::Reset));
        add(random, 15, 3, ActionKind::Io(OpKind::ResetAll));
        add(random, 40, 20, ActionKind::Report);
    }
    if profile != Profile::Calm {
        add(random, 50, 30, ActionKind::Fault);
        add(random, 30, 10, ActionKind::Busy);
        if random.percent(15) {
            add(random, 100, 2, ActionKind::Remove);
            add(random, 100, 20, ActionKind::Reattach);
        }
        let crashes = if profile == Profile::Crash { 90 } else { 10 };
        add(random, crashes, 3, ActionKind::PowerLoss);
        add(random, crashes, 2, ActionKind::Crash);
        if zoned {
            add(random, 20, 4, ActionKind::Condition);
            add(random, 20, 3, ActionKind::ExternalReset);
            if random.percent(20) {
                add(random, 100, 4, ActionKind::Format);
                add(random, 100, 8, ActionKind::Freeze);
            }
        }
    }
    weights
}

/// Draws the steps of a run.
struct StepGenerator {
    /// The longest time between steps.
    pace: u32,
    longest: u32,
    /// Number of zones that most I/O goes to.
    hot: u32,
    classes: bool,
    /// The highest write stream.
    streams: u32,
    /// Percentage of writes that are whole units of the write granularity.
    whole_units: u32,
    /// Percentage of changes of the queue that read its zones anew.
    revalidations: u32,
    /// Percentage of submissions after which the channel polls.
    poll_after_submit: u32,
    poll_next: Option<u8>,
}

impl StepGenerator {
    fn new(random: &mut Random, config: &Config, weights: &[(u32, ActionKind)]) -> Self {
        let formats = weights.iter().any(|(_, kind)| matches!(kind, ActionKind::Format));
        let longest = config.max_io_lbas * random.pick(&[1, 1, 1, 3]);
        StepGenerator {
            pace: random.skewed(1, 100_000),
            longest: longest.min(config.zone_lbas.max(1) * 2),
            hot: random.range(1, config.zones.max(1)),
            classes: random.percent(25),
            streams: random.pick(&[0, 0, 0, 1, 3]),
            whole_units: random.pick(&[50, 90, 100]),
            revalidations: if formats { 70 } else { 10 },
            poll_after_submit: random.pick(&[0, 0, 30, 80]),
            poll_next: None,
        }
    }

    fn channel(&self, random: &mut Random, config: &Config) -> u8 {
        random.range(0, u32::from(config.channels) - 1) as u8
    }

    fn zone(&self, random: &mut Random, config: &Config) -> u16 {
        let zones = if random.percent(85) { self.hot } else { config.zones.max(1) };
        // Mostly sequential zones, which are the point of the test.
        let zone = random.range(0, zones - 1) + config.conventional * u32::from(random.percent(80));
        (zone % config.zones.max(1)) as u16
    }

    fn change(&self, random: &mut Random, config: &Config) -> Change {
        match config.zones > 0 && random.percent(self.revalidations) {
            true => Change::Revalidate,
            false => change(random, config),
        }
    }

    /// The length of a bio in LBAs.
    fn len(&self, random: &mut Random, config: &Config, longest: u32) -> u16 {
        let len = random.skewed(1, longest);
        let unit = config.unit_lbas();
        let whole = unit > 1 && random.percent(self.whole_units);
        (if whole { len.next_multiple_of(unit) } else { len }) as u16
    }

    fn flags(&self, random: &mut Random, config: &Config) -> u8 {
        let fua = random.percent(config.fua.into());
        let preflush = random.percent(u32::from(config.fua) / 10);
        let nomerge = random.percent(4);
        u8::from(fua) | u8::from(preflush) << 1 | u8::from(nomerge) << 2
    }

    fn step(
        &mut self,
        random: &mut Random,
        config: &Config,
        weights: &[(u32, ActionKind)],
    ) -> TortureStep {
        let after = random.range(0, self.pace);
        if let Some(channel) = self.poll_next.take() {
            return TortureStep { after, action: Action::Poll { channel } };
        }
        let draw = random.weighted(weights);
        let action = self.action(random, config, draw);
        if let Action::Submit(Submit { channel, .. }) | Action::Batch { channel, .. } = action
            && random.percent(self.poll_after_submit)
        {
            self.poll_next = Some(channel);
        }
        TortureStep { after, action }
    }

    fn action(&mut self, random: &mut Random, config: &Config, draw: ActionKind) -> Action {
        let channel = self.channel(random, config);
        let zone = self.zone(random, config);
        match draw {
            ActionKind::Io(op) => {
                Action::Submit(self.submit(random, config, (channel, zone, op), false))
            }
            ActionKind::RandomSector => {
                let op =
                    random.weighted(&[(8, OpKind::Write), (1, OpKind::Append), (1, OpKind::Reset)]);
                Action::Submit(self.submit(random, config, (channel, zone, op), true))
            }
            ActionKind::Batch => {
                let count = random.skewed(2, 24);
                Action::Batch {
                    channel,
                    reads: random.percent(30),
                    zone,
                    offset: if random.percent(10) {
                        random.range(0, config.zone_lbas) as u16
                    } else {
                        0
                    },
                    lens: (0..count).map(|_| self.len(random, config, self.longest)).collect(),
                    flags: if random.percent(20) { self.flags(random, config) } else { 0 },
                    stream: random.range(0, self.streams) as u8,
                }
            }
            ActionKind::Poll => Action::Poll { channel },
            ActionKind::Freeze => Action::Freeze,
            ActionKind::Thaw => {
                let change = random.percent(40).then(|| self.change(random, config));
                Action::Thaw { change, without_drain: random.percent(10) }
            }
            ActionKind::ReplaceChannel => Action::ReplaceChannel { channel },
            ActionKind::Report => Action::Report { zone, count: random.range(1, 3) as u16 },
            ActionKind::Fault => Action::Fault(draw_fault(random, config)),
            ActionKind::Busy => Action::Busy { starts: random.skewed(1, 40) as u8 },
            ActionKind::Condition => {
                let to = random.weighted(&[
                    (1, ZoneHealth::ReadOnly),
                    (1, ZoneHealth::Offline),
                    (6, ZoneHealth::Restored),
                ]);
                Action::Condition { zone, to }
            }
            ActionKind::ExternalReset => Action::ExternalReset { zone },
            ActionKind::Format => Action::Format { zones: random.range(1, config.zones) as u16 },
            ActionKind::Remove => Action::Remove,
            ActionKind::Reattach => Action::Reattach,
            ActionKind::PowerLoss => Action::PowerLoss { draw: random.range(0, u32::MAX - 1) },
            ActionKind::Crash => Action::Crash { draw: random.range(0, u32::MAX - 1) },
            ActionKind::Jump => Action::Jump,
        }
    }

    fn submit(
        &self,
        random: &mut Random,
        config: &Config,
        (channel, zone, op): (u8, u16, OpKind),
        random_sector: bool,
    ) -> Submit {
        let longest = if op == OpKind::Append && random.percent(95) {
            match config.append_lbas {
                0 => config.max_io_lbas,
                native => native,
            }
        } else {
            self.longest
        };
        let anywhere = matches!(op, OpKind::Read | OpKind::Discard) || random_sector;
        let offset = if anywhere { random.range(0, config.zone_lbas - 1) as u16 } else { 0 };
        let unaligned = if random_sector && random.percent(10) { UNALIGNED } else { 0 };
        Submit {
            channel,
            op,
            zone,
            offset,
            len: self.len(random, config, longest),
            flags: self.flags(random, config) | unaligned,
            class: if self.classes { random.range(0, 3) as u8 } else { 0 },
            stream: random.range(0, self.streams) as u8,
        }
    }
}

fn change(random: &mut Random, config: &Config) -> Change {
    let policies =
        [Policy::Plug, Policy::Qd1, Policy::Plug, Policy::Qd1, Policy::Lock, Policy::Off];
    match random.below(8) {
        0..3 => Change::Policy(random.pick(&policies)),
        3..5 => {
            let (name, attributes) = draw_scheduler(random);
            Change::Scheduler(name, attributes)
        }
        5 => {
            let unit = config.unit_lbas();
            Change::MaxIo(random.range(1, config.max_io_lbas / unit) * unit)
        }
        6 => Change::Requests(random.skewed(1, config.depth.into()) as u16),
        _ => Change::Timeout(match random.percent(50) {
            true => 30_000_000_000,
            false => random.skewed(50_000, 50_000_000).into(),
        }),
    }
}

fn draw_fault(random: &mut Random, config: &Config) -> CommandFault {
    let effect = random.weighted(&[
        (3, FaultEffect::Late),
        (4, FaultEffect::Fail),
        (2, FaultEffect::TimeOut),
        (3, FaultEffect::FailDone),
        (2, FaultEffect::TimeOutDone),
        (4, FaultEffect::Tear(0)),
        (1, FaultEffect::Drop),
    ]);
    let effect = match effect {
        FaultEffect::Tear(_) => FaultEffect::Tear(random.range(0, config.max_io_lbas) as u8),
        effect => effect,
    };
    let is_delayed =
        matches!(effect, FaultEffect::Late | FaultEffect::TimeOut | FaultEffect::TimeOutDone)
            || random.percent(20);
    CommandFault {
        writes_only: random.percent(70),
        delay: if is_delayed { random.skewed(1, 60_000_000) } else { 0 },
        effect,
        on_abort: match random.below(4) {
            0 => AbortBehaviour::Undone,
            1 => AbortBehaviour::Done,
            2 => AbortBehaviour::Late(random.skewed(1, 1_000_000)),
            _ => AbortBehaviour::Ignores(random.range(1, 3) as u8),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_saved_histories_are_stable() {
        let fault = |effect, on_abort| {
            Action::Fault(CommandFault { writes_only: true, delay: 1, effect, on_abort })
        };
        let submit = Submit {
            channel: 0,
            op: OpKind::Write,
            zone: 0,
            offset: 1,
            len: 1,
            flags: 0,
            class: 0,
            stream: 0,
        };
        for (action, expected) in [
            (
                fault(FaultEffect::FailDone, AbortBehaviour::Ignores(2)),
                r#"{"doom":{"writes_only":true,"late":1,"end":"deny","stop":{"deaf":2}}}"#,
            ),
            (
                fault(FaultEffect::Drop, AbortBehaviour::Done),
                r#"{"doom":{"writes_only":true,"late":1,"end":"lose","stop":"done"}}"#,
            ),
            (
                Action::Submit(submit),
                r#"{"submit":{"channel":0,"op":"write","zone":0,"shift":1,"len":1,"flags":0,"class":0,"stream":0}}"#,
            ),
            (
                Action::Thaw { change: None, without_drain: true },
                r#"{"thaw":{"change":null,"hasty":true}}"#,
            ),
            (Action::ExternalReset { zone: 3 }, r#"{"reset_behind":{"zone":3}}"#),
            (Action::Reattach, r#""return""#),
            (
                Action::Condition { zone: 1, to: ZoneHealth::Restored },
                r#"{"condition":{"zone":1,"to":"mended"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&action).unwrap(), expected);
        }
    }
}
