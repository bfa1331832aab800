//! The zones that a new device has written to their end (`written=`): the state of a drive after
//! preconditioning.
use super::error::{ConfigError, rule};
use super::option::{OptionValue, Unit, ValueError};
use std::fmt;
use std::ops::RangeInclusive;
use zonal_blk::ZoneNo;

/// The zones that are written to their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenZones(Choice);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// This many percent of the zones, from the first on.
    Share(u8),
    Zones(Vec<RangeInclusive<u32>>),
}

impl Default for Choice {
    fn default() -> Self {
        Choice::Share(0)
    }
}

impl WrittenZones {
    /// All zones.
    pub fn all() -> Self {
        WrittenZones(Choice::Share(100))
    }

    /// No zones.
    pub(crate) const NONE: WrittenZones = WrittenZones(Choice::Share(0));

    /// These zones.
    pub fn zones_in(ranges: Vec<RangeInclusive<u32>>) -> Self {
        WrittenZones(Choice::Zones(ranges))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == WrittenZones::default()
    }

    /// Parses `100%`, or zones such as `0-99+200`.
    fn from_text(text: &str) -> Option<Self> {
        let choice = match text.strip_suffix('%') {
            Some(share) => number(share)
                .filter(|share| *share <= 100)
                .map(|share| Choice::Share(u8::try_from(share).expect("at most 100"))),
            None => text.split('+').map(range).collect::<Option<_>>().map(Choice::Zones),
        };
        choice.map(WrittenZones)
    }

    /// Checks that the zones exist.
    pub(crate) fn check(&self, nr_zones: u32) -> Result<(), ConfigError> {
        let Choice::Zones(ranges) = &self.0 else { return Ok(()) };
        let beyond = ranges.iter().find(|range| *range.end() >= nr_zones);
        rule("written", beyond.is_none(), self, || format!("zones below zones={nr_zones}"))
    }

    /// The zones of a device that has `nr_zones`. A zone may come twice.
    pub(crate) fn zones(&self, nr_zones: u32) -> Vec<ZoneNo> {
        match &self.0 {
            Choice::Share(share) => {
                let zones = u64::from(nr_zones) * u64::from(*share) / 100;
                (0..u32::try_from(zones).expect("at most all")).map(ZoneNo).collect()
            }
            Choice::Zones(ranges) => ranges.iter().cloned().flatten().map(ZoneNo).collect(),
        }
    }
}

impl OptionValue for WrittenZones {
    const MAX: u64 = 0;

    fn from_number(_number: u64) -> Self {
        WrittenZones::default()
    }

    fn number(&self) -> Option<u64> {
        None
    }

    fn parse(_unit: Unit, text: &str) -> Result<Self, ValueError> {
        WrittenZones::from_text(text).ok_or(ValueError { max: None })
    }
}

impl fmt::Display for WrittenZones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Choice::Share(share) => write!(f, "{share}%"),
            Choice::Zones(ranges) if ranges.is_empty() => f.write_str("0%"),
            Choice::Zones(ranges) => {
                let range =
                    |range: &RangeInclusive<u32>| format!("{}-{}", range.start(), range.end());
                f.write_str(&ranges.iter().map(range).collect::<Vec<_>>().join("+"))
            }
        }
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.starts_with(|c: char| c.is_ascii_digit()))
}

/// `7` or `0-99`.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(text: &str, nr_zones: u32) -> Vec<u32> {
        let written = WrittenZones::from_text(text).expect(text);
        written.check(nr_zones).expect(text);
        written.zones(nr_zones).into_iter().map(|zone| zone.0).collect()
    }

    #[test]
    fn zones_are_a_share_or_ranges() {
        assert_eq!(zones("100%", 3), [0, 1, 2]);
        assert_eq!(zones("50%", 5), [0, 1]);
        assert_eq!(zones("0%", 5), []);
        assert_eq!(zones("0-2+7", 8), [0, 1, 2, 7]);
    }

    #[test]
    fn other_texts_and_zones_that_do_not_exist_are_errors() {
        for text in ["", "all", "101%", "-1%", "3-1", "1+", "1,2", "+1"] {
            assert_eq!(WrittenZones::from_text(text), None, "{text}");
        }
        assert!(WrittenZones::from_text("0-8").unwrap().check(8).is_err());
    }
}
