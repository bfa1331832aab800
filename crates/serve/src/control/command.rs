//! Commands for a served device.
use super::scrub::DEFAULT_RATE;
use super::view::{MAX_CELLS, MapRange};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use zonal_device::inject::{Rule, RuleError};
use zonal_device::power::{CutPlan, Keep, When};
use zonal_nvme::ana::AnaState;

/// A command, parsed. Names of attributes are checked when it is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Shows the devices and where they are exported.
    Status,
    /// Shows I/O statistics.
    Stat,
    /// Shows zone write plugs.
    Plugs {
        /// Every plug that was used, not only those in use.
        all: bool,
    },
    /// Shows zones, plugs, settings and counters at one moment: a [`View`](super::View).
    View(MapRange),
    /// Shows an attribute, or all.
    Get(Option<String>),
    /// Sets an attribute.
    Set {
        /// The attribute.
        name: String,
        /// Its value, as text.
        value: String,
    },
    /// Changes the condition of zones.
    Zones {
        /// The zones.
        zones: RangeInclusive<u32>,
        /// How.
        change: ZoneChange,
    },
    /// Depopulates a head of a disk.
    Depopulate {
        /// The head, from 0.
        head: u32,
        /// What becomes of its zones.
        loss: HeadLoss,
    },
    /// Reads the zones of a device anew.
    Revalidate,
    /// Shows the fault rules, with the number of commands that each has applied to.
    Faults,
    /// Adds a fault rule.
    AddFault(Rule),
    /// Removes all fault rules.
    ClearFaults,
    /// Shows the ANA states of paths, or changes one.
    Ana(Option<(SocketAddr, AnaState)>),
    /// Puts a mark into the log of the recording.
    Mark(String),
    /// Cuts the power of the device.
    PowerCut(PowerCut),
    /// Drops a loss of power whose moment has not come.
    CancelPowerCut,
    /// Shows all metrics, in the format of Prometheus.
    Metrics,
    /// Compares all data with their checksums.
    StartScrub {
        /// The rate in MiB/s.
        rate: u32,
    },
    /// Stops the scrub.
    StopScrub,
    /// Shows how far the scrub is and what it has found.
    ScrubStatus,
    /// Shows the first words of all commands.
    Methods,
}

/// A loss of power.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// When, and what is kept.
    pub plan: CutPlan,
    /// Keep what is left in a new image.
    pub image: Option<PathBuf>,
}

/// A change of the condition of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneChange {
    /// To read only.
    ReadOnly,
    /// To offline.
    Offline,
    /// Back to not write pointer or, without its data, to empty.
    Restore,
}

/// What becomes of the zones of a head that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadLoss {
    /// They get another condition.
    Zones(ZoneChange),
    /// The disk is formatted without them, and has fewer zones.
    Format,
}

impl ZoneChange {
    fn named(name: &str) -> Option<Self> {
        match name {
            "read-only" => Some(ZoneChange::ReadOnly),
            "offline" => Some(ZoneChange::Offline),
            "mend" => Some(ZoneChange::Restore),
            _ => None,
        }
    }
}

/// The first words of commands.
pub const NAMES: [&str; 16] = [
    "status",
    "stat",
    "plugs",
    "view",
    "get",
    "set",
    "zone",
    "depopulate",
    "revalidate",
    "fault",
    "ana",
    "mark",
    "power-cut",
    "scrub",
    "metrics",
    "methods",
];

/// The command that was meant, if its first word is near to that of one.
fn nearest_command(found: &str) -> String {
    // `zonal ctl` answers `help` itself.
    let names = NAMES.into_iter().chain(["help"]);
    zonal_blk::did_you_mean(found.split(' ').next().unwrap_or(found), names)
}

/// What was found, which may be nothing.
fn quoted(found: &str) -> String {
    if found.is_empty() { "nothing".to_owned() } else { format!("`{found}`") }
}

