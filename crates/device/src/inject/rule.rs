//! Rules as text: `fail=write,zone=3,count=2`, `delay=read,time=20ms` or `tear=write,keep=8KiB`. Formatting a rule and parsing
//! it again yields the same rule.
use crate::quantity;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use zonal_blk::{Bytes, Nanos, Op, OpClass, Request, Status};

/// A fault and the commands that it hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The fault.
    pub fault: Fault,
    /// The kind of commands.
    pub kind: CommandKind,
    /// The zones; `None` for all.
    pub zones: Option<RangeInclusive<u32>>,
    /// Hits one in this many matching commands, at random.
    pub one_in: u64,
    /// Stops after this many hits; `None` for never.
    pub count: Option<u64>,
}

/// The fault of a command that a rule hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Fails with this status, without effect.
    Fail(Status),
    /// Reaches the device after this delay.
    Delay(Nanos),
    /// A write to a sequential zone, of which only this much from its start is left: it fails with an I/O
    /// error, and the write pointer is where the data end.
    Tear(Bytes),
}

/// Kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// All commands.
    Any,
    /// Reads.
    Read,
    /// Writes, appends and write zeroes.
    Write,
    /// Flushes.
    Flush,
    /// Zone management: open, close, finish, reset.
    Zone,
}

const KINDS: [(&str, CommandKind); 5] = [
    ("any", CommandKind::Any),
    ("read", CommandKind::Read),
    ("write", CommandKind::Write),
    ("flush", CommandKind::Flush),
    ("zone", CommandKind::Zone),
];

/// The commands that can be torn.
const TORN_KINDS: [(&str, CommandKind); 1] = [("write", CommandKind::Write)];

/// Statuses by the names of the kernel's codes.
const STATUSES: [(&str, Status); 6] = [
    ("ioerr", Status::IoError),
    ("medium", Status::Medium),
    ("timeout", Status::Timeout),
    ("nospc", Status::NoSpace),
    ("protection", Status::Protection),
    ("offline", Status::Offline),
];

/// The fault that was meant, if the word before the first `=` is near to it.
fn nearest_fault(rule: &str) -> String {
    let word = rule.split(['=', ',']).next().unwrap_or_default();
    zonal_blk::did_you_mean(word, ["fail", "delay", "tear"])
}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It does not begin with a fault.
    #[error("fault `{0}`: expected fail=KIND, delay=KIND or tear=write first{hint}", hint = nearest_fault(.0))]
    NoFault(String),
    /// A torn write without what is left of it.
    #[error("fault `{0}`: expected keep=SIZE, such as keep=8KiB")]
    NoKeep(String),
    /// A delay without its time.
    #[error("fault `{0}`: expected time=TIME, such as time=20ms")]
    NoTime(String),
    /// An unknown option, or one of the other fault.
    #[error("fault option `{0}`: expected {1}{hint}", hint = zonal_blk::did_you_mean_of(.0, .1))]
    Unknown(String, &'static str),
    /// An invalid value of an option.
    #[error("fault option {0}={1}: expected {2}")]
    Value(&'static str, String, String),
}

impl Rule {
    /// Whether the rule matches a command, chance and count aside.
    pub(super) fn matches(&self, request: &Request) -> bool {
        let op = request.op();
        let kind = match self.kind {
            CommandKind::Any => true,
            CommandKind::Read => op == Op::Read,
            CommandKind::Write => op.is_write(),
            CommandKind::Flush => op == Op::Flush,
            CommandKind::Zone => op.info().class == OpClass::Zone,
        };
        let in_zones = |zones: &RangeInclusive<u32>| {
            zones.contains(&request.zone().0) && !matches!(op, Op::Flush | Op::ZoneResetAll)
        };
        kind && self.zones.as_ref().is_none_or(in_zones)
    }
}

fn one_of<T: Copy>(
    option: &'static str,
    value: &str,
    names: &[(&'static str, T)],
) -> Result<T, RuleError> {
    let found = names.iter().find(|(name, _)| *name == value);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|&(name, _)| name).collect();
        let hint = zonal_blk::did_you_mean(value, names.iter().copied());
        RuleError::Value(option, value.to_owned(), format!("{}{hint}", names.join(", ")))
    })
}

fn count(option: &'static str, value: &str) -> Result<u64, RuleError> {
    let count = quantity::parse_count(value).ok().filter(|&count| count > 0);
    count.ok_or_else(|| RuleError::Value(option, value.to_owned(), "a number above 0".to_owned()))
}

