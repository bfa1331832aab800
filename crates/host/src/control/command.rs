//! What can be asked of a device at work.
//!
//! Takes words; gives a [`Command`]. What attributes there are, [`super::attributes`] knows.
use std::ops::RangeInclusive;
use zonal_device::inject::{Rule, RuleError};

/// A question or an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// What the devices are and where they are exported.
    Status,
    /// What the device did.
    Stat,
    /// The zone write plugs that live; with `all`, every one that was used.
    Plugs {
        /// Not only those that live.
        all: bool,
    },
    /// An attribute, or all.
    Get(Option<String>),
    /// Changes an attribute.
    Set {
        /// The attribute.
        name: String,
        /// Its value, as text.
        value: String,
    },
    /// Makes zones fail, or mends them.
    Zones {
        /// The zones.
        zones: RangeInclusive<u32>,
        /// What becomes of them.
        change: ZoneChange,
    },
    /// The rules by which I/O fails, with how often each has.
    Faults,
    /// Makes I/O fail.
    AddFault(Rule),
    /// Makes no I/O fail any more.
    ClearFaults,
    /// Everything that can be counted, for Prometheus.
    Metrics,
}

/// What becomes of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneChange {
    /// It can be read and no more.
    ReadOnly,
    /// It cannot be used.
    Offline,
    /// It is as new; the data of a sequential zone are gone.
    Restore,
}

/// Why words are no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Nothing of this name.
    #[error("command `{0}`: expected status, stat, plugs, get, set, zone, fault or metrics")]
    Unknown(String),
    /// A command with other arguments than it takes.
    #[error("{0}: found `{1}`, expected {2}")]
    Arguments(&'static str, String, &'static str),
    /// A rule that is none.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl Command {
    /// Reads a command.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn parse(words: &[String]) -> Result<Self, CommandError> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let wrong = |command, expected| {
            Err(CommandError::Arguments(command, words[1..].join(" "), expected))
        };
        Ok(match words[..] {
            ["status"] => Command::Status,
            ["stat"] => Command::Stat,
            ["plugs"] => Command::Plugs { all: false },
            ["plugs", "all"] => Command::Plugs { all: true },
            ["plugs", ..] => return wrong("plugs", "nothing or all"),
            ["get"] => Command::Get(None),
            ["get", name] => Command::Get(Some(name.to_owned())),
            ["get", ..] => return wrong("get", "an attribute or nothing"),
            ["set", name, value] => Command::Set { name: name.to_owned(), value: value.to_owned() },
            ["set", ..] => return wrong("set", "an attribute and its value"),
            ["zone", zones, change] => match (range(zones), change) {
                (Some(zones), "read-only") => {
                    Command::Zones { zones, change: ZoneChange::ReadOnly }
                }
                (Some(zones), "offline") => Command::Zones { zones, change: ZoneChange::Offline },
                (Some(zones), "mend") => Command::Zones { zones, change: ZoneChange::Restore },
                _ => return wrong("zone", ZONE_ARGUMENTS),
            },
            ["zone", ..] => return wrong("zone", ZONE_ARGUMENTS),
            ["fault"] | ["fault", "list"] => Command::Faults,
            ["fault", "add", rule] => Command::AddFault(rule.parse()?),
            ["fault", "clear"] => Command::ClearFaults,
            ["fault", ..] => return wrong("fault", "list, add RULE or clear"),
            ["metrics"] => Command::Metrics,
            ["status" | "stat" | "metrics", ..] => return wrong("arguments", "none"),
            _ => return Err(CommandError::Unknown(words.join(" "))),
        })
    }
}

const ZONE_ARGUMENTS: &str = "ZONE or FIRST-LAST, and read-only, offline or mend";

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
    fn commands_are_read() {
        assert_eq!(parse("plugs all"), Ok(Command::Plugs { all: true }));
        let set = Command::Set { name: "nr_requests".to_owned(), value: "7".to_owned() };
        assert_eq!(parse("set nr_requests 7"), Ok(set));
        let zones = Command::Zones { zones: 3..=5, change: ZoneChange::Offline };
        assert_eq!(parse("zone 3-5 offline"), Ok(zones));
        assert!(matches!(parse("fault add fail=read"), Ok(Command::AddFault(_))));
    }

    #[test]
    fn what_is_wrong_with_a_command_is_said_exactly() {
        let said = |text| parse(text).expect_err(text).to_string();
        assert_eq!(
            said("reboot now"),
            "command `reboot now`: expected status, stat, plugs, get, set, zone, fault or metrics"
        );
        assert_eq!(said("set x"), "set: found `x`, expected an attribute and its value");
        let expected = "expected ZONE or FIRST-LAST, and read-only, offline or mend";
        assert_eq!(said("zone 5-3 offline"), format!("zone: found `5-3 offline`, {expected}"));
        assert_eq!(said("zone 5"), format!("zone: found `5`, {expected}"));
        assert_eq!(said("fault remove"), "fault: found `remove`, expected list, add RULE or clear");
        assert_eq!(said("stat all"), "arguments: found `all`, expected none");
        assert!(said("fault add fail=trim").starts_with("fault option fail=trim"));
    }
}
