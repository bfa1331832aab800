//! What came of a script: as text, which goes from the guest to the host.
use anyhow::{Context, Result, bail};

/// What came of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The error number of each step, 0 for success.
    pub results: Vec<i32>,
    /// Each zone's condition (the kernel's number) and blocks written, where that means something.
    pub zones: Vec<(u8, u64)>,
}

impl Observed {
    /// Whether the write pointer of a zone in this condition says how much was written.
    pub fn has_pointer(condition: u8) -> bool {
        matches!(condition, 1..=4)
    }
}

/// Rounds as text, two lines each.
pub fn format(rounds: &[Observed]) -> String {
    let mut text = String::new();
    for round in rounds {
        text.push_str("results");
        round.results.iter().for_each(|result| text += &format!(" {result}"));
        text.push_str("\nzones");
        round.zones.iter().for_each(|(cond, at)| text += &format!(" {cond}@{at}"));
        text.push('\n');
    }
    text
}

/// Reads rounds from text.
///
/// # Errors
/// The text is not one that [`format()`] makes.
pub fn parse(text: &str) -> Result<Vec<Observed>> {
    let mut rounds: Vec<Observed> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mut words = line.split(' ');
        match (words.next(), rounds.last_mut()) {
            (Some("results"), _) => {
                let results = words.map(|word| word.parse().with_context(|| bad(at, word)));
                rounds
                    .push(Observed { results: results.collect::<Result<_>>()?, zones: Vec::new() });
            }
            (Some("zones"), Some(round)) => {
                round.zones = words
                    .map(|word| zone(word).with_context(|| bad(at, word)))
                    .collect::<Result<_>>()?;
            }
            _ => bail!("line {}: found `{line}`, expected results or zones", at + 1),
        }
    }
    Ok(rounds)
}

fn bad(at: usize, word: &str) -> String {
    format!("line {}: found `{word}`, expected a number", at + 1)
}

fn zone(word: &str) -> Result<(u8, u64)> {
    let (cond, at) = word.split_once('@').context("no @")?;
    Ok((cond.parse()?, at.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_read_as_they_were_written() {
        let round = Observed { results: vec![0, 5, 109], zones: vec![(0, 0), (4, 17)] };
        let rounds = vec![round, Observed::default()];
        assert_eq!(parse(&format(&rounds)).ok(), Some(rounds));
        assert!(parse("zones 1@2\n").is_err());
        assert!(parse("results five\n").is_err());
    }
}