fn zones(value: &str) -> Result<RangeInclusive<u32>, RuleError> {
    let range = match value.split_once('-') {
        None => value.parse().ok().map(|zone| zone..=zone),
        Some((first, last)) => first.parse().ok().zip(last.parse().ok()).map(|(a, b)| a..=b),
    };
    let range = range.filter(|range: &RangeInclusive<u32>| !range.is_empty());
    range.ok_or_else(|| {
        RuleError::Value("zone", value.to_owned(), "a zone or a range FIRST-LAST".to_owned())
    })
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (what, options) = text.split_once(',').unwrap_or((text, ""));
        let (action, kind) = match what.split_once('=') {
            Some(("fail", kind)) => ("fail", one_of("fail", kind, &KINDS)?),
            Some(("delay", kind)) => ("delay", one_of("delay", kind, &KINDS)?),
            Some(("tear", kind)) => ("tear", one_of("tear", kind, &TORN_KINDS)?),
            _ => return Err(RuleError::NoFault(text.to_owned())),
        };
        let mut rule =
            Rule { fault: Fault::Fail(Status::IoError), kind, zones: None, one_in: 1, count: None };
        let (mut time, mut keep) = (None, None);
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "status" if action == "fail" => {
                    rule.fault = Fault::Fail(one_of("status", value, &STATUSES)?);
                }
                "keep" if action == "tear" => {
                    let bytes = quantity::parse_size(value).map_err(|_| {
                        RuleError::Value("keep", value.to_owned(), "a size, as 8KiB".to_owned())
                    })?;
                    keep = Some(Bytes(bytes));
                }
                "time" if action == "delay" => {
                    let nanos = quantity::parse_time(value).map_err(|_| {
                        RuleError::Value("time", value.to_owned(), "a time, as 20ms".to_owned())
                    })?;
                    time = Some(Nanos(nanos));
                }
                "zone" => rule.zones = Some(zones(value)?),
                "one_in" => rule.one_in = count("one_in", value)?,
                "count" => rule.count = Some(count("count", value)?),
                _ => {
                    let expected = match action {
                        "fail" => "status, zone, one_in or count",
                        "tear" => "keep, zone, one_in or count",
                        _ => "time, zone, one_in or count",
                    };
                    return Err(RuleError::Unknown(option.to_owned(), expected));
                }
            }
        }
        match action {
            "delay" => {
                let time = time.ok_or_else(|| RuleError::NoTime(text.to_owned()))?;
                rule.fault = Fault::Delay(time);
            }
            "tear" => {
                let keep = keep.ok_or_else(|| RuleError::NoKeep(text.to_owned()))?;
                rule.fault = Fault::Tear(keep);
            }
            _ => {}
        }
        Ok(rule)
    }
}

fn name_of<T: PartialEq>(value: &T, names: &[(&'static str, T)]) -> &'static str {
    names.iter().find(|(_, named)| named == value).map_or("other", |&(name, _)| name)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = name_of(&self.kind, &KINDS);
        match self.fault {
            Fault::Fail(status) => {
                write!(f, "fail={kind},status={}", name_of(&status, &STATUSES))?;
            }
            Fault::Delay(time) => write!(f, "delay={kind},time={}", quantity::format_time(time.0))?,
            Fault::Tear(keep) => write!(f, "tear={kind},keep={}", quantity::format_size(keep.0))?,
        }
        if let Some(zones) = &self.zones {
            write!(f, ",zone={}-{}", zones.start(), zones.end())?;
        }
        if self.one_in > 1 {
            write!(f, ",one_in={}", self.one_in)?;
        }
        self.count.map_or(Ok(()), |count| write!(f, ",count={count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_say_what_is_wrong_with_a_rule() {
        let said = |text: &str| text.parse::<Rule>().expect_err(text).to_string();
        assert_eq!(
            said("bang"),
            "fault `bang`: expected fail=KIND, delay=KIND or tear=write first"
        );
        assert_eq!(
            said("fail=trim"),
            "fault option fail=trim: expected any, read, write, flush, zone"
        );
        assert_eq!(said("delay=read"), "fault `delay=read`: expected time=TIME, such as time=20ms");
        assert_eq!(
            said("fail=read,time=1ms"),
            "fault option `time=1ms`: expected status, zone, one_in or count"
        );
        assert_eq!(
            said("fail=read,zone=7-3"),
            "fault option zone=7-3: expected a zone or a range FIRST-LAST"
        );
        assert_eq!(said("fail=read,count=0"), "fault option count=0: expected a number above 0");
        assert_eq!(
            said("fail=write,status=bad"),
            "fault option status=bad: expected ioerr, medium, timeout, nospc, protection, offline"
        );
        assert_eq!(said("tear=read,keep=4K"), "fault option tear=read: expected write");
        assert_eq!(said("tear=write"), "fault `tear=write`: expected keep=SIZE, such as keep=8KiB");
        assert_eq!(said("tear=write,keep=all"), "fault option keep=all: expected a size, as 8KiB");
        assert_eq!(
            said("tear=write,time=1ms"),
            "fault option `time=1ms`: expected keep, zone, one_in or count"
        );
        assert_eq!(said("delay=any,time=soon"), "fault option time=soon: expected a time, as 20ms");
    }

    proptest! {
        #[test]
        fn formatted_rules_parse_as_themselves(
            kind in 0..KINDS.len(),
            status in 0..STATUSES.len(),
            delay in proptest::option::of(any::<u64>()),
            keep in proptest::option::of(any::<u64>()),
            zones in proptest::option::of((0_u32..100, 0_u32..100)),
            one_in in 1_u64..1000,
            count in proptest::option::of(1_u64..1000),
        ) {
            let fault = delay.map_or(Fault::Fail(STATUSES[status].1), |t| Fault::Delay(Nanos(t)));
            let zones = zones.map(|(first, more)| first..=first + more);
            let (fault, kind) = match keep {
                Some(bytes) => (Fault::Tear(Bytes(bytes)), CommandKind::Write),
                None => (fault, KINDS[kind].1),
            };
            let rule = Rule { fault, kind, zones, one_in, count };
            prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,40}") {
            let _ = text.parse::<Rule>();
        }
    }
}
