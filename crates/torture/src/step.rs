//! What is done in a run: a list of steps, drawn beforehand, so that it can be shortened, written to
//! a file and done again.
//!
//! A step says where it writes relative to the write pointer, so it keeps its meaning when steps
//! before it are dropped.
use super::config::{Attributes, Config, Policy, Profile, any_scheduler};
use super::random::Random;
use serde::{Deserialize, Serialize};
use zonal_blk::{Op, ZoneCondition};

/// A run: what it is made of and what is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The seed that it was drawn from.
    pub seed: u64,
    /// The device, the queue, the channels.
    pub config: Config,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Nanoseconds since the step before.
    pub after: u32,
    /// What is done.
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// A bio.
    Submit(Submit),
    /// Bios submitted together, each behind the one before.
    Batch {
        /// The channel.
        channel: u8,
        /// Reads instead of writes.
        reads: bool,
        /// The zone.
        zone: u16,
        /// Where the first begins: so many LBAs from the write pointer, or from the zone's start.
        shift: u16,
        /// Lengths in LBAs.
        lens: Vec<u16>,
        /// Flags of all.
        flags: u8,
    },
    /// A channel looks what has come.
    Poll {
        /// The channel.
        channel: u8,
    },
    /// New bios are kept out.
    Freeze,
    /// ... and let in again, perhaps after a change of the queue.
    Thaw {
        /// What is changed.
        change: Option<Change>,
        /// Whether it is tried without waiting until all is drained.
        hasty: bool,
    },
    /// A channel goes and another comes in its place.
    Retire {
        /// The channel.
        channel: u8,
    },
    /// Zones are reported through the layer.
    Report {
        /// The first.
        zone: u16,
        /// How many.
        count: u16,
    },
    /// The next command, or write, fails, is torn, or takes long.
    #[serde(rename = "doom")]
    Fault(CommandFault),
    /// The device refuses so many starts.
    Busy {
        /// How many.
        starts: u8,
    },
    /// A zone fails or is mended.
    Condition {
        /// The zone.
        zone: u16,
        /// What becomes of it.
        to: ZoneHealth,
    },
    /// Somebody resets a zone past the layer.
    ResetBehind {
        /// The zone.
        zone: u16,
    },
    /// The device is pulled out.
    Remove,
    /// It comes back; all zones are reported anew.
    Return,
    /// The device loses power for a moment.
    PowerLoss {
        /// Chooses what is lost.
        draw: u32,
    },
    /// The machine loses power: all is built anew on the device as it is found then.
    Crash {
        /// Chooses what is lost.
        draw: u32,
    },
    /// The clock jumps to twice its time.
    Jump,
}

/// What can be changed about a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// The zone-write policy.
    Policy(Policy),
    /// The scheduler, and its attributes.
    Scheduler(String, Attributes),
    /// The longest command, in LBAs.
    MaxIo(u32),
    /// Commands in flight on a hardware queue.
    Requests(u16),
    /// Nanoseconds after which the device is asked to stop a command.
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
    /// For writes so many LBAs from the write pointer; else from the zone's start.
    pub shift: u16,
    /// Length in LBAs.
    pub len: u16,
    /// [`zonal_blk::BioFlags`] as 1 FUA, 2 PREFLUSH, 4 NOMERGE, 8 ASYNC; 128 for one sector off
    /// the LBA.
    pub flags: u8,
    /// Priority class, 0 for none.
    pub class: u8,
}

/// A flag of [`Submit`]: the bio begins one sector off.
pub(super) const UNALIGNED: u8 = 128;

/// An [`Op`] that can be written to a file.
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

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandFault {
    /// Not of reads, flushes and zone management.
    pub writes_only: bool,
    /// So much longer.
    pub late: u32,
    /// How it ends.
    pub end: FaultEffect,
    /// What the device does if it is asked to stop it.
    pub stop: AbortBehaviour,
}

