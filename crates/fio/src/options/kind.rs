//! Kinds of option values, each with the setter that takes what was read.
//!
//! Takes a value's text; gives it, read, to the setter. Keeps true: a setter only sees values in
//! range, so setters cannot fail.
use super::draft::Draft;
use super::value::expr::ExprError;
use super::value::pattern::{RwPattern, read_pattern};
use super::value::{cpus, errors, number, size, time, triple};
use crate::job::Extent;
use crate::trace::Fraction;
use crate::verify::FillPattern;
use thiserror::Error;
use zonal_blk::Nanos;

/// A word and what it sets; `Err` says why Zonal cannot do what fio does.
pub type Choice = (&'static str, Result<fn(&mut Draft), &'static str>);

/// What an option's value is, and where it goes.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// 0 or 1, or nothing for 1.
    Flag(fn(&mut Draft, bool)),
    /// 0 or 1.
    Bool(fn(&mut Draft, bool)),
    /// A whole number, suffixes as in sizes.
    Number {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
        /// Takes the value.
        set: fn(&mut Draft, u64),
    },
    /// Bytes.
    Size(fn(&mut Draft, u64)),
    /// One to three numbers, for reads, writes and trims; `None` leaves a direction as it was.
    Triple {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
        /// Takes the values.
        set: fn(&mut Draft, [Option<u64>; 3]),
    },
    /// Bytes, or a least and a greatest number of bytes.
    SizeRange(fn(&mut Draft, u64, u64)),
    /// Bytes, percents or zones.
    Extent(fn(&mut Draft, Extent)),
    /// A duration; without a unit, seconds.
    Seconds(fn(&mut Draft, Nanos)),
    /// A duration; without a unit, microseconds.
    Micros(fn(&mut Draft, Nanos)),
    /// One of these words.
    Word(&'static [Choice]),
    /// An I/O pattern with its modifier, as `randread:8`.
    Pattern(fn(&mut Draft, RwPattern)),
    /// A list of CPUs.
    Cpus(fn(&mut Draft, Vec<usize>)),
    /// A number from 0 to 1.
    Fraction(fn(&mut Draft, Fraction)),
    /// Bytes to write over and over.
    FillPattern(fn(&mut Draft, FillPattern)),
    /// Error numbers, for reads, writes and checks.
    Errors(fn(&mut Draft, [Vec<i32>; 3])),
    /// Any text.
    Text(fn(&mut Draft, &str)),
}

/// Why a value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ValueError {
    /// The option cannot stand without a value.
    #[error("expected {expected}, found no value")]
    Missing {
        /// What would have been right.
        expected: &'static str,
    },
    /// The text is something else.
    #[error("expected {expected}, found {found:?}")]
    Malformed {
        /// What would have been right.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The word is none of the known ones.
    #[error("expected one of {}, found {found:?}", .expected.join(", "))]
    NotOneOf {
        /// The known words.
        expected: Vec<&'static str>,
        /// What stands there.
        found: String,
    },
    /// The number is too small or too great.
    #[error("expected {min} to {max}, found {found:?}")]
    OutOfRange {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
        /// What stands there.
        found: String,
    },
    /// The arithmetic cannot be done.
    #[error("{fault} in {found:?}")]
    Arithmetic {
        /// What is wrong with it.
        fault: ExprError,
        /// What stands there.
        found: String,
    },
    /// fio can do this, Zonal cannot.
    #[error("{found:?} is not supported: {why}")]
    Unsupported {
        /// What stands there.
        found: String,
        /// Why, or what to use instead.
        why: &'static str,
    },
}

