//! The state of the collection: the zones that are collected, and the rows of pages that are moved.
use crate::ssd::pace::Pace;
use crate::ssd::translation::Place;
use std::collections::VecDeque;
use zonal_blk::Slab;

/// Pages of a row: 256 KiB.
pub(super) const ROW: u32 = 64;
/// Rows that are read or written at the same time.
pub(super) const ROWS: usize = 8;
/// Rows by which the host may be ahead of the collection.
const AHEAD: u32 = 8;

/// Pages that are moved together.
#[derive(Debug)]
pub(super) struct Row {
    /// The zone that they come from.
    pub(super) victim: u32,
    /// I/Os under way.
    pub(super) pending: u32,
    /// Runs of pages to write once they have been read.
    pub(super) to: Vec<(Place, u32)>,
}

/// A zone whose pages are being moved, or have been.
#[derive(Debug)]
pub(super) struct Victim {
    pub(super) zone: u32,
    /// Rows that are not done.
    pub(super) rows: u32,
    /// All of its pages have places elsewhere.
    pub(super) moved: bool,
}

#[derive(Debug)]
pub(super) struct Collection {
    /// It goes on until there are as many empty zones as it wants.
    pub(super) has_begun: bool,
    pub(super) pace: Pace,
    pub(super) victims: Vec<Victim>,
    pub(super) rows: Slab<Row>,
    /// Rows that have not been sent to their places yet, oldest first: a zone is written in order.
    pub(super) to_write: VecDeque<u32>,
}

impl Collection {
    pub(super) fn new() -> Self {
        Collection {
            has_begun: false,
            pace: Pace::new(AHEAD * ROW),
            victims: Vec::new(),
            rows: Slab::default(),
            to_write: VecDeque::new(),
        }
    }

    pub(super) fn rows_under_way(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn victim(&mut self, zone: u32) -> &mut Victim {
        self.victims.iter_mut().find(|victim| victim.zone == zone).expect("it is collected")
    }
}
