//! The result of checking a state.
use serde::{Deserialize, Serialize};

/// The result of judging a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Why the state is bad.
    pub failure: Option<String>,
    /// The explanation.
    pub output: String,
}

impl Judgement {
    /// One without output.
    pub fn of(failure: Option<String>) -> Self {
        Judgement { failure, output: String::new() }
    }
}

/// The result of the check of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The state, as text.
    pub state: String,
    /// Why it failed.
    pub failure: Option<String>,
    /// The end of what a command printed, of a check that failed.
    pub output: String,
    /// How long that took.
    pub seconds: f64,
}
