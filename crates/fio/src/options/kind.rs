//! Kinds of option values. Each parses the text and hands the value to its setter; a setter only
//! sees values in range, so setters cannot fail.
use super::distribution::{
    DISTRIBUTIONS, parse_distribution, parse_prio_shares, parse_ranges, parse_splits,
};
use super::draft::Draft;
use super::limit::{CRITERIA, parse_criterion, parse_list, parse_percentage};
use super::list::{RwPattern, parse_cpus, parse_errnos, parse_indices, parse_rw, parse_triple};
use super::number::{
    ExprError, MICROSECOND, SECOND, parse_duration, parse_extent, parse_number, parse_size,
};
use super::service::parse_service;
use super::value::{ByDirection, Split, ValueError};
use crate::job::{
    Distribution, Extent, FileService, FillPattern, Fraction, PrioShare, SteadyCriterion,
};
use zonal_blk::Nanos;

/// A keyword and its setter; `Err` says why Zonal does not support it.
pub type Choice = (&'static str, Result<fn(&mut Draft), &'static str>);

/// The kind of value that an option takes, with its setter.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// 0 or 1, or nothing for 1.
    Flag(fn(&mut Draft, bool)),
    /// 0 or 1.
    Bool(fn(&mut Draft, bool)),
    /// A whole number, with the suffixes of sizes.
    Number {
        /// Lowest value.
        min: u64,
        /// Highest value.
        max: u64,
        /// Sets the value.
        set: fn(&mut Draft, u64),
    },
    /// Bytes.
    Size(fn(&mut Draft, u64)),
    /// One to three numbers, for reads, writes and trims; `None` leaves a direction unchanged.
    Triple {
        /// Lowest value.
        min: u64,
        /// Highest value.
        max: u64,
        /// Sets the values.
        set: fn(&mut Draft, ByDirection<u64>),
    },
    /// Bytes, or a range of bytes.
    SizeRange(fn(&mut Draft, u64, u64)),
    /// One to three ranges of bytes, as [`ValueKind::Triple`].
    Ranges(fn(&mut Draft, ByDirection<(u64, u64)>)),
    /// One to three lists of sizes with percentages, as [`ValueKind::Triple`].
    Splits(fn(&mut Draft, ByDirection<Split>)),
    /// One to three lists of sizes with percentages and priorities, as [`ValueKind::Triple`].
    PrioShares(fn(&mut Draft, ByDirection<Vec<PrioShare>>)),
    /// A distribution of offsets, by direction.
    Distribution(fn(&mut Draft, ByDirection<Distribution>)),
    /// Bytes, a percentage or zones.
    Extent(fn(&mut Draft, Extent)),
    /// A duration; without a unit, seconds.
    Seconds(fn(&mut Draft, Nanos)),
    /// A duration or a range of durations; without a unit, seconds.
    SecondsRange(fn(&mut Draft, (Nanos, Nanos))),
    /// How files take turns, with the I/Os of a turn after a colon.
    FileService(fn(&mut Draft, (FileService, u32))),
    /// A duration; without a unit, microseconds.
    Micros(fn(&mut Draft, Nanos)),
    /// One to three durations, as [`ValueKind::Triple`]; without a unit, microseconds.
    MicrosTriple(fn(&mut Draft, ByDirection<Nanos>)),
    /// A percentage with decimals.
    Percentage(fn(&mut Draft, f64)),
    /// Percentages with decimals, separated by colons; ascending when they are set.
    Percentiles(fn(&mut Draft, Vec<f64>)),
    /// A steady state.
    Criterion(fn(&mut Draft, SteadyCriterion)),
    /// One of these keywords.
    Word(&'static [Choice]),
    /// Any of these keywords, separated by commas.
    Words(&'static [Choice]),
    /// An I/O pattern with its modifier, as `randread:8`.
    Pattern(fn(&mut Draft, RwPattern)),
    /// A list of CPUs.
    Cpus(fn(&mut Draft, Vec<usize>)),
    /// A list of up to 128 indices.
    Indices(fn(&mut Draft, Vec<u16>)),
    /// A number from 0 to 1.
    Fraction(fn(&mut Draft, Fraction)),
    /// A pattern of bytes, repeated.
    FillPattern(fn(&mut Draft, FillPattern)),
    /// Error numbers, for reads, writes and verification.
    Errors(fn(&mut Draft, [Vec<i32>; 3])),
    /// Any text.
    Text(fn(&mut Draft, &str)),
    /// Any text, or nothing for an empty one.
    OptionalText(fn(&mut Draft, &str)),
}

impl ValueKind {
    /// A description of the expected value, with an example.
    pub fn expected(&self) -> &'static str {
        match self {
            ValueKind::Flag(_) | ValueKind::Bool(_) => "0 or 1",
            ValueKind::Number { .. } => "a whole number",
            ValueKind::Size(_) | ValueKind::Triple { .. } => "a size such as 4k",
            ValueKind::SizeRange(_) => "a size such as 4k or a range such as 2m-8m",
            ValueKind::Ranges(_) => "a range of sizes such as 1k-4k",
            ValueKind::Splits(_) => {
                "sizes with percentages of at most 100 in total, such as 4k/60:64k/40"
            }
            ValueKind::PrioShares(_) => {
                "sizes with percentages, at most 100 for each size, and with classes and levels or \
                 without, such as 4k/10:64k/50/3/0"
            }
            ValueKind::Distribution(_) => {
                "random, zipf:THETA (not 1), pareto:H, normal:DEVIATION, zoned:IO%/REGION%:..., \
                 zoned_abs:IO%/SIZE:... (IO% is 100 in all) or sequence:BLOCK,BLOCK,... (up to 64)"
            }
            ValueKind::Extent(_) => "a size such as 4k, 50% or 8z",
            ValueKind::Seconds(_) | ValueKind::Micros(_) => "a time such as 30s",
            ValueKind::SecondsRange(_) => "a time such as 30s or a range such as 5-10",
            ValueKind::FileService(_) => {
                "roundrobin, sequential or random, and I/Os of a turn as in random:16, or zipf, pareto or \
                 normal"
            }
            ValueKind::MicrosTriple(_) => "a time such as 20ms",
            ValueKind::Percentage(_) => "a percentage such as 99.9",
            ValueKind::Percentiles(_) => "at most 20 percentages such as 50:99:99.9",
            ValueKind::Criterion(_) => {
                "iops, bw, iops_slope or bw_slope with a limit, such as iops:0.3%"
            }
            ValueKind::Word(_) => "a word",
            ValueKind::Words(_) => "words separated by commas",
            ValueKind::Pattern(_) => "an I/O pattern such as randread or randread:8",
            ValueKind::Indices(_) => "up to 128 indices such as 0,2-5",
            ValueKind::Cpus(_) => "CPU numbers such as 0,2-5",
            ValueKind::Fraction(_) => "a number from 0 to 1 such as 0.25",
            ValueKind::FillPattern(_) => "numbers, \"strings\" and %o, such as 0xff%o\"abc\"-12",
            ValueKind::Errors(_) => {
                "errors for reads, writes and verification, such as EIO:28,ENOSPC"
            }
            ValueKind::Text(_) | ValueKind::OptionalText(_) => "a text",
        }
    }

    /// Parses `text` and hands the value to the setter.
    pub fn apply(&self, text: Option<&str>, draft: &mut Draft) -> Result<(), ValueError> {
        match (self, text) {
            (ValueKind::Flag(set), None | Some("")) => set(draft, true),
            (ValueKind::OptionalText(set), None) => set(draft, ""),
            (_, None | Some("")) => {
                return Err(ValueError::Missing { expected: self.expected() });
            }
            (_, Some(text)) => self.apply_text(text, draft)?,
        }
        Ok(())
    }

    fn apply_text(&self, text: &str, draft: &mut Draft) -> Result<(), ValueError> {
        let base = draft.kb_base();
        let invalid = |error: ExprError| self.invalid(error, text);
        let malformed = || invalid(ExprError::Malformed);
        match self {
            ValueKind::Flag(set) | ValueKind::Bool(set) => {
                match parse_number(text).map_err(invalid)? {
                    number @ (0 | 1) => set(draft, number == 1),
                    _ => return Err(malformed()),
                }
            }
            ValueKind::Number { min, max, set } => {
                let number = parse_size(text, base).map_err(invalid)?;
                set(draft, in_range(number, *min, *max, text)?);
            }
            ValueKind::Size(set) => set(draft, parse_size(text, base).map_err(invalid)?),
            ValueKind::Triple { min, max, set } => {
                let values = parse_triple(text, |part| {
                    let number = parse_size(part, base).map_err(|e| self.invalid(e, part))?;
                    in_range(number, *min, *max, part)
                });
                set(draft, values?.ok_or_else(malformed)?);
            }
            ValueKind::SizeRange(set) => {
                let (min, max) = self.size_range(text, base)?;
                set(draft, min, max);
            }
            ValueKind::Ranges(set) => {
                set(draft, parse_ranges(text, base).ok_or_else(malformed)?);
            }
            ValueKind::Splits(set) => {
                set(draft, parse_splits(text, base).ok_or_else(malformed)?);
            }
            ValueKind::PrioShares(set) => {
                let shares = parse_prio_shares(text, base);
                set(draft, shares.ok_or_else(|| self.prio_share(text))?);
            }
            ValueKind::Distribution(set) => {
                set(draft, parse_distribution(text, base).ok_or_else(|| self.misspelt(text))?);
            }
            ValueKind::Extent(set) => set(draft, parse_extent(text, base).map_err(invalid)?),
            ValueKind::Seconds(set) => set(draft, parse_duration(text, SECOND).map_err(invalid)?),
            ValueKind::SecondsRange(set) => set(draft, self.time_range(text)?),
            ValueKind::FileService(set) => set(draft, parse_service(text)?),
            ValueKind::Micros(set) => {
                set(draft, parse_duration(text, MICROSECOND).map_err(invalid)?);
            }
            ValueKind::MicrosTriple(set) => {
                let values = parse_triple(text, |part| {
                    parse_duration(part, MICROSECOND).map_err(|e| self.invalid(e, part))
                });
                set(draft, values?.ok_or_else(malformed)?);
            }
            ValueKind::Percentage(set) => set(draft, parse_percentage(text).ok_or_else(malformed)?),
            ValueKind::Percentiles(set) => set(draft, parse_list(text).ok_or_else(malformed)?),
            ValueKind::Criterion(set) => {
                set(draft, parse_criterion(text).ok_or_else(|| self.misspelt(text))?);
            }
            ValueKind::Word(words) => choose(words, text)?(draft),
            ValueKind::Words(words) => choose_all(words, text)?.iter().for_each(|set| set(draft)),
            ValueKind::Pattern(set) => set(draft, parse_rw(text, base)?),
            ValueKind::Cpus(set) => set(draft, parse_cpus(text).map_err(invalid)?),
            ValueKind::Indices(set) => set(draft, parse_indices(text).map_err(invalid)?),
            ValueKind::Fraction(set) => set(draft, text.parse().map_err(|_| malformed())?),
            ValueKind::FillPattern(set) => set(draft, text.parse().map_err(|_| malformed())?),
            ValueKind::Errors(set) => set(draft, parse_errnos(text).map_err(invalid)?),
            ValueKind::Text(set) | ValueKind::OptionalText(set) => set(draft, text),
        }
        Ok(())
    }

    fn size_range(&self, text: &str, base: u32) -> Result<(u64, u64), ValueError> {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        let size = |part| parse_size(part, base).map_err(|error| self.invalid(error, text));
        match (size(min)?, size(max)?) {
            (min, max) if min == 0 || min > max => Err(self.invalid(ExprError::Malformed, text)),
            range => Ok(range),
        }
    }

    /// In parentheses a minus is arithmetic.
    fn time_range(&self, text: &str) -> Result<(Nanos, Nanos), ValueError> {
        let parts = text.split_once('-').filter(|_| !text.contains('('));
        let (min, max) = parts.unwrap_or((text, text));
        let time = |part: &str| {
            parse_duration(part.trim(), SECOND).map_err(|error| self.invalid(error, text))
        };
        match (time(min)?, time(max)?) {
            (min, max) if min > max => Err(self.invalid(ExprError::Malformed, text)),
            range => Ok(range),
        }
    }

    /// Why sizes with priorities are none: fio has hints behind them.
    fn prio_share(&self, text: &str) -> ValueError {
        let mut shares = text.split([':', ',']);
        match shares.any(|share| share.split('/').count() == 5) {
            true => ValueError::Unsupported {
                found: text.to_owned(),
                why: "no device here has command duration limits, which hints choose",
            },
            false => self.invalid(ExprError::Malformed, text),
        }
    }

    /// Why a value that begins with a word is none: the word is unknown, or what follows is malformed.
    fn misspelt(&self, text: &str) -> ValueError {
        let known = match self {
            ValueKind::Distribution(_) => &DISTRIBUTIONS[..],
            _ => &CRITERIA,
        };
        match text.split([':', '=']).next().is_some_and(|word| known.contains(&word)) {
            true => self.invalid(ExprError::Malformed, text),
            false => ValueError::NotOneOf { expected: known.to_vec(), found: text.to_owned() },
        }
    }

    fn invalid(&self, error: ExprError, text: &str) -> ValueError {
        let found = text.to_owned();
        match error {
            ExprError::Malformed => ValueError::Malformed { expected: self.expected(), found },
            error => ValueError::Arithmetic { error, found },
        }
    }
}

fn in_range(number: u64, min: u64, max: u64, text: &str) -> Result<u64, ValueError> {
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(ValueError::OutOfRange { min, max, found: text.to_owned() })
    }
}

fn choose_all(words: &'static [Choice], text: &str) -> Result<Vec<fn(&mut Draft)>, ValueError> {
    text.split(',').map(|word| choose(words, word.trim())).collect()
}

fn choose(words: &'static [Choice], text: &str) -> Result<fn(&mut Draft), ValueError> {
    let found = text.to_owned();
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, Ok(set))) => Ok(*set),
        Some((_, Err(why))) => Err(ValueError::Unsupported { found, why }),
        None => {
            let expected = words.iter().map(|(word, _)| *word).collect();
            Err(ValueError::NotOneOf { expected, found })
        }
    }
}