/// What a device does with a command that it is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbortBehaviour {
    /// Gives it back undone.
    Undone,
    /// Does it and gives it back.
    Done,
    /// Does it so many nanoseconds later.
    Late(u32),
    /// Goes on with it so many times.
    Deaf(u8),
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultEffect {
    /// As it would have.
    Late,
    /// With a failure; nothing is done.
    Fail,
    /// With a timeout; nothing is done.
    TimeOut,
    /// With a failure, though all is done.
    Deny,
    /// With a timeout, though all is done.
    TimeOutDone,
    /// With a failure after so many LBAs.
    Tear(u8),
    /// Not at all, until the device is asked to stop it.
    Lose,
}

/// What becomes of a zone.
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

/// What steps are drawn from: a run draws its own weights, many of them zero, since what happens
/// seldom next to everything else happens often where there is little else.
#[derive(Clone, Copy)]
enum ActionKind {
    Io(OpKind),
    RandomSector,
    Batch,
    Poll,
    Freeze,
    Thaw,
    Retire,
    Report,
    Fault,
    Busy,
    Condition,
    ResetBehind,
    Remove,
    Return,
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
        let mut generator = StepGenerator::new(&mut random, &config);
        let count = random.skewed(16, 8192);
        let steps = (0..count).map(|_| generator.step(&mut random, &config, &weights)).collect();
        History { seed, config, steps }
    }
}

fn weights(random: &mut Random, config: &Config, profile: Profile) -> Vec<(u32, ActionKind)> {
    let zoned = config.zones > 0;
    let mut weights = Vec::new();
    let mut often = |random: &mut Random, percent, top, draw| {
        if random.percent(percent) {
            weights.push((random.range(1, top), draw));
        }
    };
    often(random, 90, 400, ActionKind::Io(OpKind::Write));
    often(random, 50, 200, ActionKind::Io(OpKind::Read));
    often(random, 50, 60, ActionKind::Batch);
    often(random, 30, 40, ActionKind::Io(OpKind::Zeroes));
    often(random, 30, 20, ActionKind::Io(OpKind::Flush));
    often(random, 20, 10, ActionKind::Io(OpKind::Discard));
    often(random, 100, 300, ActionKind::Poll);
    often(random, 30, 4, ActionKind::Retire);
    often(random, 30, 4, ActionKind::Freeze);
    often(random, 90, 20, ActionKind::Thaw);
    often(random, 20, 2, ActionKind::Jump);
    if zoned {
        often(random, 50, 200, ActionKind::Io(OpKind::Append));
        often(random, 40, 20, ActionKind::RandomSector);
        often(random, 20, 10, ActionKind::Io(OpKind::Open));
        often(random, 20, 10, ActionKind::Io(OpKind::Close));
        often(random, 30, 10, ActionKind::Io(OpKind::Finish));
        often(random, 70, 20, ActionKind::Io(OpKind::Reset));
        often(random, 15, 3, ActionKind::Io(OpKind::ResetAll));
        often(random, 40, 20, ActionKind::Report);
    }
    if profile != Profile::Calm {
        often(random, 50, 30, ActionKind::Fault);
        often(random, 30, 10, ActionKind::Busy);
        if random.percent(15) {
            often(random, 100, 2, ActionKind::Remove);
            often(random, 100, 20, ActionKind::Return);
        }
        let crashes = if profile == Profile::Crash { 90 } else { 10 };
        often(random, crashes, 3, ActionKind::PowerLoss);
        often(random, crashes, 2, ActionKind::Crash);
        if zoned {
            often(random, 20, 4, ActionKind::Condition);
            often(random, 20, 3, ActionKind::ResetBehind);
        }
    }
    weights
}

/// The habits of a run.
struct StepGenerator {
    /// The longest step in time.
    pace: u32,
    longest: u32,
    /// Zones that most I/O goes to.
    hot: u32,
    classes: bool,
    /// How often in a hundred times a channel polls after it has submitted.
    attentive: u32,
    poll_next: Option<u8>,
}

impl StepGenerator {
    fn new(random: &mut Random, config: &Config) -> Self {
        let longest = config.max_io_lbas * random.pick(&[1, 1, 1, 3]);
        StepGenerator {
            pace: random.skewed(1, 100_000),
            longest: longest.min(config.zone_lbas.max(1) * 2),
            hot: random.range(1, config.zones.max(1)),
            classes: random.percent(25),
            attentive: random.pick(&[0, 0, 30, 80]),
            poll_next: None,
        }
    }

