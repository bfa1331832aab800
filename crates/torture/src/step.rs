//! What is done in a run: a list of steps, drawn beforehand, so that it can be shortened, written to
//! a file and done again.
//!
//! A step says where it writes relative to the write pointer, so it keeps its meaning when steps
//! before it are dropped.
use super::chance::Chance;
use super::config::{Attributes, Config, Policy, Profile, any_scheduler};
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
    Doom(Doom),
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
        to: Health,
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
    pub op: Kind,
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
pub enum Kind {
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

impl From<Kind> for Op {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Read => Op::Read,
            Kind::Write => Op::Write,
            Kind::Zeroes => Op::WriteZeroes,
            Kind::Append => Op::ZoneAppend,
            Kind::Flush => Op::Flush,
            Kind::Discard => Op::Discard,
            Kind::Open => Op::ZoneOpen,
            Kind::Close => Op::ZoneClose,
            Kind::Finish => Op::ZoneFinish,
            Kind::Reset => Op::ZoneReset,
            Kind::ResetAll => Op::ZoneResetAll,
        }
    }
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doom {
    /// Not of reads, flushes and zone management.
    pub writes_only: bool,
    /// So much longer.
    pub late: u32,
    /// How it ends.
    pub end: End,
    /// What the device does if it is asked to stop it.
    pub stop: Halt,
}

/// What a device does with a command that it is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halt {
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
pub enum End {
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
pub enum Health {
    ReadOnly,
    Offline,
    Mended,
}

impl Health {
    pub(super) fn condition(self, conventional: bool) -> ZoneCondition {
        match self {
            Health::ReadOnly => ZoneCondition::ReadOnly,
            Health::Offline => ZoneCondition::Offline,
            Health::Mended if conventional => ZoneCondition::NotWritePointer,
            Health::Mended => ZoneCondition::Empty,
        }
    }
}

/// What steps are drawn from: a run draws its own weights, many of them zero, since what happens
/// seldom next to everything else happens often where there is little else.
#[derive(Clone, Copy)]
enum Draw {
    Io(Kind),
    Astray,
    Batch,
    Poll,
    Freeze,
    Thaw,
    Retire,
    Report,
    Doom,
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
        let mut chance = Chance::new(seed);
        let config = Config::draw(&mut chance, profile);
        let weights = weights(&mut chance, &config, profile);
        let mut hand = Hand::new(&mut chance, &config);
        let count = chance.skewed(16, 8192);
        let steps = (0..count).map(|_| hand.step(&mut chance, &config, &weights)).collect();
        History { seed, config, steps }
    }
}

fn weights(chance: &mut Chance, config: &Config, profile: Profile) -> Vec<(u32, Draw)> {
    let zoned = config.zones > 0;
    let mut weights = Vec::new();
    let mut often = |chance: &mut Chance, percent, top, draw| {
        if chance.percent(percent) {
            weights.push((chance.range(1, top), draw));
        }
    };
    often(chance, 90, 400, Draw::Io(Kind::Write));
    often(chance, 50, 200, Draw::Io(Kind::Read));
    often(chance, 50, 60, Draw::Batch);
    often(chance, 30, 40, Draw::Io(Kind::Zeroes));
    often(chance, 30, 20, Draw::Io(Kind::Flush));
    often(chance, 20, 10, Draw::Io(Kind::Discard));
    often(chance, 100, 300, Draw::Poll);
    often(chance, 30, 4, Draw::Retire);
    often(chance, 30, 4, Draw::Freeze);
    often(chance, 90, 20, Draw::Thaw);
    often(chance, 20, 2, Draw::Jump);
    if zoned {
        often(chance, 50, 200, Draw::Io(Kind::Append));
        often(chance, 40, 20, Draw::Astray);
        often(chance, 20, 10, Draw::Io(Kind::Open));
        often(chance, 20, 10, Draw::Io(Kind::Close));
        often(chance, 30, 10, Draw::Io(Kind::Finish));
        often(chance, 70, 20, Draw::Io(Kind::Reset));
        often(chance, 15, 3, Draw::Io(Kind::ResetAll));
        often(chance, 40, 20, Draw::Report);
    }
    if profile != Profile::Calm {
        often(chance, 50, 30, Draw::Doom);
        often(chance, 30, 10, Draw::Busy);
        if chance.percent(15) {
            often(chance, 100, 2, Draw::Remove);
            often(chance, 100, 20, Draw::Return);
        }
        let crashes = if profile == Profile::Crash { 90 } else { 10 };
        often(chance, crashes, 3, Draw::PowerLoss);
        often(chance, crashes, 2, Draw::Crash);
        if zoned {
            often(chance, 20, 4, Draw::Condition);
            often(chance, 20, 3, Draw::ResetBehind);
        }
    }
    weights
}

