//! Ours: a path carries a copy of what commands read, worked out when the path is made.
//!
//! What commands need of a namespace is eleven bytes: who sends one holds the path anyway, so they
//! lie there, beside what multipath looks at to choose the path. The format of a namespace does not
//! change under a path: a host that finds a new format freezes the queue and makes new paths. So the
//! copy is never stale, and a command reads one cache line without following a pointer.
use super::{FieldAccess, NamespaceLayout, PathCounters, PathInfo, PathState, hot_fields};
use crate::ns::info::NamespaceInfo;
use crate::ns::setup::Protection;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zonal_blk::layout::StructLayout;
use zonal_blk::struct_layout;

/// What the paths of a namespace share.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct NamespaceHead {
    /// What the scan found.
    pub info: NamespaceInfo,
    /// Blocks in use, as last heard of.
    pub used: AtomicU64,
}

/// A namespace on one controller.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Namespace {
    /// The identifier that commands name it by.
    nsid: u32,
    /// What protection information asks of commands.
    protection: Protection,
    /// log2 of the block size in bytes.
    lba_shift: u8,
    /// State of the path.
    pub state: PathState,
    /// The head.
    head: Arc<NamespaceHead>,
    /// Counters.
    pub counters: PathCounters,
}

impl NamespaceHead {
    /// The head of a namespace that a scan found.
    pub fn new(info: &NamespaceInfo) -> Arc<Self> {
        Arc::new(NamespaceHead { info: *info, used: AtomicU64::new(info.used) })
    }

    /// One more path to the namespace.
    pub fn path(self: &Arc<Self>, path: &PathInfo) -> Arc<Namespace> {
        let info = &self.info;
        Arc::new(Namespace {
            nsid: info.nsid,
            protection: Protection::new(info.metadata, info.pi_type),
            lba_shift: info.lba_shift,
            state: PathState::new(path),
            head: Arc::clone(self),
            counters: PathCounters::default(),
        })
    }
}

impl Namespace {
    /// The head.
    pub fn head(&self) -> &Arc<NamespaceHead> {
        &self.head
    }
}

impl NamespaceLayout for Namespace {
    const NAME: &'static str = "copy in the path";

    fn new(info: &NamespaceInfo, path: &PathInfo) -> Arc<Self> {
        NamespaceHead::new(info).path(path)
    }

    #[inline(always)]
    fn nsid(&self) -> u32 {
        self.nsid
    }

    #[inline(always)]
    fn lba_shift(&self) -> u8 {
        self.lba_shift
    }

    #[inline(always)]
    fn protection(&self) -> Protection {
        self.protection
    }

    fn hot_fields() -> Vec<FieldAccess> {
        hot_fields!(
            Namespace.nsid: u32, Namespace.protection: Protection, Namespace.lba_shift: u8,
        )
    }

    fn layouts() -> Vec<StructLayout> {
        let path = struct_layout!(Namespace { nsid, protection, lba_shift, state, head, counters });
        vec![path, struct_layout!(NamespaceHead { info, used })]
    }
}