    fn channel(&self, random: &mut Random, config: &Config) -> u8 {
        random.range(0, u32::from(config.channels) - 1) as u8
    }

    fn zone(&self, random: &mut Random, config: &Config) -> u16 {
        let zones = if random.percent(85) { self.hot } else { config.zones.max(1) };
        // The sequential zones first: they are what it is about.
        let zone = random.range(0, zones - 1) + config.conventional * u32::from(random.percent(80));
        (zone % config.zones.max(1)) as u16
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
    ) -> Step {
        let after = random.range(0, self.pace);
        if let Some(channel) = self.poll_next.take() {
            return Step { after, action: Action::Poll { channel } };
        }
        let draw = random.weighted(weights);
        let action = self.action(random, config, draw);
        if let Action::Submit(Submit { channel, .. }) | Action::Batch { channel, .. } = action
            && random.percent(self.attentive)
        {
            self.poll_next = Some(channel);
        }
        Step { after, action }
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
                    shift: if random.percent(10) {
                        random.range(0, config.zone_lbas) as u16
                    } else {
                        0
                    },
                    lens: (0..count).map(|_| random.skewed(1, self.longest) as u16).collect(),
                    flags: if random.percent(20) { self.flags(random, config) } else { 0 },
                }
            }
            ActionKind::Poll => Action::Poll { channel },
            ActionKind::Freeze => Action::Freeze,
            ActionKind::Thaw => {
                let change = random.percent(40).then(|| change(random, config));
                Action::Thaw { change, hasty: random.percent(10) }
            }
            ActionKind::Retire => Action::Retire { channel },
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
            ActionKind::ResetBehind => Action::ResetBehind { zone },
            ActionKind::Remove => Action::Remove,
            ActionKind::Return => Action::Return,
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
        let shift = if anywhere { random.range(0, config.zone_lbas - 1) as u16 } else { 0 };
        let unaligned = if random_sector && random.percent(10) { UNALIGNED } else { 0 };
        Submit {
            channel,
            op,
            zone,
            shift,
            len: random.skewed(1, longest) as u16,
            flags: self.flags(random, config) | unaligned,
            class: if self.classes { random.range(0, 3) as u8 } else { 0 },
        }
    }
}

fn change(random: &mut Random, config: &Config) -> Change {
    let policies =
        [Policy::Plug, Policy::Qd1, Policy::Plug, Policy::Qd1, Policy::Lock, Policy::Off];
    match random.below(8) {
        0..3 => Change::Policy(random.pick(&policies)),
        3..5 => {
            let (name, attributes) = any_scheduler(random);
            Change::Scheduler(name, attributes)
        }
        5 => Change::MaxIo(random.range(1, config.max_io_lbas)),
        6 => Change::Requests(random.skewed(1, config.depth.into()) as u16),
        _ => Change::Timeout(match random.percent(50) {
            true => 30_000_000_000,
            false => random.skewed(50_000, 50_000_000).into(),
        }),
    }
}

fn draw_fault(random: &mut Random, config: &Config) -> CommandFault {
    let end = random.weighted(&[
        (3, FaultEffect::Late),
        (4, FaultEffect::Fail),
        (2, FaultEffect::TimeOut),
        (3, FaultEffect::Deny),
        (2, FaultEffect::TimeOutDone),
        (4, FaultEffect::Tear(0)),
        (1, FaultEffect::Lose),
    ]);
    let end = match end {
        FaultEffect::Tear(_) => FaultEffect::Tear(random.range(0, config.max_io_lbas) as u8),
        end => end,
    };
    let late = matches!(end, FaultEffect::Late | FaultEffect::TimeOut | FaultEffect::TimeOutDone)
        || random.percent(20);
    CommandFault {
        writes_only: random.percent(70),
        late: if late { random.skewed(1, 60_000_000) } else { 0 },
        end,
        stop: match random.below(4) {
            0 => AbortBehaviour::Undone,
            1 => AbortBehaviour::Done,
            2 => AbortBehaviour::Late(random.skewed(1, 1_000_000)),
            _ => AbortBehaviour::Deaf(random.range(1, 3) as u8),
        },
    }
}