impl ValueKind {
    /// What is expected, in words, with an example.
    pub fn expected(&self) -> &'static str {
        match self {
            ValueKind::Flag(_) | ValueKind::Bool(_) => "0 or 1",
            ValueKind::Number { .. } => "a whole number",
            ValueKind::Size(_) | ValueKind::Triple { .. } => "a size such as 4k",
            ValueKind::SizeRange(_) => "a size such as 4k or a range such as 2m-8m",
            ValueKind::Extent(_) => "a size such as 4k, 50% or 8z",
            ValueKind::Seconds(_) | ValueKind::Micros(_) => "a time such as 30s",
            ValueKind::Word(_) => "a word",
            ValueKind::Pattern(_) => "an I/O pattern such as randread or randread:8",
            ValueKind::Cpus(_) => "CPU numbers such as 0,2-5",
            ValueKind::Fraction(_) => "a number from 0 to 1 such as 0.25",
            ValueKind::FillPattern(_) => "numbers, \"strings\" and %o, as 0xff%o\"abc\"-12",
            ValueKind::Errors(_) => "errors for reads, writes and checks, as EIO:28,ENOSPC",
            ValueKind::Text(_) => "a text",
        }
    }

    /// Reads `text` and gives it to the setter.
    pub fn apply(&self, text: Option<&str>, draft: &mut Draft) -> Result<(), ValueError> {
        let text = match (self, text) {
            (ValueKind::Flag(set), None) => {
                set(draft, true);
                return Ok(());
            }
            (_, None | Some("")) => {
                return Err(ValueError::Missing { expected: self.expected() });
            }
            (_, Some(text)) => text,
        };
        let base = draft.kb_base();
        let problem = |fault: ExprError| self.problem(fault, text);
        match self {
            ValueKind::Flag(set) | ValueKind::Bool(set) => {
                let number = number::read(text).map_err(problem)?;
                match number {
                    0 | 1 => set(draft, number == 1),
                    _ => return Err(self.problem(ExprError::Malformed, text)),
                }
            }
            ValueKind::Number { min, max, set } => {
                let number = size::read(text, base).map_err(problem)?;
                set(draft, in_range(number, *min, *max, text)?);
            }
            ValueKind::Size(set) => set(draft, size::read(text, base).map_err(problem)?),
            ValueKind::Triple { min, max, set } => {
                let values = triple::read(text, |part| {
                    let number = size::read(part, base).map_err(|f| self.problem(f, part))?;
                    in_range(number, *min, *max, part)
                });
                let malformed = || self.problem(ExprError::Malformed, text);
                set(draft, values?.ok_or_else(malformed)?);
            }
            ValueKind::SizeRange(set) => {
                let (least, most) = text.split_once('-').unwrap_or((text, text));
                let read = |part| size::read(part, base).map_err(problem);
                let (least, most) = (read(least)?, read(most)?);
                if least == 0 || least > most {
                    return Err(self.problem(ExprError::Malformed, text));
                }
                set(draft, least, most);
            }
            ValueKind::Extent(set) => set(draft, size::read_extent(text, base).map_err(problem)?),
            ValueKind::Seconds(set) => set(draft, time::read(text, time::SECOND).map_err(problem)?),
            ValueKind::Micros(set) => {
                set(draft, time::read(text, time::MICROSECOND).map_err(problem)?)
            }
            ValueKind::Word(words) => choose(words, text)?(draft),
            ValueKind::Pattern(set) => set(draft, read_pattern(text, base)?),
            ValueKind::Cpus(set) => set(draft, cpus::read(text).map_err(problem)?),
            ValueKind::Fraction(set) => {
                let fraction =
                    text.parse().map_err(|_| self.problem(ExprError::Malformed, text))?;
                set(draft, fraction);
            }
            ValueKind::FillPattern(set) => {
                let pattern = text.parse().map_err(|_| self.problem(ExprError::Malformed, text))?;
                set(draft, pattern);
            }
            ValueKind::Errors(set) => set(draft, errors::read(text).map_err(problem)?),
            ValueKind::Text(set) => set(draft, text),
        }
        Ok(())
    }

    fn problem(&self, fault: ExprError, text: &str) -> ValueError {
        let found = text.to_owned();
        match fault {
            ExprError::Malformed => ValueError::Malformed { expected: self.expected(), found },
            fault => ValueError::Arithmetic { fault, found },
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
