//! Writes before the first command (`prefill=`), so that a run need not wait for the drive's steady
//! state.
use super::translation::{Page, Translation};
use crate::config::{OptionValue, Unit, ValueError};
use crate::rng::Rng;
use std::fmt;

/// Most drive writes.
const MAX_WRITES: u32 = 1000;

/// The writes before the first command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefill {
    /// Nothing.
    #[default]
    Empty,
    /// Each page once, in order.
    Sequential,
    /// That, and then random pages: as many as the drive has, this many times over.
    Random(u32),
}

impl Prefill {
    /// Does these writes on a layer without data, and tells `wrote` their pages.
    pub(super) fn apply(self, layer: &mut Translation, seed: u64, mut wrote: impl FnMut(Page)) {
        let pages = layer.shape().logical_pages;
        let writes = match self {
            Prefill::Empty => return,
            Prefill::Sequential => 0,
            Prefill::Random(writes) => writes,
        };
        for page in 0..pages {
            layer.overwrite(page, 0);
            wrote(page);
        }
        let mut rng = Rng::new(seed);
        for _ in 0..u64::from(writes) * u64::from(pages) {
            let page = u32::try_from(rng.below(pages.into())).expect("below a number of 32 bits");
            layer.overwrite(page, 0);
            wrote(page);
        }
    }
}

impl OptionValue for Prefill {
    const MAX: u64 = 0;

    fn from_number(_number: u64) -> Self {
        Prefill::default()
    }

    fn number(&self) -> Option<u64> {
        None
    }

    fn parse(_unit: Unit, text: &str) -> Result<Self, ValueError> {
        let writes = |text: &str| text.parse().ok().filter(|writes| *writes <= MAX_WRITES);
        let parsed = match text.split_once(':') {
            None if text == "empty" => Some(Prefill::Empty),
            None if text == "sequential" => Some(Prefill::Sequential),
            Some(("random", count)) => writes(count).map(Prefill::Random),
            _ => None,
        };
        parsed.ok_or(ValueError { max: None })
    }
}

impl fmt::Display for Prefill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prefill::Empty => f.write_str("empty"),
            Prefill::Sequential => f.write_str("sequential"),
            Prefill::Random(writes) => write!(f, "random:{writes}"),
        }
    }
}
