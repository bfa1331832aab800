//! Movements of a disk's head, for an observer.
use zonal_blk::Nanos;

/// An activity of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadActivity {
    /// The arm seeks.
    Seek,
    /// Rotational latency: the head waits for its sector.
    Rotate,
    /// The head reads or writes.
    Transfer,
    /// The head is idle.
    Idle,
}

impl HeadActivity {
    /// Its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            HeadActivity::Seek => "seek",
            HeadActivity::Rotate => "rotate",
            HeadActivity::Transfer => "transfer",
            HeadActivity::Idle => "idle",
        }
    }
}

/// One entry of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceEntry {
    /// When the activity began.
    pub at: Nanos,
    /// The activity.
    pub activity: HeadActivity,
    /// The byte address that the head is at or moves to.
    pub byte: u64,
    /// Its radial position, from 0 at the outer edge to 1.
    pub radius: f64,
    /// Bytes in the write buffer.
    pub buffered: u64,
}

/// Where the head is, and how far it has gone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeadState {
    /// Its radial position, from 0 at the outer edge to 1: that of the access in progress.
    pub radius: f64,
    /// How far it has moved since the drive was created; 1 is from edge to edge.
    pub travel: f64,
}

/// Takes the activities of a disk's head, in order. Called while the disk is locked.
pub type HeadTraceSink = Box<dyn FnMut(&TraceEntry) + Send>;

/// Where the activities of the head go.
pub(super) enum Trace {
    /// The first `max` entries are kept; later ones are dropped.
    First { entries: Vec<TraceEntry>, max: usize },
    /// Elsewhere, to each of these.
    Sinks(Vec<HeadTraceSink>),
}

impl Trace {
    pub(super) fn new(max: usize) -> Self {
        Trace::First { entries: Vec::with_capacity(max), max }
    }

    pub(super) fn push(&mut self, entry: TraceEntry) {
        match self {
            Trace::First { entries, max } if entries.len() < *max => entries.push(entry),
            Trace::First { .. } => {}
            Trace::Sinks(sinks) => sinks.iter_mut().for_each(|sink| sink(&entry)),
        }
    }

    pub(super) fn entries(&self) -> &[TraceEntry] {
        match self {
            Trace::First { entries, .. } => entries,
            Trace::Sinks(_) => &[],
        }
    }
}
