//! Which rare paths of the layer were reached.
use anyhow::Result;
use std::io::Write;
use zonal_blk::probe::{Mark, was_reached};

/// Prints what was reached and names what was not. Whether all were, if they had to be.
pub fn show(out: &mut impl Write, all: bool) -> Result<bool> {
    let (reached, missed): (Vec<_>, Vec<_>) =
        Mark::ALL.iter().partition(|&&(mark, _)| was_reached(mark));
    writeln!(out, "{} of {} marks reached", reached.len(), Mark::ALL.len())?;
    for (mark, meaning) in &missed {
        writeln!(out, "  not reached: {} ({meaning})", mark.name())?;
    }
    Ok(!all || missed.is_empty())
}