/// The habits of a run.
struct Hand {
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

impl Hand {
    fn new(chance: &mut Chance, config: &Config) -> Self {
        let longest = config.max_io_lbas * chance.pick(&[1, 1, 1, 3]);
        Hand {
            pace: chance.skewed(1, 100_000),
            longest: longest.min(config.zone_lbas.max(1) * 2),
            hot: chance.range(1, config.zones.max(1)),
            classes: chance.percent(25),
            attentive: chance.pick(&[0, 0, 30, 80]),
            poll_next: None,
        }
    }

    fn channel(&self, chance: &mut Chance, config: &Config) -> u8 {
        chance.range(0, u32::from(config.channels) - 1) as u8
    }

    fn zone(&self, chance: &mut Chance, config: &Config) -> u16 {
        let zones = if chance.percent(85) { self.hot } else { config.zones.max(1) };
        // The sequential zones first: they are what it is about.
        let zone = chance.range(0, zones - 1) + config.conventional * u32::from(chance.percent(80));
        (zone % config.zones.max(1)) as u16
    }

    fn flags(&self, chance: &mut Chance, config: &Config) -> u8 {
        let fua = chance.percent(config.fua.into());
        let preflush = chance.percent(u32::from(config.fua) / 10);
        let nomerge = chance.percent(4);
        u8::from(fua) | u8::from(preflush) << 1 | u8::from(nomerge) << 2
    }

    fn step(&mut self, chance: &mut Chance, config: &Config, weights: &[(u32, Draw)]) -> Step {
        let after = chance.range(0, self.pace);
        if let Some(channel) = self.poll_next.take() {
            return Step { after, action: Action::Poll { channel } };
        }
        let draw = chance.weighted(weights);
        let action = self.action(chance, config, draw);
        if let Action::Submit(Submit { channel, .. }) | Action::Batch { channel, .. } = action
            && chance.percent(self.attentive)
        {
            self.poll_next = Some(channel);
        }
        Step { after, action }
    }

