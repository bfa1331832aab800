//! The changes of a layer, as records that redo them on a layer as it was before the first.
//!
//! A layer does the same for the same calls, so a record has what was asked for, and of the collection
//! what it chose, by which a layer that would do something else is found out.
use super::{Page, Translation};

/// Size of an encoded step, in bytes.
pub const STEP_BYTES: usize = 12;

/// A change of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The host wrote pages in a row at a frontier.
    Write {
        /// The first page.
        page: Page,
        /// Their number.
        pages: u32,
        /// The frontier.
        frontier: u16,
    },
    /// The host discarded pages in a row.
    Discard {
        /// The first page.
        page: Page,
        /// Their number.
        pages: u32,
    },
    /// A frontier went on to another superblock early.
    Close {
        /// The frontier.
        frontier: u16,
        /// Pages of the unit that was padded.
        unit: u32,
    },
    /// The collection of a superblock began.
    Collect {
        /// The superblock.
        superblock: u32,
    },
    /// [`Translation::copy`] was called this many times.
    Copy {
        /// The number.
        calls: u32,
    },
    /// A superblock was erased.
    Erase {
        /// The superblock.
        superblock: u32,
    },
}

impl Step {
    /// Makes a step that directly follows this one a part of it. Returns whether that is possible.
    fn extend(&mut self, next: &Step) -> bool {
        match (self, *next) {
            (
                Step::Write { page, pages, frontier },
                Step::Write { page: at, pages: more, frontier: same },
            ) if (page.wrapping_add(*pages), *frontier) == (at, same) => *pages += more,
            (Step::Discard { page, pages }, Step::Discard { page: at, pages: more })
                if page.wrapping_add(*pages) == at =>
            {
                *pages += more;
            }
            (Step::Copy { calls }, Step::Copy { calls: more }) => *calls += more,
            _ => return false,
        }
        true
    }

    /// Appends the step to `to`, in [`STEP_BYTES`] bytes.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let (kind, frontier, first, second): (u16, u16, u32, u32) = match *self {
            Step::Write { page, pages, frontier } => (0, frontier, page, pages),
            Step::Discard { page, pages } => (1, 0, page, pages),
            Step::Close { frontier, unit } => (2, frontier, unit, 0),
            Step::Collect { superblock } => (3, 0, superblock, 0),
            Step::Copy { calls } => (4, 0, calls, 0),
            Step::Erase { superblock } => (5, 0, superblock, 0),
        };
        to.extend(kind.to_le_bytes());
        to.extend(frontier.to_le_bytes());
        to.extend(first.to_le_bytes());
        to.extend(second.to_le_bytes());
    }

    /// The step of [`STEP_BYTES`] bytes; `None` if they are none.
    pub fn decode(from: &[u8]) -> Option<Self> {
        let short = |at| u16::from_le_bytes([from[at], from[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"));
        let (frontier, first, second) = (short(2), word(4), word(8));
        Some(match short(0) {
            0 => Step::Write { page: first, pages: second, frontier },
            1 => Step::Discard { page: first, pages: second },
            2 => Step::Close { frontier, unit: first },
            3 => Step::Collect { superblock: first },
            4 => Step::Copy { calls: first },
            5 => Step::Erase { superblock: first },
            _ => return None,
        })
    }
}

impl Translation {
    /// Records all changes from now on.
    pub fn record(&mut self) {
        self.steps = Some(Vec::new());
    }

    /// The steps since the last call, or since the recording began.
    pub fn take_steps(&mut self) -> Vec<Step> {
        self.steps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records a step, if steps are recorded.
    #[inline]
    pub(super) fn note(&mut self, step: Step) {
        if self.steps.is_some() {
            self.note_step(&step);
        }
    }

    #[cold]
    fn note_step(&mut self, step: &Step) {
        let steps = self.steps.as_mut().expect("steps are recorded");
        if !steps.last_mut().is_some_and(|last| last.extend(step)) {
            steps.push(*step);
        }
    }

    /// Does again what a record says. Returns false if this layer would not have done that, or cannot
    /// do it.
    pub fn redo(&mut self, step: &Step) -> bool {
        let logical = self.shape.logical_pages;
        let fits =
            |page: Page, pages: u32| page.checked_add(pages).is_some_and(|end| end <= logical);
        let is_of_host = |frontier: u16| {
            frontier < self.shape.frontiers() && self.shape.stream_of(frontier).0.is_some()
        };
        match *step {
            Step::Write { page, pages, frontier } => {
                fits(page, pages)
                    && is_of_host(frontier)
                    && (page..page + pages).all(|page| {
                        let can = self.can_write(frontier);
                        if can {
                            self.write(page, frontier);
                        }
                        can
                    })
            }
            Step::Discard { page, pages } => {
                let exist = fits(page, pages);
                for page in page..if exist { page + pages } else { page } {
                    self.discard(page);
                }
                exist
            }
            Step::Close { frontier, unit } => {
                is_of_host(frontier)
                    && self.shape.separate
                    && unit > 0
                    && self.close_early(frontier, unit).is_some()
            }
            Step::Collect { superblock } => self.begin_collection() == Some(superblock),
            Step::Copy { calls } => (0..calls).all(|_| {
                let goes_on = self.collecting.is_some();
                if goes_on {
                    self.copy();
                }
                goes_on
            }),
            Step::Erase { superblock } => {
                let was_collected = self.emptied.contains(&superblock);
                if was_collected {
                    self.erased(superblock);
                }
                was_collected
            }
        }
    }

    /// Completes the collection that has begun, and erases what was collected, as a drive does that has
    /// lost its power meanwhile. Returns whether there was anything to do.
    pub fn settle(&mut self) -> bool {
        let emptied = self.emptied.clone();
        let begun = self.collecting.is_some();
        if begun {
            self.collect();
        }
        emptied.iter().for_each(|&superblock| self.erased(superblock));
        begun || !emptied.is_empty()
    }
}
