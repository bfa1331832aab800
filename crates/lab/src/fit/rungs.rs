//! Large steps before derivatives: factors of 2, 4 and 8 of options that are capacities, and values of
//! options that are 0. A capacity that is large enough changes no figure, so derivatives say nothing
//! about it; and an option that is off has no derivative, only the effect of turning it on.
use super::Profile;
use super::search::{Model, cost};
use crate::progress::StepProgress;
use anyhow::Result;

/// How much worse than the best a step may be for the next one to be tried: figures have noise.
const PLATEAU: f64 = 1.02;
/// How much better than the beginning a step has to be.
const BETTER: f64 = 0.98;

/// The point after the large steps that reduce the cost, and its residuals. `progress` advances by all steps, also
/// those that are not taken.
pub(super) fn climb(
    profile: &Profile,
    model: &impl Model,
    mut point: Vec<f64>,
    mut residuals: Vec<f64>,
    progress: &dyn StepProgress,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut left = profile.rungs_in_all() as u64;
    for option in 0..point.len() {
        let before = cost(&residuals);
        let mut best = (before * BETTER, None);
        for steps in profile.rungs(option) {
            for x in steps {
                let mut there = point.clone();
                there[option] = x;
                let found = model.residuals(&there)?;
                progress.advance(1);
                left = left.saturating_sub(1);
                // The value contradicts others; the next one may not.
                let Some(found) = found else { continue };
                let cost = cost(&found);
                if cost > best.0.max(before) * PLATEAU {
                    break;
                }
                if cost < best.0 {
                    best = (cost, Some((there, found)));
                }
            }
        }
        if let (_, Some(found)) = best {
            (point, residuals) = found;
        }
    }
    progress.advance(left);
    Ok((point, residuals))
}
