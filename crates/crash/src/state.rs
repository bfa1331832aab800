//! A state that a loss of power may leave, as text: when the power failed, and what the drive did not
//! keep.
//!
//! ```text
//!  412                     after event 412: all that had completed is there, nothing else
//!  412:z3=5                zone 3 has only its first 5 blocks
//!  412:z3=5+a401+a399/2    after those, the appends 401 and 399, which were in flight; of the
//!                          latter two blocks
//!  412:z3=reset            the reset of zone 3, which was in flight, was done; z3=full for a finish
//!  412:w17=none,w20=first2 of writes outside sequential zones, 17 was lost and 20 has its first two
//!                          blocks; also all (of a write in flight), lastN
//! ```
//!
//! Commands have the numbers of the log.
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The contents of a drive after a loss of power.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// Number of events before the loss of power.
    pub cut: u64,
    /// Sequential zones that do not have exactly what had completed.
    pub zones: BTreeMap<u32, ZoneFate>,
    /// Writes outside sequential zones that were lost although they had completed, or kept although
    /// they had not, by the number of their commands.
    pub writes: BTreeMap<u64, WriteFate>,
}

/// The state of a sequential zone after a loss of power.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ZoneFate {
    /// Its data end here.
    Data {
        /// Logical blocks from the zone's start.
        kept: u64,
        /// Appends in flight that landed after them, in order.
        appends: Vec<Append>,
    },
    /// It was reset.
    Reset,
    /// It was finished.
    Full,
}

/// An append that was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    /// Its command.
    pub id: u64,
    /// Its first blocks, if not all were written.
    pub blocks: Option<u64>,
}

/// The part of a write outside sequential zones that a loss of power left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteFate {
    /// It was lost.
    None,
    /// It was kept.
    All,
    /// This many of its first blocks were kept.
    First(u64),
    /// This many of its last blocks were kept.
    Last(u64),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cut)?;
        let mut mark = ':';
        for (zone, fate) in &self.zones {
            write!(f, "{mark}z{zone}={fate}")?;
            mark = ',';
        }
        for (id, fate) in &self.writes {
            write!(f, "{mark}w{id}={fate}")?;
            mark = ',';
        }
        Ok(())
    }
}

impl fmt::Display for ZoneFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ZoneFate::Reset => f.write_str("reset"),
            ZoneFate::Full => f.write_str("full"),
            ZoneFate::Data { kept, appends } => {
                write!(f, "{kept}")?;
                appends.iter().try_for_each(|append| match append.blocks {
                    None => write!(f, "+a{}", append.id),
                    Some(blocks) => write!(f, "+a{}/{blocks}", append.id),
                })
            }
        }
    }
}

impl fmt::Display for WriteFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteFate::None => f.write_str("none"),
            WriteFate::All => f.write_str("all"),
            WriteFate::First(blocks) => write!(f, "first{blocks}"),
            WriteFate::Last(blocks) => write!(f, "last{blocks}"),
        }
    }
}

/// Why text is not a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("state `{text}`: found `{found}`, expected {expected}")]
pub struct StateError {
    text: String,
    found: String,
    expected: &'static str,
}

const ITEM: &str = "zZONE=BLOCKS[+aAPPEND[/BLOCKS]]..., zZONE=reset, zZONE=full, or \
                    wWRITE=none, all, firstBLOCKS or lastBLOCKS";

impl FromStr for State {
    type Err = StateError;

    fn from_str(text: &str) -> Result<Self, StateError> {
        let error = |found: &str, expected| StateError {
            text: text.to_owned(),
            found: found.to_owned(),
            expected,
        };
        let (cut, items) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let cut = cut.parse().map_err(|_| error(cut, "the number of an event"))?;
        let mut state = State { cut, ..State::default() };
        for item in items.into_iter().flat_map(|items| items.split(',')) {
            state.add(item).ok_or_else(|| error(item, ITEM))?;
        }
        Ok(state)
    }
}

impl State {
    /// Adds an item, once; `None` if it is malformed.
    fn add(&mut self, item: &str) -> Option<()> {
        let (name, fate) = item.split_once('=')?;
        let new = match name.split_at_checked(1)? {
            ("z", zone) => self.zones.insert(zone.parse().ok()?, zone_fate(fate)?).is_none(),
            ("w", id) => self.writes.insert(id.parse().ok()?, write_fate(fate)?).is_none(),
            _ => false,
        };
        new.then_some(())
    }
}

fn zone_fate(text: &str) -> Option<ZoneFate> {
    match text {
        "reset" => return Some(ZoneFate::Reset),
        "full" => return Some(ZoneFate::Full),
        _ => {}
    }
    let mut parts = text.split('+');
    let kept = parts.next()?.parse().ok()?;
    let append = |part: &str| {
        let (id, blocks) = match part.strip_prefix('a')?.split_once('/') {
            Some((id, blocks)) => (id, Some(blocks.parse().ok()?)),
            None => (part.strip_prefix('a')?, None),
        };
        Some(Append { id: id.parse().ok()?, blocks })
    };
    Some(ZoneFate::Data { kept, appends: parts.map(append).collect::<Option<_>>()? })
}

fn write_fate(text: &str) -> Option<WriteFate> {
    Some(match text {
        "none" => WriteFate::None,
        "all" => WriteFate::All,
        _ => match text.strip_prefix("first") {
            Some(blocks) => WriteFate::First(blocks.parse().ok()?),
            None => WriteFate::Last(text.strip_prefix("last")?.parse().ok()?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_the_same_after_it_was_text() {
        for text in [
            "412",
            "0:z3=5",
            "412:z3=5+a401+a399/2",
            "1:z0=reset,z1=full,w17=none,w18=all,w20=first2,w21=last7",
        ] {
            let state: State = text.parse().expect(text);
            assert_eq!(state.to_string(), text);
        }
    }

    #[test]
    fn text_that_is_not_a_state_is_refused_with_what_was_expected() {
        let error = |text: &str| text.parse::<State>().expect_err(text).to_string();
        assert_eq!(error("x"), "state `x`: found `x`, expected the number of an event");
        for bad in ["z3", "z3=", "z3=5+9", "w1=some", "y1=2", "é=1", "", "z1=2,z1=3"] {
            assert!(error(&format!("7:{bad}")).contains("expected zZONE="), "{bad}");
        }
    }
}