/// Why words are not a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no such command.
    #[error(
        "command `{0}`: expected status, stat, plugs, view, get, set, zone, depopulate, \
         revalidate, fault, ana, mark, power-cut, scrub, metrics or methods{hint}",
        hint = nearest_command(.0)
    )]
    Unknown(String),
    /// Wrong arguments.
    #[error("{0}: found {found}, expected {2}{hint}", found = quoted(.1), hint = zonal_blk::did_you_mean_of(.1, .2))]
    Arguments(String, String, &'static str),
    /// Not a fault rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl Command {
    /// Parses a command.
    ///
    /// # Errors
    /// Says what was found and what was expected.
    pub fn parse(words: &[String]) -> Result<Self, CommandError> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let wrong = |command, expected| {
            Err(CommandError::Arguments(String::from(command), words[1..].join(" "), expected))
        };
        Ok(match words[..] {
            ["status"] => Command::Status,
            ["stat"] => Command::Stat,
            ["plugs"] => Command::Plugs { all: false },
            ["plugs", "all"] => Command::Plugs { all: true },
            ["plugs", ..] => return wrong("plugs", "nothing or all"),
            ["view"] => Command::View(MapRange { first: 0, per_cell: 1, cells: MAX_CELLS }),
            ["view", first, per_cell, cells] => {
                match (first.parse(), per_cell.parse(), cells.parse()) {
                    (Ok(first), Ok(per_cell @ 1..), Ok(cells @ ..=MAX_CELLS)) => {
                        Command::View(MapRange { first, per_cell, cells })
                    }
                    _ => return wrong("view", VIEW_ARGUMENTS),
                }
            }
            ["view", ..] => return wrong("view", VIEW_ARGUMENTS),
            ["get"] => Command::Get(None),
            ["get", name] => Command::Get(Some(name.to_owned())),
            ["get", ..] => return wrong("get", "an attribute or nothing"),
            ["set", name, value] => Command::Set { name: name.to_owned(), value: value.to_owned() },
            ["set", ..] => return wrong("set", "an attribute and its value"),
            ["zone", zones, change] => match (range(zones), ZoneChange::named(change)) {
                (Some(zones), Some(change)) => Command::Zones { zones, change },
                _ => return wrong("zone", ZONE_ARGUMENTS),
            },
            ["zone", ..] => return wrong("zone", ZONE_ARGUMENTS),
            ["depopulate", head, loss] => match depopulate(head, loss) {
                Some(command) => command,
                None => return wrong("depopulate", DEPOPULATE_ARGUMENTS),
            },
            ["depopulate", ..] => return wrong("depopulate", DEPOPULATE_ARGUMENTS),
            ["fault"] | ["fault", "list"] => Command::Faults,
            ["fault", "add", rule] => Command::AddFault(rule.parse()?),
            ["fault", "clear"] => Command::ClearFaults,
            ["fault", ..] => return wrong("fault", "list, add RULE or clear"),
            ["ana"] => Command::Ana(None),
            ["ana", address, state] => match (address.parse(), AnaState::named(state)) {
                (Ok(address), Some(state)) => Command::Ana(Some((address, state))),
                _ => return wrong("ana", ANA_ARGUMENTS),
            },
            ["ana", ..] => return wrong("ana", ANA_ARGUMENTS),
            ["mark"] => return wrong("mark", "a text"),
            ["mark", ..] if words[1..].concat().contains('\n') => {
                return wrong("mark", "a text of one line");
            }
            ["mark", ..] => Command::Mark(words[1..].join(" ")),
            ["power-cut", "cancel"] => Command::CancelPowerCut,
            ["power-cut", ..] => match power_cut(&words[1..]) {
                Some(cut) => Command::PowerCut(cut),
                None => return wrong("power-cut", POWER_CUT_ARGUMENTS),
            },
            ["revalidate"] => Command::Revalidate,
            ["metrics"] => Command::Metrics,
            ["methods"] => Command::Methods,
            ["scrub", ..] => match scrub(&words[1..]) {
                Some(command) => command,
                None => return wrong("scrub", SCRUB_ARGUMENTS),
            },
            [command @ ("status" | "stat" | "revalidate" | "metrics" | "methods"), ..] => {
                return wrong(command, "no arguments");
            }
            _ => return Err(CommandError::Unknown(words.join(" "))),
        })
    }
}

const SCRUB_ARGUMENTS: &str = "start [MIB_PER_SECOND], stop or status";
const VIEW_ARGUMENTS: &str = "nothing, or FIRST_ZONE ZONES_PER_CELL CELLS with at most 16384 cells";
const ANA_ARGUMENTS: &str = "nothing, or ADDRESS:PORT and optimized, non-optimized, inaccessible, \
     persistent-loss or change";
const DEPOPULATE_ARGUMENTS: &str = "HEAD, and read-only, offline or format";
const ZONE_ARGUMENTS: &str = "ZONE or FIRST-LAST, and read-only, offline or mend";

