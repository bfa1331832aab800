//! The shortest history that still fails.
use super::run::{Failure, run};
use super::step::{History, Step};

/// Drops steps for as long as the history still fails, the same way or another, and at most `tries`
/// runs long. Gives the history and its failure.
///
/// Steps after the failure go first; then halves, quarters and so on down to single steps (Zeller
/// and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002); then the time between
/// steps.
pub fn shrink(history: &History, failure: &Failure, tries: u32) -> (History, Failure) {
    let mut best = Best { history: history.clone(), failure: failure.clone(), tries };
    best.cut_behind();
    let mut size = best.history.steps.len().div_ceil(2);
    while size > 0 && best.tries > 0 {
        let mut dropped = false;
        let mut at = 0;
        while at < best.history.steps.len() && best.tries > 0 {
            let end = (at + size).min(best.history.steps.len());
            let mut fewer = best.history.steps.clone();
            fewer.drain(at..end);
            if best.try_steps(fewer) {
                dropped = true;
            } else {
                at = end;
            }
        }
        if size == 1 && !dropped {
            break;
        }
        size = if size > 1 { size.div_ceil(2) } else { 1 };
    }
    for at in 0..best.history.steps.len() {
        let mut sooner = best.history.steps.clone();
        if let Some(step) = sooner.get_mut(at)
            && step.after > 0
        {
            step.after = 0;
            best.try_steps(sooner);
        }
    }
    (best.history, best.failure)
}

struct Best {
    history: History,
    failure: Failure,
    tries: u32,
}

impl Best {
    /// What comes after the failure played no part in it.
    fn cut_behind(&mut self) {
        let end = (self.failure.step + 1).min(self.history.steps.len());
        self.try_steps(self.history.steps[..end].to_vec());
    }

    fn try_steps(&mut self, steps: Vec<Step>) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let history = History { steps, ..self.history.clone() };
        let Ok(outcome) = run(&history) else { return false };
        let Some(failure) = outcome.failure else { return false };
        self.history = history;
        self.failure = failure;
        self.cut_if_earlier();
        true
    }

    fn cut_if_earlier(&mut self) {
        self.history.steps.truncate((self.failure.step + 1).min(self.history.steps.len()));
    }
}
