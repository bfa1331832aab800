//! The published baseline: the format of the blocks lies in the path, the name in the head.
use super::{FieldAccess, NamespaceLayout, PathCounters, PathInfo, PathState, hot_fields};
use crate::ns::info::{Ids, NamespaceInfo};
use crate::ns::setup::Protection;
use crate::wire::opcode::Csi;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use zonal_blk::Sector;
use zonal_blk::layout::StructLayout;
use zonal_blk::struct_layout;

/// What the paths of a namespace share.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct NamespaceHead {
    /// Names.
    pub ids: Ids,
    /// The identifier that commands name it by.
    pub nsid: u32,
    /// Command set.
    pub csi: Csi,
    /// Whether several controllers may have it.
    pub shared: bool,
    /// Size.
    pub capacity: Sector,
    /// Zones that may be open at once; 0 for no limit.
    pub max_open: u32,
    /// Zones that may be active at once; 0 for no limit.
    pub max_active: u32,
}

/// A namespace on one controller.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Namespace {
    /// State of the path.
    pub state: PathState,
    /// The head.
    pub head: Arc<NamespaceHead>,
    /// log2 of the block size in bytes.
    pub lba_shift: u8,
    /// Metadata bytes of a block.
    pub metadata: u16,
    /// Type of protection information; 0 for none.
    pub pi_type: u8,
    /// Its length in bytes.
    pub pi_size: u8,
    /// The guard; 0 for 16 bits.
    pub guard: u8,
    /// Whether metadata follow each block.
    pub extended: bool,
    /// Preferred write granularity in blocks.
    pub write_granularity: u32,
    /// Optimal write size in blocks.
    pub write_size: u32,
    /// Distance between zone starts; 0 without zones.
    pub zone_size: Sector,
    /// Blocks in use.
    pub used: AtomicU64,
    /// Counters.
    pub counters: PathCounters,
}

impl NamespaceLayout for Namespace {
    const NAME: &'static str = "baseline";

    fn new(info: &NamespaceInfo, path: &PathInfo) -> Arc<Self> {
        let head = Arc::new(NamespaceHead {
            ids: info.ids,
            nsid: info.nsid,
            csi: info.csi,
            shared: info.shared,
            capacity: info.capacity,
            max_open: info.zones.map_or(0, |zones| zones.max_open),
            max_active: info.zones.map_or(0, |zones| zones.max_active),
        });
        Arc::new(Namespace {
            state: PathState::new(path),
            head,
            lba_shift: info.lba_shift,
            metadata: info.metadata,
            pi_type: info.pi_type,
            pi_size: info.pi_size,
            guard: info.guard,
            extended: info.extended,
            write_granularity: info.write_granularity,
            write_size: info.write_size,
            zone_size: info.zones.map_or(Sector(0), |zones| zones.size),
            used: AtomicU64::new(info.used),
            counters: PathCounters::default(),
        })
    }

    #[inline(always)]
    fn nsid(&self) -> u32 {
        self.head.nsid
    }

    #[inline(always)]
    fn lba_shift(&self) -> u8 {
        self.lba_shift
    }

    #[inline(always)]
    fn protection(&self) -> Protection {
        Protection::new(self.metadata, self.pi_type)
    }

    fn hot_fields() -> Vec<FieldAccess> {
        hot_fields!(
            Namespace.head: Arc<NamespaceHead>, NamespaceHead.nsid: u32, Namespace.lba_shift: u8,
            Namespace.metadata: u16, Namespace.pi_type: u8,
        )
    }

    fn layouts() -> Vec<StructLayout> {
        let path = struct_layout!(Namespace {
            state,
            head,
            lba_shift,
            metadata,
            pi_type,
            pi_size,
            guard,
            extended,
            write_granularity,
            write_size,
            zone_size,
            used,
            counters,
        });
        let head = struct_layout!(NamespaceHead {
            ids,
            nsid,
            csi,
            shared,
            capacity,
            max_open,
            max_active,
        });
        vec![path, head]
    }
}