    fn action(&mut self, chance: &mut Chance, config: &Config, draw: Draw) -> Action {
        let channel = self.channel(chance, config);
        let zone = self.zone(chance, config);
        match draw {
            Draw::Io(op) => Action::Submit(self.submit(chance, config, (channel, zone, op), false)),
            Draw::Astray => {
                let op = chance.weighted(&[(8, Kind::Write), (1, Kind::Append), (1, Kind::Reset)]);
                Action::Submit(self.submit(chance, config, (channel, zone, op), true))
            }
            Draw::Batch => {
                let count = chance.skewed(2, 24);
                Action::Batch {
                    channel,
                    reads: chance.percent(30),
                    zone,
                    shift: if chance.percent(10) {
                        chance.range(0, config.zone_lbas) as u16
                    } else {
                        0
                    },
                    lens: (0..count).map(|_| chance.skewed(1, self.longest) as u16).collect(),
                    flags: if chance.percent(20) { self.flags(chance, config) } else { 0 },
                }
            }
            Draw::Poll => Action::Poll { channel },
            Draw::Freeze => Action::Freeze,
            Draw::Thaw => {
                let change = chance.percent(40).then(|| change(chance, config));
                Action::Thaw { change, hasty: chance.percent(10) }
            }
            Draw::Retire => Action::Retire { channel },
            Draw::Report => Action::Report { zone, count: chance.range(1, 3) as u16 },
            Draw::Doom => Action::Doom(doom(chance, config)),
            Draw::Busy => Action::Busy { starts: chance.skewed(1, 40) as u8 },
            Draw::Condition => {
                let to = chance.weighted(&[
                    (1, Health::ReadOnly),
                    (1, Health::Offline),
                    (6, Health::Mended),
                ]);
                Action::Condition { zone, to }
            }
            Draw::ResetBehind => Action::ResetBehind { zone },
            Draw::Remove => Action::Remove,
            Draw::Return => Action::Return,
            Draw::PowerLoss => Action::PowerLoss { draw: chance.range(0, u32::MAX - 1) },
            Draw::Crash => Action::Crash { draw: chance.range(0, u32::MAX - 1) },
            Draw::Jump => Action::Jump,
        }
    }

    fn submit(
        &self,
        chance: &mut Chance,
        config: &Config,
        (channel, zone, op): (u8, u16, Kind),
        astray: bool,
    ) -> Submit {
        let longest = if op == Kind::Append && chance.percent(95) {
            match config.append_lbas {
                0 => config.max_io_lbas,
                native => native,
            }
        } else {
            self.longest
        };
        let anywhere = matches!(op, Kind::Read | Kind::Discard) || astray;
        let shift = if anywhere { chance.range(0, config.zone_lbas - 1) as u16 } else { 0 };
        let unaligned = if astray && chance.percent(10) { UNALIGNED } else { 0 };
        Submit {
            channel,
            op,
            zone,
            shift,
            len: chance.skewed(1, longest) as u16,
            flags: self.flags(chance, config) | unaligned,
            class: if self.classes { chance.range(0, 3) as u8 } else { 0 },
        }
    }
}

fn change(chance: &mut Chance, config: &Config) -> Change {
    let policies =
        [Policy::Plug, Policy::Qd1, Policy::Plug, Policy::Qd1, Policy::Lock, Policy::Off];
    match chance.below(8) {
        0..3 => Change::Policy(chance.pick(&policies)),
        3..5 => {
            let (name, attributes) = any_scheduler(chance);
            Change::Scheduler(name, attributes)
        }
        5 => Change::MaxIo(chance.range(1, config.max_io_lbas)),
        6 => Change::Requests(chance.skewed(1, config.depth.into()) as u16),
        _ => Change::Timeout(match chance.percent(50) {
            true => 30_000_000_000,
            false => chance.skewed(50_000, 50_000_000).into(),
        }),
    }
}

fn doom(chance: &mut Chance, config: &Config) -> Doom {
    let end = chance.weighted(&[
        (3, End::Late),
        (4, End::Fail),
        (2, End::TimeOut),
        (3, End::Deny),
        (2, End::TimeOutDone),
        (4, End::Tear(0)),
        (1, End::Lose),
    ]);
    let end = match end {
        End::Tear(_) => End::Tear(chance.range(0, config.max_io_lbas) as u8),
        end => end,
    };
    let late = matches!(end, End::Late | End::TimeOut | End::TimeOutDone) || chance.percent(20);
    Doom {
        writes_only: chance.percent(70),
        late: if late { chance.skewed(1, 60_000_000) } else { 0 },
        end,
        stop: match chance.below(4) {
            0 => Halt::Undone,
            1 => Halt::Done,
            2 => Halt::Late(chance.skewed(1, 1_000_000)),
            _ => Halt::Deaf(chance.range(1, 3) as u8),
        },
    }
}