const POWER_CUT_ARGUMENTS: &str = "[--keep none|random|all-but-one] [--seed N] and, not immediately, \
     --after WRITES, --at-mark TEXT or --in-write; or [--image IMAGE]; or cancel";

/// The action of a scrub.
fn scrub(words: &[&str]) -> Option<Command> {
    Some(match words {
        ["start"] => Command::StartScrub { rate: DEFAULT_RATE },
        ["start", rate] => {
            let rate = rate.parse().ok().filter(|&rate| rate > 0)?;
            Command::StartScrub { rate }
        }
        ["stop"] => Command::StopScrub,
        [] | ["status"] => Command::ScrubStatus,
        _ => return None,
    })
}

/// The options of a loss of power, each once; the moment is one of four.
fn power_cut(mut words: &[&str]) -> Option<PowerCut> {
    let (mut when, mut keep, mut seed, mut image) = (None, None, None, None);
    let once = |is_new: bool| is_new.then_some(());
    while let [name, rest @ ..] = words {
        let value = rest.first().copied();
        words = rest.get(1..).unwrap_or_default();
        match *name {
            "--in-write" => {
                once(when.replace(When::InWrite).is_none())?;
                words = rest;
            }
            "--after" => {
                let writes: u64 = value?.parse().ok().filter(|&writes| writes > 0)?;
                once(when.replace(When::After(writes)).is_none())?;
            }
            "--at-mark" => once(when.replace(When::AtMark(value?.to_owned())).is_none())?,
            "--keep" => once(keep.replace(kept(value?)?).is_none())?,
            "--seed" => once(seed.replace(value?.parse().ok()?).is_none())?,
            "--image" => once(image.replace(PathBuf::from(value?)).is_none())?,
            _ => return None,
        }
    }
    if image.is_some() && when.is_some() {
        return None;
    }
    let (when, keep) = (when.unwrap_or(When::Now), keep.unwrap_or(Keep::None));
    let mut plan = CutPlan::new(when, keep, seed.unwrap_or(0));
    plan.stay_off = image.is_some();
    Some(PowerCut { plan, image })
}

/// A head that is lost does not come back.
fn depopulate(head: &str, loss: &str) -> Option<Command> {
    let loss = match loss {
        "format" => HeadLoss::Format,
        _ => HeadLoss::Zones(
            ZoneChange::named(loss).filter(|change| *change != ZoneChange::Restore)?,
        ),
    };
    Some(Command::Depopulate { head: head.parse().ok()?, loss })
}

fn kept(text: &str) -> Option<Keep> {
    Some(match text {
        "none" => Keep::None,
        "random" => Keep::Random,
        "all-but-one" => Keep::AllButOne,
        _ => return None,
    })
}

fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse().ok()?..=last.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Command, CommandError> {
        Command::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_are_parsed() {
        assert_eq!(parse("plugs all"), Ok(Command::Plugs { all: true }));
        let set = Command::Set { name: "nr_requests".to_owned(), value: "7".to_owned() };
        assert_eq!(parse("set nr_requests 7"), Ok(set));
        let zones = Command::Zones { zones: 3..=5, change: ZoneChange::Offline };
        assert_eq!(parse("zone 3-5 offline"), Ok(zones));
        for (text, loss) in [
            ("depopulate 2 offline", HeadLoss::Zones(ZoneChange::Offline)),
            ("depopulate 2 format", HeadLoss::Format),
        ] {
            assert_eq!(parse(text), Ok(Command::Depopulate { head: 2, loss }));
        }
        assert_eq!(parse("revalidate"), Ok(Command::Revalidate));
        assert!(matches!(parse("fault add fail=read"), Ok(Command::AddFault(_))));
        let path = (SocketAddr::from(([127, 0, 0, 1], 4420)), AnaState::Inaccessible);
        assert_eq!(parse("ana 127.0.0.1:4420 inaccessible"), Ok(Command::Ana(Some(path))));
        let mark = Command::Mark("fsync 17 returned".to_owned());
        assert_eq!(parse("mark fsync 17 returned"), Ok(mark));
        let range = MapRange { first: 7, per_cell: 2, cells: 100 };
        assert_eq!(parse("view 7 2 100"), Ok(Command::View(range)));
        assert_eq!(parse("methods"), Ok(Command::Methods));
        assert_eq!(parse("scrub"), Ok(Command::ScrubStatus));
        assert_eq!(parse("scrub start"), Ok(Command::StartScrub { rate: 100 }));
        assert_eq!(parse("scrub start 7"), Ok(Command::StartScrub { rate: 7 }));
    }

    #[test]
    fn losses_of_power_are_parsed_or_refused() {
        let cut = |text| match parse(text) {
            Ok(Command::PowerCut(cut)) => (cut.plan.when, cut.plan.keep, cut.plan.seed, cut.image),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(cut("power-cut"), (When::Now, Keep::None, 0, None));
        let random = cut("power-cut --keep random --seed 7 --image left.img");
        assert_eq!(random, (When::Now, Keep::Random, 7, Some(PathBuf::from("left.img"))));
        let after = cut("power-cut --after 12 --keep all-but-one");
        assert_eq!(after, (When::After(12), Keep::AllButOne, 0, None));
        assert_eq!(cut("power-cut --in-write --seed 3").0, When::InWrite);
        assert_eq!(cut("power-cut --at-mark synced").0, When::AtMark("synced".to_owned()));
        assert_eq!(parse("power-cut cancel"), Ok(Command::CancelPowerCut));
        for bad in [
            "now",
            "--keep some",
            "--keep",
            "--after 0",
            "--after x",
            "--seed -1",
            "--in-write --after 3",
            "--in-write --in-write",
            "--image a.img --after 3",
        ] {
            let error = parse(&format!("power-cut {bad}")).expect_err(bad).to_string();
            assert!(
                error.starts_with(&format!("power-cut: found `{bad}`, expected [--")),
                "{error}"
            );
        }
    }

    #[test]
    fn errors_name_what_was_found_and_expected() {
        let error = |text| parse(text).expect_err(text).to_string();
        assert_eq!(
            error("reboot now"),
            "command `reboot now`: expected status, stat, plugs, view, get, set, zone, depopulate, \
             revalidate, fault, ana, mark, power-cut, scrub, metrics or methods"
        );
        assert_eq!(error("set x"), "set: found `x`, expected an attribute and its value");
        let expected = "expected ZONE or FIRST-LAST, and read-only, offline or mend";
        assert_eq!(error("zone 5-3 offline"), format!("zone: found `5-3 offline`, {expected}"));
        for bad in ["depopulate 2 mend", "depopulate 2", "depopulate x offline"] {
            let found = bad.trim_start_matches("depopulate ");
            let expected = "expected HEAD, and read-only, offline or format";
            assert_eq!(error(bad), format!("depopulate: found `{found}`, {expected}"));
        }
        assert_eq!(error("zone 5"), format!("zone: found `5`, {expected}"));
        assert_eq!(
            error("fault remove"),
            "fault: found `remove`, expected list, add RULE or clear"
        );
        for wrong in ["view 7", "view 7 0 1", "view 0 1 16385", "view -1 1 1"] {
            assert!(error(wrong).ends_with("with at most 16384 cells"), "{wrong}");
        }
        assert_eq!(error("mark"), "mark: found nothing, expected a text");
        assert_eq!(error("revalidate 7"), "revalidate: found `7`, expected no arguments");
        assert_eq!(error("stat all"), "stat: found `all`, expected no arguments");
        for (command, near) in [
            ("zone 5 ofline", "offline"),
            ("zone 5 read-olny", "read-only"),
            ("depopulate 5 fromat", "format"),
            ("fault claer", "clear"),
            ("ana 127.0.0.1:4420 optimised", "optimized"),
            ("power-cut --keep randmo", "random"),
            ("power-cut --kepe random", "--keep"),
            ("scrub strat", "start"),
        ] {
            assert!(error(command).ends_with(&format!(", did you mean `{near}`?")), "{command}");
        }
        let expected = "expected nothing, or ADDRESS:PORT and optimized, non-optimized, inaccessible, \
                        persistent-loss or change";
        for wrong in ["ana 127.0.0.1 optimized", "ana 127.0.0.1:4420 lost", "ana 127.0.0.1:4420"] {
            assert_eq!(error(wrong), format!("ana: found `{}`, {expected}", &wrong[4..]));
        }
        assert!(error("fault add fail=trim").starts_with("fault option fail=trim"));
        let expected = "expected start [MIB_PER_SECOND], stop or status";
        assert_eq!(error("scrub start 0"), format!("scrub: found `start 0`, {expected}"));
        assert_eq!(error("scrub start -1"), format!("scrub: found `start -1`, {expected}"));
        assert_eq!(error("scrub now"), format!("scrub: found `now`, {expected}"));
    }
}
