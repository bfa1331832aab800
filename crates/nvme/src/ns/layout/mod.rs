//! Where a namespace's fields lie: the published arrangements, and ours.
//!
//! A namespace can be reached through several controllers: each is a *path*, and what they share is
//! the *head*. Linux kept the format of the blocks in each path's structure and moved it to the head
//! in 2023; the series was measured as it began ([`in_path`]), with the fields moved ([`in_head`]),
//! with those that every command reads in one cache line ([`cache_line`]), and with commands made
//! from the head without looking at the path ([`cache_line::NamespaceHead`]). [`inline`] is ours: a path carries a copy
//! of what commands read.
//!
//! Takes what a scan found; gives structures whose fields lie in the order in which they are
//! declared. Keeps true: the names of fields are the same in all.
use super::info::NamespaceInfo;
use super::setup::Protection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64};
use zonal_blk::layout::StructLayout;

pub mod cache_line;
pub mod in_head;
pub mod in_path;
pub mod inline;

/// What a path has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// The controller.
    pub cntlid: u16,
    /// The ANA group that the namespace belongs to there; 0 for none.
    pub ana_group: u32,
}

/// A field that making a command reads: the structure it is in, where, how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAccess {
    structure: &'static str,
    offset: usize,
    size: usize,
}

/// A cache line of a structure.
pub type CacheLine = (&'static str, usize);

/// An arrangement of a namespace's fields.
pub trait NamespaceLayout: Send + Sync + Sized {
    /// What is called so in the published table.
    const NAME: &'static str;

    /// Makes the namespace's head with a path.
    fn new(info: &NamespaceInfo, path: &PathInfo) -> Arc<Self>;

    /// The identifier that commands name the namespace by.
    fn nsid(&self) -> u32;

    /// log2 of the block size in bytes.
    fn lba_shift(&self) -> u8;

    /// What protection information asks of commands.
    fn protection(&self) -> Protection;

    /// The fields that making a read or write command reads.
    fn hot_fields() -> Vec<FieldAccess>;

    /// The structures.
    fn layouts() -> Vec<StructLayout>;

    /// The cache lines that making a read or write command reads, beside the request's.
    fn cache_lines() -> Vec<CacheLine> {
        let mut lines: Vec<CacheLine> = Vec::new();
        for field in Self::hot_fields() {
            let last = field.offset + field.size - 1;
            for line in field.offset / 64..=last / 64 {
                if !lines.contains(&(field.structure, line)) {
                    lines.push((field.structure, line));
                }
            }
        }
        lines.sort_unstable();
        lines
    }
}

/// The fields called `$field` of a structure of arrangement `$self`, as touched.
macro_rules! hot_fields {
    ($($structure:ident.$field:ident: $type:ty),* $(,)?) => {
        vec![$($crate::ns::layout::FieldAccess {
            structure: stringify!($structure),
            offset: std::mem::offset_of!($structure, $field),
            size: size_of::<$type>(),
        }),*]
    };
}
use hot_fields;

/// An arrangement: its name, its structures, and the cache lines that a command reads.
pub type LayoutReport = (&'static str, Vec<StructLayout>, Vec<CacheLine>);

/// All arrangements.
pub fn layouts() -> Vec<LayoutReport> {
    fn of<A: NamespaceLayout>() -> LayoutReport {
        (A::NAME, A::layouts(), A::cache_lines())
    }
    vec![
        of::<in_path::Namespace>(),
        of::<in_head::Namespace>(),
        of::<cache_line::Namespace>(),
        of::<cache_line::NamespaceHead>(),
        of::<inline::Namespace>(),
    ]
}

/// Counters of a path. Written by every thread that sends something, so in a line of their own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct PathCounters {
    /// Commands on their way.
    pub active: AtomicU64,
    /// Commands sent.
    pub sent: AtomicU64,
}

/// State of a path, which multipath looks at before it chooses one.
#[derive(Debug)]
#[repr(C)]
pub struct PathState {
    /// ANA state as log page 0Ch has it.
    pub ana_state: AtomicU8,
    /// Whether the path is going away.
    pub removing: AtomicU8,
    /// The controller.
    pub cntlid: u16,
    /// The ANA group there.
    pub ana_group: u32,
}

/// ANA state: optimized (Base section 8.1.1.4).
const ANA_OPTIMIZED: u8 = 1;

impl PathState {
    fn new(path: &PathInfo) -> Self {
        PathState {
            ana_state: AtomicU8::new(ANA_OPTIMIZED),
            removing: AtomicU8::new(0),
            cntlid: path.cntlid,
            ana_group: path.ana_group,
        }
    }
}
